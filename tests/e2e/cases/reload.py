# SPDX-License-Identifier: MIT
"""`hapax serve` reads its configuration again: SIGHUP. Names: reload_..."""

import os
import signal
import sqlite3
import subprocess

from kit import processes
from kit.harness import Failure, test
from webclient import Serve, WebClient
from .http_upstream import Site
from .serve import QUICK, RELEASED, token, upstream, write_config
from .way import code, operation

KEY = "0190a0a0-0000-7000-8000-0000000100"


def reload(title):
    return test("reload", "reload_" + title, needs_hapax=True)


def env(name, round_):
    return f"    env:\n      WHO: {name}-{round_}\n"


def write(t, script, rounds, tokens=(), more=""):
    """A configuration with one stub for each name; another round is another configuration of it."""
    return write_config(
        t,
        [upstream(t, name, script, env(name, n)) for name, n in rounds.items()],
        tokens,
        f"log_level: info\nlog_file: {t.path('log')}\n{more}",
    )


def told(t, event):
    return [line.decode() for line in t.lines("log") if event.encode() in line]


def hup(t, running, event="reloaded"):
    before = len(told(t, event))
    running.process.send_signal(signal.SIGHUP)
    t.wait(lambda: len(told(t, event)) > before, f"{event} in the log", 10)
    return told(t, event)[-1]


def stubs(t, who):
    """The living processes that an upstream of this name and round has."""
    found = []
    for line in t.lines("starts"):
        try:
            with open(f"/proc/{int(line)}/environ", "rb") as file:
                if f"WHO={who}".encode() in file.read().split(b"\0"):
                    found.append(int(line))
        except OSError:
            pass
    return found


def only_stub(t, who):
    t.wait(lambda: len(stubs(t, who)) == 1, f"one process of {who}", 10)
    return stubs(t, who)[0]


@test("reload", "field_100_configuration_reloaded_three_times", needs_hapax=True)
def three_reloads(t):
    """Three times another configuration of one of two servers: as many processes as before, the old
    ones gone, the other server's as it was, and the sessions live on.
    """
    running = Serve(t, [], config=write(t, QUICK, {"bank": 0, "mail": 0}))
    bank, mail = (running.client(path=f"/mcp/{name}") for name in ("bank", "mail"))
    t.equal(len(processes.marked(t.mark)) > 2, True, "processes are seen")
    count, kept = len(processes.marked(t.mark)), only_stub(t, "mail-0")
    for n in range(1, 4):
        old = only_stub(t, f"bank-{n - 1}")
        write(t, QUICK, {"bank": n, "mail": 0})
        line = hup(t, running)
        t.true("as_before=1" in line and "begun=1" in line and "ended=1" in line, line)
        t.wait(lambda pid=old: not processes.is_alive(pid), "the old process to be gone", 10)
        result = bank.call(args={"n": n}).result()
        t.true("receipt" in str(result), f"the same session goes on: {result}")
        t.true(only_stub(t, f"bank-{n}") != old, "another process")
        t.equal(only_stub(t, "mail-0"), kept, "the other server's process")
        t.wait(lambda: len(processes.marked(t.mark)) == count, "as many processes as before", 10)
    mail.call(args={"n": 9}).result()
    t.equal(len(t.effects()), 4, "effects")


@reload("lets_a_call_end_where_it_began")
def in_flight(t):
    """The call under way is answered by the process that has it; what comes after it, and a repeat
    from another session, see the new configuration.
    """
    running = Serve(t, [], config=write(t, RELEASED, {"bank": 0}))
    client = running.client(path="/mcp/bank")
    first = client.call(args={"n": 1}, key=KEY + "01")
    t.wait_effects(1)
    old = only_stub(t, "bank-0")
    write(t, RELEASED, {"bank": 1})
    hup(t, running)
    other = running.client(path="/mcp/bank")
    only_stub(t, "bank-1")
    joined = other.call(args={"n": 1}, key=KEY + "01")
    t.wait_repeats(1)
    t.true(processes.is_alive(old), "the process that has the call lives")
    t.touch("release")
    t.true("receipt" in str(first.result()), "the caller's own answer")
    t.true("receipt" in str(joined.result()), "the answer to who joined it")
    t.wait(lambda: not processes.is_alive(old), "the old process to be gone", 10)
    t.equal(operation(client.call(args={"n": 1}, key=KEY + "01").result())["replayed"], True, "replay")
    t.equal(len(t.effects()), 1, "effects")


