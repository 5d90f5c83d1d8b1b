# SPDX-License-Identifier: MIT
"""Settings of `hapax run` that change what a call means, each seen from outside. Names: more_..."""

import fcntl
import os
import subprocess
import sys
import termios
import threading

from kit import processes

from rawclient import RawClient, stub
from .way import assert_unknown, code, operation, without_ours
from .more import RELEASED, more

KEY = "0190a0a0-0000-7000-8000-0000000006"


@more("server_names_are_apart")
def names(t, w):
    """The same key under two names is two operations; under one name it is one."""
    script = {"tools": {"charge": {}}}
    for name, effects in (("one", 1), ("two", 2), ("one", 2)):
        client = RawClient(t, t.hapax_argv(stub(t, script), name=name))
        client.initialize()
        client.result(client.call(key=KEY + "01"))
        t.equal(len(t.effects()), effects, f"effects after a call under the name {name}")


@more("result_over_the_limit")
def result_max(t, w):
    """A result over result_max: it happened, the caller is told so, and not told to call again."""
    client = w.client({"tools": {"dump": {"runs": [[{"big": 200000}]]}}}, "--result-max", "64KiB")
    for _ in range(2):
        result = client.result(client.call("dump", key=KEY + "02"))
    t.equal(code(result), "RESULT_UNAVAILABLE", f"answer to the repeat: {str(result)[:300]}")
    t.equal(operation(result)["new_key_allowed"], False, "new_key_allowed")
    t.true("It happened" in result["content"][0]["text"], "the sentence")
    t.equal(len(t.effects()), 1, "effects")


@more("sep3182_strict")
def strict(t, w):
    """With the key in params a result means "done": a running or unknown twin is an error."""
    script = {"tools": {"slow": {"runs": RELEASED}, "dies": {"runs": [[{"exit": 1}]]}}}
    client = w.client(script, "--sep3182", "strict")
    first = client.call("slow", extra={"idempotencyKey": KEY + "03"})
    t.wait_effects(1)
    error = client.error(client.call("slow", extra={"idempotencyKey": KEY + "03"}))
    t.equal(error["data"]["type"], "idempotency_key_in_progress", f"running twin: {error}")
    t.touch("release")
    client.result(first)
    error = client.error(client.call("dies", extra={"idempotencyKey": KEY + "04"}))
    t.equal(error["data"]["type"], "idempotency_outcome_unknown", f"unknown outcome: {error}")
    t.equal(len(t.effects()), 2, "effects")


@more("fresh_key_refused_beside_an_unresolved_twin")
def fresh_key(t, w):
    """A client that makes a new key for each attempt is not helped to act twice."""
    client = w.client({"tools": {"dies": {"runs": [[{"exit": 1}]]}}}, "--fresh-key", "refuse")
    assert_unknown(t, client.result(client.call("dies", key=KEY + "05")), "first")
    client.answer(client.call("dies", key=KEY + "06"))
    t.equal(len(t.effects()), 1, "effects")


@more("retry_of_a_failed_operation_is_one_successor")
def successor(t, w):
    """FAILED is final; the named retry makes one successor, and asking twice makes no second."""
    runs = [[{"error": '{"code":-31001,"message":"rejected"}'}], [{"text": "receipt $RECEIPT"}]]
    client = w.client({"tools": {"charge": {"runs": runs}}}, "--no-effect-errors", "-31001")
    client.answer(client.call(key=KEY + "07"))
    failed = client.result(client.call(key=KEY + "07"))
    t.equal(code(failed), "FAILED", f"repeat: {failed}")
    retry = {"dev.hapax/retry": operation(failed)["id"]}
    results = [client.result(client.call(key=KEY + "07", meta=retry)) for _ in range(2)]
    t.equal(len(t.effects()), 2, "effects: the refused one and its successor")
    for result in results:
        t.true(t.effects()[1]["receipt"] in str(result), f"the successor's result: {result}")


@more("no_tool_of_ours_is_listed_unasked")
def own_tools(t, w):
    client = w.client({"tools": {"charge": {}}})
    tools = client.result(client.request("tools/list"))["tools"]
    t.true(not any(tool["name"].startswith("hapax_") for tool in tools), f"tools: {tools}")


@more("ignored_arguments_do_not_matter")
def ignored(t, w):
    """`ignore` leaves members out of what makes a call equal; they still reach the tool."""
    client = w.client({"tools": {"charge": {}}}, "--ignore", "/trace_id")
    first = client.result(client.call(args={"n": 1, "trace_id": "a"}, key=KEY + "08"))
    second = client.result(client.call(args={"n": 1, "trace_id": "b"}, key=KEY + "08"))
    t.equal(without_ours(second), without_ours(first), "replay")
    t.true('"trace_id"' in t.effects()[0]["args"], "it reaches the tool")
    client.error(client.call(args={"n": 2, "trace_id": "a"}, key=KEY + "08"))
    t.equal(len(t.effects()), 1, "effects")


@more("replay_note_can_be_turned_off")
def replay_note(t, w):
    client = w.client({"tools": {"create": {}}}, "--repeat", "window", "--replay-note=off")
    first, second = (client.result(client.call("create")) for _ in range(2))
    t.equal(without_ours(second), without_ours(first), "replay without a note")
    t.equal(len(t.effects()), 1, "effects")


@more("log_goes_into_a_file")
def log_file(t, w):
    script = {"start": [{"noise": ["debug: cache warm"]}], "tools": {"charge": {}}}
    client = w.client(script, "--log-file", t.path("hapax.log"))
    client.result(client.call())
    t.wait(lambda: b"cache warm" in b"".join(t.lines("hapax.log")), "the noise in the log file")


