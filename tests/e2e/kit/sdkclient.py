# SPDX-License-Identifier: MIT
"""A real SDK client in a process of its own, given orders line by line (see sdk/driver.mjs)."""

import json
import os
import subprocess
import threading
import time

from .harness import Failure

SDK = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sdk")


class SdkClient:
    def __init__(self, test, argv):
        self.test = test
        self.refs = 0
        self.connections = 0
        self.elicit = None  # words of a person at this client, for the questions that it is asked
        self.answers = {}
        self.changed = threading.Condition()
        self.log = open(test.path("client.err"), "ab")
        self.process = subprocess.Popen(
            argv, env=test.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log
        )
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        test.at_end(self.end)

    def _read(self):
        for line in self.process.stdout:
            answer = json.loads(line)
            with self.changed:
                self.answers[answer["ref"]] = answer
                self.changed.notify_all()
        with self.changed:
            self.process = None
            self.changed.notify_all()

    def order(self, do, **arguments):
        self.refs += 1
        self.process.stdin.write(
            json.dumps({"ref": self.refs, "do": do, **arguments}).encode() + b"\n"
        )
        self.process.stdin.flush()
        return self.refs

    def answer(self, ref, seconds=45.0):
        deadline = time.monotonic() + seconds
        with self.changed:
            while ref not in self.answers:
                if self.process is None:
                    raise Failure("the client program ended by itself; see client.err")
                if (
                    not self.changed.wait(max(0.0, deadline - time.monotonic()))
                    and time.monotonic() >= deadline
                ):
                    raise Failure(f"the client had no answer to order {ref} in {seconds:g} s")
            return self.answers[ref]

    def connect(self, argv):
        """Connects and returns the pid of the process that the SDK started."""
        self.connections += 1
        wire = self.test.path(f"wire/client-{self.connections}.jsonl")
        keep = {name: value for name, value in self.test.env.items() if name != "PATH"}
        answer = self.answer(
            self.order(
                "connect", command=argv[0], args=argv[1:], env=keep, wire=wire, elicit=self.elicit
            )
        )
        if "error" in answer:
            raise Failure(f"could not connect: {answer['error']}")
        return answer["ok"]["pid"]

    def forget(self):
        """Closes what is connected, however it ends."""
        self.answer(self.order("close"))

    def call(self, tool="charge", args=None, **options):
        return self.order("call", tool=tool, args=args or {}, **options)

    def result(self, ref):
        answer = self.answer(ref)
        if "error" in answer:
            raise Failure(f"call {ref} failed: {answer['error']}")
        return answer["ok"]

    def error(self, ref):
        answer = self.answer(ref)
        if "ok" in answer:
            raise Failure(f"call {ref} was answered: {str(answer['ok'])[:300]}")
        return answer["error"]

    def wire(self, connection=None):
        """The messages of one connection, as the client saw them: (side, message)."""
        name = f"wire/client-{connection or self.connections}.jsonl"
        records = [json.loads(line) for line in self.test.lines(name)]
        return [(record["from"], json.loads(record["line"])) for record in records]

    def kill(self):
        """SIGKILL of the program, and it died of that."""
        process = self.process
        process.kill()
        self.test.equal(process.wait(), -9, "how the client ended")
        self.reader.join(10)

    def end(self):
        process = self.process
        if process is None:
            return
        try:
            self.answer(self.order("close"), 15)
            self.order("quit")
        except (Failure, OSError):
            pass
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self.log.close()
