# SPDX-License-Identifier: MIT
"""Tools that a server runs as tasks of its own (2025-11-25), called by clients that know of none: a
server of the official TypeScript SDK, over stdio and over HTTP.
"""

import os

from kit import install, processes
from kit.harness import Failure, Skip, test
from kit.sdkclient import SDK
from rawclient import RawClient
from .sdk_http import WebServer
from .way import assert_unknown, code, without_ours

KEY = "0190a0a0-0000-7000-8000-00000000c0"
WAYS = ("stdio", "http")


def server_argv(t):
    around = t.surroundings
    if not around.node:
        raise Skip(around.node_reason)
    package = os.path.join(around.node, "node_modules", "sdk-newest")
    node = install.newer_node(around.node)
    reason = install.unfit(package, node)
    if reason:
        raise Skip(reason)
    return [node, os.path.join(SDK, "task_server.mjs"), package, t.dir]


class Site:
    def __init__(self, t, way):
        self.t, self.way, self.argv = t, way, server_argv(t)
        self.server = WebServer(t, [*self.argv, "http"]) if way == "http" else None

    def client(self, *options, capabilities=None, env=None):
        if self.server:
            url = f"http://127.0.0.1:{self.server.port}/mcp"
            argv = self.t.hapax_argv([url], *options)
        else:
            argv = self.t.hapax_argv(self.argv, *options)
        client = RawClient(self.t, argv, env=env)
        client.initialize("2025-11-25", capabilities)
        client.answer(client.request("tools/list"))
        return client

    def tasks_asked(self):
        return [effect.get("task") for effect in self.t.effects()]


def both(title):
    def register(run):
        for way in WAYS:
            test("tasks", f"tasks_{title}_{way}", needs_hapax=True)(
                lambda t, way=way: run(t, Site(t, way))
            )
        return run

    return register


@test("tasks", "tasks_a_plain_call_bare")
def plain_bare(t):
    """What a client without tasks meets: the tool cannot be called at all."""
    t.is_traffic_judged = False
    client = RawClient(t, server_argv(t))
    client.initialize("2025-11-25")
    told = client.answer(client.call("charge"))
    t.equal(told.get("error")["code"], -32601, "the answer")
    t.equal(len(t.effects()), 0, "effects")


@both("a_plain_call")
def plain(t, site):
    client = site.client()
    first = client.result(client.call("charge", {"n": 1}, key=KEY + "01"))
    again = client.result(client.call("charge", {"n": 1}, key=KEY + "01"))
    t.true("receipt" in str(first), f"the result: {first}")
    t.equal(without_ours(again), without_ours(first), "the replay")
    t.equal(site.tasks_asked(), [{"ttl": 86400000}], "what the server was asked for")


@both("reading_as_a_task")
def reading(t, site):
    """What only reads passes through, but not when it can be had as a task alone."""
    client = site.client()
    told = client.result(client.call("look"))
    t.true("receipt" in str(told), f"the result: {told}")


@both("a_task_that_fails")
def failing(t, site):
    client = site.client()
    told = client.result(client.call("charge", {"fail": True}, key=KEY + "02"))
    t.equal(told.get("isError"), True, "isError")
    t.true("receipt" in str(told), f"the result: {told}")
    t.equal(code(told), None, "a word of ours")
    t.equal(len(t.effects()), 1, "effects")


@both("settings")
def settings(t, site):
    site_client = site.client()
    site_client.result(site_client.call("maybe", {"n": 1}))
    offered = site.client("--tool", "maybe: tasks=offered")
    told = offered.result(offered.call("maybe", {"n": 2}))
    never = site.client("--tool", "charge: tasks=never")
    refused = never.answer(never.call("charge", {"n": 3}))
    t.true("receipt" in str(told), f"the result: {told}")
    t.equal(refused.get("error")["code"], -32601, "the server's own answer")
    t.equal(site.tasks_asked(), [None, {"ttl": 86400000}], "what the server was asked for")


