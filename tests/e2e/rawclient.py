# SPDX-License-Identifier: MIT
"""A client of lines and bytes, for what no SDK does: half lines, ids of any type, a silent retry,
a slow reader, ends closed one by one. It keeps every received line as it came, and records both
directions.
"""

import json
import os
import select
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "fixtures"))
import rawjson  # noqa: E402

from kit import processes  # noqa: E402
from kit.harness import Failure  # noqa: E402

STUB = os.path.join(HERE, "..", "fixtures", "stub_server.py")
OPERATION = "dev.hapax/operation"
TAPED_MAX = 1 << 24  # longer lines are recorded by their beginning
KEY = "dev.hapax/idempotencyKey"


def stub(t, script=None, wrapper=None):
    """The command of a scripted stub; `wrapper` puts it under a shell, as npx or a start script
    would.
    """
    path = t.path("script.json")
    # In one step: a stub may be starting, and reads it; and threads of a test may do so at once.
    mine = f"{path}.{threading.get_ident()}"
    with open(mine, "w", encoding="utf-8") as file:
        json.dump(script or {}, file)
    os.replace(mine, path)
    command = [sys.executable, "-S", "-E", STUB, t.dir, f"@{path}"]
    if wrapper:
        return ["sh", "-c", " ".join(command) + "; exit $?"]
    return command


class Message:
    """A received line and what it says."""

    def __init__(self, line):
        self.line = line
        try:
            self.json = json.loads(line)
        except ValueError:
            self.json = None

    def get(self, name):
        return self.json.get(name) if isinstance(self.json, dict) else None

    def __repr__(self):
        return repr(self.line[:500])


