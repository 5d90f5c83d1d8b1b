# SPDX-License-Identifier: MIT
"""The outbox: what becomes of calls is told to a receiver, each thing at least once, in the order of
its operation, and nothing that did not happen. Names: outbox_...

The receiver of most tests is scripted here; that of the storm is the example that is shown to users.
Both check the signature by the example's own function.
"""

import http.server
import importlib.util
import json
import os
import random
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request

from kit import processes
from kit.harness import Failure, Skip
from rawclient import RawClient, stub
from webclient import Serve
from .way import Way, case, code

EXAMPLE = os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples", "outbox_consumer.py"
)
SPEC = importlib.util.spec_from_file_location("outbox_consumer", EXAMPLE)
sys.dont_write_bytecode = True
consumer = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(consumer)

QUICK = {"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
DIES = {"tools": {"charge": {"runs": [[{"exit": 1}]]}}}
SECRET = "a-secret-that-nobody-guesses"
TYPE = "dev.hapax.operation."
ENTERED = {
    "awaiting_approval", "input_required", "unknown", "succeeded", "failed", "cancelled", "expired",
}  # fmt: skip


def outbox(title):
    return case(title, None, suite="outbox", prefix="outbox_")


class Delivery:
    def __init__(self, headers, body, path):
        self.headers, self.body, self.path, self.at = headers, body, path, time.monotonic()
        self.event = json.loads(body)
        self.id, self.type = self.event["id"], self.event["type"].removeprefix(TYPE)
        self.operation = self.event["data"]["operation"]
        self.status = None


class Receiver:
    """`answer(delivery, n)` gives a status, or (status, headers), or None for: never answer."""

    def __init__(self, t, answer=lambda delivery, n: 204, port=0):
        self.t, self.answer, self.deliveries, self.reply = t, answer, [], b""
        self.lock, self.let_go = threading.Lock(), threading.Event()
        self.secret_file = t.path("secret")
        with open(self.secret_file, "w", encoding="utf-8") as file:
            file.write(SECRET + "\n")
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                receiver.handle(self)

            def log_message(self, *arguments):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.server.daemon_threads = True
        self.server.handle_error = lambda *arguments: None  # a client that was killed
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        t.at_end(self.close)

    def handle(self, handler):
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        delivery = Delivery(dict(handler.headers), body, handler.path)
        with self.lock:
            self.deliveries.append(delivery)
            n = len(self.deliveries)
        answer = self.answer(delivery, n)
        if answer is None:
            self.let_go.wait(30)
            handler.close_connection = True
            return
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        delivery.status = status
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(self.reply)))
        handler.end_headers()
        handler.wfile.write(self.reply)

    def taken(self):
        """The events that were answered with 2xx, each once, in the order in which they were."""
        seen = {}
        for one in list(self.deliveries):
            if one.status is not None and one.status < 300:
                seen.setdefault(one.id, one)
        return list(seen.values())

    def wait_taken(self, count, seconds=20.0):
        self.t.wait(lambda: len(self.taken()) >= count, f"{count} events", seconds)
        return self.taken()

    def options(self, *more):
        url = f"http://127.0.0.1:{self.port}/events"
        return (
            "--outbox-url", url, "--outbox-secret-file", self.secret_file, "--outbox-wait", "20ms",
            "--outbox-wait-max", "100ms", *more,
        )  # fmt: skip

    def close(self):
        self.let_go.set()
        self.server.shutdown()
        self.server.server_close()


def waiting(t):
    status, out, err = t.ops("outbox", "--json", "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops outbox ({err[-300:]!r})")
    return json.loads(out)


def ops(t, *words, status=0):
    got, out, err = t.ops(*words, "--ledger", t.ledger)
    t.equal(got, status, f"exit status of ops {' '.join(words)} ({out[-300:]!r} {err[-300:]!r})")
    return out.decode(), err.decode()


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def announced(t):
    """What the histories of the ledger say must have been told: per operation, in order."""
    expected = {}
    for op in t.operations():
        told = expected.setdefault(op["id"], [])
        for line in op["history"]:
            if line["what"] not in ("insert", "update", "spool") or line["from"] == line["to"]:
                continue
            if line["to"] in ENTERED:
                told.append(line["to"])
            elif line["to"] == "ready" and line["from"] == "awaiting_approval":
                told.append("approved")
            elif line["to"] == "ready" and line["from"] == "unknown":
                told.append("absent")
    return {ident: told for ident, told in expected.items() if told}


