# SPDX-License-Identifier: MIT
"""`hapax call`: before a stub over stdio, before a bare server over HTTP, before `hapax serve`; killed
at its own points and at others, taken up again, and what it says to a script.
"""

import glob
import json
import os
import re
import select
import signal
import subprocess

from kit.harness import Failure, Skip, test
from rawclient import stub
from webclient import Serve
from .http_upstream import Site

QUICK = {"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
RELEASED = {"tools": {"charge": {"runs": [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]}}}
DYING = {"tools": {"charge": {"runs": [[{"kill": 9}], [{"text": "receipt $RECEIPT"}]]}}}
SOURCES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "src")
DONE, TOOL_ERROR, USAGE, ABSENT, NO_LEDGER, NOT_HAPPENED, NO_SERVER, UNKNOWN = range(8)
KEEPER_LOST, STILL_RUNNING = 70, 75


def call(title):
    return test("call", "call_" + title, needs_hapax=True)


class Caller:
    """`hapax call` again and again on one ledger."""

    def __init__(self, t, *options):
        self.t, self.options = t, options

    def argv(self, *words):
        return [self.t.surroundings.hapax, "call", "--ledger", self.t.ledger, *words]

    def start(self, *words, env=None, **more):
        return subprocess.Popen(
            self.argv(*words),
            env={**self.t.env, **(env or {})},
            stdin=more.pop("stdin", subprocess.DEVNULL),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **more,
        )

    def run(self, *words, env=None, given=None):
        """Exit status, standard output, standard error."""
        process = self.start(*words, env=env, stdin=subprocess.PIPE)
        out, err = process.communicate(given or b"", timeout=60)
        return process.returncode, out.decode(), err.decode()

    def stdio(self, script, *words, options=(), **more):
        bound = ("--orphan-timeout", "5s")
        return self.run(*bound, *options, *words, "--", *stub(self.t, script), **more)

    def json(self, status, *words, **more):
        got, out, err = self.run("--json", *words, **more)
        self.t.equal(got, status, f"exit status of {words} ({out[-600:]} {err[-300:]})")
        told = json.loads(out)
        self.t.equal(told["exit_status"], status, "its own exit status")
        return told

    def open(self):
        return len(glob.glob(os.path.join(self.t.ledger, "calls", "*.json")))


@call("and_its_replay")
def replay(t):
    caller = Caller(t)
    told = [caller.stdio(QUICK, "--key", "k1", "charge", '{"n":1}') for _ in range(2)]
    t.equal(told[0][0], DONE, f"exit status: {told[0]}")
    t.equal(told[0][1], f"receipt {t.effects()[0]['receipt']}\n", "the tool's text alone")
    t.equal(told[1][:2], told[0][:2], "the same again")
    t.equal(len(t.effects()), 1, "effects")
    t.equal(caller.open(), 0, "open calls")


@call("mints_a_key_and_says_how_to_go_on")
def minted(t):
    status, _, err = Caller(t).stdio(QUICK, "charge")
    t.equal(status, DONE, f"exit status: {err}")
    key = re.search(r"the key is ([0-9a-f-]{36}); .*: hapax call --resume \1 --ledger ", err)
    t.true(key, f"the key and the command: {err}")
    t.equal(t.operations()[0]["key"], key.group(1), "the key in the ledger")
    t.equal(t.effects()[0]["args"], "{}", "arguments that nobody wrote")


@call("arguments_from_everywhere_byte_for_byte")
def arguments(t):
    caller = Caller(t)
    raw = '{"b":1.0, "a":[9007199254740993,"\\u00e9"]}'
    with open(t.path("arguments.json"), "w", encoding="utf-8") as file:
        file.write(raw + "\n")
    ways = [(raw, None), ("@" + t.path("arguments.json"), None), ("-", raw.encode())]
    for n, (word, given) in enumerate(ways):
        told = caller.stdio(QUICK, "--key", f"k{n}", "charge", word, given=given)
        t.equal(told[0], DONE, f"exit status of {word}: {told}")
        t.equal(t.effects()[-1]["args"], raw, f"the arguments of {word}")