class RawClient:
    def __init__(self, t, argv, name=None, stderr=None, env=None):
        self.t = t
        self.argv = argv
        self.name = name or f"raw-{len(os.listdir(t.path('wire')))}-{time.monotonic_ns() % 100000}"
        self.messages = []
        self.ids = 0
        self.changed = threading.Condition()
        self.is_paused = False
        self.is_closed = False
        self.woken, self.wake = os.pipe()
        self.ended = False
        self.chunk_max = 1 << 16
        self.stderr_path = stderr or t.path(f"{self.name}.err")
        self.tape = open(t.path(f"wire/client-{self.name}.jsonl"), "a", encoding="utf-8")
        self.taping = threading.Lock()
        with open(self.stderr_path, "ab") as err:
            self.process = subprocess.Popen(
                argv,
                env=env or t.env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=err,
                bufsize=0,
                start_new_session=True,
            )
        self.pid = self.process.pid
        self.stdin, self.stdout = self.process.stdin.fileno(), self.process.stdout.fileno()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        t.at_end(self.end)

    # Bytes --------------------------------------------------------------------------------------

    def _record(self, sender, line, odd=False):
        record = {"from": sender, "at": "client"}
        if len(line) > TAPED_MAX:
            line, odd = line[:200], True
        try:
            record["line"] = line.decode("utf-8")
        except UnicodeDecodeError:
            record["hex"] = line.hex()
        if odd:
            record["odd"] = True
        with self.taping:
            if not self.tape.closed:
                self.tape.write(json.dumps(record) + "\n")
                self.tape.flush()

    def _read(self):
        parts = []
        while True:
            # Never blocked in read itself: a blocked reader would hold the pipe open past
            # close_stdout().
            ready, _, _ = select.select(
                [self.woken] + ([] if self.is_paused else [self.stdout]), [], []
            )
            if self.woken in ready:
                os.read(self.woken, 1)
                if self.is_closed:
                    return
                continue
            chunk = os.read(self.stdout, self.chunk_max)
            if not chunk:
                break
            *lines, rest = chunk.split(b"\n")
            for line in lines:
                whole, parts = b"".join(parts) + line, []
                self._record("server", whole)
                with self.changed:
                    self.messages.append(Message(whole))
                    self.changed.notify_all()
            if rest:
                parts.append(rest)
        with self.changed:
            self.unfinished = b"".join(parts)
            self.ended = True
            self.changed.notify_all()

    def send_bytes(self, data, odd=True):
        """Writes bytes as they are. `odd`: broken on purpose, not to be judged by the schemas."""
        for line in data.rstrip(b"\n").split(b"\n"):
            self._record("client", line, odd)
        at = 0
        while at < len(data):
            try:
                at += os.write(self.stdin, data[at:])
            except BrokenPipeError:
                raise Failure("nobody reads what the client writes") from None

    def send(self, message, odd=False):
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        self.send_bytes(line + b"\n", odd)

    # Messages -----------------------------------------------------------------------------------

    def request(self, method, params=None, ident=None, odd=False):
        if ident is None:
            self.ids += 1
            ident = self.ids
        message = {"jsonrpc": "2.0", "id": ident, "method": method}
        if params is not None:
            message["params"] = params
        self.send(message, odd)
        return ident

    def notify(self, method, params=None):
        self.send(
            {
                "jsonrpc": "2.0",
                "method": method,
                **({"params": params} if params is not None else {}),
            }
        )

    def call_line(self, tool, raw_arguments, ident, meta=None):
        """The bytes of a tools/call with these arguments, untouched."""
        return (
            b'{"jsonrpc":"2.0","id":'
            + json.dumps(ident).encode()
            + b',"method":"tools/call","params":{"name":'
            + json.dumps(tool).encode()
            + b',"arguments":'
            + raw_arguments
            + (b',"_meta":' + json.dumps(meta).encode() if meta else b"")
            + b"}}"
        )

    def call(
        self, tool="charge", args=None, key=None, ident=None, meta=None, extra=None, odd=False
    ):
        meta = {**(meta or {}), **({KEY: key} if key is not None else {})}
        params = {"name": tool, "arguments": {} if args is None else args, **(extra or {})}
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params, ident, odd)

    def cancel(self, ident, reason=None):
        params = {"requestId": ident}
        if reason is not None:
            params["reason"] = reason
        self.notify("notifications/cancelled", params)

    def initialize(self, version="2025-11-25", capabilities=None, seconds=20.0):
        ident = self.request(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": capabilities or {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        )
        answer = self.answer(ident, seconds)
        if answer.get("result") is None:
            raise Failure(f"initialize was answered {answer}")
        self.notify("notifications/initialized")
        return answer.json["result"]

    # Answers ------------------------------------------------------------------------------------

    def answers(self, ident):
        """All answers to this id; ids of another type are another id."""
        with self.changed:
            return [
                one
                for one in self.messages
                if isinstance(one.json, dict)
                and "method" not in one.json
                and one.get("id") == ident
                and type(one.get("id")) is type(ident)
            ]

    def answer(self, ident, seconds=20.0):
        deadline = time.monotonic() + seconds
        seen = 0
        with self.changed:
            while True:
                fresh, seen = self.messages[seen:], len(self.messages)
                for one in fresh:
                    if (
                        isinstance(one.json, dict)
                        and "method" not in one.json
                        and one.get("id") == ident
                        and type(one.get("id")) is type(ident)
                    ):
                        return one
                if self.ended:
                    raise Failure(f"the connection ended before request {ident!r} was answered")
                if time.monotonic() >= deadline:
                    raise Failure(
                        f"request {ident!r} was not answered in {seconds:g} s; last: {self.messages[-2:]}"
                    )
                self.changed.wait(deadline - time.monotonic())

    def result(self, ident, seconds=20.0):
        answer = self.answer(ident, seconds)
        if answer.get("result") is None:
            raise Failure(f"request {ident!r} was answered {answer}, not by a result")
        return answer.json["result"]

    def error(self, ident, seconds=20.0):
        answer = self.answer(ident, seconds)
        if answer.get("error") is None:
            raise Failure(f"request {ident!r} was answered {answer}, not by an error")
        return answer.json["error"]

    def wait_message(self, fits, what, seconds=20.0):
        return self.t.wait(
            lambda: next((one for one in list(self.messages) if fits(one)), None), what, seconds
        )

    def notifications(self, method):
        return [one.json["params"] for one in list(self.messages) if one.get("method") == method]

    def wait_eof(self, seconds=10.0):
        self.t.wait(lambda: self.ended, "end of file on the client's side", seconds)

    # Ends ---------------------------------------------------------------------------------------

    def close_stdin(self):
        if self.stdin is not None:
            self.process.stdin.close()
            self.stdin = None

    def pause(self, is_paused=True):
        """A reader that does not read; `pause(False)` goes on."""
        self.is_paused = is_paused
        os.write(self.wake, b"p")

    def close_stdout(self):
        """Closes our read end."""
        self.is_closed = True
        os.write(self.wake, b"c")
        self.reader.join(5)
        self.process.stdout.close()

    def kill(self, expected=None):
        """SIGKILL to the process that we started, after a look at what it is."""
        processes.kill(self.pid, expected or self.argv[0])
        self.process.wait()

    def end(self):
        """Ends the connection as the SDKs do: end of file, two seconds, TERM, two seconds, KILL."""
        self.close_stdin()
        for signal_number in (signal.SIGTERM, signal.SIGKILL):
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:
                self.process.send_signal(signal_number)
        self.process.wait()
        if self.is_paused:
            self.pause(False)
        self.reader.join(5)
        with self.taping:
            self.tape.close()
        self.process.stdout.close()
        os.close(self.wake)
        os.close(self.woken)


def operation(result):
    """Our envelope in a result."""
    return (result.get("_meta") or {}).get(OPERATION) or {}


def code(result):
    return operation(result).get("code")


def text(result):
    return result["content"][0]["text"]
