# SPDX-License-Identifier: MIT
"""Field cases, groups B and C without restarts: keys, conflicts, a ledger that cannot be written.
"""

import resource
import sqlite3

from .way import case, code, operation, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000001"


@case("028_key_in_params", bare="breaks")
def key_in_params(t, w):
    """The proposed `params.idempotencyKey` is honoured; other arguments under it conflict and
    call nobody.
    """
    client = w.client({"tools": {"charge": {}}})
    how = {"extra": {"idempotencyKey": KEY + "28"}}
    first, second = (client.result(client.call(args={"n": 1}, **how)) for _ in range(2))
    t.equal(len(t.effects()), 1, "effects")
    t.equal(without_ours(second), without_ours(first), "replay")
    error = client.error(client.call(args={"n": 2}, **how))
    t.equal(error["code"], -32602, "error code of a conflict")
    t.equal(error["data"]["type"], "idempotency_key_conflict", "data.type of a conflict")
    t.equal(len(t.effects()), 1, "effects after a conflict")


@case("029_key_is_stripped")
def key_stripped(t, w):
    """Neither way of giving the key reaches a server that did not ask for it; the rest of `_meta`
    does.
    """
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call(extra={"idempotencyKey": KEY + "29"}))
    client.result(client.call(key=KEY + "2a", meta={"example.com/trace": "kept"}))
    first, second = t.effects()
    t.true("idempotencyKey" not in first["params"], f"params seen by the server: {first['params']}")
    names = set(second["meta"] or {})
    t.true("dev.hapax/idempotencyKey" not in names, f"_meta seen by the server: {names}")
    t.equal((second["meta"] or {}).get("example.com/trace"), "kept", "other _meta members")


@case("033_ledger_locked")
def ledger_locked(t, w):
    """Another program sits on the ledger: refused before dispatch, in bounded time; then the key
    runs.
    """
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call("warm_up"))
    holder = sqlite3.connect(t.database(), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        error = client.error(client.call(key=KEY + "33"), 20)
        t.equal(error["code"], 1503, f"error while the ledger is locked: {error}")
        t.equal(len(t.effects("charge")), 0, "effects while the ledger is locked")
    finally:
        holder.rollback()
        holder.close()
    result = w.poll(client, key=KEY + "33")
    t.true(t.effects("charge")[0]["receipt"] in str(result), f"result after the lock: {result}")
    t.equal(len(t.effects("charge")), 1, "effects")


@case("033_no_space")
def no_space(t, w):
    """No file of the keeper may grow: the call is refused before dispatch; with space again the
    same key runs.
    """
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call("warm_up"))
    keeper = w.keeper(client)
    before = resource.prlimit(keeper, resource.RLIMIT_FSIZE)
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (0, before[1]))
    error = client.error(client.call(key=KEY + "34"))
    t.equal(error["code"], 1503, f"error without space: {error}")
    t.equal(len(t.effects("charge")), 0, "effects without space")
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, before)
    answers = []

    def runs_again():
        answers.append(client.answer(client.call(key=KEY + "34")))
        return answers[-1].get("result")

    result = t.wait(runs_again, "the same key to run with space again", 10)
    t.true(t.effects("charge")[0]["receipt"] in str(result), f"result with space again: {result}")
    t.equal(len(t.effects("charge")), 1, "effects")


@case("034_receipt_after_restart", bare="breaks")
def receipt_after_restart(t, w):
    """Call, restart everything, repeat with the key: the stored receipt."""
    client = w.client({"tools": {"post": {}}})
    first = client.result(client.call("post", {"n": 1}, key=KEY + "3a"))
    client.close_stdin()
    client.process.wait(10)
    fresh = w.again(client)
    second = fresh.result(fresh.call("post", {"n": 1}, key=KEY + "3a"))
    t.equal(without_ours(second), without_ours(first), "receipt after the restart")
    t.equal(len(t.effects()), 1, "effects")


