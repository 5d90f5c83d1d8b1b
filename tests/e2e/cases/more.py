# SPDX-License-Identifier: MIT
"""What `hapax run` promises beyond the field cases: every message kind, every setting that
matters, people who settle, and a ledger that is not as it should be. Names begin with more_.
"""

import ctypes
import json
import os
import pwd
import shutil
import subprocess

from kit import processes
from kit.harness import Failure, Skip
from rawclient import RawClient
from .way import assert_unknown, case, code, operation, without_ours

RELEASED = [[{"wait": "release"}, {"text": "receipt $RECEIPT"}]]
NEVER = [[{"wait": "never"}]]
DIES_ONCE = [[{"exit": 1}], [{"text": "receipt $RECEIPT"}]]
KEY = "0190a0a0-0000-7000-8000-0000000005"


def more(title, bare=None):
    return case(title, bare, prefix="more_", suite="more")


# Tools and their contracts ----------------------------------------------------------------------


@more("read_only_tools_skip_the_ledger")
def skip_ledger(t, w):
    """Read-only by annotation or by rule: no row, and each call runs."""
    script = {
        "tools": {
            "look": {"listing": {"annotations": {"readOnlyHint": True}}},
            "get_it": {},
            "write": {},
        }
    }
    client = w.client(script, "--tool", "get_*: class=read_only")
    client.result(client.request("tools/list"))
    for tool in ("look", "get_it", "write"):
        for _ in range(2):
            client.result(client.call(tool))
    t.equal({op["tool"] for op in t.operations()}, {"write"}, "tools in the ledger")
    t.equal(len(t.effects()), 6, "effects")


@more("hints_ignored")
def hints_ignored(t, w):
    client = w.client(
        {"tools": {"look": {"listing": {"annotations": {"readOnlyHint": True}}}}},
        "--hints",
        "ignore",
    )
    client.result(client.request("tools/list"))
    client.result(client.call("look"))
    t.equal([op["tool"] for op in t.operations()], ["look"], "tools in the ledger")


@more("idempotent_by_rule_is_sent_again")
def idempotent(t, w):
    """The child dies with an idempotent call in its hands: sent again, the caller gets the real
    result.
    """
    client = w.client({"tools": {"put": {"runs": DIES_ONCE}}}, "--tool", "put: class=idempotent")
    result = client.result(client.call("put"))
    t.equal(len(t.effects()), 2, "sends")
    t.true(t.effects()[1]["receipt"] in str(result), f"the real result: {result}")


@more("attempts_are_bounded")
def attempts(t, w):
    """A child that dies every time: the sends stop at `attempts`, and the answer is honest."""
    client = w.client(
        {"tools": {"put": {"runs": [[{"exit": 1}]]}}}, "--tool", "put: class=idempotent attempts=3"
    )
    result = client.result(client.call("put"), 60)
    t.true(code(result) in ("OUTCOME_UNKNOWN", "BUSY"), f"answer: {result}")
    t.equal(len(t.effects()), 3, "sends")


@more("keyed_tool_gets_one_effect_key")
def effect_key(t, w):
    """A keyed tool: our key in its argument, the same in both sends, not the caller's."""
    rule = "pay: class=keyed effect_key=/request_id dedupe_horizon=1h"
    client = w.client({"tools": {"pay": {"runs": DIES_ONCE}}}, "--tool", rule)
    result = client.result(client.call("pay", {"n": 1}, key=KEY + "01"))
    sent = [json.loads(effect["args"]) for effect in t.effects()]
    t.equal(len(sent), 2, "sends")
    t.true(
        sent[0]["request_id"] and sent[0]["request_id"] == sent[1]["request_id"],
        f"one key for both: {sent}",
    )
    t.true(
        sent[0]["request_id"] != KEY + "01" and sent[0]["n"] == 1,
        f"our key beside the arguments: {sent}",
    )
    t.true(t.effects()[1]["receipt"] in str(result), "the real result")


