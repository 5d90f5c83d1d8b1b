# SPDX-License-Identifier: MIT
"""The order server of examples/, which keeps its orders and the library's ledger in one file: killed at
every named point, killed at random, with clients that know nothing of Hapax and behind `hapax run`.
In the end each intent has one order, the budget is their sum, each event is there once, and the bank
was told one key for each payment.
"""

import collections
import ctypes
import glob
import json
import os
import random
import re
import sqlite3
import subprocess
import sys
import threading
import time

from kit import processes
from kit.harness import Failure, Skip, test

from .serve import QUICK
from .way import Way, code

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "lib"))
import from_python  # noqa: E402

KEY = "dev.hapax/idempotencyKey"
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..")
SERVER_POINTS = os.path.join(ROOT, "examples", "order_server.c")
STORE_POINTS = os.path.join(ROOT, "src", "adapter", "store_sqlite", "*.c")
LIB_POINTS = os.path.join(ROOT, "src", "lib", "*.c")


def server_path(t):
    if not t.surroundings.hapax:
        raise Skip("hapax is not built")
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(t.surroundings.hapax))))
    path = os.path.join(build, "examples", "hapax-example-orders")
    if not os.path.exists(path):
        raise Skip("the example server is not built")
    return path


def points(*patterns):
    found = set()
    for pattern in patterns:
        for path in glob.glob(pattern):
            with open(path, encoding="utf-8") as file:
                found.update(re.findall(r'HX_CRASH_POINT\("([^"]+)"\)', file.read()))
    return sorted(found)


class Dead(Exception):
    """The server is gone; whether it acted, only its ledger knows."""


