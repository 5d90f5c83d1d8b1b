# SPDX-License-Identifier: MIT
"""`hapax audit`: red where it must be red. Servers that keep their promise, that have none, and that
break it in one way each; gateways; the official reference servers.
"""

import json
import os
import signal
import subprocess
import sys

from kit import install
from kit.harness import Failure, Skip, test
from webclient import Serve

HERE = os.path.dirname(os.path.abspath(__file__))
FIXTURE = os.path.join(HERE, "..", "..", "fixtures", "audit_server.py")
KEPT, BROKEN, USAGE, NOT_SHOWN = range(4)
NO_KEYS = "advertises no idempotency"


def audit(title, **params):
    return test("audit", "audit_" + title, needs_hapax=True, **params)


class Audit:
    """What `hapax audit --json` said of one server."""

    def __init__(self, t, target, *options, only=(), tool="charge", args=None, count=None, env=None):
        self.t = t
        t.is_traffic_judged = False  # nothing of it is recorded
        self.argv = [
            t.surroundings.hapax,
            "audit",
            "--yes",
            "--json",
            "--tool",
            tool,
            "--args",
            args or '{"note": "{unique}"}',
            "--count",
            count or f"cat {t.path('effects')} 2>/dev/null | wc -l",
            *[word for name in only for word in ("--only", name)],
            *options,
            *target,
        ]
        done = subprocess.run(
            self.argv,
            env={**t.env, **(env or {})},
            cwd=t.dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            timeout=500,
            check=False,
        )
        self.status, self.err = done.returncode, done.stderr.decode()
        self.told = json.loads(done.stdout) if done.stdout else {"trials": []}
        self.trials = {one["name"]: one for one in self.told["trials"]}

    def verdicts(self, *names):
        return {name: self.trials[name]["verdict"] for name in names or self.trials}

    def show(self):
        rows = [
            f"{one['name']}: {one['verdict']} {one['effects_seen']}/{one['effects_wanted']} {one['reason']}"
            for one in self.told["trials"]
        ]
        return "; ".join(rows) + self.err[-500:]

    def expect(self, status, **verdicts):
        """`verdicts` by names with _ for - and __ for +."""
        wanted = {
            name.replace("__", "+").replace("_", "-"): said.replace("_", " ")
            for name, said in verdicts.items()
        }
        got = {name: self.trials.get(name, {}).get("verdict") for name in wanted}
        self.t.equal(got, wanted, f"verdicts ({self.show()})")
        self.t.equal(self.status, status, f"exit status ({self.show()})")
        left = [name for name, one in self.trials.items() if one["left_behind"]]
        self.t.equal(left, [], "trials that left processes")
        return self


def fixture(t, mode, delay_ms=300):
    return ["--", sys.executable, FIXTURE, t.dir, mode, str(delay_ms)]


def example(t, *options, delay_ms=300):
    server = os.path.join(os.path.dirname(t.surroundings.hapax), "..", "..", "examples", "hapax-example-server")
    if not os.access(server, os.X_OK):
        raise Skip("there is no hapax-example-server beside this hapax")
    return [*options, os.path.realpath(server), "--ledger", t.path("effects"), "--delay-ms", str(delay_ms)]


EXAMPLE = {"args": '{"amount": {number}, "note": "{unique}"}'}

BARE = ("cancel", "early", "silent", "client-killed", "server-killed", "tree-killed")
BARE_HTTP = ("cancel", "silent", "connection-cut", "client-killed")
BEHIND = ("behind-killed", "behind-killed+key")

# The example server, three ways. Long enough for every trial to be staged: the patience that it plays
# is a second.
PATIENT_MS = 2500


@audit("bare_example_server_is_broken")
def bare_example(t):
    said = Audit(t, example(t, "--", delay_ms=PATIENT_MS), **EXAMPLE)
    t.equal({said.trials[name]["verdict"] for name in BARE}, {"broken"}, f"verdicts ({said.show()})")
    said.expect(
        BROKEN,
        answered="kept",
        two_in_turn="kept",
        two_at_once="kept",
        connection_cut="not_shown",
        behind_killed="not_shown",
        cancel__key="not_shown",
        key_at_once="not_shown",
    )
    t.true(NO_KEYS in said.trials["key-at-once"]["reason"], "why keys were not tried")
    t.equal(said.trials["cancel"]["effects_seen"], 2, "effects after the retry")
    t.equal(said.told["advertises"], None, "what it advertises")
    t.equal(len(t.effects()), sum(one["effects_seen"] or 0 for one in said.told["trials"]), "all effects")


