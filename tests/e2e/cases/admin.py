# SPDX-License-Identifier: MIT
"""The admin API (docs/admin.md): who may come, looking, deciding, evidence. Names: admin_..."""

import hashlib
import http.client
import json
import os
import re
import signal
import socket
import threading

from rawclient import RawClient
from webclient import Serve, WebClient
from .people import FORM, question, reply
from .serve import QUICK, before_stub
from .way import assert_unknown, case, code, operation

KEY = "0190a0a0-0000-7000-8000-0000000082"
ANN, BOB = "hpx_ann_ann_ann_ann_ann_ann", "hpx_bob_bob_bob_bob_bob_bob"
DIES = {"tools": {"charge": {"runs": [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]}}}
HELD = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}


def admin(title):
    return case(title, None, suite="admin", prefix="admin_")


def hashes():
    return ",".join(
        f"{name}:{hashlib.sha256(token.encode()).hexdigest()}"
        for name, token in (("ann", ANN), ("bob", BOB))
    )


class Local(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=20)
        self.place = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.place)


class Admin:
    def __init__(self, t, token=ANN):
        self.t, self.token = t, token
        self.path = os.path.join("/tmp", f"hx-{t.mark[:12]}.sock")
        self.options = ("--admin-listen", f"unix:{self.path}", "--admin-tokens", hashes())

    def as_bob(self):
        other = Admin(self.t, BOB)
        return other

    def ask(self, verb, path, body=None, headers=None):
        """Status and JSON."""
        conn = Local(self.path)
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        conn.request(
            verb,
            path,
            data,
            {"Authorization": f"Bearer {self.token}"} if headers is None else headers,
        )
        answer = conn.getresponse()
        text = answer.read()
        conn.close()
        return answer.status, json.loads(text)

    def get(self, path, status=200):
        got, told = self.ask("GET", path)
        self.t.equal(got, status, f"status of GET {path}: {told}")
        return told

    def post(self, path, body, status=200):
        got, told = self.ask("POST", path, body)
        self.t.equal(got, status, f"status of POST {path} {body}: {told}")
        return told

    def decide(self, ident, decision, status=200, **more):
        body = {"decision": decision, **more}
        return self.post(f"/v1/operations/{ident}/decision", body, status)


def served(t, script, *options):
    """A client over HTTP, and the admin API of the same process."""
    api = Admin(t)
    running = before_stub(t, script, *api.options, *options)
    return running, running.client(), api


@admin("who_may_come")
def who(t, w):
    _, client, api = served(t, QUICK)
    ident = operation(client.call(key=KEY + "00").result())["id"]
    good = {"Authorization": f"Bearer {ANN}"}
    for headers in (
        {},
        {"Authorization": "Bearer hpx_wrong_wrong_wrong_wrong"},
        {"Authorization": f"Basic {ANN}"},
        {"Authorization": f"Bearer {ANN}x"},
        {"Authorization": "Bearer "},
        {"X": ANN},
    ):
        got, told = api.ask("GET", "/v1/operations", headers=headers)
        t.equal((got, told["error"]), (401, "UNAUTHORIZED"), f"with {headers}")
        t.true(ident not in json.dumps(told), "nothing is told")
    got, _ = api.ask("GET", "/v1/operations", headers={**good, "Origin": "http://evil.example"})
    t.equal(got, 403, "a web page")
    for verb, path, body, wanted in (
        ("GET", "/", None, 404),
        ("GET", "/v1/operations/no-id", None, 404),
        ("GET", f"/v1/operations/{ident}/decision", None, 404),
        ("GET", f"/v1/operations/{KEY}ff", None, 404),
        ("GET", "/v1/operations?state=lost", None, 400),
        ("GET", "/v1/operations?limit=0", None, 400),
        ("DELETE", f"/v1/operations/{ident}", None, 405),
        ("POST", "/v1/operations", {}, 404),
        ("POST", f"/v1/operations/{ident}/decision", b"{", 400),
        ("POST", f"/v1/operations/{ident}/decision", b'{"decision":"deny","decision":"deny"}', 400),
        ("POST", f"/v1/operations/{ident}/decision", {}, 400),
        ("POST", f"/v1/operations/{ident}/decision", {"decision": "maybe"}, 400),
        ("POST", f"/v1/operations/{ident}/decision", {"decision": "deny", "force": True}, 400),
        ("POST", f"/v1/operations/{ident}/decision", {"decision": "deny", "note": "x" * 600}, 400),
        ("POST", f"/v1/operations/{ident}/decision", {"decision": "deny", "note": [1]}, 400),
        ("POST", f"/v1/operations/{KEY}ff/decision", {"decision": "deny"}, 404),
        ("POST", "/v1/evidence", {"effect_key": KEY + "ff"}, 400),
        ("POST", "/v1/evidence", {"effect_key": KEY + "ff", "happened": True}, 404),
        ("POST", "/v1/cancel", {"key": "k"}, 400),
    ):
        got, told = api.ask(verb, path, body)
        t.equal(got, wanted, f"{verb} {path} {body}: {told}")
        t.true("sentence" in told, f"says why: {told}")
    web = WebClient(client.serve, path="/v1/operations", token=ANN)
    t.equal(web.get().head(), 404, "not where clients come")
    t.equal(len(t.effects()), 1, "effects")


