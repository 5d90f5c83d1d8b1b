# SPDX-License-Identifier: MIT
"""`hapax ops` on real operations: looking, deciding, maintaining. Names: ops_..."""

import fcntl
import json
import os
import pty
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import termios
import time

from kit import processes
from kit.harness import Failure, Skip
from rawclient import RawClient, stub
from .way import assert_unknown, case, code, operation

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
DIES_ONCE = [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]
SECRET = "SENTINEL-77aa31"
DONE, NOT_APPLIED, USAGE, ABSENT, NO_LEDGER = range(5)


def ops(title):
    return case(title, None, suite="ops", prefix="ops_")


class Operator:
    """Runs `hapax ops` on the ledger of the test and checks the exit status."""

    def __init__(self, t):
        self.t = t

    def run(self, *words, status=DONE):
        got, out, err = self.t.ops(*words, "--ledger", self.t.ledger)
        self.t.equal(
            got, status, f"exit status of ops {' '.join(words)} ({out[-300:]!r} {err[-400:]!r})"
        )
        return out.decode(), err.decode()

    def json(self, *words, status=DONE):
        out, _ = self.run(*words, "--json", status=status)
        return json.loads(out)

    def listed(self, *words):
        return self.json("list", *words)["operations"]

    def show(self, name):
        return self.json("show", name)


def unknown(t, w, key="order-4711", tool="charge", runs=None, *options):
    """A call that acted and whose server died: the client, the id."""
    client = w.client({"tools": {tool: {"runs": runs or DIES_ONCE}}}, *options)
    envelope = assert_unknown(t, client.result(client.call(tool, {"n": 1}, key=key)), "answer")
    return client, envelope["id"]


# Looking --------------------------------------------------------------------------------------------


def without_ledger(err):
    """What was said on standard error beyond which ledger it was."""
    return "".join(line for line in err.splitlines(True) if not line.startswith("ledger: "))


@ops("list_filters")
def list_filters(t, w):
    client, ident = unknown(t, w)
    client.result(client.call("charge", {"n": 2}))
    o = Operator(t)
    t.equal([op["execution"] for op in o.listed()], ["unknown", "succeeded"], "open first")
    t.equal([op["id"] for op in o.listed("--state", "unknown")], [ident], "by state")
    t.equal([op["id"] for op in o.listed("--state", "open")], [ident], "what is open")
    t.equal(len(o.listed("--tool", "char*")), 2, "by a pattern of tools")
    t.equal(o.listed("--tool", "char"), [], "a pattern is the whole name")
    t.equal(len(o.listed("--server", "e2e")), 2, "by server")
    t.equal(o.listed("--server", "other"), [], "by another server")
    t.equal(o.listed("--older-than", "1h"), [], "older than they are")
    t.equal(len(o.listed("--older-than", "0")), 2, "older than nothing")
    t.equal(o.listed("--needs-human"), [], "too early for a person")
    t.equal(len(o.listed("--limit", "1")), 1, "a limit")
    t.equal(len(o.listed("--since", "1h")), 2, "since an hour ago")
    (row,) = o.listed("--state", "unknown")
    for member, wanted in (
        ("tool", "charge"),
        ("server", "e2e"),
        ("principal", str(os.getuid())),
        ("effect", "intended"),
        ("delivery", "not_ready"),
        ("key_source", "_meta"),
        ("reason", "transport_lost"),
    ):
        t.equal(row[member], wanted, member)
    t.true(row["age_ms"] >= 0, "an age")
    t.true("arguments" not in row and "key" not in row, f"a list has no payload: {row}")


@ops("list_holds_no_secret")
def list_no_secret(t, w):
    client = w.client({"tools": {"charge": {"runs": [[{"text": f"result {SECRET}"}]]}}})
    client.result(client.call("charge", {"token": SECRET}, key=f"key-{SECRET}"))
    o = Operator(t)
    for words in (("list",), ("list", "--json"), ("export", "--without-payload")):
        out, _ = o.run(*words)
        t.true(SECRET not in out, f"ops {words} holds a secret: {out[:400]}")
    out, _ = o.run("show", f"key-{SECRET}")
    t.true("--arguments" in out, "a pipe is told how to get them")
    t.true(SECRET not in out, f"ops show into a pipe holds a secret: {out[:600]}")
    t.true(SECRET in o.run("show", f"key-{SECRET}", "--arguments")[0], "asked for they are shown")
    t.true(SECRET in o.run("export")[0], "an export is complete")


