# SPDX-License-Identifier: MIT
"""A storm of `hapax call`: each intent meets random faults on every hop (the client killed, its
keeper killed at a point or at any moment, `hapax serve` killed, the server killed, connections cut,
time-outs), and is taken up again until it is answered. Then effects are counted.

HAPAX_STORM_RUNS (60) and HAPAX_STORM_SEED (of the clock) say how many and which; E2E_NOTES=1 prints
what was counted. `./dev soak call` is this test with 1,000. The seed fixes what is tried, not how
the kernel orders it.
"""

import collections
import concurrent.futures
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time

from kit.harness import Failure, test
from webclient import Serve
from .http_upstream import Site

SERVER = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "fixtures", "storm_server.py"
)
POINTS = (
    "persist-asked commit-before commit-after claim-unmarked marked-not-sent first-byte-left"
    " reply-not-stored outcome-unanswered call-intent-begun call-intent-kept call-answer-unshown"
    " call-answer-shown"
).split()
# What may stay unknown: a tool of which nothing is known, wherever it stands.
OPAQUE = ("opaque", "inner_opaque", "bare_http")
EXACT = ("keyed", "idem", "inner_keyed")
DONE, ABSENT, UNKNOWN = 0, 3, 7
FAULTY_TRIES, TRIES_MAX, LIMIT_S = 3, 60, 120.0


class Cuts:
    """A proxy that cuts some connections after some bytes in some direction."""

    def __init__(self, port, seed, share=0.35):
        self.port, self.random, self.share = port, random.Random(seed), share
        self.cut = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.own_port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            left = {"up": None, "down": None}
            if self.random.random() < self.share:
                left[self.random.choice(("up", "down"))] = self.random.randrange(0, 2500)
            threading.Thread(target=self.serve, args=(client, left), daemon=True).start()

    def serve(self, client, left):
        ends = [client]
        try:
            server = socket.create_connection(("127.0.0.1", self.port), 5)
            ends.append(server)
            ways = {client: (server, "up"), server: (client, "down")}
            while left["up"] != 0 and left["down"] != 0:
                for source in select.select(list(ways), [], [], 60)[0]:
                    target, way = ways[source]
                    data = source.recv(65536 if left[way] is None else max(1, left[way]))
                    if not data:
                        return
                    target.sendall(data)
                    if left[way] is not None:
                        left[way] -= len(data)
            self.cut += 1
        except OSError:
            pass
        finally:
            for end in ends:
                end.close()

    def end(self):
        self.listener.close()