@case("037_one_key_across_eight_connections")
def across_connections(t, w):
    """64 parallel calls with one key over eight processes on one ledger: one effect, 64 equal
    results.
    """
    script = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
    clients = [w.client(script, orphan="20s") for _ in range(8)]
    refs = [
        (client, client.call(args={"n": 1}, key=KEY + "37")) for client in clients for _ in range(8)
    ]
    for client in clients:
        client.result(client.request("tools/list"))
    t.wait_effects(1)
    t.touch("release")
    results = [client.result(ref, 40) for client, ref in refs]
    t.equal(len(t.effects()), 1, "effects")
    for result in results:
        t.equal(without_ours(result), without_ours(results[0]), "result")
        t.true(not result.get("isError"), f"a real result: {result}")


@case("038_may_a_new_key_be_used")
def retry_safe_field(t, w):
    """Every answer of ours says whether a new key is allowed: false whenever dispatch may have
    happened.
    """
    script = {
        "tools": {
            "dies": {"runs": [[{"exit": 1}]]},
            "slow": {"runs": [[{"wait": "release"}, {"text": "done"}]]},
        }
    }
    client = w.client(script, "--join-wait", "300ms")
    envelope = operation(client.result(client.call("dies", key=KEY + "3b")))
    t.equal(
        (envelope.get("code"), envelope.get("new_key_allowed")),
        ("OUTCOME_UNKNOWN", False),
        "unknown",
    )
    client.call("slow", key=KEY + "3c")
    t.wait_effects(2)
    envelope = operation(client.result(client.call("slow", key=KEY + "3c")))
    t.equal((envelope.get("code"), envelope.get("new_key_allowed")), ("BUSY", False), "busy")
    t.true(envelope.get("retry_after_ms", 0) > 0, "busy says when to ask again")
    t.touch("release")
    conflict = client.error(client.call("slow", {"other": 1}, key=KEY + "3c"))
    invalid = client.error(client.call("slow", key="null"))
    t.equal((conflict["code"], invalid["code"]), (-32602, -32602), "codes of refused keys")
    t.equal(len(t.effects()), 2, "effects")


@case("039_bad_keys")
def bad_keys(t, w):
    """Bad keys are refused and dispatch nothing (the header half of this row is HTTP's)."""
    client = w.client({"tools": {"charge": {}}})
    for key in (
        "",
        "k" * 256,
        "a\tb",
        "with space",
        "sch\u00f6n",
        "null",
        "NULL",
        "undefined",
        "None",
        "aaaa",
        "00000000-0000-0000-0000-000000000000",
        7,
        None,
        ["a"],
    ):
        error = client.error(
            client.request(
                "tools/call",
                {"name": "charge", "arguments": {}, "_meta": {"dev.hapax/idempotencyKey": key}},
            )
        )
        t.equal(error["code"], -32602, f"error code for the key {key!r}")
    t.equal(t.effects(), [], "effects")
    client.result(client.call(key="k" * 254 + "x"))
    t.equal(len(t.effects()), 1, "effects of a long but good key")


@case("040_definition_changed_in_between", bare="breaks")
def definition_changed(t, w):
    """The tool's schema changes between call and repeat: the repeat still gets the stored result."""
    script = {
        "tools": {
            "charge": {"listing": {"inputSchema": {"type": "object", "properties": {"n": {}}}}}
        }
    }
    client = w.client(script)
    client.result(client.request("tools/list"))
    first = client.result(client.call(args={"n": 1}, key=KEY + "40"))
    client.close_stdin()
    client.process.wait(10)
    script["tools"]["charge"]["listing"]["inputSchema"]["properties"] = {
        "n": {"type": "number"},
        "m": {},
    }
    fresh = w.client(script)
    fresh.result(fresh.request("tools/list"))
    second = fresh.result(fresh.call(args={"n": 1}, key=KEY + "40"))
    t.equal(without_ours(second), without_ours(first), "stored result")
    t.equal(len(t.effects()), 1, "effects")
    t.true(code(second) is None, f"a plain replay: {operation(second)}")