@audit("hapax_run_keeps_everything")
def hapax_run(t):
    run = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--orphan-timeout", "10s", "--"]
    said = Audit(t, example(t, *run, delay_ms=PATIENT_MS), **EXAMPLE)
    said.expect(KEPT, connection_cut="not_shown", connection_cut__key="not_shown")
    shown = {name for name, verdict in said.verdicts().items() if verdict == "kept"}
    t.equal(len(shown), len(said.trials) - 2, f"trials that were kept ({said.show()})")
    t.equal(said.trials["tree-killed"]["told"], "OUTCOME_UNKNOWN", "what the retry was told")
    t.equal(said.told["advertises"], "dev.hapax/operations", "what it advertises")


@audit("hapax_serve_keeps_what_applies")
def hapax_serve(t):
    running = Serve(t, example(t, "--", delay_ms=PATIENT_MS), "--orphan-timeout", "10s")
    said = Audit(t, [f"http://127.0.0.1:{running.port}/mcp"], **EXAMPLE)
    said.expect(KEPT, connection_cut="kept", connection_cut__key="kept", client_killed="kept")
    killed = {name for name in said.trials if "killed" in name and "client" not in name}
    t.equal({name for name, one in said.trials.items() if not one["applies"]}, killed, "what does not apply")
    t.true("cannot be killed" in said.trials["server-killed"]["reason"], "why it does not")


@audit("a_fast_tool_is_not_called_kept")
def fast(t):
    """It answers before anything can come between: what could not be staged is said, and is no zero."""
    run = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--orphan-timeout", "10s", "--"]
    only = ("cancel", "silent", "client-killed", "tree-killed")
    said = Audit(t, example(t, *run, delay_ms=0), only=only, **EXAMPLE)
    said.expect(NOT_SHOWN, cancel="kept", client_killed="kept", silent="not_shown")
    # On a busy machine the kill may win.
    killed = said.trials["tree-killed"]
    t.true(
        killed["verdict"] == "kept" or "too fast to be interrupted" in killed["reason"],
        f"what is said of the kill ({said.show()})",
    )


# The fixture: what is right, and one way to be wrong each.

CUTS = ("cancel+key", "early+key", "silent+key", "client-killed+key", "server-killed+key", "tree-killed+key")
KEYS = ("key-in-turn", "key-at-once", "key-conflict", "two-keys")
MEANT = ("two-in-turn", "two-at-once")


@audit("a_server_that_keeps_its_keys")
def good(t):
    said = Audit(t, fixture(t, "good", PATIENT_MS), only=CUTS + KEYS + MEANT)
    said.expect(KEPT)
    t.equal(set(said.verdicts().values()), {"kept"}, f"verdicts ({said.show()})")
    t.equal(said.trials["key-in-turn"]["told"], "the first answer again", "what a repeat was told")
    t.equal(said.trials["key-conflict"]["told"], "idempotency_key_conflict", "what a conflict was told")


@audit("a_server_that_pings_is_answered")
def pings(t):
    Audit(t, fixture(t, "pings", 0), only=("cancel+key",)).expect(KEPT, cancel__key="kept")


# mode, delay, broken trials, kept trials
WRONG = [
    ("ignores_keys", PATIENT_MS, (*CUTS, *KEYS[:3]), ("two-keys", *MEANT)),
    ("reconnect", 1300, ("client-killed+key", "server-killed+key", "key-in-turn"), ("cancel+key", "key-at-once")),
    ("racy", 300, ("key-at-once",), ("cancel+key", "key-in-turn", "two-keys")),
    ("forgets_running", 1300, ("early+key",), ("cancel+key", "key-in-turn")),
    ("needs_cancel", PATIENT_MS, ("silent+key",), ("cancel+key",)),
    ("late", 300, ("cancel+key", "key-in-turn"), ("two-keys",)),
    ("no_conflict", 0, ("key-conflict",), ("key-in-turn",)),
    ("acts_on_conflict", 0, ("key-conflict",), ("key-in-turn",)),
    ("merges", 300, ("two-keys",), ("cancel+key", "client-killed+key", "key-at-once")),
    ("says_failed", 300, ("cancel+key", "client-killed+key"), ("two-keys",)),
]


def wrong(t, mode, delay_ms, broken, kept):
    said = Audit(t, fixture(t, mode, delay_ms), only=broken + kept)
    wanted = {**{name: "broken" for name in broken}, **{name: "kept" for name in kept}}
    t.equal(said.verdicts(*wanted), wanted, f"verdicts ({said.show()})")
    t.equal(said.status, BROKEN, "exit status")
    if mode == "says_failed":
        t.true("nothing happened, and it did" in said.trials["cancel+key"]["reason"], "the lie is named")
    if mode == "no_conflict":
        t.true("never ran" in said.trials["key-conflict"]["reason"], "the lie is named")


