# SPDX-License-Identifier: MIT
"""How a field case reaches the stub: straight (`bare`) or through Hapax, with the same test text.

`@case("017b_kill_after_write", bare="breaks")` registers `field_017b_kill_after_write`, which
needs Hapax, and a twin `…_bare` that runs without. The twin says what the bare server does to the
promise: "holds" (the test must pass), "breaks" (it must fail, which proves that it can). Without
`bare` there is no twin: the case speaks of things that only Hapax has.
"""

import functools

from kit import processes
from kit.harness import Failure, test
from rawclient import RawClient, code, operation, stub  # noqa: F401


class Way:
    def __init__(self, t, mode):
        self.t, self.mode = t, mode

    @property
    def is_bare(self):
        return self.mode == "bare"

    def argv(self, script=None, *options, wrapper=None, **where):
        server = stub(self.t, script, wrapper)
        return server if self.is_bare else self.t.hapax_argv(server, *options, **where)

    def client(
        self,
        script=None,
        *options,
        version="2025-11-25",
        capabilities=None,
        wrapper=None,
        name=None,
        env=None,
        **where,
    ):
        """A client that has shaken hands with the stub."""
        client = RawClient(
            self.t, self.argv(script, *options, wrapper=wrapper, **where), name=name, env=env
        )
        client.initialize(version, capabilities)
        return client

    def again(self, client, **options):
        """The same command anew: a client that reconnects."""
        fresh = RawClient(self.t, client.argv, **options)
        fresh.initialize()
        return fresh

    def server_pid(self, start=-1):
        """The pid of the stub's n-th start, as the stub wrote it, checked against /proc."""
        pid = int(self.t.lines("starts")[start])
        line = processes.command_line(pid)
        if not any("stub_server.py" in word for word in line):
            raise Failure(f"pid {pid} is {line}, not the stub")
        return pid

    def kill_server(self):
        pid = self.server_pid()
        processes.kill(pid, "stub_server.py")
        processes.wait_gone(pid)

    def keeper(self, client):
        family = self.t.family(client.pid)
        if len(family.keepers) != 1:
            raise Failure(f"wanted one keeper: {family}")
        return family.keepers[0]

    def poll(self, client, tool="charge", args=None, key=None, seconds=20.0):
        """Repeats a call until it has a final answer, as a patient client does; returns that
        result.
        """
        found = []

        def asked():
            found.append(client.result(client.call(tool, args, key=key), seconds))
            return code(found[-1]) not in ("BUSY", "OUTCOME_UNKNOWN")

        try:
            self.t.wait(asked, "a final answer", seconds)
        except Failure as failure:
            raise Failure(f"{failure}; last answer {found[-1:]}") from None
        return found[-1]


def case(title, bare=None, suite="field", prefix="field_"):
    def register(function):
        name = prefix + title

        @functools.wraps(function)
        def through(t):
            function(t, Way(t, "hapax"))

        def straight(t):
            try:
                function(t, Way(t, "bare"))
            except AssertionError as failure:
                if bare == "holds":
                    raise
                t.note = str(failure)
                t.is_traffic_judged = False
                return
            if bare == "breaks":
                raise Failure("the bare server kept the promise, so this test proves nothing")

        test(suite, name, needs_hapax=True)(through)
        if bare:
            test(suite, name + "_bare")(straight)
        return function

    return register


def assert_unknown(t, result, what):
    t.equal(
        (result.get("isError"), code(result)), (True, "OUTCOME_UNKNOWN"), f"{what}, of {result}"
    )
    envelope = operation(result)
    t.equal(envelope.get("new_key_allowed"), False, f"{what}: new_key_allowed")
    t.true("structuredContent" not in result, f"{what}: our answers carry no structuredContent")
    t.true(envelope.get("id"), f"{what}: names the operation")
    return envelope


def without_ours(result):
    """A parsed result as the server sent it: without our member, without an emptied _meta."""
    copy = dict(result)
    if "_meta" in copy:
        copy["_meta"] = {
            name: value for name, value in copy["_meta"].items() if name != "dev.hapax/operation"
        }
        if not copy["_meta"]:
            del copy["_meta"]
    return copy