@more("no_effect_errors")
def no_effect(t, w):
    """A listed error proves that nothing happened: FAILED, and an unlisted one is an outcome."""
    script = {
        "tools": {
            "a": {"runs": [[{"error": '{"code":-31001,"message":"rejected"}'}]]},
            "b": {"runs": [[{"error": '{"code":-31002,"message":"other"}'}]]},
        }
    }
    client = w.client(script, "--no-effect-errors", "-31001")
    answer = client.answer(client.call("a", key=KEY + "02"))
    second = client.result(client.call("a", key=KEY + "02"))
    t.equal(
        code(second),
        "FAILED",
        f"repeat of a call that failed for certain: {second}, first {answer}",
    )
    t.equal(operation(second)["new_key_allowed"], True, "new_key_allowed")
    first = client.error(client.call("b", key=KEY + "03"))
    t.equal(client.error(client.call("b", key=KEY + "03"))["code"], first["code"], "replayed error")
    t.equal(len(t.effects()), 2, "effects")


@more("repeat_modes")
def repeat_modes(t, w):
    client = w.client(
        {"tools": {"a": {}, "b": {}}},
        "--tool",
        "a: repeat=require_key",
        "--tool",
        "b: repeat=separate",
    )
    error = client.error(client.call("a"))
    t.equal(error["code"], -32602, "code of KEY_REQUIRED")
    t.true("dev.hapax/idempotencyKey" in error["message"], f"it says how: {error['message']}")
    client.result(client.call("a", key=KEY + "04"))
    for _ in range(2):
        client.result(client.call("b"))
    t.equal([effect["tool"] for effect in t.effects()], ["a", "b", "b"], "what ran")


@more("injected_key_argument")
def inject_key(t, w):
    """A key field is added to the listed schema, recognised, and taken out before the tool sees
    it.
    """
    listing = {"inputSchema": {"type": "object", "properties": {"n": {"type": "number"}}}}
    client = w.client({"tools": {"a": {"listing": listing}}}, "--inject-key", "/idempotency_key")
    (tool,) = client.result(client.request("tools/list"))["tools"]
    t.true(
        "idempotency_key" in tool["inputSchema"]["properties"],
        f"listed schema: {tool['inputSchema']}",
    )
    t.true(
        tool["inputSchema"]["properties"]["idempotency_key"].get("description"), "it is described"
    )
    for _ in range(2):
        client.result(client.call("a", {"n": 1, "idempotency_key": KEY + "05"}))
    t.equal(
        [json.loads(effect["args"]) for effect in t.effects()],
        [{"n": 1}],
        "arguments at the server",
    )


@more("adoption_of_a_lost_answer_is_used_up")
def used_up(t, w):
    """One lost answer excuses one repeat: the next equal call is a new one."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}}, orphan="20s")
    client.call()
    t.wait_effects(1)
    client.kill(t.surroundings.hapax)
    fresh = w.again(client)
    ref = fresh.call()
    fresh.result(fresh.request("tools/list"))
    t.touch("release")
    t.true(t.effects()[0]["receipt"] in str(fresh.result(ref)), "the repeat gets the lost answer")
    t.true(
        t.effects()[0]["receipt"] not in str(fresh.result(fresh.call())),
        "the next one is a new call",
    )
    t.equal(len(t.effects()), 2, "effects")


@more("keyed_call_adopts_its_keyless_twin")
def keyed_adopts(t, w):
    """A client that retries with a key what it first sent without: one effect."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    first = client.call()
    t.wait_effects(1)
    client.cancel(first, "timeout")
    second = client.call(key=KEY + "06")
    client.result(client.request("tools/list"))
    t.touch("release")
    t.true(t.effects()[0]["receipt"] in str(client.result(second)), "the real result")
    t.equal(len(t.effects()), 1, "effects")


# Every message kind -----------------------------------------------------------------------------


