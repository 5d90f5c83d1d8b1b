# SPDX-License-Identifier: MIT
"""The built program SIGKILLed at every point that the sources name (HX_CRASH_POINT), started
again, and checked against the effects file, which did not crash. Needs a build with the option
crash_points.

Four histories lead to the points: keyed calls of an opaque, an idempotent and a keyed tool, one with
a result that goes to a file of its own; the recovery of a call whose keeper was killed before; an
outcome that comes while the ledger is locked by another program, so that it goes to the spool; and
so many calls that the database's log is folded back.
"""

import glob
import json
import os
import re
import sqlite3

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
# What time alone brings (retention) or a person (hapax ops recover): the store's own tests go there.
NOT_FROM_HERE = ("sweep-raised", "sweep-removed", "recover-before-commit")
TOOLS = ("opaque", "idem", "keyed", "opaque_big")
VISITS = 3


def points():
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "**", "*.c"), recursive=True):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r'HX_CRASH_POINT\("([^"]+)"\)', file.read()))
    return sorted(found)


def key_of(tool, round_name):
    return f"key-of-{tool}-{round_name}"


class History:
    """Calls of one round, what their caller was told, and whether that stays true after a crash."""

    def __init__(self, t, round_name):
        self.t, self.round, self.told = t, round_name, {}
        big = [[{"text": "x" * 300000 + " receipt $RECEIPT"}]]
        # Not one tool per round: the effects are told apart by their key argument.
        self.script = {
            "tools": {tool: {"runs": big} if tool.endswith("big") else {} for tool in TOOLS}
        }
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


def register(point):
    @test("crash", "crash_" + point.replace("-", "_"), needs_hapax=True)
    def killed(t):
        with open(t.surroundings.hapax, "rb") as file:
            if b"HAPAX_CRASH_AT" not in file.read():
                raise Skip("built without crash_points")
        reached = ordinary(t, point) + recovery(t, point)
        if not reached and not spool(t, point) and not busy(t, point):
            raise Failure("no history of this test comes to that point")


for _point in points():
    if _point not in NOT_FROM_HERE:
        register(_point)
