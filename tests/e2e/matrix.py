#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The crash matrix: what must be found, answered and counted at each point, under each fault, for each
class of tool, over each transport. `cases/crash_matrix.py` makes every cell happen to the built
program and compares; `matrix.py --markdown` prints this table for docs/crash-matrix.md.

A cell is `STATE | TOLD | AGAIN | RUNS`:
  STATE  of the operation in the ledger, read from the files after the fault: none, running, …
  TOLD   to the caller whose call met the fault: `-` nothing (his connection died), `real` the tool's
         result, a code of ours, or for a paused process what its neighbour is told to the same key
         meanwhile; the paused one's own caller then gets the real result
  AGAIN  what the same key gets when the fault is over, and ever after
  RUNS   how often the tool ran, counted by the tool: N, or N-M where a race decides
A/B/… when one of them may be. One text holds for all classes; a tuple is (opaque, idempotent, keyed). A dict tells the transports
apart. `Why` is the reason why a cell cannot exist.
"""

import sys
from dataclasses import dataclass

FAULTS = {
    "K": "SIGKILL of the process",
    "Pl": "the host stops: what was not synced is lost, and the boot is another",
    "Pt": "the same, and what was not synced is torn by sectors",
    "Z": "the process is paused, and a neighbour on the same ledger gets the same key",
    "E": "the disk fails from that point on until the caller was told",
}
CLASSES = ("opaque", "idempotent", "keyed")
TRANSPORTS = ("stdio", "http")


@dataclass
class Why:
    reason: str


@dataclass
class Row:
    """`at`: a way through the named points of the sources. `history`: how it is played, a name in
    cases/crash_matrix.py. `disk`: how the disk fails, in words of tests/kit/host_disk.c.
    """

    name: str
    title: str
    cells: dict
    history: str = "point"
    at: str = ""
    at_e: str = ""  # where it is another one for E
    disk: str = "eio"


TAKEN_OVER = "running | - | real | 1"
# A host crash may have taken the mark with it. Only `idempotent` may then be sent again: a keyed
# tool's horizon counts as over when the boot is another.
MAYBE_SENT_P = (
    "running | - | OUTCOME_UNKNOWN | 0",
    "running | - | real | 1",
    "running | - | OUTCOME_UNKNOWN | 0",
)
SENT_K = (
    "running | - | OUTCOME_UNKNOWN | 1",
    "running | - | real | 2",
    "running | - | real | 2",
)
SENT_P = (
    "running | - | OUTCOME_UNKNOWN | 1",
    "running | - | real | 2",
    "running | - | OUTCOME_UNKNOWN | 1",
)
PAUSED = "running | BUSY | real | 1"
KEPT_IN_MEMORY = "running | OUTCOME_UNKNOWN | real | 1"

ROWS = [
    Row(
        "before-claim",
        "before the claim's commit",
        at="insert-half",
        cells={
            "K": "none | - | real | 1",
            "Pl": "none | - | real | 1",
            "Pt": "none | - | real | 1",
            "Z": "none | LEDGER_UNAVAILABLE | real | 1",
            "E": "none | LEDGER_UNAVAILABLE | real | 1",
        },
    ),
    Row(
        "claim-in-doubt",
        "the claim's commit in doubt: done, and its writer not told",
        at="insert-half>commit-after",
        at_e="insert-half",
        disk="sync",
        cells={
            "K": TAKEN_OVER,
            "Pl": MAYBE_SENT_P,
            "Pt": MAYBE_SENT_P,
            "Z": PAUSED,
            "E": "none/running | real | real | 1",
        },
    ),
    Row(
        "unmarked",
        "claim and intent committed, no sent mark",
        at="claim-unmarked",
        cells={
            "K": TAKEN_OVER,
            "Pl": MAYBE_SENT_P,
            "Pt": MAYBE_SENT_P,
            "Z": PAUSED,
            "E": "running | LEDGER_UNAVAILABLE | real | 1",
        },
    ),
    Row(
        "marked",
        "sent mark written, before the first byte",
        at="marked-not-sent",
        cells={
            "K": (
                "running | - | OUTCOME_UNKNOWN | 0",
                TAKEN_OVER,
                TAKEN_OVER,
            ),
            "Pl": MAYBE_SENT_P,
            "Pt": MAYBE_SENT_P,
            "Z": PAUSED,
            "E": KEPT_IN_MEMORY,
        },
    ),
    Row(
        "first-byte",
        "a part of the request written",
        at="first-byte-left",
        cells={
            "K": (
                "running | - | OUTCOME_UNKNOWN | 0-1",
                "running | - | real | 1-2",
                "running | - | real | 1-2",
            ),
            "Pl": (
                "running | - | OUTCOME_UNKNOWN | 0-1",
                "running | - | real | 1-2",
                "running | - | OUTCOME_UNKNOWN | 0-1",
            ),
            "Pt": (
                "running | - | OUTCOME_UNKNOWN | 0-1",
                "running | - | real | 1-2",
                "running | - | OUTCOME_UNKNOWN | 0-1",
            ),
            "Z": PAUSED,
            "E": KEPT_IN_MEMORY,
        },
    ),
    Row(
        "sent",
        "sent, no reply; the keeper is killed",
        history="held",
        cells={
            "K": SENT_K,
            "Pl": SENT_P,
            "Pt": SENT_P,
            "Z": PAUSED,
            "E": KEPT_IN_MEMORY,
        },
    ),
    Row(
        "reply",
        "reply received, before the outcome's commit",
        at="reply-not-stored",
        cells={
            "K": SENT_K,
            "Pl": SENT_P,
            "Pt": SENT_P,
            "Z": PAUSED,
            "E": KEPT_IN_MEMORY,
        },
    ),
    Row(
        "spooled",
        "reply received, the ledger fails, the outcome stands in the spool",
        history="spooled",
        at="spool-synced",
        disk="eio ledger.db-wal",
        cells={
            "K": "running | - | real | 1",
            "Pl": "running | - | real | 1",
            "Pt": "running | - | real | 1",
            "Z": "running | real | real | 1",
            "E": "running | real | real | 1",
        },
    ),
    Row(
        "outcome",
        "outcome committed, reply not sent",
        at="outcome-unanswered",
        cells={
            "K": "succeeded | - | real | 1",
            "Pl": "succeeded | - | real | 1",
            "Pt": "succeeded | - | real | 1",
            "Z": "succeeded | real | real | 1",
            "E": "succeeded | real | real | 1",
        },
    ),
    Row(
        "gives-up",
        "reply written as the client gives up; no key, and he dies with the bytes unread",
        history="gives_up",
        cells={
            "K": "succeeded | - | real | 1",
            "Pl": Why("the client dies with the host, and delivery is no promise to him"),
            "Pt": Why("the client dies with the host, and delivery is no promise to him"),
            "Z": Why("a paused process sees the death when it wakes: the same as K"),
            "E": Why("delivery is tried again until it is written; as E of the row above"),
        },
    ),
    Row(
        "event-committed",
        "outbox row committed, not published; afterwards it is published once or again, under one id",
        history="announced",
        at="outcome-unanswered",
        cells=(
            EVENT := {
                "K": "succeeded | -/real | real | 1",
                "Pl": "succeeded | -/real | real | 1",
                "Pt": "succeeded | -/real | real | 1",
                "Z": Why("one process publishes; a neighbour takes that over when it dies, as K"),
                "E": Why("what could not be marked as published is published again, as K"),
            }
        ),
    ),
    Row(
        "event-published",
        "event published, not marked; afterwards it is published again, under one id",
        history="announced",
        at="event-sent",
        cells=EVENT,
    ),
    Row(
        "decider-before",
        "two deciders, the first meets the fault before its commit; TOLD is the second, who denies",
        history="deciders",
        at="update-half",
        cells={
            "K": "awaiting_approval | applied | CANCELLED | 0",
            "Pl": "awaiting_approval | applied | CANCELLED | 0",
            "Pt": "awaiting_approval | applied | CANCELLED | 0",
            "Z": Why("a person who waits for the other one's commit waits, or is told to try again"),
            "E": "awaiting_approval | applied | CANCELLED | 0",
        },
    ),
    Row(
        "decider-after",
        "two deciders, the first meets the fault after its commit; TOLD is the second, who denies",
        history="deciders",
        at="update-half>commit-after",
        cells={
            "K": "ready | not applied | real | 1",
            "Pl": "ready | not applied | real | 1",
            "Pt": "ready | not applied | real | 1",
            "Z": Why("a person who waits for the other one's commit waits, or is told to try again"),
            "E": Why("after its commit a decision needs the disk no more"),
        },
    ),
    Row(
        "recovery",
        "crash inside recovery: sent, keeper killed, and the next one meets the fault as it writes",
        history="recovery",
        at="update-half",
        disk="eio ledger.db-wal",  # the tool server's own file beside it must be made
        cells={
            "K": SENT_K,
            "Pl": SENT_P,
            "Pt": SENT_P,
            "Z": (
                "running | OUTCOME_UNKNOWN | OUTCOME_UNKNOWN | 1",
                "running | OUTCOME_UNKNOWN | real | 2",
                "running | OUTCOME_UNKNOWN | real | 2",
            ),
            "E": (
                "running | LEDGER_UNAVAILABLE/OUTCOME_UNKNOWN | OUTCOME_UNKNOWN | 1",
                "running | LEDGER_UNAVAILABLE/OUTCOME_UNKNOWN/real | real | 2",
                "running | LEDGER_UNAVAILABLE/OUTCOME_UNKNOWN/real | real | 2",
            ),
        },
    ),
    Row(
        "low-water",
        "low-water mark raised, rows not deleted",
        history="low_water",
        at="sweep-raised",
        cells={
            "K": (OLD := {"stdio": (
                "succeeded | - | RESULT_UNAVAILABLE | 1",
                BY_AGE := Why("rows go by their age, whatever the class, and the sweep waits 30 s"),
                BY_AGE,
            ), "http": Why("no transport plays a part in the sweep")}),
            "Pl": OLD,
            "Pt": Why("as Pl: the mark's commit is synced, and nothing follows it"),
            "Z": Why("a paused sweep holds the ledger; as Z of *before the claim's commit*"),
            "E": Why("a sweep that fails is begun anew; nobody waits for it"),
        },
    ),
    Row(
        "restored",
        "ledger restored from an older copy; TOLD before a person has taken it into use",
        history="restored",
        cells={
            "K": "none | LEDGER_UNAVAILABLE | OUTCOME_UNKNOWN | 1",
            "Pl": (COUNTER := Why("the counter is not synced: a host crash may take the alarm along")),
            "Pt": COUNTER,
            "Z": Why("nobody restores a ledger beneath a process that uses it"),
            "E": Why("nobody restores a ledger beneath a process that uses it"),
        },
    ),
    Row(
        "front-killed",
        "the front killed, the process that the client started, while the tool runs",
        history="front_killed",
        cells={
            "K": {
                "stdio": "running | - | real | 1",
                "http": Why("`hapax serve` has no front: no client started it"),
            },
            **{fault: Why("as *sent, no reply*") for fault in ("Pl", "Pt", "Z", "E")},
        },
    ),
    Row(
        "client-killed",
        "the client killed while the tool runs",
        history="client_killed",
        cells={
            "K": "running | - | real | 1",
            **{fault: Why("as *sent, no reply*") for fault in ("Pl", "Pt", "Z", "E")},
        },
    ),
    Row(
        "upstream-killed",
        "the tool server killed while it runs the tool",
        history="upstream_killed",
        cells={
            "K": {
                "stdio": (
                    "unknown | OUTCOME_UNKNOWN | OUTCOME_UNKNOWN | 1",
                    "succeeded | real | real | 2",
                    "succeeded | real | real | 2",
                ),
                # Its own people start it again when our tries are over. That the lost connection is
                # gone is then not known from the row while the process that had it lives, so only a
                # key is safe against an overtaking.
                "http": (
                    "unknown | OUTCOME_UNKNOWN | OUTCOME_UNKNOWN | 1",
                    "unknown | OUTCOME_UNKNOWN | OUTCOME_UNKNOWN | 1",
                    "unknown | OUTCOME_UNKNOWN | real | 2",
                ),
            },
            **{fault: Why("another host's crash ends a connection, as K") for fault in ("Pl", "Pt")},
            "Z": Why("a tool that pauses is a tool that is slow"),
            "E": Why("the tool's own disk is the tool's own business"),
        },
    ),
    Row(
        "database-killed",
        "the database killed",
        cells={fault: Why("SQLite lives in the keeper: *sent, no reply*") for fault in FAULTS},
    ),
    Row(
        "full-claim",
        "disk full before the claim's commit",
        at="insert-half",
        disk="full",
        cells={
            **{fault: Why("as the point that was reached") for fault in ("K", "Pl", "Pt", "Z")},
            "E": "none | LEDGER_UNAVAILABLE | real | 1",
        },
    ),
    Row(
        "full-outcome",
        "disk full when the reply comes: the room in the spool was reserved before it was sent",
        at="reply-not-stored",
        disk="full",
        cells={
            **{fault: Why("as the point that was reached") for fault in ("K", "Pl", "Pt", "Z")},
            "E": "running | real | real | 1",
        },
    ),
]


def cell_of(row, fault, kind, transport):
    """The cell's words, or a `Why`."""
    cell = row.cells[fault]
    if isinstance(cell, dict):
        cell = cell[transport]
    return cell[CLASSES.index(kind)] if isinstance(cell, tuple) else cell


