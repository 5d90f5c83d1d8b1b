# SPDX-License-Identifier: MIT
"""Field cases, group A: re-sent calls. Each test carries the number of its row in
field_cases.json.
"""

import re

from kit import processes
from .way import assert_unknown, case, code, operation, without_ours

ACT_AND_DIE = [[{"exit": 1}]]
ACT_AND_DIE_ONCE = [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]
RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
KEY = "0190a0a0-0000-7000-8000-0000000000"


def annotated(**hints):
    return {"listing": {"annotations": hints}, "runs": ACT_AND_DIE_ONCE}


FOUR = {
    "tools": {
        "none": {"runs": ACT_AND_DIE_ONCE},
        "not_idempotent": annotated(idempotentHint=False),
        "idempotent": annotated(idempotentHint=True),
        "reader": annotated(readOnlyHint=True),
    }
}


def settle(client, tool, key=None):
    """One call and its answer, whatever it is."""
    return client.answer(client.call(tool, {"n": 1}, key=key))


@case("002_annotations_by_default")
def annotations_default(t, w):
    """By default only readOnlyHint is believed: no write tool is sent twice."""
    client = w.client(FOUR)
    client.result(client.request("tools/list"))
    for tool in FOUR["tools"]:
        settle(client, tool)
    for tool in ("none", "not_idempotent", "idempotent"):
        t.equal(len(t.effects(tool)), 1, f"effects of {tool}")
    t.true(len(t.effects("reader")) <= 2, "a reader is run at most twice")


@case("002_annotations_trusted")
def annotations_trusted(t, w):
    """With `--hints trust` the idempotent tool, and only it, is sent again; the caller gets the
    real result. Each time the server has died, the list is asked for again: a server that was
    started anew may be another one, and its hints hold only when it said them.
    """
    client = w.client(FOUR, "--hints", "trust")
    for tool in ("none", "not_idempotent"):
        client.result(client.request("tools/list"))
        assert_unknown(t, settle(client, tool).json["result"], tool)
        t.equal(len(t.effects(tool)), 1, f"effects of {tool}")
    client.result(client.request("tools/list"))
    result = settle(client, "idempotent").json["result"]
    t.equal(len(t.effects("idempotent")), 2, "effects of the idempotent tool")
    t.true(
        t.effects("idempotent")[1]["receipt"] in str(result),
        f"the result of the second run: {result}",
    )


@case("004_no_reply_after_reading")
def no_reply(t, w):
    """The server reads the whole request and goes away: one execution, outcome unknown."""
    client = w.client({"tools": {"charge": {"runs": [[{"close": "stdout"}, {"exit": 0}]]}}})
    assert_unknown(t, client.result(client.call()), "answer")
    t.equal(len(t.effects()), 1, "effects")


@case("005_name_says_get_but_it_writes")
def name_is_no_hint(t, w):
    """`get_or_create_issue` without annotations is a write: recorded, never sent again."""
    client = w.client({"tools": {"get_or_create_issue": {"runs": ACT_AND_DIE}}})
    client.result(client.request("tools/list"))
    envelope = assert_unknown(t, settle(client, "get_or_create_issue").json["result"], "answer")
    assert_unknown(t, settle(client, "get_or_create_issue").json["result"], "answer to the repeat")
    t.equal(len(t.effects()), 1, "effects")
    t.true(
        any(envelope["id"] == op.get("id") for op in t.operations()),
        "the operation is in the ledger",
    )


@case("007_timeout_then_join")
def timeout_then_join(t, w):
    """Our deadline passes while the tool works: the answer names the operation; the retry gets
    the result.
    """
    client = w.client({"tools": {"create_job": {"runs": RELEASED}}}, "--timeout", "1s")
    first = client.result(client.call("create_job", key=KEY + "07"))
    t.true(
        first.get("isError") and code(first) in ("BUSY", "OUTCOME_UNKNOWN"),
        f"first answer: {first}",
    )
    t.true(operation(first).get("id"), "the answer carries the operation id")
    t.touch("release")
    result = w.poll(client, "create_job", key=KEY + "07")
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("008_state_by_id_after_timeout")
def state_by_id(t, w):
    """The answer at the deadline holds id, state and whether a new key is safe; the id leads to
    the outcome.
    """
    client = w.client({"tools": {"fetch": {"runs": RELEASED}}}, "--timeout", "1s")
    envelope = operation(client.result(client.call("fetch", key=KEY + "08")))
    t.true(envelope.get("id"), "operation id")
    t.true(envelope.get("execution") in ("running", "unknown"), f"state in {envelope}")
    t.equal(envelope.get("new_key_allowed"), False, "new_key_allowed")

    def state():
        return next(op["execution"] for op in t.operations() if op["id"] == envelope["id"])

    t.true(state() in ("running", "unknown"), f"state by id: {state()}")
    t.touch("release")
    t.wait(lambda: state() == "succeeded", "the operation to succeed")
    t.equal(len(t.effects()), 1, "effects")