def by_operation(deliveries):
    found = {}
    for one in deliveries:
        found.setdefault(one.operation, []).append(one.type)
    return found


# What is told ---------------------------------------------------------------------------------------


@outbox("an_event_says_what_happened_and_no_more")
def says(t, w):
    receiver = Receiver(t)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(args={"card": "SENTINEL-4111"}, key="SENTINEL-key-1"))
    (one,) = receiver.wait_taken(1)
    (op,) = t.operations()
    event = one.event
    t.equal(event["specversion"], "1.0", "specversion")
    t.equal(event["type"], "dev.hapax.operation.succeeded", "type")
    t.equal(event["subject"], op["id"], "subject")
    t.true(event["source"].startswith("urn:uuid:"), f"source {event['source']}")
    t.true(event["time"].endswith("Z"), f"time {event['time']}")
    data = event["data"]
    t.equal(
        {name: data[name] for name in ("operation", "server", "tool", "state", "reason", "attempt")},
        {
            "operation": op["id"], "server": "e2e", "tool": "charge", "state": "succeeded",
            "reason": "answered", "attempt": 1,
        },
        "data",
    )  # fmt: skip
    t.true(data["created"] and data["settled"], "the times")
    t.equal(one.headers["Idempotency-Key"], one.id, "Idempotency-Key")
    t.equal(
        one.headers["Content-Type"], "application/cloudevents+json; charset=utf-8", "Content-Type"
    )
    everything = one.body.decode() + json.dumps(one.headers)
    t.true("SENTINEL" not in everything, "neither arguments nor keys")
    t.true("receipt" not in everything, "no results")


@outbox("the_signature_is_verified")
def signature(t, w):
    receiver = Receiver(t)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(key="key-1"))
    (one,) = receiver.wait_taken(1)
    secrets = consumer.read_secrets(receiver.secret_file)
    headers = {name.lower(): value for name, value in one.headers.items()}
    t.true(consumer.is_genuine(headers, one.body, secrets, time.time()), "a genuine one")
    t.true(not consumer.is_genuine(headers, one.body + b" ", secrets, time.time()), "changed")
    t.true(not consumer.is_genuine(headers, one.body, [b"x" * 28], time.time()), "other secret")
    t.true(not consumer.is_genuine(headers, one.body, secrets, time.time() + 400), "too old")
    other = {**headers, "webhook-id": "other"}
    t.true(not consumer.is_genuine(other, one.body, secrets, time.time()), "under another id")
    # Exchanged beside the running gateway: both sign, then only the new one.
    with open(receiver.secret_file, "w", encoding="utf-8") as file:
        file.write("whsec_MDEyMzQ1Njc4OWFiY2RlZg==\n" + SECRET + "\n")
    client.result(client.call(key="key-2"))
    two = receiver.wait_taken(2)[1]
    headers = {name.lower(): value for name, value in two.headers.items()}
    for known in ([b"0123456789abcdef"], [SECRET.encode()]):
        t.true(consumer.is_genuine(headers, two.body, known, time.time()), f"by {known}")


@outbox("what_waits_for_a_person_is_told")
def for_a_person(t, w):
    receiver = Receiver(t)
    client = w.client(
        QUICK, *receiver.options(), "--tool", "charge: approval='when: /n > 1'", "--join-wait", "1s"
    )
    result = client.result(client.call(args={"n": 2}, key="key-1"))
    t.equal(code(result), "APPROVAL_REQUIRED", "code")
    (asked,) = receiver.wait_taken(1)
    t.equal(asked.type, "awaiting_approval", "type")
    ops(t, "approve", asked.operation)
    client.result(client.call(args={"n": 2}, key="key-1"))
    told = [one.type for one in receiver.wait_taken(3)]
    t.equal(told, ["awaiting_approval", "approved", "succeeded"], "told")