@reload("what_is_refused_changes_nothing")
def refused(t):
    config = write(t, QUICK, {"bank": 0})
    running = Serve(t, [], config=config)
    client = running.client(path="/mcp/bank")
    pid = only_stub(t, "bank-0")
    wrong = {
        "an unknown word": lambda: write(t, QUICK, {"bank": 1}, more="colour: red\n"),
        "no file": lambda: os.remove(config),
        "what the process has for life": lambda: write(t, QUICK, {"bank": 1}, more="log_arguments: on\n"),
        "a limit": lambda: write(t, QUICK, {"bank": 1}, more="limits:\n  sessions: 7\n"),
    }
    for name, change in wrong.items():
        change()
        line = hup(t, running, "reload_refused")
        t.true("error=" in line, f"{name}: {line}")
        t.true("receipt" in str(client.call(args={"n": name}).result()), f"after {name}")
        t.equal(only_stub(t, "bank-0"), pid, f"the process after {name}")
    write(t, QUICK, {"bank": 1})
    hup(t, running)
    t.wait(lambda: not processes.is_alive(pid), "the old process to be gone", 10)
    client.call(args={"n": 1}).result()
    only_stub(t, "bank-1")
    t.equal(running.term(), 0, "exit status")


@reload("servers_come_and_go")
def come_and_go(t):
    """A session of all servers begins anew with those that there are now; what is gone is 404."""
    running = Serve(t, [], config=write(t, QUICK, {"bank": 0, "mail": 0}))
    merged, mail = running.client(), running.client(path="/mcp/mail")

    def tools():
        return sorted(tool["name"] for tool in merged.request("tools/list").result()["tools"])

    t.equal(tools(), ["bank_charge", "mail_charge"], "both")
    kept = stubs(t, "bank-0")
    write(t, QUICK, {"bank": 0, "post": 0})
    hup(t, running)
    t.wait(lambda: tools() == ["bank_charge", "post_charge"], "the servers that there are now", 10)
    t.equal(WebClient(running, "/mcp/mail").request("ping").head(), 404, "the one that is gone")
    t.equal(mail.request("tools/list").head(), 404, "a session with it")
    t.wait(lambda: not stubs(t, "mail-0"), "its processes to be gone", 10)
    t.true(len(kept) == 1, f"one process of the bank: {kept}")
    t.true("receipt" in str(merged.call("post_charge", args={"n": 1}).result()), "the new one works")


@reload("tokens_are_withdrawn_at_once")
def tokens(t):
    """Who has no token any more is shut out, his open stream too; others notice nothing."""
    one, two = token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")
    running = Serve(t, [], config=write(t, QUICK, {"bank": 0}, [one, two]))
    ann, bob = (running.client(path="/mcp/bank", token=f"hpx_{n}") for n in ("one", "two"))
    stream, other = ann.get(), bob.get()
    t.equal((stream.head(), other.head()), (200, 200), "streams")
    write(t, QUICK, {"bank": 0}, [two, token("three", "hpx_three", "eve")])
    hup(t, running)
    t.equal([event for event in stream.events() if event.get("data")], [], "ann's stream ends")
    t.equal(ann.request("ping").head(), 401, "ann")
    t.true("receipt" in str(bob.call(args={"n": 1}).result()), "bob")
    eve = running.client(path="/mcp/bank", token="hpx_three")
    t.true("receipt" in str(eve.call(args={"n": 2}).result()), "eve")
    write(t, QUICK, {"bank": 0}, [one, two])
    hup(t, running)
    t.true("receipt" in str(ann.call(args={"n": 3}).result()), "ann again, in her session")
    t.equal(len(t.effects()), 3, "effects")
    other.close()


@reload("a_narrowed_token_loses_its_server_in_open_sessions")
def narrowed(t):
    """A session of all servers lives on as long as it is waited for, but not with the server that
    its token opens no more.
    """
    def ann(servers):
        return [token("one", "hpx_one", "ann", f"    servers: [{servers}]\n")]

    running = Serve(t, [], config=write(t, RELEASED, {"bank": 0, "mail": 0}, ann("bank, mail")))
    client = running.client(token="hpx_one")
    names = [tool["name"] for tool in client.request("tools/list").result()["tools"]]
    t.equal(names, ["bank_charge", "mail_charge"], "tools before")
    first = client.call("bank_charge", {"n": 1})
    t.wait_effects(1)
    write(t, RELEASED, {"bank": 0, "mail": 0}, ann("bank"))
    hup(t, running)
    told = client.call("mail_charge", {"n": 2}).answer()
    t.true("receipt" not in str(told), f"what it lost: {told}")
    names = [tool["name"] for tool in client.request("tools/list").result()["tools"]]
    t.equal(names, ["bank_charge"], "tools after")
    t.touch("release")
    t.true("receipt" in str(first.result()), "what it has")
    t.equal([one["server"] for one in t.operations()], ["bank"], "operations")
    t.equal(len(t.effects()), 1, "effects")


