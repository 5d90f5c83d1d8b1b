# SPDX-License-Identifier: MIT
"""Every cell of the crash matrix (../matrix.py) made to happen to the built program: real SIGKILL and
SIGSTOP at its named points; host crashes and disk errors by tests/kit/host_disk.c below the same
program, with a given boot id. The runs are counted by the tool, which does not crash with it.

stdio is `hapax run` before a tool server of its own; http is clients over HTTP, `hapax serve`, and a
tool server over HTTP on another host, so to speak: it outlives all crashes.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import matrix
from kit import processes
from kit.harness import Failure, Skip, test
from kit.hostcrash import Disk
from rawclient import RawClient, code, operation, stub
from webclient import Serve
from . import crash, outbox
from .http_upstream import Site

BOOTS = [f"0{n}000000-0000-4000-8000-000000000000" for n in (1, 2)]
HELD = [{"wait": "release"}]
STDIO_STEPS = HELD + [{"text": "receipt $RECEIPT"}]
HTTP_STEPS = HELD + [
    {"json": '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"receipt $N"}]}}'}
]
OPTIONS = {
    "opaque": (),
    "idempotent": ("--class", "idempotent"),
    "keyed": ("--class", "keyed", "--effect-key", "/effect", "--dedupe-horizon", "1h"),
}
# As core/op.def numbers them; the ledger's own numbers.
STATES = (
    "absent awaiting_approval ready running input_required succeeded failed unknown cancelled expired"
).split()
KEY = "key-of-the-cell"
JOIN_WAIT = "1s"
LIMIT_S = 20
BROKEN_S = 2  # how long a disk fails when the caller is not told anything before
templates = {}
template_lock = threading.Lock()


class Cell:
    """One history: its gateways one after the other or beside each other, its tool, its ledger."""

    def __init__(self, t, row, fault, kind, transport):
        self.t, self.row, self.fault, self.kind, self.transport = t, row, fault, kind, transport
        library = os.path.join(t.surroundings.hapax, "../../../tests/kit/libhost_disk.so")
        self.library = os.path.abspath(library)
        if not os.path.exists(self.library):
            raise Skip("built without tests/kit/libhost_disk.so")
        with open(t.surroundings.hapax, "rb") as file:
            if b"HAPAX_STOP_AT" not in file.read():
                raise Skip("built without crash_points")
        self.disk = Disk(t, self.library)
        self.site = Site(t).serve({"session": "s1"}) if transport == "http" else None
        self.serves, self.key, self.started = [], KEY, None
        self.neighbour, self.neighbours_keepers = None, []

    # The parts ----------------------------------------------------------------------------------

    def plain(self):
        return {**self.t.env, "HAPAX_TEST_BOOT_ID": BOOTS[0]}

    def next_boot(self):
        return {**self.t.env, "HAPAX_TEST_BOOT_ID": BOOTS[1 if self.is_host_crash() else 0]}

    def is_host_crash(self):
        return self.fault[0] == "P"

    def gateway(self, env, *more, join_wait=JOIN_WAIT):
        """A client that has shaken hands with a new gateway on the ledger."""
        options = (*OPTIONS[self.kind], "--join-wait", join_wait, "--orphan-timeout", "20s", *more)
        if self.site is None:
            server = stub(self.t, {"tools": {"charge": {"runs": [STDIO_STEPS]}}})
            client = RawClient(self.t, self.t.hapax_argv(server, *options), env=env)
            client.initialize()
            return client
        url = f"http://127.0.0.1:{self.site.port}/mcp"
        serve = Serve(self.t, [url], "--name", "e2e", *options, env=env)
        self.serves.append(serve)
        return serve.client()

    def starts(self):
        """As `gateway`, for one that may die of its fault before it answers."""
        try:
            self.started = self.gateway(armed(self))
        except (Failure, OSError):
            pass

    def args(self):
        return {"n": 1} if self.site is None else {"n": 1, "steps": HTTP_STEPS}

    def call(self, client, key=None):
        """The call is under way; `Pending` can be waited for."""
        return Pending(client, client.call("charge", self.args(), key=key or self.key))

    def release(self):
        self.t.touch("release" if self.site is None else "site/release")

    def runs(self):
        """The arguments with which the tool ran."""
        if self.site is None:
            return [json.loads(one["args"]) for one in self.t.effects("charge")]
        bodies = [json.loads(one["body"]) for one in self.site.posts("tools/call")]
        return [body["params"]["arguments"] for body in bodies]

    def ours(self):
        """The processes that a crash of the host takes along: all but a tool on another host."""
        site = self.site.process.pid if self.site else 0
        return [pid for pid in processes.marked(self.t.mark) if pid != site]

    def stopped(self):
        for pid in processes.marked(self.t.mark):
            if processes.state(pid) == "T":
                return pid
        return None

    def wait_stopped(self):
        pid = self.t.wait(self.stopped, f"a process to stop at {self.row.at}")
        self.t.at_end(lambda: processes.resume(pid))
        return pid

    # Faults -------------------------------------------------------------------------------------

    def settle_death(self):
        """After the process died: the rest of the host, and what the disk forgets."""
        if not self.is_host_crash():
            return
        for pid in self.ours():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.t.wait(lambda: not self.ours(), "everything on the host to be gone")
        self.disk.crash(self.fault == "Pt", self.t.name)

    def state(self):
        """Of the call's row, by the files alone: a look through SQLite would repair them."""
        copy = self.t.path("looked-at")
        shutil.rmtree(copy, ignore_errors=True)
        os.makedirs(copy)
        for tail in ("", "-wal"):
            path = os.path.join(self.t.ledger, "ledger.db" + tail)
            if os.path.exists(path):
                shutil.copy(path, copy)
        reader = sqlite3.connect(os.path.join(copy, "ledger.db"))
        try:
            found = reader.execute("SELECT state, CAST(key AS TEXT) FROM op ORDER BY row")
            states = [STATES[state] for state, key in found if key != "key-before"]
        finally:
            reader.close()
        return states[-1] if states else "none"

    def again(self, client):
        """What the same key is told in the end, twice the same."""
        passing = {"BUSY", "LEDGER_UNAVAILABLE"}
        if self.wanted[2] == "real" and self.kind != "opaque":
            passing.add("OUTCOME_UNKNOWN")  # until it is sent again
        deadline = self.t.clock() + LIMIT_S
        told = ["BUSY"]
        while told[-1] in passing:
            self.t.true(self.t.clock() < deadline, f"a final answer; told {told}")
            told.append(self.call(client).told())
            time.sleep(0.05)
        self.t.equal(self.call(client).told(), told[-1], "the same key once more")
        return told[-1]

    # The verdict --------------------------------------------------------------------------------

    def check(self, state, told, again):
        runs = self.runs()
        low, _, high = self.wanted[3].partition("-")
        found = (state, told, again)
        self.t.true(
            all(one in wanted.split("/") for one, wanted in zip(found, self.wanted)),
            f"(state, told, again): {found} after {len(runs)} runs, wanted {self.wanted}",
        )
        self.t.true(
            int(low) <= len(runs) <= int(high or low), f"{len(runs)} runs, wanted {self.wanted[3]}"
        )
        if self.kind == "keyed":
            keys = {args["effect"] for args in runs}
            self.t.true(len(keys) <= 1, f"one effect key: {keys}")
        status, out, err = self.t.ops("verify", "--ledger", self.t.ledger)
        self.t.equal(status, 0, f"ops verify: {out[-300:]!r} {err[-300:]!r}")