@admin("settings_that_are_refused")
def refused(t, w):
    for options, word in (
        (("--admin-listen", "unix:/tmp/x.sock"), "admin_tokens"),
        (("--admin-tokens", hashes()), "admin_listen"),
        (("--admin-listen", "0.0.0.0:7333", "--admin-tokens", hashes()), "this machine"),
        (("--admin-listen", "unix:/tmp/x.sock", "--admin-tokens", ANN), "hapax token"),
        (("--admin-listen", "unix:/tmp/x.sock", "--admin-tokens", f"ann:{ANN}"), "hapax token"),
        (
            ("--admin-listen", "unix:/tmp/x.sock", "--admin-tokens", hashes() + "," + hashes()),
            "twice",
        ),
    ):
        for command in ("serve", "run"):
            status, _, err = t.hapax(command, "--ledger", t.ledger, *options, "--", "true")
            t.equal(status, 2, f"{command} {options}: {err}")
            t.true(word in err.decode(), f"says {word}: {err}")
            t.true(ANN not in err.decode(), f"repeats no token: {err}")


@admin("list_and_show")
def look(t, w):
    _, client, api = served(t, DIES)
    lost = assert_unknown(t, client.call(args={"n": 0}, key=KEY + "10").result(), "lost")["id"]
    for n in range(1, 6):
        client.call(args={"n": n}, key=f"{KEY}1{n}").result()
    told = api.get("/v1/operations")
    t.equal([one["id"] for one in told["operations"]], [lost], "what is open")
    t.true("arguments" not in told["operations"][0], f"a list has no payload: {told}")
    seen, cursor = [], ""
    while cursor is not None:
        page = api.get(f"/v1/operations?state=succeeded&limit=2{cursor}")
        seen += [one["id"] for one in page["operations"]]
        cursor = f"&cursor={page['next']}" if "next" in page else None
    t.equal(len(set(seen)), 5, f"all pages: {seen}")
    t.equal(api.get("/v1/operations?tool=other")["operations"], [], "of another tool")
    found = api.get(f"/v1/operations?tool=%63harge&server={told['operations'][0]['server']}")
    t.equal(len(found["operations"]), 1, "filtered")
    t.equal(api.get("/v1/operations?server=other")["operations"], [], "of another server")
    shown = api.get(f"/v1/operations/{lost}")
    _, out, _ = t.ops("show", lost, "--json", "--ledger", t.ledger)
    by_ops = json.loads(out)
    for member in ("id", "execution", "reason", "tool", "server", "arguments", "effect_key", "contract"):
        t.equal(shown[member], by_ops[member], f"as hapax ops shows it: {member}")
    t.true("arguments" not in api.get(f"/v1/operations/{lost}?payload=no"), "without payload")


