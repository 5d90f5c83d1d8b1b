# SPDX-License-Identifier: MIT
"""Field cases, groups A and B over HTTP: what is sent again, and what a key does, in whatever
place."""

import json

from rawclient import code, operation, stub
from webclient import Serve, WebClient
from .http_upstream import ANSWER, Site
from .serve import QUICK, before_site, before_stub, token, upstream, write_config
from .way import assert_unknown, case, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000003"
READ_ONLY = {"readOnlyHint": True}


def listing(annotations):
    tool = {"name": "get_or_create_issue", "inputSchema": {"type": "object"}}
    if annotations:
        tool["annotations"] = annotations
    answer = json.dumps({"jsonrpc": "2.0", "id": 0, "result": {"tools": [tool]}})
    return {"methods": {"tools/list": [{"json": answer.replace('"id": 0', '"id": $ID')}]}}


@case("005_get_or_create_over_http")
def get_or_create(t, w):
    """A name that sounds like a read is a write over HTTP too: recorded, in doubt when its answer
    is lost, and never sent again. The same tool that says it only reads is none of that, so the
    annotations do come through."""
    for annotations, is_write in ((None, True), (READ_ONLY, False)):
        site = Site(t, f"site-{is_write}").serve(listing(annotations))
        ledger = t.path(f"ledger-{is_write}")
        client = before_site(t, site, "--ledger", ledger).client()
        client.request("tools/list").result()
        told = client.call("get_or_create_issue", {"steps": [{"close": True}]}).answer()
        recorded = t.ops("export", "--ledger", ledger)[1].splitlines()
        t.equal(len(recorded), 1 if is_write else 0, "operations in the ledger")
        if is_write:
            assert_unknown(t, told["result"], "the answer of the write")
            t.equal(site.effects(), 1, "effects of the write")
        else:
            t.true("error" in told and site.effects() <= 2, f"the read: {told}, {site.effects()}")


@case("010_key_by_header")
def key_by_header(t, w):
    """The header is a key like the others, also beside an equal one; two that differ are refused.
    The upstream sees none of them."""
    site = Site(t).serve()
    client = before_site(t, site).client()
    steps = {"steps": [{"json": ANSWER}]}
    header = [("Idempotency-Key", KEY + "10")]
    first = client.call(args=steps, headers=header).result()
    for way in ({"headers": header}, {"key": KEY + "10"}, {"key": KEY + "10", "headers": header}):
        again = client.call(args=steps, **way).result()
        t.equal(without_ours(again), without_ours(first), f"replay with {way}")
    told = client.call(args=steps, key=KEY + "11", headers=header).answer()
    t.true("KEY_INVALID" in json.dumps(told), f"two that differ: {told}")
    t.equal(site.effects(), 1, "effects")
    seen = site.posts("tools/call")[0]
    t.true("idempotency-key" not in seen["headers"], f"headers upstream: {seen['headers']}")
    t.true(KEY + "10" not in seen["body"], f"body upstream: {seen['body']}")


@case("015_closed_before_and_reset_after_the_first_byte")
def first_byte(t, w):
    """A connection that the upstream closed between two requests: the call goes over a new one,
    once. A reset when its head has left: in doubt, and not one more POST."""
    shakes = '{"jsonrpc":"2.0","id":$ID,"result":{"protocolVersion":"2025-11-25","capabilities":{},'
    shakes += '"serverInfo":{"name":"stub","version":"0"}}}'
    early = [{"if": "cut", "do": [{"append": "resets"}, {"reset": True}]}]
    methods = {"initialize": [{"json": shakes}], "ping": [{"json": ANSWER}, {"close": True}]}
    site = Site(t).serve({"early": early, "methods": methods})
    client = before_site(t, site).client()
    for n in range(3):
        client.request("ping").result()
        told = client.call(args={"steps": [{"json": ANSWER}, {"close": True}], "n": n}).result()
        t.true("receipt" in str(told), f"after a closed connection: {told}")
    t.equal(site.effects(), 3, "effects")
    t.touch("site/cut")
    told = client.call(args={"steps": [{"json": ANSWER}], "n": 3}).result()
    assert_unknown(t, told, "reset after the first byte")
    t.equal(len(t.lines("site/resets")), 1, "POSTs that were reset")
    t.equal(site.effects(), 3, "effects after the reset")


