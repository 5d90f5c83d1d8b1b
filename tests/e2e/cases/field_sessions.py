# SPDX-License-Identifier: MIT
"""Field cases, group F over HTTP: sessions on both sides that end, are forgotten, or are none."""

import json
import os

from kit import processes
from rawclient import code, operation
from webclient import LATEST, Serve, WebClient
from .http_upstream import ANSWER, Site
from .serve import QUICK, RELEASED, before_site, before_stub, upstream, write_config
from .way import assert_unknown, case, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000002"
DONE = [{"json": ANSWER}]
FORGETS = {"forget": "forget"}


def handshakes(site):
    return len(site.posts("initialize"))


def call(client, n, steps=None, **more):
    return client.call(args={"steps": steps or DONE, "n": n}, **more)


@case("072_session_forgotten_in_between_serve")
def forgotten(t, w):
    """404 on a call: one new handshake for it, the call runs once, its caller sees the result. A
    second handshake, or an effect that the 404 did not stop, would be counted here."""
    site = Site(t).serve(FORGETS)
    client = before_site(t, site).client()
    call(client, 0).result()
    t.touch("site/forget")
    t.true("receipt 2" in str(call(client, 1).result()), "the result after the loss")
    t.equal((handshakes(site), site.effects()), (2, 2), "handshakes and effects")


@case("075_session_loss_in_other_words")
def other_words(t, w):
    """400 with 'session' in its text and 503 are no proof of a lost session: neither makes a new
    handshake, and no call runs twice."""
    words = {
        400: '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"Bad session"}}',
        503: "No session",
    }
    for status, body in words.items():
        site = Site(t, f"site-{status}").serve(
            {"session": "s1", "lost": "lost", "lost_status": [status, "", body]}
        )
        client = before_site(t, site, "--ledger", t.path(f"ledger-{status}")).client()
        call(client, 0).result()
        t.touch(f"site-{status}/lost")
        told = call(client, 1).answer()
        t.true("receipt" not in str(told), f"told after a {status}: {told}")
        if status == 503:
            assert_unknown(t, told.get("result", told), "the answer to the 503")
        t.remove(f"site-{status}/lost")
        t.true("receipt 2" in str(call(client, 2).result()), f"the call after the {status}")
        t.equal((handshakes(site), site.effects()), (1, 2), f"handshakes and effects, {status}")
        t.equal(len(site.posts("tools/call")), 3, f"POSTs, {status}")


@case("075_session_forgotten_and_answered_400")
def forgotten_400(t, w):
    """400 that names no request to every session but a new one: its call is refused, a new handshake
    follows by itself, and the repeat runs, once."""
    words = '{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"No valid session ID"}}'
    site = Site(t).serve({**FORGETS, "lost_status": [400, "application/json", words]})
    client = before_site(t, site).client()
    call(client, 0).result()
    t.touch("site/forget")
    told = call(client, 1).answer()
    t.true("receipt" not in str(told), f"told after the loss: {told}")
    t.wait(lambda: handshakes(site) == 2, "a new handshake", 60)
    t.true("receipt 2" in str(call(client, 1).result()), "the repeat")
    t.equal((handshakes(site), site.effects()), (2, 2), "handshakes and effects")


@case("076_session_after_a_restart")
def after_restart(t, w):
    """A client that never starts a new session: the old one is good after a SIGKILL of the
    gateway, for requests, for the GET stream and for what the key replays. Ids that were kept in
    memory only would be answered 404."""
    running = before_stub(t, QUICK)
    client = running.client()
    first = client.call(args={"n": 1}, key=KEY + "76").result()
    running.kill()
    running.start()
    listed = client.request("tools/list")
    t.equal(listed.head(), 200, "tools/list in the old session")
    t.equal(listed.result()["tools"][0]["name"], "charge", "the tools")
    stream = client.get()
    t.equal(stream.head(), 200, "GET in the old session")
    stream.close()
    again = client.call(args={"n": 1}, key=KEY + "76").result()
    t.equal(without_ours(again), without_ours(first), "the replay")
    t.equal(len(t.effects()), 1, "effects")