@outbox("a_decision_of_hapax_ops_is_told")
def decided(t, w):
    """It is made by a process that is not set up for an outbox, and knows of it from the ledger."""
    receiver = Receiver(t)
    client = w.client(DIES, *receiver.options())
    client.result(client.call(key="key-1"))
    (first,) = receiver.wait_taken(1)
    t.equal((first.type, first.event["data"]["state"]), ("unknown", "unknown"), "first")
    ops(t, "resolve", first.operation, "again")
    second = receiver.wait_taken(2)[1]
    t.equal((second.type, second.operation), ("resolved", first.operation), "second")
    t.equal(second.event["data"]["reason"], "superseded", "reason")


@outbox("serve_tells_and_counts")
def serves(t, w):
    receiver = Receiver(t)
    config = t.path("hapax.yaml")
    command = stub(t, QUICK)
    with open(config, "w", encoding="utf-8") as file:
        file.write(
            f"ledger: {t.ledger}\noutbox_url: http://127.0.0.1:{receiver.port}/\n"
            f"outbox_secret_file: {receiver.secret_file}\n"
            f"upstreams:\n  e2e:\n    command: {command[0]}\n    args: {json.dumps(command[1:])}\n"
        )
    serve = Serve(t, [], config=config)
    client = serve.client()
    client.call("e2e_charge", {"n": 1}, key="0190a0a0-0000-7000-8000-00000000e001").result()
    receiver.wait_taken(1)

    def metrics():
        with urllib.request.urlopen(f"http://127.0.0.1:{serve.port}/metrics") as page:
            return page.read().decode()

    t.wait(lambda: "hapax_outbox_delivered_total 1" in metrics(), "the counter")
    t.true("hapax_outbox_is_publisher 1" in metrics(), "the publisher")
    t.true("hapax_outbox_parked 0" in metrics(), "parked")


@outbox("a_careless_one_is_warned_of")
def careless(t, w):
    config = t.path("hapax.yaml")
    here = ("127.0.0.1:9", "127.9.9.9", "localhost", "LOCALHOST:80", "[::1]:80")
    elsewhere = ("hooks.example", "localhost.hooks.example", "127.0.0.1.hooks.example", "[::2]")
    for host in (*here, *elsewhere):
        with open(config, "w", encoding="utf-8") as file:
            file.write(f'outbox_url: "http://{host}/x"\nupstreams:\n  a: {{command: cat}}\n')
        status, _, err = t.hapax("check", "--config", config)
        t.equal(status, 0, f"exit status of check: {err}")
        t.equal(b"in the clear" in err, host in elsewhere, f"{host}: {err}")
        t.true(b"not signed" in err, f"warnings: {err}")
    status, _, err = t.hapax("run", *("--ledger", t.ledger), "--outbox-url", "http://127.0.0.1:1/",
                             "--outbox-secret-file", t.path("none"), "--", "cat")  # fmt: skip
    t.true(status != 0 and b"no secret file" in err, f"{status}: {err}")


# Receivers that misbehave ---------------------------------------------------------------------------


@outbox("a_receiver_that_is_down_is_waited_for")
def down(t, w):
    receiver = Receiver(t)
    port = receiver.port
    receiver.close()
    client = w.client(QUICK, *receiver.options())
    for n in range(3):
        client.result(client.call(args={"n": n}, key=f"key-{n}"))
    t.wait(lambda: max(one["tries"] for one in waiting(t)["events"]) >= 2, "two tries")
    t.true("connect" in waiting(t)["events"][0]["error"], f"the error: {waiting(t)}")
    again = Receiver(t, port=port)
    taken = again.wait_taken(3)
    t.equal(by_operation(taken), announced(t), "told")
    t.wait(lambda: waiting(t)["pending"] == 0, "nothing to wait")