class Storm:
    def __init__(self, t, runs, seed):
        self.t, self.runs, self.seed = t, runs, seed
        self.counts = collections.Counter()
        self.told = {}
        self.is_over = threading.Event()
        os.makedirs(t.path("faults"))
        self.server = [sys.executable, "-S", "-E", SERVER, t.dir]
        self.gateway = Serve(t, [], config=self.config())
        self.gateway_cuts = Cuts(self.gateway.port, seed + 1)
        self.site = Site(t).serve()
        self.site_cuts = Cuts(self.site.port, seed + 2)
        t.at_end(self.end)

    def config(self):
        command, *args = (json.dumps(word) for word in self.server)
        rule = "class: keyed\n        effect_key: /key\n        dedupe_horizon: 2h\n        attempts: 50\n"
        path = self.t.path("hapax.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f"ledger: {self.t.path('inner')}\nlisten: 127.0.0.1:0\nupstreams:\n  storm:\n"
                f"    command: {command}\n    args: [{', '.join(args)}]\n    orphan_timeout: 5s\n"
                f"    tools:\n      keyed:\n        {rule}"
            )
        return path

    def end(self):
        self.is_over.set()
        self.gateway_cuts.end()
        self.site_cuts.end()

    def kill_gateway_now_and_then(self):
        chance = random.Random(self.seed + 3)
        while not self.is_over.wait(chance.uniform(0.7, 2.5)):
            self.gateway.kill()
            self.gateway.start()
            self.counts["gateways killed"] += 1

    # One intent ---------------------------------------------------------------------------------

    def words(self, kind, n):
        """The whole command for this intent."""
        key = ("--key", f"storm-{n}", "--orphan-timeout", "5s")
        raw = json.dumps({"n": n})
        if kind == "bare_http":
            return [*key, f"http://127.0.0.1:{self.site_cuts.own_port}/mcp", "charge", raw]
        if kind.startswith("inner_"):
            url = f"http://127.0.0.1:{self.gateway_cuts.own_port}/mcp/storm"
            # That the gateway behind keeps its ledger is the operator's word, and only with it may
            # a call be sent again of which it knows nothing.
            word = ["--class", "idempotent"] if kind == "inner_keyed" else []
            bound = ["--attempts", "50", "--name", "inner", *word]
            return [*key, *bound, url, kind[len("inner_") :], raw]
        rules = {
            "keyed": ("--class", "keyed", "--effect-key", "/key", "--dedupe-horizon", "2h"),
            "idem": ("--class", "idempotent"),
            "opaque": (),
        }[kind]
        return [*key, "--attempts", "50", "--name", "s-" + kind, *rules, kind, raw, "--", *self.server]

    def keepers(self, n, front):
        mark = f"HAPAX_STORM={n}\0".encode()
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == front:
                continue
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    words = file.read().split(b"\0")
                with open(f"/proc/{name}/environ", "rb") as file:
                    is_marked = mark in file.read() + b"\0"
            except OSError:
                continue
            if is_marked and words[1:2] == [b"call"]:
                yield int(name)

    def hurt(self, process, how, n, chance):
        """What a killer does while the command runs."""
        deadline = time.monotonic() + chance.uniform(0, 0.5)
        while time.monotonic() < deadline and process.poll() is None:
            time.sleep(0.01)
        victims = [process.pid] if how == "client" else list(self.keepers(n, process.pid))
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
                self.counts[f"{how}s killed"] += 1
            except ProcessLookupError:
                pass

    def run(self, words, n, chance, is_faulty):
        how = chance.choice(("client", "keeper", "point", "timeout", "nothing")) if is_faulty else ""
        env = {**self.t.env, "HAPAX_STORM": str(n)}
        wait = "100ms" if how == "timeout" else "10s"
        if how == "point":
            env["HAPAX_CRASH_AT"] = chance.choice(POINTS)
        process = subprocess.Popen(
            [self.t.surroundings.hapax, "call", "--ledger", self.t.ledger, "--wait", wait, *words],
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        if how in ("client", "keeper"):
            self.hurt(process, how, n, chance)
        out, err = process.communicate(timeout=60)
        self.counts["commands"] += 1
        if how == "point" and process.returncode == 70:
            self.counts["keepers killed at a point"] += 1
        return process.returncode, out.decode(), err.decode()

    def settle(self, n):
        chance = random.Random(self.seed * 1000003 + n)
        kind = chance.choice(OPAQUE + EXACT)
        if chance.random() < 0.4:
            self.t.touch(f"faults/{n}.{chance.choice(('before', 'after', 'slow', 'late'))}")
        words, is_known, begin = self.words(kind, n), False, time.monotonic()
        for number in range(TRIES_MAX):
            is_faulty = number < FAULTY_TRIES
            status, out, err = self.run(
                ["--resume", f"storm-{n}"] if is_known else words, n, chance, is_faulty
            )
            if status == DONE:
                self.told[n] = (kind, "done")
                return
            if status == UNKNOWN and kind in OPAQUE and not is_faulty:
                self.told[n] = (kind, "unknown")
                return
            if status not in (DONE, ABSENT, 4, 6, UNKNOWN, 70, 75, -9):
                raise Failure(f"{kind} {n}: status {status}: {out} {err}")
            # Not open: it never was, or its answer was on its way to somebody who was killed.
            is_known = status != ABSENT
            if time.monotonic() - begin > LIMIT_S:
                break
            time.sleep(0.05 if is_faulty else 0.3)
        raise Failure(f"{kind} {n} is not settled after {number + 1} commands: {status} {out} {err}")

    # All of them --------------------------------------------------------------------------------

    def blow(self, jobs):
        killer = threading.Thread(target=self.kill_gateway_now_and_then)
        killer.start()
        try:
            with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
                for done in [pool.submit(self.settle, n) for n in range(self.runs)]:
                    done.result()
        finally:
            self.is_over.set()
            killer.join()
        self.gateway.term()

    def effects(self):
        found = collections.Counter(json.loads(line)["n"] for line in self.t.lines("effects"))
        for line in self.t.lines("site/requests"):
            request = json.loads(line)
            message = json.loads(request["body"]) if request["body"] else {}
            if message.get("method") == "tools/call":
                found[message["params"]["arguments"]["n"]] += 1
        return found

    def judge(self):
        """One effect for each intent that was answered; at most one for an unknown one."""
        effects, lines = self.effects(), []
        for kind in EXACT + OPAQUE:
            mine = [n for n, told in self.told.items() if told[0] == kind]
            unknown = [n for n in mine if self.told[n][1] == "unknown"]
            ran = sum(1 for n in mine if effects[n] > 0)
            more = [n for n in mine if effects[n] > 1 and kind != "idem"]
            missing = [n for n in mine if effects[n] == 0 and n not in unknown]
            lines.append(
                f"{kind}: {len(mine)} intents, {ran} effects, {len(unknown)} unknown"
                f" ({sum(1 for n in unknown if effects[n])} of them happened)"
            )
            self.t.equal(more, [], f"{kind}: intents with more than one effect")
            self.t.equal(missing, [], f"{kind}: answered intents without an effect")
            self.t.true(kind in OPAQUE or not unknown, f"{kind}: unknown {unknown}")
        return lines


@test("call", "call_storm", needs_hapax=True)
def storm(t):
    t.is_traffic_judged = False
    t.grace_seconds = 20.0
    runs = int(os.environ.get("HAPAX_STORM_RUNS", "60"))
    seed = int(os.environ.get("HAPAX_STORM_SEED", "0")) or time.time_ns() % 1000000
    blown = Storm(t, runs, seed)
    begin = time.monotonic()
    try:
        blown.blow(int(os.environ.get("HAPAX_STORM_JOBS", "6")))
        t.equal(len(blown.told), runs, "settled intents")
        lines = blown.judge()
    except Exception as error:
        raise Failure(f"seed {seed}: {error}") from error
    cuts = blown.gateway_cuts.cut + blown.site_cuts.cut
    what = ", ".join(f"{count} {name}" for name, count in sorted(blown.counts.items()))
    t.note = (
        f"{runs} intents, seed {seed}, {time.monotonic() - begin:.0f} s: {what}, {cuts} connections"
        f" cut\n  " + "\n  ".join(lines)
    )
