# SPDX-License-Identifier: MIT
"""Wall clocks that jump by hours, in both directions, and processes that are stopped: nothing runs
twice. By libfaketime, which leaves the monotonic clock alone. Names: clocks_...
"""

import concurrent.futures
import os
import signal

from kit import processes
from kit.harness import Skip
from rawclient import RawClient, stub
from .serve import QUICK, RELEASED
from .way import assert_unknown, case, code, operation, without_ours

FAKE = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1"
DIES = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
JUMPS = ("+6h", "-9h", "+30h", "-40h", "+0")


def clocks(title):
    return case(title, None, suite="clocks", prefix="clocks_")


class Clock:
    """The wall clock of the processes that are started with `env`."""

    def __init__(self, t, name="clock"):
        if not os.path.exists(FAKE):
            raise Skip("libfaketime is not installed")
        self.path = t.path(name)
        self.env = dict(
            t.env,
            LD_PRELOAD=FAKE,
            FAKETIME_TIMESTAMP_FILE=self.path,
            FAKETIME_NO_CACHE="1",
            DONT_FAKE_MONOTONIC="1",
        )
        self.set("+0")

    def set(self, offset):
        with open(self.path + ".new", "w", encoding="utf-8") as file:
            file.write(offset + "\n")
        os.rename(self.path + ".new", self.path)


def start(t, clock, script, *options, name=None):
    """Hapax under this clock, the stub under the real one: it sleeps, and libfaketime takes sleeps
    for what they are not.
    """
    server = ["env", "-u", "LD_PRELOAD", *stub(t, script)]
    client = RawClient(t, t.hapax_argv(server, *options), name=name, env=clock.env)
    client.initialize()
    return client


def created(t):
    """As the ledger has it, so that a test knows that the clock was another one."""
    return sorted(operation["created"] for operation in t.operations())


@clocks("jump_around_a_lost_answer")
def around_a_lost_answer(t, w):
    """The client times out, cancels, comes again; the clock jumps in each pause."""
    for n, jump in enumerate(JUMPS):
        clock = Clock(t)
        client = start(t, clock, RELEASED)
        first = client.call(args={"n": n})
        t.wait_effects(n + 1)
        clock.set(jump)
        client.notify("notifications/cancelled", {"requestId": first, "reason": "timeout"})
        clock.set("-3h" if n % 2 else "+3h")
        second = client.call(args={"n": n})
        t.wait_repeats(n + 1)
        clock.set("+0")
        t.touch("release")
        t.true("receipt" in str(client.result(second)), f"the real result after {jump}")
        client.close_stdin()
        client.wait_eof()
        t.remove("release")
    t.equal(len(t.effects()), len(JUMPS), "effects")


@clocks("jump_between_processes")
def between_processes(t, w):
    """An unknown outcome is unknown to every later process, whatever its clock says."""
    clock = Clock(t)
    client = start(t, clock, DIES)
    argv = client.argv
    assert_unknown(t, client.result(client.call(args={"n": 1}, key="order-1")), "the first")
    for jump in JUMPS:
        client.close_stdin()
        client.wait_eof()
        clock.set(jump)
        client = RawClient(t, argv, env=clock.env)
        client.initialize()
        again = client.result(client.call(args={"n": 1}, key="order-1"))
        t.equal(code(again), "OUTCOME_UNKNOWN", f"after {jump}: {again}")
    t.equal(len(t.effects()), 1, "effects")


@clocks("that_differ_race_for_the_same_keys")
def race(t, w):
    """Two gateways on one ledger, eleven hours apart, and a stranger between them."""
    sides = []
    for name, offset in (("early", "-5h"), ("late", "+6h"), ("right", "+0")):
        clock = Clock(t, name)
        clock.set(offset)
        sides.append(start(t, clock, QUICK, "--join-wait", "20s", name=name))

    def ask(work):
        client, n = work
        ident = client.call(args={"n": n}, key=f"order-{n}")
        return n, client.result(ident, 30)

    with concurrent.futures.ThreadPoolExecutor(len(sides)) as pool:
        told = list(pool.map(lambda client: [ask((client, n)) for n in range(8)], sides))
    for n in range(8):
        answers = [str(without_ours(side[n][1])) for side in told]
        t.equal(len(set(answers)), 1, f"answers of order-{n}: {answers}")
        t.true("receipt" in answers[0], f"the result of order-{n}")
    t.equal(len(t.effects()), 8, "effects")
    hours = {at[:13] for at in created(t)}
    t.note = f"created in the hours {sorted(hours)}"


@clocks("that_differ_and_an_owner_that_is_stopped")
def stopped(t, w):
    """A gateway stands still in the middle of a call. One whose clock is hours ahead takes nothing
    over from it, and when it goes on its answer is everybody's.
    """
    behind, ahead = Clock(t, "behind"), Clock(t, "ahead")
    behind.set("-8h")
    ahead.set("+8h")
    first = start(t, behind, RELEASED, "--join-wait", "1s", name="behind")
    keeper = w.keeper(first)
    pending = first.call(args={"n": 1}, key="order-1")
    t.wait_effects(1)
    os.kill(keeper, signal.SIGSTOP)
    t.at_end(lambda: processes.resume(keeper))
    second = start(t, ahead, RELEASED, "--join-wait", "1s", name="ahead")
    told = second.result(second.call(args={"n": 1}, key="order-1"), 30)
    t.true(code(told) in ("BUSY", "OUTCOME_UNKNOWN"), f"while its owner stands still: {told}")
    ahead.set("+80h")
    told = second.result(second.call(args={"n": 1}, key="order-1"), 30)
    t.true(code(told) in ("BUSY", "OUTCOME_UNKNOWN"), f"and days later: {told}")
    processes.resume(keeper)
    behind.set("+100h")
    t.touch("release")
    t.true("receipt" in str(first.result(pending, 30)), "its own caller")
    told = w.poll(second, args={"n": 1}, key="order-1")
    t.equal(operation(told)["replayed"], True, f"the other: {told}")
    t.equal(len(t.effects()), 1, "effects")
