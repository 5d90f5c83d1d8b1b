# SPDX-License-Identifier: MIT
"""Field cases, groups D, E and J: hangs, deadlines, cancels, and what runs beside them."""

import time

from kit import processes
from rawclient import RawClient
from .way import assert_unknown, case, operation

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
NEVER = [[{"wait": "never"}]]
READ_ONLY = {"annotations": {"readOnlyHint": True}}
KEY = "0190a0a0-0000-7000-8000-0000000003"
SOON = 10.0  # "under 1 s" in the field case; the machine may be busy with three other tests


def timed(t, client, send, seconds=30.0):
    """The answer to the request whose id `send` gives, and how long both took."""
    begin = t.clock()
    answer = client.answer(send(), seconds)
    return answer, t.clock() - begin


@case("049_deadline_of_a_mute_tool")
def deadline(t, w):
    """A tool that never answers: an answer at the deadline, in doubt for a write, an error for a
    read.
    """
    client = w.client(
        {"tools": {"write": {"runs": NEVER}, "read": {"listing": READ_ONLY, "runs": NEVER}}},
        "--timeout",
        "1s",
    )
    client.result(client.request("tools/list"))
    answer, seconds = timed(t, client, lambda: client.call("write"))
    envelope = operation(answer.json["result"])
    t.true(envelope["code"] in ("BUSY", "OUTCOME_UNKNOWN"), f"answer to the write: {envelope}")
    t.true(0.9 <= seconds <= 1 + SOON, f"deadline of 1 s, answered after {seconds:.2f} s")
    answer, seconds = timed(t, client, lambda: client.call("read"))
    t.true(
        answer.get("error") or answer.json["result"].get("isError"), f"answer to the read: {answer}"
    )
    t.true(0.9 <= seconds <= 1 + SOON, f"deadline of 1 s, answered after {seconds:.2f} s")


@case("050_server_killed_answers_at_once")
def killed_answers(t, w):
    """The server dies in a call with a deadline far away: the answer comes now."""
    client = w.client({"tools": {"charge": {"runs": NEVER}}}, "--timeout", "60s")
    first = client.call()
    t.wait_effects(1)
    w.kill_server()
    answer, seconds = timed(t, client, lambda: first)
    assert_unknown(t, answer.json["result"], "answer")
    t.true(seconds < SOON, f"answered after {seconds:.2f} s")


@case("051_dead_server_is_started_again", bare="breaks")
def started_again(t, w):
    """kill -9 to the child with a call in flight: UNKNOWN soon; the next call starts a new child."""
    client = w.client({"tools": {"charge": {"runs": NEVER}}})
    first = client.call()
    t.wait_effects(1)
    w.kill_server()
    answer, seconds = timed(t, client, lambda: first)
    assert_unknown(t, answer.json["result"], "answer")
    t.true(seconds < SOON, f"answered after {seconds:.2f} s")
    result = client.result(client.call("other"))
    t.true(
        t.effects("other")[0]["receipt"] in str(result), "the next call is answered by a new child"
    )
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@case("052_server_exits_at_start")
def exits_at_start(t, w):
    """A child that exits at once: the client gets an error with exit status and last words, not a
    silence.
    """
    client = RawClient(t, w.argv({"start": [{"stderr": "cannot open the database"}, {"exit": 9}]}))
    ident = client.request(
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    )
    error = client.error(ident)
    t.equal(error["code"], 1502, f"error: {error}")
    t.true(
        "9" in str(error) and "cannot open the database" in str(error),
        f"status and last words in {error}",
    )


@case("052_server_that_never_answers_initialize")
def never_answers(t, w):
    """A child that starts and stays mute: an error at the start-up deadline, with its last words."""
    mute = ["sh", "-c", "echo waiting for the database >&2; cat > /dev/null"]
    client = RawClient(t, t.hapax_argv(mute, "--start-timeout", "1s"))
    began = time.monotonic()
    error = client.error(
        client.request(
            "initialize",
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        )
    )
    seconds = time.monotonic() - began
    t.equal(error["code"], 1502, f"error: {error}")
    t.true(
        "start_timeout" in str(error) and "waiting for the database" in str(error),
        f"reason and last words in {error}",
    )
    t.true(0.9 <= seconds <= 1 + SOON, f"deadline of 1 s, answered after {seconds:.2f} s")