@more("progress_fans_out_to_joined_waiters")
def progress_fan_out(t, w):
    """A waiter that joined with a token of its own gets the progress, too."""
    script = {
        "tools": {"long": {"runs": [[{"wait": "joined"}, {"progress": 5}, {"text": "done"}]]}}
    }
    client = w.client(script)
    refs = [client.call("long", key=KEY + "07", meta={"progressToken": "one"})]
    t.wait_effects(1)
    refs.append(client.call("long", key=KEY + "07", meta={"progressToken": "two"}))
    t.wait_repeats(1)
    t.touch("joined")
    for ref in refs:
        client.result(ref)
    for token in ("one", "two"):
        seen = [
            note["progress"]
            for note in client.notifications("notifications/progress")
            if note["progressToken"] == token
        ]
        t.equal(seen, [1, 2, 3, 4, 5], f"progress with token {token}")
    t.equal(len(t.effects()), 1, "effects")


@more("notifications_of_the_server_pass", bare="holds")
def notifications(t, w):
    """List changes, resource updates and logs of the server reach the client as they are."""
    lines = [
        '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}',
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":{"n":1.0}}}',
        '{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"a:b"}}',
        '{"jsonrpc":"2.0","method":"vendor/note","params":{"x":"\\u0041"}}',
    ]
    client = w.client(
        {
            "tools": {
                "say": {"runs": [[*({"raw": line + "\n"} for line in lines), {"text": "said"}]]}
            }
        }
    )
    client.result(client.call("say"))
    seen = [message.line.decode() for message in client.messages]
    for line in lines:
        t.true(line in seen, f"{line} among {seen}")


@more("notifications_of_the_client_pass", bare="holds")
def client_notifications(t, w):
    client = w.client()
    client.notify("notifications/roots/list_changed")
    client.notify("vendor/note", {"x": 1})
    client.result(client.request("tools/list"))
    received = b"\n".join(t.lines("received"))
    for method in (
        b"notifications/initialized",
        b"notifications/roots/list_changed",
        b"vendor/note",
    ):
        t.equal(received.count(b'"' + method + b'"'), 1, f"times that the server got {method}")


@more("resources_prompts_and_levels_pass", bare="holds")
def other_methods(t, w):
    script = {
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
        "methods": {
            "resources/list": [{"result": '{"resources":[]}'}],
            "resources/read": [{"result": '{"contents":[{"uri":"a:b","text":"1.0"}]}'}],
            "prompts/list": [{"result": '{"prompts":[]}'}],
            "logging/setLevel": [{"result": "{}"}],
        },
    }
    client = w.client(script)
    t.equal(client.result(client.request("resources/list")), {"resources": []}, "resources/list")
    t.equal(
        client.result(client.request("resources/read", {"uri": "a:b"})),
        {"contents": [{"uri": "a:b", "text": "1.0"}]},
        "resources/read",
    )
    t.equal(client.result(client.request("prompts/list")), {"prompts": []}, "prompts/list")
    t.equal(
        client.result(client.request("logging/setLevel", {"level": "info"})), {}, "logging/setLevel"
    )


@more("sampling_and_roots_reach_the_client", bare="holds")
def sampling(t, w):
    """Requests of the server in a call: each goes to the client once and comes back, errors as
    well.
    """
    message = {"role": "user", "content": {"type": "text", "text": "hi"}}
    asks = [
        {"ask": {"method": "roots/list"}},
        {
            "ask": {
                "method": "sampling/createMessage",
                "params": {"messages": [message], "maxTokens": 5},
            }
        },
    ]
    client = w.client(
        {"tools": {"ask": {"runs": [[*asks, {"text": "asked"}]]}}},
        capabilities={"sampling": {}, "roots": {}},
    )
    ident = client.call("ask")
    roots = client.wait_message(lambda one: one.get("method") == "roots/list", "roots/list")
    client.send({"jsonrpc": "2.0", "id": roots.json["id"], "result": {"roots": []}})
    sample = client.wait_message(
        lambda one: one.get("method") == "sampling/createMessage", "sampling"
    )
    client.send({"jsonrpc": "2.0", "id": sample.json["id"], "error": {"code": -1, "message": "no"}})
    client.result(ident)
    answers = [json.loads(line) for line in t.lines("answers")]
    t.equal(
        [answer["id"] for answer in answers], ["stub-1", "stub-2"], "ids of the server's requests"
    )
    t.equal(answers[1]["error"], {"code": -1, "message": "no"}, "the client's error")