def words(cell):
    """As the document says it."""
    if isinstance(cell, Why):
        return f"— {cell.reason}"
    state, told, again, runs = [word.strip() for word in cell.split("|")]
    return f"{state}; {'nothing' if told == '-' else told}; {again}; {runs}"


def lines_of(row):
    """One line a fault, or one a transport where they differ; faults that fare alike together."""
    found = {}
    for fault in FAULTS:
        by_transport = {
            transport: tuple(words(cell_of(row, fault, kind, transport)) for kind in CLASSES)
            for transport in TRANSPORTS
        }
        is_one = len(set(by_transport.values())) == 1
        for transport in TRANSPORTS[:1] if is_one else TRANSPORTS:
            key = ("both" if is_one else transport, by_transport[transport])
            found.setdefault(key, []).append(fault)
    for (transport, cells), faults in found.items():
        if len(set(cells)) == 1:
            cells = (cells[0], "as opaque", "as opaque") if cells[0][0] != "—" else (cells[0], "—", "—")
        yield ", ".join(faults), transport, *cells


def markdown():
    count = 0
    for row in ROWS:
        print(f"**{row.name}**: {row.title}" + (f" (`{row.at}`)" if row.at else "") + "\n")
        print("| fault | transport | opaque | idempotent | keyed |\n|---|---|---|---|---|")
        for line in lines_of(row):
            print(f"| {' | '.join(line)} |")
        print()
        count += sum(
            not isinstance(cell_of(row, fault, kind, transport), Why)
            for fault in FAULTS
            for kind in CLASSES
            for transport in TRANSPORTS
        )
    print(f"{count} cells are played.")


if __name__ == "__main__":
    if sys.argv[1:] != ["--markdown"]:
        sys.exit(__doc__)
    markdown()