@outbox("an_error_is_tried_again_and_nothing_overtakes")
def errors(t, w):
    """The first event of the operation is refused four times; the second must not come before."""
    refused = []

    def answer(delivery, n):
        if delivery.type == "unknown" and len(refused) < 4:
            refused.append(delivery.id)
            return 500
        return 200

    receiver = Receiver(t, answer)
    client = w.client(DIES, *receiver.options())
    client.result(client.call(key="key-1"))
    t.wait(lambda: refused, "the first try")
    (op,) = t.operations()
    ops(t, "resolve", op["id"], "happened")
    taken = receiver.wait_taken(2)
    t.equal([one.type for one in taken], ["unknown", "succeeded"], "the order")
    t.wait(lambda: waiting(t)["pending"] == 0, "the notes")
    shown = json.loads(ops(t, "show", op["id"], "--json")[0])["events"]
    t.equal([(one["id"], one["place"]) for one in shown],
            [(one.id, "delivered") for one in taken], "ops show")  # fmt: skip
    out, _ = ops(t, "show", op["id"])
    t.true("unknown (event " in out and "delivered)" in out, out)
    t.equal(len(set(refused)), 1, "the same id with every try")
    t.equal(taken[0].id, refused[0], "and at last")
    before = [one.type for one in receiver.deliveries][:5]
    t.equal(before, ["unknown"] * 5, "nothing came between the tries")


@outbox("retry_after_is_kept")
def retry_after(t, w):
    receiver = Receiver(t, lambda delivery, n: (503, {"Retry-After": "2"}) if n == 1 else 204)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(key="key-1"))
    t.wait(lambda: receiver.deliveries, "the first try")
    client.result(client.call(args={"n": 2}, key="key-2"))  # and no other event meanwhile
    receiver.wait_taken(2)
    pause = receiver.deliveries[1].at - receiver.deliveries[0].at
    t.true(1.95 <= pause < 10, f"two seconds, not {pause:.2f}")


@outbox("a_long_reply_is_a_reply")
def long_reply(t, w):
    """2xx is what counts; a page of words behind it is not read, and costs no second delivery."""
    receiver = Receiver(t, lambda delivery, n: 200)
    receiver.reply = b"w" * (1 << 20)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(key="key-1"))
    t.wait(lambda: receiver.deliveries and waiting(t)["pending"] == 0, "it to be delivered")
    t.equal(len(receiver.deliveries), 1, "deliveries")


@outbox("one_try_is_one_connection")
def one_connection(t, w):
    """Who cannot be spoken to is left alone until the next try."""
    place = socket.create_server(("127.0.0.1", 0))
    place.settimeout(60)
    came = []

    def refuse():
        while True:
            try:
                place.accept()[0].close()
            except OSError:
                return
            came.append(time.monotonic())

    threading.Thread(target=refuse, daemon=True).start()
    t.at_end(place.close)
    url = f"https://127.0.0.1:{place.getsockname()[1]}/"
    client = w.client(QUICK, "--outbox-url", url, "--outbox-wait", "1h")
    client.result(client.call(key="key-1"))
    t.wait(lambda: any(one["tries"] for one in waiting(t)["events"]), "the first try")
    t.equal(len(came), 1, "connections")


@outbox("a_slow_receiver_slows_no_call")
def slow(t, w):
    receiver = Receiver(t, lambda delivery, n: None if n <= 8 else 204)
    # No try is given up while the calls run, however long they take.
    client = w.client(QUICK, *receiver.options("--outbox-timeout", "30s"))
    client.result(client.call(key="key-0"))
    t.wait(lambda: receiver.deliveries, "the first event")
    begin = t.clock()
    for n in range(1, 40):
        client.result(client.call(args={"n": n}, key=f"key-{n}"))
    t.true(t.clock() - begin < 25, "forty calls beside a receiver that says nothing")
    t.true(len(receiver.deliveries) <= 8, "a bounded number on their way")
    receiver.let_go.set()  # their connections end without an answer
    taken = receiver.wait_taken(40, 60)
    t.equal(by_operation(taken), announced(t), "told")
    ids = [one.id for one in receiver.deliveries]
    t.true(all(ids.count(ident) >= 2 for ident in ids[:8]), "what was not answered came again")


