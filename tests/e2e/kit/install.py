# SPDX-License-Identifier: MIT
"""Puts the pinned SDKs under the directory E2E_DIR, once. A changed pin is a changed stamp:
installed anew.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SDK = os.path.join(HERE, "..", "sdk")


def _stamp(path, names):
    digest = hashlib.sha256()
    for name in names:
        with open(os.path.join(SDK, name), "rb") as file:
            digest.update(file.read())
    return os.path.join(path, f".installed-{digest.hexdigest()[:16]}")


def _run(argv, cwd):
    done = subprocess.run(
        argv, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(argv)}: {done.stdout.decode('utf-8', 'replace')[-600:]}")


def node(directory):
    """The directory of the Node packages, or why there is none."""
    if not shutil.which("node") or not shutil.which("npm"):
        return None, "node and npm are not installed"
    path = os.path.join(directory, "node")
    stamp = _stamp(path, ["package.json", "package-lock.json"])
    if not os.path.exists(stamp):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(path)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(SDK, name), path)
        _run(["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"], path)
        open(stamp, "w", encoding="utf-8").close()
    return path, None


def unfit(package):
    """Why this Node cannot run that package, by what the package itself says; None when it can."""
    with open(os.path.join(package, "package.json"), encoding="utf-8") as file:
        wanted = json.load(file).get("engines", {}).get("node", ">=0")
    done = subprocess.run(["node", "--version"], stdout=subprocess.PIPE, check=True)
    version = done.stdout.decode().strip().lstrip("v")
    least = re.search(r">=\s*(\d+)", wanted)
    if least and int(version.split(".")[0]) < int(least.group(1)):
        return f"{os.path.basename(package)} wants node {wanted}, this is {version}"
    return None


def python(directory):
    """The interpreter of the virtual environment."""
    path = os.path.join(directory, "venv")
    stamp = _stamp(path, ["requirements.txt"])
    if not os.path.exists(stamp):
        shutil.rmtree(path, ignore_errors=True)
        os.makedirs(directory, exist_ok=True)
        _run([sys.executable, "-m", "venv", path], directory)
        pip = os.path.join(path, "bin", "pip")
        _run([pip, "install", "-q", "-r", os.path.join(SDK, "requirements.txt")], directory)
        open(stamp, "w", encoding="utf-8").close()
    return os.path.join(path, "bin", "python")