class Client:
    """One connection, one call at a time; no more of MCP than that needs."""

    def __init__(self, t, argv, env=None):
        self.process = subprocess.Popen(
            argv,
            env={**t.env, **(env or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.ids = 0
        t.at_end(self.kill)

    def ask(self, method, params):
        self.ids += 1
        line = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
            while True:
                answer = self.process.stdout.readline()
                if not answer.endswith(b"\n"):
                    raise Dead
                answer = json.loads(answer)
                if answer.get("id") == self.ids:
                    return answer
        except BrokenPipeError:
            raise Dead from None

    def initialize(self):
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {},
                                "clientInfo": {"name": "storm", "version": "1"}})
        line = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        try:
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Dead from None

    def call(self, intent):
        return self.ask("tools/call", {
            "name": intent.tool, "arguments": intent.arguments, "_meta": {KEY: intent.key}})

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self.process.stdin, self.process.stdout):
            try:
                end.close()
            except BrokenPipeError:
                pass

    def leave(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Intent:
    def __init__(self, number, tool, amount, prefix=""):
        self.tool, self.amount = tool, amount
        self.key = f"{prefix}{tool}-{number}"
        self.arguments = {"amount": amount}
        if tool == "order":
            self.arguments["item"] = f"item {number}"
        self.text = None


class Shop:
    """The server's files, how it is started, and the count at the end."""

    def __init__(self, t, behind_hapax=False):
        self.t = t
        self.server = server_path(t)
        self.db = t.path("orders.db")
        self.bank = t.path("bank")
        self.behind_hapax = behind_hapax
        self.counts = collections.Counter()
        t.is_traffic_judged = False  # two messages of MCP, no more

    def argv(self):
        server = [self.server, "--db", self.db, "--bank", self.bank, "--budget", "100000000"]
        if not self.behind_hapax:
            return server
        rule = f"*: class=keyed effect_key=_meta:{KEY} dedupe_horizon=2h attempts=100"
        return self.t.hapax_argv(server, "--tool", rule)

    def start(self, **env):
        client = Client(self.t, self.argv(), env)
        if self.behind_hapax:
            client.initialize()
        return client

    def settle(self, intent, client=None, first_env=None):
        """Asks with the same key until there is an answer; counts the deaths on the way."""
        env, deadline = first_env or {}, time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                if client is None:
                    client = self.start(**env)
                answer = client.call(intent)
            except Dead:
                self.counts["deaths"] += 1
                client.kill() if client else None
                client, env = None, {}
                continue
            if "result" in answer and not answer["result"].get("isError"):
                text = answer["result"]["content"][0]["text"]
                if intent.text is not None:
                    self.t.equal(text, intent.text, f"the answer to {intent.key}, told again")
                intent.text = text
                return client
            self.counts["told to wait"] += 1
            time.sleep(0.02)
        raise Failure(f"{intent.key} was never answered")

    def check(self, intents):
        """What is in the file is what was wanted; by SQLite, when no process has it open."""
        equal = self.t.equal
        orders = [intent for intent in intents if intent.tool == "order"]
        payments = [intent for intent in intents if intent.tool == "pay"]
        with sqlite3.connect(self.db) as db:
            rows = db.execute("SELECT item, amount FROM app_orders").fetchall()
            equal(sorted(rows), sorted((i.arguments["item"], i.amount) for i in orders), "orders")
            spent = db.execute("SELECT spent FROM app_budget").fetchone()[0]
            equal(spent, sum(i.amount for i in orders), "the budget's sum")
            events = db.execute("SELECT operation FROM app_events").fetchall()
            equal(len(events), len(orders), "events")
            equal(len(set(events)), len(orders), "different events")
            paid = db.execute("SELECT amount, receipt FROM app_payments").fetchall()
            equal(sorted(row[0] for row in paid), sorted(i.amount for i in payments), "payments")
            states = collections.Counter(db.execute("SELECT state FROM op").fetchall())
            equal(len(states), 1, f"states of operations ({states})")
        db.close()
        # The bank pays once for a key, however often it hears it.
        keys = {tuple(line.decode().split()) for line in self.t.lines("bank")}
        equal(len({key for key, _ in keys}), len(payments), "keys that the bank heard")
        equal(sorted(int(amount) for _, amount in keys), sorted(i.amount for i in payments),
              "what the bank paid")
        equal({receipt for _, receipt in paid}, {key for key, _ in keys}, "receipts")
        status, out, err = self.t.ops("verify", "--ledger", self.db)
        equal(status, 0, f"hapax ops verify ({out + err!r})")


@test("library", needs_hapax=True)
def the_order_server_is_killed_at_every_point(t):
    """SIGKILL at each point that the server, the library and the ledger name, at its first, second
    and third visit; then the same key again.
    """
    shop = Shop(t)
    wanted = points(SERVER_POINTS, STORE_POINTS, LIB_POINTS)
    intents, reached = [], set()
    for point in wanted:
        for visit in (1, 2, 3):
            round_intents = [
                Intent(len(intents) + 1, "order", random.Random(len(intents)).randrange(1, 99)),
                Intent(len(intents) + 2, "pay", random.Random(len(intents)).randrange(1, 99)),
            ]
            deaths = shop.counts["deaths"]
            client = None
            env = {"HAPAX_CRASH_AT": f"{point}:{visit}"}
            for intent in round_intents:
                intents.append(intent)
                client = shop.settle(intent, client, env)
                env = {} if shop.counts["deaths"] > deaths else env
            client.leave()
            if shop.counts["deaths"] > deaths:
                reached.add(point)
    if not reached:
        raise Skip("built without crash_points")
    needed = set(points(SERVER_POINTS, LIB_POINTS)) | {
        "commit-before", "commit-after", "commit-counted", "insert-half", "update-half"}
    t.equal(needed - reached, set(), "points that no call came to")
    shop.check(intents)
    client = shop.start()
    for intent in intents:
        client = shop.settle(intent, client)  # and once more, byte for byte
    client.leave()
    shop.check(intents)
    t.note = f"{shop.counts['deaths']} deaths at {len(reached)} points, {len(intents)} intents"


def storm(t, shop, number_of_clients, intents_each, seed):
    """Clients with servers of their own on one file, each killed at random, often."""
    intents, faults = [], []
    for client in range(number_of_clients):
        chance = random.Random(seed + client)
        intents.append([
            Intent(n, chance.choice(("order", "order", "pay")), chance.randrange(1, 1000),
                   f"c{client}-") for n in range(intents_each)])

    def run(mine, chance):
        client = None
        try:
            for intent in mine:
                if client is None:
                    client = shop.start()
                killer = threading.Timer(chance.uniform(0.0005, 0.03), client.process.kill)
                is_killed = chance.random() < 0.6
                if is_killed:
                    killer.start()
                client = shop.settle(intent, client)
                if is_killed:
                    killer.join()
                    if client.process.poll() is not None or chance.random() < 0.2:
                        client.kill()
                        client = None
            if client is not None:
                client.leave()
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")

    threads = [
        threading.Thread(target=run, args=(mine, random.Random(seed * 7 + i)))
        for i, mine in enumerate(intents)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    t.equal(faults, [], "what went wrong in a client")
    t.true(shop.counts["deaths"] > 0, "no server died, so nothing was shown")
    return [intent for mine in intents for intent in mine]


@test("library", needs_hapax=True)
def the_order_server_in_a_storm_of_bare_clients(t):
    shop = Shop(t)
    intents = storm(t, shop, 3, 40, 11)
    shop.check(intents)
    t.note = str(dict(shop.counts))


@test("library", needs_hapax=True)
def the_order_server_in_a_storm_behind_hapax(t):
    """Front and keeper are killed, and the server with them; Hapax hands on its effect key."""
    shop = Shop(t, behind_hapax=True)
    t.grace_seconds = 20.0
    intents = storm(t, shop, 2, 12, 23)
    wait_until_unused(t)
    shop.check(intents)
    t.note = str(dict(shop.counts))


def wait_until_unused(t):
    """Keepers and servers of killed fronts end by themselves."""
    t.wait(lambda: not processes.marked(t.mark), "the servers to end", 20)


@test("library", needs_hapax=True)
def people_see_and_settle_what_the_library_keeps(t):
    """A payment whose server was killed after it acted, opaque in its own eyes: `hapax ops` shows the
    operation, and what a person says is what the next repeat is told.
    """
    shop = Shop(t)
    intent = Intent(1, "pay", 5)
    client = shop.start(HAPAX_CRASH_AT="pay-noted")
    try:
        client.call(intent)
    except Dead:
        client.kill()
    else:
        raise Skip("built without crash_points")
    status, out, _ = t.ops("list", "--json", "--ledger", shop.db)
    t.equal(status, 0, "exit status of ops list")
    rows = json.loads(out)["operations"]
    t.equal(len(rows), 1, "operations")
    t.equal(rows[0]["tool"], "pay", "the tool")
    status, out, err = t.ops("show", intent.key, "--ledger", shop.db)
    t.equal(status, 0, f"exit status of ops show ({err!r})")
    t.true(b"receipt" in out, f"the receipt is shown: {out!r}")
    status, _, err = t.ops(
        "resolve", intent.key, "happened", "--ledger", shop.db, "--result",
        '{"content":[{"type":"text","text":"paid, says Ann"}]}')
    t.equal(status, 0, f"exit status of ops resolve ({err!r})")
    client = shop.settle(intent)
    t.equal(intent.text, "paid, says Ann", "what the repeat is told")
    client.leave()
    t.equal(len(t.lines("bank")), 1, "what the bank was told")


def own_ledger(t, path, server):
    """A ledger of the library's, opened by this process."""
    server_path(t)
    build = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(t.surroundings.hapax))))
    library = ctypes.CDLL(os.path.join(build, "src", "lib", "libhapax.so"))
    return from_python.Ledger(library, path, server)


