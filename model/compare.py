# SPDX-License-Identifier: MIT
"""Compares the decisions of the model with the table that the core prints of itself.

tests/unit/op_matrix.snapshot has a row for every state, phase and event, with the guards that matter
and what comes of it. A decision of the model, with the values of all those guards, matches exactly
one row; it must have the same result: phase, write and its conditions, answers. And every kind of
result of a state, phase and event that is modelled must have occurred, but for those in untaken.txt.

What the table has and the model has not is named here: an effect of NOT_COMPARED stands for
bookkeeping or for something that another process of the model does by itself.
"""
import os
import re

import common

SNAPSHOT = os.path.join(common.ROOT, "tests/unit/op_matrix.snapshot")
ROW = re.compile(r"^(\w+)/(\w+) \+ (\w+):(.*?) -> (.*)$")
GUARD = re.compile(r"(\w+)=(.*?)(?= \w+=|$)")
NOT_COMPARED = ("count", "persist", "ladder", "ask_person", "look_later", "watch", "alarm", "spool",
                "send", "mark", "cancel_upstream", "defer")


def rows_of(kind):
    text = common.read(os.path.join(common.ROOT, "src/core/op.def"))
    return re.findall(rf'^HX_OP_{kind}\(\w+, "([^"]+)"', text, re.M)


STATES, PHASES, ANSWERS = rows_of("STATE"), rows_of("PHASE"), rows_of("ANSWER")
EVENTS = ["none", *rows_of("EVENT")]
NATURAL = {"running": 1, "unknown": 1, "input_required": 2, "succeeded": 3, "failed": 4, "ready": 5}
ATTEMPTS = ["none", "open", "asked", "confirmed", "refused", "dead"]
WRITES = re.findall(r"^#define (W_\w+) (\d+)", common.read(os.path.join(common.HERE, "state.pml")),
                    re.M)
WRITE_NAMES = {int(number): name for name, number in WRITES}
TARGETS = {
    "W_CLAIM": "running", "W_TAKE_OVER": "running", "W_REFUSED_AGAIN": "running",
    "W_UNKNOWN": "unknown", "W_REFUSED_UNKNOWN": "unknown", "W_GAP": "unknown",
    "W_SETTLE": "succeeded", "W_EVIDENCE": "succeeded", "W_HAPPENED": "succeeded",
    "W_ASKED": "input_required", "W_REFUSED": "failed", "W_ABSENT": "failed",
    "W_REFUSED_LATER": "ready", "W_ABSENT_AGAIN": "ready", "W_APPROVE": "ready",
    "W_CANCEL": "cancelled", "W_TOMBSTONE": "cancelled", "W_DENY": "cancelled",
    "W_WAIT_APPROVAL": "awaiting_approval", "W_RETIRE": "expired", "W_ROUND_EXPIRED": "expired",
}
# The write that a cell of the snapshot takes when it names none: the first one possible.
USUAL_WITH_OPEN_WORK = {("running", "writing"): "running", ("unknown", "writing"): "running",
                        ("input_required", "writing"): "running"}
USUAL = {("absent", "writing"): "awaiting_approval", ("awaiting_approval", "writing"): "awaiting_approval",
         ("ready", "writing"): "ready", ("running", "writing"): "ready",
         ("input_required", "writing"): "running", ("succeeded", "writing"): "succeeded",
         ("failed", "writing"): "failed", ("unknown", "writing"): "ready",
         ("cancelled", "writing"): "cancelled", ("running", "settling"): "succeeded"}


class Row:
    def __init__(self, line):
        found = ROW.match(line)
        self.line = line
        self.place = (found[1], found[2], found[3])
        self.guards = {name: value.split("|") for name, value in GUARD.findall(found[4].strip())}
        self.result = result_of(found[1], found[2], found[5])