def assert_not_found(t, exchange, what):
    t.equal(exchange.head(), 404, f"status of {what}")
    t.equal(exchange.headers["content-type"], "application/json", f"type of {what}")
    body = json.loads(exchange.body())
    exchange.close()
    t.equal(body.get("jsonrpc"), "2.0", f"jsonrpc of {what}")
    t.true(isinstance(body["error"]["code"], int) and body["error"]["message"], f"{what}: {body}")
    return body["id"]


@case("077_unknown_session")
def unknown_session(t, w):
    """A made-up session id: 404, JSON, a JSON-RPC error with the request's own id."""
    client = before_stub(t, QUICK).client()
    client.session = "0" * len(client.session)
    for ident in (7, "seven", 0):
        exchange = client.post({"jsonrpc": "2.0", "id": ident, "method": "tools/list"})
        t.equal(assert_not_found(t, exchange, "a made-up session"), ident, "its id")
    call_of_it = client.call(key=KEY + "77")
    t.equal(assert_not_found(t, call_of_it, "a call in it"), call_of_it.request_id, "its id")
    t.equal(t.effects(), [], "effects")


@case("080_quiet_lists_without_an_unasked_stream")
def quiet_lists(t, w):
    """An upstream that answers 405 to GET: a few GETs at most, and its clients' own GET streams
    stay silent but for keep-alives. A retry loop would be counted at the stub; lists that flap
    would be events here."""
    site = Site(t).serve({"session": "s1"})
    url = f"http://127.0.0.1:{site.port}/mcp"
    config = write_config(t, [f"  bank:\n    url: {url}\n"], more="limits:\n  stream_ping: 100ms\n")
    client = Serve(t, [], config=config).client(path="/mcp/bank")
    stream = client.get()
    t.equal(stream.head(), 200, "GET")
    for n in range(5):
        call(client, n).result()
    came = b"".join(stream.chunk() for _ in range(12))
    stream.close()
    said = [line for line in came.split(b"\n") if line.startswith(b"data:") and line[5:].strip()]
    t.equal(said, [], "events to the client")
    t.true(came.count(b"\n:") + came.startswith(b":") >= 8, f"keep-alives: {came!r}")
    gets = [line for line in t.lines("site/requests") if b'"verb": "GET"' in line]
    t.true(len(gets) <= 3, f"{len(gets)} GETs upstream")


@case("081_no_session_header")
def no_session(t, w):
    """A client that never echoes the session id is told so, in words and with its own id, and
    nothing runs. (The handshake goes without one; a stateless face comes with 2026-07-28.)"""
    client = before_stub(t, QUICK).client()
    client.session = None
    for request in (client.request("tools/list"), client.call(key=KEY + "81")):
        t.equal(request.head(), 400, "status")
        body = json.loads(request.body())
        t.equal(body["id"], request.request_id, "its id")
        t.true("Mcp-Session-Id is required" in body["error"]["message"], f"told {body}")
    t.equal(t.effects(), [], "effects")


@case("082_foreign_session_ids")
def foreign_ids(t, w):
    """An id of another gateway, one of 4 KiB, odd bytes: 404 each, never 5xx; the gateway lives."""
    running = before_stub(t, QUICK)
    client = running.client()
    other = Serve(t, running.words, "--orphan-timeout", "1s", ledger=t.path("other")).client()
    own = client.session
    odd = [
        "x",
        "%00%0a",
        "a b\tc",
        '"quoted"',
        "caf\u00e9 \u00ff",
        own.upper(),
        own + "0",
        own[:-1],
    ]
    for foreign in [other.session, "f" * 4096, *odd]:
        client.session = foreign
        exchange = client.request("tools/list")
        t.equal(assert_not_found(t, exchange, repr(foreign)[:40]), exchange.request_id, "its id")
    client.session = own
    client.request("tools/list").result()