class Pending:
    """A call that is under way, over either transport; read by a thread, so that a wait can end."""

    def __init__(self, client, reference):
        self.client, self.reference, self.found = client, reference, None
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def _read(self):
        try:
            if isinstance(self.client, RawClient):
                self.found = self.client.answer(self.reference, LIMIT_S).json
            else:
                self.found = self.reference.answer()
        except (Failure, OSError, ValueError, IndexError) as error:
            self.found = error

    def is_over(self, seconds):
        self.reader.join(seconds)
        return self.found is not None

    def told(self):
        """`real`, a code of ours, or `-` when the connection ended without an answer."""
        if not self.is_over(LIMIT_S):
            raise Failure(f"no answer in {LIMIT_S} s")
        if isinstance(self.found, Exception):
            # A client of lines knows whether its connection ended; one of HTTP sees an error then.
            if isinstance(self.client, RawClient) and not self.client.ended:
                raise self.found
            return "-"
        if "error" in self.found:
            data = self.found["error"].get("data") or {}
            return data.get("code") or str(self.found["error"]["code"])
        result = self.found["result"]
        if code(result) is None and "receipt" not in json.dumps(result):
            raise Failure(f"neither the tool's result nor ours: {result}")
        return code(result) or "real"


# Histories ----------------------------------------------------------------------------------------


