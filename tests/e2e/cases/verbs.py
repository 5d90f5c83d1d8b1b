# SPDX-License-Identifier: MIT
"""The explicit verbs: the methods hapax/operations/…, keys that are handed out, and the tools of our
own that an operator may offer. Names: verbs_...
"""

import json
import os

from rawclient import RawClient
from webclient import Serve
from .serve import QUICK, before_stub, token, upstream, write_config
from .way import assert_unknown, case, code, operation

KEY = "0190a0a0-0000-7000-8000-0000000080"
RELEASED = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
DIES = {"tools": {"charge": {"runs": [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]}}}


def verbs(title):
    return case(title, None, suite="verbs", prefix="verbs_")


class Line:
    """One caller, by pipes or over HTTP, with the same words for both."""

    def __init__(self, client, is_web):
        self.client, self.is_web = client, is_web

    def call(self, tool="charge", args=None, key=None):
        if self.is_web:
            return self.client.call(tool, args=args or {}, key=key).result()
        return self.client.result(self.client.call(tool, args, key=key))

    def refused(self, tool="charge", args=None, key=None):
        if self.is_web:
            return self.client.call(tool, args=args or {}, key=key).error()
        return self.client.error(self.client.call(tool, args, key=key))

    def ask(self, verb, **params):
        method = f"hapax/operations/{verb}"
        if self.is_web:
            return self.client.request(method, params).result()
        return self.client.result(self.client.request(method, params))

    def denied(self, verb, **params):
        method = f"hapax/operations/{verb}"
        if self.is_web:
            return self.client.request(method, params).error()
        return self.client.error(self.client.request(method, params))

    def tools(self):
        if self.is_web:
            return self.client.request("tools/list", {}).result()["tools"]
        return self.client.result(self.client.request("tools/list"))["tools"]


def both(t, w, script, *options):
    """A caller by pipes, then one over HTTP, each before a stub and a ledger of its own."""
    yield Line(w.client(script, *options), False)
    for name in ("effects", "received", "starts"):
        if os.path.exists(t.path(name)):
            t.remove(name)
    t.ledger = t.path("ledger-of-serve")
    yield Line(before_stub(t, script, *options).client(), True)


def text(result):
    return result["content"][0]["text"]


@verbs("cancel_before_the_call_leaves_a_tombstone")
def cancel_first(t, w):
    """A cancel by key that is faster than its call: the late original is refused, for good."""
    for line in both(t, w, QUICK):
        told = line.ask("cancel", key=KEY + "01", tool="charge")
        t.equal(told["answer"], "CANCELLED", f"answer: {told}")
        t.true("has not arrived yet" in told["sentence"], f"said: {told}")
        for n in (1, 2):
            late = line.call(args={"n": n}, key=KEY + "01")
            t.equal(code(late), "CANCELLED", f"the late original with n={n}: {late}")
        again = line.ask("cancel", key=KEY + "01", tool="charge")
        t.equal(again["answer"], "CANCELLED", f"a second cancel: {again}")
        t.equal(t.effects(), [], "effects")
        line.call(args={"n": 1}, key=KEY + "02")
        t.equal(len(t.effects()), 1, "another key runs")


@verbs("cancel_of_what_was_sent_is_in_doubt")
def cancel_sent(t, w):
    """What was sent is never called cancelled; the tool is told, its outcome is told to all."""
    client = w.client(RELEASED)
    waiting = client.call(key=KEY + "03")
    t.wait_effects(1)
    line = Line(client, False)
    told = line.ask("cancel", key=KEY + "03", tool="charge")
    t.equal(told["answer"], "CANCEL_IN_DOUBT", f"answer: {told}")
    t.equal(told["operation"]["execution"], "running", f"execution: {told}")
    t.wait(lambda: t.lines("cancels"), "the tool to be told")
    t.touch("release")
    result = client.result(waiting)
    t.true("receipt" in text(result), f"the outcome: {result}")
    told = line.ask("cancel", id=operation(result)["id"])
    t.equal(told["answer"], "outcome", f"after the outcome: {told}")
    t.true("already happened" in told["sentence"], f"said: {told}")