@outbox("redirects_are_not_followed")
def redirects(t, w):
    elsewhere = []

    def answer(delivery, n):
        if delivery.path != "/events":
            elsewhere.append(delivery.path)
        return (307, {"Location": "/elsewhere"}) if n <= 2 else 204

    receiver = Receiver(t, answer)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(key="key-1"))
    receiver.wait_taken(1)
    t.equal(elsewhere, [], "requests elsewhere")
    t.equal(len(receiver.deliveries), 3, "tries")


@outbox("parked_after_twenty_tries_and_driven_again")
def parked(t, w):
    is_up = threading.Event()
    receiver = Receiver(t, lambda delivery, n: 204 if is_up.is_set() else 500)
    client = w.client(DIES, *receiver.options("--outbox-wait", "1ms", "--outbox-wait-max", "5ms"))
    client.result(client.call(key="key-1"))
    t.wait(lambda: waiting(t)["parked"] == 1, "it to be parked", 40)
    t.equal(len(receiver.deliveries), 20, "tries")
    (op,) = t.operations()
    ops(t, "resolve", op["id"], "happened")
    t.wait(lambda: waiting(t)["pending"] == 1, "the next event")
    listed = waiting(t)["events"]
    t.equal([(one["type"], one["place"]) for one in listed],
            [("unknown", "parked"), ("succeeded", "pending")], "listed")  # fmt: skip
    t.equal(listed[0]["error"], "the receiver answered 500", "the error")
    out, _ = ops(t, "outbox")
    t.true("1 waiting, 1 parked" in out and "a running Hapax publishes" in out, out)
    out, _ = ops(t, "list")
    t.true("1 events waiting, 1 parked" in out, f"ops list says it too: {out}")
    out, _ = ops(t, "outbox", listed[0]["id"][-8:])
    t.true("tried 20 times" in out and "--again" in out, out)
    client.result(client.call(args={"n": 2}, key="key-2"))
    t.wait(lambda: waiting(t)["parked"] == 2, "another one to be parked", 40)
    t.equal(receiver.taken(), [], "what waits behind a parked one waits")
    is_up.set()
    out, _ = ops(t, "outbox", "--again", "--parked")
    t.true("2 to be tried again" in out, out)
    taken = receiver.wait_taken(3)
    t.equal(by_operation(taken), announced(t), "told, in order")
    t.wait(lambda: waiting(t)["pending"] == 0, "nothing to wait")
    ops(t, "outbox", "--again", taken[0].id, status=1)
    everything = json.loads(ops(t, "outbox", "--all", "--json")[0])["events"]
    t.equal({one["place"] for one in everything}, {"delivered"}, "places")


@outbox("what_waits_is_not_hidden_by_what_is_over")
def limited(t, w):
    is_down = threading.Event()
    receiver = Receiver(t, lambda delivery, n: 500 if is_down.is_set() else 204)
    client = w.client(QUICK, *receiver.options())
    client.result(client.call(args={"n": 1}, key="key-1"))
    receiver.wait_taken(1)
    t.wait(lambda: waiting(t)["pending"] == 0, "it to be noted as delivered")
    is_down.set()
    client.result(client.call(args={"n": 2}, key="key-2"))
    t.wait(lambda: waiting(t)["pending"] == 1, "the one that waits")
    for limit, places in ((1, ["pending"]), (2, ["pending", "delivered"])):
        listed = json.loads(ops(t, "outbox", "--all", "--limit", str(limit), "--json")[0])["events"]
        t.equal([one["place"] for one in listed], places, f"with --limit {limit}")


