# SPDX-License-Identifier: MIT
"""The official SDKs as clients over Streamable HTTP, each with a server of the same SDK, three ways:

  bare   straight to the server over HTTP; must show the fault that the promise is about
  stdio  `hapax serve -- SERVER`
  http   `hapax serve URL` before the server of `bare`

A proxy stands before what the client speaks to: it reads along, and cuts. Before an effect is counted
the test has seen attempt 1 fail and has checked whom it killed.
"""

import json
import os
import re
import subprocess

from kit import install, processes
from kit.harness import Failure, Skip, test
from kit.sdkclient import SDK, SdkClient
from kit.webproxy import CALL, CANCEL, WebProxy
from webclient import Serve
from .way import assert_unknown, without_ours

TYPESCRIPT = {"ts130": "sdk-1-30", "ts132": "sdk-newest", "ts24": "@modelcontextprotocol"}
SDKS = (*TYPESCRIPT, "py129", "py23", "go18")
WAYS = ("bare", "stdio", "http")
KEY = "018f6f2e-7c1a-7000-8000-0000000000"

# What each does by itself, measured; docs/clients.md tells it to people, these tests keep it true.
CANCELS_ON_TIMEOUT = {"ts130", "ts132", "ts24", "py23", "go18"}
RESUMES = {"ts130", "ts132", "ts24", "py129", "py23", "go18"}
INITIALIZES_AGAIN = set()
# Sends nothing while a notification is on its way, so no retry of it overtakes its cancel.
SENDS_IN_TURN = {"py23"}
# A connection that breaks before a response ends the whole client, not only the call.
ENDS_WITH_ITS_CONNECTION = {"py129", "py23"}


def programs(t, sdk):
    """argv of the client and of the server."""
    around = t.surroundings
    if sdk in TYPESCRIPT:
        if not around.node:
            raise Skip(around.node_reason)
        package = os.path.join(around.node, "node_modules", TYPESCRIPT[sdk])
        client, server = package, package
        if sdk == "ts24":
            client, server = os.path.join(package, "client"), os.path.join(package, "server")
        node = install.newer_node(around.node)  # servers over HTTP want a global `crypto`
        reason = install.unfit(client, node)
        if reason:
            raise Skip(reason)
        driver = [node, os.path.join(SDK, "driver.mjs"), client]
        return driver, [node, os.path.join(SDK, "server.mjs"), server, t.dir]
    if sdk == "go18":
        if not around.go:
            raise Skip(around.go_reason)
        return [around.go, "client"], [around.go, "server", t.dir]
    python = around.python if sdk == "py129" else around.python2x
    return [python, os.path.join(SDK, "driver.py")], [python, os.path.join(SDK, "server.py"), t.dir]