@ops("show_tells_the_whole_story")
def show_story(t, w):
    client, ident = unknown(t, w)
    client.result(client.call("charge", {"n": 1}, key="order-4711"))
    o = Operator(t)
    for name in (ident, ident[-8:], "order-4711"):
        t.equal(o.show(name)["id"], ident, f"shown by {name}")
    t.wait(lambda: o.show(ident)["repeats"] == 1, "the repeat to be counted")
    shown = o.show(ident)
    t.equal(shown["arguments"], {"n": 1}, "arguments")
    (attempt,) = shown["attempts"]
    t.equal(attempt["state"], "open", "the attempt may have acted")
    t.true(attempt["claimed"] and attempt["marked"], f"its times: {attempt}")
    steps = [line["to"] for line in shown["history"] if line["what"] in ("insert", "update")]
    t.equal(steps, ["running", "unknown"], "history")
    out, _ = o.run("show", ident)
    for decision in ("happened", "absent", "again"):
        command = f"hapax ops resolve {ident} {decision} --ledger {t.ledger}"
        t.true(command in out, f"the exact command: {command} in {out}")


@ops("names_that_fit_nothing")
def names_nothing(t, w):
    unknown(t, w)
    o = Operator(t)
    for words in (
        ("show", "0190a0a0-0000-7000-8000-000000000001"),
        ("show", "ffffffff"),
        ("show", "no-such-key"),
        ("resolve", "ffffffff", "happened"),
        ("cancel", "ffffffff"),
        ("approve", "ffffffff"),
    ):
        out, err = o.run(*words, status=ABSENT)
        t.equal(out, "", f"output of {words}")
        t.true("ops list" in err, f"says where the names are: {err}")


@ops("a_missing_ledger_is_not_made")
def missing_ledger(t, w):
    nowhere = t.path("nowhere")
    for words in (
        ("list",),
        ("show", "aabbccdd"),
        ("export",),
        ("verify",),
        ("recover",),
        ("cancel", "--server", "e2e", "--tool", "t", "--key", "k-1"),
        ("resolve", "aabbccdd", "again"),
    ):
        status, out, err = t.ops(*words, "--ledger", nowhere)
        t.equal(status, NO_LEDGER, f"exit status of {words}: {err!r}")
        t.true(nowhere.encode() in err, f"it says where it looked: {err!r}")
        t.true(b"hapax run" in err, f"and how one comes into being: {err!r}")
    t.true(not os.path.exists(nowhere), "nothing was made")


@ops("another_program_s_file_is_refused")
def foreign_file(t, w):
    os.makedirs(t.ledger)
    with sqlite3.connect(os.path.join(t.ledger, "ledger.db")) as database:
        database.execute("CREATE TABLE mine(x)")
    Operator(t).run("list", status=NO_LEDGER)
    with open(os.path.join(t.ledger, "ledger.db"), "wb") as file:
        file.write(b"x" * 8192)
    Operator(t).run("list", status=NO_LEDGER)


@ops("on_a_terminal")
def on_terminal(t, w):
    """A terminal sees the ledger's path and the arguments, and no control byte of theirs."""
    client, ident = unknown(t, w)
    client.result(client.call("charge", {"word": "\u001b[31m\u009b", "pad": SECRET}, key="k-esc-1"))
    for words, wanted in ((("list",), "unknown"), (("show", "k-esc-1"), SECRET)):
        argv = [t.surroundings.hapax, "ops", *words, "--ledger", t.ledger]
        main, side = pty.openpty()
        with subprocess.Popen(argv, env=t.env, stdout=side, stderr=side) as process:
            os.close(side)
            said = b""
            while True:
                try:
                    chunk = os.read(main, 65536)
                except OSError:
                    break
                if not chunk:
                    break
                said += chunk
        os.close(main)
        t.equal(process.returncode, DONE, f"exit status of {words}: {said!r}")
        t.true(f"ledger: {t.ledger}".encode() in said, f"names the ledger: {said[:200]!r}")
        t.true(wanted.encode() in said, f"{words} shows {wanted}: {said!r}")
        t.true(b"\x1b[31m" not in said.replace(b"\x1b[1;31m", b""), "no escape of the tool's")
        t.true("\u009b".encode() not in said, "no control sign of the tool's")


