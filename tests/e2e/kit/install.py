# SPDX-License-Identifier: MIT
"""Puts the pinned SDKs under the directory E2E_DIR, once. A changed pin is a changed stamp:
installed anew.
"""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
SDK = os.path.join(HERE, "..", "sdk")
CONFORMANCE = os.path.join(HERE, "..", "conformance")
REFERENCE = os.path.join(HERE, "..", "reference")
_REFERENCE = threading.Lock()  # several tests want them at once
# What npm says when no registry answers, as against one that answers something wrong.
UNREACHABLE = re.compile(r"EAI_AGAIN|ENOTFOUND|ECONN[A-Z]+|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH|\bE50\d\b")


def _stamp(path, names, source=SDK):
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(source, name), "rb") as file:
            digest.update(file.read())
    return os.path.join(path, f".installed-{digest.hexdigest()[:16]}")


def _run(argv, cwd, env=None):
    done = subprocess.run(
        argv, cwd=cwd, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout.decode('utf-8', 'replace')[-600:]}")


def _npm(directory, name, source):
    """Installs what the lock file of `source` pins; the directory of it, or why there is none."""
    if not shutil.which("node") or not shutil.which("npm"):
        return None, "node and npm are not installed"
    path = os.path.join(directory, name)
    files = ["package.json", "package-lock.json"]
    stamp = _stamp(path, files, source)
    if not os.path.exists(stamp):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        for file in files:
            shutil.copy(os.path.join(source, file), path)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], path)
        open(stamp, "w", encoding="utf-8").close()
    return path, None


def node(directory):
    """The directory of the Node packages, or why there is none."""
    return _npm(directory, "node", SDK)


def conformance(directory):
    """The directory of the conformance packages with our programs in it, or why there is none."""
    try:
        path, reason = _npm(directory, "conformance", CONFORMANCE)
    except RuntimeError as error:
        said = UNREACHABLE.search(str(error))
        if not said:
            raise
        return None, f"no registry answers npm ({said.group(0)})"
    if path:
        # Node looks for the SDK beside the program that imports it.
        for name in ("server.mjs", "client.mjs"):
            shutil.copy(os.path.join(CONFORMANCE, name), path)
    return path, reason


def reference_servers(directory):
    """The directory of the official reference servers, or why there is none."""
    with _REFERENCE:
        try:
            return _npm(directory, "reference", REFERENCE)
        except RuntimeError as error:
            said = UNREACHABLE.search(str(error))
            if not said:
                raise
            return None, f"no registry answers npm ({said.group(0)})"


def newer_node(path):
    """A Node that can run what Debian's cannot: the one installed with those packages."""
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), "none")
    own = os.path.join(path, "node_modules", f"node-linux-{machine}", "bin", "node")
    return own if os.path.exists(own) else "node"


def unfit(package, program="node"):
    """Why this Node cannot run that package, by what the package itself says; None when it can."""
    with open(os.path.join(package, "package.json"), encoding="utf-8") as file:
        wanted = json.load(file).get("engines", {}).get("node", ">=0")
    done = subprocess.run([program, "--version"], stdout=subprocess.PIPE, check=True)
    version = done.stdout.decode().strip().lstrip("v")
    least = re.search(r">=\s*(\d+)", wanted)
    if least and int(version.split(".")[0]) < int(least.group(1)):
        return f"{os.path.basename(package)} wants node {wanted}, this is {version}"
    return None


def python(directory):
    """The interpreter of the virtual environment."""
    return _venv(directory, "venv", "requirements.txt")


def python2x(directory):
    """That of version 2 of the Python SDK."""
    return _venv(directory, "venv2", "requirements-2.txt")


def _venv(directory, name, requirements):
    path = os.path.join(directory, name)
    stamp = _stamp(path, [requirements])
    if not os.path.exists(stamp):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(directory, exist_ok=True)
        _run([sys.executable, "-m", "venv", path], directory)
        pip = os.path.join(path, "bin", "pip")
        _run([pip, "install", "-q", "-r", os.path.join(SDK, requirements)], directory)
        open(stamp, "w", encoding="utf-8").close()
    return os.path.join(path, "bin", "python")


def go(directory):
    """The program of the Go SDK, client and server in one, or why there is none."""
    if not shutil.which("go"):
        return None, "go is not installed"
    wanted = re.search(r"^go (\d+)\.(\d+)", open(os.path.join(SDK, "go", "go.mod")).read(), re.M)
    done = subprocess.run(
        ["go", "env", "GOVERSION"], stdout=subprocess.PIPE, env=_go_env(), check=True
    )
    have = re.match(r"go(\d+)\.(\d+)", done.stdout.decode())
    if not have or tuple(map(int, have.groups())) < tuple(map(int, wanted.groups())):
        return None, f"the Go SDK wants {wanted.group(0)}, this is {done.stdout.decode().strip()}"
    path = os.path.join(directory, "go")
    names = [os.path.join("go", name) for name in ("go.mod", "go.sum", "main.go", "server.go")]
    stamp = _stamp(path, names)
    if not os.path.exists(stamp):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        argv = ["go", "build", "-o", os.path.join(path, "hapax-e2e-go"), "."]
        _run(argv, os.path.join(SDK, "go"), _go_env())
        open(stamp, "w", encoding="utf-8").close()
    return os.path.join(path, "hapax-e2e-go"), None


def _go_env():
    return {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly"}