@both("keeper_killed")
def keeper_killed(t, site):
    """The process after it asks for the task that the ledger names. Over stdio the tasks die with their
    server, and that is told as it is.
    """
    client = site.client()
    client.call("charge", {"slow": True}, key=KEY + "03")
    t.wait(lambda: len(t.effects()) == 1, "the effect")
    # It is asked for when its handle is in the ledger, and not before.
    t.wait(lambda: t.lines("looked"), "the task is asked for")
    keepers = t.family(client.pid).keepers
    processes.kill(keepers[0], t.surroundings.hapax)
    client.wait_eof(5)
    fresh = site.client()
    told = fresh.call("charge", {"slow": True}, key=KEY + "03")
    t.touch("release")
    result = fresh.result(told)
    if site.way == "http":
        t.true("receipt" in str(result) and code(result) is None, f"the real result: {result}")
    else:
        assert_unknown(t, result, "the answer")
    t.equal(len(t.effects()), 1, "effects")


def killed_at(point):
    @test("tasks", f"tasks_killed_at_{point.replace('-', '_')}", needs_hapax=True)
    def run(t):
        """Accepted, and the handle not yet in the ledger, or just there."""
        site = Site(t, "http")
        client = site.client(env={**t.env, "HAPAX_CRASH_AT": point})
        client.call("charge", {"n": 1}, key=KEY + "06")
        try:
            client.wait_eof(10)
        except Failure:
            raise Skip("built without crash_points") from None
        fresh = site.client()
        told = fresh.result(fresh.call("charge", {"n": 1}, key=KEY + "06"))
        if point == "task-kept":
            t.true("receipt" in str(told) and code(told) is None, f"the real result: {told}")
        else:
            assert_unknown(t, told, "the answer")
        t.equal(len(t.effects()), 1, "effects")


killed_at("task-unkept")
killed_at("task-kept")


@both("asked_in_a_task")
def asked(t, site):
    """A question that a task has for a person reaches the client whose call it is."""
    client = site.client(capabilities={"elicitation": {"form": {}}})
    call = client.call("charge", {"ask": True})
    question = client.wait_message(
        lambda message: message.get("method") == "elicitation/create", "the question"
    )
    client.send({"jsonrpc": "2.0", "id": question.json["id"], "result": {"action": "accept", "content": {}}})
    told = client.result(call)
    t.true("accept" in str(told), f"the result: {told}")
    t.equal(len(t.effects()), 1, "effects")


@test("tasks", "tasks_progress_of_a_task_stdio", needs_hapax=True)
def progress(t):
    """Over HTTP this SDK has no stream for it, once the task is accepted."""
    client = Site(t, "stdio").client()
    call = client.call("charge", {"steps": 3}, meta={"progressToken": "mine"})
    client.result(call)
    steps = client.notifications("notifications/progress")
    t.equal([step["progress"] for step in steps], [1, 2, 3], "progress")
    t.equal({step["progressToken"] for step in steps}, {"mine"}, "its token")


@both("cancelled_by_a_person")
def cancelled(t, site):
    """A task is stopped by tasks/cancel; that it was says nothing of what it did."""
    client = site.client()
    call = client.call("charge", {"slow": True}, key=KEY + "04")
    t.wait(lambda: t.lines("looked"), "the task is asked for")
    client.cancel(call, "user pressed Esc")
    if site.way == "stdio":
        t.wait(lambda: b"tasks/cancel" in b"".join(t.lines("heard")), "the task is cancelled")
    again = client.result(client.call("charge", {"slow": True}, key=KEY + "04"))
    assert_unknown(t, again, "the answer")
    t.equal(len(t.effects()), 1, "effects")


@both("server_killed")
def server_killed(t, site):
    client = site.client()
    call = client.call("charge", {"slow": True}, key=KEY + "05")
    t.wait(lambda: len(t.effects()) == 1, "the effect")
    if site.server:
        site.server.kill()
        site.server.start()
    else:
        processes.kill(t.effects()[0]["pid"], "task_server")
    assert_unknown(t, client.result(call), "the answer")
    t.equal(len(t.effects()), 1, "effects")
