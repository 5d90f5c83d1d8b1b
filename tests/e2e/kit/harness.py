# SPDX-License-Identifier: MIT
"""Registry and surroundings of the end-to-end tests.

A test is a function of one `Test`: its own directory, its own mark in the environment, its own
ledger. When it ends, its processes are gone within a bound or it has failed; its recorded traffic
satisfies the schemas or it has failed. Nothing here sleeps to let something happen: `Test.wait`
polls a condition up to a deadline.
"""

import json
import os
import shutil
import subprocess
import threading
import time
import traceback
import uuid

from . import processes

TESTS = {}


class Skip(Exception):
    """The reason why a test cannot run here."""


class Failure(AssertionError):
    """What was wanted and what was there."""


def test(suite, name=None, needs_hapax=False, fields=(), **params):
    """Registers a test. `fields`: numbers of the field cases that it covers (its name carries
    one).
    """

    def register(function):
        title = name or function.__name__
        assert title not in TESTS, f"two tests named {title}"
        TESTS[title] = {
            "name": title,
            "suite": suite,
            "run": function,
            "needs_hapax": needs_hapax,
            "fields": tuple(fields),
            "params": params,
        }
        return function

    return register


class Surroundings:
    """What all tests share: where things are installed, the built program, the validator."""

    def __init__(self, directory, hapax):
        self.directory = directory
        self.hapax = hapax
        self.node = self.node_reason = self.python = None
        self.conformance = self.conformance_reason = None
        self.python2x = self.go = self.go_reason = None
        self._validator = None
        self._lock = threading.Lock()

    def problems(self, files):
        with self._lock:
            if self._validator is None:
                script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "validate.py")
                self._validator = subprocess.Popen(
                    [self.python, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
                )
            self._validator.stdin.write(json.dumps({"files": files}).encode() + b"\n")
            self._validator.stdin.flush()
            answer = json.loads(self._validator.stdout.readline())
            return answer["problems"], answer["count"]

    def close(self):
        if self._validator:
            self._validator.stdin.close()
            self._validator.wait()


class Test:
    def __init__(self, surroundings, entry):
        self.surroundings = surroundings
        self.name = entry["name"]
        self.params = entry["params"]
        self.mark = uuid.uuid4().hex
        self.dir = os.path.join(surroundings.directory, "tmp", self.name)
        shutil.rmtree(self.dir, ignore_errors=True)
        os.makedirs(os.path.join(self.dir, "wire"))
        os.makedirs(os.path.join(self.dir, "home"))
        self.ledger = os.path.join(self.dir, "ledger")
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": os.path.join(self.dir, "home"),
            processes.MARK: self.mark,
            "LANG": "C.UTF-8",
        }
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS"):
            if name in os.environ:
                self.env[name] = os.environ[name]
        self._cleanups = []
        self.grace_seconds = 5.0
        self.note = ""
        self.is_traffic_judged = True

    # What is there, what is waited for ----------------------------------------------------------

    def path(self, name):
        return os.path.join(self.dir, name)

    def remove(self, name):
        os.unlink(self.path(name))

    def touch(self, name):
        with open(self.path(name), "a", encoding="utf-8"):
            pass

    def lines(self, name):
        """The whole lines of a file of this test; a file that is not there has none."""
        try:
            with open(self.path(name), "rb") as file:
                return file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def effects(self, tool=None):
        found = [json.loads(line) for line in self.lines("effects")]
        return [one for one in found if tool is None or one.get("tool") == tool]

    def server_lines(self):
        """The lines that servers wrote so far, by their own record."""
        wire = self.path("wire")
        names = [name for name in os.listdir(wire) if name.startswith("server-")]
        return [
            line
            for name in names
            for line in self.lines(f"wire/{name}")
            if b'"from": "server"' in line
        ]

    def wait(self, condition, what, seconds=20.0):
        deadline = time.monotonic() + seconds
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > deadline:
                raise Failure(f"waited {seconds:g} s for {what}")
            time.sleep(0.01)

    @staticmethod
    def clock():
        return time.monotonic()

    def wait_effects(self, count, seconds=20.0):
        self.wait(
            lambda: len(self.effects()) >= count,
            f"{count} effects, there are {len(self.effects())}",
            seconds,
        )

    def equal(self, got, wanted, what):
        if got != wanted:
            raise Failure(
                f"{what}: got {str(got)[:600]!r}, wanted {str(wanted)[:600]!r}"
                if isinstance(got, (bytes, str))
                else f"{what}: got {got}, wanted {wanted}"
            )

    def true(self, fact, what):
        if not fact:
            raise Failure(what)

    # Through Hapax ------------------------------------------------------------------------------

    def hapax_argv(self, server, *options, ledger=None, name="e2e", orphan="1s"):
        bounds = (
            []
            if any(option == "--orphan-timeout" for option in options)
            else ["--orphan-timeout", orphan]
        )
        return [
            self.surroundings.hapax,
            "run",
            "--ledger",
            ledger or self.ledger,
            "--name",
            name,
            *bounds,
            *options,
            "--",
            *server,
        ]

    def ledger_files(self):
        """The files of the ledger, those in its subdirectories as well."""
        return sorted(
            os.path.join(directory, name)
            for directory, _, names in os.walk(self.ledger)
            for name in names
        )

    def is_in_ledger(self, data):
        """Whether these bytes stand in any of its files."""
        for path in self.ledger_files():
            try:
                with open(path, "rb") as file:
                    if data in file.read():
                        return True
            except OSError:  # a socket, or gone since it was listed
                pass
        return False

    def database(self):
        """The SQLite file among them."""
        for path in self.ledger_files():
            with open(path, "rb") as file:
                if file.read(15) == b"SQLite format 3":
                    return path
        raise Failure(f"no database among {self.ledger_files()}")

    def family(self, front=None):
        return processes.Family(self.mark, self.surroundings.hapax, self.ledger, front)

    def ops(self, *arguments):
        """`hapax ops …`: exit status, standard output, standard error."""
        return self.hapax("ops", *arguments)

    def hapax(self, *arguments):
        done = subprocess.run(
            [self.surroundings.hapax, *arguments],
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def operations(self):
        """All operations of this test's ledger, as `hapax ops export` writes them (JSON lines)."""
        status, out, err = self.ops("export", "--ledger", self.ledger)
        self.equal(status, 0, f"exit status of ops export ({err[-300:]!r})")
        return [json.loads(line) for line in out.splitlines() if line.strip()]

    def whole_export(self):
        """What `hapax ops export` writes when the gateway has gone: then it changes no more."""

        def exported():
            status, out, err = self.ops("export", "--ledger", self.ledger)
            self.equal(status, 0, f"exit status of ops export ({err[-300:]!r})")
            # A process that ends has lost its name before its locks.
            return None if b'"owner":"alive"' in out else out

        return self.wait(exported, "the owner to be dead")

    def wait_repeats(self, count):
        """Until the ledger has seen so many repeats: they have joined, not only been read."""
        self.wait(
            lambda: sum(op["repeats"] for op in self.operations()) >= count, f"{count} repeats"
        )

    # Ending -------------------------------------------------------------------------------------

    def at_end(self, action):
        self._cleanups.append(action)

    def finish(self):
        """Ends what the test started; returns what was wrong with that."""
        faults = []
        for action in reversed(self._cleanups):
            try:
                action()
            except Exception as error:  # a cleanup that fails must not hide the next one
                faults.append(f"cleanup: {error}")
        deadline = time.monotonic() + self.grace_seconds
        # Nothing in two looks: a process in the middle of its exec has no environment for a
        # moment.
        left, before = processes.marked(self.mark), [0]
        while (left or before) and time.monotonic() < deadline:
            time.sleep(0.02)
            left, before = processes.marked(self.mark), left
        for pid in left:
            line = " ".join(processes.command_line(pid))[:160]
            faults.append(f"left behind after {self.grace_seconds:g} s: {pid} {line}")
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass
        return faults

    def check_traffic(self):
        wire = self.path("wire")
        files = sorted(os.path.join(wire, name) for name in os.listdir(wire))
        problems, count = self.surroundings.problems(files)
        return problems[:5], count


def run_one(surroundings, entry):
    """Returns ("ok" | "not ok" | "skip", why, seconds)."""
    begin = time.monotonic()
    if entry["needs_hapax"] and not surroundings.hapax:
        return "skip", "hapax is not built", 0.0
    test_run = skipped = None
    faults = []
    try:
        test_run = Test(surroundings, entry)
        entry["run"](test_run, **entry["params"])
    except Skip as reason:
        skipped = str(reason)  # what it had started ends all the same
    except AssertionError as error:
        faults.append(str(error) or traceback.format_exc().strip().splitlines()[-3].strip())
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        faults.append(
            f"{type(error).__name__}: {error} ({os.path.basename(where.filename)}:{where.lineno})"
        )
    faults += test_run.finish() if test_run else []
    if test_run and not faults and test_run.is_traffic_judged:
        problems, _ = test_run.check_traffic()
        faults += problems
    if test_run and not faults and not os.environ.get("E2E_KEEP"):
        shutil.rmtree(test_run.dir, ignore_errors=True)
    seconds = time.monotonic() - begin
    if faults:
        return "not ok", " | ".join(faults), seconds
    if skipped is not None:
        return "skip", skipped, 0.0
    note = test_run.note if os.environ.get("E2E_NOTES") else ""
    return "ok", note, seconds
