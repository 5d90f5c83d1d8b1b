# SPDX-License-Identifier: MIT
"""Field cases, groups D and H to K over HTTP: deadlines, streams and their bytes, answers that are
cut off."""

import json

from kit.harness import Failure
from rawclient import operation, stub
from webclient import Serve, WebClient
from .field_hang import SOON
from .http_upstream import ANSWER, Site
from .serve import QUICK, RELEASED, before_site, before_stub, upstream, write_config
from .way import assert_unknown, case, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000004"
READ_ONLY = {"annotations": {"readOnlyHint": True}}


def sleeps(ms):
    return {"runs": [[{"sleep": ms}, {"text": "receipt $RECEIPT"}]]}


@case("053_crash_in_the_handshake_over_http")
def crash_in_handshake(t, w):
    """A child that ends at its start: a JSON-RPC error on the POST of the handshake, with exit
    status and last words, soon, and the response is over. The fault was a stream that stays open.
    """
    script = {"start": [{"stderr": "no database here"}, {"exit": 7}]}
    client = WebClient(before_stub(t, script))
    begin = t.clock()
    asked = client.request(
        "initialize",
        {
            "protocolVersion": client.version,
            "capabilities": {},
            "clientInfo": {"name": "web", "version": "1"},
        },
    )
    asked.head()
    body = asked.body()
    t.true(t.clock() - begin < SOON, f"answered after {t.clock() - begin:.2f} s")
    t.equal(asked.headers.get("content-type"), "application/json", "a whole answer, and its end")
    error = json.loads(body)["error"]
    t.equal(json.loads(body)["id"], asked.request_id, "its id")
    t.true("exit status 7" in error["message"], f"the exit status: {error}")
    t.true("no database here" in error["message"], f"its last words: {error}")


@case("054_long_deadline_over_two_hops")
def long_deadline(t, w):
    """A tool of 32 s behind two gateways, whose rule for it is 90 s and whose default is 2 s:
    success, where a hop with a limit of 30 s would fail. The tool without that rule shows that
    deadlines count; `--show-settings` shows which one holds where."""
    deadlines = ("--timeout", "2s", "--tool", "slow: timeout=90s")
    script = {"tools": {"slow": sleeps(32000), "other": sleeps(32000)}}
    inner = Serve(
        t, ["--", *stub(t, script)], "--orphan-timeout", "40s", *deadlines, ledger=t.path("inner")
    )
    outer = Serve(t, [f"http://127.0.0.1:{inner.port}/mcp"], "--name", "outer", *deadlines)
    client = outer.client()
    begin = t.clock()
    slow, other = client.call("slow"), client.call("other")
    for one in (slow, other):
        one.conn.settimeout(60)
    told = other.result()
    t.true(told.get("isError") and t.clock() - begin < 2 + 2 * SOON, f"without the rule: {told}")
    t.true("receipt" in str(slow.result()), "the result of the long call")
    t.true(t.clock() - begin > 31, "it was a long call")
    t.equal(len(t.effects("slow")), 1, "effects")
    t.grace_seconds = 45.0  # the call without the rule goes on in the child


@case("057_deadlines_of_the_config_file")
def config_deadlines(t, w):
    """The most specific value wins: defaults, then the upstream's, then the tool's. Each of the
    three calls would end otherwise if one of the others won."""
    script = {"tools": {name: sleeps(1500) for name in ("plain", "quick", "patient")}}
    rules = "    timeout: 30s\n    tools:\n      quick: {timeout: 300ms}\n      'pat*': {timeout: 20s}\n"
    lax = upstream(t, "lax", script, rules)
    strict = upstream(t, "strict", script, "    tools:\n      patient: {timeout: 20s}\n")
    config = write_config(t, [lax, strict], more="defaults:\n  timeout: 400ms\n")
    running = Serve(t, [], config=config)
    wanted = {"lax": (True, False, True), "strict": (False, False, True)}
    for name, ends_well in wanted.items():
        client = running.client(path=f"/mcp/{name}")
        calls = [client.call(tool, {"at": name}) for tool in script["tools"]]
        got = tuple("receipt" in str(one.result()["content"]) for one in calls)
        t.equal(got, ends_well, f"plain, quick and patient at {name}")