@case("010_key_by_each_way")
def key_by_each_way(t, w):
    """A key is known by `_meta`, by params and by a configured argument; two unequal ones are
    refused.
    """
    client = w.client({"tools": {"mail": {}}}, "--tool", "mail: key_argument=/idempotency_key")
    ways = {
        "meta": {"key": KEY + "1a"},
        "params": {"extra": {"idempotencyKey": KEY + "1b"}},
        "argument": {"args": {"idempotency_key": KEY + "1c"}},
    }
    for count, (name, how) in enumerate(ways.items(), 1):
        first, second = (client.result(client.call("mail", **how)) for _ in range(2))
        t.equal(len(t.effects()), count, f"effects after two calls with the key by {name}")
        t.equal(without_ours(second), without_ours(first), f"replay, key by {name}")
    t.true(
        "idempotencyKey" not in t.effects()[1]["params"], "our key member does not go to the server"
    )
    error = client.error(client.call("mail", key=KEY + "1d", extra={"idempotencyKey": KEY + "1e"}))
    t.equal(error["code"], -32602, "error code of two unequal keys")
    t.equal(len(t.effects()), 3, "effects after two unequal keys")


@case("012_never_sent_and_answer_lost")
def never_sent(t, w):
    """Not sent and answer lost are told apart, and so is what the caller may do."""
    script = {
        "tools": {"charge": {"runs": ACT_AND_DIE}},
        "start": [
            {"unless": "broken", "do": []},
            {"unless": "fine", "do": [{"stderr": "no database"}, {"exit": 7}]},
        ],
    }
    t.touch("fine")
    client = w.client(script)
    lost = assert_unknown(t, client.result(client.call(args={"n": 1})), "answer lost")
    t.equal(lost["new_key_allowed"], False, "new key after an answer lost")
    t.remove("fine")
    error = client.error(client.call(args={"n": 2}))
    t.equal(error["code"], 1502, f"server cannot be started: {error}")
    t.true(
        "7" in str(error) and "no database" in str(error),
        f"exit status and last stderr line in {error}",
    )
    t.equal(len(t.effects()), 1, "effects: the second call was never sent")
    t.touch("fine")
    assert_unknown(
        t, client.result(client.call(args={"n": 2})), "the same call on a server that starts again"
    )
    t.equal(len(t.effects()), 2, "effects")


@case("016_unauthorized_is_a_result", bare="holds")
def unauthorized(t, w):
    """A tool result whose text says 'unauthorized' is a result like any other."""
    raw = '{"content":[{"type":"text","text":"401 unauthorized: token expired"}],"isError":true}'
    client = w.client({"tools": {"charge": {"runs": [[{"result": raw}]]}}})
    result = client.result(client.call())
    t.equal(
        without_ours(result),
        {"content": [{"type": "text", "text": "401 unauthorized: token expired"}], "isError": True},
        "result",
    )
    t.equal(len(t.effects()), 1, "effects")


@case("017a_kill_before_write", bare="breaks")
def kill_before_write(t, w):
    """The server dies while idle: the next call starts it again and runs once."""
    client = w.client()
    w.kill_server()
    result = client.result(client.call())
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    t.equal(len(t.effects()), 1, "effects")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@case("017b_kill_after_write", bare="breaks")
def kill_after_write(t, w):
    """The server dies with the call in its hands: started again, the call is not run again,
    UNKNOWN.
    """
    client = w.client({"tools": {"charge": {"runs": [[{"wait": "never"}]]}}})
    first = client.call()
    t.wait_effects(1)
    w.kill_server()
    assert_unknown(t, client.result(first), "answer")
    client.result(client.call("other"))
    t.equal([effect["tool"] for effect in t.effects()], ["charge", "other"], "what ran")


@case("018_respawn_without_resend", bare="breaks")
def respawn(t, w):
    """The child dies in call 2 after the effect: call 3 has a new child, call 2 is not sent
    again.
    """
    client = w.client({"tools": {"two": {"runs": ACT_AND_DIE_ONCE}}})
    client.result(client.call("one"))
    assert_unknown(t, client.result(client.call("two")), "call 2")
    result = client.result(client.call("three"))
    t.true(t.effects("three")[0]["receipt"] in str(result), "call 3 is answered")
    t.equal([effect["tool"] for effect in t.effects()], ["one", "two", "three"], "what ran")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@case("020_gateway_terminated_and_started_again")