@ops("watch_tells_each_step")
def watch(t, w):
    client = w.client({"tools": {"charge": {"runs": RELEASED}, "warm": {}}})
    argv = [t.surroundings.hapax, "ops", "watch", "--json", "--ledger", t.ledger]
    out = open(t.path("watch.out"), "wb")
    process = subprocess.Popen(argv, env=t.env, stdout=out, stderr=subprocess.PIPE)
    t.at_end(lambda: (process.kill(), process.wait(), out.close()))

    def watched():
        client.result(client.call("warm"))
        return t.lines("watch.out")

    # It tells what comes after it has begun, and an open ledger does not say that it has.
    t.wait(watched, "watch to tell of a call")
    ref = client.call("charge", {"n": 1}, key="watched-1")
    t.wait(lambda: t.effects("charge"), "the effect")

    def lines():
        every = [json.loads(line) for line in t.lines("watch.out")]
        return [line for line in every if line["tool"] == "charge"]

    t.wait(lambda: any(line["what"] == "mark" for line in lines()), "the mark to be told")
    t.touch("release")
    client.result(ref)
    t.wait(lambda: any(line.get("to") == "succeeded" for line in lines()), "the end to be told")
    found = [(line["what"], line.get("to")) for line in lines()]
    t.equal(
        found[:3], [("insert", "running"), ("mark", "running"), ("update", "succeeded")], "steps"
    )
    process.send_signal(signal.SIGINT)
    t.equal(process.wait(5), DONE, f"exit status after Ctrl-C: {process.stderr.read()!r}")
    process.stderr.close()


@ops("watch_ends_though_nobody_reads")
def watch_unread(t, w):
    """Its pipe is full, and it is told to end."""
    client = w.client({"tools": {"warm": {}}})
    argv = [t.surroundings.hapax, "ops", "watch", "--json", "--ledger", t.ledger]
    client.result(client.call("warm"))
    process = subprocess.Popen(argv, env=t.env, stdout=subprocess.PIPE)
    t.at_end(lambda: (process.kill(), process.wait(), process.stdout.close()))
    fcntl.fcntl(process.stdout, fcntl.F_SETPIPE_SZ, 4096)

    def is_full():
        refs = [client.call("warm", {"n": n}) for n in range(20)]
        for ref in refs:
            client.result(ref)
        unread = fcntl.ioctl(process.stdout, termios.FIONREAD, bytes(4))
        return int.from_bytes(unread, sys.byteorder) > 3000

    t.wait(is_full, "the pipe to be full", 60)
    is_full()
    process.send_signal(signal.SIGTERM)
    try:
        t.equal(process.wait(5), 1, "exit status of what is not complete")
    except subprocess.TimeoutExpired:
        t.true(False, "it waits for its reader")