@case("083_each_session_its_own_server")
def own_server(t, w):
    """A stateful server behind two HTTP clients: a process each, and one process within each. With
    `affinity: shared` (serve_affinity) the same counts are one, so they can differ."""
    running = before_stub(t, QUICK)
    clients = [running.client() for _ in range(2)]
    pids = []
    for who, client in enumerate(clients):
        pids.append(set())
        for n in range(3):
            before = len(t.effects())
            client.call(args={"n": n, "who": who}).result()
            pids[-1].add(t.effects()[before]["pid"])
    t.equal([len(one) for one in pids], [1, 1], "server processes per client")
    t.true(pids[0] != pids[1], "the clients share no process")


@case("083_each_session_its_own_upstream_session")
def own_session(t, w):
    """The same over HTTP: the upstream sees a session for each client, and no client in another's."""
    site = Site(t).serve(FORGETS)
    running = before_site(t, site)
    clients = [running.client() for _ in range(2)]
    for n in range(3):
        for who, client in enumerate(clients):
            call(client, n, meta={"example.com/who": who}).result()
    seen = {}
    for one in site.posts("tools/call"):
        who = json.loads(one["body"])["params"]["_meta"]["example.com/who"]
        seen.setdefault(who, set()).add(one["headers"]["mcp-session-id"])
    t.equal(sorted(len(ids) for ids in seen.values()), [1, 1], f"sessions by client: {seen}")
    t.equal(len(set().union(*seen.values())), 2, f"sessions: {seen}")


@case("084_one_initialize_for_ten_calls_serve")
def one_initialize(t, w):
    site = Site(t).serve(FORGETS)
    client = before_site(t, site).client()
    for n in range(10):
        call(client, n).result()
    t.equal((handshakes(site), site.effects()), (1, 10), "handshakes and effects")


@case("085_restored_session_that_the_upstream_forgot")
def restored_and_forgotten(t, w):
    """The gateway is killed and started again, and by then the upstream has forgotten every
    session: one clean handshake, then discovery and calls work in the client's old session."""
    site = Site(t).serve(FORGETS)
    running = before_site(t, site)
    client = running.client()
    call(client, 0).result()
    running.kill()
    t.touch("site/forget")
    running.start()
    before = handshakes(site)
    client.request("tools/list").result()
    t.true("receipt 2" in str(call(client, 1).result()), "a call after both restarts")
    t.true(handshakes(site) - before <= 1, f"handshakes: {before}, then {handshakes(site)}")
    t.equal(site.effects(), 2, "effects")


@case("087_idle_session_reaped_upstream")
def reaped(t, w):
    """The upstream reaps a session that two clients share: their next calls make one handshake,
    and run once each."""
    site = Site(t).serve(FORGETS)
    url = f"http://127.0.0.1:{site.port}/mcp"
    config = write_config(t, [f"  bank:\n    url: {url}\n    affinity: shared\n"])
    running = Serve(t, [], config=config)
    clients = [running.client(path="/mcp/bank") for _ in range(2)]
    for n, client in enumerate(clients):
        call(client, n).result()
    t.equal(handshakes(site), 1, "handshakes of a shared one")
    t.touch("site/forget")
    calls = [call(client, n + 2) for n, client in enumerate(clients)]
    for one in calls:
        t.true("receipt" in str(one.result()), "a result after the reaping")
    t.equal((handshakes(site), site.effects()), (2, 4), "handshakes and effects")


@case("088_a_timeout_leaves_its_neighbour_http")
def timeout_neighbour(t, w):
    """Two calls in one upstream session, one times out: the other ends well in that session."""
    site = Site(t).serve(FORGETS)
    client = before_site(t, site, "--tool", "hangs: timeout=500ms").client()
    slow = call(client, 0, [{"wait": "release"}, *DONE])
    t.wait(lambda: site.effects() == 1, "the slow call")
    hangs = client.call("hangs", {"steps": [{"wait": "never"}]}).result()
    t.true(code(hangs) in ("BUSY", "OUTCOME_UNKNOWN"), f"the call that hangs is answered: {hangs}")
    t.touch("site/release")
    t.true("receipt" in str(slow.result()), "the neighbour's result")
    t.equal((handshakes(site), site.effects()), (1, 2), "handshakes and effects")