@call("says_what_is_wrong_before_anything")
def usage(t):
    caller = Caller(t)
    wrong = [
        ([], "neither a target"),
        (["charge", "[1]", "--", "x"], "one JSON object"),
        (["charge", '{"a":1,"a":2}', "--", "x"], "two members"),
        (["charge", "{", "--", "x"], "arguments"),
        (["charge", "{}", "more", "--", "x"], "one word too many"),
        (["charge", "{}", "--"], "no command"),
        (["http://127.0.0.1:1/", "charge", "@/nowhere"], "cannot be read"),
        (["nobody", "charge"], "no URL"),
        (["--wait", "3", "charge", "--", "x"], "--wait"),
        (["--key", "null", "charge", "--", "x"], "--key"),
        (["--all", "charge", "--", "x"], "--all"),
        (["--resume", "--", "x"], "target was kept"),
        (["--give-up"], "needs the key"),
    ]
    for words, says in wrong:
        status, out, err = caller.run(*words)
        t.equal((status, out), (USAGE, ""), f"exit status and output of {words}")
        t.true(says in err, f"{words} says {says!r}: {err}")
    t.equal(caller.open(), 0, "open calls")


@call("exit_statuses_and_json")
def statuses(t):
    caller = Caller(t)
    script = {
        "tools": {
            "bad": {"runs": [[{"result": '{"content":[{"type":"text","text":"no"}],"isError":true}'}]]},
            "worse": {"runs": [[{"error": '{"code":-32050,"message":"odd","data":{"code":"FAILED"}}'}]]},
            "refuses": {"runs": [[{"error": '{"code":-32099,"message":"did nothing"}'}]]},
            "dies": DYING["tools"]["charge"],
            "slow": RELEASED["tools"]["charge"],
        }
    }
    rules = ("--tool", "refuses: no_effect_errors=-32099", "--orphan-timeout", "5s")

    def ask(status, tool, *more):
        return caller.json(status, *rules, *more, "--key", "k-" + tool, tool, "{}", "--", *stub(t, script))

    told = ask(TOOL_ERROR, "bad")
    t.equal((told["execution"], told["result"]["isError"]), ("succeeded", True), "a tool's isError")
    told = ask(TOOL_ERROR, "worse")
    t.equal((told["execution"], told["error"]["code"]), ("succeeded", -32050), "a tool's error")
    told = ask(NOT_HAPPENED, "refuses")
    t.equal((told["code"], told["effect"]), ("FAILED", "absent"), "a proof of no effect")
    told = ask(UNKNOWN, "dies")
    t.equal((told["execution"], told["effect"]), ("unknown", "intended"), "a server that died")
    t.equal([one["choice"] for one in told["choices"]], ["query", "again", "give_up"], "choices")
    told = ask(STILL_RUNNING, "slow", "--wait", "5s")  # in which everything starts
    t.equal((told["execution"], told["effect"]), ("running", "intended"), "the wait is over")
    t.touch("release")
    told = caller.json(DONE, "--resume", "k-slow")
    t.true("receipt" in json.dumps(told["result"]), f"the real result: {told}")
    status, _, err = caller.run("--resume", "k-slow")
    t.equal(status, ABSENT, f"answered already: {err}")
    status, _, err = caller.run("--key", "k-none", "charge", "--", t.path("no-such-server"))
    t.equal(status, NO_SERVER, f"no server: {err}")
    t.equal(caller.open(), 1, "open calls: the unknown one")


@call("nothing_was_sent_is_told_of_what_is_gone")
def gone_first(t):
    """Killed with the word on the screen: the caller does it anew, so nothing of it may run later."""
    caller = Caller(t)
    words = ("--key", "k1", "charge", "--", t.path("no-such-server"))
    status, _, err = caller.run(*words, env={"HAPAX_CRASH_AT": "call-answer-shown"})
    if status == NO_SERVER:
        raise Skip("built without crash_points")
    t.equal(status, KEEPER_LOST, f"killed when it was told: {err}")
    t.true("nothing was sent" in err, f"what was told: {err}")
    t.equal(caller.open(), 0, "open calls")