@case("052_program_that_is_not_there")
def not_there(t, w):
    client = RawClient(t, t.hapax_argv(["/nonexistent/server"]))
    ident = client.request(
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    )
    t.equal(client.error(ident)["code"], 1502, "error code")


@case("055_start_has_its_own_budget")
def start_budget(t, w):
    """A child that needs longer to start again than the tool's deadline: the call still succeeds."""
    script = {
        "start": [{"unless": "warm", "do": [{"sleep": 2500}]}, {"touch": "warm"}],
        "tools": {"charge": {}},
    }
    t.touch("warm")
    client = w.client(script, "--timeout", "1500ms")
    t.remove("warm")
    w.kill_server()
    result = client.result(client.call(), 30)
    t.true(not result.get("isError"), f"a real result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("056_deadlines_are_what_was_configured")
def configured(t, w):
    """A short deadline ends early, a long one lets the same tool finish."""
    script = {"tools": {"slow": {"runs": [[{"sleep": 1500}, {"text": "done"}]]}}}
    short = w.client(script, "--timeout", "500ms")
    result = short.result(short.call("slow", {"n": 1}))
    t.true(result.get("isError"), f"answer at a deadline of 500 ms: {result}")
    long = w.client(script, "--timeout", "120s", name="long")
    result = long.result(long.call("slow", {"n": 2}))
    t.true(not result.get("isError"), f"answer with a deadline of 120 s: {result}")


@case("057_most_specific_deadline_wins")
def most_specific(t, w):
    script = {
        "tools": {"quick": {"runs": NEVER}, "slow": {"runs": [[{"sleep": 1500}, {"text": "done"}]]}}
    }
    client = w.client(script, "--timeout", "60s", "--tool", "qu*: timeout=500ms")
    slow = client.call("slow")
    answer, seconds = timed(t, client, lambda: client.call("quick"))
    t.true(
        answer.json["result"].get("isError") and seconds < 0.5 + SOON, f"{seconds:.2f} s: {answer}"
    )
    t.true(not client.result(slow).get("isError"), "the general deadline holds for the other tool")


@case("058_idle_deadline")
def idle_deadline(t, w):
    """Progress keeps a tool alive past the idle deadline; silence does not."""
    busy = [step for _ in range(10) for step in ({"progress": 1}, {"sleep": 500})] + [
        {"text": "done"}
    ]
    client = w.client(
        {"tools": {"busy": {"runs": [busy]}, "mute": {"runs": NEVER}}}, "--idle-timeout", "3s"
    )
    ref = client.call("busy", meta={"progressToken": "p"})
    answer, seconds = timed(t, client, lambda: client.call("mute"))
    t.true(
        answer.json["result"].get("isError") and seconds < 3 + SOON, f"{seconds:.2f} s: {answer}"
    )
    result = client.result(ref)
    t.true(not result.get("isError"), f"the tool that reports progress: {result}")


@case("059_progress_in_order_with_the_callers_token", bare="holds")
def progress(t, w):
    """Twenty progress notes, in order, with the client's own token, all before the result; also a
    number token.
    """
    client = w.client({"tools": {"long": {"runs": [[{"progress": 20}, {"text": "done"}]]}}})
    for token in ("my-token", 7, "7"):
        ident = client.call("long", {"token": str(token)}, meta={"progressToken": token})
        client.result(ident)
        before = client.messages[: client.messages.index(client.answers(ident)[0])]
        notes = [
            one.json["params"]
            for one in before
            if one.get("method") == "notifications/progress"
            and one.json["params"]["progressToken"] == token
            and type(one.json["params"]["progressToken"]) is type(token)
        ]
        t.equal(
            [note["progress"] for note in notes],
            list(range(1, 21)),
            f"progress with token {token!r}",
        )


@case("062_half_a_message_then_a_good_one")
def half_message(t, w):
    """Half a JSON object and a newline, then a valid request: a parse error, and the answer, both
    soon.
    """
    client = w.client()
    client.send(
        b'{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"charge","arg', odd=True
    )
    answer, seconds = timed(t, client, lambda: client.request("ping", ident=6))
    t.equal(answer.get("result"), {}, "answer to the good request")
    t.true(seconds < SOON, f"answered after {seconds:.2f} s")
    parse_error = client.wait_message(
        lambda one: one.get("error") and one.json["error"]["code"] == -32700, "a parse error"
    )
    t.true(parse_error.get("id") is None, f"its id is null: {parse_error}")
    t.equal(t.effects(), [], "effects")


@case("066_cancel_by_a_user_reaches_the_tool")
def cancel_forwarded(t, w):
    """Esc: the upstream gets the cancel with its own id; it says "cancelled", which proves
    nothing: UNKNOWN.
    """
    client = w.client({"tools": {"deploy": {"runs": NEVER}}, "on_cancel": "reply"})
    first = client.call("deploy", key=KEY + "66", ident="my own id")
    t.wait_effects(1)
    client.cancel("my own id", "User pressed Esc")
    (cancel,) = t.wait(lambda: t.lines("cancels"), "the cancel at the server")
    t.true(t.effects()[0]["id"].encode() in cancel, f"the cancel names the upstream's id: {cancel}")
    t.wait(lambda: t.operations()[0]["execution"] == "unknown", "the operation to be unknown")
    assert_unknown(t, client.result(client.call("deploy", key=KEY + "66")), "answer to a repeat")
    t.equal(client.answers(first), [], "answers to the cancelled request")
    t.equal(len(t.effects()), 1, "effects")


@case("066_cancelled_but_it_finished")
def cancelled_but_finished(t, w):
    """The tool finishes in spite of the cancel: that outcome is recorded, and given to a repeat."""
    client = w.client({"tools": {"deploy": {"runs": RELEASED}}})
    client.call("deploy", key=KEY + "67", ident=1001)
    t.wait_effects(1)
    client.cancel(1001, "User pressed Esc")
    t.wait(lambda: t.lines("cancels"), "the cancel at the server")
    t.touch("release")
    result = w.poll(client, "deploy", key=KEY + "67")
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("068_cancel_policy")
def cancel_policy(t, w):
    """never: no cancel goes up; always: also that of a timeout does."""
    script = {"tools": {"a": {"runs": NEVER}, "b": {"runs": NEVER}}}
    client = w.client(
        script, "--tool", "a: cancel_upstream=never", "--tool", "b: cancel_upstream=always"
    )
    client.call("a", ident=1)
    t.wait_effects(1)
    client.call("b", ident=2)
    t.wait_effects(2)
    client.cancel(1, "User pressed Esc")
    client.cancel(2, "Request timed out")
    t.wait(lambda: t.lines("cancels"), "a cancel at the server")
    client.result(client.request("tools/list"))
    t.equal(len(t.lines("cancels")), 1, "cancels at the server")
    t.true(t.effects("b")[0]["id"].encode() in t.lines("cancels")[0], "it names the call of tool b")


@case("069_server_that_dies_of_a_cancel")
def dies_of_cancel(t, w):
    """The upstream exits on any cancel: this call UNKNOWN, the gateway lives, the child is
    started again.
    """
    client = w.client({"tools": {"deploy": {"runs": NEVER}}, "on_cancel": "exit"})
    client.call("deploy", ident=1001, key=KEY + "69")
    t.wait_effects(1)
    client.cancel(1001, "User pressed Esc")
    t.wait(lambda: t.operations()[0]["execution"] == "unknown", "the operation to be unknown")
    result = client.result(client.call("other"))
    t.true(t.effects("other")[0]["receipt"] in str(result), "another call is fine")
    assert_unknown(t, client.result(client.call("deploy", key=KEY + "69")), "answer to a repeat")
    t.equal(len(t.effects("deploy")), 1, "effects")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@case("070_cancel_races_completion")
def cancel_races(t, w):
    """A thousand calls, each cancelled as it completes: never two answers to an id, never a
    crash.
    """
    client = w.client({"tools": {"quick": {"runs": [[{"text": "done"}]]}}})
    pid = client.pid
    for n in range(1, 1001):
        ident = client.call("quick", {"n": n})
        if n % 3 == 0:
            client.answer(ident)
        elif n % 3 == 1:
            # A call cancelled before it was sent does not run, so only this one's own effect counts.
            t.wait(
                lambda: any(
                    f'"n": {n}' in str(line) or f'"n":{n}' in str(line) for line in t.effects()
                ),
                f"the effect of {n}",
            )
        client.cancel(ident, "user" if n % 2 else "Request timed out")
    client.result(client.request("ping"))
    t.wait(lambda: not any(op["execution"] == "running" for op in t.operations()), "all outcomes")
    counts = {len(client.answers(ident)) for ident in range(2, 1002)}
    t.true(counts <= {0, 1}, f"answers per id: {counts}")
    t.true(processes.is_alive(pid), "the front lives")
    t.equal(len(t.lines("starts")), 1, "starts of the server")


@case("071_client_leaves_in_a_write")
def client_leaves(t, w):
    """The client disconnects during a write: by default the work goes on and its result is kept,
    on record.
    """
    client = w.client({"tools": {"deploy": {"runs": RELEASED}}}, orphan="20s")
    client.call("deploy", key=KEY + "71")
    t.wait_effects(1)
    client.close_stdin()
    client.close_stdout()
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the outcome to be stored")
    t.equal(t.lines("cancels"), [], "cancels at the server")
    fresh = w.again(client)
    result = fresh.result(fresh.call("deploy", key=KEY + "71"))
    t.true(t.effects()[0]["receipt"] in str(result), f"the stored result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("098_orphan_bound")
def orphan_bound(t, w):
    """Nobody waits and the tool never ends: the bound ends it all, honestly unknown."""
    client = w.client({"tools": {"deploy": {"runs": NEVER}}}, orphan="1s")
    client.call("deploy", key=KEY + "98")
    t.wait_effects(1)
    client.kill(t.surroundings.hapax)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone", 15)
    fresh = w.again(client)
    assert_unknown(t, fresh.result(fresh.call("deploy", key=KEY + "98")), "answer")
    t.equal(len(t.effects()), 1, "effects")


@case("136_slow_tool_blocks_nothing", bare="holds")
def blocks_nothing(t, w):
    """A slow tool, then a ping and a quick tool: answered while it runs."""
    client = w.client({"tools": {"slow": {"runs": RELEASED}, "quick": {}}})
    slow = client.call("slow")
    t.wait_effects(1)
    client.result(client.request("ping"))
    client.result(client.call("quick"))
    t.equal(client.answers(slow), [], "answers to the slow call so far")
    t.touch("release")
    client.result(slow)


@case("137_pings_through_a_slow_call", bare="holds")
def pings(t, w):
    client = w.client({"tools": {"slow": {"runs": RELEASED}}})
    slow = client.call("slow")
    t.wait_effects(1)
    for _ in range(20):
        client.result(client.request("ping"), 5)
    t.touch("release")
    client.result(slow)


@case("138_hundred_parallel_calls", bare="holds")
def hundred(t, w):
    """A hundred parallel calls over one child: all answered, none crossed, no frame interleaved."""
    client = w.client({"tools": {"echo": {"runs": [[{"echo": True}]]}}})
    refs = {client.call("echo", {"n": n, "pad": "x" * 2000}): n for n in range(100)}
    for ident, n in refs.items():
        t.equal(client.result(ident, 40)["echo"]["n"], n, f"answer to call {n}")
    t.equal(len(t.effects()), 100, "effects")
    t.equal(len(t.lines("starts")), 1, "starts of the server")
