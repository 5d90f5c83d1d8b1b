# SPDX-License-Identifier: MIT
"""Field cases of calls that a person must approve: rows of the groups A, C and E. An approved call
is run by its next repeat, and by nothing else.
"""

import json
import subprocess

from kit import processes
from .way import case, code, operation, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000000"
ASKS = ("--tool", "pay: approval=always")
DONE, NOT_APPLIED = 0, 1


def pay(client, n, key=None):
    """One call and its result."""
    return client.result(client.call("pay", {"n": n}, key=key))


def batch(client, numbers, keys=None):
    """The calls of one turn, sent together: their results."""
    keys = keys or [None] * len(numbers)
    refs = [client.call("pay", {"n": n}, key=key) for n, key in zip(numbers, keys)]
    return [client.result(ref) for ref in refs]


def pending(t, result, what):
    """The id of an operation that waits for a person."""
    envelope = operation(result)
    t.equal(
        (result.get("isError"), code(result), envelope.get("execution"), envelope.get("effect")),
        (True, "APPROVAL_REQUIRED", "awaiting_approval", "none"),
        f"{what}: {result}",
    )
    t.equal(envelope.get("new_key_allowed"), False, f"{what}: new_key_allowed")
    t.true("person must approve" in result["content"][0]["text"], f"{what} says so: {result}")
    return envelope["id"]


def cancelled(t, result, ident, what):
    t.equal(
        (result.get("isError"), code(result), operation(result).get("id")),
        (True, "CANCELLED", ident),
        f"{what}: {result}",
    )


def ran(t, result, n, what, replayed=False):
    """The result is that of the only run with this argument."""
    found = [one for one in t.effects("pay") if json.loads(one["args"]) == {"n": n}]
    t.equal(len(found), 1, f"{what}: runs with n={n}")
    t.true(found[0]["receipt"] in str(result), f"{what}: the real result: {result}")
    t.equal(operation(result).get("replayed"), replayed, f"{what}: replayed")


def counts(t, numbers):
    """How often the tool ran with each of these arguments."""
    told = [json.loads(one["args"])["n"] for one in t.effects("pay")]
    return [told.count(n) for n in numbers]


def decide(t, verb, ident, status=DONE):
    """`hapax ops VERB ID`: what it said."""
    got, out, err = t.ops(verb, ident, "--ledger", t.ledger)
    t.equal(got, status, f"exit status of ops {verb} ({out[-300:]!r} {err[-400:]!r})")
    return (out + err).decode()