@admin("each_decision_once_and_the_later_one_is_told")
def decisions(t, w):
    """happened, absent and again, posted twice and then contradicted; the history tells who."""
    _, client, api = served(t, {"tools": {"charge": {"runs": [[{"exit": 1}]] * 3 + [[{"text": "receipt $RECEIPT"}]]}}})
    bob = api.as_bob()
    for n, (decision, more, other) in enumerate(
        (
            ("happened", {"result": {"content": [{"type": "text", "text": "seen"}]}}, "again"),
            ("absent", {"force": True}, "happened"),
            ("again", {}, "absent"),
        )
    ):
        ident = assert_unknown(t, client.call(args={"n": n}, key=f"{KEY}2{n}").result(), "lost")["id"]
        told = api.decide(ident, decision, note=f"call {n}", **more)
        t.equal((told["is_applied"], told["answer"]), (True, "DONE"), f"{decision}: {told}")
        again = api.decide(ident, decision, **more)
        t.equal(again["is_applied"], False, f"posted twice: {again}")
        t.true("somebody decided first" in again["sentence"], f"is told: {again}")
        late = bob.decide(ident, other, 409)
        t.true("somebody decided first" in late["sentence"], f"the later one is told: {late}")
        t.equal(late["operation"]["id"], ident, "and shown")
        _, out, _ = t.ops("show", ident, "--ledger", t.ledger)
        t.true(b"admin ann" in out and f"call {n}".encode() in out, f"who: {out.decode()}")
        t.true(b"admin bob" not in out, "what did not count is not there")
    results = [client.call(args={"n": n}, key=f"{KEY}2{n}").result() for n in range(3)]
    t.equal(results[0]["content"][0]["text"], "seen", "the result that was given")
    t.equal(code(results[1]), "FAILED", f"absent: {results[1]}")
    t.true("receipt" in str(results[2]), f"done again: {results[2]}")
    t.equal(len(t.effects()), 4, "effects: three that were lost, one that was asked for")


@admin("approvals_of_two_people_at_once")
def approvals(t, w):
    """Two people post different decisions at once: one is applied, the other told; what runs is what
    the one said."""
    _, client, api = served(t, QUICK, "--tool", "charge: approval=always")
    wanted = 0
    for n in range(6):
        ident = operation(client.call(args={"n": n}, key=f"{KEY}3{n}").result())["id"]
        told = {}

        def post(who, decision, found=told, ident=ident):
            found[decision] = who.ask(
                "POST", f"/v1/operations/{ident}/decision", {"decision": decision}
            )

        threads = [
            threading.Thread(target=post, args=args)
            for args in ((api, "approve"), (api.as_bob(), "deny"))
        ]
        for thread in threads if n % 2 else reversed(threads):
            thread.start()
        for thread in threads:
            thread.join()
        won = [decision for decision, (_, one) in told.items() if one["is_applied"]]
        t.equal(len(won), 1, f"applied: {told}")
        t.equal(sorted(status for status, _ in told.values()), [200, 409], f"statuses: {told}")
        result = client.call(args={"n": n}, key=f"{KEY}3{n}").result()
        if won == ["approve"]:
            wanted += 1
            t.true("receipt" in str(result), f"approved: {result}")
        else:
            t.equal(code(result), "CANCELLED", f"denied: {result}")
    t.equal(len(t.effects()), wanted, "effects")