@outbox("what_is_dropped_lets_the_next_one_go")
def dropped(t, w):
    receiver = Receiver(t, lambda delivery, n: 500 if delivery.type == "unknown" else 204)
    client = w.client(DIES, *receiver.options())
    client.result(client.call(key="key-1"))
    t.wait(lambda: receiver.deliveries, "a try")
    (op,) = t.operations()
    ops(t, "resolve", op["id"], "happened")
    (first, _) = waiting(t)["events"]
    ops(t, "outbox", "--drop", first["id"], status=2)  # without a reason
    ops(t, "outbox", "--drop", first["id"], "--note", "entered by hand")
    (one,) = receiver.wait_taken(1)
    t.equal(one.type, "succeeded", "the next one")
    out, _ = ops(t, "outbox", first["id"])
    t.true("dropped" in out and "entered by hand" in out, out)
    ops(t, "outbox", "--end", "--note", "not while it runs", status=1)
    client.close_stdin()
    client.process.wait(15)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    ops(t, "outbox", "--end", "--note", "no receiver any more")
    out, _ = ops(t, "outbox")
    t.true("has no outbox" in out, out)


# Processes that die --------------------------------------------------------------------------------


def needs_crash_points(t, w):
    status, out, err = t.hapax("reaper", "--help")
    probe = RawClient(
        t, w.argv(QUICK, ledger=t.path("probe")), env={**t.env, "HAPAX_CRASH_AT": "insert-half"}
    )
    probe.initialize()
    probe.call(key="probe")
    try:
        probe.wait_eof(5)
    except Failure:
        raise Skip("built without -Dcrash_points=true") from None


@outbox("killed_between_publishing_and_noting_it")
def between(t, w):
    """The receiver has it and we do not know: it comes again, under the same id."""
    needs_crash_points(t, w)
    receiver = Receiver(t)
    argv = w.argv(QUICK, *receiver.options())
    client = RawClient(t, argv, env={**t.env, "HAPAX_CRASH_AT": "event-sent"})
    client.initialize()
    client.call(key="key-1")
    client.wait_eof(10)
    t.equal(len(receiver.deliveries), 1, "it was published")
    t.equal(waiting(t)["pending"], 1, "and not noted")
    RawClient(t, argv).initialize()
    t.wait(lambda: len(receiver.deliveries) == 2, "it to come again")
    first, second = receiver.deliveries
    t.equal(second.id, first.id, "the id")
    t.equal(second.body, first.body, "the event")
    t.wait(lambda: waiting(t)["pending"] == 0, "the note")


@outbox("one_publishes_and_another_takes_over")
def takes_over(t, w):
    """Two processes on one ledger and a third that is set up without an outbox. The one that
    publishes is killed while the receiver is down.
    """
    is_up = threading.Event()
    receiver = Receiver(t, lambda delivery, n: 204 if is_up.is_set() else 500)
    first = w.client(QUICK, *receiver.options(), name="first")
    keeper = w.keeper(first)  # while there is only this one
    second = w.client(QUICK, *receiver.options(), name="second")
    plain = w.client(QUICK, name="plain")
    for n, client in enumerate((first, second, plain)):
        client.result(client.call(args={"n": n}, key=f"key-{n}"))
    t.wait(lambda: len({one.id for one in receiver.deliveries}) == 3, "all three to be tried")
    with sqlite3.connect(f"file:{t.database()}?mode=ro", uri=True) as reader:
        ((token,),) = reader.execute("SELECT hex(outbox_publisher) FROM ledger").fetchall()
    processes.kill(keeper, t.surroundings.hapax)
    first.wait_eof(5)
    is_up.set()
    taken = receiver.wait_taken(3)
    t.equal(by_operation(taken), announced(t), "told")
    with sqlite3.connect(f"file:{t.database()}?mode=ro", uri=True) as reader:
        ((other,),) = reader.execute("SELECT hex(outbox_publisher) FROM ledger").fetchall()
    t.true(token and other and token != other, f"publishers {token}, then {other}")


@outbox("the_last_event_leaves_with_its_process")
def leaves(t, w):
    """A client that asks once and goes: its event is published before the keeper ends."""
    receiver = Receiver(t)
    # The bound counts from the end of input, and the server may not have started by then.
    client = w.client(QUICK, *receiver.options(), orphan="20s")
    client.call(key="key-1")
    client.close_stdin()
    client.process.wait(30)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    t.equal([one.type for one in receiver.taken()], ["succeeded"], "told")
    t.equal(waiting(t)["pending"], 0, "and noted")