def result_of(state, phase, text):
    """(phase after, write, condition, effects) of a row's text."""
    head, *rest = text.split("; ")
    after = phase if head in ("same", "-") else head.split("/")[1]
    write, condition = "", ""
    for part in rest:
        move = re.match(r"(insert|update|update\+insert|mark) ", part)
        if move and move[1] != "mark":
            found = re.search(r"(\w+)->(\w+)", part)
            write = found[2]
            condition = "if unmarked" if "if unmarked" in part else ""
    effects = []
    if rest:
        for effect in rest[-1].split(", "):
            name = effect.split("(")[0]
            if name in ("join", "follow", "answer_caller", "answer_all"):
                effects.append(effect)
            elif name not in NOT_COMPARED:
                raise common.Broken(f"what is the effect {effect} of: {text}")
    return after, write, condition, tuple(effects)


def rows():
    lines = common.read(SNAPSHOT).splitlines()
    return [Row(line) for line in lines if line and not line.startswith("#")]


def target(write, decision, prefix=""):
    name = WRITE_NAMES[write]
    if name == "W_GIVE_BACK":
        return ("unknown" if decision[prefix + "open"] else
                "input_required" if decision[prefix + "asked"] else "ready")
    return TARGETS.get(name, STATES[decision[prefix + "state"]])


def parse(line):
    decision, effects = {}, []
    for name, value in (pair.split("=") for pair in line.split()):
        if name in ("join", "follow"):
            effects.append(name)
        elif name in ("caller", "all"):
            effects.append(f"answer_{name}({ANSWERS[int(value)]})")
        else:
            decision[name] = int(value)
    return decision, tuple(effects)


def hands(decision):
    g, owner = decision["g"], decision["owner"]
    if owner == 0:
        return "nobody"
    if owner == 1 + g:
        return "mine"
    if owner == 2 - g:
        if decision["hosts"]:
            return "elsewhere" if decision["lease"] else "lapsed"
        return "alive"
    return "lapsed" if owner == 4 - g and decision["hosts"] else "dead"


def guards_of(decision):
    """The value of every dimension of the snapshot."""
    state, phase = STATES[decision["state"]], PHASES[decision["phase"]]
    event = EVENTS[decision["event"]]
    yes = {0: "no", 1: "yes"}
    write = target(decision["write"], decision) if decision["write"] else ""
    is_late = decision["flag"] == 1
    failed_start = decision["failed_start"]
    not_before = decision["not_before"]
    sends, marked = decision["sends"], decision["marked"]
    if event == "stored":
        not_before = decision["after_not_before"]
        sends = decision["after_sends"]
    if event == "store_failed":
        marked = decision["was_marked"]
    name = WRITE_NAMES.get(decision["write"])
    usual = USUAL.get((state, phase))
    if decision["open"] or decision["asked"]:
        usual = USUAL_WITH_OPEN_WORK.get((state, phase), usual)
    held = hands(decision)
    is_gone = decision["gone"] or (decision["transport_gone"] and held in ("mine", "dead"))
    attempt = decision["attempt"]
    guards = {
        "write": "usual" if usual == write or not write else write,
        "verb": yes[decision["verb"]], "superseded": yes[decision["superseded"] or name == "W_AGAIN" and event == "stored"],
        "successor_written": yes[name in ("W_AGAIN", "W_SUCCESSOR")],
        "successor": yes[decision["successor"]], "tombstone": yes[decision["tombstone"]],
        "disputed": yes[decision["disputed"]], "needs_human": yes[decision["needs_human"]],
        "hands": held, "marked": yes[marked], "epoch": "current" if decision["epoch"] else "old",
        "marks_durable": yes[decision["hosts"]],
        "attempt": "usual" if NATURAL.get(state, 0) == attempt else ATTEMPTS[attempt],
        "earlier": "open" if decision["open"] else "asked" if decision["asked"] else
                   "refused" if decision["refused"] else "none",
        "waiters": str(decision["waiting"]), "approved": yes[decision["approved"] or name == "W_APPROVE" and event == "stored"],
        "asked_for": ">=24h" if is_late and event == "look" else "<24h",
        "caller_must_mend": "no", "needs_approval": yes[decision["approval"]], "from_gap": yes[decision["gap"]],
        "restored_copy": yes[bool(state == "unknown" and decision["restored"] and attempt)],
        "not_before": ("late" if is_late else "soon") if not_before else "passed",
        "failed_starts": str(failed_start), "starting_for": ">=2s" if is_late else "<2s",
        "attempts_left": yes[sends < 2], "target": "same",
        "tool": ["opaque", "reorder_safe" if decision["reorder_safe"] else "idempotent",
                 "keyed,horizon_over" if decision["horizon_over"] else "keyed"][decision["class"]],
        "sender_gone": yes[bool(is_gone)], "in_flight": "over" if decision["bound_over"] else "waiting",
        "decided_on": "older attempt" if decision["past"] else "present attempt",
        "forced": yes[is_late and event == "resolve_absent"], "receivers_word": "no", "retries_after_proof": yes[decision["retries"]],
        "by": "caller", "round": "continues" if is_late else "none", "is_error": "no",
        "payload": "kept", "reconstructed": "no", "outcome": "same",
        "spooled": yes[decision["spooled"]], "commit": "failed" if decision["retry_due"] else "in_flight",
    }
    return (state, phase, event), guards