@case("060_keep_alive_on_a_silent_call")
def keep_alive(t, w):
    """A silent call over SSE: a comment in each interval, then one result. With `stream_ping: 0`
    there is none, so they are not of something else."""
    for ping, least in (("100ms", 10), ("0", 0)):
        config = write_config(
            t,
            [upstream(t, "bank", {"tools": {"charge": sleeps(4000)}})],
            more=f"limits:\n  stream_ping: {ping}\n",
        )
        client = Serve(t, [], config=config).client(path="/mcp/bank")
        call = client.call(args={"ping": ping})
        t.equal(call.head(), 200, "status")
        came = b""
        while True:
            part = call.chunk()
            came += part
            if not part:
                break
        lines = came.split(b"\n")
        comments = sum(line.startswith(b":") for line in lines)
        results = [line for line in lines if line.startswith(b"data:") and b'"result"' in line]
        t.true(comments >= least and (least or not comments), f"{comments} comments with {ping}")
        t.equal(len(results), 1, f"results in {came!r}")


SHAPES = {
    "112_sse_byte_by_byte": ("bytes", "event: message\r\nid: 1\r\ndata: {0}\r\n\r\n"),
    "113_sse_as_the_python_sdk_writes_it": (
        "text",
        ": ping - 2026-01-01 00:00:00+00:00\r\n\r\n" "event: message\r\ndata: {0}\r\n\r\n",
    ),
    "114_several_data_lines": ("text", "data: {1}\ndata: {2}\ndata: {3}\n\n"),
    "115_comments_everywhere": (
        "text",
        ": a\n\n:\n: b\ndata: {1}\n: c\ndata: {2}{3}\n:\n\n: d\n\n",
    ),
}


def sse_shape(title, way, shape):
    @case(title)
    def run(t, w):
        """One event in this shape is one message: its result, once, by HTTP and by stdio, with an
        effect each. Whoever parses it otherwise has no result, or two."""
        first, second = ANSWER.split('"result"')
        pieces = (ANSWER, first.rstrip(","), ',"result"', second)
        text = shape
        for at, piece in enumerate(pieces):
            text = text.replace("{%d}" % at, piece)
        site = Site(t).serve()
        steps = [{"sse": {"Cache-Control": "no-cache, no-transform"}}, {way: text}, {"end": True}]
        client = before_site(t, site).client()
        t.equal(
            client.call(args={"steps": steps}).result()["content"][0]["text"], "receipt 1", "HTTP"
        )
        t.equal(client.others, [], "other messages")
        raw = site.client(ledger=t.path("of-run"))
        told = raw.result(site.call(raw, steps))
        t.equal(told["content"][0]["text"], "receipt 2", "stdio")
        t.equal(site.effects(), 2, "effects")


for name, (writes, form) in SHAPES.items():
    sse_shape(name, writes, form)


@case("116_events_are_not_buffered")
def not_buffered(t, w):
    """The upstream goes on only when the client has its first event: a hop that holds it back until
    the stream ends would wait for ever."""
    note = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$TOKEN,'
    note += '"progress":1}}'
    steps = [
        {"sse": {}},
        {"text": f"data: {note}\n\n"},
        {"wait": "seen"},
        {"text": f"data: {ANSWER}\n\n"},
        {"end": True},
    ]
    site = Site(t).serve()
    client = before_site(t, site).client()
    call = client.call(args={"steps": steps}, meta={"progressToken": "mine"})
    messages = call.messages()
    t.wait(lambda: site.effects() == 1, "the effect")
    begin = t.clock()
    first = next(messages)
    t.equal(first["params"], {"progressToken": "mine", "progress": 1}, "the first event")
    t.true(t.clock() - begin < SOON, f"it took {t.clock() - begin:.2f} s")
    t.touch("site/seen")
    t.true("receipt 1" in str(next(messages)), "the result")


@case("128_fifty_parallel_calls_with_one_id")
def one_id(t, w):
    """Fifty calls at once in one session, all with id 1: each connection gets the answer to its own
    arguments. The tool answers when all have come, so that they are open together."""
    script = {"tools": {"echo": {"runs": [[{"wait": "release"}, {"echo": True}]]}}}
    client = before_stub(t, script).client()
    calls = [
        client.request("tools/call", {"name": "echo", "arguments": {"n": n}}, request_id=1)
        for n in range(50)
    ]
    t.wait_effects(50)
    t.touch("release")
    for n, one in enumerate(calls):
        message = one.answer()
        t.equal((message["id"], message["result"].get("echo")), (1, {"n": n}), f"answer {n}")
    t.equal(len(t.effects()), 50, "effects")