for _mode, _delay_ms, _broken, _kept in WRONG:
    audit(f"sees_what_is_wrong_{_mode}", mode=_mode, delay_ms=_delay_ms, broken=_broken, kept=_kept)(wrong)


@audit("equal_calls_that_are_merged_are_broken")
def merged(t):
    """Only what has a key has one here: keyless calls are merged by a gateway that is told so."""
    window = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--repeat", "window", "--"]
    said = Audit(t, example(t, *window, delay_ms=100), only=MEANT, **EXAMPLE)
    said.expect(BROKEN, two_in_turn="broken", two_at_once="broken")
    t.true("--idempotent" in said.trials["two-in-turn"]["reason"], "what else it may be")
    said = Audit(t, example(t, *window, delay_ms=100), "--idempotent", only=MEANT + ("cancel",), **EXAMPLE)
    said.expect(KEPT, two_in_turn="not_shown", cancel="kept")


@audit("a_gateway_that_sends_again_is_broken")
def resends(t):
    said = Audit(t, fixture(t, "resends", 800), "--key", "sep3182", only=BEHIND)
    for name in BEHIND:
        t.equal(said.trials[name]["verdict"], "broken", f"{name} ({said.show()})")
        t.equal(said.trials[name]["calls"], 1, "calls of ours: the second is the gateway's")


def served(t, mode, delay_ms):
    argv = [sys.executable, FIXTURE, t.dir, mode, str(delay_ms), "--http", t.path("port")]
    process = subprocess.Popen(argv, env=t.env, stdin=subprocess.DEVNULL)
    t.at_end(process.wait)
    t.at_end(process.kill)
    t.wait(lambda: os.path.exists(t.path("port")), "the port of the server")
    with open(t.path("port"), encoding="utf-8") as file:
        return [f"http://127.0.0.1:{file.read()}/mcp"]


@audit("http_bare_is_broken")
def http_bare(t):
    only = (*BARE_HTTP, "server-killed", "two-at-once")
    said = Audit(t, served(t, "keyless", PATIENT_MS), only=only)
    t.equal({said.trials[name]["verdict"] for name in BARE_HTTP}, {"broken"}, f"verdicts ({said.show()})")
    said.expect(BROKEN, server_killed="not_shown", two_at_once="kept")


@audit("http_that_ignores_keys_is_broken")
def http_ignores(t):
    said = Audit(t, served(t, "ignores_keys", 300), only=("connection-cut+key",))
    said.expect(BROKEN, connection_cut__key="broken")


@audit("http_with_keys_is_kept")
def http_good(t):
    only = ("cancel+key", "connection-cut+key", "client-killed+key", "key-at-once", "key-conflict")
    said = Audit(t, served(t, "good", 300), only=only)
    said.expect(KEPT)
    t.equal(set(said.verdicts().values()), {"kept"}, f"verdicts ({said.show()})")


@audit("key_where_it_is_said_to_be")
def key_place(t):
    """A key as an argument, which the gateway is told of; and a place that nobody looks at."""
    run = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--key-argument", "/order", "--"]
    target = example(t, *run, delay_ms=300)
    only = ("cancel+key", "key-in-turn", "key-conflict")
    Audit(t, target, "--key", "/order", only=only, **EXAMPLE).expect(
        KEPT, cancel__key="kept", key_in_turn="kept", key_conflict="kept"
    )
    said = Audit(t, target, "--key", "_meta:nobody/looks", only=("key-in-turn",), **EXAMPLE)
    said.expect(BROKEN, key_in_turn="broken")
    said = Audit(t, target, "--key", "none", only=("key-in-turn",), **EXAMPLE)
    said.expect(NOT_SHOWN, key_in_turn="not_shown")


# What cannot be audited.