def first_life(cell, *more):
    """The gateway whose call will meet the fault."""
    if cell.fault == "Z":
        cell.neighbour = cell.gateway(cell.plain())
        cell.neighbours_keepers = cell.t.family().keepers
    return cell.gateway(armed(cell), *more)


def armed(cell):
    """The environment in which the fault is met."""
    needs_disk = cell.fault[0] in "PE" or cell.row.history == "spooled"
    disk = cell.disk.env(BOOTS[0]) if needs_disk else cell.plain()
    at = cell.row.at_e if cell.fault == "E" and cell.row.at_e else cell.row.at
    if at:
        disk["HAPAX_CRASH_AT" if cell.fault[0] in "KP" else "HAPAX_STOP_AT"] = at
    return disk


def died(cell, pending):
    told = pending.told()
    cell.settle_death()
    state = cell.state()
    return state, told, cell.again(cell.gateway(cell.next_boot()))


def paused(cell, pid, pending):
    """The neighbour asks while the other one sleeps; then that one's own caller is answered."""
    told = cell.call(cell.neighbour).told()
    state = cell.state()
    processes.resume(pid)
    slept = pending.told()
    # Asleep past `join_wait` with the outcome in the spool: his wait is over before it is taken.
    is_late = cell.row.history == "spooled" and slept == "OUTCOME_UNKNOWN"
    cell.t.true(is_late or slept == cell.wanted[2], f"what the paused one's caller is told: {slept}")
    return state, told, cell.again(cell.neighbour)


def broken(cell, client, pending):
    pending.is_over(BROKEN_S)
    state = cell.state()
    cell.disk.heals()
    return state, pending.told(), cell.again(client)


def point(cell):
    cell.release()
    client = first_life(cell)
    pending = cell.call(client)
    if cell.fault[0] in "KP":
        return died(cell, pending)
    pid = cell.wait_stopped()
    if cell.fault == "Z":
        return paused(cell, pid, pending)
    cell.disk.breaks(cell.row.disk)
    processes.resume(pid)
    return broken(cell, client, pending)


def worker(cell, client):
    """The process that has the ledger open."""
    if cell.site is not None:
        return cell.serves[-1].process.pid
    family = cell.t.family(client.pid)
    before = [] if cell.neighbour is None else cell.neighbours_keepers
    (keeper,) = [pid for pid in family.keepers if pid not in before]
    return keeper


def held(cell):
    """The tool runs and does not answer yet."""
    client = first_life(cell)
    pending = cell.call(client)
    cell.t.wait(lambda: len(cell.runs()) == 1, "the tool to run")
    pid = worker(cell, client)
    if cell.fault[0] in "KP":
        os.kill(pid, signal.SIGKILL)
        cell.release()
        return died(cell, pending)
    if cell.fault == "Z":
        os.kill(pid, signal.SIGSTOP)
        cell.t.at_end(lambda: processes.resume(pid))
        cell.release()
        return paused(cell, pid, pending)
    cell.disk.breaks(cell.row.disk)
    cell.release()
    return broken(cell, client, pending)