@call("a_tool_that_only_reads")
def reads(t):
    """Its calls are passed through, without a row: that the ledger knows nothing of one says nothing
    of what became of it."""
    caller = Caller(t)
    script = {
        "tools": {
            "good": QUICK["tools"]["charge"],
            "bad": {"runs": [[{"error": '{"code":-32050,"message":"odd"}'}]]},
            "dies": {"runs": [[{"kill": 9}], [{"kill": 9}], [{"kill": 9}]]},
            "long": {"runs": [[{"result": json.dumps({"content": [{"type": "text", "text": "x" * 70000}]})}]]},
        }
    }
    wanted = {"good": DONE, "bad": TOOL_ERROR, "dies": UNKNOWN, "long": UNKNOWN}
    for tool, status in wanted.items():
        words = ("--class", "read_only", "--message-max", "65536", "--key", "k-" + tool)
        told = caller.json(status, *words, tool, "--", *stub(t, script))
        t.true(len(t.effects(tool)) >= 1, f"{tool} ran: {told}")
    status, _, err = caller.run("--class", "read_only", "charge", "--", t.path("no-such-server"))
    t.equal(status, NO_SERVER, f"no server: {err}")


@call("a_bare_server_cut_after_the_body")
def bare_cut(t):
    """It ignores keys. The effect is there, the answer is not: unknown, and never a second one."""
    site = Site(t).serve()
    caller = Caller(t)
    url = f"http://127.0.0.1:{site.port}/mcp"
    raw = json.dumps({"steps": [{"close": True}]})
    told = caller.json(UNKNOWN, "--key", "k1", url, "charge", raw)
    t.equal((told["execution"], told["effect"]), ("unknown", "intended"), "what is told")
    for words in (["--key", "k1", url, "charge", raw], ["--resume", "k1"], ["--resume"]):
        told = caller.json(UNKNOWN, *words)
        t.equal(site.effects(), 1, f"effects after {words[0]}")
    status, _, err = caller.run("--resume", "--all")
    t.equal(status, UNKNOWN, "exit status of --resume --all")
    commands = [line.strip() for line in err.splitlines() if line.startswith("    hapax ")]
    t.equal(commands, [one["command"] for one in told["choices"]], "the commands, for a person")


@call("do_it_again_is_one_more")
def again(t):
    """The person's choice, by the command that he was given."""
    caller = Caller(t)
    told = caller.json(UNKNOWN, "--key", "k1", "charge", '{"n":1}', "--", *stub(t, DYING))
    command = [one["command"] for one in told["choices"] if one["choice"] == "again"][0]
    path = os.path.dirname(t.surroundings.hapax) + ":" + t.env["PATH"]
    done = subprocess.run(
        command, shell=True, env={**t.env, "PATH": path}, capture_output=True, timeout=60, check=False
    )
    t.equal(done.returncode, DONE, f"exit status: {done}")
    t.equal(len(t.effects()), 2, "effects")
    t.equal(caller.open(), 0, "open calls")


@call("given_up")
def given_up(t):
    caller = Caller(t)
    told = caller.json(UNKNOWN, "--key", "it's-mine", "charge", "--", *stub(t, DYING))
    t.true("'it'\\''s-mine'" in told["choices"][-1]["command"], f"quoted: {told['choices']}")
    status, _, err = caller.run("--give-up", "it's-mine")
    t.equal(status, DONE, f"exit status: {err}")
    t.equal(caller.run("--resume", "--all")[0], DONE, "nothing is open")
    t.equal(t.operations()[0]["execution"], "unknown", "the ledger's word")
    t.equal(len(t.effects()), 1, "effects")


@call("front_killed_in_the_call")
def front_killed(t):
    """What the person kills is not what works: the answer waits for --resume."""
    caller = Caller(t)
    words = ("--orphan-timeout", "10s", "--key", "k1", "charge", "--", *stub(t, RELEASED))
    process = caller.start(*words)
    t.wait_effects(1)
    process.kill()
    t.equal(process.wait(), -9, "how the front ended")
    process.communicate()
    resumed = caller.start("--resume", "k1")
    t.wait_repeats(1)
    t.touch("release")
    out, err = resumed.communicate(timeout=30)
    t.equal(resumed.returncode, DONE, f"exit status: {err}")
    t.true(b"receipt" in out, f"the real result: {out}")
    t.equal(len(t.effects()), 1, "effects")


