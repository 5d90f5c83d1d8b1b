# SPDX-License-Identifier: MIT
"""`hapax run URL`: a stdio client before a server over Streamable HTTP (tests/fixtures/http_stub.py,
which appends a line before it does anything else). Field cases by their numbers, the rest as http_…
"""

import json
import os
import subprocess
import sys

from kit import processes
from kit.harness import test
from rawclient import RawClient
from .way import assert_unknown, code, operation, without_ours

STUB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "http_stub.py")
ANSWER = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"receipt $N"}]}}'
KEY = "0190a0a0-0000-7000-8000-00000000b0"


def http(title, prefix="http_"):
    def register(run):
        tail = "_http" if prefix == "field_" else ""
        return test("http", prefix + title + tail, needs_hapax=True)(lambda t: run(t, Site(t)))

    return register


class Site:
    """The stub, and clients of `hapax run URL` before it."""

    def __init__(self, t, name="site"):
        self.t, self.name, self.process, self.port = t, name, None, None
        self.dir = t.path(name)
        os.makedirs(self.dir)

    def serve(self, script=None, *options, port=0):
        argv = [sys.executable, "-S", "-E", STUB, self.dir, json.dumps(script or {}), *options]
        argv += ["--port", str(port)]
        process = subprocess.Popen(
            argv, env=self.t.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self.process = process
        self.port = int(process.stdout.readline())
        if options:
            self.port = int(process.stdout.readline())
        self.t.at_end(self.end)
        return self

    def end(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process.stdin.close()
            self.process.stdout.close()
            self.process = None

    def client(self, *options, **where):
        url = f"http://127.0.0.1:{self.port}/mcp"
        client = RawClient(self.t, self.t.hapax_argv([url], *options, **where))
        client.initialize("2025-11-25")
        return client

    def effects(self):
        return len(self.t.lines(f"{self.name}/effects"))

    def posts(self, method):
        requests = [json.loads(line) for line in self.t.lines(f"{self.name}/requests")]
        return [one for one in requests if one["verb"] == "POST" and f'"{method}"' in one["body"]]

    def call(self, client, steps, n=0, **more):
        return client.call("charge", {"steps": steps, "n": n}, **more)


@http("a_call_and_its_replay")
def replay(t, site):
    client = site.serve().client()
    results = [
        client.result(site.call(client, [{"json": ANSWER}], key=KEY + "01")) for _ in range(2)
    ]
    t.equal(without_ours(results[0]), without_ours(results[1]), "replay")
    t.true("receipt 1" in str(results[0]), f"the result: {results[0]}")
    t.equal(site.effects(), 1, "effects")


@http("timeout_cancel_retry")
def timeout_cancel_retry(t, site):
    """The retry joins the call that still runs, and gets its result."""
    client = site.serve().client()
    steps = [{"wait": "release"}, {"json": ANSWER}]
    first = site.call(client, steps)
    t.wait(lambda: site.effects() == 1, "the effect")
    client.cancel(first, "Request timed out")
    second = site.call(client, steps)
    client.result(client.request("ping"))
    t.touch("site/release")
    t.true("receipt 1" in str(client.result(second)), "the real result")
    t.equal(site.effects(), 1, "effects")


@http("retry_through_a_new_process")
def front_killed(t, site):
    """The process that the client started is killed; the retry through a new one gets the result."""
    client = site.serve().client(orphan="20s")
    steps = [{"wait": "release"}, {"json": ANSWER}]
    site.call(client, steps)
    t.wait(lambda: site.effects() == 1, "the effect")
    client.kill(t.surroundings.hapax)
    fresh = site.client(orphan="20s")
    second = site.call(fresh, steps)
    fresh.result(fresh.request("ping"))
    t.touch("site/release")
    t.true("receipt 1" in str(fresh.result(second)), "the real result")
    t.equal(site.effects(), 1, "effects")


@http("004_socket_closed_after_the_request_was_read", prefix="field_")
def closed_after_read(t, site):
    """Hit count 1 for a call, which is in doubt; 2 for a list, which is answered."""
    listing = {"tools/list": [{"close": True}]}
    client = site.serve().client()
    assert_unknown(t, client.result(site.call(client, [{"close": True}])), "the answer")
    t.equal(site.effects(), 1, "effects")
    site.end()
    site.serve({"methods": listing})
    other = site.client()
    other.error(other.request("tools/list"))
    t.equal(len(site.posts("tools/list")), 2, "lists asked for")


@http("012_never_sent_and_answer_lost", prefix="field_")
def told_apart(t, site):
    """A closed port is "not sent"; accepted, read and reset is unknown."""
    client = site.serve().client()
    told = client.result(site.call(client, [{"reset": True}]))
    assert_unknown(t, told, "the answer")
    t.equal(operation(told)["new_key_allowed"], False, "new key after a reset")
    site.end()
    error = client.error(site.call(client, [{"json": ANSWER}], n=1))
    t.equal(error["code"], 1502, f"a closed port: {error}")
    t.equal(error["data"]["retry_safe"], True, "safe to repeat")
    t.equal(site.effects(), 1, "effects")


@http("013_503_and_429", prefix="field_")
def busy_server(t, site):
    """503 may have acted: one POST, in doubt. 429 has not: the same call is sent once more."""
    client = site.serve().client()
    assert_unknown(t, client.result(site.call(client, [{"status": [503]}])), "the answer")
    t.equal(site.effects(), 1, "POSTs of the 503")
    t.touch("site/nothing")
    told = client.result(
        site.call(client, [{"status": [429, "", "", {"Retry-After": "1"}]}], n=1), 30
    )
    t.true(site.effects() > 2, f"429 was sent again: {site.effects()} POSTs, told {told}")
    t.true(code(told) in ("FAILED", "BUSY"), f"in the end: {told}")


@http("014_503_once_for_a_list", prefix="field_")
def list_503(t, site):
    """A list that met 503 is asked for twice; a write is not."""
    client = site.serve({"methods": {"tools/list": [{"status": [503]}]}}).client()
    client.error(client.request("tools/list"))
    t.equal(len(site.posts("tools/list")), 2, "lists asked for")


@http("019_502_after_the_effect", prefix="field_")
def bad_gateway(t, site):
    client = site.serve().client()
    told = client.result(site.call(client, [{"status": [502, "text/html", "<h1>Bad</h1>"]}]))
    assert_unknown(t, told, "the answer")
    client.result(site.call(client, [{"json": ANSWER}], n=1))
    t.equal(site.effects(), 2, "effects")
    t.equal(len(site.posts("initialize")), 1, "handshakes")


@http("072_session_forgotten", prefix="field_")
def session_lost(t, site):
    """404 on a call: one new handshake, then the call runs once."""
    client = site.serve({"session": "s1", "lost": "lost"}).client()
    client.result(site.call(client, [{"json": ANSWER}]))
    t.touch("site/lost")
    second = site.call(client, [{"json": ANSWER}], n=1)
    t.wait(lambda: len(site.posts("initialize")) >= 2, "a second handshake")
    t.remove("site/lost")
    told = client.result(second)
    t.true("receipt" in str(told), f"the call after the handshake: {told}")


@http("080_405_to_get", prefix="field_")
def no_get_stream(t, site):
    """A server without a GET stream is asked for one a few times at most."""
    client = site.serve({"session": "s1"}).client()
    for n in range(5):
        client.result(site.call(client, [{"json": ANSWER}], n=n))
    gets = [line for line in t.lines("site/requests") if b'"verb": "GET"' in line]
    t.true(len(gets) <= 3, f"{len(gets)} GETs")


@http("084_one_handshake_for_ten_calls", prefix="field_")
def one_handshake(t, site):
    client = site.serve({"session": "s1"}).client()
    for n in range(10):
        client.result(site.call(client, [{"json": ANSWER}], n=n))
    t.equal(len(site.posts("initialize")), 1, "handshakes")


@http("111_sse_line_ends_byte_by_byte", prefix="field_")
def sse_shapes(t, site):
    """CRLF, CR, mixed ends, one byte a write, data over several lines, comments: one result."""
    client = site.serve().client()
    split = ANSWER.replace(',"result"', ',\ndata: "result"')
    shapes = [
        f"event: message\r\ndata: {ANSWER}\r\n\r\n",
        f"data: {ANSWER}\r\r",
        f": hello\ndata: {ANSWER}\r\n\n",
        f": hello\n\ndata: {split}\n\n: bye\n\n",
    ]
    for n, shape in enumerate(shapes):
        for way in ("text", "bytes"):
            steps = [{"sse": {}}, {way: shape}, {"end": True}]
            result = client.result(site.call(client, steps, n=f"{n} {way}"))
            t.true("receipt" in str(result), f"shape {n} as {way}: {result}")
    t.equal(site.effects(), 2 * len(shapes), "effects")


@http("140_stream_taken_up_again", prefix="field_")
def resumed(t, site):
    """The stream breaks after an event id: taken up by GET, never a second POST."""
    # Our upstream ids are 1 for the handshake, 2 for the call.
    later = ANSWER.replace("$ID", "2")
    again = [{"sse": {}}, {"text": f"id: e2\ndata: {later}\n\n"}, {"end": True}]
    client = site.serve({"session": "s1", "get": {"e1": again, "": [{"status": [405]}]}}).client()
    steps = [{"sse": {}}, {"text": "id: e1\nretry: 10\ndata: \n\n"}, {"close": True}]
    told = client.result(site.call(client, steps))
    t.true("receipt" in str(told), f"the result by GET: {told}")
    t.equal(site.effects(), 1, "POSTs")


@http("server_killed_in_a_call")
def server_killed(t, site):
    client = site.serve().client()
    first = site.call(client, [{"wait": "never"}])
    t.wait(lambda: site.effects() == 1, "the effect")
    site.end()
    assert_unknown(t, client.result(first), "the answer")
    site.serve()
    t.equal(site.effects(), 1, "effects")


@http("keeper_killed_in_a_call")
def keeper_killed(t, site):
    """Nothing was recorded of the answer: unknown, and not run again."""
    client = site.serve().client()
    steps = [{"wait": "release"}, {"json": ANSWER}]
    site.call(client, steps)
    t.wait(lambda: site.effects() == 1, "the effect")
    keepers = t.family(client.pid).keepers
    t.equal(len(keepers), 1, "keepers")
    processes.kill(keepers[0], t.surroundings.hapax)
    client.wait_eof(5)
    t.touch("site/release")
    fresh = site.client()
    assert_unknown(t, fresh.result(site.call(fresh, steps)), "the answer")
    t.equal(site.effects(), 1, "effects")


@http("session_lost_and_no_new_one_for_a_while")
def lost_for_a_while(t, site):
    """404 for the session, and then the handshake fails too, twice: told as not run, Hapax lives,
    and the call works when the server does."""
    hello = (
        '{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
        '"serverInfo":{"name":"stub","version":"0"}}}'
    )
    good = [{"status": [200, "application/json", hello, {"Mcp-Session-Id": "s1"}]}]
    steps = [{"if": "bad", "do": [{"status": [503]}, {"close": True}]}, {"unless": "bad", "do": good}]
    client = site.serve({"lost": "bad", "methods": {"initialize": steps}}).client()
    client.result(site.call(client, [{"json": ANSWER}], n=1))
    t.touch("site/bad")
    for n in (2, 3):
        error = client.error(site.call(client, [{"json": ANSWER}], n=n))
        t.equal(error["code"], 1502, f"call {n}: {error}")
    t.remove("site/bad")
    t.true("receipt" in str(client.result(site.call(client, [{"json": ANSWER}], n=4))), "again")
    t.equal(site.effects(), 2, "effects")


@http("cancelled_requests_leave_no_connection")
def cancelled_requests(t, site):
    """A server need not answer what was cancelled, and may keep its stream open: however many there
    were, the next call gets through. There is room for 512."""
    steps = [{"sse": {}}, {"wait": "never"}]
    client = site.serve({"methods": {"resources/read": steps}}).client()
    for n in range(1, 9):
        idents = [client.request("resources/read", {"uri": f"x:{i}"}) for i in range(65)]
        t.wait(lambda: len(site.posts("resources/read")) == 65 * n, f"{65 * n} requests", 60)
        for ident in idents:
            client.cancel(ident)
    call = site.call(client, [{"json": ANSWER}])
    t.true("receipt" in str(client.result(call, 120)), "the call behind them")
    t.equal(site.effects(), 1, "effects")


def is_written(ledger, text):
    """In a file of the ledger."""
    files = [os.path.join(ledger, name) for name in os.listdir(ledger)]
    return any(text in open(path, "rb").read() for path in files if os.path.isfile(path))


@http("a_silent_stream_does_not_keep_the_probe_away")
def silent_stream(t, site):
    """Hapax dies in a call whose stream the next one takes up, which says nothing, or ends at once
    each time: the probe looks all the same. Never a second POST of the call."""
    look = json.dumps({"steps": [{"json": ANSWER}]})
    rule = f"charge: class=probeable probe=look probe_arguments='{look}' probe_match='text receipt'"
    # In two parts, so that the whole name is in the ledger only as the handle.
    event = [{"text": "id: event-"}, {"text": "one\nretry: 10\ndata: \n\n"}]
    steps = [{"sse": {}}, *event, {"wait": "never"}]
    for n, silent in enumerate(([{"sse": {}}, {"wait": "never"}], [{"sse": {}}, {"end": True}])):
        here = Site(t, f"site{n}")
        get = {"event-one": silent, "": [{"status": [405]}]}
        where = {"ledger": t.path(f"ledger{n}")}
        client = here.serve({"session": "s1", "get": get}).client("--tool", rule, **where)
        here.call(client, steps, key=KEY + f"1{n}")
        t.wait(lambda: here.effects() == 1, "the effect")
        t.wait(lambda: is_written(where["ledger"], b"event-one"), "the handle", 60)
        family = processes.Family(t.mark, t.surroundings.hapax, where["ledger"], client.pid)
        processes.kill(family.keepers[0], t.surroundings.hapax)
        client.wait_eof(5)
        fresh = here.client("--tool", rule, **where)
        told = fresh.result(here.call(fresh, steps, key=KEY + f"1{n}"), 60)
        t.true("This call happened" in told["content"][0]["text"], f"the result: {told}")
        t.equal(len(here.posts("charge")), 1, "POSTs of the call")
        resumed = [line for line in t.lines(f"site{n}/requests") if b"last-event-id" in line]
        t.true(len(resumed) > 0, "the stream was taken up")
