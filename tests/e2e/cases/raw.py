# SPDX-License-Identifier: MIT
"""The promises of the SDK scenarios with a raw client, for the manners that no SDK of today
shows.
"""

import os
import re
import sqlite3

from kit import processes
from .way import assert_unknown, case, code, operation, without_ours

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]


def raw(title, bare=None):
    return case(title, bare, suite="raw", prefix="raw_")


def receipt(t, result):
    t.true(not result.get("isError"), f"an error result: {result}")
    return re.search(r"receipt ([0-9a-f-]{36})", result["content"][0]["text"]).group(1)


@raw("silent_retry_while_running", bare="breaks")
def silent_retry(t, w):
    """No cancel, no disconnect: the client gives up in silence and asks again after more than the
    overlap.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    client.call(args={"amount": 1})
    t.wait_effects(1)
    begin = t.clock()
    t.wait(lambda: t.clock() - begin > 0.7, "the overlap of 500 ms to pass")
    second = client.call(args={"amount": 1})
    if w.is_bare:
        t.wait_effects(2)
    else:
        # An answer that came first would be delivered to the silent client, and be no lost one.
        t.wait_repeats(1)
    t.touch("release")
    result = client.result(second)
    t.equal(len(t.effects()), 1, "effects")
    t.equal(receipt(t, result), t.effects()[0]["receipt"], "receipt given to the retry")
    t.equal(operation(result).get("joined"), True, "joined")
    t.true(
        "Joined the same call" in result["content"][-1]["text"],
        "a keyless join says so in a text block",
    )


@raw("retry_within_overlap_is_another_call")
def within_overlap(t, w):
    """Two equal calls of one turn leave together: both run (semantics §5)."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}}, "--overlap", "30s")
    refs = [client.call(args={"amount": 1}) for _ in range(2)]
    t.wait_effects(2)
    t.touch("release")
    receipts = sorted(receipt(t, client.result(ref)) for ref in refs)
    t.equal(receipts, sorted(effect["receipt"] for effect in t.effects()), "receipts")


@raw("cancel_with_timeout_reason_then_retry", bare="breaks")
def cancel_then_retry(t, w):
    """The cancel of a timeout detaches its waiter, is not forwarded, and is never answered."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}, "on_cancel": "reply"})
    first = client.call(args={"amount": 1})
    t.wait_effects(1)
    client.cancel(first, "McpError: MCP error -32001: Request timed out")
    second = client.call(args={"amount": 1})
    client.result(client.request("tools/list"))
    if w.is_bare:
        t.wait_effects(2)
    t.touch("release")
    result = client.result(second)
    t.equal(len(t.effects()), 1, "effects")
    t.equal(receipt(t, result), t.effects()[0]["receipt"], "receipt given to the retry")
    t.equal(client.answers(first), [], "answers to the cancelled request")
    t.equal(t.lines("cancels"), [], "cancels that the server saw")


@raw("cancel_after_the_retry_names_only_the_first", bare="breaks")
def late_cancel(t, w):
    """A retry overtakes the cancel of the first attempt: the cancel must not touch it."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    first = client.call(args={"amount": 1}, key="0190a0a0-0000-7000-8000-000000000001")
    t.wait_effects(1)
    second = client.call(args={"amount": 1}, key="0190a0a0-0000-7000-8000-000000000001")
    client.cancel(first, "timeout")
    client.result(client.request("tools/list"))
    t.touch("release")
    t.equal(
        receipt(t, client.result(second)), t.effects()[0]["receipt"], "receipt given to the retry"
    )
    t.equal(len(t.effects()), 1, "effects")
    t.equal(client.answers(first), [], "answers to the cancelled request")


@raw("front_killed")
def front_killed(t, w):
    """SIGKILL to the front: the client sees the death at once, the keeper finishes, the retry
    gets the result.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}}}, orphan="20s")
    client.call(args={"amount": 1})
    t.wait_effects(1)
    keeper = w.keeper(client)
    client.kill(t.surroundings.hapax)
    client.wait_eof(2)
    t.true(processes.is_alive(keeper), "the keeper outlives its front while work is in flight")
    fresh = w.again(client)
    second = fresh.call(args={"amount": 1})
    fresh.result(fresh.request("tools/list"))
    t.touch("release")
    t.equal(
        receipt(t, fresh.result(second)), t.effects()[0]["receipt"], "receipt given to the retry"
    )
    t.equal(len(t.effects()), 1, "effects")


@raw("keeper_killed")
def keeper_killed(t, w):
    """SIGKILL to the keeper: the client sees the end, the server goes, the retry is told that
    nobody can know.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    client.call(args={"amount": 1})
    t.wait_effects(1)
    server = w.server_pid()
    processes.kill(w.keeper(client), t.surroundings.hapax)
    client.wait_eof(5)
    processes.wait_gone(server, 5)
    fresh = w.again(client)
    assert_unknown(t, fresh.result(fresh.call(args={"amount": 1})), "answer to the retry")
    t.equal(len(t.effects()), 1, "effects")