@ops("export_has_room_for_any_number_of_large_results")
def export_large(t, w):
    """Together they are larger than what may be in memory for one."""
    client = w.client({"tools": {"dump": {"runs": [[{"big": 60_000_000}]]}}})
    for n in range(9):
        t.true("result" in str(client.answer(client.call("dump", {"n": n}), 60))[:400], "an answer")
    argv = [t.surroundings.hapax, "ops", "export", "--ledger", t.ledger]
    with subprocess.Popen(argv, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        lines = sum(1 for _ in process.stdout)
        t.equal(process.wait(20), DONE, f"exit status: {process.stderr.read()!r}")
    t.equal(lines, 9, "operations")


@ops("watch_ends_with_its_reader")
def watch_reader(t, w):
    unknown(t, w)
    argv = [t.surroundings.hapax, "ops", "watch", "--ledger", t.ledger]
    with subprocess.Popen(argv, env=t.env, stdout=subprocess.PIPE) as process:
        process.stdout.close()
        t.equal(process.wait(5), DONE, "exit status when nobody reads any more")


# Deciding -------------------------------------------------------------------------------------------


@ops("it_happened")
def it_happened(t, w):
    client, ident = unknown(t, w)
    o = Operator(t)
    out, _ = o.run("resolve", ident, "happened", "--note", "seen at the bank")
    t.true("it happened" in out, f"said: {out}")
    result = client.result(client.call("charge", {"n": 1}, key="order-4711"))
    t.equal(code(result), None, f"the repeat has an outcome: {result}")
    t.true("A person confirmed" in str(result), f"which says whence: {result}")
    t.equal(len(t.effects()), 1, "effects")
    shown = o.show(ident)
    t.equal(shown["execution"], "succeeded", "state")
    t.equal(shown["outcome"]["is_reconstructed"], True, "not the tool's own words")
    notes = [line["note"] for line in shown["history"] if line["what"] == "note"]
    t.equal(len(notes), 1, f"lines about the decision: {notes}")
    t.true(f"uid {os.getuid()}" in notes[0]["who"], f"who: {notes}")
    t.equal((notes[0]["decision"], notes[0]["note"]), ("happened", "seen at the bank"), "what")


@ops("it_happened_with_a_result")
def it_happened_with(t, w):
    client, ident = unknown(t, w)
    own = '{"content":[{"type":"text","text":"receipt\\u0020 77"}],\n"structuredContent":{"n":1.0}}'
    Operator(t).run("resolve", ident, "happened", "--result", own)
    answer = client.answer(client.call("charge", {"n": 1}, key="order-4711"))
    t.true(own.replace("\n", " ").encode()[1:-1] in answer.line, f"the given bytes: {answer}")
    t.equal(len(t.effects()), 1, "effects")


@ops("a_call_that_ends_while_it_is_listed_is_listed_once")
def listed_once(t, w):
    with open(t.surroundings.hapax, "rb") as file:
        if b"HAPAX_STOP_AT" not in file.read():
            raise Skip("built without crash_points")
    client = w.client({"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "done"}]]}}})
    first = client.call("charge", {"n": 1}, key="order-4711")
    t.wait_effects(1)
    argv = [t.surroundings.hapax, "ops", "list", "--json", "--ledger", t.ledger]
    lister = subprocess.Popen(
        argv, env={**t.env, "HAPAX_STOP_AT": "list-open-read"}, stdout=subprocess.PIPE
    )
    t.wait(lambda: processes.state(lister.pid) == "T", "the list to stop in the middle")
    t.touch("release")
    client.result(first)
    os.kill(lister.pid, signal.SIGCONT)
    out, _ = lister.communicate(timeout=20)
    t.equal(len(json.loads(out)["operations"]), 1, "lines of the one call")


@ops("what_was_decided_is_told_though_the_ledger_is_gone_then")
def decided_is_told(t, w):
    """What was decided is known when it is committed: no second look at the ledger may fail it."""
    with open(t.surroundings.hapax, "rb") as file:
        if b"HAPAX_STOP_AT" not in file.read():
            raise Skip("built without crash_points")
    o = Operator(t)
    for key, words, state, told in (
        ("order-1", ["resolve", "order-1", "happened"], "succeeded", b"it happened"),
        ("order-2", ["resolve", "order-2", "absent", "--force"], "failed", b"it did not happen"),
        ("order-3", ["resolve", "order-3", "happened", "--json"], "succeeded", b'"is_applied":true'),
    ):
        unknown(t, w, key, "charge", [[{"exit": 1}]] * 3)
        operator = subprocess.Popen(
            [t.surroundings.hapax, "ops", *words, "--ledger", t.ledger],
            env={**t.env, "HAPAX_STOP_AT": "update-half>commit-after"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        t.wait(lambda: processes.state(operator.pid) == "T", "the operator to stop behind the commit")
        database = t.database()
        os.rename(database, database + ".away")
        os.kill(operator.pid, signal.SIGCONT)
        out, err = operator.communicate(timeout=20)
        t.true(not os.path.exists(database), "whoever opens the ledger now finds none")
        os.rename(database + ".away", database)
        t.equal(operator.returncode, DONE, f"exit status ({out!r} {err[-400:]!r})")
        t.true(told in out, f"told: {out!r}")
        t.equal(o.show(key)["execution"], state, f"state of {key}")


@ops("it_did_not_happen")
def it_did_not(t, w):
    client, ident = unknown(t, w)
    o = Operator(t)
    _, err = o.run("resolve", ident, "absent", status=NOT_APPLIED)
    t.true("in_flight_bound" in err and "--force" in err, f"why and how: {err}")
    t.equal(o.show(ident)["execution"], "unknown", "state after the refusal")
    o.run("resolve", ident, "absent", "--force")
    result = client.result(client.call("charge", {"n": 1}, key="order-4711"))
    t.equal(code(result), "FAILED", f"the repeat: {result}")
    words = result["content"][0]["text"]
    t.true("proven" not in words and "A person decided" in words, f"nobody proved it: {words}")
    out, _ = o.run("cancel", ident)
    t.true("proven" not in out and "a person decided" in out, f"the words of a cancel: {out}")
    out, _ = o.run("show", ident)
    t.true("proven" not in out and "a person decided" in out, f"what is shown: {out}")
    t.equal(operation(result)["new_key_allowed"], True, "new_key_allowed")
    t.equal(len(t.effects()), 1, "effects")
    (note,) = [line["note"] for line in o.show(ident)["history"] if line["what"] == "note"]
    t.equal(note["forced"], True, "that it was forced is on record")


@ops("it_did_not_happen_after_waiting")
def it_did_not_after_waiting(t, w):
    """With a declared bound the refusal says how long, and no force is needed afterwards."""
    _, ident = unknown(t, w, "order-4711", "charge", None, "--tool", "charge: in_flight_bound=2s")
    o = Operator(t)
    status, out, err = t.ops("resolve", ident, "absent", "--ledger", t.ledger)
    if status == NOT_APPLIED:
        t.true(b"under way" in err, f"why: {err!r}")
    t.wait(
        lambda: status == DONE
        or t.ops("resolve", ident, "absent", "--ledger", t.ledger)[0] == DONE,
        "the waiting time to be over",
    )
    t.equal(o.show(ident)["execution"], "failed", "state")


@ops("absent_after_again_is_no_proof")
def absent_after_again(t, w):
    """The key stands for the unknown one and its successor: that the successor never ran must not
    become "it is proven that nothing happened".
    """
    client, _ = unknown(t, w)
    o = Operator(t)
    o.run("resolve", "order-4711", "again")
    o.run("resolve", "order-4711", "absent", status=NOT_APPLIED)
    t.equal(o.show("order-4711")["execution"], "ready", "the successor waits for its caller")
    result = client.result(client.call("charge", {"n": 1}, key="order-4711"))
    t.true("proven" not in str(result), f"what the caller is told: {result}")


@ops("do_it_again")
def again(t, w):
    client, ident = unknown(t, w)
    o = Operator(t)
    out, _ = o.run("resolve", ident, "again")
    old = o.show(ident)
    t.true(old["successor"] in out, f"names the successor: {out}")
    t.equal((old["execution"], old["is_superseded"]), ("unknown", True), "the old one")
    t.equal(len(t.effects()), 1, "nothing runs before the caller repeats")
    results = [
        client.result(ref)
        for ref in [client.call("charge", {"n": 1}, key="order-4711") for _ in range(3)]
    ]
    t.equal(len(t.effects()), 2, "effects: exactly one more")
    receipt = t.effects()[1]["receipt"]
    t.true(all(receipt in str(result) for result in results), f"all get it: {results}")
    new = o.show(old["successor"])
    t.equal((new["execution"], new["predecessor"]), ("succeeded", ident), "the successor")
    t.true(new["effect_key"] != old["effect_key"], "it has an effect key of its own")
    t.equal(o.show("order-4711")["id"], new["id"], "the key means the newest")


@ops("do_it_again_without_a_key")
def again_keyless(t, w):
    client = w.client({"tools": {"charge": {"runs": DIES_ONCE}}})
    ident = assert_unknown(t, client.result(client.call("charge", {"n": 1})), "answer")["id"]
    Operator(t).run("resolve", ident, "again")
    result = client.result(client.call("charge", {"n": 1}))
    t.equal(len(t.effects()), 2, "effects")
    t.true(t.effects()[1]["receipt"] in str(result), f"the repeat ran it: {result}")


@ops("the_second_decision_comes_too_late")
def too_late(t, w):
    _, ident = unknown(t, w)
    o = Operator(t)
    o.run("resolve", ident, "again", "--note", "no trace of it")
    for decision in ("happened", "again", "absent"):
        _, err = o.run("resolve", ident, decision, status=NOT_APPLIED)
        t.true("somebody decided first" in err, f"said to {decision}: {err}")
        t.true("no trace of it" in err, f"who and why: {err}")
    answer = o.json("resolve", ident, "happened", status=NOT_APPLIED)
    t.equal((answer["is_applied"], answer["answer"]), (False, "NOT_APPLIED"), "as JSON")
    t.equal(len(t.operations()), 2, "one successor")


@ops("many_decide_at_once")
def many_decide(t, w):
    """Twelve operators say "again" at the same moment: one is told that it was done."""
    _, ident = unknown(t, w)
    argv = [t.surroundings.hapax, "ops", "resolve", ident, "again", "--ledger", t.ledger]
    crowd = [
        subprocess.Popen(argv, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(12)
    ]
    said = [process.communicate(timeout=60) for process in crowd]
    statuses = sorted(process.returncode for process in crowd)
    t.equal(statuses, [DONE] + [NOT_APPLIED] * 11, f"exit statuses ({said})")
    t.equal(len(t.operations()), 2, "one successor")


@ops("a_ledger_that_cannot_be_written")
def locked_ledger(t, w):
    """Another program holds the ledger: looking works, a decision says that nothing was written."""
    _, ident = unknown(t, w)
    o = Operator(t)
    holder = sqlite3.connect(t.database(), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        t.equal(len(o.listed()), 1, "a list")
        _, err = o.run("resolve", ident, "again", status=NOT_APPLIED)
        t.true("nothing was written" in err and ".." not in err, f"said: {err}")
    finally:
        holder.rollback()
        holder.close()
    t.equal(len(t.operations()), 1, "no successor")
    o.run("resolve", ident, "again")


@ops("what_a_dead_gateway_left")
def dead_gateway(t, w):
    """The keeper was killed and no other runs: the operator can settle it all the same."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    client.call("charge", {"n": 1}, key="order-4711")
    t.wait_effects(1)
    o = Operator(t)
    o.run("resolve", "order-4711", "happened", status=NOT_APPLIED)
    keeper = w.keeper(client)
    processes.kill(keeper, t.surroundings.hapax)
    processes.wait_gone(keeper)
    client.wait_eof(5)
    (row,) = o.listed()
    t.equal((row["execution"], row["owner"]), ("running", "dead"), "as it was left")
    o.run("resolve", row["id"], "happened")
    t.touch("release")
    fresh = w.again(client)
    result = fresh.result(fresh.call("charge", {"n": 1}, key="order-4711"))
    t.equal(code(result), None, f"the repeat: {result}")
    t.equal(len(t.effects()), 1, "effects")


@ops("a_waiting_caller_hears_of_it")
def waiting_caller(t, w):
    """A caller whose person is being asked gets the operator's decision."""
    client = w.client({"tools": {"charge": {"runs": DIES_ONCE}}}, capabilities={"elicitation": {}})
    ref = client.call("charge", {"n": 1}, key="order-4711")
    client.wait_message(lambda one: one.get("method") == "elicitation/create", "the question")
    Operator(t).run("resolve", "order-4711", "happened")
    result = client.result(ref, 10)
    t.true("A person confirmed" in str(result), f"the caller: {result}")
    t.equal(len(t.effects()), 1, "effects")


# Cancel ---------------------------------------------------------------------------------------------


@ops("cancel_of_what_was_sent_is_in_doubt")
def cancel_sent(t, w):
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    ref = client.call("charge", {"n": 1}, key="order-4711")
    t.wait_effects(1)
    o = Operator(t)
    _, err = o.run("cancel", "order-4711", status=NOT_APPLIED)
    t.true("may have happened" in err, f"said: {err}")
    t.equal(o.show("order-4711")["is_cancel_requested"], True, "it is noted")
    t.touch("release")
    result = client.result(ref)
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    _, err = o.run("cancel", "order-4711", status=NOT_APPLIED)
    t.true("already happened" in err, f"said afterwards: {err}")


@ops("cancel_before_the_call")
def cancel_first(t, w):
    """By key, before it came: the late original is refused, whatever its arguments."""
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call("charge", {"n": 0}))
    o = Operator(t)
    words = ("cancel", "--server", "e2e", "--tool", "charge", "--key", "order-4712")
    out, err = o.run(*words)
    t.true("has not arrived yet" in out, f"said: {out}")
    t.equal(without_ledger(err), "", "a known server needs no note")
    result = client.result(client.call("charge", {"n": 1}, key="order-4712"))
    t.equal(code(result), "CANCELLED", f"the late original: {result}")
    t.equal(len(t.effects()), 1, "effects")
    out, _ = o.run(*words)
    t.true("cancelled already" in out, f"said again: {out}")
    _, err = o.run("cancel", "--server", "e2f", "--tool", "charge", "--key", "order-4713")
    t.true("no call of a server named 'e2f'" in err, f"a slip in the name: {err}")
    o.run("cancel", "--server", "e2e", "--tool", "charge", "--key", "null", status=USAGE)


# Maintaining ----------------------------------------------------------------------------------------


@ops("export_counts_what_ran")
def export_counts(t, w):
    client = w.client({"tools": {"charge": {}}})
    for n in range(40):
        client.result(client.call("charge", {"n": n, "pad": "\u00fc" * 500}))
    for _ in range(3):
        client.result(client.call("charge", {"n": 0}, key="order-4711"))
    found = t.operations()
    t.equal(len(found), len(t.effects()), "operations against effects")
    t.equal([op["arguments"]["n"] for op in found], [*range(40), 0], "oldest first")
    by_receipt = {effect["receipt"] for effect in t.effects()}
    told = {op["outcome"]["value"]["content"][0]["text"].split()[-1] for op in found}
    t.equal(told, by_receipt, "the results are those of the server")
    out, _ = Operator(t).run("export", "--state", "unknown")
    t.equal(out, "", "nothing is unknown")
    out, _ = Operator(t).run("export", "--since", "2020-01-01T00:00:00Z", "--without-payload")
    t.equal(len(out.splitlines()), 41, "lines since then")
    t.true("\u00fc" not in out and "order-4711" not in out, "without payload")


@ops("size_of_the_ledger")
def size(t, w):
    unknown(t, w)
    told = Operator(t).json("size")
    t.equal(told["operations"]["unknown"], 1, f"operations: {told}")
    t.equal(sum(told["operations"].values()), 1, f"of all states: {told}")
    t.true(told["history"] > 1 and told["database_bytes"] > 0 and told["oldest"], f"figures: {told}")
    table, _ = Operator(t).run("size")
    t.true("unknown" in table and "database" in table and "KiB" in table, f"the table: {table}")


@ops("export_of_a_large_result")
def export_large(t, w):
    """A result kept in a file is exported whole."""
    client = w.client({"tools": {"dump": {"runs": [[{"big": 600000}]]}}})
    client.result(client.call("dump"))
    (op,) = t.operations()
    t.equal(op["outcome"]["place"], "file", "where it is")
    t.equal(len(op["outcome"]["value"]["content"][0]["text"]), 600000, "its size")


@ops("output_that_cannot_be_written")
def output_lost(t, w):
    """A full disk is not a closed pipe: it must not look like success."""
    unknown(t, w)
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [t.surroundings.hapax, "ops", "export", "--ledger", t.ledger],
            env=t.env,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    t.equal(done.returncode, NOT_APPLIED, f"exit status: {done.stderr!r}")
    t.true(b"not complete" in done.stderr, f"said: {done.stderr!r}")


@ops("output_into_a_pipe_that_does_not_block")
def nonblocking_pipe(t, w):
    client = w.client({"tools": {"charge": {}}})
    for n in range(60):
        client.result(client.call("charge", {"n": n, "pad": "x" * 4000}))
    client.close_stdin()
    t.wait(lambda: not t.family().keepers, "the keeper to end")
    argv = [t.surroundings.hapax, "ops", "export", "--ledger", t.ledger]
    whole = t.whole_export()
    out, into = os.pipe()
    os.set_blocking(into, False)
    with subprocess.Popen(argv, env=t.env, stdout=into) as process:
        os.close(into)
        slowly = b""
        while chunk := os.read(out, 1009):
            slowly += chunk
    os.close(out)
    t.equal(process.returncode, DONE, "exit status")
    t.equal(len(slowly), len(whole), "bytes")


@ops("a_closed_pipe_is_a_clean_exit")
def closed_pipe(t, w):
    client = w.client({"tools": {"charge": {}}})
    for n in range(60):
        client.result(client.call("charge", {"n": n, "pad": "x" * 4000}))
    for words in (("export",), ("list",), ("list", "--json"), ("verify",)):
        argv = [t.surroundings.hapax, "ops", *words, "--ledger", t.ledger]
        with subprocess.Popen(
            argv, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        ) as process:
            process.stdout.close()
            said = without_ledger(process.stderr.read().decode())
        t.equal((process.returncode, said), (DONE, ""), f"{words} with a closed pipe")


@ops("verify_after_kills")
def verify_kills(t, w):
    script = {"tools": {"charge": {"runs": [[{"sleep": 5}, {"text": "receipt $RECEIPT"}]]}}}
    o = Operator(t)
    client = w.client(script)
    for round_ in range(3):
        for n in range(20):
            client.call("charge", {"n": n, "round": round_}, key=f"order-{round_}-{n}")
        t.wait_effects(5 + 20 * round_)
        keeper = w.keeper(client)
        processes.kill(keeper, t.surroundings.hapax)
        processes.wait_gone(keeper)
        client.wait_eof(5)
        report = o.json("verify")
        t.equal(report["problems"], 0, f"verify after a kill: {report}")
        client = w.again(client)
    t.true(report["rows"] > 0, f"it read something: {report}")


@ops("verify_finds_damage")
def verify_damage(t, w):
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call("charge", {"n": 1}, key="order-4711"))
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not t.family().keepers, "the keeper to end")
    with sqlite3.connect(t.database()) as database:
        database.execute("UPDATE op SET outcome = x'7b7d' WHERE outcome IS NOT NULL")
    database.close()
    out, _ = Operator(t).run("verify", status=NOT_APPLIED)
    t.true("WRONG" in out, f"said: {out}")
    report = Operator(t).json("verify", status=NOT_APPLIED)
    t.true(report["problems"] >= 1, f"as JSON: {report}")


@ops("a_restored_copy_is_recovered")
def restored_copy(t, w):
    """A copy in the ledger's place: guarded calls and decisions wait for recover."""
    client, ident = unknown(t, w)
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not t.family().keepers, "the keeper to end")
    copy = t.path("copy.db")
    shutil.copy(t.database(), copy)
    taken = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    client = w.again(client)
    client.result(client.call("charge", {"n": 9}, key="order-9"))
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not t.family().keepers, "the keeper to end")
    ledger = t.database()
    for suffix in ("-wal", "-shm"):
        if os.path.exists(ledger + suffix):
            os.unlink(ledger + suffix)
    shutil.copy(copy, ledger)
    o = Operator(t)
    out, _ = o.run("list")
    t.true("restored" in out, f"the list says so: {out}")
    _, err = o.run("resolve", ident, "again", status=NOT_APPLIED)
    t.true("recover" in err, f"a decision waits: {err}")
    _, err = o.run("recover", status=NOT_APPLIED)
    t.true("--backup-taken-at" in err, f"recover needs the time: {err}")
    out, _ = o.run("recover", "--backup-taken-at", taken)
    t.true("Guarded calls run again" in out, f"said: {out}")
    t.true("in this copy 1 had not ended" in out, f"what is in doubt: {out}")
    out, _ = o.run("show", ident)
    t.true("restored_copy" in out or "restored" in out, f"why it is unknown: {out}")
    o.run("resolve", ident, "happened")
    t.equal(o.json("verify")["problems"], 0, "verify")


@ops("beside_a_busy_gateway")
def beside_busy(t, w):
    """Looking and checking all the time does not disturb the calls."""
    client = w.client({"tools": {"charge": {}}})
    o = Operator(t)
    for n in range(30):
        refs = [client.call("charge", {"n": n, "part": part}) for part in range(5)]
        o.run(("list", "verify", "export", "list")[n % 4])
        for ref in refs:
            t.equal(client.result(ref).get("isError"), None, "a call beside ops")
    t.equal(len(t.effects()), 150, "effects")
    t.equal(len(t.operations()), 150, "operations")


def exported(o):
    return len(o.run("export")[0].splitlines())


@ops("a_ledger_of_each_format")
def each_format(t, w):
    """What any published version wrote is listed, exported and verified, and a gateway works on it."""
    fixtures = os.path.join(os.path.dirname(__file__), "..", "..", "fixtures", "ledger")
    for number, name in enumerate(sorted(os.listdir(fixtures))):
        shutil.rmtree(t.ledger, ignore_errors=True)
        os.mkdir(t.ledger, 0o700)
        with open(os.path.join(fixtures, name), "rb") as file:
            database = file.read()
        path = os.path.join(t.ledger, "ledger.db")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "wb") as file:
            file.write(database)
        o = Operator(t)
        t.equal(len(o.json("list")["operations"]), 4, f"operations that are listed of {name}")
        # Their results are bytes of a test, no JSON, so the lines are counted and not parsed.
        t.equal(exported(o), 4, f"operations that are exported of {name}")
        t.equal(o.json("verify")["problems"], 0, f"problems of {name}")
        client = w.client({"tools": {"charge": {}}})
        client.result(client.call("charge", {"n": number}))
        client.close_stdin()
        client.process.wait(10)
        t.wait(lambda: not t.family().keepers, "the keeper to end")
        t.equal(exported(o), 5, f"operations after a call on {name}")
        t.equal(o.json("verify")["problems"], 0, f"problems of {name} after a call")
    t.equal(number, 3, "formats but one: a new one brings a fixture")