def unread_pipe():
    """Its ends; room for a page."""
    ends = os.pipe()
    fcntl.fcntl(ends[1], fcntl.F_SETPIPE_SZ, 4096)
    return ends


def unread(fd):
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


@more("log_into_a_pipe_that_nobody_reads")
def unread_log(t, w):
    """Calls go on without the lines that nobody takes, and a client that leaves in a call sees the end
    of its pipe.
    """
    script = {"tools": {"charge": {}, "slow": {"runs": RELEASED}}}
    reader, writer = unread_pipe()
    options = ("--log-level", "debug", "--log-file", "/dev/stderr")
    argv = t.hapax_argv(stub(t, script), *options, orphan="30s")
    client = RawClient(t, argv, stderr=f"/proc/self/fd/{writer}")
    os.close(writer)
    client.initialize()
    for n in range(40):
        client.result(client.call(args={"n": n}), 10)
    t.true(unread(reader) > 2048, "the pipe is full")
    client.call("slow")
    t.wait_effects(41)
    client.kill(t.surroundings.hapax)
    os.set_blocking(reader, False)

    def is_over():
        try:
            return os.read(reader, 1 << 16) == b""
        except BlockingIOError:
            return False

    t.wait(is_over, "the end of what it says", 10)
    os.close(reader)
    t.true(t.family().keepers, "the keeper is still there")
    t.touch("release")


@more("log_into_a_pipe_without_a_reader")
def no_reader(t, w):
    pipe = t.path("pipe")
    os.mkfifo(pipe)
    server = stub(t, {"tools": {}})
    try:
        status, _, err = t.hapax("run", "--ledger", t.ledger, "--log-file", pipe, "--", *server)
    except subprocess.TimeoutExpired:
        t.true(False, "it waits for a reader")
    t.equal(status, 2, f"exit status ({err!r})")
    t.true(b"nobody reads" in err, f"what it says: {err!r}")


@more("a_server_may_list_any_number_of_tools")
def many_tools(t, w):
    """Also where a rule has lists of its own: nothing is made for each name."""
    script = {"tools": {f"tool-{n}": {} for n in range(20000)}}
    ignored = ",".join(f"/member_{n}" for n in range(64))
    client = w.client(script, "--ignore", ignored, "--no-effect-errors", "-32001,-32002")
    listed = client.result(client.request("tools/list"), 60)
    t.equal(len(listed["tools"]), 20000, "tools")
    client.result(client.call("tool-19999"))
    t.equal(len(t.effects()), 1, "effects")


@more("draining_keepers_are_bounded")
def drain_max(t, w):
    """Five fronts killed in a call that never ends: at most drain_max keepers stay behind."""
    argv_options = ("--drain-max", "2")
    for n in range(5):
        client = w.client(
            {"tools": {"never": {"runs": [[{"wait": "never"}]]}}}, *argv_options, orphan="30s"
        )
        client.call("never", {"n": n})
        t.wait_effects(n + 1)
        client.kill(t.surroundings.hapax)
    t.wait(lambda: len(t.family().keepers) <= 2, "at most two draining keepers")
    for pid in t.family().keepers:
        processes.kill(pid, t.surroundings.hapax)
    t.equal(len(t.effects()), 5, "effects")


@more("four_processes_on_one_ledger")
def four_processes(t, w):
    """Four clients at once, two hundred calls on one ledger: all answered, all on record, sound."""
    clients = [w.client({"tools": {"charge": {}}}) for _ in range(4)]
    wrong = []

    def work(client, who):
        for n in range(50):
            result = client.result(client.call(args={"who": who, "n": n}), 40)
            if result.get("isError"):
                wrong.append(result)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(clients, range(4))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    t.equal(wrong, [], "error results")
    t.equal(len(t.effects()), 200, "effects")
    t.equal(len(t.operations()), 200, "operations on record")
    status, out, err = t.ops("verify", "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops verify: {out[-300:]!r} {err[-300:]!r}")


@more("five_megabytes_of_arguments", bare="holds")
def big_arguments(t, w):
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call(args={"pad": "x" * 5_000_000}), 60)
    t.equal(len(t.effects()[0]["args"]), 5_000_000 + len('{"pad": ""}'), "bytes at the server")


@more("arguments_in_the_log_only_where_allowed")
def log_arguments(t, w):
    """log_arguments lets the beginning of them into the log, in one line that cannot be taken for
    another event; without it they are nowhere, whatever the level."""
    secret = "SENTINEL-55ac09"
    for allowed in (False, True):
        log = t.path(f"log-{allowed}")
        options = ["--log-level", "debug", "--log-file", log, *(["--log-arguments"] if allowed else [])]
        client = w.client({"tools": {"charge": {}}}, *options)
        told = {"card": secret, "text": "one\nevent=forged", "more": "x" * 5000}
        client.result(client.call(args=told, key=KEY + ("e1" if allowed else "e0")))
        client.close_stdin()
        client.wait_eof()
        with open(log, encoding="utf-8") as file:
            lines = file.read().splitlines()
        found = [line for line in lines if secret in line]
        t.equal(len(found), 1 if allowed else 0, f"lines with arguments, allowed={allowed}")
        t.true(all(len(line) < 3000 for line in lines), "long ones are cut")
        t.true(not any(line.startswith("event=forged") for line in lines), "nothing is forged")
