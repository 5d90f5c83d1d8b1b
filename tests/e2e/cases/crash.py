# SPDX-License-Identifier: MIT
"""The built program SIGKILLed at every point that the sources name (HX_CRASH_POINT), started
again, and checked against the effects file, which did not crash. Needs a build with the option
crash_points.

Four histories lead to most points: keyed calls of an opaque, an idempotent and a keyed tool, one
with a result that goes to a file of its own; the recovery of a call whose keeper was killed before;
an outcome that comes while the ledger is locked by another program, so that it goes to the spool;
and so many calls that the database's log is folded back. Two more have points of their own: a
ledger so old that rows go, and a copy that a person takes into use.
"""

import glob
import json
import os
import re
import shutil
import sqlite3
import time

from kit import processes
from kit.harness import Failure, Skip, test
from rawclient import RawClient
from .way import Way, code

SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src")
RULES = (
    "--tool",
    "idem*: class=idempotent",
    "--tool",
    "keyed*: class=keyed effect_key=/effect dedupe_horizon=1h",
)
AFTER_THE_SPOOL = ("spool-applied", "spool-emptied")
DAY_MS = 24 * 60 * 60 * 1000
OLD_MS = 50 * DAY_MS
TOOLS = ("opaque", "idem", "keyed", "opaque_big")
VISITS = 3


def points():
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "**", "*.c"), recursive=True):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r'HX_CRASH_POINT\("([^"]+)"\)', file.read()))
    # Those of `hapax call`, of tasks, of the outbox, of the library and of lists are reached by their own
    # tests.
    own = ("call-", "task-", "event-", "lib-", "list-")
    return sorted(point for point in found if not point.startswith(own))


def key_of(tool, round_name):
    return f"key-of-{tool}-{round_name}"


def script_of(tools):
    big = {"runs": [[{"text": "x" * 300000 + " receipt $RECEIPT"}]]}
    return {"tools": {tool: big if tool.endswith("big") else {} for tool in tools}}


class History:
    """Calls of one round, what their caller was told, and whether that stays true after a crash."""

    def __init__(self, t, round_name):
        self.t, self.round, self.told = t, round_name, {}
        # Not one tool per round: the effects are told apart by their key argument.
        self.script = script_of(TOOLS)
        self.way = Way(t, "hapax")
        self.argv = self.way.argv(
            self.script, *RULES, ledger=t.path(f"ledger-{round_name}"), orphan="10s"
        )

    def effects(self, tool):
        return [
            effect
            for effect in self.t.effects(tool)
            if json.loads(effect["args"])["round"] == self.round
        ]

    def call(self, client, tool):
        ident = client.call(tool, {"round": self.round}, key=key_of(tool, self.round))
        return client.result(ident, 30)

    def run(self, crash_at):
        """One life with the crash point set. True if it was reached."""
        client = RawClient(self.t, self.argv, env={**self.t.env, "HAPAX_CRASH_AT": crash_at})
        try:
            client.initialize()
            for tool in TOOLS:
                result = self.call(client, tool)
                if not result.get("isError"):
                    self.told[tool] = result["content"]
        except Failure as failure:
            try:
                client.wait_eof(5)  # the write end may be seen to break first
            except Failure:
                raise failure from None
            return True
        client.close_stdin()
        client.process.wait(15)
        return False

    def check(self):
        """The next life: every key is asked again, and each answer must be the truth."""
        client = RawClient(self.t, self.argv)
        client.initialize()
        for tool in TOOLS:
            result = (
                self.way.poll(client, tool, {"round": self.round}, key_of(tool, self.round))
                if not tool.startswith("opaque")
                else self.call(client, tool)
            )
            effects = self.effects(tool)
            where = f"{tool} in round {self.round}"
            if code(result) is None:
                if tool in self.told:
                    self.t.true(
                        result["content"] == self.told[tool],
                        f"{where}: another result than was told",
                    )
                self.t.true(
                    effects[-1]["receipt"] in json.dumps(result),
                    f"{where}: not the result of what ran",
                )
            else:
                self.t.equal(code(result), "OUTCOME_UNKNOWN", f"{where}: code")
                self.t.true(tool not in self.told, f"{where}: told success before, now unknown")
            limit = 1 if tool.startswith("opaque") else 2
            self.t.true(
                1 - (code(result) is not None) <= len(effects) <= limit,
                f"{where}: {len(effects)} effects",
            )
            if tool == "keyed":
                keys = {json.loads(effect["args"])["effect"] for effect in effects}
                self.t.equal(len(keys), 1, f"{where}: effect keys {keys}")
        client.close_stdin()
        client.process.wait(15)