@audit("nothing_is_called_without_consent_and_a_count")
def consent(t):
    target = fixture(t, "good")
    wrong_ones = [
        (["--tool", "charge", "--args", '{"a":"{unique}"}'], "--count"),
        (["--tool", "charge", "--count", "echo 1"], "--args"),
        (["--args", '{"a":"{unique}"}', "--count", "echo 1"], "--tool"),
        (["--tool", "charge", "--args", '{"a":1}', "--count", "echo 1"], "{unique}"),
        (["--tool", "charge", "--args", "[{number}]", "--count", "echo 1"], "one object"),
        (["--tool", "charge", "--args", '{"a":"{unique}"}', "--count", "echo 1"], "--yes"),
        (["--tool", "x", "--args", '{"a":"{unique}"}', "--count", "echo 1", "--repeat", "window"], "gateway"),
        (["--tool", "x", "--args", '{"a":"{unique}"}', "--count", "echo 1", "--only", "cancle"], "'cancel'"),
    ]
    for words, says in wrong_ones:
        status, out, err = t.hapax("audit", *words, *target)
        t.equal((status, out), (USAGE, b""), f"exit status and output of {words}: {err}")
        t.true(says in err.decode(), f"{words} says {says!r}: {err}")
    t.equal(t.effects(), [], "effects")


@audit("what_the_command_cannot_count_is_not_audited")
def uncountable(t):
    """Exit status 3, one call at most, and the reason: nothing is kept or broken here."""
    for count, says in (
        ("echo 7", "by 0"),
        ("echo many", "no number"),
        (f"echo $(( $(cat {t.path('effects')} 2>/dev/null | wc -l) * 2 ))", "by 2"),
        (f"echo $(( 100 - $(cat {t.path('effects')} 2>/dev/null | wc -l) ))", "went down"),
    ):
        before = len(t.effects())
        said = Audit(t, fixture(t, "good", 0), count=count)
        t.equal(said.status, NOT_SHOWN, f"exit status with {count} ({said.show()})")
        t.true(says in said.err, f"{count} says {says!r}: {said.err}")
        t.equal([one["verdict"] for one in said.told["trials"]], ["not shown"], "verdicts")
        t.true(len(t.effects()) <= before + 1, "calls")
    said = Audit(t, fixture(t, "good", 0), tool="chrage")
    t.equal(said.status, NOT_SHOWN, "exit status without the tool")
    t.true("no tool 'chrage'; it has other, charge" in said.err, f"what there is: {said.err}")
    said = Audit(t, ["--", t.path("no-such-server")])
    t.equal(said.status, NOT_SHOWN, "exit status without a server")
    t.true("no-such-server" in said.err, f"what the system said: {said.err}")


@audit("others_effects_are_kept_apart_by_the_value")
def noise(t):
    """A place where others write too: the command counts what is this trial's."""
    path = t.path("effects")
    writer = f"while :; do echo '{{\"args\": \"another\"}}' >> {path}; sleep 0.05; done"
    other = subprocess.Popen(["sh", "-c", writer], env=t.env, stdin=subprocess.DEVNULL)
    t.at_end(other.wait)
    t.at_end(other.kill)
    count = f'grep -c "$HAPAX_AUDIT_VALUE" {path}'
    said = Audit(t, fixture(t, "good", 200), only=("cancel+key", "two-in-turn"), count=count)
    said.expect(KEPT, cancel__key="kept", two_in_turn="kept")


