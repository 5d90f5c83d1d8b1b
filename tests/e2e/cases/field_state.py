# SPDX-License-Identifier: MIT
"""Field cases, groups C, F (what stdio has of it), K and L: durable state, lost results, what
operators see.
"""

import os
import stat
import subprocess

from kit import processes
from kit.harness import Failure
from .way import assert_unknown, case, code, operation, without_ours

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
KEY = "0190a0a0-0000-7000-8000-0000000002"


def kill_at(point):
    """Registers one row of the outside kill matrix: the keeper is SIGKILLed at a point visible
    from outside.
    """

    @case(f"041_keeper_killed_{point}")
    def killed(t, w):
        client = w.client({"tools": {"charge": {"runs": RELEASED}}})
        keeper = w.keeper(client)
        if point == "at_idle":
            processes.kill(keeper, t.surroundings.hapax)
        first = client.call(key=KEY + "41") if point != "at_idle" else None
        if point == "as_the_call_is_sent":
            processes.kill(keeper, t.surroundings.hapax)
        if point in ("after_the_effect", "as_the_reply_comes", "after_the_answer"):
            t.wait_effects(1)
        told = None
        if point == "after_the_effect":
            processes.kill(keeper, t.surroundings.hapax)
        elif point in ("as_the_reply_comes", "after_the_answer"):
            t.touch("release")
            if point == "after_the_answer":
                told = client.result(first)
            processes.kill(keeper, t.surroundings.hapax)
        processes.wait_gone(keeper)
        client.wait_eof(5)
        t.touch("release")
        fresh = w.again(client)
        result = fresh.result(fresh.call(key=KEY + "41"))
        t.true(len(t.effects()) <= 1, f"effects: {len(t.effects())}")
        if told or code(result) is None:
            t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
        else:
            assert_unknown(t, result, "answer after the kill")
        again = fresh.result(fresh.call(key=KEY + "41"))
        t.equal(code(again), code(result), "the same answer once more")
        t.true(len(t.effects()) <= 1, f"effects: {len(t.effects())}")

    return killed


for _point in (
    "at_idle",
    "as_the_call_is_sent",
    "after_the_effect",
    "as_the_reply_comes",
    "after_the_answer",
):
    kill_at(_point)