class Example:
    """The consumer that users are shown, as a process that may be killed."""

    def __init__(self, t, secret_file):
        self.t, self.port, self.process = t, free_port(), None
        self.argv = [
            sys.executable, EXAMPLE, "--port", str(self.port), "--secret-file", secret_file,
            "--database", t.path("seen.db"),
        ]  # fmt: skip
        self.start()
        t.at_end(self.kill)

    def start(self):
        self.process = subprocess.Popen(self.argv, env=self.t.env, stdout=subprocess.PIPE)
        if b"listening" not in self.process.stdout.readline():
            raise Failure("the consumer does not start")

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def events(self):
        with sqlite3.connect(self.t.path("seen.db")) as reader:
            rows = reader.execute("SELECT operation, type, id FROM event ORDER BY place").fetchall()
            ((repeats,),) = reader.execute("SELECT count(*) FROM repeat").fetchall()
        return rows, repeats


@outbox("storm")
def storm(t, w):
    """A thousand transitions, the gateway and the receiver killed at random: what the receiver has,
    each event once, is exactly what the ledger says has happened.
    """
    rng = random.Random(20261130)
    secret_file = t.path("secret")
    with open(secret_file, "w", encoding="utf-8") as file:
        file.write(SECRET + "\n")
    example = Example(t, secret_file)
    script = {"tools": {"charge": {}, "slow": {"runs": [[{"sleep": 40}, {"text": "$RECEIPT"}]]}}}
    argv = w.argv(
        script, "--outbox-url", f"http://127.0.0.1:{example.port}/", "--outbox-secret-file",
        secret_file, "--outbox-wait", "20ms", "--outbox-wait-max", "200ms", "--outbox-timeout", "2s",
    )  # fmt: skip
    lives = kills = calls = 0
    while sum(len(told) for told in announced(t).values()) < 1000 if lives % 4 == 0 and lives else True:
        client = RawClient(t, argv, name=f"life-{lives}")
        client.initialize()
        lives += 1
        asked = []
        for _ in range(rng.randrange(40, 90)):
            calls += 1
            tool = "slow" if calls % 5 == 0 else "charge"
            asked.append(client.call(tool, {"n": calls}, key=f"key-{calls}"))
        wanted = rng.randrange(len(asked))
        t.wait(lambda: client.answers(asked[wanted]) or client.ended, "an answer", 60)
        if rng.randrange(3) == 0:
            example.kill()
            example.start()
        keepers = processes.Family(t.mark, t.surroundings.hapax, t.ledger, client.pid).keepers
        processes.kill(keepers[0], t.surroundings.hapax)
        kills += 1
        client.wait_eof(10)
        t.true(lives < 60, "sixty lives and no thousand transitions")
    last = RawClient(t, argv, name="last")
    last.initialize()
    # Rows whose owner died are settled at the start, one by one.
    t.wait(
        lambda: not any(op["execution"] == "running" for op in t.operations()), "all to be settled", 60
    )

    def is_told():
        here = waiting(t)
        if here["parked"]:  # the receiver was away for twenty tries
            ops(t, "outbox", "--again", "--parked")
        return here["pending"] == 0 and here["parked"] == 0

    t.wait(is_told, "nothing to wait", 60)
    last.close_stdin()
    last.process.wait(15)
    expected = announced(t)
    rows, repeats = example.events()
    got = {}
    for operation, kind, _ in rows:
        got.setdefault(operation, []).append(kind.removeprefix(TYPE))
    total = sum(len(told) for told in expected.values())
    t.true(total >= 1000, f"{total} transitions")
    missing = {op: told for op, told in expected.items() if got.get(op) != told}
    t.equal(missing, {}, "operations of which something else was told")
    t.equal(len(rows), total, "and nothing else was")
    unknown = sum(told.count("unknown") for told in expected.values())
    t.true(unknown > 0, "calls in hand when it was killed")
    t.note = f"{total} transitions, {unknown} unknown, {kills} kills, {repeats} repeats"
