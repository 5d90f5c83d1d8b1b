# SPDX-License-Identifier: MIT
"""`hapax serve`: clients over Streamable HTTP before a stub over stdio, or before one over HTTP."""

import concurrent.futures
import hashlib
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import time

from kit import processes
from kit.harness import Failure, Skip, test
from rawclient import stub
from webclient import Serve, WebClient
from .http_upstream import ANSWER, Site
from .way import assert_unknown, code, operation, without_ours

RELEASED = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
QUICK = {"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
KEY = "0190a0a0-0000-7000-8000-00000000e0"


def serve(title):
    return test("serve", "serve_" + title, needs_hapax=True)


def before_stub(t, script, *options, is_read=True):
    words = ["--", *stub(t, script)]
    return Serve(t, words, "--orphan-timeout", "1s", *options, is_read=is_read)


def before_site(t, site, *options):
    return Serve(
        t, [f"http://127.0.0.1:{site.port}/mcp"], "--name", "e2e", "--orphan-timeout", "1s", *options
    )


@serve("a_call_and_its_replay")
def replay(t):
    client = before_stub(t, QUICK).client()
    results = [client.call(args={"n": 1}, key=KEY + "01").result() for _ in range(2)]
    t.equal(without_ours(results[0]), without_ours(results[1]), "replay")
    t.equal(operation(results[1])["replayed"], True, "replayed")
    t.equal(len(t.effects()), 1, "effects")


@serve("timeout_cancel_retry")
def timeout_cancel_retry(t):
    client = before_stub(t, RELEASED).client()
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    client.cancel(first, "McpError: MCP error -32001: Request timed out")
    second = client.call(args={"n": 1})
    t.wait_repeats(1)
    t.touch("release")
    t.true("receipt" in str(second.result()), "the real result")
    t.equal(len(t.effects()), 1, "effects")


@serve("retry_overtakes_its_cancel")
def overtaken_cancel(t):
    """HTTP has no order between requests: the retry may come before the cancel of the first."""
    client = before_stub(t, RELEASED).client()
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    begin = t.clock()
    t.wait(lambda: t.clock() - begin > 0.6, "the overlap of 500 ms to pass")
    second = client.call(args={"n": 1})
    t.wait_repeats(1)
    client.cancel(first, "McpError: MCP error -32001: Request timed out")
    t.touch("release")
    t.true("receipt" in str(second.result()), "the real result")
    t.equal(len(t.effects()), 1, "effects")


@serve("client_leaves_and_retries")
def client_leaves(t):
    """A connection that ends is no cancel; the call goes on, and the retry joins it."""
    client = before_stub(t, RELEASED).client()
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    first.close()
    second = client.call(args={"n": 1})
    t.wait_repeats(1)
    t.touch("release")
    t.true("receipt" in str(second.result()), "the real result")
    t.equal(len(t.effects()), 1, "effects")


@serve("answer_lost_with_its_connection")
def answer_lost(t):
    """The call ended while nobody listened: a new session's equal call gets its result."""
    running = before_stub(t, RELEASED)
    first = running.client().call(args={"n": 1})
    t.wait_effects(1)
    first.close()
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the end of the call")
    result = running.client().call(args={"n": 1}).result()
    t.equal(operation(result)["replayed"], True, "replayed")
    t.equal(len(t.effects()), 1, "effects")


@serve("two_wanted_are_two")
def two_wanted(t):
    client = before_stub(t, QUICK).client()
    for _ in range(2):
        client.call(args={"n": 1}).result()
    t.equal(len(t.effects()), 2, "effects")


@serve("fifty_keyed_calls_on_fifty_connections")
def fifty(t):
    running = before_stub(t, RELEASED, "--join-wait", "30s")
    clients = [running.client() for _ in range(5)]
    calls = [clients[n % 5].call(args={"n": 1}, key=KEY + "02") for n in range(50)]
    t.wait_repeats(49)
    t.touch("release")
    with concurrent.futures.ThreadPoolExecutor(50) as pool:
        results = [without_ours(result) for result in pool.map(lambda call: call.result(), calls)]
    t.equal(len({json.dumps(result) for result in results}), 1, "different answers")
    t.equal(len(t.effects()), 1, "effects")


@serve("a_key_in_each_of_its_places")
def key_places(t):
    client = before_stub(t, QUICK, "--key-argument", "/k").client()
    ways = [
        {"key": "place-1"},
        {"idempotencyKey": "place-2"},
        {"headers": [("Idempotency-Key", '"place-3"')]},
        {"headers": [("Idempotency-Key", "place-4")]},
        {"args": {"k": "place-5"}},
    ]
    for way in ways:
        results = [client.call(**way).result() for _ in range(2)]
        t.equal(operation(results[1])["replayed"], True, f"replayed with {way}")
    t.equal(len(t.effects()), len(ways), "effects")
    wrong = [
        {"key": "a", "headers": [("Idempotency-Key", "b")]},
        {"key": "a", "idempotencyKey": "b"},
        {"headers": [("Idempotency-Key", "a"), ("Idempotency-Key", "a")]},
    ]
    for way in wrong:
        answer = client.call(**way).answer()
        t.true("KEY_INVALID" in json.dumps(answer), f"two that disagree: {answer}")
    t.equal(len(t.effects()), len(ways), "effects after the refusals")


@serve("killed_in_a_call_and_restarted")
def killed(t):
    """Nothing knows the outcome: unknown, in the session that the client still has."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1}, key=KEY + "03")
    t.wait_effects(1)
    running.kill()
    t.touch("release")
    running.start()
    told = client.call(args={"n": 1}, key=KEY + "03").result()
    first.close()
    assert_unknown(t, told, "the answer")
    t.equal(len(t.effects()), 1, "effects")


@serve("a_restart_loses_no_session")
def session_kept(t):
    running = before_stub(t, QUICK)
    client = running.client()
    before = client.call(args={"n": 1}, key=KEY + "04").result()
    running.kill()
    running.start()
    again = client.call(args={"n": 1}, key=KEY + "04").result()
    t.equal(without_ours(before), without_ours(again), "replay")
    client.call(args={"n": 2}).result()
    t.equal(len(t.effects()), 2, "effects")
    t.equal(client.delete().head(), 200, "DELETE")
    t.equal(client.request("tools/list").head(), 404, "after DELETE")
    running.kill()
    running.start()
    t.equal(client.request("tools/list").head(), 404, "after DELETE and a restart")


@serve("stream_asked_for_again_after_a_restart")
def stream_after_restart(t):
    """The client was told an event id; the process that told it is killed after the outcome."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1})
    event_id = first.wait_event_id()
    first.close()
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the end of the call")
    running.kill()
    running.start()
    stream = client.get(event_id)
    answer = stream.answer()
    t.equal(answer["id"], first.request_id, "the id that the client used")
    t.true("receipt" in str(answer["result"]), f"the real result: {answer}")
    t.equal(len(t.effects()), 1, "effects")


@serve("stream_asked_for_again")
def stream_again(t):
    """The connection ends, Hapax lives on: GET brings what is still to come."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1})
    event_id = first.wait_event_id()
    first.close()
    stream = client.get(event_id)
    t.touch("release")
    t.true("receipt" in str(stream.result()), "the real result")
    t.equal(len(t.effects()), 1, "effects")


@serve("unread_answer_is_fetched_after_all")
def fetched_after_all(t):
    """The answer was written and never read; its client comes back for it by GET. Then it is
    delivered, and an equal call is another one."""
    client = before_stub(t, RELEASED).client()
    first = client.call(args={"n": 1})
    event_id = first.wait_event_id()
    t.touch("release")
    t.wait(lambda: t.operations()[0]["delivery"] == "sent", "the answer to be written")
    first.reset()
    t.wait(lambda: t.operations()[0]["delivery"] == "lost", "the answer to be taken back")
    t.true("receipt" in str(client.get(event_id).result()), "the real result")
    t.wait(lambda: t.operations()[0]["delivery"] == "sent", "the answer to be read")
    t.true("replayed" not in str(client.call(args={"n": 1}).result()["content"]), "a new call")
    t.equal(len(t.effects()), 2, "effects")


@serve("unread_answer_is_taken_back_after_its_session")
def taken_back_later(t):
    """The answer was written, the session is ended, and then the connection of the answer breaks:
    nobody has read it, and an equal call is the repeat of it. At one server and at all of them."""
    running = Serve(t, [], config=write_config(t, [upstream(t, "bank", QUICK), upstream(t, "mail", QUICK)]))

    def delivery(server):
        return [one["delivery"] for one in t.operations() if one["server"] == server]

    for n, (path, server, tool) in enumerate((("/mcp/bank", "bank", "charge"), ("/mcp", "mail", "mail_charge"))):
        client = running.client(path=path)
        first = client.call(tool, {"n": n})
        first.conn.recv(1, socket.MSG_PEEK)  # it is there, and stays unread
        t.equal(client.delete().head(), 200, f"DELETE at {path}")
        first.reset()
        t.wait(lambda at=server: delivery(at) == ["lost"], f"the answer at {path} to be taken back")
        again = running.client(path=path).call(tool, {"n": n}).result()
        t.true(operation(again)["replayed"], f"the repeat at {path}: {again}")
        t.equal(len(t.effects()), n + 1, f"effects after {path}")


@serve("upstream_killed_in_a_call")
def upstream_killed(t):
    client = before_stub(t, RELEASED).client()
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    assert_unknown(t, first.result(), "the answer")
    t.equal(len(t.effects()), 1, "effects")


@serve("http_upstream_with_event_ids_killed_and_restarted")
def stream_of_upstream(t):
    """SIGKILL of Hapax in a call: the upstream's stream is taken up, never the call made again."""
    later, point = ANSWER.replace("$ID", "2"), "resume-point-4711"
    steps = [{"sse": {}}, {"text": f"id: {point}\nretry: 10\ndata: \n\n"}, {"wait": "never"}]
    again = [{"sse": {}}, {"wait": "release"}, {"text": f"id: e2\ndata: {later}\n\n"}, {"end": True}]
    # Steps in the arguments would bring the id into the ledger with the call.
    script = {"methods": {"tools/call": steps}, "get": {point: again, "": [{"status": [405]}]}}
    site = Site(t).serve({"session": "s1", **script})
    running = before_site(t, site)
    client = running.client()
    first = client.call(args={"n": 0})
    t.wait(lambda: site.effects() == 1, "the effect")
    t.wait(lambda: t.is_in_ledger(point.encode()), "the resume point to be kept")
    running.kill()
    first.close()
    running.start()
    retry = client.call(args={"n": 0})
    wanted = f'"last-event-id": "{point}"'.encode()
    gets = lambda: [line for line in t.lines("site/requests") if wanted in line]
    t.wait(gets, "a GET for the stream")
    t.touch("site/release")
    t.true("receipt 1" in str(retry.result()), "the real result")
    t.equal(site.effects(), 1, "effects")


@serve("http_upstream_without_event_ids_killed_and_restarted")
def no_stream_of_upstream(t):
    site = Site(t).serve({"session": "s1"})
    running = before_site(t, site)
    client = running.client()
    steps = [{"wait": "never"}]
    first = client.call(args={"steps": steps, "n": 0})
    t.wait(lambda: site.effects() == 1, "the effect")
    running.kill()
    first.close()
    running.start()
    told = client.call(args={"steps": steps, "n": 0}).result()
    assert_unknown(t, told, "the answer")
    t.equal(site.effects(), 1, "effects")


def write_config(t, upstreams, tokens=(), more=""):
    path = t.path("hapax.yaml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"ledger: {t.ledger}\nlisten: 127.0.0.1:0\n{more}")
        if tokens:
            file.write("tokens:\n" + "".join(tokens))
        file.write("upstreams:\n" + "".join(upstreams))
    return path


def upstream(t, name, script, more=""):
    command, *args = (json.dumps(word) for word in stub(t, script))
    words = ", ".join(args)
    return f"  {name}:\n    command: {command}\n    args: [{words}]\n    orphan_timeout: 1s\n{more}"


def token(name, secret, principal, more=""):
    digest = hashlib.sha256(secret.encode()).hexdigest()
    return f"  {name}:\n    sha256: {digest}\n    principal: {principal}\n    tenant: acme\n{more}"


def is_cut_off(run):
    """Whether it has no answer and is not left to wait either."""
    try:
        run()
    except (Failure, ConnectionError):
        return True
    return False


@serve("nobody_reads_what_it_says")
def unread(t):
    """The log goes to standard error, a pipe that is full."""
    client = before_stub(t, {"tools": {"charge": {}}}, "--log-level", "debug", is_read=False).client()
    for n in range(40):
        client.call(args={"n": n}).result()
    t.equal(len(t.effects()), 40, "effects")


@serve("no_server_can_be_begun")
def none_begun(t):
    """A file of headers that is not there for a moment: no session of all servers, new or of before,
    is left behind with nobody in it.
    """
    site, headers = Site(t).serve(), t.path("headers")

    def allow():
        with open(headers, "w", encoding="utf-8") as file:
            file.write("X-Token: 1\n")

    allow()
    entry = f"    url: http://127.0.0.1:{site.port}/mcp\n    headers_file: {headers}\n"
    servers = [f"  bank:\n{entry}    affinity: shared\n", f"  mail:\n{entry}"]
    running = Serve(t, [], config=write_config(t, servers, (), "limits:\n  sessions: 3\n"))
    kept = running.client()
    running.term()
    running.start()
    os.remove(headers)
    for path in ("/mcp", "/mcp/bank", "/mcp", "/mcp", "/mcp"):
        t.true(is_cut_off(lambda: running.client(path=path)), f"{path} without a server")
    t.true(is_cut_off(lambda: kept.request("tools/list").result()), "the session of before")
    t.equal(kept.delete().head(), 404, "it is over")
    allow()
    args = {"n": 1, "steps": [{"json": ANSWER}]}
    t.true("receipt" in str(running.client().call("bank_charge", args=args).result()), "later")
    t.equal(running.term(), 0, "exit status")


@serve("tokens_and_principals")
def tokens(t):
    """401 without a token; another principal's session is not there; a replay is not for others."""
    config = write_config(
        t,
        [upstream(t, "bank", QUICK), upstream(t, "mail", QUICK)],
        [
            token("one", "hpx_one", "ann", "    servers: [bank]\n"),
            token("two", "hpx_two", "bob"),
        ],
    )
    running = Serve(t, [], config=config)
    nobody = WebClient(running, path="/mcp/bank")
    refused = nobody.request("initialize", {})
    t.equal(refused.head(), 401, "without a token")
    t.true("bearer" in refused.headers.get("www-authenticate", "").lower(), "WWW-Authenticate")
    t.equal(WebClient(running, path="/mcp/bank", token="hpx_x").request("ping").head(), 401, "wrong")
    ann = running.client(path="/mcp/bank", token="hpx_one")
    bob = running.client(path="/mcp/bank", token="hpx_two")
    first = ann.call(args={"n": 1}, key=KEY + "05").result()
    t.equal(WebClient(running, "/mcp/mail", "hpx_one").request("ping").head(), 404, "other server")
    thief = WebClient(running, "/mcp/bank", "hpx_two")
    thief.session = ann.session
    t.equal(thief.request("tools/list").head(), 404, "another principal's session")
    told = bob.call(args={"n": 1}, key=KEY + "05").answer()
    t.true("receipt" not in str(told), f"another principal's result: {told}")
    t.true("KEY_CONFLICT" in json.dumps(told), f"the same key of another principal: {told}")
    t.equal(len(t.effects()), 1, "effects")
    t.true("receipt" in str(first), "the first result")


@serve("affinity")
def affinity(t):
    """One process for each session, for each principal, or for all."""
    for how, wanted in (("session", 3), ("principal", 2), ("shared", 1)):
        for name in ("starts", "effects"):
            if os.path.exists(t.path(name)):
                os.unlink(t.path(name))
        config = write_config(
            t,
            [upstream(t, "bank", QUICK, f"    affinity: {how}\n")],
            [token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")],
        )
        running = Serve(t, [], config=config)
        clients = [
            running.client(path="/mcp/bank", token=secret)
            for secret in ("hpx_one", "hpx_one", "hpx_two")
        ]
        for n, client in enumerate(clients):
            t.true("receipt" in str(client.call(args={"n": f"{how} {n}"}).result()), "a result")
        t.equal(len(t.lines("starts")), wanted, f"processes with affinity {how}")
        t.equal(running.term(), 0, "exit status")


@serve("equal_calls_of_two_sessions_over_one_process")
def shared_join(t):
    config = write_config(t, [upstream(t, "bank", RELEASED, "    affinity: shared\n")])
    running = Serve(t, [], config=config)
    calls = [
        running.client(path="/mcp/bank").call(args={"n": 1}, key=KEY + "06") for _ in range(2)
    ]
    t.wait_repeats(1)
    t.touch("release")
    results = [without_ours(call.result()) for call in calls]
    t.equal(results[0], results[1], "answers")
    t.equal(len(t.effects()), 1, "effects")


@serve("what_is_said_of_a_call_stays_with_its_principal")
def shared_progress(t):
    """Two principals over one process use the same progress token: neither hears of the other's
    call."""
    look = {
        "listing": {"annotations": {"readOnlyHint": True}},
        "runs": [[{"wait": "release"}, {"text": "one"}], [{"progress": 2}, {"text": "two"}]],
    }
    config = write_config(
        t,
        [upstream(t, "bank", {"tools": {"look": look}}, "    affinity: shared\n")],
        [token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")],
    )
    running = Serve(t, [], config=config)
    ann, bob = (running.client(path="/mcp/bank", token=secret) for secret in ("hpx_one", "hpx_two"))
    ann.request("tools/list", {}).result()
    first = ann.call("look", meta={"progressToken": 1})
    t.wait(lambda: [one for one in t.lines("received") if b'"look"' in one], "ann's call")
    t.equal(bob.call("look", meta={"progressToken": 1}).result()["content"][0]["text"], "two", "bob")
    t.touch("release")
    t.equal(first.result()["content"][0]["text"], "one", "ann")
    t.equal([one for one in ann.others if "progress" in one["method"]], [], "what ann heard")


@serve("drains_on_term")
def drains(t):
    """What is in flight is answered; nothing new is taken; then it ends."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1})
    t.wait_effects(1)
    running.process.terminate()
    t.touch("release")
    t.true("receipt" in str(first.result()), "the answer in flight")
    t.equal(running.process.wait(20), 0, "exit status")


def listens(running):
    try:
        socket.create_connection(("127.0.0.1", running.port), 5).close()
    except ConnectionRefusedError:
        return False
    return True


@serve("what_waits_for_its_session_in_a_drain_is_refused")
def drains_asked(t):
    """It is as new as what comes in the drain: a 202 would leave its caller waiting for ever."""
    running = before_stub(t, QUICK)
    kept, other = running.client(), running.client()
    running.term()
    running.start()
    other.call("look").result()
    holder = sqlite3.connect(t.database(), isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        first = other.call(args={"n": 1})
        asked = kept.call(args={"n": 2})
        t.equal(get(running, "/healthz")[0], 200, "what is asked later, so that it was taken in")
        running.process.terminate()
        t.wait(lambda: not listens(running), "the drain")
    finally:
        holder.rollback()
        holder.close()
    t.equal(asked.head(), 503, "a call whose session was looked for")
    t.equal(asked.error()["data"]["code"], "LEDGER_UNAVAILABLE", "its answer")
    t.true("receipt" in str(first.result()), "the answer in flight")
    t.equal(running.process.wait(20), 0, "exit status")
    t.equal(len(t.effects("charge")), 1, "effects")


@serve("operators_paths")
def paths(t):
    running = before_stub(t, QUICK)
    client = running.client()
    for path, wanted in (("/healthz", 200), ("/readyz", 200), ("/metrics", 200), ("/nothing", 404)):
        client.path = path
        exchange = client.get()
        t.equal(exchange.head(), wanted, path)
        exchange.close()


def get(running, path, token=None):
    """Status, headers and text of a path for operators."""
    client = WebClient(running, path, token)
    exchange = client.get()
    status = exchange.head()
    return status, exchange.headers, exchange.body().decode()


@serve("a_session_that_nobody_uses_ends_at_its_time")
def idle_session(t):
    """And not as long as it is used: the time counts from the end of what was asked."""
    slow = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
    config = write_config(t, [upstream(t, "bank", slow)], more="limits:\n  session_idle: 3s\n")
    running = Serve(t, [], config=config)
    client = WebClient(running, "/mcp/bank")
    client.initialize()

    def sessions():
        (line,) = [line for line in get(running, "/metrics")[2].splitlines() if line.startswith("hapax_sessions ")]
        return int(line.split()[1])

    call = client.call(args={"n": 1})
    t.wait_effects(1)
    time.sleep(4)
    t.equal(sessions(), 1, "sessions, while a call runs")
    since = time.monotonic()
    t.touch("release")
    t.true("receipt" in str(call.result()), "its answer")
    t.wait(lambda: sessions() == 0, "the session to end", 20)
    took = time.monotonic() - since
    t.true(took > 2.9, f"after {took:.1f} s of 3 s")
    t.equal(client.request("ping").head(), 200, "the ledger knows it, when it comes back")


@serve("its_own_address_is_a_host")
def own_host(t):
    """Whoever comes by the address that it listens at names it, and needs no allowed_hosts for that."""
    probe = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address = probe.getsockname()[0]
    except OSError:
        raise Skip("this host has no address but its own loopback")
    finally:
        probe.close()
    listen = ("--listen", f"{address}:0", "--allow-anonymous", "--ledger", t.ledger)
    running = subprocess.Popen(
        [t.surroundings.hapax, "serve", *listen, "--", *stub(t, QUICK)],
        env=t.env, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )
    try:
        port = None
        while port is None:
            line = running.stderr.readline().decode()
            t.true(line, "hapax serve is there")
            found = re.search(r"listening at http://[^ ]*:(\d+)/mcp", line)
            port = int(found.group(1)) if found else None

        def status(host):
            with socket.create_connection((address, port), 20) as conn:
                conn.sendall(f"GET /healthz HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
                return int(conn.makefile("rb").readline().split()[1])

        t.equal(status(address), 200, "its address")
        t.equal(status("evil.example"), 403, "another name")
    finally:
        running.kill()
        running.wait()
        running.stderr.close()


@serve("metrics_are_for_those_who_may")
def metrics(t):
    """Where there are tokens, /metrics is for one that says so: a caller's would show the names of
    servers that it does not open. `open` and `off` are the operator's to say; health stays open."""
    tokens = [
        token("ann", "hpx_ann", "ann", "    servers: [bank]\n"),
        token("mon", "hpx_mon", "mon", "    servers: []\n    metrics: on\n"),
    ]
    upstreams = [upstream(t, "bank", QUICK), upstream(t, "mail", QUICK)]
    for how, wanted in (
        ("tokens", {None: 401, "hpx_no": 401, "hpx_ann": 403, "hpx_mon": 200}),
        ("open", {None: 200, "hpx_no": 200, "hpx_ann": 200}),
        ("off", {None: 404, "hpx_mon": 404}),
    ):
        config = write_config(t, upstreams, tokens, f"metrics: {how}\n")
        running = Serve(t, [], config=config)
        for secret, status in wanted.items():
            got, headers, text = get(running, "/metrics", secret)
            t.equal(got, status, f"/metrics, {how}, with {secret}")
            t.equal("mail" in text, status == 200, f"names of servers in {text}")
            t.equal("www-authenticate" in headers, status == 401, f"the challenge of {headers}")
        for path in ("/healthz", "/readyz"):
            t.equal(get(running, path)[0], 200, f"{path} without a token")
        watcher = WebClient(running, "/mcp/bank", "hpx_mon")
        t.equal(watcher.request("ping").head(), 404, "its token opens no server")
        running.end()


@serve("why_it_is_not_ready_is_for_operators")
def not_ready(t):
    tokens = [token("mon", "hpx_mon", "mon", "    servers: []\n    metrics: on\n")]
    os.mkdir(t.path("ledger"), 0o500)
    with open(t.path("ledger/ledger.db"), "wb") as file:
        file.write(b"no database at all" * 100)
    running = Serve(t, [], config=write_config(t, [upstream(t, "bank", QUICK)], tokens))
    t.equal(get(running, "/readyz")[::2], (503, "not ready\n"), "to anybody")
    status, _, text = get(running, "/readyz", "hpx_mon")
    t.true(status == 503 and "ledger" in text, f"to an operator: {status} {text}")


@serve("a_body_in_a_coding_is_refused")
def coding(t):
    """A compressed body is not read as if it were plain, and nothing of it runs."""
    client = before_stub(t, QUICK).client()
    for name in ("gzip", "identity, gzip"):
        told = client.call(headers=[("Content-Encoding", name)])
        t.equal(told.head(), 415, name)
        t.equal(told.headers.get("accept-encoding"), "identity", "what is taken")
        body = json.loads(told.body())
        t.equal(body["id"], told.request_id, "its id, as this body was plain")
        t.true("without Content-Encoding" in body["error"]["message"], f"told {body}")
    t.true("receipt" in str(client.call(headers=[("Content-Encoding", "identity")]).result()), "plain")
    t.equal(len(t.effects()), 1, "effects")


def call_as_one(client, n, key=None):
    """A call of a client that numbers everything 1."""
    params = {"name": "charge", "arguments": {"n": n}}
    if key is not None:
        params["_meta"] = {"dev.hapax/idempotencyKey": key}
    return client.request("tools/call", params, request_id=1)


@serve("one_id_for_open_calls")
def one_id(t):
    """Different calls under one open id are different calls: each is run and answered where it was
    asked. The transport's repeat of one of them is found among them. A cancel of that id could mean
    any of them, and takes no answer away."""
    client = before_stub(t, RELEASED).client()
    calls = [call_as_one(client, n) for n in range(3)]
    t.wait_effects(3)
    repeat = call_as_one(client, 1)
    t.wait(lambda: calls[1].head() == 202, "the first way of what was sent twice to end")
    client.cancel(calls[0], "user pressed Esc")
    t.touch("release")
    results = [calls[0].result(), repeat.result(), calls[2].result()]
    t.equal(len({str(result["content"]) for result in results}), 3, f"receipts: {results}")
    t.equal(len(t.effects()), 3, "effects")
    t.equal(len(t.operations()), 3, "operations")


@serve("one_id_and_two_keys")
def one_id_two_keys(t):
    """Equal calls under one id, each with its own key: two intents, while the first is open and when it
    was answered. The same key again is the same call.
    """
    client = before_stub(t, RELEASED).client()
    ask = lambda key: call_as_one(client, 1, KEY + key)
    calls = [ask("31"), ask("32")]
    t.wait_effects(2)
    again = ask("31")
    t.touch("release")
    results = [call.result() for call in (*calls, again)]
    t.equal(results[2]["content"], results[0]["content"], "the same key")
    t.true(results[1]["content"] != results[0]["content"], f"another key: {results}")
    late = ask("33").result()
    t.true(late["content"] not in [one["content"] for one in results], f"a third intent: {late}")
    t.equal(ask("33").result()["content"], late["content"], "its repeat")
    t.equal(len(t.effects()), 3, "effects")


@serve("one_id_for_calls_in_turn")
def one_id_in_turn(t):
    """A client that numbers everything 1 gives its last call up when the answer is on its way: that
    answer counts as lost, and no earlier one."""
    client = before_stub(t, QUICK).client()
    for n in range(3):
        done = call_as_one(client, n)
        t.true("receipt" in str(done.result()), "an answer")
    client.cancel(done, "Request timed out")
    t.wait(
        lambda: sorted(one["delivery"] for one in t.operations()) == ["lost", "sent", "sent"],
        "one answer to count as lost",
    )
    again = [client.call(args={"n": n}).result() for n in range(3)]
    t.equal([operation(one)["replayed"] for one in again], [False, False, True], "replayed")
    t.equal(len(t.effects()), 5, "effects")


@serve("initialize_in_a_batch_is_refused")
def batch_initialize(t):
    """2025-03-26 says that it must not stand there; the rest of the batch is answered."""
    client = before_stub(t, QUICK).client(version="2025-03-26")
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    body = [
        {"jsonrpc": "2.0", "id": "i", "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "id": "p", "method": "ping"},
    ]
    answers = {}
    for message in client.post(body).messages():
        for one in message if isinstance(message, list) else [message]:
            answers[one["id"]] = one
    t.equal(answers["i"]["error"]["code"], -32600, "initialize")
    t.equal(answers["p"]["result"], {}, "ping")
    t.equal(sum(b'"initialize"' in line for line in t.lines("received")), 1, "handshakes behind")


# Hapax behind Hapax: what an inner one says of itself is no outcome of the tool --------------------


def nested(t, script, *inner_options, inner_ledger="inner"):
    """The command of an inner `hapax run`, with a ledger of its own."""
    return t.hapax_argv(
        stub(t, script), *inner_options, ledger=t.path(inner_ledger), name="inner", orphan="5s"
    )


@serve("inner_gateway_does_not_know")
def inner_unknown(t):
    """The inner one's server dies in a call: unknown here too, with one effect; and asked for again,
    still unknown."""
    client = Serve(t, ["--", *nested(t, RELEASED)], "--orphan-timeout", "1s").client()
    first = client.call(args={"n": 1}, key=KEY + "07")
    t.wait_effects(1)
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    told = first.result()
    assert_unknown(t, told, "the answer")
    t.true("inner" not in json.dumps(operation(told)), f"our own envelope: {told}")
    assert_unknown(t, client.call(args={"n": 1}, key=KEY + "07").result(), "asked again")
    t.equal(len(t.effects()), 1, "effects")


@serve("inner_gateway_waits_for_a_person")
def inner_approval(t):
    """Approval at the inner one: our call stays open, and gets the real result when it is given."""
    client = Serve(
        t, ["--", *nested(t, QUICK, "--approval", "always")], "--orphan-timeout", "20s"
    ).client()
    first = client.call(args={"n": 1}, key=KEY + "08")

    def waiting():
        status, out, _ = t.ops("list", "--ledger", t.path("inner"), "--json")
        return [] if status else json.loads(out)["operations"]

    found = t.wait(waiting, "the operation at the inner one")
    t.equal(found[0]["execution"], "awaiting_approval", "its state")
    status, _, err = t.ops("approve", found[0]["id"], "--ledger", t.path("inner"))
    t.equal(status, 0, f"approve: {err}")
    t.true("receipt" in str(first.result()), "the real result")
    t.equal(len(t.effects()), 1, "effects")


@serve("inner_gateway_that_is_another_one_is_not_sent_it_again")
def inner_replaced(t):
    """Our call waits for a person at the inner one, which is then replaced by one with a ledger of its
    own; another client's call has begun a session there before ours is asked about again.
    """
    inner = Serve(
        t, ["--", *stub(t, QUICK)], "--tool", "charge: approval=always", ledger=t.path("inner")
    )
    server = f"  bank:\n    url: http://127.0.0.1:{inner.port}/mcp\n    affinity: shared\n"
    outer = Serve(t, [], config=write_config(t, [server]))
    waiting, other = outer.client(path="/mcp/bank"), outer.client(path="/mcp/bank")
    first = waiting.call(args={"n": 1}, key=KEY + "e1")
    t.wait(lambda: b"awaiting_approval" in t.ops("export", "--ledger", inner.ledger)[1], "the call")
    inner.kill()
    inner.options, inner.ledger = (), t.path("another")
    inner.start()
    for n in range(3):
        other.call(args={"n": 2}, key=f"{KEY}f{n}").answer()
    assert_unknown(t, first.result(), "who waited")
    ran = [json.loads(effect["args"])["n"] for effect in t.effects()]
    t.true(2 in ran, f"the other's calls ran: {ran}")
    t.true(1 not in ran, f"the first did not: {ran}")


@serve("inner_gateway_refuses_the_request_itself")
def inner_refuses(t):
    """What the inner one takes from nobody was never sent to a tool: proven, and no answer of the
    tool's. Too large for its pipe, too large for its HTTP door, of no server at its merged endpoint;
    and what it takes still runs.
    """
    large = {"n": 1, "text": "x" * 100_000}
    limits = "limits:\n  body_max: 64KiB\n"
    bank = upstream(t, "bank", QUICK, "    message_max: 64KiB\n")
    inner = Serve(t, [], config=write_config(t, [bank], more=limits))
    url = f"http://127.0.0.1:{inner.port}/mcp"
    ways = {
        "pipe": (nested(t, QUICK, "--message-max", "64KiB"), "charge", ("charge", large), "FAILED"),
        "door": ([f"{url}/bank"], "charge", ("charge", large), "UPSTREAM_UNAVAILABLE"),
        "merged": ([url], "bank_charge", ("office_charge", {"n": 1}), "FAILED"),
    }
    for name, (words, taken, refused, wanted) in ways.items():
        words = ["--", *words] if name == "pipe" else words
        client = Serve(t, words, "--name", name, ledger=t.path(f"outer-{name}")).client()
        before, key = len(t.effects()), KEY + f"2{len(name)}"
        for answer in (client.call(*refused, key=key).answer() for _ in range(2)):
            told = code(answer["result"]) if "result" in answer else answer["error"]["data"]["code"]
            t.equal(told, wanted, f"{name}: {answer}")
        t.equal(len(t.effects()), before, f"{name}: effects")
        t.true("receipt" in str(client.call(taken, {"n": 2}).result()), f"{name}: what it takes")
        t.equal(len(t.effects()), before + 1, f"{name}: effects of that")


@serve("inner_gateway_passes_the_tools_own_error_on")
def inner_error(t):
    """The tool acted, and its own error has a code that is a word of ours too. It is the outcome."""
    for word in ("FAILED", "BUSY"):
        data = {"code": word, "dev.hapax/operation": {"code": word}}
        error = {"code": -32000, "message": "booked; no mail went", "data": data}
        script = {"tools": {"charge": {"runs": [[{"error": json.dumps(error)}]]}}}
        words = nested(t, script, inner_ledger=f"inner-{word}")
        client = Serve(t, ["--", *words], "--name", word.lower(), ledger=t.path(f"outer-{word}")).client()
        before = len(t.effects())
        for answer in (client.call(args={"n": 1}, key=KEY + "31").answer() for _ in range(2)):
            t.equal(answer.get("error"), {**error, "data": {"code": word}}, f"{word}: {answer}")
        t.equal(len(t.effects()), before + 1, f"{word}: effects")


@serve("inner_gateway_has_the_outcome")
def inner_get(t):
    """The outer one is killed in a call, and the inner one gets the outcome: it is asked, and
    knows."""
    inner = Serve(t, ["--", *stub(t, RELEASED)], "--orphan-timeout", "20s", ledger=t.path("inner"))
    url = f"http://127.0.0.1:{inner.port}/mcp"
    outer = Serve(t, [url], "--name", "outer", "--orphan-timeout", "1s")
    client = outer.client()
    first = client.call(args={"n": 1}, key=KEY + "09")
    t.wait_effects(1)
    outer.kill()
    first.close()
    t.touch("release")
    t.wait(
        lambda: b'"succeeded"' in t.ops("export", "--ledger", t.path("inner"))[1],
        "the outcome at the inner one",
    )
    outer.start()
    told = client.call(args={"n": 1}, key=KEY + "09").result()
    t.true("receipt" in str(told), f"the real result: {told}")
    t.equal(len(t.effects()), 1, "effects")


@serve("operations_get")
def operations_get(t):
    """By id and by key; a stranger sees what he would see for an absent one."""
    config = write_config(
        t,
        [upstream(t, "bank", QUICK)],
        [token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")],
    )
    running = Serve(t, [], config=config)
    ann, bob = (running.client(path="/mcp/bank", token=secret) for secret in ("hpx_one", "hpx_two"))
    ident = operation(ann.call(args={"n": 1}, key=KEY + "0a").result())["id"]
    ways = [{"id": ident}, {"key": KEY + "0a", "tool": "charge"}]
    for way in ways:
        told = ann.request("hapax/operations/get", way).result()["operation"]
        t.equal(told["execution"], "succeeded", f"by {way}")
        t.true("receipt" in json.dumps(told["result"]), f"its result: {told}")
        strange = bob.request("hapax/operations/get", way).error()
        absent = bob.request("hapax/operations/get", {"id": KEY + "ff"}).error()
        t.equal(strange, absent, "what a stranger sees")


@test("serve", "field_024_probe_finds_a_lost_call", needs_hapax=True)
def probe_finds(t):
    """The server dies in a call; the probe is asked, and what it finds is told. Never a second
    call."""
    found = '{"content":[{"type":"text","text":"one order"}],"structuredContent":{"orders":[{"n":1}]}}'
    script = {
        "tools": {
            "charge": {"runs": [[{"wait": "release"}]]},
            "orders": {"listing": {"annotations": {"readOnlyHint": True}}, "runs": [[{"result": found}]]},
        }
    }
    rule = (
        "charge: class=probeable probe=orders probe_arguments='{\"ref\": \"${/n}\", \"key\": \"${key}\"}' "
        "probe_match='count /structuredContent/orders >= 1' probe_result=/structuredContent/orders/0"
    )
    client = before_stub(t, script, "--tool", rule).client()
    first = client.call(args={"n": 1}, key=KEY + "0b")
    t.wait(lambda: len(t.effects("charge")) == 1, "the effect")
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    told = first.result()
    t.true("This call happened" in told["content"][0]["text"], f"the result: {told}")
    t.equal(operation(told)["execution"], "succeeded", "execution")
    asked = [json.loads(line) for line in t.lines("received") if b'"orders"' in line]
    t.equal(asked[0]["params"]["arguments"], {"ref": 1, "key": KEY + "0b"}, "what the probe was asked")
    t.equal(len(t.effects("charge")), 1, "effects")


@serve("lost_answer_by_class_of_tool")
def lost_answer(t):
    """The server acts and dies before it answers, for a tool of each class: what its caller is told,
    what the same key is told afterwards, the state, and how often it acted under how many keys. The
    table is printed with E2E_NOTES=1.
    """
    found = '{"content":[],"structuredContent":{"orders":[{"n":1}]}}'
    probe = "probe=orders probe_match='count /structuredContent/orders >= 1'"
    classes = {
        "opaque": ("class=opaque", "OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN", "unknown", 1, 1),
        "idempotent": ("class=idempotent", "real", "real", "succeeded", 2, 1),
        "keyed": ("class=keyed effect_key=/key dedupe_horizon=1h", "real", "real", "succeeded", 2, 1),
        "probeable": (f"class=probeable {probe}", "found", "found", "succeeded", 1, 1),
    }  # fmt: skip

    def told(result):
        text = result["content"][0]["text"]
        code = operation(result).get("code")
        if not result.get("isError"):
            return "found" if "This call happened" in text else "real"
        return code

    table = ["class, told, told afterwards, state, acts, keys"]
    for number, (name, (rule, *wanted)) in enumerate(classes.items()):
        tool = f"charge_{name}"
        script = {
            "tools": {
                tool: {"runs": [[{"wait": f"release-{name}"}], [{"text": "$RECEIPT"}]]},
                "orders": {
                    "listing": {"annotations": {"readOnlyHint": True}},
                    "runs": [[{"result": found}]],
                },
            }
        }
        words = ["--", *stub(t, script)]
        rules = ("--orphan-timeout", "1s", "--tool", f"{tool}: {rule}")
        client = Serve(t, words, *rules, ledger=t.path(f"ledger-{name}")).client()
        first = client.call(tool, {"n": 1}, key=KEY + f"1{number}")
        t.wait(lambda: len(t.effects(tool)) == 1, "the effect")
        os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
        at_first = told(first.result())
        again = client.call(tool, {"n": 1}, key=KEY + f"1{number}").result()
        acts = t.effects(tool)
        keys = {json.loads(act["args"]).get("key") for act in acts}
        row = [at_first, told(again), operation(again)["execution"], len(acts), len(keys)]
        table.append(", ".join(map(str, [name, *row])))
        t.equal(row, wanted, name)
    t.note = "\n  " + "\n  ".join(table)


@serve("lost_answer_is_found_without_a_caller")
def lost_answer_without_caller(t):
    """Hapax is killed in a call whose caller does not come back. The next Hapax sends what its tool's
    contract allows again under the same key, by itself; of an opaque tool it sends nothing."""
    keyed = {"runs": [[{"wait": "never"}], [{"text": "$RECEIPT"}]]}
    script = {"tools": {"charge": keyed, "mail": {"runs": [[{"wait": "never"}]]}}}
    rule = "charge: class=keyed effect_key=/key dedupe_horizon=1h"
    running = before_stub(t, script, "--tool", rule)
    calls = {"charge": KEY + "76", "mail": KEY + "77"}
    client = running.client()
    open_calls = []
    for tool, key in calls.items():
        open_calls.append(client.call(tool, {"n": 1}, key=key))
        t.wait(lambda name=tool: len(t.effects(name)) == 1, f"the effect of {tool}")
    running.kill()
    running.start()

    def state_of(tool):
        _, out, _ = t.ops("show", calls[tool], "--json", "--ledger", t.ledger)
        return json.loads(out)["execution"]

    t.wait(lambda: state_of("charge") == "succeeded", "what became of it to be found", 60)
    acts = t.effects("charge")
    t.equal(len({json.loads(act["args"])["key"] for act in acts}), 1, "keys that the tool saw")
    t.equal(len(acts), 2, "sent again once")
    t.equal(state_of("mail"), "unknown", "what may not be sent again")
    t.equal(len(t.effects("mail")), 1, "effects of mail")
    replayed = running.client().call("charge", {"n": 1}, key=calls["charge"]).result()
    t.equal(operation(replayed)["replayed"], True, "who comes at last")


@test("serve", "field_024_probe_that_lies_early", needs_hapax=True)
def probe_lies(t):
    """Nothing found at first, then the effect shows: nothing runs twice, nothing is called failed."""
    none = '{"content":[],"structuredContent":{"orders":[]}}'
    found = '{"content":[],"structuredContent":{"orders":[{"n":1}]}}'
    script = {
        "tools": {
            "charge": {"runs": [[{"wait": "release"}]]},
            "orders": {
                "listing": {"annotations": {"readOnlyHint": True}},
                "runs": [[{"result": none}], [{"result": found}]],
            },
        }
    }
    rule = "charge: class=probeable probe=orders probe_match='count /structuredContent/orders >= 1'"
    client = before_stub(t, script, "--tool", rule, "--in-flight-bound", "1s").client()
    first = client.call(args={"n": 1}, key=KEY + "0c")
    t.wait(lambda: len(t.effects("charge")) == 1, "the effect")
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    told = first.result()
    t.true("This call happened" in told["content"][0]["text"], f"the result: {told}")
    t.true(len([1 for line in t.lines("received") if b'"orders"' in line]) >= 2, "two probes")
    t.equal(len(t.effects("charge")), 1, "effects")


@serve("probe_proves_absence")
def probe_absence(t):
    """Three negatives after the bound, ten seconds apart: proved not to have happened."""
    none = '{"content":[],"structuredContent":{"orders":[]}}'
    script = {
        "tools": {
            "charge": {"runs": [[{"wait": "release"}]]},
            "orders": {"listing": {"annotations": {"readOnlyHint": True}}, "runs": [[{"result": none}]]},
        }
    }
    rule = "charge: class=probeable probe=orders probe_match='count /structuredContent/orders >= 1'"
    client = before_stub(
        t, script, "--tool", rule, "--in-flight-bound", "1s", "--join-wait", "90s"
    ).client()
    first = client.call(args={"n": 1}, key=KEY + "0d")
    t.wait(lambda: len(t.effects("charge")) == 1, "the effect")
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    begin = t.clock()
    first.conn.settimeout(90)
    told = first.result()
    t.equal(code(told), "FAILED", f"the answer: {told}")
    t.true(t.clock() - begin > 20, "not before three negatives, ten seconds apart")
    probes = [1 for line in t.lines("received") if b'"orders"' in line]
    t.true(len(probes) >= 3, f"{len(probes)} probes")


def probing(answers, *runs):
    """A tool that is lost at its first call, and a probe that answers so, one after the other."""
    return {
        "tools": {
            "charge": {"runs": [[{"wait": "release"}], *runs]},
            "orders": {
                "listing": {"annotations": {"readOnlyHint": True}},
                "runs": [[{"result": answer}] for answer in answers],
            },
        }
    }


def lose(t, client, key, **args):
    """A call whose server dies when it has had its effect."""
    call = client.call(args=args, key=key)
    t.wait(lambda: len(t.effects("charge")) == 1, "the effect")
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)
    return call


def assert_found(t, match, key):
    """What the probe's answer shows is known again."""
    found = json.dumps(
        {"content": [{"type": "text", "text": 'of "caf\u00e9"'}], "structuredContent": {"ref": "100"}},
        ensure_ascii=False,
    )
    rule = f"charge: class=probeable probe=orders probe_match='{match}'"
    client = before_stub(t, probing([found]), "--tool", rule).client()
    told = lose(t, client, key, ref="100", shop='"caf\u00e9"').result()
    t.true("This call happened" in told["content"][0]["text"], f"by {match}: {told}")


@serve("probe_looks_for_a_text_that_came_in_other_escapes")
def probe_escapes(t):
    """Escapes of the arguments are not those of the answer: what is there is not said to be
    missing."""
    assert_found(t, "text ${/shop}", KEY + "a0")


@serve("probe_looks_for_digits_that_are_no_number")
def probe_digits(t):
    """A reference in digits is a text, and stays one."""
    assert_found(t, "value /structuredContent/ref == ${/ref}", KEY + "a1")


@serve("probe_and_a_person_who_says_again")
def probe_again(t):
    """The operation is run again while a probe is due: none is sent any more, and the gateway
    lives past the moment when it was to be."""
    none = '{"content":[],"structuredContent":{"orders":[]}}'
    rule = "charge: class=probeable probe=orders probe_match='count /structuredContent/orders >= 1'"
    script = probing([none], [{"result": '{"content":[{"type":"text","text":"second"}]}'}])
    client = before_stub(t, script, "--tool", rule, "--join-wait", "3s").client()
    told = lose(t, client, KEY + "a2", n=1).result()
    t.equal(code(told), "OUTCOME_UNKNOWN", f"the first answer: {told}")
    # The first one is sent after five seconds, the next one fifteen after it.
    t.wait(lambda: any(b"structuredContent" in line for line in t.server_lines()), "the first probe")
    status, _, said = t.ops("resolve", operation(told)["id"], "again", "--ledger", t.ledger)
    t.equal(status, 0, f"ops resolve: {said}")
    begin = t.clock()
    told = client.call(args={"n": 1}, key=KEY + "a2").result()
    t.equal(told["content"][0]["text"], "second", f"the second answer: {told}")
    t.wait(lambda: t.clock() - begin > 16, "the moment of the next probe")
    t.true("tools" in client.request("tools/list", {}).result(), "it lives")
    probes = [1 for line in t.lines("received") if b'"orders"' in line]
    t.equal(len(probes), 1, "probes after the second answer")


@serve("names_of_tools_are_bounded")
def tool_names(t):
    """A client that makes up names of tools is refused at some point; what the server lists is
    called all the same."""
    client = before_stub(t, QUICK).client()
    for number in range(4096):
        said = client.call(f"made_up_{number}", key="null").error()["message"]
        t.true("placeholder" in said, f"name {number}: {said}")
    said = client.call("made_up_4096", key="null").error()["message"]
    t.true("too many others" in said, f"one more name: {said}")
    t.true("too many others" in client.call("charge").error()["message"], "a tool that nobody listed")
    client.request("tools/list", {}).result()
    t.true("receipt" in str(client.call("charge").result()), "a tool that the server has listed")
    said = client.call("made_up_7", key="null").error()["message"]
    t.true("placeholder" in said, f"a known name: {said}")


@serve("probe_says_only_what_can_be_compared")
def probe_compares(t):
    """What is not found because it cannot be compared is no proof of absence, and the empty text,
    which everything holds, is no find."""
    cannot = ("unknown", "probe gave no answer that can be judged")
    found = ("succeeded", "probe found it")
    seen = {
        "content": [{"type": "text", "text": 'it is "so", \u00e9'}],
        "structuredContent": {"ref": "4711", "number": 4711},
    }
    cases = {
        "escapes": ("text ${/n}", '"so", \u00e9', None, found),
        "empty": ("text ${/n}", "", None, cannot),
        "keyless": ("text ${key}", 1, None, cannot),
        "no_array": ("count /structuredContent/orders >= 1", 1, None, cannot),
        "digits": ("value /structuredContent/ref == ${key}", 1, "4711", found),
        "kinds": ("value /structuredContent/number == ${key}", 1, "4711", cannot),
        "missing": ("value /structuredContent/id != ${key}", 1, "4711", cannot),
        "inside": ("value /structuredContent/ref == 47${/n}", 11, None, cannot),
        "quoted": ('value /structuredContent/ref == "47${/n}"', 11, None, found),
    }
    orders = {"listing": {"annotations": {"readOnlyHint": True}}}
    orders["runs"] = [[{"result": json.dumps(seen)}]]
    lost = {title: {"runs": [[{"wait": "never"}]]} for title in cases}
    rules = []
    for title, (match, *_) in cases.items():
        rules += ["--tool", f"{title}: class=probeable probe=orders probe_match='{match}'"]
    client = before_stub(t, {"tools": {"orders": orders, **lost}}, *rules).client()
    calls = [client.call(title, {"n": n}, key=key) for title, (_, n, key, _) in cases.items()]
    t.wait_effects(len(calls))
    os.kill(int(t.lines("starts")[-1]), signal.SIGKILL)

    def judged():
        rows = {}
        for row in t.operations():
            notes = [step["note"]["step"] for step in row["history"] if step["what"] == "note"]
            rows[row["tool"]] = (row["execution"], notes[0] if notes else None)
        return rows if all(note for _, note in rows.values()) else None

    t.wait(judged, "a probe of each")
    t.equal(judged(), {title: case[3] for title, case in cases.items()}, "what the probes said")


@serve("program_that_is_no_server")
def no_server(t):
    """One that writes back what it reads asks nothing of the client; it ends, and so does the
    session's beginning, of which can be said that nothing happened."""
    running = Serve(t, ["--start-timeout", "2s", "--", "cat"])
    client = WebClient(running)
    told = client.request("initialize", {"protocolVersion": client.version}).error()
    t.equal(client.others, [], "what the client was asked")
    word = {name: told["data"].get(name) for name in ("code", "retry_safe")}
    t.equal(word, {"code": "UPSTREAM_UNAVAILABLE", "retry_safe": True}, f"the error: {told}")


# All servers at one endpoint -----------------------------------------------------------------------


def merged(t):
    """Two stubs that write to one directory, so that effects are counted together."""
    script = {"tools": {"charge": {"listing": {"description": "d"}, "runs": [[{"text": "receipt $RECEIPT"}]]}}}
    return Serve(t, [], config=write_config(t, [upstream(t, "bank", script), upstream(t, "mail", script)]))


@serve("merged_endpoint_lists_and_calls")
def merged_calls(t):
    running = merged(t)
    client = running.client()
    names = [tool["name"] for tool in client.request("tools/list").result()["tools"]]
    t.equal(names, ["bank_charge", "mail_charge"], "names")
    for name in names:
        results = [client.call(name, {"n": 1}, key=KEY + "20").result() for _ in range(2)]
        t.true("receipt" in str(results[0]), f"{name}: {results[0]}")
        t.equal(operation(results[1])["replayed"], True, f"replayed at {name}")
    t.equal(len(t.effects()), 2, "effects: one key at two servers is two operations")
    error = client.call("charge", {"n": 1}).error()
    t.equal(error["code"], -32602, f"without a prefix: {error}")
    t.equal(client.delete().head(), 200, "DELETE")


@serve("merged_endpoint_cancels_the_tool_that_it_lists")
def merged_cancel(t):
    """A key that nobody has seen is cancelled by the name in the list, with and without its server:
    the call that comes late is refused. What names no tool here is not told as cancelled."""
    running = merged(t)
    client = running.client()
    named = [
        {"key": KEY + "70", "tool": "mail_charge"},
        {"key": KEY + "71", "tool": "mail_charge", "server": "mail"},
        {"key": KEY + "72", "tool": "charge", "server": "mail"},
    ]
    for name in named:
        told = client.request("hapax/operations/cancel", name).result()
        t.equal(told["answer"], "CANCELLED", f"{name}: {told}")
        late = client.call("mail_charge", {"n": 1}, key=name["key"]).result()
        t.equal(code(late), "CANCELLED", f"the late call of {name}: {late}")
    for name in ({"tool": "charge"}, {"tool": "charge", "server": "nobody"}):
        error = client.request("hapax/operations/cancel", {"key": KEY + "73", **name}).error()
        t.equal(error["code"], -32602, f"{name}: {error}")
    t.equal(len(t.effects()), 0, "effects")
    result = client.call("mail_charge", {"n": 1}, key=KEY + "74").result()
    got = client.request("hapax/operations/get", {"key": KEY + "74", "tool": "mail_charge"}).result()
    t.equal(got["operation"]["id"], operation(result)["id"], "found by the name in the list")
    by_id = {"id": operation(result)["id"]}
    got = client.request("hapax/operations/get", by_id).result()
    t.equal(got["operation"]["key"], KEY + "74", "found by its id, of the second server")
    error = client.request("hapax/operations/get", {"id": KEY + "ff"}).error()
    t.equal(error["data"]["code"], "NOT_FOUND", f"an id that nobody has: {error}")


@serve("merged_endpoint_tells_of_a_tool_as_it_lists_it")
def merged_own_tool(t):
    """hapax_operation takes the name that its client sees, and where it stands alone the server's."""
    script = {"tools": {"charge": {"listing": {"description": "d"}, "runs": [[{"text": "receipt $RECEIPT"}]]}}}
    asked = "    offer_operation: on\n"
    servers = [upstream(t, name, script, asked) for name in ("bank", "mail")]
    client = Serve(t, [], config=write_config(t, servers)).client()
    done = operation(client.call("mail_charge", {"n": 1}, key=KEY + "75").result())
    for tool in ("mail_charge", "charge"):
        told = client.call("mail_hapax_operation", {"key": KEY + "75", "tool": tool}).result()
        t.true(done["id"] in str(told), f"{tool}: {told}")
    told = client.call("bank_hapax_operation", {"key": KEY + "75", "tool": "mail_charge"}).result()
    t.true("no such operation" in str(told), f"at another server: {told}")


@serve("merged_endpoint_goes_on_after_a_restart")
def merged_restart(t):
    running = merged(t)
    client = running.client()
    before = client.call("mail_charge", {"n": 1}, key=KEY + "21").result()
    running.kill()
    running.start()
    again = client.call("mail_charge", {"n": 1}, key=KEY + "21").result()
    t.equal(without_ours(before), without_ours(again), "replay")
    t.true("receipt" in str(client.call("bank_charge", {"n": 2}).result()), "another call")
    t.equal(len(t.effects()), 2, "effects")


@serve("merged_endpoint_shows_a_token_its_servers")
def merged_tokens(t):
    config = write_config(
        t,
        [upstream(t, "bank", QUICK), upstream(t, "mail", QUICK)],
        [
            token("one", "hpx_one", "ann", "    servers: [bank]\n"),
            token("two", "hpx_two", "bob"),
            token("all", "hpx_all", "ann"),
        ],
    )
    running = Serve(t, [], config=config)
    wide = WebClient(running, token="hpx_all")
    wide.initialize()
    narrow = WebClient(running, token="hpx_one")
    narrow.session = wide.session
    t.equal(narrow.request("tools/list").head(), 404, "the wider session of the same principal")
    for secret, wanted in (("hpx_one", ["bank_charge"]), ("hpx_two", ["bank_charge", "mail_charge"])):
        tools = running.client(token=secret).request("tools/list").result()["tools"]
        t.equal([tool["name"] for tool in tools], wanted, f"tools for {secret}")


@serve("a_session_that_ends_in_a_call_leaves_no_process")
def ended_in_call(t):
    """DELETE while a call runs: the call ends, its outcome is kept, and then its server ends too."""
    running = before_stub(t, RELEASED)
    client = running.client()
    first = client.call(args={"n": 1}, key=KEY + "d1")
    t.wait_effects(1)
    pid = int(t.lines("starts")[-1])
    t.equal(client.delete().head(), 200, "DELETE")
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the outcome")
    t.wait(lambda: not processes.is_alive(pid), "the server to end", 10)
    first.close()
    again = running.client().call(args={"n": 1}, key=KEY + "d1").result()
    t.equal(operation(again)["replayed"], True, f"the stored outcome: {again}")
    t.equal(len(t.effects()), 1, "effects")