@case("139_new_clients_during_a_slow_call")
def new_clients(t, w):
    """A call that hangs: its own session's ping and quick tool, and a new client's handshake and
    call, are answered before it is released."""
    running = before_stub(t, {"tools": {**RELEASED["tools"], "quick": QUICK["tools"]["charge"]}})
    client = running.client()
    slow = client.call()
    t.wait_effects(1)
    begin = t.clock()
    t.equal(client.request("ping").result(), {}, "ping")
    t.true("receipt" in str(client.call("quick").result()), "the quick tool")
    t.true("receipt" in str(running.client().call("quick").result()), "a new client")
    t.true(t.clock() - begin < SOON, f"all of it took {t.clock() - begin:.2f} s")
    t.touch("release")
    t.true("receipt" in str(slow.result()), "the slow call")


@case("140_cut_stream_taken_up_by_event_id")
def taken_up(t, w):
    """The connection is cut in a call: by its event id, and by the key in a session of its own, the
    client has the one result."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1}, key=KEY + "40")
    event_id = first.wait_event_id()
    first.reset()
    stream = client.get(event_id)
    by_key = running.client().call(args={"n": 1}, key=KEY + "40")
    t.wait_repeats(1)
    t.touch("release")
    answer = stream.answer()
    t.equal(answer["id"], first.request_id, "the id that the client used")
    t.equal(without_ours(by_key.result()), without_ours(answer["result"]), "by id and by key")
    t.equal(len(t.effects()), 1, "effects")


@case("141_cut_as_the_last_bytes_come")
def cut_at_the_end(t, w):
    """The socket is reset with the answer half read: by the key it is still there, whole."""
    script = {"tools": {"big": {"runs": [[{"big": 3000000}]]}}}
    client = before_stub(t, script).client()
    first = client.call("big", key=KEY + "41")
    first.head()
    first.stream.read(1000)
    first.reset()
    result = client.call("big", key=KEY + "41").result()
    t.equal(len(result["content"][0]["text"]), 3000000, "bytes by the key")
    t.equal(len(t.effects()), 1, "effects")


@case("142_reconnect_without_an_event_id")
def without_event_id(t, w):
    """A client that opens its stream anew and does not say what it saw: nothing that it had comes
    again; the result comes to whoever asks by the key."""
    config = write_config(t, [upstream(t, "bank", QUICK)], more="limits:\n  stream_ping: 100ms\n")
    client = Serve(t, [], config=config).client(path="/mcp/bank")
    first = client.call(args={"n": 1}, key=KEY + "42").result()
    cut = client.call(args={"n": 2}, key=KEY + "43")
    t.wait_effects(2)
    cut.reset()
    t.wait(lambda: [op["execution"] for op in t.operations()] == ["succeeded"] * 2, "both outcomes")
    stream = client.get()
    t.equal(stream.head(), 200, "GET")
    came = b"".join(stream.chunk() for _ in range(6))
    stream.close()
    t.true(b"receipt" not in came and b'"result"' not in came, f"came unasked: {came!r}")
    t.equal(
        without_ours(client.call(args={"n": 1}, key=KEY + "42").result()),
        without_ours(first),
        "by key",
    )
    t.equal(
        operation(client.call(args={"n": 2}, key=KEY + "43").result())["replayed"],
        True,
        "the other",
    )
    t.equal(len(t.effects()), 2, "effects")


@case("batch_over_http", prefix="more_", suite="more")
def batch_http(t, w):
    """A batch of 2025-03-26 in one POST: each request answered under its own id, the notification
    not at all, and its keyed call is the one that a single POST repeats. In a session of a later
    revision the same body is refused, and nothing of it runs."""
    running = before_stub(t, QUICK)
    params = {
        "name": "charge",
        "arguments": {"n": 1},
        "_meta": {"dev.hapax/idempotencyKey": KEY + "b0"},
    }
    body = [
        {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
    ]
    client = running.client(version="2025-03-26")
    answers = {}
    for message in client.post(body).messages():
        for one in message if isinstance(message, list) else [message]:
            answers[one["id"]] = one["result"]
    t.equal(set(answers), {"a", 1}, f"answers: {answers}")
    again = client.call(args={"n": 1}, key=KEY + "b0").result()
    t.equal(without_ours(again), without_ours(answers["a"]), "the replay")
    t.equal(len(t.effects()), 1, "effects")
    params["_meta"] = {"dev.hapax/idempotencyKey": KEY + "b1"}
    late = running.client()
    told = late.post(body)
    told.head()
    t.true(b'"error"' in told.body(), "refused in a later revision")
    t.equal(len(t.effects()), 1, "effects after the refusal")