@call("interrupted_says_how_to_go_on")
def interrupted(t):
    caller = Caller(t)
    words = ("--orphan-timeout", "10s", "--key", "k1", "charge", "--", *stub(t, RELEASED))
    process = caller.start(*words)
    t.wait_effects(1)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    t.true(b"hapax call --resume k1" in err, f"the command: {err}")
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the outcome")
    t.true("receipt" in caller.run("--resume")[1], "the real result")


@call("resumed_by_the_operation_s_id")
def resumed_by_id(t):
    """Where the answer told only the id, that names the call too; another id names none."""
    caller = Caller(t)
    words = ("--orphan-timeout", "10s", "--key", "k1", "charge", "--", *stub(t, RELEASED))
    process = caller.start(*words)
    t.wait_effects(1)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    ident = t.operations()[0]["id"]
    other = ident[:-1] + ("0" if ident[-1] != "0" else "1")
    t.equal(caller.run("--resume", other)[0], ABSENT, "another id")
    t.touch("release")
    status, out, err = caller.run("--resume", ident)
    t.equal(status, DONE, f"exit status: {err}")
    t.true("receipt" in out, f"the real result: {out}")
    t.equal(caller.run("--resume", ident)[0], ABSENT, "it is answered")
    t.equal(len(t.effects()), 1, "effects")


@call("what_cannot_be_read_is_not_settled")
def unread(t):
    """A call of a later version, or one for which there is no memory: it is open all the same."""
    caller = Caller(t)
    told = caller.json(UNKNOWN, "--key", "k1", "charge", "--", *stub(t, DYING))
    path = glob.glob(os.path.join(t.ledger, "calls", "*.json"))[0]
    with open(path, encoding="utf-8") as file:
        kept = file.read()
    with open(path, "w", encoding="utf-8") as file:
        file.write(kept.replace('"version":1', '"version":2', 1))
    for words, wanted in (
        (("--resume", "k1"), NO_LEDGER),
        (("--resume",), NO_LEDGER),
        (("--resume", told["operation"]), NO_LEDGER),
        (("--give-up", "k1"), NO_LEDGER),
        (("--resume", "--all"), STILL_RUNNING),
    ):
        status, _, err = caller.run(*words)
        t.equal(status, wanted, f"exit status of {words}: {err}")
        t.true("was answered" not in err, f"{words} says {err}")
    with open(path, "w", encoding="utf-8") as file:
        file.write(kept)
    os.rename(os.path.join(t.ledger, "ledger.db"), t.path("away"))
    with open(os.path.join(t.ledger, "ledger.db"), "w", encoding="utf-8") as file:
        file.write("no ledger" * 200)
    status, _, err = caller.run("--resume", told["operation"])
    t.equal(status, NO_LEDGER, f"an id, and a ledger that cannot be read: {err}")


@call("one_that_cannot_be_taken_up_is_open")
def untaken(t):
    """Its working directory is gone: nothing says that it did not act."""
    caller = Caller(t)
    os.makedirs(t.path("project"))
    process = caller.start("--key", "k1", "charge", "--", *stub(t, DYING), cwd=t.path("project"))
    process.communicate(timeout=30)
    t.equal(process.returncode, UNKNOWN, "exit status")
    os.rmdir(t.path("project"))
    for words in (("--resume", "k1"), ("--resume", "--all")):
        status, _, err = caller.run(*words)
        t.equal(status, STILL_RUNNING, f"exit status of {words}: {err}")


def ways_of(t, told):
    """The commands that were printed, by the name of each."""
    path = os.path.dirname(t.surroundings.hapax) + ":" + t.env["PATH"]
    commands = {one["choice"]: one["command"] for one in told["choices"]}
    return lambda choice: subprocess.run(
        commands[choice] + " --json" * (choice == "query"), shell=True, capture_output=True, timeout=60,
        env={**t.env, "PATH": path}, check=False,
    )