@more("a_request_with_no_caller_left_gets_an_error")
def nobody_to_ask(t, w):
    """The server asks when its caller is gone: an error, so that it can finish; the outcome is
    kept.
    """
    ask = {
        "ask": {
            "method": "elicitation/create",
            "params": {"message": "?", "requestedSchema": {"type": "object", "properties": {}}},
        }
    }
    client = w.client(
        {"tools": {"ask": {"runs": [[{"wait": "gone"}, ask, {"text": "receipt $RECEIPT"}]]}}},
        capabilities={"elicitation": {}},
        orphan="20s",
    )
    client.call("ask", key=KEY + "08")
    t.wait_effects(1)
    client.kill(t.surroundings.hapax)
    client.wait_eof(5)
    t.touch("gone")
    t.wait(lambda: t.lines("answers"), "an answer to the server's question")
    t.true(b'"error"' in t.lines("answers")[0], f"it is an error: {t.lines('answers')}")
    fresh = w.again(client)
    result = w.poll(fresh, "ask", key=KEY + "08")
    t.true(t.effects()[0]["receipt"] in str(result), "the outcome is kept")


@more("tasks_for_tool_calls_are_withheld")
def tasks_withheld(t, w):
    """Until Hapax can keep tasks, it does not let a client start one around the ledger."""
    capabilities = {
        "tools": {},
        "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    }
    client = RawClient(t, w.argv({"capabilities": capabilities}))
    got = client.initialize()["capabilities"]
    t.true(
        "call" not in got.get("tasks", {}).get("requests", {}).get("tools", {}),
        f"capabilities: {got}",
    )


@more("server_version_is_told_to_the_client", bare="holds")
def version(t, w):
    """The server answers an older revision than the client asked for: the client is told that
    one.
    """
    client = RawClient(t, w.argv({"version": "2024-11-05"}))
    t.equal(client.initialize("2025-11-25")["protocolVersion"], "2024-11-05", "revision")
    client.result(client.call())


@more("environment_and_directory_of_the_server", bare="holds")
def environment(t, w):
    """The server gets the client's environment and directory, and no descriptor but its three."""
    client = w.client(env={**t.env, "CUSTOM": "value"})
    client.result(client.request("ping"))  # and what it had open for what came before is closed
    pid = w.server_pid()
    with open(f"/proc/{pid}/environ", "rb") as file:
        t.true(b"CUSTOM=value" in file.read().split(b"\0"), "the environment is the client's")
    t.equal(os.readlink(f"/proc/{pid}/cwd"), os.getcwd(), "directory of the server")
    known = (t.dir, "/dev/null", "pipe:")
    others = [
        link
        for link in (os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd"))
        if not link.startswith(known)
    ]
    t.equal(others, [], "other descriptors of the server")
    t.true(len(os.listdir(f"/proc/{pid}/fd")) <= 5, "descriptors of the server")


# A child that misbehaves ------------------------------------------------------------------------


@more("stuck_child_is_restarted")
def stuck(t, w):
    """A child that takes no byte of a half-written line: that call unknown, later ones BUSY, then
    a restart.
    """
    client = w.client(
        {
            "tools": {
                "stop": {"runs": [[{"stop_reading": "never"}, {"text": "stopped"}]]},
                "charge": {},
            }
        },
        "--stall-timeout",
        "500ms",
        "--stuck-timeout",
        "1s",
    )
    client.result(client.call("stop"))
    client.call("charge", {"n": 0}, ident="taken")  # one chunk is already being read
    big = client.call("charge", {"pad": "x" * 300000}, ident="half")
    assert_unknown(t, client.result(big, 30), "the half-written call")
    t.wait(
        lambda: len(t.lines("starts")) == 2 or client.call("charge", {"n": 1}) is None,
        "a restart",
        30,
    )
    result = w.poll(client, "charge", {"n": 2}, key=KEY + "09", seconds=30)
    t.true(not result.get("isError"), f"a real result after the restart: {result}")


@more("neighbours_of_a_dead_child_are_told_the_truth")
def neighbours(t, w):
    """Five calls in flight when the child dies: five honest answers, none run again."""
    client = w.client({"tools": {"charge": {"runs": NEVER}}})
    refs = [client.call(args={"n": n}) for n in range(5)]
    t.wait_effects(5)
    w.kill_server()
    for ref in refs:
        assert_unknown(t, client.result(ref), "answer")
    client.result(client.call("other"))
    t.equal(len(t.effects("charge")), 5, "effects")


# People who settle ------------------------------------------------------------------------------


def unknown_operation(t, w, key):
    client = w.client({"tools": {"charge": {"runs": DIES_ONCE}}})
    envelope = assert_unknown(t, client.result(client.call(key=key)), "answer")
    return client, envelope["id"]


def resolve(t, ident, *how):
    status, out, err = t.ops("resolve", ident, *how, "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops resolve {how}: {out[-200:]!r} {err[-300:]!r}")


@more("the_printed_command_settles_it")
def printed_command(t, w):
    """A relative ledger with blanks and quotes in its name: what the answer says to run is run as
    it stands, by a shell in another directory.
    """
    os.mkdir(t.path("here"))
    argv = w.argv({"tools": {"charge": {"runs": DIES_ONCE}}}, ledger="a b/it's")
    client = RawClient(t, ["env", "-C", t.path("here"), *argv], name="elsewhere")
    client.initialize()
    result = client.result(client.call(key=KEY + "1a"))
    envelope = assert_unknown(t, result, "answer")
    command = result["content"][0]["text"].split("To settle it: ", 1)[1].replace("|absent|again", "")
    t.true(envelope["id"] in command, f"the command: {command}")
    program = os.path.dirname(os.path.realpath(t.surroundings.hapax))
    done = subprocess.run(
        command,
        shell=True,
        cwd="/",
        env={**t.env, "PATH": f"{program}:{t.env['PATH']}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    t.equal(done.returncode, 0, f"exit status of {command}: {done.stderr!r}")
    result = client.result(client.call(key=KEY + "1a"))
    t.equal(operation(result)["execution"], "succeeded", "execution")
    t.equal(len(t.effects()), 1, "effects")


@more("resolved_it_happened")
def happened(t, w):
    client, ident = unknown_operation(t, w, KEY + "0a")
    resolve(t, ident, "happened")
    result = client.result(client.call(key=KEY + "0a"))
    t.true(code(result) != "OUTCOME_UNKNOWN", f"answer after it was settled: {result}")
    t.equal(operation(result)["execution"], "succeeded", "execution")
    t.equal(len(t.effects()), 1, "effects")


@more("resolved_it_did_not_do_it_again")
def do_it_again(t, w):
    client, ident = unknown_operation(t, w, KEY + "0b")
    resolve(t, ident, "again")
    result = w.poll(client, key=KEY + "0b")
    t.equal(len(t.effects()), 2, "effects: exactly one successor")
    t.true(t.effects()[1]["receipt"] in str(result), f"the successor's result: {result}")


@more("person_is_asked_about_an_unknown_outcome")
def person_asked(t, w):
    """A client that can be asked is asked; "it happened" settles the operation."""
    client = w.client({"tools": {"charge": {"runs": DIES_ONCE}}}, capabilities={"elicitation": {}})
    ident = client.call(key=KEY + "0c")
    question = client.wait_message(
        lambda one: one.get("method") == "elicitation/create" or one.get("id") == ident,
        "a question or an answer",
    )
    if question.get("method") is None:
        assert_unknown(t, question.json["result"], "answer without a question")
        raise Failure("the client can be asked, and was not")
    client.send({"jsonrpc": "2.0", "id": question.json["id"], "result": {"action": "cancel"}})
    assert_unknown(t, client.result(ident), "answer after the person left it")
    t.equal(len(t.effects()), 1, "effects")


@more("operation_is_queried_by_the_client")
def queried(t, w):
    """hapax/operations/get by id and by key, inside the caller's own."""
    client = w.client({"tools": {"charge": {}}})
    envelope = operation(client.result(client.call(key=KEY + "0d")))
    answer = client.answer(client.request("hapax/operations/get", {"id": envelope["id"]}))
    if answer.get("error") and answer.json["error"]["code"] == -32601:
        raise Skip("hapax/operations/get is a later issue's")
    by_id = answer.json["result"]
    t.true("succeeded" in json.dumps(by_id), f"by id: {by_id}")
    error = client.answer(client.request("hapax/operations/get", {"id": "no-such-operation"}))
    t.true(error.get("error"), f"an unknown id: {error}")


# A ledger that is not as it should be -----------------------------------------------------------


def refused_or_unavailable(t, argv, name):
    """Starts the command: it must end with a clear message, or answer guarded calls with 1503 and
    say why; reads and the rest may go on.
    """
    client = RawClient(t, argv, name=name)
    ident = client.request(
        "initialize",
        {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "raw", "version": "1"},
        },
    )
    try:
        client.answer(ident, 15)
        client.notify("notifications/initialized")
        error = client.error(client.call(args={"after": name}), 15)
        t.equal(error["code"], 1503, f"error with a bad ledger: {error}")
        t.true(t.ledger in error["message"] or "/proc" in error["message"], f"it names it: {error}")
    except Failure:
        if not client.ended:
            raise
        t.true(client.process.wait(10) != 0, "exit status")
        with open(client.stderr_path, encoding="utf-8") as file:
            said = file.read()
        t.true("ledger" in said.lower(), f"the message speaks of the ledger: {said[-300:]!r}")


@more("ledger_that_cannot_be_made")
def cannot_be_made(t, w):
    refused_or_unavailable(t, w.argv({}, ledger="/proc/no-ledger-here"), "proc")
    t.equal(t.effects(), [], "effects")


@more("ledger_that_is_corrupt")
def corrupt(t, w):
    client = w.client()
    client.result(client.call())
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    database = t.database()
    with open(database, "r+b") as file:
        file.seek(0)
        file.write(b"this is not a database" * 200)
    for path in t.ledger_files():
        if path.endswith("-wal"):
            os.unlink(path)
    refused_or_unavailable(t, client.argv, "corrupt")
    t.equal(len(t.effects()), 1, "effects")


@more("ledger_restored_from_an_older_copy")
def restored(t, w):
    """An older copy of the ledger is put back: guarded calls are refused until a person says so."""
    client = w.client()
    client.result(client.call(args={"n": 1}, key=KEY + "0e"))
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    os.makedirs(t.path("backup"))
    saved = {
        path: shutil.copy2(path, t.path("backup"))
        for path in t.ledger_files()
        if "count" not in path
    }
    client = w.client()
    for n in range(3):
        client.result(client.call(args={"n": 2}, key=KEY + f"f{n}"))
    client.close_stdin()
    client.process.wait(10)
    t.wait(lambda: not processes.marked(t.mark), "everything to be gone")
    for path in t.ledger_files():
        if path in saved:
            shutil.copy2(saved[path], path)
        elif path.endswith(("-wal", "-shm")):
            os.unlink(path)
    before = len(t.effects())
    refused_or_unavailable(t, client.argv, "restored")
    t.equal(len(t.effects()), before, "effects")
    status, out, err = t.ops(
        "recover", "--backup-taken-at", "2020-01-01T00:00:00Z", "--ledger", t.ledger
    )
    t.equal(status, 0, f"exit status of ops recover: {out[-300:]!r} {err[-300:]!r}")
    client = w.client()
    known = client.result(client.call(args={"n": 1}, key=KEY + "0e"))
    t.true(not known.get("isError"), f"a key that the copy knows: {known}")
    for key in (KEY + "f0", "a-key-without-a-time"):
        told = client.result(client.call(args={"n": 2}, key=key))
        t.equal(code(told), "OUTCOME_UNKNOWN", f"a key from the gap: {told}")
    told = client.result(client.call(args={"n": 9}))
    t.equal(code(told), "REPEAT_SUSPECTED", f"without a key: {told}")
    t.equal(len(t.effects()), before, "effects after recovery")


@more("ledger_verifies_after_all_this")
def verifies(t, w):
    """Kills in the middle of things, then `hapax ops verify`: the ledger is sound."""
    client = w.client({"tools": {"charge": {"runs": RELEASED}}})
    for n in range(5):
        client.call(args={"n": n}, key=KEY + f"e{n}")
    t.wait_effects(5)
    processes.kill(w.keeper(client), t.surroundings.hapax)
    client.wait_eof(5)
    fresh = w.again(client)
    for n in range(5):
        fresh.result(fresh.call(args={"n": n}, key=KEY + f"e{n}"))
    status, out, err = t.ops("verify", "--ledger", t.ledger)
    t.equal(status, 0, f"exit status of ops verify: {out[-300:]!r} {err[-300:]!r}")
    t.equal(len(t.effects()), 5, "effects")


@more("ops_names_the_ledger_it_reads")
def default_ledger(t, w):
    """Without --ledger it is the one in the home of the user database, not of the environment (no
    SDK passes XDG_*), and `hapax ops` says which file that is, also when there is none.
    """
    _, out, err = t.ops("list")
    home = pwd.getpwuid(os.getuid()).pw_dir
    t.true(f"{home}/.local/state/hapax".encode() in out + err, f"it names the ledger: {out + err}")


@more("a_hint_that_may_be_stale_is_forgotten")
def stale_hint(t, w):
    """After "the list has changed" every tool may write, until it is listed again."""
    changed = '{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}'
    script = {
        "tools": {
            "look": {"listing": {"annotations": {"readOnlyHint": True}}, "runs": [[{"text": "x"}]]},
            "say": {"runs": [[{"noise": [changed]}, {"text": "said"}]]},
        }
    }
    client = w.client(script)
    client.result(client.request("tools/list"))
    for _ in range(2):
        client.result(client.call("look", key=KEY + "a4"))
    t.equal(len(t.effects("look")), 2, "unguarded while the hint holds")
    client.result(client.call("say"))
    for _ in range(2):
        client.result(client.call("look", {"n": 1}, key=KEY + "a5"))
    t.equal(len(t.effects("look")), 3, "guarded when it may not hold any more")
    client.result(client.request("tools/list"))
    for _ in range(2):
        client.result(client.call("look", {"n": 2}, key=KEY + "a6"))
    t.equal(len(t.effects("look")), 5, "unguarded when it is listed again")


@more("a_call_that_names_no_tool_is_refused")
def nameless(t, w):
    client = w.client({"tools": {"charge": {}}})
    for n, params in enumerate(('["charge"]', '{"name":5,"arguments":{}}', '{"arguments":{}}')):
        line = f'{{"jsonrpc":"2.0","id":{900 + n},"method":"tools/call","params":{params}}}'
        client.send(line.encode(), odd=True)
        t.equal(client.error(900 + n)["code"], -32602, f"params {params}")
    t.equal(len(t.effects()), 0, "effects")


@more("a_method_that_may_have_acted_is_not_called_safe")
def unsafe_method(t, w):
    """The server reads a vendor's request and dies: nobody knows what it did."""
    client = RawClient(t, t.hapax_argv(["sh", "-c", "read -r line; exit 3"]))
    error = client.error(client.request("orders/create", {"n": 1}, odd=True))
    word = {name: error["data"].get(name) for name in ("code", "retry_safe")}
    t.equal(word, {"code": "OUTCOME_UNKNOWN", "retry_safe": False}, f"error: {error}")
    t.true("may have happened" in error["message"], f"message: {error}")


@more("a_ledger_that_cannot_be_used_hurts_guarded_calls_only")
def no_ledger(t, w):
    t.touch("a-file")
    script = {"tools": {"look": {"listing": {"annotations": {"readOnlyHint": True}}}}}
    client = w.client(script, ledger=t.path("a-file"))
    client.result(client.request("tools/list"))
    client.result(client.call("look"))
    error = client.error(client.call("charge"))
    t.equal(error["code"], 1503, f"a guarded call: {error}")
    t.true(". When that is mended" in error["message"], f"sentences: {error}")
    t.equal(len(t.effects("charge")), 0, "effects")


@more("a_network_file_system_is_refused")
def network_file_system(t, w):
    """A FUSE mount, as sshfs and cloud mounts are. Nobody need serve it: the kernel itself names
    the kind to whoever is not the mount's own user.
    """
    where = t.path("mounted")
    os.mkdir(where)
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR)
    except OSError as fault:
        raise Skip(f"/dev/fuse: {fault.strerror}") from fault
    try:
        options = f"fd={device},rootmode=40000,user_id=65534,group_id=65534"
        if libc.mount(b"hapax-test", where.encode(), b"fuse", 0, options.encode()) != 0:
            raise Skip(f"no mount allowed here: {os.strerror(ctypes.get_errno())}")
        try:
            client = w.client({"tools": {"charge": {}}}, ledger=where)
            error = client.error(client.call("charge"))
            t.equal(error["code"], 1503, f"a guarded call: {error}")
            t.true("network file system (fuse)" in error["message"], f"message: {error}")
            t.equal(len(t.effects("charge")), 0, "effects")
        finally:
            libc.umount2(where.encode(), 2)
    finally:
        os.close(device)


@more("end_of_input_is_not_waited_for_without_end")
def input_limit(t, w):
    """The client closes its end and reads on, and the tool never answers: told at the bound."""
    client = w.client({"tools": {"never": {"runs": [[{"wait": "never"}]]}}}, orphan="1s")
    ident = client.call("never")
    t.wait_effects(1)
    client.close_stdin()
    t.equal(code(client.result(ident)), "OUTCOME_UNKNOWN", "what is known by then")
    client.process.wait(10)


@more("an_answer_in_an_array_is_an_answer")
def answer_in_array(t, w):
    t.is_traffic_judged = False  # no revision of today allows it
    line = '[{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}]\n'
    client = w.client({"tools": {"odd": {"runs": [[{"raw": line}]]}}})
    client.result(client.call("odd"))


@more("a_ledger_moved_away_is_noticed")
def moved_ledger(t, w):
    """What goes into a file that nobody will find again is not durable: refused, nothing sent."""
    client = w.client({"tools": {"charge": {}}})
    client.result(client.call("charge", {"n": 1}, key=KEY + "aa"))
    os.rename(t.ledger, t.ledger + ".moved")
    error = client.error(client.call("charge", {"n": 2}, key=KEY + "ab"))
    t.equal(error["code"], 1503, f"a guarded call: {error}")
    t.true("moved or deleted" in error["message"], f"message: {error}")
    t.equal(len(t.effects()), 1, "effects")
    os.rename(t.ledger + ".moved", t.ledger)
    result = client.result(client.call("charge", {"n": 2}, key=KEY + "ab"))
    t.true(not result.get("isError"), f"put back: {result}")
    t.equal(len(t.effects()), 2, "effects when it is back")


@more("printf_into_hapax")
def printf(t, w):
    """A shell pipe is a client, too: all its answers, then a clean end, in bounded time."""
    lines = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "sh", "version": "1"},
            },
        },
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "charge", "arguments": {}},
        },
    ]
    done = subprocess.run(
        w.argv(orphan="20s"),  # counted from the end of input, before the server has started
        env=t.env,
        input=b"".join(json.dumps(line).encode() + b"\n" for line in lines),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        timeout=40,
        check=False,
    )
    t.equal(done.returncode, 0, f"exit status ({done.stderr[-300:]!r})")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    t.equal([answer["id"] for answer in answers], [1, 2], "answers")
    t.equal(
        without_ours(answers[1]["result"])["content"][0]["text"],
        f"receipt {t.effects()[0]['receipt']}",
        "result",
    )
