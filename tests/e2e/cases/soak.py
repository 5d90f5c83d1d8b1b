# SPDX-License-Identifier: MIT
"""A soak: clients over stdio and HTTP call without a pause, and every second or so one process of
any kind is SIGKILLed: fronts, keepers, reapers, tool servers, `hapax serve`. Each intent is asked
again under its key until it is answered; then effects, answers and the ledger are compared.

HAPAX_SOAK_SECONDS (10) says how long, HAPAX_SOAK_SEED which; E2E_NOTES=1 prints what was counted.
`./dev soak MINUTES` is this test.
"""

import collections
import json
import os
import random
import signal
import threading
import time

from kit import processes
from kit.harness import Failure, test
from rawclient import RawClient, code, stub
from webclient import Serve

SCRIPT = {"tools": {"opaque": {"runs": [[{"sleep": 20}, {"text": "receipt $RECEIPT"}]]}, "keyed": {}}}
RULES = ("--tool", "keyed: class=keyed effect_key=/effect dedupe_horizon=1h", "--join-wait", "2s")
LIMIT_S = 90


class Soak:
    def __init__(self, t, seconds, seed):
        self.t, self.end_at, self.random = t, time.monotonic() + seconds, random.Random(seed)
        self.told, self.tries, self.killed = {}, 0, collections.Counter()
        self.lock, self.numbers, self.failure = threading.Lock(), 0, None
        self.serve = None

    def is_over(self):
        return self.failure is not None or time.monotonic() > self.end_at

    # Callers ------------------------------------------------------------------------------------

    def work(self, connect):
        """One caller: intent after intent, each until it is answered."""
        try:
            client = None
            while not self.is_over():
                with self.lock:
                    self.numbers += 1
                    number = self.numbers
                tool = "opaque" if number % 2 else "keyed"
                deadline = time.monotonic() + LIMIT_S
                while number not in self.told:
                    if time.monotonic() > deadline:
                        raise Failure(f"intent {number} was not answered in {LIMIT_S} s")
                    client = self.attempt(client, connect, tool, number)
        except Exception as error:
            self.failure = self.failure or error

    def attempt(self, client, connect, tool, number):
        """A try; the client if it is still of use."""
        self.tries += 1
        try:
            client = client or connect()
            reference = client.call(tool, {"n": number}, key=f"intent-{number:06}")
            if isinstance(client, RawClient):
                result = client.answer(reference, 15).json.get("result")
            else:
                result = reference.answer().get("result")
        except (Failure, OSError, ValueError, IndexError):
            if isinstance(client, RawClient):
                client.close_stdin()
            return None
        if result is None or code(result) not in (None, "OUTCOME_UNKNOWN"):
            time.sleep(0.05)
            return client
        if code(result) == "OUTCOME_UNKNOWN" and tool == "keyed":
            time.sleep(0.1)  # it is sent again
            return client
        self.told[number] = result
        return client

    def by_stdio(self):
        client = RawClient(self.t, self.t.hapax_argv(stub(self.t, SCRIPT), *RULES, orphan="5s"))
        client.initialize()
        return client

    def by_http(self):
        return self.serve.client()

    # The one who kills --------------------------------------------------------------------------

    def kill_one(self):
        program = os.path.realpath(self.t.surroundings.hapax)
        kinds = collections.defaultdict(list)
        for pid in processes.marked(self.t.mark):
            line = processes.command_line(pid)
            is_own = processes.executable(pid) == program
            if not is_own:
                kinds["server"].append(pid)
            elif "reaper" in line[:2]:
                kinds["reaper"].append(pid)
            elif "serve" in line[:2]:
                # A child of it that is about to become another program has its name for a moment.
                if pid == self.serve.process.pid:
                    kinds["serve"].append(pid)
            elif processes.holds_database(pid, self.t.ledger):
                kinds["keeper"].append(pid)
            else:
                kinds["front"].append(pid)
        if not kinds:
            return
        kind = self.random.choice(sorted(kinds))
        pid = self.random.choice(kinds[kind])
        try:
            os.kill(pid, signal.SIGKILL)
            self.killed[kind] += 1
        except ProcessLookupError:
            return
        if kind == "serve":
            self.serve.process.wait(10)
            self.serve.start()

    # What is true in the end --------------------------------------------------------------------

    def reconcile(self):
        t, runs = self.t, collections.defaultdict(list)
        for effect in t.effects():
            runs[json.loads(effect["args"])["n"]].append(effect)
        for number, result in self.told.items():
            receipts = [effect["receipt"] for effect in runs[number]]
            if code(result) is None:
                t.true(any(one in json.dumps(result) for one in receipts), f"lost: {number}")
            if number % 2:
                t.true(len(receipts) <= 1, f"twice: intent {number} of the opaque tool")
            keys = {json.loads(effect["args"]).get("effect") for effect in runs[number]}
            t.true(len(keys) <= 1, f"twice: intent {number} under the effect keys {keys}")
        t.equal(sorted(set(runs) - set(self.told)), [], "effects of no intent")
        rows = collections.Counter(one["execution"] for one in t.operations())
        real = sum(code(result) is None for result in self.told.values())
        t.equal(rows["succeeded"], real, f"rows that succeeded, of {dict(rows)}")
        t.equal(rows["unknown"], len(self.told) - real, f"rows that are unknown, of {dict(rows)}")
        t.equal(sum(rows.values()), len(self.told), "rows and intents")
        t.note = (
            f"{len(self.told)} intents, {self.tries} tries, {real} real answers,"
            f" {len(self.told) - real} unknown; killed {dict(self.killed)}"
        )


@test("soak", "soak_kill", needs_hapax=True)
def soak(t):
    seconds = float(os.environ.get("HAPAX_SOAK_SECONDS", "10"))
    seed = int(os.environ.get("HAPAX_SOAK_SEED", "0")) or time.time_ns() % 1000000
    t.is_traffic_judged = False  # lines end in the middle here
    t.grace_seconds = 20.0
    run = Soak(t, seconds, seed)
    run.serve = Serve(t, ["--", *stub(t, SCRIPT)], "--name", "web", *RULES, "--orphan-timeout", "5s")
    workers = [
        threading.Thread(target=run.work, args=(connect,), daemon=True)
        for connect in (run.by_stdio, run.by_stdio, run.by_http, run.by_http)
    ]
    for worker in workers:
        worker.start()
    while not run.is_over():
        time.sleep(run.random.uniform(0.3, 1.5))
        run.kill_one()
    for worker in workers:
        worker.join(LIMIT_S + 30)
    if run.failure is not None:
        raise Failure(f"seed {seed}: {run.failure!r}")
    t.true(sum(run.killed.values()) > seconds / 4, f"seed {seed}: killed {dict(run.killed)}")
    run.reconcile()