@call("a_large_answer_to_a_pipe_that_does_not_block")
def does_not_block(t):
    """Whoever shares the pipe has decided that; the answer is whole all the same."""
    caller = Caller(t)
    text = "x" * 1000000
    script = {"tools": {"charge": {"runs": [[{"result": json.dumps({"content": [{"type": "text", "text": text}]})}]]}}}
    ours, its = os.pipe()
    os.set_blocking(its, False)
    argv = caller.argv("--key", "k1", "charge", "--", *stub(t, script))
    process = subprocess.Popen(argv, env=t.env, stdin=subprocess.DEVNULL, stdout=its, stderr=subprocess.PIPE)
    os.close(its)
    full = select.poll()
    full.register(ours, select.POLLIN)
    t.true(full.poll(30000), "its first bytes")
    with os.fdopen(ours, "rb") as file:
        got = file.read()
    _, err = process.communicate(timeout=30)
    t.equal(process.returncode, DONE, f"exit status: {err}")
    t.equal(len(got), len(text) + 1, "bytes")


@call("a_ledger_that_cannot_be_opened_is_not_waited_for")
def no_ledger(t):
    caller = Caller(t)
    os.makedirs(t.ledger)
    with open(os.path.join(t.ledger, "ledger.db"), "w", encoding="utf-8") as file:
        file.write("no ledger" * 200)
    words = ("--wait", "none", "--key", "k1", "charge", "--", *stub(t, QUICK))
    process = caller.start(*words)
    _, err = process.communicate(timeout=20)
    t.equal(process.returncode, NO_LEDGER, f"exit status: {err}")
    t.equal(caller.open(), 0, "open calls")


@call("resume_all_killed_leaves_nobody")
def all_killed(t):
    """Whoever kills it by its pid gets the end of its output at once; the call goes on."""
    caller = Caller(t)
    words = ("--orphan-timeout", "20s", "--key", "k1", "charge", "--", *stub(t, RELEASED))
    process = caller.start(*words)
    t.wait_effects(1)
    process.kill()
    process.communicate(timeout=20)
    resumed = caller.start("--resume", "--all")
    t.wait_repeats(1)
    resumed.kill()
    resumed.communicate(timeout=5)
    t.touch("release")
    t.equal(caller.run("--resume", "k1")[0], DONE, "the real result")
    t.equal(len(t.effects()), 1, "effects")


@call("one_key_at_two_tools")
def two_tools(t):
    """A key names a call of one tool at one server. Each of the two is taken up alone, by the command
    that was printed and by its id; neither stands for the other."""
    caller = Caller(t)
    script = {"tools": {tool: DYING["tools"]["charge"] for tool in ("charge", "ship")}}
    first = caller.json(UNKNOWN, "--key", "k1", "charge", "--", *stub(t, script))
    told = caller.json(UNKNOWN, "--key", "k1", "ship", "--", *stub(t, script))
    status, _, err = caller.run("--resume", "k1")
    t.equal(status, USAGE, f"two are open: {err}")
    t.true("--resume k1 charge " in err and "--resume k1 ship " in err, f"both commands: {err}")
    for words in (("--resume", told["operation"]), ("--resume", "k1", "ship"), ("--resume", "k1", "ship", told["server"])):
        t.equal(caller.json(UNKNOWN, *words)["tool"], "ship", f"the tool of {words}")
    run = ways_of(t, told)
    t.equal(json.loads(run("query").stdout)["tool"], "ship", "the tool of the printed command")
    done = run("again")
    t.equal(done.returncode, DONE, f"do it again: {done}")
    t.equal((len(t.effects("charge")), len(t.effects("ship"))), (1, 2), "effects")
    for way in ("--resume", "--give-up"):
        status, _, err = caller.run(way, told["operation"])
        t.equal(status, ABSENT, f"{way} of the one that was answered: {err}")
    t.equal(caller.open(), 1, "open calls: the first")
    t.equal(caller.json(UNKNOWN, "--resume", first["operation"])["tool"], "charge", "the first, by its id")
    status, _, err = caller.run("--give-up", first["operation"])
    t.equal((status, caller.open()), (DONE, 0), f"given up: {err}")


@call("a_key_that_looks_like_an_option")
def dash_key(t):
    caller = Caller(t)
    told = caller.json(UNKNOWN, "--key=-x1", "charge", "--", *stub(t, DYING))
    run = ways_of(t, told)
    t.equal(run("query").returncode, UNKNOWN, f"ask again: {told['choices']}")
    t.equal(run("again").returncode, DONE, f"do it again: {told['choices']}")