def spooled(cell):
    """The ledger fails while the tool runs; the spool does not."""
    if cell.fault == "E":
        cell.row = matrix.Row(**{**cell.row.__dict__, "at": ""})
    client = first_life(cell)
    pending = cell.call(client)
    cell.t.wait(lambda: len(cell.runs()) == 1, "the tool to run")
    cell.disk.breaks(cell.row.disk)
    cell.release()
    if cell.fault == "E":
        return broken(cell, client, pending)
    if cell.fault == "Z":
        pid = cell.wait_stopped()
        cell.disk.heals()
        return paused(cell, pid, pending)
    told = pending.told()
    cell.disk.heals()
    cell.settle_death()
    return cell.state(), told, cell.again(cell.gateway(cell.next_boot()))


def gives_up(cell):
    """The answer is written, and its reader dies before he has read it."""
    cell.release()
    client = cell.gateway(cell.plain())
    if cell.site is None:
        client.pause()
    reference = client.call("charge", cell.args())
    cell.t.wait(lambda: cell.state() == "succeeded", "the outcome")
    cell.t.wait(lambda: is_answered(cell), "the answer to be noted as sent")
    if cell.site is None:
        client.close_stdout()
        client.kill()
    else:
        reference.reset()
    cell.t.wait(lambda: not is_answered(cell), "the answer to be noted as lost")
    fresh = cell.gateway(cell.plain())
    again = Pending(fresh, fresh.call("charge", cell.args()))
    return cell.state(), "-", again.told()


def is_answered(cell):
    return cell.t.operations()[-1]["delivery"] == "sent"


def announced(cell):
    """A receiver of events stands beside."""
    receiver = outbox.Receiver(cell.t)
    url = ("--outbox-url", f"http://127.0.0.1:{receiver.port}/")
    cell.release()
    client = first_life(cell, *url)
    pid = worker(cell, client)
    told = cell.call(client).told()
    # Who has been answered may have been so before the event was sent: the fault comes later then.
    cell.t.wait(lambda: not processes.is_alive(pid), f"the death at {cell.row.at}")
    published = 1 if cell.row.at == "event-sent" else 0
    cell.t.equal(len(receiver.taken()), published, "events published before the fault")
    cell.settle_death()
    state = cell.state()
    client = cell.gateway(cell.next_boot(), *url)
    again = cell.again(client)
    cell.t.wait(lambda: len(receiver.deliveries) > published, "the event to be published again")
    ids = {one.id for one in receiver.deliveries if one.type == "succeeded"}
    cell.t.equal(len(ids), 1, f"ids of one event: {ids}")
    return state, told, again