def terminated(t, w):
    """SIGTERM to the gateway in a slow call, a new gateway, the same key: one effect, and the
    stored result.
    """
    client = w.client({"tools": {"send_message": {"runs": RELEASED}}}, orphan="20s")
    client.call("send_message", key=KEY + "20")
    t.wait_effects(1)
    processes.kill(client.pid, t.surroundings.hapax, 15)
    client.wait_eof(5)
    fresh = w.again(client)
    second = fresh.call("send_message", key=KEY + "20")
    fresh.result(fresh.request("tools/list"))
    t.touch("release")
    t.true(
        t.effects()[0]["receipt"] in str(fresh.result(second)), "the repeat gets the real result"
    )
    t.equal(len(t.effects()), 1, "effects")


@case("021_same_id_twice", bare="breaks")
def same_id(t, w):
    """A transport that replays one request: one effect. A deliberate second call has a new id: it
    acts.
    """
    client = w.client({"tools": {"spawn": {"runs": RELEASED}}})
    line = client.call_line("spawn", b'{"n":1}', 77)
    client.send(line)
    client.send(line)
    client.result(client.request("tools/list"))
    t.wait_effects(2 if w.is_bare else 1)
    t.touch("release")
    client.result(77)
    t.equal(len(t.effects()), 1, "effects of one id")
    client.result(client.call("spawn", {"n": 1}))
    t.equal(len(t.effects()), 2, "effects after a new id")


@case("022_cancel_as_it_finishes", bare="breaks")
def cancel_as_it_finishes(t, w):
    """The client cancels as the tool finishes, then repeats: it gets the stored result."""
    client = w.client({"tools": {"book": {"runs": RELEASED}}})
    first = client.call("book", key=KEY + "22")
    t.wait_effects(1)
    t.touch("release")
    client.cancel(first, "user pressed Esc")
    result = w.poll(client, "book", key=KEY + "22")
    t.true(t.effects()[0]["receipt"] in str(result), f"the stored result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("023_window", bare="breaks")
def window(t, w):
    """`--repeat window`: an equal call inside the window is the same call, and the answer says
    so.
    """
    client = w.client({"tools": {"create": {}}}, "--repeat", "window")
    first = client.result(client.call("create", {"n": 1}))
    second = client.result(client.call("create", {"n": 1}))
    t.equal(len(t.effects()), 1, "effects of two equal calls inside the window")
    t.equal(second["content"][0], first["content"][0], "replayed result")
    t.true(
        re.search("nothing ran now", second["content"][-1]["text"]),
        f"a note says that nothing ran: {second}",
    )
    client.result(client.call("create", {"n": 2}))
    t.equal(len(t.effects()), 2, "effects after another call")


@case("023_window_passed")
def window_passed(t, w):
    """After the window an equal call runs."""
    client = w.client(
        {"tools": {"create": {}}}, "--repeat", "window", "--tool", "create: repeat_window=1s"
    )
    client.result(client.call("create", {"n": 1}))

    def second():
        client.result(client.call("create", {"n": 1}))
        return len(t.effects()) == 2

    t.wait(second, "an equal call to run after the window")


@case("023_default_runs_both", bare="holds")
def default_runs_both(t, w):
    client = w.client({"tools": {"create": {}}})
    for _ in range(2):
        client.result(client.call("create", {"n": 1}))
    t.equal(len(t.effects()), 2, "effects of two delivered equal calls")


@case("026_three_retries_with_one_key", bare="breaks")
def three_retries(t, w):
    """Three attempts with one key after timeouts: one effect, one result, to the last attempt."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    refs = []
    for _ in range(3):
        if refs:
            client.cancel(refs[-1], "timeout")
        refs.append(client.call(key=KEY + "26"))
        client.result(client.request("tools/list"))
    t.wait_effects(3 if w.is_bare else 1)
    t.touch("release")
    t.true(
        t.effects()[0]["receipt"] in str(client.result(refs[2])), "the last attempt gets the result"
    )
    t.equal(len(t.effects()), 1, "effects")
    t.equal([len(client.answers(ref)) for ref in refs], [0, 0, 1], "answers to the attempts")


@case("027_unsafe_rule_refused")
def unsafe_rule(t, w):
    """A rule that would retry on timeout does not exist: refused at the start, naming it."""
    from rawclient import RawClient

    client = RawClient(t, w.argv({}, "--tool", "charge: retry_on_timeout=true"))
    status = client.process.wait(10)
    t.true(status != 0, f"exit status {status}")
    with open(client.stderr_path, encoding="utf-8") as file:
        said = file.read()
    t.true("retry_on_timeout" in said, f"the message names what it refuses: {said[-300:]!r}")
    t.equal(t.lines("starts"), [], "starts of the server")