@call("two_at_once_under_one_key")
def joined(t):
    caller = Caller(t)
    words = ("--key", "k1", "charge", "--", *stub(t, RELEASED))
    both = [caller.start(*words) for _ in range(2)]
    t.wait_effects(1)
    t.wait_repeats(1)
    t.touch("release")
    told = [process.communicate(timeout=30)[0] for process in both]
    t.equal(told[0], told[1], "answers")
    t.equal(len(t.effects()), 1, "effects")
    t.equal(caller.open(), 0, "open calls")


@call("by_a_name_in_a_file")
def by_name(t):
    """The file that editors keep; taken up again from another directory."""
    argv = stub(t, DYING)
    os.makedirs(t.path("project"))
    with open(t.path("project/mcp.json"), "w", encoding="utf-8") as file:
        json.dump({"mcpServers": {"bank": {"command": argv[0], "args": argv[1:]}}}, file)
    caller = Caller(t)
    process = caller.start(
        "--config", "mcp.json", "--key", "k1", "bank", "charge", "--json", cwd=t.path("project")
    )
    out, err = process.communicate(timeout=30)
    t.equal(process.returncode, UNKNOWN, f"exit status: {err}")
    t.equal(json.loads(out)["server"], "bank", "its name")
    told = caller.json(UNKNOWN, "--resume")
    t.equal(told["server"], "bank", "its name, taken up")
    status, _, err = caller.run("--config", t.path("project/mcp.json"), "shop", "charge")
    t.equal(status, USAGE, f"exit status for a name that is not there: {err}")


@call("secrets_stay_in_their_file")
def secrets(t):
    site = Site(t).serve()
    with open(t.path("headers"), "w", encoding="utf-8") as file:
        file.write("Authorization: Bearer hpx-very-secret\n")
    os.chmod(t.path("headers"), 0o600)
    url = f"http://127.0.0.1:{site.port}/mcp"
    raw = json.dumps({"steps": [{"close": True}]})
    caller = Caller(t)
    caller.json(UNKNOWN, "--key", "k1", "--headers-file", t.path("headers"), url, "charge", raw)
    t.true("hpx-very-secret" in str(t.lines("site/requests")), "the server got it")
    for path in t.ledger_files():
        with open(path, "rb") as file:
            t.true(b"hpx-very-secret" not in file.read(), f"a secret in {path}")
        t.equal(os.stat(path).st_mode & 0o077, 0, f"others may read {path}")


@call("inner_gateway_asked")
def inner_asked(t):
    """The keeper is killed while `hapax serve` works: it is asked, and knows."""
    inner = Serve(t, ["--", *stub(t, QUICK)], ledger=t.path("inner"))
    url = f"http://127.0.0.1:{inner.port}/mcp"
    caller = Caller(t)
    status, _, _ = caller.run("--key", "k1", url, "charge", env={"HAPAX_CRASH_AT": "reply-not-stored"})
    if status == DONE:
        raise Skip("built without crash_points")
    t.equal((status, len(t.effects())), (KEEPER_LOST, 1), "killed with the answer in hand")
    told = caller.json(DONE, "--resume", "k1")
    t.true("receipt" in json.dumps(told["result"]), f"the real result: {told}")
    t.equal(len(t.effects()), 1, "effects")


@call("inner_gateway_that_never_saw_it")
def inner_unseen(t):
    """The request was marked as sent and never left: the inner gateway is asked and knows nothing. It
    may be another one than he to whom it was sent, so that proves nothing."""
    inner = Serve(t, ["--", *stub(t, QUICK)], ledger=t.path("inner"))
    url = f"http://127.0.0.1:{inner.port}/mcp"
    caller = Caller(t)
    status, _, _ = caller.run("--key", "k1", url, "charge", env={"HAPAX_CRASH_AT": "marked-not-sent"})
    if status == DONE:
        raise Skip("built without crash_points")
    t.equal((status, len(t.effects())), (KEEPER_LOST, 0), "killed before a byte left")
    caller.json(UNKNOWN, "--resume", "k1")
    t.equal(len(t.effects()), 0, "effects")