@admin("an_approval_wakes_the_caller_that_is_asked")
def wakes(t, w):
    """The caller's own person is being asked when the admin approves: the call goes on."""
    api = Admin(t)
    client = w.client(QUICK, "--tool", "charge: approval=always", *api.options, capabilities=FORM)
    ref = client.call(args={"n": 1}, key=KEY + "40")
    asked = question(client)
    (one,) = api.get("/v1/operations")["operations"]
    api.decide(one["id"], "approve")
    t.true("receipt" in str(client.result(ref)), "the result")
    reply(client, asked, "deny")
    client.result(client.request("tools/list"))
    t.equal(len(t.effects()), 1, "effects")


@admin("cancels")
def cancels(t, w):
    _, client, api = served(t, HELD)
    running = client.call(args={"n": 1}, key=KEY + "50")
    t.wait_effects(1)
    (one,) = api.get("/v1/operations")["operations"]
    told = api.decide(one["id"], "cancel", 409)
    t.equal(told["answer"], "CANCEL_IN_DOUBT", f"what was sent: {told}")
    t.wait(lambda: t.lines("cancels"), "the tool to be told")
    t.touch("release")
    t.true("receipt" in str(running.result()), "its outcome")
    name = {"tenant": "local", "principal": str(os.getuid()), "server": one["server"], "tool": "charge"}
    told = api.post("/v1/cancel", {**name, "key": KEY + "51"})
    t.equal((told["is_applied"], told["answer"]), (True, "DONE"), f"before its call: {told}")
    t.equal(code(client.call(args={"n": 2}, key=KEY + "51").result()), "CANCELLED", "the call")
    t.equal(api.post("/v1/cancel", {**name, "key": KEY + "51"})["answer"], "CANCELLED", "again")
    for n, member in enumerate(name):  # no name may fill the ledger
        body = {**name, "key": f"{KEY}52-{n}"}
        told = api.post("/v1/cancel", {**body, member: "x" * 1025}, 400)
        t.true("1024" in told["sentence"], f"{member}: {told}")
        t.true(api.post("/v1/cancel", {**body, member: "x" * 1024})["is_applied"], member)
    t.equal(len(t.effects()), 1, "effects")


def effect_key(t, n=-1):
    return json.loads(t.effects()[n]["args"])["ref"]


@admin("evidence_by_effect_key")
def evidence(t, w):
    """What the tool's own side tells: that it happened settles; that it did not counts only when
    absence can be proved."""
    rule = "charge: class=keyed effect_key=/ref"
    script = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
    _, client, api = served(t, script, "--tool", rule)
    ident = assert_unknown(t, client.call(args={"n": 1}, key=KEY + "60").result(), "lost")["id"]
    key = effect_key(t)
    told = api.post("/v1/evidence", {"effect_key": key, "happened": False}, 409)
    t.true("in_flight_bound" in told["sentence"], f"says why it does not count: {told}")
    told = api.post(
        "/v1/evidence", {"effect_key": key, "happened": True, "result": "receipt 77", "note": "webhook"}
    )
    t.equal(
        (told["is_applied"], told["operation"]["execution"], told["operation"]["reason"]),
        (True, "succeeded", "evidence"),
        f"told: {told}",
    )
    result = client.call(args={"n": 1}, key=KEY + "60").result()
    t.equal(result["content"][0]["text"], "receipt 77", f"what the caller gets: {result}")
    for happened, status in ((True, 200), (False, 409)):
        told = api.post("/v1/evidence", {"effect_key": key, "happened": happened}, status)
        t.equal(told["is_applied"], False, f"so already, or against a result: {told}")
        t.equal(told["operation"]["is_disputed"], False, f"nobody is alarmed: {told}")
    _, out, _ = t.ops("show", ident, "--ledger", t.ledger)
    t.true(b"admin ann" in out and b"webhook" in out, f"the history: {out.decode()}")
    t.equal(len(t.effects()), 1, "effects")


