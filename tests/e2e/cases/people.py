# SPDX-License-Identifier: MIT
"""People asked at the client that waits (elicitation): approvals, suspected repeats, fresh keys. Names:
people_...
"""

import json

from kit import processes
from kit.harness import test
from rawclient import RawClient
from webclient import WebClient
from .sdk import SDKS, Bench
from .serve import QUICK, before_stub
from .way import case, code, operation

KEY = "0190a0a0-0000-7000-8000-0000000081"
ASKS = ("--tool", "charge: approval=always")
FORM = {"elicitation": {}}
HELD = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
DIES = {"tools": {"charge": {"runs": [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]}}}


def people(title):
    return case(title, None, suite="people", prefix="people_")


def question(client, count=1):
    """The n-th elicitation that came."""
    client.t.wait(lambda: len(questions(client)) >= count, f"question {count}")
    return questions(client)[count - 1]


def questions(client):
    return [
        one.json for one in list(client.messages) if one.get("method") == "elicitation/create"
    ]


def reply(client, asked, decision, action="accept"):
    result = {"action": action}
    if decision is not None:
        result["content"] = {"decision": decision}
    client.send({"jsonrpc": "2.0", "id": asked["id"], "result": result})


def choices(asked):
    return asked["params"]["requestedSchema"]["properties"]["decision"]["enum"]


def decide(t, verb, ident, status=0):
    got, out, err = t.ops(verb, ident, "--ledger", t.ledger)
    t.equal(got, status, f"exit status of ops {verb} ({out!r} {err!r})")
    return (out + err).decode()


@people("an_approval_is_asked_of_the_waiting_client")
def approval(t, w):
    """What is asked tells tool, arguments and who; yes runs it once, and the next one is asked anew."""
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    for n in (1, 2):
        ident = client.call(args={"amount": 41 + n}, key=f"{KEY}0{n}")
        asked = question(client, n)
        said = asked["params"]["message"]
        for part in ('"charge"', '"e2e"', f'"amount": {41 + n}', "sha256:"):
            t.true(part in said, f"the question tells {part}: {said}")
        t.equal(choices(asked), ["approve", "deny", "leave"], "choices")
        t.equal(len(t.effects()), n - 1, "effects before the answer")
        reply(client, asked, "approve")
        t.true("receipt" in str(client.result(ident)), "the result")
    client.result(client.call(args={"amount": 42}, key=KEY + "01"))
    t.equal((len(t.effects()), len(questions(client))), (2, 2), "a replay asks nobody")
    _, out, _ = t.ops("show", KEY + "01", "--ledger", t.ledger)
    t.true(b"by elicitation" in out and b"approve" in out, f"the history tells who: {out.decode()}")
    _, out, _ = t.ops("show", KEY + "01", "--json", "--ledger", t.ledger)
    notes = [line["note"] for line in json.loads(out)["history"] if line["what"] == "note"]
    said = [(one["decision"], one["answer"]) for one in notes if one["what"] == "decision"]
    t.equal(said, [("approve", "DONE")], "what the history says of it")


@people("an_approval_over_http")
def approval_http(t, w):
    client = WebClient(before_stub(t, QUICK, *ASKS))
    client.initialize(FORM)
    exchange = client.call(args={"n": 1}, key=KEY + "10")
    messages = exchange.messages()
    asked = next(one for one in messages if one.get("method") == "elicitation/create")
    t.equal(t.effects(), [], "effects before the answer")
    client.post(
        {
            "jsonrpc": "2.0",
            "id": asked["id"],
            "result": {"action": "accept", "content": {"decision": "approve"}},
        }
    ).head()
    answer = next(one for one in messages if "method" not in one)
    t.true("receipt" in str(answer["result"]), f"the result: {answer}")
    t.equal(len(t.effects()), 1, "effects")