def at_once(t, ident, *verbs):
    """Decisions of several processes at once: verb, exit status and JSON answer of each."""
    argv = [[t.surroundings.hapax, "ops", verb, ident, "--ledger", t.ledger] for verb in verbs]
    deciders = [
        subprocess.Popen(
            [*words, "--json"], env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for words in argv
    ]
    told = []
    for verb, decider in zip(verbs, deciders):
        out, err = decider.communicate(timeout=60)
        t.true(decider.returncode in (DONE, NOT_APPLIED), f"exit status of {verb}: {err!r}")
        told.append((verb, decider.returncode, json.loads(out)))
    return told


def judge(t, told):
    """One decision was applied, the other was told that it was too late: the verb that won."""
    won = [verb for verb, status, _ in told if status == DONE]
    t.equal(len(won), 1, f"decisions applied: {told}")
    for verb, status, answer in told:
        t.equal(answer["is_applied"], status == DONE, f"{verb} is applied")
        if status != DONE:
            t.equal(answer["answer"], "NOT_APPLIED", f"answer to the later {verb}")
            said = answer["sentence"]
            t.true("somebody decided first" in said, f"the later {verb} is told: {said}")
    return won[0]


def state(t, ident):
    return next(op["execution"] for op in t.operations() if op["id"] == ident)


@case("003_two_approvals_of_one_tool")
def two_of_one_tool(t, w):
    """Two parallel calls of one tool: two items; the approval of one runs only that one."""
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    first, second = (pending(t, one, "first answer") for one in batch(client, [1, 2]))
    t.true(first != second, "two operations")
    t.equal([state(t, first), state(t, second)], ["awaiting_approval"] * 2, "states")
    t.true("approved" in decide(t, "approve", second), "said")
    t.equal(state(t, second), "ready", "state of the approved one")
    t.equal(t.effects(), [], "the approval itself runs nothing")
    one, two = batch(client, [1, 2])
    t.equal(pending(t, one, "the other one"), first, "it waits as the same operation")
    t.equal(operation(two).get("id"), second, "what was approved is what ran")
    ran(t, two, 2, "the approved one")
    t.equal(counts(t, [1, 2]), [0, 1], "effects")


@case("042_several_approvals_in_one_turn")
def several(t, w):
    """Three pending; approve 1, then 2, deny 3: 1, 1 and 0 runs, however often all are repeated."""
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    turn, keys = [1, 2, 3], [KEY + "4a", KEY + "4b", KEY + "4c"]
    ids = [pending(t, one, "first answer") for one in batch(client, turn, keys)]
    t.equal(len(set(ids)), 3, "operations")
    decide(t, "approve", ids[0])
    ran(t, batch(client, turn, keys)[0], 1, "the first")
    t.equal(counts(t, turn), [1, 0, 0], "effects after the first approval")
    decide(t, "approve", ids[1])
    ran(t, batch(client, turn, keys)[1], 2, "the second")
    t.equal(counts(t, turn), [1, 1, 0], "effects after the second approval")
    t.true("denied" in decide(t, "deny", ids[2]), "said of the third")
    for _ in range(3):
        one, two, three = batch(client, turn, keys)
        ran(t, one, 1, "the first again", replayed=True)
        ran(t, two, 2, "the second again", replayed=True)
        cancelled(t, three, ids[2], "the denied one")
        said = three["content"][0]["text"]
        t.true("A person refused it" in said, f"what the denied caller was told: {said}")
    t.equal(counts(t, turn), [1, 1, 0], "effects")
    t.equal([op["id"] for op in t.operations()], ids, "operations: nothing new came")


def resent(t, w, keys, *options):
    client = w.client({"tools": {"pay": {}, "free": {}}}, *ASKS, *options)
    turn = [1, 2]

    def whole(who):
        free = who.call("free", {"n": 0}, key=keys and KEY + "f0")
        return [who.result(free), *batch(who, turn, keys)]

    free, *rest = whole(client)
    t.true(t.effects("free")[0]["receipt"] in str(free), "what asks nobody runs at once")
    ids = [pending(t, one, "first answer") for one in rest]
    decide(t, "approve", ids[0])
    again, one, two = whole(client)
    t.equal(again["content"][0], free["content"][0], "what had finished is replayed")
    ran(t, one, 1, "the first")
    t.equal(pending(t, two, "the second"), ids[1], "the second waits on")
    decide(t, "approve", ids[1])
    client.close_stdin()
    client.wait_eof()
    fresh = w.again(client)
    again, replay, two = whole(fresh)
    t.equal(again["content"][0], free["content"][0], "it is replayed by a new gateway")
    t.equal(replay["content"][0], one["content"][0], "so is the first")
    ran(t, replay, 1, "the first again", replayed=True)
    # The new gateway runs what is approved when it starts, so it may have ended already.
    ran(t, two, 2, "the second", replayed=operation(two).get("replayed"))
    t.equal([one["tool"] for one in t.effects()], ["free", "pay", "pay"], "what ran")
    t.equal(counts(t, turn), [1, 1], "effects")


@case("043_batch_sent_again_after_an_approval")
def batch_again(t, w):
    """All is sent again after each approval, the last time to a new gateway: what had finished is
    replayed, only what was approved meanwhile is sent.
    """
    resent(t, w, [KEY + "43", KEY + "44"])


@case("043_batch_without_keys")
def batch_without_keys(t, w):
    """The same without keys, with `--repeat window`."""
    resent(t, w, None, "--repeat", "window")


@case("044_approved_twice_at_once")
def approved_twice(t, w):
    """Two processes approve one operation at once, two repeats come at once: one run."""
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    rounds = range(6)
    for n in rounds:
        key = f"{KEY}a{n}"
        ident = pending(t, pay(client, n, key), "first answer")
        judge(t, at_once(t, ident, "approve", "approve"))
        results = batch(client, [n, n], [key, key])
        t.equal(without_ours(results[0]), without_ours(results[1]), "results of two repeats")
        t.true(t.effects()[-1]["receipt"] in str(results[0]), f"the real result: {results[0]}")
        said = decide(t, "approve", ident, NOT_APPLIED)
        t.true("not applied" in said, f"said of an approval after the run: {said}")
        ran(t, pay(client, n, key), n, "after that approval", replayed=True)
    t.equal(counts(t, rounds), [1] * len(rounds), "effects")


@case("045_approved_then_denied")
def approved_then_denied(t, w):
    """The second, different decision is refused and told who was first; the first stands."""
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    first = pending(t, pay(client, 1, KEY + "51"), "first answer")
    second = pending(t, pay(client, 2, KEY + "52"), "first answer")
    decide(t, "approve", first)
    said = decide(t, "deny", first, NOT_APPLIED)
    t.true("somebody decided first" in said and ": approve at" in said, f"said: {said}")
    t.true("the next repeat of the call runs it" in said, f"what will be: {said}")
    decide(t, "deny", second)
    said = decide(t, "approve", second, NOT_APPLIED)
    t.true("somebody decided first" in said and ": deny at" in said, f"said: {said}")
    one, two = batch(client, [1, 2], [KEY + "51", KEY + "52"])
    ran(t, one, 1, "the approved one")
    cancelled(t, two, second, "the denied one")
    t.true("not applied" in decide(t, "deny", first, NOT_APPLIED), "too late to deny")
    t.equal(counts(t, [1, 2]), [1, 0], "effects")


@case("045_approved_and_denied_at_once")
def approved_and_denied(t, w):
    """Two processes decide differently at once: one wins, and what runs is what he said."""
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    rounds = range(6)
    wanted = []
    for n in rounds:
        key = f"{KEY}b{n}"
        ident = pending(t, pay(client, n, key), "first answer")
        verbs = ("approve", "deny") if n % 2 else ("deny", "approve")
        winner = judge(t, at_once(t, ident, *verbs))
        wanted.append(1 if winner == "approve" else 0)
        result = pay(client, n, key)
        if winner == "approve":
            ran(t, result, n, "approved")
        else:
            cancelled(t, result, ident, "denied")
    t.equal(counts(t, rounds), wanted, "effects")


@case("045_changed_arguments")
def changed_arguments(t, w):
    """An approval is of one operation: other arguments under its key are refused, and without its
    key they, and the same call once more, need one of their own.
    """
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    ident = pending(t, pay(client, 1, KEY + "5a"), "first answer")
    keyless = pending(t, pay(client, 5), "first answer without a key")
    decide(t, "approve", ident)
    decide(t, "approve", keyless)
    error = client.error(client.call("pay", {"n": 1000}, key=KEY + "5a"))
    t.equal(error["data"]["code"], "KEY_CONFLICT", "code of other arguments under the key")
    pending(t, pay(client, 1000, KEY + "5b"), "other arguments and another key")
    pending(t, pay(client, 5000), "other arguments without a key")
    pending(t, pay(client, 1, KEY + "5c"), "the same arguments and another key")
    t.equal(t.effects(), [], "effects")
    ran(t, pay(client, 1, KEY + "5a"), 1, "what was approved")
    ran(t, pay(client, 5), 5, "what was approved without a key")
    pending(t, pay(client, 5), "the same call anew: an approval is used once")
    t.equal(counts(t, [1, 5, 1000, 5000]), [1, 1, 0, 0], "effects")


@case("048_pending_after_a_crash")
def pending_after_crash(t, w):
    """A killed gateway takes no pending approval along; one given while none runs is honoured, by
    the next start or by a repeat that comes first.
    """
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    turn, keys = [1, 2], [KEY + "48", KEY + "49"]
    ids = [pending(t, one, "first answer") for one in batch(client, turn, keys)]
    processes.kill(w.keeper(client), t.surroundings.hapax)
    client.wait_eof(5)
    t.equal([state(t, ident) for ident in ids], ["awaiting_approval"] * 2, "states after the crash")
    decide(t, "approve", ids[0])
    fresh = w.again(client)
    one, two = batch(fresh, turn, keys)
    ran(t, one, 1, "the approved one", replayed=operation(one).get("replayed"))
    t.equal(pending(t, two, "the other one"), ids[1], "it waits on")
    t.equal(counts(t, turn), [1, 0], "effects")


@case("067_cancel_by_its_waiter")
def cancel_by_waiter(t, w):
    """notifications/cancelled ends the waiting of that caller, not the operation: nothing runs, and
    it waits for its person as before. Who cancels that ends it.
    """
    client = w.client({"tools": {"pay": {}}}, *ASKS)
    first = client.call("pay", {"n": 1}, key=KEY + "67")
    client.cancel(first, "User pressed Esc")
    ident = pending(t, pay(client, 1, KEY + "67"), "answer to a repeat")
    t.equal(state(t, ident), "awaiting_approval", "state")
    t.equal(len(t.operations()), 1, "operations")
    decide(t, "cancel", ident)
    cancelled(t, pay(client, 1, KEY + "67"), ident, "answer after the operator's cancel")
    t.equal((t.effects(), t.lines("cancels")), ([], []), "what the server saw")


@case("067_cancel_of_pending_queued_and_dispatched")
def cancel_of_three(t, w):
    """Cancelled while it waits for a person, and when it is approved but not run yet: CANCELLED,
    no effect, and no approval brings it back. One that was sent is in doubt, and ends as it ends.
    """
    runs = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
    client = w.client({"tools": {"pay": {"runs": runs}}}, *ASKS)
    turn, keys = [1, 2, 3], [KEY + "6a", KEY + "6b", KEY + "6c"]
    ids = [pending(t, one, "first answer") for one in batch(client, turn, keys)]
    decide(t, "approve", ids[1])
    decide(t, "approve", ids[2])
    sent = client.call("pay", {"n": 3}, key=keys[2])
    t.wait_effects(1)
    for ident in ids[:2]:
        t.true("Nothing was sent" in decide(t, "cancel", ident), "said of one never sent")
        t.equal(state(t, ident), "cancelled", "its state")
        t.true("cancelled already" in decide(t, "cancel", ident), "said again")
        said = decide(t, "approve", ident, NOT_APPLIED)
        t.true("somebody decided first" in said and ": cancel at" in said, f"said: {said}")
    said = decide(t, "cancel", ids[2], NOT_APPLIED)
    t.true("in doubt" in said, f"said of the one that was sent: {said}")
    t.true(state(t, ids[2]) != "cancelled", "it is not cancelled")
    t.touch("release")
    ran(t, client.result(sent), 3, "the one that was sent")
    one, two, three = batch(client, turn, keys)
    cancelled(t, one, ids[0], "the pending one")
    t.true("A person refused it" not in str(one), "a cancel is no refusal")
    cancelled(t, two, ids[1], "the approved one")
    ran(t, three, 3, "the one that was sent, again", replayed=True)
    t.equal(counts(t, turn), [0, 0, 1], "effects")


@case("044_approval_when_the_amount_is_large")
def only_when(t, w):
    """The condition is judged by exact value; where it cannot be judged, a person is asked."""
    script = {"tools": {"pay": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
    client = w.client(script, "--tool", "pay: approval='when: /amount > 100'")
    told = [
        ({"amount": 100}, False),
        ({"amount": 100.0}, False),
        ({"amount": 101}, True),
        ({"amount": "101"}, True),
        ({}, True),
    ]
    for number, (args, must_ask) in enumerate(told):
        result = client.result(client.call("pay", args={**args, "n": number}))
        asked = code(result) == "APPROVAL_REQUIRED"
        t.equal(asked, must_ask, f"asked for {args}")
    t.equal(len(t.effects()), 2, "effects")