class WebServer:
    """A server of an SDK over HTTP, at one port for all its starts."""

    def __init__(self, t, argv):
        self.t, self.argv, self.port, self.process = t, argv, 0, None
        t.at_end(self.end)
        self.start()

    def start(self):
        self.process = subprocess.Popen(
            self.argv,
            env={**self.t.env, "PORT": str(self.port)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=open(self.t.path("server.err"), "ab"),
        )
        line = self.process.stdout.readline()
        if not line:
            raise Failure("the server did not start; see server.err")
        self.port = int(line)

    def kill(self):
        processes.kill(self.process.pid, "server")
        self.t.equal(self.process.wait(), -9, "how the server ended")

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdin.close()
        self.process.stdout.close()


class Bench:
    def __init__(self, t, sdk, way, events=False, options=()):
        self.t, self.sdk, self.way = t, sdk, way
        # A bare SDK server is not ours to judge.
        t.is_traffic_judged = way != "bare"
        driver, server = programs(t, sdk)
        self.server = self.serve = None
        if way != "stdio":
            self.server = WebServer(t, [*server, "events" if events else "http"])
        self.upstream = WebProxy(t, self.server.port) if way == "http" else None
        if way != "bare":
            url = f"http://127.0.0.1:{self.upstream.port}/mcp" if self.upstream else None
            words = [url] if url else ["--", *server]
            # Long enough for everything here, short enough to be waited for at the end.
            self.serve = Serve(t, words, "--name", "e2e", "--orphan-timeout", "120s", *options)
        target = self.serve.port if self.serve else self.server.port
        self.proxy = WebProxy(t, target, t.path("wire/client-web.jsonl"))
        self.client = SdkClient(t, driver)
        self.connect()

    @property
    def is_bare(self):
        return self.way == "bare"

    def connect(self):
        answer = self.client.answer(
            self.client.order("connect", url=f"http://127.0.0.1:{self.proxy.port}/mcp")
        )
        if "error" in answer:
            raise Failure(f"could not connect: {answer['error']}")
        self.version = answer["ok"].get("version")

    def reconnect(self):
        """A client program anew: the last one gave up its session, or lost it."""
        self.client.forget()
        self.connect()

    def receipt(self, result):
        self.t.true(not result.get("isError"), f"an error result: {result}")
        return re.search(r"receipt ([0-9a-f-]{36})", result["content"][0]["text"]).group(1)

    def kill_upstream(self):
        if self.way == "stdio":
            processes.kill(int(self.t.lines("starts")[-1]), "server")
        else:
            self.server.kill()

    def one_effect(self, receipt=None):
        effects = self.t.effects()
        self.t.equal(len(effects), 2 if self.is_bare else 1, "effects of one wanted charge")
        if receipt:
            self.t.equal(receipt, effects[-1]["receipt"], "receipt given to the retry")


def scenario(ways=WAYS, is_main=False, **how):
    """1.30.0 differs from 1.32.2 in nothing that was measured, so it does the main ones only."""

    def register(function):
        for sdk in SDKS if is_main else SDKS[1:]:
            for way in ways:

                def run(t, sdk=sdk, way=way):
                    function(t, Bench(t, sdk, way, **how))

                name = f"web_{sdk}_{function.__name__}_{way}"
                test("sdkhttp", name, needs_hapax=way != "bare")(run)
        return function

    return register


def is_timeout(error):
    text = json.dumps(error).lower()
    return "timed out" in text or "deadline" in text or error.get("code") in (408, -32001)


def time_out(t, b, args):
    """Attempt 1, given up by the client itself while the server works on it."""
    first = b.client.call(args=args, timeout_ms=1500)
    t.wait_effects(1)
    error = b.client.error(first)
    t.true(is_timeout(error), f"attempt 1 failed by timeout, not by {error}")


def sends_cancels(b):
    """In 2026-07-28 a client that gives up closes the stream of its request instead."""
    return b.sdk in CANCELS_ON_TIMEOUT and b.version != "2026-07-28"


def wait_second(t, b):
    if b.is_bare:
        t.wait_effects(2)
    else:
        t.wait_repeats(1)


@scenario(is_main=True)
def timeout_cancel_retry(t, b):
    """The client's own timeout, then the same call again while the first still runs."""
    args = {"amount": 5, "slow": True}
    time_out(t, b, args)
    if sends_cancels(b):
        t.wait(lambda: b.proxy.of(CANCEL), "the cancel")
    second = b.client.call(args=args)
    wait_second(t, b)
    t.touch("release")
    b.one_effect(b.receipt(b.client.result(second)))
    t.equal(len(b.proxy.of(CANCEL)), 1 if sends_cancels(b) else 0, "cancels")
    t.equal(len(b.proxy.of(CALL)), 2, "calls on the wire")


@scenario(is_main=True)
def retry_overtakes_its_cancel(t, b):
    """Between two connections there is no order: the cancel of attempt 1 arrives after the retry."""
    if not sends_cancels(b):
        raise Skip("sends no cancel")
    if b.sdk in SENDS_IN_TURN:
        raise Skip("sends nothing before its cancel is taken")
    args = {"amount": 6, "slow": True}
    let_go = b.proxy.hold(lambda request: request.method == CANCEL)
    time_out(t, b, args)
    t.wait(lambda: b.proxy.of(CANCEL), "the cancel, held")
    second = b.client.call(args=args)
    wait_second(t, b)
    accepted = b.proxy.statuses.count(202)
    let_go()
    t.wait(lambda: b.proxy.statuses.count(202) > accepted, "the cancel to be taken")
    t.touch("release")
    b.one_effect(b.receipt(b.client.result(second)))


def resumptions(proxy):
    return [one for one in proxy.gets() if "last-event-id" in one.headers]


def answer_or_retry(t, b, first, args):
    """What a program does that must have its charge: calls again when the first call fails."""
    answer = b.client.answer(first)
    if "ok" in answer:
        return answer["ok"], False
    return b.client.result(b.client.call(args=args)), True


@scenario(is_main=True)
def connection_cut(t, b):
    """The connection of the call is reset in the middle. A client that was told an event id asks for
    the stream again; another fails, and its user calls again.
    """
    args = {"amount": 7, "slow": True}
    first = b.client.call(args=args, timeout_ms=4000 if b.is_bare else 40000)
    t.wait_effects(1)
    conn = b.proxy.of(CALL)[0].conn
    if not b.is_bare:
        t.wait(lambda: conn.event_ids, "an event id")
        # Nothing outside tells when the client has taken the id off its connection and kept it; an
        # answer tells that it reads, and the pause does the rest.
        b.client.result(b.client.order("list"))
        begin = t.clock()
        t.wait(lambda: t.clock() - begin > 0.5, "the client to read it")
    b.proxy.cut(b.proxy.of(CALL)[0])
    t.true(conn.is_cut, "the connection of the call was cut")
    if b.is_bare or b.sdk not in RESUMES:
        t.touch("release")
        b.client.error(first)
        if b.sdk in ENDS_WITH_ITS_CONNECTION:
            b.reconnect()
        second = b.client.call(args=args)
        b.one_effect(b.receipt(b.client.result(second)))
        return
    t.wait(lambda: resumptions(b.proxy), "the stream asked for again")
    t.touch("release")
    b.one_effect(b.receipt(b.client.result(first)))
    t.equal(len(b.proxy.of(CALL)), 1, "calls on the wire")


@scenario()
def connection_cut_and_new_session(t, b):
    """The whole client is gone with its session; a new one makes the equal call."""
    args = {"amount": 8, "slow": True}
    b.client.call(args=args)
    t.wait_effects(1)
    b.client.kill()
    b.client = SdkClient(t, programs(t, b.sdk)[0])
    b.connect()
    second = b.client.call(args=args)
    wait_second(t, b)
    t.touch("release")
    b.one_effect(b.receipt(b.client.result(second)))


def killed(t, b, has_event_ids=False):
    """SIGKILL of what the client speaks to, in the middle of a call; restarted when attempt 1 has
    failed; the retry.
    """
    args = {"amount": 9, "slow": True}
    first = b.client.call(args=args, timeout_ms=5000)
    t.wait_effects(1)
    if has_event_ids and not b.is_bare:
        told = b.upstream.of(CALL)[0].conn.event_ids
        t.wait(lambda: told and t.is_in_ledger(told[-1]), "the event id in the ledger")
    (b.serve or b.server).kill()
    b.client.error(first)
    t.touch("release")
    # Or the SDK sends its next call on a connection that is about to close.
    t.wait(lambda: not b.proxy.are_open(), "the connections to what was killed to close")
    (b.serve or b.server).start()
    if b.is_bare or b.sdk in ENDS_WITH_ITS_CONNECTION:
        b.reconnect()
    return b.client.result(b.client.call(args=args))


@scenario(is_main=True)
def hapax_killed_and_restarted(t, b):
    """Nothing knows the outcome: an honest unknown, in the session that the client still has."""
    result = killed(t, b)
    if b.is_bare:
        b.one_effect(b.receipt(result))
        return
    told = assert_unknown(t, result, "the answer to the retry")
    again = b.client.result(b.client.call(args={"amount": 9, "slow": True}))
    t.equal(assert_unknown(t, again, "the next answer")["id"], told["id"], "the operation named")
    t.equal(len(t.effects()), 1, "effects of one wanted charge")
    sessions = 2 if b.sdk in ENDS_WITH_ITS_CONNECTION else 1
    t.equal(len(b.proxy.of("initialize")), sessions, "sessions")


@scenario(ways=("bare", "http"), events=True)
def hapax_killed_upstream_has_event_ids(t, b):
    """The stream of the call is taken up at the upstream: the real result."""
    result = killed(t, b, has_event_ids=True)
    b.one_effect(b.receipt(result))
    if not b.is_bare:
        t.equal(len(b.upstream.of(CALL)), 1, "calls sent to the upstream")
        t.true(resumptions(b.upstream), "the stream was taken up")


@scenario()
def upstream_killed(t, b):
    args = {"amount": 10, "slow": True}
    first = b.client.call(args=args, timeout_ms=5000)
    t.wait_effects(1)
    b.kill_upstream()
    if b.is_bare:
        b.client.error(first)
        t.touch("release")
        b.server.start()
        b.reconnect()
        b.one_effect(b.receipt(b.client.result(b.client.call(args=args))))
        return
    told = assert_unknown(t, b.client.result(first), "answer to attempt 1")
    t.touch("release")
    if b.server:
        b.server.start()
    again = assert_unknown(t, b.client.result(b.client.call(args=args)), "answer to the retry")
    t.equal(again["id"], told["id"], "operation named to the retry")
    t.equal(len(t.effects()), 1, "effects of one wanted charge")
    other = b.receipt(b.client.result(b.client.call(args={"amount": 11})))
    t.equal(other, t.effects()[-1]["receipt"], "receipt of another call on the restarted server")
    t.equal(len(t.effects()), 2, "effects after another call")


@scenario(options=("--join-wait", "40s"))
def keyed_fifty(t, b):
    """Fifty calls with one key, on fifty connections: one effect, fifty equal answers."""
    args = {"amount": 12, "slow": True}
    refs = [b.client.call(args=args, key=KEY + "50") for _ in range(50)]
    t.wait(lambda: len(b.proxy.of(CALL)) == 50, "fifty calls on the wire", 40)
    if b.is_bare:
        t.wait_effects(50, 40)
    else:
        t.wait_repeats(49)
    t.equal(len({call.conn.number for call in b.proxy.of(CALL)}), 50, "connections of the calls")
    t.touch("release")
    results = [without_ours(b.client.result(ref)) for ref in refs]
    t.equal(len(t.effects()), 50 if b.is_bare else 1, "effects")
    different = {json.dumps(result, sort_keys=True) for result in results}
    t.equal(len(different), 50 if b.is_bare else 1, "different results, our _meta member apart")


@scenario(ways=("stdio", "http"), options=("--key-argument", "/k"))
def key_places(t, b):
    """Where an SDK lets its user put a key; and two keys that disagree."""
    for way in ({"key": "place-1"}, {"args": {"amount": 1, "k": "place-2"}}):
        results = [b.client.result(b.client.call(**way)) for _ in range(2)]
        t.equal(without_ours(results[0]), without_ours(results[1]), f"answers with {way}")
    t.equal(len(t.effects()), 2, "effects")
    error = b.client.error(b.client.call(args={"k": "one"}, key="other"))
    t.true("idempotency key is not usable" in json.dumps(error), f"two keys that disagree: {error}")
    t.equal(len(t.effects()), 2, "effects after the refusal")


@scenario(options=("--overlap", "30s"))
def two_wanted(t, b):
    """Two equal calls, both wanted: one after the other, and together."""
    receipts = [b.receipt(b.client.result(b.client.call(args={"amount": 3}))) for _ in range(2)]
    refs = [b.client.call(args={"amount": 4, "slow": True}) for _ in range(2)]
    t.wait_effects(4)
    t.touch("release")
    receipts += [b.receipt(b.client.result(ref)) for ref in refs]
    t.equal(
        sorted(receipts),
        sorted(effect["receipt"] for effect in t.effects()),
        "receipts of four wanted charges",
    )


@scenario()
def restarted_while_idle(t, b):
    """The session outlives Hapax; that of a bare server is gone, and what the SDK makes of its 404 is
    written down here.
    """
    b.receipt(b.client.result(b.client.call(args={"amount": 1})))
    (b.serve or b.server).kill()
    # Or the SDK sends its next call on a connection that is about to close.
    t.wait(lambda: not b.proxy.are_open(), "the connections to what was killed to close")
    (b.serve or b.server).start()
    answer = b.client.answer(b.client.call(args={"amount": 2}))
    if not b.is_bare:
        b.receipt(answer["ok"])
        t.equal(len(b.proxy.of("initialize")), 1, "sessions")
        return
    if b.version == "2026-07-28":
        raise Skip("no sessions in 2026-07-28")
    t.true(404 in b.proxy.statuses, f"404 among {b.proxy.statuses}")
    again = len(b.proxy.of("initialize")) > 1
    t.equal(again, b.sdk in INITIALIZES_AGAIN, f"initialized again, answer {answer}")