@case("041_killed_again_in_recovery")
def killed_in_recovery(t, w):
    """The keeper that finds the open operation is killed too: the next one decides the same."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    client.call(key=KEY + "4a")
    t.wait_effects(1)
    processes.kill(w.keeper(client), t.surroundings.hapax)
    client.wait_eof(5)
    for _ in range(2):
        fresh = w.again(client)
        fresh.call(key=KEY + "4a")
        processes.kill(
            t.wait(lambda: t.family(fresh.pid).keepers, "a keeper")[-1], t.surroundings.hapax
        )
        fresh.wait_eof(5)
    last = w.again(client)
    assert_unknown(t, last.result(last.call(key=KEY + "4a")), "answer after three kills")
    t.equal(len(t.effects()), 1, "effects")


@case("046_asked_by_key_from_a_new_session")
def new_session(t, w):
    """A slow call, a dropped session, a new one that asks by the same key: never 'not found',
    never a second run.
    """
    client = w.client({"tools": {"slow": {"runs": RELEASED}}}, orphan="20s")
    client.call("slow", key=KEY + "46")
    t.wait_effects(1)
    client.kill(t.surroundings.hapax)
    fresh = w.again(client)
    ref = fresh.call("slow", key=KEY + "46")
    fresh.result(fresh.request("tools/list"))
    states = [op["execution"] for op in t.operations()]
    t.equal(states, ["running"], "states seen by the operator")
    t.touch("release")
    result = fresh.result(ref)
    t.true(t.effects()[0]["receipt"] in str(result), f"the real result: {result}")
    t.equal(len(t.effects()), 1, "effects")


@case("047_operator_sees_the_orphan")
def orphan_listed(t, w):
    """The client vanishes in mid-call: the operator's list shows the operation, its state, age
    and principal.
    """
    client = w.client({"tools": {"slow": {"runs": RELEASED}}}, orphan="20s")
    client.call("slow")
    t.wait_effects(1)
    client.kill(t.surroundings.hapax)
    (op,) = t.operations()
    t.equal(
        (op["execution"], op["tool"], op["server"]),
        ("running", "slow", "e2e"),
        "state, tool, server",
    )
    t.equal(str(op["principal"]), str(os.getuid()), "principal")
    for state, count in (("running", 1), ("succeeded", 0)):
        status, out, err = t.ops("list", "--ledger", t.ledger, "--state", state, "--json")
        t.equal(status in (0, 1), True, f"exit status of ops list: {status} {err[-200:]!r}")
        t.equal(
            out.count(op["id"].encode()), count, f"times that ops list --state {state} names it"
        )
    t.touch("release")
    t.wait(lambda: t.operations()[0]["execution"] == "succeeded", "the orphan to succeed")


@case("048_running_becomes_unknown_with_a_reason")
def unknown_with_reason(t, w):
    """After a crash the call in flight is shown as unknown, with a reason."""
    client = w.client({"tools": {"slow": {"runs": RELEASED}}})
    client.call("slow", key=KEY + "48")
    t.wait_effects(1)
    processes.kill(w.keeper(client), t.surroundings.hapax)
    client.wait_eof(5)
    fresh = w.again(client)
    envelope = assert_unknown(t, fresh.result(fresh.call("slow", key=KEY + "48")), "answer")
    status, out, err = t.ops("show", envelope["id"], "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops show ({err[-200:]!r})")
    t.true(b"unknown" in out.lower(), f"ops show says unknown: {out[:300]!r}")


@case("074_two_gateways_on_one_ledger")
def two_gateways(t, w):
    """Two processes on one ledger, one key: one effect, both get the result."""
    script = {"tools": {"charge": {"runs": RELEASED}}}
    one, two = w.client(script), w.client(script)
    first = one.call(key=KEY + "74")
    t.wait_effects(1)
    second = two.call(key=KEY + "74")
    two.result(two.request("tools/list"))
    t.touch("release")
    t.equal(without_ours(two.result(second)), without_ours(one.result(first)), "results")
    t.equal(len(t.effects()), 1, "effects")


@case("083_each_client_its_own_server", bare="holds")
def own_server(t, w):
    """A stateful server behind each client: no shared process, one steady process within a
    client.
    """
    clients = [w.client() for _ in range(2)]
    pids = []
    for client in clients:
        pids.append(set())
        for n in range(3):
            before = len(t.effects())
            client.result(client.call("count", {"n": n, "who": client.name}))
            pids[-1].add(t.effects()[before]["pid"])
    t.equal([len(one) for one in pids], [1, 1], "server processes per client")
    t.true(pids[0] != pids[1], "the clients share no process")


@case("084_one_initialize_for_ten_calls", bare="holds")
def one_initialize(t, w):
    client = w.client()
    for n in range(10):
        client.result(client.call(args={"n": n}))
    count = sum(b'"initialize"' in line for line in t.lines("received"))
    t.equal((count, len(t.lines("starts"))), (1, 1), "initialize requests and starts upstream")


@case("088_a_timeout_leaves_its_neighbour", bare=None)
def timeout_neighbour(t, w):
    """Two calls on one child, one times out: the other ends well on the same child."""
    client = w.client(
        {"tools": {"hangs": {"runs": [[{"wait": "never"}]]}, "slow": {"runs": RELEASED}}},
        "--tool",
        "hangs: timeout=500ms",
    )
    slow = client.call("slow")
    t.wait_effects(1)
    hangs = client.result(client.call("hangs"))
    t.true(hangs.get("isError"), f"the call that hangs is answered: {hangs}")
    t.touch("release")
    t.true(t.effects("slow")[0]["receipt"] in str(client.result(slow)), "the neighbour's result")
    t.equal(len(t.lines("starts")), 1, "starts of the server")


@case("141_client_gone_as_the_answer_comes")
def gone_as_it_comes(t, w):
    """The reader goes while the last bytes are on their way: the result can still be had by key."""
    client = w.client({"tools": {"big": {"runs": [[{"wait": "release"}, {"big": 300000}]]}}})
    client.call("big", key=KEY + "a1")
    t.wait_effects(1)
    client.pause()
    t.touch("release")
    t.wait(
        lambda: any(op["execution"] == "succeeded" for op in t.operations()),
        "the outcome to be stored",
    )
    client.close_stdout()
    client.close_stdin()
    fresh = w.again(client)
    result = fresh.result(fresh.call("big", key=KEY + "a1"))
    t.equal(len(result["content"][0]["text"]), 300000, "bytes of the stored result")
    t.equal(len(t.effects()), 1, "effects")


@case("141_keyless_repeat_gets_the_lost_answer")
def keyless_lost(t, w):
    """The same without a key: unread bytes in the pipe are a lost answer, the equal call adopts
    it.
    """
    client = w.client({"tools": {"big": {"runs": [[{"big": 300000}]]}}})
    client.pause()
    client.call("big", {"n": 1})
    t.wait(
        lambda: any(op["execution"] == "succeeded" for op in t.operations()),
        "the outcome to be stored",
    )
    client.close_stdout()
    client.close_stdin()
    client.process.wait(10)
    fresh = w.again(client)
    result = fresh.result(fresh.call("big", {"n": 1}))
    t.equal(len(result["content"][0]["text"]), 300000, "bytes of the stored result")
    t.equal(len(t.effects()), 1, "effects")
    t.true(
        "nothing ran now" in result["content"][-1]["text"],
        "a note says that it is the stored answer",
    )


@case("142_no_second_delivery", bare="breaks")
def no_second_delivery(t, w):
    """A client that reconnects and says nothing gets nothing; with the key it gets the result."""
    client = w.client({"tools": {"charge": {}}})
    first = client.result(client.call(key=KEY + "a2"))
    fresh = w.again(client)
    fresh.result(fresh.request("ping"))
    t.equal(
        [one for one in fresh.messages if one.get("result") and "content" in one.json["result"]],
        [],
        "results that nobody asked for",
    )
    t.equal(
        without_ours(fresh.result(fresh.call(key=KEY + "a2"))), without_ours(first), "result by key"
    )
    t.equal(len(t.effects()), 1, "effects")


@case("143_twenty_mebibytes")
def twenty_mebibytes(t, w):
    """A result of 20 MiB: whole, live and replayed; and never cut in silence."""
    size = 20 << 20
    client = w.client({"tools": {"dump": {"runs": [[{"big": size}]]}}})
    first = client.result(client.call("dump", key=KEY + "a3"), 60)
    second = client.result(client.call("dump", key=KEY + "a3"), 60)
    t.equal(
        [len(one["content"][0]["text"]) for one in (first, second)],
        [size, size],
        "bytes, live and replayed",
    )
    t.true(first["content"] == second["content"], "live and replayed are the same")
    t.equal(len(t.effects()), 1, "effects")
    status, out, err = t.ops("show", operation(first)["id"], "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops show ({err[-200:]!r})")


@case("109_output_into_a_slow_pipe")
def slow_pipe(t, w):
    """What `hapax ops` prints arrives whole in a slow pipe; a closed pipe is a clean exit."""
    client = w.client({"tools": {"dump": {}}})
    for n in range(150):
        client.result(client.call("dump", {"n": n, "pad": "x" * 2000}))
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone, so that nothing changes")
    argv = [t.surroundings.hapax, "ops", "export", "--ledger", t.ledger]
    whole = t.whole_export()
    t.true(len(whole) > 65536, f"more than a pipe holds: {len(whole)}")
    with subprocess.Popen(argv, env=t.env, stdout=subprocess.PIPE) as process:
        slowly = b""
        while chunk := os.read(process.stdout.fileno(), 997):
            slowly += chunk
    t.equal(process.returncode, 0, "exit status with a slow reader")
    t.equal(len(slowly), len(whole), "bytes with a slow reader")
    with subprocess.Popen(
        argv, env=t.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    t.true(
        process.returncode >= 0 or process.returncode == -13,
        f"exit status {process.returncode}: {said[-300:]!r}",
    )


@case("145_no_secret_in_logs_and_private_files")
def secrets(t, w):
    """Arguments, results and upstream errors stay out of the log, whatever its level; the ledger's
    files are for their owner only.
    """
    secret = "SENTINEL-5f1d9c"
    script = {
        "tools": {
            "ok": {"runs": [[{"text": f"result {secret}"}]]},
            "fails": {"runs": [[{"error": '{"code":-32000,"message":"' + secret + '"}'}]]},
            "dies": {"runs": [[{"exit": 1}]]},
        }
    }
    client = w.client(script, "--log-level", "debug")
    for tool in script["tools"]:
        client.answer(client.call(tool, {"password": secret}, key=f"key-{secret}-{tool}"))
    client.send_bytes(b'{"half": "' + secret.encode() + b"\n")
    client.result(client.request("tools/list"))
    t.true(t.ledger_files(), "the ledger is there")
    for path in t.ledger_files():
        mode = stat.S_IMODE(os.stat(path).st_mode)
        t.equal(mode & 0o077, 0, f"mode bits for others of {os.path.basename(path)}")
    with open(client.stderr_path, encoding="utf-8") as file:
        said = file.read()
    t.true(said, "something is logged at all")
    t.true(secret not in said, f"the log holds no secret: {said[-500:]}")
    status, out, _ = t.ops("list", "--ledger", t.ledger)
    t.equal(status, 0, "exit status of ops list")
    t.true(secret.encode() not in out, f"the list holds no secret: {out[:300]!r}")


@case("147_record_matches_what_ran")
def record_matches(t, w):
    """Every operation lists principal, tool, times and outcome, and their number is what really
    ran.
    """
    client = w.client(
        {"tools": {"charge": {}, "reader": {"listing": {"annotations": {"readOnlyHint": True}}}}}
    )
    client.result(client.request("tools/list"))
    for n in range(5):
        client.result(client.call("charge", {"n": n}))
        client.result(client.call("reader", {"n": n}))
    client.result(client.call("charge", {"n": 0}, key=KEY + "a7"))
    client.result(client.call("charge", {"n": 0}, key=KEY + "a7"))
    found = t.operations()
    t.equal(len(found), len(t.effects("charge")), "operations against effects of the write tool")
    for op in found:
        for member in ("id", "principal", "tool", "execution", "effect", "created", "updated"):
            if member not in op:
                raise Failure(f"no {member} in {op}")
    t.equal({op["execution"] for op in found}, {"succeeded"}, "outcomes")
