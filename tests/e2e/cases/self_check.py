# SPDX-License-Identifier: MIT
"""The checks of this harness, each shown that it can fail: a check that cannot is worth nothing.
"""

import json
import os
import subprocess
import sys

from kit import harness, processes
from kit.harness import Failure, Skip, test

HERE = os.path.dirname(os.path.abspath(__file__))


def record(t, name, *records):
    with open(t.path(f"wire/{name}.jsonl"), "a", encoding="utf-8") as out:
        for sender, message in records:
            out.write(
                json.dumps(
                    {
                        "from": sender,
                        "line": message if isinstance(message, str) else json.dumps(message),
                    }
                )
                + "\n"
            )


HELLO = [
    (
        "client",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": {"name": "c", "version": "1"},
            },
        },
    ),
    (
        "server",
        {
            "jsonrpc": "2.0",
            "id": 1,
            "result": {
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "serverInfo": {"name": "s", "version": "1"},
            },
        },
    ),
    ("client", {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "t"}}),
]


def hello_in(version):
    """The same greeting, in another revision."""
    return json.loads(json.dumps(HELLO).replace("2025-06-18", version))


@test("self", "self_schema_faults_are_found")
def schema_faults(t):
    """In each revision each broken line is found, a good conversation is not."""
    broken = {
        "not_json": ("server", "ready"),
        "no_version": ("server", {"id": 2, "result": {"content": []}}),
        "no_content": ("server", {"jsonrpc": "2.0", "id": 2, "result": {"isError": True}}),
        "wrong_block": (
            "server",
            {"jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text"}]}},
        ),
        "never_asked": ("server", {"jsonrpc": "2.0", "id": "2", "result": {"content": []}}),
        "bad_params": (
            "client",
            {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": 7}},
        ),
        "bad_progress": (
            "server",
            {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}},
        ),
        "error_code": (
            "server",
            {"jsonrpc": "2.0", "id": 2, "error": {"code": "BUSY", "message": "m"}},
        ),
    }
    broken["good"] = ("server", {"jsonrpc": "2.0", "id": 2, "result": {"content": []}})
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        for name, line in broken.items():
            title = f"{name}-{version}"
            record(t, title, *hello_in(version), line)
            problems, count = t.surroundings.problems([t.path(f"wire/{title}.jsonl")])
            t.equal(count, 4, f"lines of {title}")
            t.equal(bool(problems), name != "good", f"problems of {title}: {problems}")
    t.is_traffic_judged = False


@test("self", "self_a_process_left_behind_is_found")
def left_behind(t):
    """A test that leaves a process fails, and the process is ended."""
    entry = {"name": "self_inner_left_behind", "needs_hapax": False, "params": {}}
    pids = []

    def leaves(inner):
        inner.grace_seconds = 0.2
        pids.append(
            subprocess.Popen(["cat"], env=inner.env, stdin=subprocess.PIPE, start_new_session=True)
        )

    verdict, why, _ = harness.run_one(t.surroundings, {**entry, "run": leaves})
    t.equal(verdict, "not ok", "verdict")
    t.true(f"left behind after 0.2 s: {pids[0].pid}" in why, f"the fault names the process: {why}")
    t.equal(pids[0].wait(5), -9, "exit status of the process left")


@test("self", "self_what_a_skipped_test_started_ends")
def skipped(t):
    entry = {"name": "self_inner_skipped", "needs_hapax": False, "params": {}}
    ended = []

    def skips(inner):
        inner.at_end(lambda: ended.append(True))
        raise Skip("no sessions")

    said = harness.run_one(t.surroundings, {**entry, "run": skips})
    t.equal(said[:2], ("skip", "no sessions"), "verdict")
    t.equal(ended, [True], "what is to be done at its end")


@test("self", "self_only_the_one_meant_is_killed")
def one_meant(t):
    with subprocess.Popen(["cat"], env=t.env, stdin=subprocess.PIPE) as process:
        try:
            processes.kill(process.pid, "stub_server.py")
        except AssertionError:
            t.true(processes.is_alive(process.pid), "it lives")
        else:
            raise Failure("a process with another command line was killed")
        process.stdin.close()


@test("self", "self_field_table_is_whole")
def table(t):
    """Every row has a test or a reason; with the text of the cases at hand, no row is missing."""
    text = os.path.join(HERE, "..", "..", "..", "..", "shared", "field-cases.md")
    argv = [
        sys.executable,
        os.path.join(HERE, "..", "field_table"),
        *([text] if os.path.exists(text) else []),
    ]
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    t.equal(done.returncode, 0, f"exit status of field_table: {done.stdout.decode()[-600:]}")


@test("self", "self_field_table_can_fail")
def table_fails(t):
    with open(t.path("cases.md"), "w", encoding="utf-8") as out:
        out.write(
            "## A. Some\n\n| 2 | a | b |\n| 999 | a | b |\n\n## M. Others\n\n| 998 | a | b |\n"
        )
    done = subprocess.run(
        [sys.executable, os.path.join(HERE, "..", "field_table"), t.path("cases.md")],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    t.equal(done.returncode, 1, "exit status")
    t.true(b"not ok row 999 of group A is not listed" in done.stdout, "the missing row is named")
    t.true(b"row 998" not in done.stdout, "rows of other groups are not asked for")


@test("self", "self_field_cases_document_goes_stale")
def document_stale(t):
    """The table in the docs, as it stands and with one test's name changed in it."""
    root = os.path.join(HERE, "..", "..", "..")
    with open(os.path.join(root, "docs", "field-cases.md"), encoding="utf-8") as file:
        text = file.read()
    for told, status in ((text, 0), (text.replace("`field_007_", "`field_007x_", 1), 1)):
        with open(t.path("field-cases.md"), "w", encoding="utf-8") as out:
            out.write(told)
        done = subprocess.run(
            [
                sys.executable,
                os.path.join(root, "tools", "gen-table"),
                "--check",
                t.path("field-cases.md"),
                os.path.join(HERE, "..", "field_table"),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        t.equal(done.returncode, status, f"exit status: {done.stdout.decode()[-300:]}")