@raw("reaper_killed")
def reaper_killed(t, w):
    """SIGKILL to what is neither front nor keeper nor server: a call in flight still ends well."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    first = client.call(args={"amount": 1})
    t.wait_effects(1)
    for pid in t.family(client.pid).others:
        processes.kill(pid, "hapax")
    t.touch("release")
    answer = client.result(first)
    t.true(
        not answer.get("isError") or code(answer) == "OUTCOME_UNKNOWN",
        f"a result or an honest unknown: {answer}",
    )
    t.equal(len(t.effects()), 1, "effects")


@raw("client_killed_and_restarted")
def client_killed(t, w):
    """Both ends of the client's pipes close at once; the keeper sees it and the next client gets
    the result.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}}}, orphan="20s")
    client.call(args={"amount": 1})
    t.wait_effects(1)
    client.close_stdin()
    client.close_stdout()
    client.kill(t.surroundings.hapax)
    fresh = w.again(client)
    second = fresh.call(args={"amount": 1})
    fresh.result(fresh.request("tools/list"))
    t.touch("release")
    t.equal(
        receipt(t, fresh.result(second)), t.effects()[0]["receipt"], "receipt given to the retry"
    )
    t.equal(len(t.effects()), 1, "effects")


@raw("answers_after_end_of_input", bare="breaks")
def end_of_input(t, w):
    """`printf … | hapax run -- x` gets its answers: end of file on stdin means no new calls, no
    more.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}}}, orphan="20s")
    first = client.call(args={"amount": 1})
    t.wait_effects(1)
    client.close_stdin()
    if w.is_bare:
        client.wait_eof()
    t.touch("release")
    t.equal(receipt(t, client.result(first)), t.effects()[0]["receipt"], "receipt")
    client.wait_eof(10)


@raw("keyed_replay_and_conflict", bare="breaks")
def keyed(t, w):
    client = w.client({"tools": {"charge": {}}})
    key = "0190a0a0-0000-7000-8000-000000000002"
    first = client.result(client.call(args={"amount": 1}, key=key))
    second = client.result(client.call(args={"amount": 1}, key=key))
    t.equal(without_ours(second), without_ours(first), "replayed result")
    t.equal(len(t.effects()), 1, "effects")
    t.equal(operation(second).get("replayed"), True, "replayed")
    error = client.error(client.call(args={"amount": 2}, key=key))
    t.equal(
        (error["code"], error["data"]["type"]), (-32602, "idempotency_key_conflict"), "conflict"
    )
    t.equal(len(t.effects()), 1, "effects after a conflict")


@raw("retry_as_the_first_attempt_ends", bare="breaks")
def retry_as_it_ends(t, w):
    """Many times over: the client gives up and asks again within the same few milliseconds in which
    the first attempt ends. Whichever comes first, the retry gets the real result and nothing runs
    twice. (An adoption that acted on the row as it was before the end wrote "unknown" over it.)
    """
    rounds = 300
    runs = [[{"sleep": n % 60 / 20}, {"text": "receipt $RECEIPT"}] for n in range(rounds)]
    client = w.client({"tools": {"charge": {"runs": runs}}})
    size = 0
    for n in range(rounds):
        first = client.call(args={"n": n})
        while not os.path.exists(t.path("effects")) or os.stat(t.path("effects")).st_size == size:
            t.true(not client.ended, "the connection lives")
        size = os.stat(t.path("effects")).st_size
        client.cancel(first, "Request timed out")
        result = client.result(client.call(args={"n": n}))
        t.equal(len(t.lines("effects")), n + 1, f"effects after round {n}")
        t.equal(receipt(t, result), t.effects()[n]["receipt"], f"receipt given in round {n}")


@raw("retry_is_looked_up_before_the_end_and_adopted_after")
def looked_up_before(t, w):
    """The retry's look into the ledger and the end of the first attempt wait behind the same lock: the
    adoption then holds a row that says "running" of an operation that has ended.
    """
    client = w.client({"tools": {"charge": {"runs": RELEASED}, "other": {}}})
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    client.cancel(first, "Request timed out")
    client.result(client.request("tools/list"))
    holder = sqlite3.connect(t.database(), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        other = client.call("other")  # its claim keeps the store busy until the lock is free
        client.result(client.request("tools/list"))
        retry = client.call(args={"n": 1})
        client.result(client.request("tools/list"))
        t.touch("release")
        t.wait(lambda: any(b"receipt" in line for line in t.server_lines()), "the end of attempt 1")
        client.result(client.request("tools/list"))
    finally:
        holder.rollback()
        holder.close()
    t.equal(receipt(t, client.result(retry)), t.effects()[0]["receipt"], "receipt of the retry")
    client.result(other)
    t.equal(len(t.effects("charge")), 1, "effects")


@raw("two_wanted_over_two_connections", bare="holds")
def two_connections(t, w):
    """Equal calls of two clients, each answered: the second is no repeat of the first, however soon
    it comes; neither when the first client has ended.
    """
    client = w.client({"tools": {"charge": {}}})
    for n in range(30):
        before = len(t.lines("effects"))
        client.result(client.call(args={"n": n}))
        if n == 0:
            fresh = w.again(client)
        fresh.result(fresh.call(args={"n": n}))
        t.equal(len(t.lines("effects")) - before, 2, f"effects of two wanted calls, round {n}")
    client.result(client.call(args={"last": True}))
    client.close_stdin()
    client.process.wait(10)
    fresh.result(fresh.call(args={"last": True}))
    t.equal(len(t.lines("effects")), 62, "effects")


@raw("meta_that_is_no_object")
def odd_meta(t, w):
    """It has no member of ours to take out; the next call is served by the same process."""
    t.is_traffic_judged = False
    client = w.client({"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}})
    for meta in ([1], ["dev.hapax/a"], "dev.hapax/a", 7, None, [{"dev.hapax/a": 1}]):
        params = {"name": "charge", "arguments": {"n": str(meta)}, "_meta": meta}
        client.answer(client.request("tools/call", params, odd=True))
    result = client.result(client.call("charge", {"n": "last"}))
    t.true("receipt" in str(result), f"the next call: {result}")
    t.equal(len(t.lines("starts")), 1, "starts of the server")