@reload("what_a_kept_session_may_open_is_asked_when_it_is_found")
def asked_meanwhile(t):
    """The ledger is busy, so that a session of before is looked for while what it may open goes: it
    is not there then, and nobody else notices anything.
    """
    def only(*servers):
        return f"    servers: [{', '.join(servers)}]\n"

    def tokens_of(ann):
        return [token("one", "hpx_one", "ann", ann), token("two", "hpx_two", "bob")]

    running = Serve(t, [], config=write(t, QUICK, {"bank": 0, "mail": 0}, tokens_of(only("bank"))))
    changes = {
        "his token is withdrawn": ({"bank": 0, "mail": 0}, tokens_of("")[1:], [404, 404]),
        "he may use another one": ({"bank": 0, "mail": 0}, tokens_of(only("mail")), [200, 404]),
    }
    for round_, (name, (rounds, tokens, wanted)) in enumerate(changes.items()):
        anns = [running.client(path=path, token="hpx_one") for path in ("/mcp", "/mcp/bank")]
        running.term()
        running.start()
        bob = running.client(path="/mcp/mail", token="hpx_two")
        holder = sqlite3.connect(t.database(), isolation_level=None)
        try:
            holder.execute("BEGIN IMMEDIATE")
            first = bob.call(args={"n": round_})
            asked = [ann.request("tools/list") for ann in anns]
            write(t, QUICK, rounds, tokens)
            hup(t, running)
        finally:
            holder.rollback()
            holder.close()
        t.equal([one.head() for one in asked], wanted, f"ann's sessions, when {name}")
        t.true("receipt" in str(first.result()), f"bob, when {name}")
        t.equal(running.process.poll(), None, f"hapax serve, when {name}")
        write(t, QUICK, {"bank": 0, "mail": 0}, tokens_of(only("bank")))
        hup(t, running)


@reload("rules_of_tools_hold_from_then_on")
def rules(t):
    """What was opaque is found out by a probe once the configuration says how."""
    script = {
        "tools": {
            "charge": {"runs": [[{"exit": 1}]]},
            "look": {"runs": [[{"text": "done"}]]},
        }
    }
    running = Serve(t, [], config=write(t, script, {"bank": 0}))
    client = running.client(path="/mcp/bank")
    t.equal(code(client.call(args={"n": 1}, key=KEY + "02").result()), "OUTCOME_UNKNOWN", "opaque")
    rule = (
        "    tools:\n      charge:\n        class: probeable\n        probe: look\n"
        "        probe_match: text done\n"
    )
    write_config(t, [upstream(t, "bank", script, rule)], (), f"log_level: info\nlog_file: {t.path('log')}\n")
    hup(t, running)

    def again():
        return client.call(args={"n": 1}, key=KEY + "02").result()

    t.wait(lambda: "done" in str(again()), "the probe's result", 15)
    t.equal(len(t.effects("charge")), 1, "effects")


@reload("a_log_that_was_moved_away_is_begun_anew")
def log(t):
    running = Serve(t, [], config=write(t, QUICK, {"bank": 0}))
    hup(t, running)
    os.rename(t.path("log"), t.path("log.1"))
    hup(t, running)
    t.true(any(b"reloaded" in line for line in t.lines("log.1")), "the old one")
    t.equal(len(told(t, "reloaded")), 1, "lines of the new one")


@reload("a_url_that_is_another_one")
def url(t):
    """The session goes on with the server at the other address, greeted in its client's words."""
    sites = [Site(t, f"site{n}").serve({}) for n in range(2)]

    def config(site):
        lines = f"  bank:\n    url: http://127.0.0.1:{site.port}/mcp\n"
        return write_config(t, [lines], (), f"log_level: info\nlog_file: {t.path('log')}\n")

    running = Serve(t, [], config=config(sites[0]))
    client = running.client(path="/mcp/bank")
    client.call(args={"n": 0}).result()
    config(sites[1])
    hup(t, running)
    calls = 1

    def is_there():
        """The session moves once its last answer is out, so one more call may go the old way."""
        nonlocal calls
        client.call(args={"n": calls}).result()
        calls += 1
        return sites[1].effects() == 1

    t.wait(is_there, "a call at the other address", 10)
    t.equal(sum(site.effects() for site in sites), calls, "effects")


@reload("a_terminal_that_hangs_up_ends_it")
def terminal(t):
    """Only without a terminal SIGHUP means the configuration."""
    config = write(t, QUICK, {"bank": 0})
    leader, follower = os.openpty()
    process = subprocess.Popen(
        [t.surroundings.hapax, "serve", "--config", config],
        env=t.env,
        stdin=follower,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    os.close(follower)
    try:
        while b"/mcp/bank is" not in process.stderr.readline():
            if process.poll() is not None:
                raise Failure("hapax serve ended")
        process.send_signal(signal.SIGHUP)
        t.equal(process.wait(20), 0, "exit status")
    finally:
        os.close(leader)
        if process.poll() is None:
            process.kill()
            process.wait()