@case("034_key_is_no_authorisation")
def no_authorisation(t, w):
    """After a restart the key brings the stored receipt to whoever may have it; without the token,
    or with another one's, it opens nothing."""
    config = write_config(
        t,
        [upstream(t, "bank", QUICK)],
        [token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")],
    )
    running = Serve(t, [], config=config)
    ann = running.client(path="/mcp/bank", token="hpx_one")
    first = ann.call(args={"n": 1}, key=KEY + "34").result()
    running.kill()
    running.start()
    t.equal(
        without_ours(ann.call(args={"n": 1}, key=KEY + "34").result()),
        without_ours(first),
        "replay",
    )
    bare = WebClient(running, "/mcp/bank")
    bare.session = ann.session
    for call in (
        bare.call(args={"n": 1}, key=KEY + "34"),
        WebClient(running, "/mcp/bank").call(key=KEY + "34"),
    ):
        t.equal(call.head(), 401, "without the token")
        t.true(b"receipt" not in call.body(), "nothing is told")
    told = (
        running.client(path="/mcp/bank", token="hpx_two")
        .call(args={"n": 1}, key=KEY + "34")
        .answer()
    )
    t.true("KEY_CONFLICT" in str(told) and "receipt" not in str(told), f"another principal: {told}")
    t.equal(len(t.effects()), 1, "effects")


def expires(t, call):
    """`call(tool, key)` gives a result. The tool `kept` has a longer retention, and is the proof
    that nothing but retention makes the difference."""
    for tool in ("charge", "kept"):
        t.true("receipt" in str(call(tool, KEY + "36")), f"the first result of {tool}")
    begin = t.clock()
    t.wait(lambda: t.clock() - begin > 3, "three seconds")
    for n in range(2):
        told = call("charge", KEY + "36")
        t.equal(code(told), "RESULT_UNAVAILABLE", f"answer {n} after the retention: {told}")
        t.equal(operation(told)["new_key_allowed"], False, "a new key is no way out")
        t.true("receipt" not in json.dumps(told), f"the result itself: {told}")
    t.equal(operation(call("kept", KEY + "36"))["replayed"], True, "what is kept longer")
    t.equal((len(t.effects("charge")), len(t.effects("kept"))), (1, 1), "effects")


TWO_TOOLS = {"tools": {"charge": {}, "kept": {}}}
SHORT = ("--retention", "2s", "--tool", "kept: retention=1h")


@case("036_retention_is_over")
def retention(t, w):
    """A repeat after the result's time: told that it happened and that its result is gone, before
    any sweep has come by; never a second run, and no result comes back."""
    client = w.client(TWO_TOOLS, *SHORT)
    expires(t, lambda tool, key: client.result(client.call(tool, key=key)))


@case("036_retention_is_over_http")
def retention_http(t, w):
    client = before_stub(t, TWO_TOOLS, *SHORT).client()
    expires(t, lambda tool, key: client.call(tool, key=key).result())


@case("039_key_in_the_header")
def header_forms(t, w):
    """The header's name in any letter case; what cannot be a key is refused, and nothing runs.
    Control bytes are no header at all: 400. The others get the JSON-RPC error; its HTTP status is
    200, since clients of these revisions do not read the body of another one (tables/errors.def).
    """
    client = before_stub(t, QUICK).client()
    for name in ("idempotency-key", "IDEMPOTENCY-KEY", "iDeMpOtEnCy-kEy"):
        result = client.call(headers=[(name, KEY + "39")]).result()
    t.equal(operation(result)["replayed"], True, "replayed")
    t.equal(len(t.effects()), 1, "effects")
    for bad in ("a\x01b", "a\x7fb", "a\x00b"):
        t.equal(client.call(headers=[("Idempotency-Key", bad)]).head(), 400, f"status of {bad!r}")
    for bad in ("", '""', "k" * 256, "k" * 1025, "caf\u00e9", "a b"):
        error = client.call(headers=[("Idempotency-Key", bad)]).error()
        t.equal(
            (error["code"], error["data"]["code"]), (-32602, "KEY_INVALID"), f"the key {bad!r:.40}"
        )
        t.equal(error["data"]["retry_safe"], True, "nothing was sent")
    t.equal(len(t.effects()), 1, "effects")


@case("009_one_header_for_every_dispatch")
def one_header(t, w):
    """A keyed tool that takes its key as a header: every POST of an operation carries one and the
    same key, the first and those after a lost answer. What a person orders when all of those are
    used up is an operation of its own (`resolve … again`), as is another call: each has its own."""
    site = Site(t).serve({"session": "s1"})
    rules = ("--tool", "charge: class=keyed effect_key=header:Idempotency-Key dedupe_horizon=1d")
    client = before_site(t, site, *rules).client()
    steps = [{"unless": "back", "do": [{"close": True}]}, {"json": ANSWER}]
    told = client.call(args={"steps": steps}, key=KEY + "09").result()
    envelope = assert_unknown(t, told, "when all attempts are used up")
    t.touch("site/back")
    status, _, err = t.ops("resolve", envelope["id"], "again", "--ledger", t.ledger)
    t.equal(status, 0, f"resolve: {err}")
    told = client.call(args={"steps": steps}, key=KEY + "09").result()
    t.true("receipt" in str(told), f"after the person's word: {told}")
    client.call(args={"steps": steps}).result()
    keys = [one["headers"].get("idempotency-key") for one in site.posts("tools/call")]
    *same, ordered, other = keys
    t.equal(len(same), 5, "attempts")
    t.true(same[0] and len(set(same)) == 1, f"keys of the first operation: {same}")
    t.equal(len({same[0], ordered, other}), 3, f"keys of the three operations: {keys}")
    t.true(KEY + "09" not in str(keys), "it is ours, not the caller's")


@case("009_header_of_a_program_is_refused")
def header_of_program(t, w):
    """A program has no headers, so its key could not be sent: refused at the start."""
    config = write_config(
        t, [upstream(t, "bank", QUICK, "    class: keyed\n    effect_key: 'header:X-Key'\n")]
    )
    status, _, err = t.hapax("check", "--config", config)
    t.equal(status, 2, f"exit status of check: {err}")
    t.true(b"header:X-Key" in err and b"over HTTP" in err, f"told {err}")
    rule = "charge: class=keyed effect_key=header:X-Key"
    status, _, err = t.hapax("run", "--ledger", t.ledger, "--tool", rule, "--", *stub(t, QUICK))
    t.equal(status, 2, f"exit status of run: {err}")