def is_compared(decision, place):
    """Cells that the snapshot has no like of; each for a reason."""
    state, phase, event = place
    name = WRITE_NAMES.get(decision["write"])
    if event == "stale" or not decision["valid"]:
        return False  # the copy in memory is older than the row, and is not kept in the model
    if event == "stored" and name in ("W_TAKE_OVER", "W_REFUSED_AGAIN", "W_APPROVE"):
        return False  # the snapshot's claims archive an open attempt; its `ready` carries no approval
    if event == "store_failed" and state == "running" and phase == "writing" and decision["open"]:
        return False  # the snapshot has no claim with an earlier open attempt that fails
    if state == "absent" and decision["low_water"] and event in ("call", "retry", "cancel"):
        return False  # the engine asks for the key's age before the core is asked
    return True


def result_of_decision(decision, effects, place):
    after = PHASES[decision["after_phase"]]
    write, condition = "", ""
    began = decision["after_write"] and (decision["event"] == EVENTS.index("stored") or
                                         not decision["write"] or
                                         (decision["retry_due"] and place[2] == "look"))
    if began and after in ("writing", "settling"):
        write = target(decision["after_write"], decision, "after_")
        condition = "if unmarked" if decision["after_if_unmarked"] else ""
    return after, write, condition, effects


def sentence(place, guards, row, result):
    told = " ".join(f"{name}={guards[name]}" for name in row.guards) if row else ""
    expected = f"the core: {row.result}" if row else "the core has no such row"
    return f"{place[0]}/{place[1]} + {place[2]}: {told} -> the model: {result}, {expected}"


def judge(lines, table=None):
    """(sentences about decisions that are not the core's, about results that did not occur)"""
    table = table or rows()
    by_place = {}
    for row in table:
        by_place.setdefault(row.place, []).append(row)
    wrong, taken = set(), set()
    for line in sorted(lines):
        decision, effects = parse(line)
        place, guards = guards_of(decision)
        if not is_compared(decision, place):
            continue
        result = result_of_decision(decision, effects, place)
        matching = [row for row in by_place.get(place, []) if all(
            guards[name] in values for name, values in row.guards.items())]
        if len(matching) != 1 or matching[0].result != result:
            wrong.add(sentence(place, guards, matching[0] if matching else None, result))
        else:
            taken.add((place, result))
    excuses = untaken()
    missing, used = [], set()
    for place, result in sorted({(row.place, row.result) for row in table} - taken):
        if place[1] == "writing" or (result[0] == place[1] and not result[1] and not result[3]):
            continue  # the cells of a write in flight combine what never meets; or nothing comes of it
        told = f"{'/'.join(place[:2])} + {place[2]} -> {result[0]} {result[1]} {result[2]} " \
               f"{', '.join(result[3])}"
        told = " ".join(told.split())
        excuse = next((e for e in excuses if re.search(e[0], told)), None)
        if excuse:
            used.add(excuse)
        else:
            missing.append(told)
    missing += [f"untaken.txt excuses nothing: {e[0]}" for e in excuses if e not in used]
    return sorted(wrong), missing


def untaken():
    """[(pattern, reason)]"""
    found = []
    for line in common.read(os.path.join(common.HERE, "untaken.txt")).splitlines():
        if line.strip() and not line.startswith("#"):
            pattern, reason = line.split("    ", 1)
            found.append((pattern.strip(), reason.strip()))
    return found