@audit("interrupted_it_leaves_nothing")
def interrupted(t):
    for sig in (signal.SIGTERM, signal.SIGKILL):
        before = len(t.effects())
        run = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--orphan-timeout", "1s", "--"]
        words = [
            t.surroundings.hapax, "audit", "--yes", "--tool", "charge", *("--args", EXAMPLE["args"]),
            *("--count", f"cat {t.path('effects')} 2>/dev/null | wc -l"), *("--only", "cancel"),
            *example(t, *run, delay_ms=2500),
        ]
        process = subprocess.Popen(
            words, env=t.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        t.wait(lambda: len(t.effects()) >= before + 2, "the call of the second trial", 30)
        process.send_signal(sig)
        out, _ = process.communicate(timeout=20)
        t.equal(out, b"", "output")
        t.equal(process.returncode, NOT_SHOWN if sig == signal.SIGTERM else -sig, "exit status")


@audit("interrupted_at_its_question_it_leaves_nothing")
def interrupted_question(t):
    temporary = t.path("temporary")
    os.mkdir(temporary)
    leader, follower = os.openpty()
    words = [
        t.surroundings.hapax, "audit", "--tool", "charge", *("--args", EXAMPLE["args"]),
        *("--count", "echo 0"), *example(t, "--"),
    ]
    env = {**t.env, "TMPDIR": temporary}
    process = subprocess.Popen(
        words, env=env, stdin=follower, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    os.close(follower)
    said = b""
    while b"[y/N]" not in said:
        part = os.read(process.stderr.fileno(), 4096)
        t.true(part, f"it asks: {said!r}")
        said += part
    process.send_signal(signal.SIGINT)
    t.equal(process.wait(10), -signal.SIGINT, "exit status")
    process.stderr.close()
    os.close(leader)
    t.equal(os.listdir(temporary), [], "what is left")


@audit("every_trial_has_a_server_that_breaks_it")
def every(t):
    """What the tests above find broken, against the list of the program itself."""
    broken = {*BARE, *BARE_HTTP, *BEHIND, *MEANT, "connection-cut+key"}
    broken |= {name for row in WRONG for name in row[2]}
    status, out, _ = t.hapax("audit", "--list")
    names = {line.split()[0] for line in out.decode().splitlines()}
    t.equal(status, 0, "exit status")
    t.equal(names - broken, {"answered"}, "trials that no test has seen broken")
    t.equal(broken - names, set(), "names that are no trials")


@audit("its_help_teaches")
def teaches(t):
    status, out, _ = t.hapax("audit", "--help")
    t.equal(status, 0, "exit status")
    for word in (b"FOR REAL", b"{unique}", b"HAPAX_AUDIT_VALUE", b"not shown", b"--strict", b"Exit status"):
        t.true(word in out, f"the help says {word}")
    t.true(max(len(line) for line in out.splitlines()) <= 100, "lines that fit")
    status, out, _ = t.hapax("audit", "--list")
    t.equal(status, 0, "exit status")
    t.true(b"client-killed+key" in out, "the trials")


# The official reference servers.


def reference(t, name, *arguments):
    path, reason = install.reference_servers(t.surroundings.directory)
    if not path:
        raise Skip(reason)
    package = os.path.join(path, "node_modules", "@modelcontextprotocol", f"server-{name}")
    return ["node", os.path.join(package, "dist", "index.js"), *arguments]


CUT_ONLY = ("cancel", "client-killed")


@audit("reference_filesystem_bare_and_through_hapax")
def filesystem(t):
    """`edit_file` puts a line into a file: twice when it is called twice."""
    with open(t.path("log.txt"), "w", encoding="utf-8") as file:
        file.write("END\n")
    edit = {"oldText": "END", "newText": "{unique}\nEND"}
    args = json.dumps({"path": t.path("log.txt"), "edits": [edit]})
    given = {"tool": "edit_file", "args": args, "count": f"grep -c audit- {t.path('log.txt')}"}
    server = reference(t, "filesystem", t.dir)
    said = Audit(t, ["--", *server], only=CUT_ONLY + ("two-in-turn",), **given)
    said.expect(BROKEN, cancel="broken", client_killed="broken", two_in_turn="kept")
    run = ["--", t.surroundings.hapax, "run", "--ledger", t.ledger, "--orphan-timeout", "10s", "--"]
    only = (*CUT_ONLY, "cancel+key", "client-killed+key", "key-at-once", "key-conflict", "two-in-turn")
    said = Audit(t, [*run, *server], only=only, **given)
    said.expect(KEPT)
    t.equal(set(said.verdicts().values()), {"kept"}, f"verdicts ({said.show()})")


@audit("reference_memory_is_idempotent_by_itself")
def memory(t):
    """An entity is known by its name: a retry changes nothing, and neither does a second one."""
    entity = {"name": "{unique}", "entityType": "t", "observations": ["o"]}
    given = {
        "tool": "create_entities",
        "args": json.dumps({"entities": [entity]}),
        "count": f"cat {t.path('memory.jsonl')} 2>/dev/null | grep -c audit-",
        "env": {"MEMORY_FILE_PATH": t.path("memory.jsonl")},
    }
    server = ["--", *reference(t, "memory")]
    said = Audit(t, server, only=CUT_ONLY + ("two-in-turn",), **given)
    said.expect(BROKEN, cancel="kept", client_killed="kept", two_in_turn="broken")
    t.true("--idempotent" in said.trials["two-in-turn"]["reason"], "what it may be")
    said = Audit(t, server, "--idempotent", only=CUT_ONLY + ("two-in-turn",), **given)
    said.expect(KEPT, cancel="kept", client_killed="kept", two_in_turn="not_shown")
    said = Audit(t, server, "--idempotent", "--strict", only=CUT_ONLY + ("two-in-turn",), **given)
    said.expect(NOT_SHOWN, two_in_turn="not_shown")


@audit("reference_everything_has_nothing_to_count")
def everything(t):
    said = Audit(
        t,
        ["--", *reference(t, "everything", "stdio")],
        tool="trigger-long-running-operation",
        args='{"duration": 1, "steps": 1, "note": "{unique}"}',
    )
    t.equal(said.status, NOT_SHOWN, f"exit status ({said.show()})")
    t.true("only reads" in said.err, f"why: {said.err}")