class Balanced:
    """What a client sees of two gateways behind a balancer that deals out connections in turn."""

    def __init__(self, *gateways):
        self.gateways, self.at = gateways, 0

    @property
    def port(self):
        self.at += 1
        return self.gateways[self.at % len(self.gateways)].port


@case("089_two_gateways_behind_a_balancer")
def balanced(t, w):
    """One ledger, two gateways, each request to the other one: the session is known to both,
    fifteen keyed calls of fifteen are right, and so are two repeats of each, one of which lands at
    the other gateway. (The fault was: 13 of 15 attempts failed.)"""
    pair = [before_stub(t, QUICK), before_stub(t, QUICK)]
    client = WebClient(Balanced(*pair))
    client.initialize()
    for n in range(15):
        results = [client.call(args={"n": n}, key=f"{KEY}{n:02x}").result() for _ in range(3)]
        for again in results[1:]:
            t.equal(without_ours(again), without_ours(results[0]), f"a repeat of call {n}")
            t.equal(operation(again)["replayed"], True, "replayed")
    t.equal(len(t.effects()), 15, "effects")
    t.equal(len({one["pid"] for one in t.effects()}), 2, "both gateways have run calls")


@case("089_one_gateway_of_two_dies")
def one_dies(t, w):
    """The gateway that runs the call is killed: the other one knows of it, and runs nothing."""
    pair = [before_stub(t, RELEASED), before_stub(t, RELEASED)]
    client = WebClient(pair[0])
    client.initialize()
    first = client.call(args={"n": 1}, key=KEY + "f0")
    t.wait_effects(1)
    pair[0].kill()
    first.close()
    client.serve = pair[1]
    assert_unknown(t, client.call(args={"n": 1}, key=KEY + "f0").result(), "at the other gateway")
    t.equal(len(t.effects()), 1, "effects")


@case("091_one_pid_for_many_clients")
def one_pid(t, w):
    """A hundred sessions that come and go and ten at once: the same process serves them all, and no
    server or session of them is left."""
    running = before_stub(t, QUICK)
    for n in range(100):
        client = running.client() if n % 10 == 0 else WebClient(running, version=LATEST)
        if client.session is None:
            client.initialize()
        if n % 10 == 0:
            client.call(args={"n": n}).result()
        t.equal(client.delete().head(), 200, f"DELETE {n}")
    clients = [running.client() for _ in range(10)]
    calls = [client.call(args={"at once": n}) for n, client in enumerate(clients)]
    for one in calls:
        t.true("receipt" in str(one.result()), "a result")
    for client in clients:
        client.delete().head()
    t.equal(running.process.poll(), None, "the gateway's exit status")
    t.equal(len(t.effects()), 20, "effects")
    pids = [int(line) for line in t.lines("starts")]
    t.wait(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), "the servers' ends")
    family = processes.marked(t.mark)
    t.equal(processes.zombies_of(family), [], "defunct processes")


@case("092_second_get_stream")
def second_get(t, w):
    """A second GET stream of one session is refused by 409; the first goes on, and the child
    lives."""
    client = before_stub(t, QUICK).client()
    first = client.get()
    t.equal(first.head(), 200, "the first")
    client.call(args={"n": 0}).result()
    for _ in range(3):
        second = client.get()
        t.equal(second.head(), 409, "the second")
        t.true("GET stream" in str(json.loads(second.body())["error"]), "why")
        second.close()
    client.call(args={"n": 1}).result()
    first.close()
    t.wait(lambda: client.get().head() == 200, "the next one, when the first has gone")
    t.equal(len(t.lines("starts")), 1, "starts of the child")
    t.equal(len({one["pid"] for one in t.effects()}), 1, "processes that ran the calls")