def ordinary(t, point):
    reached = 0
    for visit in range(1, VISITS + 1):
        history = History(t, f"r{visit}")
        if not history.run(f"{point}:{visit}"):
            break
        reached += 1
        history.check()
    return reached


def recovery(t, point):
    """A call is open because its keeper was killed; the next keeper is killed at the point."""
    reached = 0
    for visit in range(1, VISITS + 1):
        history = History(t, f"c{visit}")
        history.script["tools"]["opaque"] = {"runs": [[{"wait": "never"}]]}
        history.argv = history.way.argv(
            history.script, *RULES, ledger=t.path(f"ledger-c{visit}"), orphan="10s"
        )
        client = RawClient(t, history.argv)
        client.initialize()
        client.call("opaque", {"round": history.round}, key=key_of("opaque", history.round))
        t.wait(lambda: history.effects("opaque"), "the effect")
        keepers = processes.Family(
            t.mark, t.surroundings.hapax, t.path(f"ledger-c{visit}"), client.pid
        ).keepers
        processes.kill(keepers[0], t.surroundings.hapax)
        client.wait_eof(5)
        if not history.run(f"{point}:{visit}"):
            break
        reached += 1
        history.check()
    return reached


def spool(t, point):
    """The outcome comes while another program holds the ledger."""
    ledger = t.path("ledger-s")
    t.ledger = ledger
    w = Way(t, "hapax")
    argv = w.argv(
        {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}},
        ledger=ledger,
        orphan="10s",
    )
    client = RawClient(t, argv, env={**t.env, "HAPAX_CRASH_AT": point})
    client.initialize()
    client.call(key="key-of-the-spool", args={"round": "s"})
    t.wait(lambda: t.effects("charge"), "the effect")
    holder = sqlite3.connect(t.database(), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        t.touch("release")
        t.wait(lambda: client.ended or client.answers(2), "a crash or an answer", 60)
    finally:
        holder.rollback()
        holder.close()
    if point in AFTER_THE_SPOOL:
        client.wait_eof(10)
    if not client.ended:
        client.close_stdin()
        client.process.wait(15)
        return 0
    fresh = RawClient(t, argv)
    fresh.initialize()
    result = fresh.result(fresh.call(key="key-of-the-spool", args={"round": "s"}))
    (effect,) = t.effects("charge")
    if code(result) is None:
        t.true(effect["receipt"] in json.dumps(result), f"the real result: {result}")
    else:
        t.equal(code(result), "OUTCOME_UNKNOWN", "code")
    return 1


def busy(t, point):
    """So much is written that the log of the database is folded back into it."""
    t.ledger = t.path("ledger-b")
    w = Way(t, "hapax")
    argv = w.argv({"tools": {"charge": {}}}, ledger=t.ledger)
    client = RawClient(t, argv, env={**t.env, "HAPAX_CRASH_AT": point})
    client.initialize()
    told = []
    for n in range(2000):
        try:
            ident = client.call(args={"round": "b", "n": n}, key=f"key-of-busy-{n}")
            told.append(client.result(ident)["content"])
        except Failure:
            break
    try:
        client.wait_eof(5)
    except Failure:
        return 0
    fresh = RawClient(t, argv)
    fresh.initialize()
    for n in range(max(0, len(told) - 20), len(told)):
        result = fresh.result(fresh.call(args={"round": "b", "n": n}, key=f"key-of-busy-{n}"))
        t.equal(result["content"], told[n], f"result {n} after the crash")
    acted = sum(json.loads(effect["args"])["round"] == "b" for effect in t.effects("charge"))
    t.true(acted - len(told) in (0, 1), f"effects {acted}, answers {len(told)}")
    return 1


def stop(t, client):
    client.close_stdin()
    client.process.wait(15)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")


def verify(t, where, finds=b""):
    status, out, err = t.ops("verify", "--ledger", t.ledger)
    t.equal(status, 0, f"{where}: exit status of ops verify: {out[-300:]!r} {err[-300:]!r}")
    t.true(finds in out, f"{where}: ops verify says {out[-300:]!r}")


def timed_key(age_ms, number):
    """A UUIDv7 of then."""
    text = f"{int(time.time() * 1000) - age_ms:012x}7000{0x8000000000000000 + number:016x}"
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def make_older(t):
    """As if all that is in the ledger had been done OLD_MS ago, and the ledger used since."""
    writer = sqlite3.connect(t.database(), isolation_level=None)
    try:
        writer.execute("BEGIN IMMEDIATE")
        writer.execute(
            "UPDATE op SET created = created - ?1, updated = updated - ?1,"
            " claimed = claimed - ?1, marked = marked - ?1, first_mark = first_mark - ?1,"
            " settled = settled - ?1, first_sent = iif(key_source = 0, first_sent, created - ?1)",
            (OLD_MS,),
        )
        writer.execute("UPDATE ledger SET created = created - ?1, age_ms = age_ms + ?1", (OLD_MS,))
        writer.execute("COMMIT")
    finally:
        writer.close()


def read(t, query):
    reader = sqlite3.connect(t.database())
    try:
        return reader.execute(query).fetchall()
    finally:
        reader.close()


def rows(t):
    return dict(read(t, "SELECT CAST(key AS TEXT), state FROM op"))


def old_rows(t, point):
    """Rows go: two whose keys tell their time without a trace, one of them with its result in a
    file of its own; one with another key leaves a tombstone. None of their calls runs again.
    """
    w = Way(t, "hapax")
    client = w.client(script_of(("charge", "charge_big")))
    small, big, timeless = timed_key(OLD_MS, 1), timed_key(OLD_MS, 2), "key-without-a-time"
    asked = {small: "charge", big: "charge_big", timeless: "charge"}

    def ask(asker, key):
        return asker.result(asker.call(asked[key], {"n": key}, key=key))

    for key in asked:
        t.true(ask(client, key).get("content"), f"{key}: a result")
    stop(t, client)
    make_older(t)
    verify(t, "before")
    before = rows(t)
    ((newest,),) = read(t, "SELECT max(updated, first_sent) FROM op ORDER BY 1 DESC LIMIT 1")
    killed = RawClient(t, client.argv, env={**t.env, "HAPAX_CRASH_AT": point})
    killed.initialize()
    killed.wait_eof(60)  # the sweep waits for half a minute
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    t.true(read(t, "SELECT low_water FROM ledger")[0][0] > newest, "the mark is raised first")
    kept = set()
    if point == "sweep-raised":
        t.equal(rows(t), before, f"rows after {point}")
        verify(t, point)
        # What is asked for again stays, but for its result, whose time is over; the next sweep
        # takes the others.
        fresh = w.again(client)
        t.equal(code(ask(fresh, big)), "RESULT_UNAVAILABLE", "asked again before the sweep")
        kept.add(big)
        t.wait(lambda: small not in rows(t), "the sweep", 60)
        stop(t, fresh)
        verify(t, "swept")
    else:
        verify(t, point, b"recover removes them")
    t.equal(set(rows(t)), {timeless} | kept, f"rows after {point}")
    for life in range(2):
        fresh = w.again(client)
        for key in asked:
            result = ask(fresh, key)
            if key in kept:
                t.equal(code(result), "RESULT_UNAVAILABLE", f"{key} in life {life}: {result}")
            else:
                t.equal(code(result), "KEY_EXPIRED", f"{key} in life {life}: {result}")
        new = fresh.result(fresh.call("charge", {"n": life}, key=f"new-key-{life}"))
        t.true(not new.get("isError"), f"a new call in life {life}: {new}")
        stop(t, fresh)
        verify(t, f"{point}, life {life}")
    t.equal(len(t.effects()), len(asked) + 2, "effects")
    for path in t.ledger_files():
        os.utime(path, (0, 0))  # a young file may belong to a commit that is under way
    status, out, err = t.ops("recover", "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops recover: {out[-300:]!r} {err[-300:]!r}")
    _, out, _ = t.ops("verify", "--ledger", t.ledger)
    t.true(b"recover removes them" not in out, f"ops recover tidied up: {out[-300:]!r}")


def copy_in_use(t, point):
    """`hapax ops recover` on an older copy that was put back."""
    w = Way(t, "hapax")
    client = w.client({"tools": {"charge": {}}})
    known = client.result(client.call(args={"n": 1}, key="key-the-copy-knows"))["content"]
    stop(t, client)
    os.makedirs(t.path("backup"))
    saved = {
        path: shutil.copy2(path, t.path("backup"))
        for path in t.ledger_files()
        if "count" not in path
    }
    client = w.again(client)
    lost = timed_key(0, 1)
    client.result(client.call(args={"n": 2}, key=lost))
    stop(t, client)
    for path in t.ledger_files():
        if path in saved:
            shutil.copy2(saved[path], path)
        elif path.endswith(("-wal", "-shm")):
            os.unlink(path)

    def recover():
        return t.ops("recover", "--backup-taken-at", "2020-01-01T00:00:00Z", "--ledger", t.ledger)

    def is_refused():
        fresh = w.again(client)
        error = fresh.error(fresh.call(args={"n": 2}, key=lost))
        t.equal(error["code"], 1503, f"nobody took the copy into use: {error}")
        stop(t, fresh)

    is_refused()
    said = t.ops("verify", "--ledger", t.ledger)
    environment, t.env = t.env, {**t.env, "HAPAX_CRASH_AT": point}
    status, out, err = recover()
    t.env = environment
    t.equal(status, -9, f"exit status of ops recover at the point: {out!r} {err[-300:]!r}")
    t.equal(t.ops("verify", "--ledger", t.ledger), said, "what ops verify says")
    is_refused()
    status, out, err = recover()
    t.equal(status, 0, f"exit status of ops recover: {out[-300:]!r} {err[-300:]!r}")
    verify(t, "taken into use")
    fresh = w.again(client)
    result = fresh.result(fresh.call(args={"n": 1}, key="key-the-copy-knows"))
    t.equal(result["content"], known, "a key that the copy knows")
    result = fresh.result(fresh.call(args={"n": 2}, key=lost))
    t.equal(code(result), "OUTCOME_UNKNOWN", f"a key from the gap: {result}")
    t.equal(len(t.effects()), 2, "effects")


OF_THEIR_OWN = {
    "sweep-raised": old_rows,
    "sweep-removed": old_rows,
    "recover-before-commit": copy_in_use,
}


def register(point):
    @test("crash", "crash_" + point.replace("-", "_"), needs_hapax=True)
    def killed(t):
        with open(t.surroundings.hapax, "rb") as file:
            if b"HAPAX_CRASH_AT" not in file.read():
                raise Skip("built without crash_points")
        if point in OF_THEIR_OWN:
            OF_THEIR_OWN[point](t, point)
            return
        reached = ordinary(t, point) + recovery(t, point)
        if not reached and not spool(t, point) and not busy(t, point):
            raise Failure("no history of this test comes to that point")


for _point in points():
    register(_point)