@people("what_was_approved_runs_when_its_server_is_there")
def approved_meanwhile(t, w):
    """Approved while nothing ran: the next process of that server runs it, once and without being
    asked; one of another server on the ledger does not.
    """
    client = w.client(QUICK, *ASKS)
    ident = operation(client.result(client.call(args={"n": 1}, key=KEY + "28")))["id"]
    client.close_stdin()
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    decide(t, "approve", ident)
    other = RawClient(t, w.argv(QUICK, *ASKS, name="other"), name="other")
    other.initialize()
    other.result(other.call(args={"n": 2}, key=KEY + "29"))
    t.equal(len(t.effects()), 0, "effects beside another server")
    fresh = w.again(client)
    t.wait(lambda: t.effects(), "the approved call to run")
    result = fresh.result(fresh.call(args={"n": 1}, key=KEY + "28"))
    t.true("receipt" in str(result), f"its result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@people("a_denial_is_final")
def denial(t, w):
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    ident = client.call(args={"n": 1}, key=KEY + "20")
    reply(client, question(client), "deny")
    result = client.result(ident)
    t.equal(code(result), "CANCELLED", f"answer: {result}")
    t.true("A person refused it" in str(result), f"says why: {result}")
    t.equal(code(client.result(client.call(args={"n": 1}, key=KEY + "20"))), "CANCELLED", "again")
    said = decide(t, "approve", operation(result)["id"], 1)
    t.true("somebody decided first" in said, f"a later approval: {said}")
    t.equal((t.effects(), len(questions(client))), ([], 1), "effects, questions")


@people("whatever_is_no_decision_leaves_it_open")
def no_decision(t, w):
    """A client that declines, fails, or answers something else decides nothing; a repeat is asked
    again."""
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    replies = [
        {"result": {"action": "decline"}},
        {"result": {"action": "cancel"}},
        {"result": {"action": "accept", "content": {}}},
        {"result": {"action": "accept", "content": {"decision": "APPROVE"}}},
        {"result": {"action": "decline", "content": {"decision": "approve"}}},
        {"result": {"action": "accept", "content": {"decision": "leave"}}},
        {"error": {"code": -32603, "message": "no screen"}},
    ]
    for count, said in enumerate(replies, 1):
        ident = client.call(args={"n": 1}, key=KEY + "30")
        asked = question(client, count)
        client.send({"jsonrpc": "2.0", "id": asked["id"], **said})
        t.equal(code(client.result(ident)), "APPROVAL_REQUIRED", f"after {said}")
    t.equal(t.effects(), [], "effects")
    ident = client.call(args={"n": 1}, key=KEY + "30")
    reply(client, question(client, len(replies) + 1), "approve")
    client.result(ident)
    t.equal(len(t.effects()), 1, "effects after a decision")


@people("an_operator_is_faster")
def operator_first(t, w):
    """He decides while the client is being asked: its call goes on by his word, the question is taken
    back, and what the client says then changes nothing."""
    client = w.client(HELD, *ASKS, capabilities=FORM)
    for count, verb in enumerate(("approve", "deny"), 1):
        ident = client.call(args={"n": count}, key=f"{KEY}4{count}")
        asked = question(client, count)
        found = [op["id"] for op in t.operations() if op["execution"] == "awaiting_approval"]
        decide(t, verb, found[0])
        t.wait(
            lambda a=asked: any(
                one["requestId"] == a["id"] for one in client.notifications("notifications/cancelled")
            ),
            "the question to be taken back",
        )
        reply(client, asked, "deny" if verb == "approve" else "approve")
        if verb == "approve":
            t.wait_effects(1)
            t.touch("release")
            t.true("receipt" in str(client.result(ident)), "the operator's word holds")
        else:
            t.equal(code(client.result(ident)), "CANCELLED", "the operator's word holds")
    t.equal(len(t.effects()), 1, "effects")


@people("the_question_goes_with_its_caller")
def caller_goes(t, w):
    """Esc takes the question back; a yes that comes late runs nothing, and a repeat is asked anew."""
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    ident = client.call(args={"n": 1}, key=KEY + "50")
    asked = question(client)
    client.cancel(ident, "User pressed Esc")
    t.wait(lambda: client.notifications("notifications/cancelled"), "the question to be taken back")
    reply(client, asked, "approve")
    again = client.call(args={"n": 1}, key=KEY + "50")
    second = question(client, 2)
    t.equal(t.effects(), [], "effects of a late yes")
    reply(client, second, "approve")
    client.result(again)
    t.equal(len(t.effects()), 1, "effects")


@people("two_repeats_are_asked_once")
def asked_once(t, w):
    """Two calls of one key wait for one answer, one of them killed with its client in the middle."""
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    refs = [client.call(args={"n": 1}, key=KEY + "60") for _ in range(2)]
    asked = question(client)
    client.result(client.request("tools/list"))
    t.equal(len(questions(client)), 1, "questions")
    reply(client, asked, "approve")
    results = [client.result(ref) for ref in refs]
    t.equal(results[0]["content"], results[1]["content"], "both get it")
    t.equal(len(t.effects()), 1, "effects")


@people("only_operators_decide")
def only_operators(t, w):
    client = w.client(QUICK, *ASKS, "--ask-client=off", capabilities=FORM)
    result = client.result(client.call(args={"n": 1}, key=KEY + "70"))
    t.equal(code(result), "APPROVAL_REQUIRED", f"answer: {result}")
    t.equal(questions(client), [], "questions")


@people("a_suspected_repeat_is_asked_about")
def repeat_asked(t, w):
    """repeat=ask: a delivered twin is put to a person: again runs a second one, stored replays,
    anything else refuses; who cannot be asked is refused."""
    rule = ("--tool", "charge: repeat=ask")
    client = w.client(QUICK, *rule, capabilities=FORM)
    first = client.result(client.call(args={"n": 1}))
    told = []
    for count, decision in enumerate(("stored", "leave", "again"), 1):
        ident = client.call(args={"n": 1})
        asked = question(client, count)
        t.equal(choices(asked), ["again", "stored", "leave"], "choices")
        t.true(operation(first)["id"] in asked["params"]["message"], "it names the first")
        reply(client, asked, decision)
        told.append(client.result(ident))
    stored, refused, again = told
    t.equal(stored["content"][0], first["content"][0], "the stored answer")
    t.equal(code(refused), "REPEAT_SUSPECTED", f"refused: {refused}")
    t.true(again["content"][0] != first["content"][0], "a second effect")
    t.equal(len(t.effects()), 2, "effects")
    plain = w.again(client)
    result = plain.result(plain.call(args={"n": 1}))
    t.equal(code(result), "REPEAT_SUSPECTED", f"one that cannot be asked: {result}")
    t.equal(len(t.effects()), 2, "effects")


@people("a_repeat_that_is_cancelled_while_asked")
def repeat_cancelled(t, w):
    client = w.client(QUICK, "--tool", "charge: repeat=ask", capabilities=FORM)
    client.result(client.call(args={"n": 1}))
    ident = client.call(args={"n": 1})
    asked = question(client)
    client.cancel(ident, "User pressed Esc")
    t.wait(lambda: client.notifications("notifications/cancelled"), "the question to be taken back")
    reply(client, asked, "again")
    second = client.call(args={"n": 1})
    reply(client, question(client, 2), "stored")
    client.result(second)
    t.equal(len(t.effects()), 1, "effects")


@people("a_fresh_key_is_asked_about")
def fresh_key(t, w):
    """fresh_key=ask: a new key for what is unknown under another one."""
    rule = ("--tool", "charge: fresh_key=ask")
    client = w.client(DIES, *rule, capabilities=FORM)
    lost = client.call(args={"n": 1}, key=KEY + "80")
    reply(client, question(client), "leave")
    first = client.result(lost)
    t.equal(code(first), "OUTCOME_UNKNOWN", f"the first: {first}")
    ident = client.call(args={"n": 1}, key=KEY + "81")
    asked = question(client, 2)
    t.equal(choices(asked), ["again", "leave"], "choices")
    t.true(operation(first)["id"] in asked["params"]["message"], "it names the first")
    reply(client, asked, "leave")
    t.equal(code(client.result(ident)), "REPEAT_SUSPECTED", "refused")
    t.equal(len(t.effects()), 1, "effects")
    ident = client.call(args={"n": 1}, key=KEY + "82")
    reply(client, question(client, 3), "again")
    t.true("receipt" in str(client.result(ident)), "run")
    t.equal(len(t.effects()), 2, "effects")


@people("what_was_approved_is_what_runs_ignored_members_too")
def approved_bytes(t, w):
    """The fingerprint leaves a member out, so a repeat may come with another one there."""
    client = w.client(QUICK, "--tool", "charge: approval=always ignore=/note")
    told = client.result(client.call(args={"n": 1, "note": "to Ann"}, key=KEY + "a1"))
    t.equal(code(told), "APPROVAL_REQUIRED", "the first call")
    decide(t, "approve", operation(told)["id"])
    told = client.result(client.call(args={"n": 1, "note": "to Mallory"}, key=KEY + "a1"))
    t.true("receipt" in str(told), f"it runs: {told}")
    t.equal([json.loads(one["args"])["note"] for one in t.effects()], ["to Ann"], "what ran")


@people("an_approved_call_that_is_refused_waits_for_its_caller")
def approved_refused(t, w):
    """Only the client can open the URL: nothing is tried again without it, and no attempt is used up."""
    wanted = {"error": '{"code":-32042,"message":"log in","data":{"elicitations":[]}}'}
    script = {"tools": {"charge": {"runs": [[wanted]] * 6 + [[{"text": "receipt $RECEIPT"}]]}}}
    client = w.client(script, *ASKS)
    told = client.result(client.call(args={"n": 1}, key=KEY + "a2"))
    decide(t, "approve", operation(told)["id"])
    for tries in range(1, 7):
        answer = client.answer(client.call(args={"n": 1}, key=KEY + "a2")).json
        t.equal(answer["error"]["code"], -32042, f"try {tries}: {answer}")
        t.equal(len(t.effects()), tries, f"calls of the tool after try {tries}")
    told = client.result(client.call(args={"n": 1}, key=KEY + "a2"))
    t.true("receipt" in str(told), f"it runs: {told}")


def with_sdk(t, sdk):
    bench = Bench(t, sdk, "hapax")
    bench.argv = t.hapax_argv(bench.server, *ASKS)
    bench.client.elicit = ["approve", "deny"]
    bench.connect()
    first = bench.client.result(bench.client.call(args={"n": 1}, key=KEY + "90"))
    t.true("receipt" in json.dumps(first), f"approved: {first}")
    second = bench.client.result(bench.client.call(args={"n": 2}, key=KEY + "91"))
    t.true("A person refused it" in json.dumps(second), f"denied: {second}")
    t.equal(len(t.effects()), 1, "effects")


for _sdk in SDKS:
    test("people", f"people_sdk_{_sdk}_answers_an_approval", needs_hapax=True, sdk=_sdk)(with_sdk)


@people("a_client_that_can_say_nothing_more_is_not_waited_for")
def input_over(t, w):
    """It closes its end with the question open: the call is told what the state says, and all ends."""
    client = w.client(QUICK, *ASKS, capabilities=FORM)
    ident = client.call(args={"n": 1}, key=KEY + "90")
    question(client)
    client.close_stdin()
    t.equal(code(client.result(ident)), "APPROVAL_REQUIRED", "the waiting call")
    client.wait_eof(10)
    t.wait(lambda: not processes.marked(t.mark), "all processes to end", 15)
    t.equal(t.effects(), [], "effects")