@call("inner_gateway_that_lost_its_ledger")
def inner_other(t):
    """The one behind acted, died, and comes back with an empty ledger: its "there is no such
    operation" makes nothing run twice."""
    inner = Serve(t, ["--", *stub(t, {"tools": {"charge": {"runs": [[{"wait": "never"}]]}}})],
                  ledger=t.path("inner"))
    url = f"http://127.0.0.1:{inner.port}/mcp"
    caller = Caller(t)
    process = caller.start("--key", "k1", url, "charge")
    t.wait_effects(1)
    inner.kill()
    t.equal(process.wait(30), UNKNOWN, "its server is gone")
    inner.ledger = t.path("another")
    inner.start()
    caller.json(UNKNOWN, "--resume", "k1")
    caller.json(UNKNOWN, "--resume", "k1")
    t.equal(len(t.effects()), 1, "effects")


def points():
    found = set()
    for path in glob.glob(os.path.join(SOURCES, "**", "*.c"), recursive=True):
        with open(path, encoding="utf-8") as file:
            found.update(re.findall(r'HX_CRASH_POINT\("([^"]+)"\)', file.read()))
    return sorted(found)


@call("killed_at_every_point_it_comes_to")
def crash_points(t):
    """Each visit of each point, for three kinds of tool; taken up until it is answered."""
    with open(t.surroundings.hapax, "rb") as file:
        if b"HAPAX_CRASH_AT" not in file.read():
            raise Skip("built without crash_points")
    kinds = {"opaque": "opaque", "idem": "idempotent"}
    tools = {tool: {"runs": [[{"text": "receipt $RECEIPT"}]]} for tool in kinds}
    server = ("--tool", "idem: class=idempotent", "--orphan-timeout", "5s")
    caller = Caller(t)
    reached = {}
    for point in points():
        for tool in kinds:
            key = f"{point}-{tool}"
            words = (*server, "--key", key, tool, json.dumps({"key": key}), "--", *stub(t, {"tools": tools}))
            status, out, err = caller.run(*words, env={"HAPAX_CRASH_AT": point})
            if status == DONE:
                break  # it does not come there
            t.equal(status, KEEPER_LOST, f"{key}: exit status {err}")
            reached[point] = reached.get(point, 0) + 1
            status, out, err = caller.run("--resume", key)
            if status == ABSENT:  # it was answered, or never written down
                status, out, err = caller.run(*words)
            ran = [one for one in t.effects(tool) if json.loads(one["args"])["key"] == key]
            where = f"{key}: status {status}, {len(ran)} effects, {out} {err}"
            most = 2 if tool == "idem" else 1
            t.true((status == DONE) <= len(ran) <= most, where)
            t.true(status == DONE or (tool == "opaque" and status == UNKNOWN), where)
            if status == DONE:
                t.true(ran[-1]["receipt"] in out, f"not the result of what ran: {where}")
    own = [point for point in points() if point.startswith("call-")]
    missing = [point for point in own if point not in reached]
    t.equal(missing, [], "points of hapax call that no run came to")
    t.true(len(reached) >= 12, f"points reached: {sorted(reached)}")


@call("refused_after_an_attempt_that_acted")
def refused_later(t):
    """The first attempt acts and its connection is cut; the second is refused. That says nothing of
    the first."""
    for tool_class in ("idempotent", "keyed"):
        for status in (401, 403, 400):
            name = f"{tool_class}-{status}"
            site = Site(t, name).serve({})
            steps = [
                {"unless": "cut", "do": [{"touch": "cut"}, {"close": True}]},
                {"if": "cut", "do": [{"status": [status]}]},
            ]
            place = ("--effect-key", "/key", "--dedupe-horizon", "1h") if tool_class == "keyed" else ()
            caller = Caller(t)
            words = ("--class", tool_class, *place, "--key", name)
            url = f"http://127.0.0.1:{site.port}/mcp"
            caller.json(UNKNOWN, *words, url, "charge", json.dumps({"steps": steps}))
            caller.json(UNKNOWN, "--resume", name)
            t.true(site.effects() >= 1, "it acted")
            site.end()