def deciders(cell):
    """One approves and meets the fault, the other denies."""
    cell.release()
    always = ("--approval", "always")
    env = cell.disk.env(BOOTS[0]) if cell.is_host_crash() else cell.plain()
    client = cell.gateway(env, *always)
    cell.t.equal(cell.call(client).told(), "APPROVAL_REQUIRED", "the call waits for a person")
    argv = [cell.t.surroundings.hapax, "ops", "approve", KEY, "--ledger", cell.t.ledger]
    first = subprocess.Popen(argv, env=armed(cell), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if cell.fault == "E":
        pid = cell.wait_stopped()
        cell.disk.breaks(cell.row.disk)
        processes.resume(pid)
    status = first.wait(LIMIT_S)
    cell.t.true(status == -9 if cell.fault[0] in "KP" else status > 0, f"the first one: {status}")
    if cell.fault == "E":
        cell.disk.heals()
    cell.settle_death()
    state = cell.state()
    status, out, _ = cell.t.ops("deny", KEY, "--ledger", cell.t.ledger)
    told = {0: "applied", 1: "not applied"}.get(status, f"{status}: {out[-200:]!r}")
    fresh = cell.gateway(cell.next_boot(), *always) if cell.is_host_crash() else client
    return state, told, cell.again(fresh)


def recovery(cell):
    """A gateway looks at what is open when it starts, so it meets the fault before it is asked."""
    if cell.fault == "Z":
        cell.neighbour = cell.gateway(cell.plain())
        cell.neighbours_keepers = cell.t.family().keepers
    client = cell.gateway(cell.disk.env(BOOTS[0]) if cell.is_host_crash() else cell.plain())
    orphan = cell.call(client)
    cell.t.wait(lambda: len(cell.runs()) == 1, "the tool to run")
    os.kill(worker(cell, client), signal.SIGKILL)
    cell.t.equal(orphan.told(), "-", "the orphan's caller")
    cell.release()
    starting = threading.Thread(target=cell.starts, daemon=True)
    starting.start()
    if cell.fault[0] in "KP":
        starting.join(LIMIT_S)
        cell.t.true(cell.started is None, "it died before it was there")
        cell.settle_death()
        return cell.state(), "-", cell.again(cell.gateway(cell.next_boot()))
    pid = cell.wait_stopped()
    if cell.fault == "Z":
        told, state = cell.call(cell.neighbour).told(), cell.state()
        processes.resume(pid)
        starting.join(LIMIT_S)
        return state, told, cell.again(cell.neighbour)
    cell.disk.breaks(cell.row.disk)
    processes.resume(pid)
    starting.join(BROKEN_S)
    state = cell.state()
    cell.disk.heals()
    starting.join(LIMIT_S)
    return state, cell.call(cell.started).told(), cell.again(cell.started)


def low_water(cell):
    cell.key = crash.timed_key(crash.OLD_MS, 1)
    cell.release()
    client = cell.gateway(cell.plain())
    cell.t.equal(cell.call(client).told(), "real", "the call")
    leave(cell, client)
    crash.make_older(cell.t)
    client = first_life(cell)
    client.wait_eof(60)  # the sweep waits for half a minute
    cell.settle_death()
    return cell.state(), "-", cell.again(cell.gateway(cell.next_boot()))


def restored(cell):
    cell.key = crash.timed_key(0, 1)
    shutil.copytree(cell.t.ledger, cell.t.path("copy"))
    cell.release()
    client = cell.gateway(cell.plain())
    cell.t.equal(cell.call(client).told(), "real", "the call that the copy does not know")
    os.kill(worker(cell, client), signal.SIGKILL)
    cell.t.wait(lambda: not cell.ours(), "everything to be gone")
    for name in os.listdir(cell.t.ledger):
        path = os.path.join(cell.t.ledger, name)
        if name.endswith(("-wal", "-shm")):
            os.unlink(path)
        elif name == "ledger.db":
            shutil.copy(cell.t.path("copy/" + name), path)
    client = cell.gateway(cell.plain())
    told, state = cell.call(client).told(), cell.state()
    leave(cell, client)
    taken = ("--backup-taken-at", "2020-01-01T00:00:00Z", "--ledger", cell.t.ledger)
    status, _, err = cell.t.ops("recover", *taken)
    cell.t.equal(status, 0, f"ops recover: {err[-300:]!r}")
    return state, told, cell.again(cell.gateway(cell.plain()))


def left(cell, client, pending, kill):
    """Whoever asked is gone, and somebody asks again while the tool still runs."""
    cell.t.wait(lambda: len(cell.runs()) == 1, "the tool to run")
    kill()
    told, state = pending.told(), cell.state()
    fresh = cell.gateway(cell.plain(), join_wait="20s")  # the repeat waits until it was counted
    again = cell.call(fresh)
    cell.t.wait(lambda: cell.t.operations()[-1]["repeats"] >= 1, "the repeat to be counted")
    cell.release()
    cell.t.equal(again.told(), "real", "the repeat, while the first attempt goes on")
    return state, told, cell.again(fresh)


def front_killed(cell):
    client = cell.gateway(cell.plain())
    return left(cell, client, cell.call(client), client.kill)


def client_killed(cell):
    client = cell.gateway(cell.plain())
    if cell.site is not None:
        exchange = client.call("charge", cell.args(), key=KEY)
        return left(cell, client, Gone(), exchange.reset)

    def die():
        client.close_stdout()
        client.close_stdin()

    client.call("charge", cell.args(), key=KEY)
    return left(cell, client, Gone(), die)


class Gone:
    """A caller who cannot be told anything."""

    def told(self):
        return "-"


def upstream_killed(cell):
    client = cell.gateway(cell.plain())
    pending = cell.call(client)
    cell.t.wait(lambda: len(cell.runs()) == 1, "the tool to run")
    # Released for the next one when this one is dead, or its answer might be seen.
    if cell.site is None:
        processes.kill(int(cell.t.lines("starts")[-1]), "stub_server.py")
        cell.release()
        told = pending.told()
        return cell.state(), told, cell.again(client)
    port = cell.site.port
    cell.site.end()
    cell.release()
    told, state = pending.told(), cell.state()
    cell.site.serve({"session": "s1"}, port=port)
    return state, told, cell.again(client)


HISTORIES = {
    history.__name__: history
    for history in (
        point,
        held,
        spooled,
        gives_up,
        announced,
        deciders,
        recovery,
        low_water,
        restored,
        front_killed,
        client_killed,
        upstream_killed,
    )
}


# The cells ----------------------------------------------------------------------------------------


def template(cell):
    """A ledger that has been in use, made once for each transport."""
    with template_lock:
        made = templates.get(cell.transport)
        if made is None:
            made = os.path.join(cell.t.surroundings.directory, "tmp", f"used-{cell.transport}")
            shutil.rmtree(made, ignore_errors=True)
            cell.release()
            client = cell.gateway(cell.plain())
            cell.t.equal(cell.call(client, "key-before").told(), "real", "the ledger's first call")
            leave(cell, client)
            shutil.copytree(cell.t.ledger, made)
            shutil.rmtree(cell.t.ledger)
            if cell.site is None:
                cell.t.remove("release")
                cell.t.remove("effects")
            else:
                cell.t.remove("site/release")
                cell.t.remove("site/requests")
            templates[cell.transport] = made
    shutil.copytree(made, cell.t.ledger)


def leave(cell, client):
    if cell.site is None:
        client.close_stdin()
        client.process.wait(15)
    else:
        cell.serves[-1].term()
    cell.t.wait(lambda: not cell.ours(), "everything to be gone")


def wanted_of(row, fault, kind, transport):
    """The cell's four words; a `Why` when it cannot exist."""
    cell = matrix.cell_of(row, fault, kind, transport)
    return cell if isinstance(cell, matrix.Why) else [word.strip() for word in cell.split("|")]


def play(t, row, fault, kind, transport):
    t.is_traffic_judged = False  # lines end in the middle here
    t.grace_seconds = 10.0
    cell = Cell(t, row, fault, kind, transport)
    cell.wanted = wanted_of(row, fault, kind, transport)
    template(cell)
    cell.check(*HISTORIES[row.history](cell))


def register(row, fault, kind, transport):
    name = f"matrix_{row.name}_{fault}_{kind}_{transport}"

    @test("matrix", name, needs_hapax=True)
    def run(t):
        play(t, row, fault, kind, transport)


for _row in matrix.ROWS:
    for _fault in matrix.FAULTS:
        for _kind in matrix.CLASSES:
            for _transport in matrix.TRANSPORTS:
                if isinstance(wanted_of(_row, _fault, _kind, _transport), list):
                    register(_row, _fault, _kind, _transport)