@test("library", needs_hapax=True)
def an_outcome_that_is_no_json_is_exported_as_a_text(t):
    """The library keeps any bytes; a line of the export stays JSON."""
    ledger = own_ledger(t, t.path("own.db"), "reports")
    verdict, call = ledger.claim("report", "report-1", b"{}")
    t.equal(verdict, from_python.RUN, "the verdict")
    call.finish(b'no "JSON"\n\xff')
    call.free()
    ledger.close()
    status, out, err = t.ops("export", "--ledger", t.path("own.db"))
    t.equal(status, 0, f"exit status of ops export ({err!r})")
    row = json.loads(out)
    t.equal(row["outcome"]["value"], 'no "JSON"\n\ufffd', "the outcome")


@test("library", needs_hapax=True)
def an_outcome_that_is_no_json_breaks_no_message(t):
    """A gateway before a server of the same name, on the library's ledger, tells each outcome in one
    line of JSON: as it is when it is one, as a text to who asks for it when it is not.
    """
    values = (b'{"content":[]}', b"two\nlines", b"no JSON", b'{"a":\n1}')
    os.mkdir(t.ledger, 0o700)
    ledger = own_ledger(t, os.path.join(t.ledger, "ledger.db"), "e2e")
    for n, value in enumerate(values):
        verdict, call = ledger.claim("charge", f"call-{n}", b'{"n":1}', str(os.getuid()))
        t.equal(verdict, from_python.RUN, "the verdict")
        call.finish(value)
        call.free()
    ledger.close()
    client = Way(t, "hapax").client(QUICK)
    for n, value in enumerate(values):
        asked = {"key": f"call-{n}", "tool": "charge"}
        told = client.result(client.request("hapax/operations/get", asked))["operation"]
        t.equal(told["result"], {"content": []} if n == 0 else value.decode(), "the outcome by key")
        again = client.result(client.call("charge", {"n": 1}, key=f"call-{n}"))
        if n == 0:
            t.equal(again["content"], [], f"the outcome to the repeat: {again}")
        else:
            t.equal(code(again), "RESULT_UNAVAILABLE", f"the outcome to the repeat: {again}")
    t.equal(t.effects(), [], "effects")