@verbs("cancel_of_what_waits_for_a_person")
def cancel_waiting(t, w):
    for line in both(t, w, QUICK, "--tool", "charge: approval=always"):
        ident = operation(line.call(args={"n": 1}, key=KEY + "04"))["id"]
        told = line.ask("cancel", id=ident)
        t.equal(
            (told["answer"], told["operation"]["execution"], told["operation"]["reason"]),
            ("CANCELLED", "cancelled", "cancelled_by_caller"),
            f"answer: {told}",
        )
        status, _, err = t.ops("approve", ident, "--ledger", t.ledger)
        t.equal(status, 1, f"approval after it: {err}")
        t.equal(code(line.call(args={"n": 1}, key=KEY + "04")), "CANCELLED", "the call again")
        t.equal(t.effects(), [], "effects")


@verbs("list_shows_only_ones_own")
def listed(t, w):
    """Open ones unless a state is named, in pages, of this caller only."""
    config = write_config(
        t, [upstream(t, "bank", DIES)], [token("ann", "hpx_one", "ann"), token("bob", "hpx_two", "bob")]
    )
    running = Serve(t, [], config=config)
    ann, bob = (
        Line(running.client(path="/mcp/bank", token=secret), True)
        for secret in ("hpx_one", "hpx_two")
    )
    ident = assert_unknown(t, ann.call(args={"n": 0}, key=KEY + "10"), "the lost one")["id"]
    for n in range(1, 6):
        ann.call(args={"n": n}, key=f"{KEY}1{n}")
    bob.call(args={"n": 9}, key=KEY + "19")
    told = ann.ask("list")
    t.equal([one["id"] for one in told["operations"]], [ident], "what is open")
    t.true("nextCursor" not in told, f"one page: {told}")
    keys, cursor = [], None
    for _ in range(9):
        page = ann.ask(
            "list", state="succeeded", limit=2, tool="charge", **({"cursor": cursor} if cursor else {})
        )
        t.true(len(page["operations"]) <= 2, f"a page of two: {page}")
        keys += [one["key"] for one in page["operations"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    t.equal(keys, [f"{KEY}1{n}" for n in range(1, 6)], "all pages")
    t.equal([one["key"] for one in bob.ask("list", state="succeeded")["operations"]], [KEY + "19"], "his")
    t.equal(bob.ask("list")["operations"], [], "nothing of his is open")
    t.equal(ann.ask("list", tool="other")["operations"], [], "of another tool")
    for wrong in ({"state": "lost"}, {"cursor": "x"}, {"limit": 0}):
        t.equal(ann.denied("list", **wrong)["code"], -32602, f"{wrong}")


@verbs("nothing_is_too_long_to_be_answered")
def long_answers(t, w):
    """A list that would be longer than one message ends its page early; one operation that is, is
    refused in words. Neither is left without an answer."""
    keys = [f"{n:03}-" + "k" * 200 + f"-{n}" for n in range(1, 41)]
    client = w.client({"tools": {"charge": {"runs": [[{"text": "r" * 100000}]]}}})
    for n, key in enumerate(keys):
        client.result(client.call(args={"n": n}, key=key))
    client.close_stdin()
    client.wait_eof()
    fresh = RawClient(t, client.argv[:2] + ["--message-max", "8KiB"] + client.argv[2:], env=t.env)
    fresh.initialize()
    line = Line(fresh, False)
    told, cursor = [], None
    for _ in range(len(keys)):
        page = line.ask("list", state="succeeded", limit=200, **({"cursor": cursor} if cursor else {}))
        told += [one["key"] for one in page["operations"]]
        cursor = page.get("nextCursor")
        if cursor is None:
            break
    t.equal(told, keys, "all pages")
    error = line.denied("get", key=keys[0], tool="charge")
    t.equal(error["data"]["code"], "TOO_LARGE", f"one that is too long: {error}")
    error = line.denied("list", tool="t" * 5000)
    t.equal(error["data"]["code"], "INVALID", f"a name that no tool has: {error}")


@verbs("cancel_leaves_no_long_names_behind")
def cancel_long(t, w):
    """What a cancel writes down is bounded as what a call writes down is."""
    line = Line(w.client(QUICK), False)
    line.call(args={"n": 1}, key=KEY + "50")
    error = line.denied("cancel", key=KEY + "51", tool="t" * 2000)
    t.equal(error["data"]["code"], "INVALID", f"told: {error}")
    t.equal(len(t.operations()), 1, "rows")


@verbs("strangers_cancel_and_acknowledge_nothing")
def strangers(t, w):
    """By id a stranger sees what he would see for an absent one; by key he has a conflict, as with
    a call."""
    config = write_config(
        t, [upstream(t, "bank", QUICK)], [token("ann", "hpx_one", "ann"), token("bob", "hpx_two", "bob")]
    )
    running = Serve(t, [], config=config)
    ann, bob = (
        Line(running.client(path="/mcp/bank", token=secret), True)
        for secret in ("hpx_one", "hpx_two")
    )
    ident = operation(ann.call(key=KEY + "20"))["id"]
    for verb in ("cancel", "acknowledge", "get"):
        t.equal(bob.denied(verb, id=ident), bob.denied(verb, id=KEY + "ff"), f"{verb} by id")
    for verb in ("acknowledge", "get"):
        t.equal(
            bob.denied(verb, key=KEY + "20", tool="charge"), bob.denied(verb, id=KEY + "ff"), verb
        )
    error = bob.denied("cancel", key=KEY + "20", tool="charge")
    t.equal(error["data"]["code"], "KEY_CONFLICT", f"cancel by key: {error}")
    t.true(ident not in json.dumps(error), f"and no details: {error}")
    t.equal(ann.ask("get", id=ident)["operation"]["delivery"], "sent", "untouched")


@verbs("acknowledged_is_delivered")
def acknowledged(t, w):
    """Whoever says that he has the outcome is not taken for one who lost it."""
    for line in both(t, w, QUICK):
        result = line.call(args={"n": 1}, key=KEY + "30")
        ident = operation(result)["id"]
        told = line.ask("acknowledge", id=ident)["operation"]
        t.equal((told["id"], told["delivery"]), (ident, "acknowledged"), f"told: {told}")
        told = line.ask("get", key=KEY + "30", tool="charge")["operation"]
        t.equal(told["delivery"], "acknowledged", f"stored: {told}")
        t.true("receipt" in json.dumps(told["result"]), f"and kept: {told}")
        error = line.denied("acknowledge", id=KEY + "ff")
        t.equal(error["data"]["code"], "NOT_FOUND", f"nothing: {error}")


@verbs("acknowledge_of_what_is_open")
def acknowledge_open(t, w):
    client = w.client(DIES)
    ident = assert_unknown(t, client.result(client.call(key=KEY + "31")), "lost")["id"]
    error = client.error(client.request("hapax/operations/acknowledge", {"id": ident}))
    t.equal(error["data"]["code"], "NOT_APPLIED", f"told: {error}")


@verbs("keys_that_are_handed_out")
def issued(t, w):
    """With issued_keys_only a key of one's own is refused, one that was handed out runs once, also
    through a gateway that is started anew; somebody else's is none."""
    rule = ("--tool", "charge: issued_keys_only=on", "--offer-begin")
    for line in both(t, w, QUICK, *rule):
        error = line.refused(args={"n": 1}, key=KEY + "40")
        t.equal(error["data"]["code"], "KEY_INVALID", f"a key of his own: {error}")
        t.true("hapax_begin" in error["message"], f"says whom to ask: {error}")
        key = line.ask("begin")["key"]
        other = json.loads(text(line.call("hapax_begin", {})))["key"]
        t.true(key != other and len(key) >= 64, f"keys: {key} {other}")
        first = line.call(args={"n": 1}, key=key)
        again = line.call(args={"n": 1}, key=key)
        t.equal(text(first), text(again), "the same outcome")
        t.equal(operation(again)["replayed"], True, "replayed")
        line.call(args={"n": 1}, key=other)
        t.equal(len(t.effects()), 2, "effects of two keys")
        forged = key[:-1] + ("0" if key[-1] != "0" else "1")
        t.equal(line.refused(key=forged)["data"]["code"], "KEY_INVALID", "one digit changed")
        if not line.is_web:
            client = line.client
            client.close_stdin()
            client.wait_eof()
            fresh = Line(w.again(client), False)
            t.equal(text(fresh.call(args={"n": 1}, key=key)), text(first), "after a new start")
            mode = os.stat(os.path.join(t.ledger, "ledger.db-issue")).st_mode & 0o777
            t.equal(mode, 0o600, "mode of the secret")


@verbs("keys_that_are_handed_out_are_personal")
def issued_to(t, w):
    rule = "    issued_keys_only: on\n"
    config = write_config(
        t,
        [upstream(t, "bank", QUICK, rule)],
        [token("ann", "hpx_one", "ann"), token("bob", "hpx_two", "bob")],
    )
    running = Serve(t, [], config=config)
    ann, bob = (
        Line(running.client(path="/mcp/bank", token=secret), True)
        for secret in ("hpx_one", "hpx_two")
    )
    key = ann.ask("begin")["key"]
    error = bob.refused(key=key)
    t.equal(error["data"]["code"], "KEY_INVALID", f"of somebody else: {error}")
    ann.call(key=key)
    t.equal(len(t.effects()), 1, "effects")


@verbs("a_handed_out_key_that_is_too_old")
def issued_old(t, w):
    """After its lifetime a key begins nothing, but what it began is still told."""
    client = w.client(
        QUICK, "--tool", "charge: issued_keys_only=on", "--issued-key-lifetime", "60s"
    )
    line = Line(client, False)
    used, unused = line.ask("begin")["key"], line.ask("begin")["key"]
    first = line.call(args={"n": 1}, key=used)
    client.close_stdin()
    client.wait_eof()
    late = dict(
        t.env,
        LD_PRELOAD="/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        FAKETIME="+2m",
        DONT_FAKE_MONOTONIC="1",
    )
    if not os.path.exists(late["LD_PRELOAD"]):
        from kit.harness import Skip

        raise Skip("libfaketime is not installed")
    fresh = RawClient(t, client.argv, env=late)
    fresh.initialize()
    line = Line(fresh, False)
    t.equal(code(line.call(args={"n": 2}, key=unused)), "KEY_EXPIRED", "one that was never used")
    t.equal(text(line.call(args={"n": 1}, key=used)), text(first), "one that was")
    t.equal(len(t.effects()), 1, "effects")


@verbs("own_tools_are_listed_where_offered")
def own_tools(t, w):
    offered = ("--offer-begin", "--offer-operation", "--let-caller-decide")
    names = {"hapax_begin", "hapax_operation", "hapax_resolve"}
    plain = Line(w.client(QUICK), False)
    t.true(not names & {tool["name"] for tool in plain.tools()}, "not without being offered")
    plain.call("hapax_operation", {"id": KEY + "ff"})
    t.equal(len(t.effects("hapax_operation")), 1, "then the name is the server's own")
    t.remove("effects")
    for line in both(t, w, QUICK, *offered):
        listed = [tool["name"] for tool in line.tools()]
        t.equal(set(listed) & names, names, f"listed: {listed}")
        ident = operation(line.call(key=KEY + "50"))["id"]
        told = json.loads(text(line.call("hapax_operation", {"id": ident})))["operation"]
        t.equal((told["id"], told["execution"]), (ident, "succeeded"), f"told: {told}")
        absent = line.call("hapax_operation", {"id": KEY + "ff"})
        t.equal(absent["isError"], True, f"absent: {absent}")
        t.equal(len(t.effects()), 1, "effects: none by our own tools")


@verbs("the_caller_settles_what_is_unknown")
def resolve_tool(t, w):
    """With let_caller_decide: each decision, once; the history tells who; the second is told."""
    for line in both(t, w, DIES, "--let-caller-decide"):
        ident = assert_unknown(t, line.call(args={"n": 1}, key=KEY + "60"), "lost")["id"]
        told = line.call("hapax_resolve", {"id": ident, "decision": "absent"})
        t.equal(told["isError"], True, f"absence is not provable yet: {told}")
        told = line.call("hapax_resolve", {"id": ident, "decision": "perhaps"})
        t.equal(told["isError"], True, f"no such word: {told}")
        told = line.call("hapax_resolve", {"id": ident, "decision": "again", "note": "asked Bo"})
        t.equal(told["isError"], False, f"do it again: {told}")
        told = line.call("hapax_resolve", {"id": ident, "decision": "happened"})
        t.equal(told["isError"], True, f"the second decision: {told}")
        t.true("not applied" in text(told), f"is told so: {told}")
        result = line.call(args={"n": 1}, key=KEY + "60")
        t.true("receipt" in text(result), f"it was done again: {result}")
        t.equal(len(t.effects()), 2, "effects: the lost one and the one that was asked for")
        _, out, _ = t.ops("show", ident, "--ledger", t.ledger)
        t.true(b"by hapax_resolve" in out and b"asked Bo" in out, f"the history: {out.decode()}")


@verbs("advertised_as_an_extension")
def advertised(t, w):
    client = RawClient(t, w.argv(QUICK))
    hello = client.initialize()
    verbs_told = hello["capabilities"]["extensions"]["dev.hapax/operations"]
    t.equal(
        set(verbs_told), {"get", "list", "cancel", "acknowledge", "begin"}, f"told: {verbs_told}"
    )