@admin("evidence_of_absence_that_counts")
def absence(t, w):
    rule = "charge: class=keyed effect_key=/ref in_flight_bound=1s"
    script = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
    _, client, api = served(t, script, "--tool", rule)
    assert_unknown(t, client.call(args={"n": 1}, key=KEY + "70").result(), "lost")
    body = {"effect_key": effect_key(t), "happened": False}
    t.wait(lambda: api.ask("POST", "/v1/evidence", body)[0] == 200, "absence to be provable")
    t.equal(code(client.call(args={"n": 1}, key=KEY + "70").result()), "FAILED", "the call")
    t.equal(len(t.effects()), 1, "effects")


@admin("evidence_against_what_has_ended_is_kept")
def contradicted(t, w):
    """A failed or cancelled operation of which the tool's side says that it happened: the record
    stands, is disputed, and its history says who and why."""
    rule = "charge: class=keyed effect_key=/ref"
    script = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
    _, client, api = served(t, script, "--tool", rule)
    ident = assert_unknown(t, client.call(args={"n": 1}, key=KEY + "90").result(), "lost")["id"]
    body = {"effect_key": effect_key(t), "happened": True, "note": "webhook 9"}
    api.post(f"/v1/operations/{ident}/decision", {"decision": "absent", "force": True})
    t.equal(api.post("/v1/evidence", {**body, "happened": False})["is_applied"], False, "it agrees")
    told = api.post("/v1/evidence", body)
    t.true(told["is_applied"] and "disputed" in told["sentence"], f"told: {told}")
    for again in range(2):
        op = told["operation"]
        t.equal((op["execution"], op["is_disputed"]), ("failed", True), f"the record: {told}")
        told = api.post("/v1/evidence", body)
        t.equal(told["is_applied"], False, f"posted again: {told}")
    t.equal(code(client.call(args={"n": 1}, key=KEY + "90").result()), "FAILED", "the call")
    _, out, _ = t.ops("show", ident, "--ledger", t.ledger)
    t.true(b"DISPUTED" in out and b"admin ann" in out and b"webhook 9" in out, out.decode())
    t.equal(len(t.effects()), 1, "effects")


@admin("what_was_answered_outlives_a_kill")
def killed(t, w):
    """SIGKILL right after each answer: the decision stands in the ledger of the next process."""
    api = Admin(t)
    script = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
    for n in range(4):
        running = before_stub(t, script, *api.options)
        client = running.client()
        ident = assert_unknown(t, client.call(args={"n": n}, key=f"{KEY}8{n}").result(), "lost")["id"]
        t.equal(api.decide(ident, "happened")["is_applied"], True, "told")
        os.kill(running.process.pid, signal.SIGKILL)
        running.process.wait()
        found = [op for op in t.operations() if op["id"] == ident]
        t.equal(found[0]["execution"], "succeeded", f"round {n}")


@admin("beside_hapax_run_and_over_tcp")
def by_run(t, w):
    """`hapax run` offers it too; a second one at the same place runs without."""
    options = ("--admin-listen", "127.0.0.1:0", "--admin-tokens", hashes())
    client = w.client(QUICK, *options)
    client.result(client.call(key=KEY + "90"))
    err = t.wait(
        lambda: re.search(r"admin API at http://127.0.0.1:(\d+)", open(client.stderr_path).read()),
        "the address",
    )
    conn = http.client.HTTPConnection("127.0.0.1", int(err[1]), timeout=20)
    conn.request("GET", "/v1/operations?state=succeeded", headers={"Authorization": f"Bearer {BOB}"})
    told = json.loads(conn.getresponse().read())
    conn.close()
    t.equal(len(told["operations"]), 1, f"told: {told}")
    api = Admin(t)
    first = w.client(QUICK, *api.options)
    second = RawClient(t, first.argv)
    second.initialize()
    second.result(second.call(key=KEY + "91"))
    t.true("not offered here" in open(second.stderr_path).read(), "the second one says so")
    t.equal(len(api.get("/v1/operations?state=succeeded")["operations"]), 2, "the first one's")
    first.close_stdin()
    first.wait_eof()
    t.wait(lambda: not os.path.exists(api.path), "its socket to go")
