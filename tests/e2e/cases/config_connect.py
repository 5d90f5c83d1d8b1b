# SPDX-License-Identifier: MIT
"""`hapax check --connect`: the servers of a configuration really started, and what they say held
against the file. Names: config_connect_..."""

import json
import os

from kit import processes
from rawclient import stub
from .config import GOOD, REFUSED, WARNED, Program, config
from .http_upstream import Site

TEXT = [[{"text": "x"}]]
READER = {"listing": {"annotations": {"readOnlyHint": True}}, "runs": TEXT}
WRITER = {
    "listing": {"inputSchema": {"type": "object", "properties": {"ref": {"type": "string"}}}},
    "runs": TEXT,
}


def upstream(argv, more=""):
    """The JSON of an entry, which is YAML too."""
    entry = {"command": argv[0], "args": argv[1:]}
    return json.dumps(entry)[:-1] + more + "}"


def inline(t, script):
    """The stub with its script in its arguments, so that there can be several."""
    return [*stub(t, {})[:-1], json.dumps(script)]


def of_stub(t, script, more=""):
    return "upstreams:\n  bank: " + upstream(stub(t, script), more) + "\n"


def tools_of(report, name="bank"):
    found = {entry["name"]: entry for entry in report["upstreams"]}[name]["contact"]
    return {tool["name"]: (tool["class"], tool["class_said_by"], tool["key"]) for tool in found["tools"]}


@config("connect_says_what_each_tool_becomes")
def contract(t, w):
    """The class is the operator's word, else the server's as far as it is believed; nothing acts."""
    program = Program(t)
    idempotent = {"listing": {"annotations": {"idempotentHint": True}}, "runs": TEXT}
    script = {"tools": {"pay": WRITER, "set": idempotent, "get": READER, "list": READER}}
    tools = ', "tools": {"pay": {"class": "keyed", "effect_key": "/ref", "dedupe_horizon": "1h"}}'
    program.write(of_stub(t, script, tools))
    out, err = program.run("check", "--connect")
    t.true("answers" in out and "No server was started" not in out, f"the state: {out}")
    t.equal(err.count("warning:"), 1, f"'set' alone writes with nothing said: {err}")
    report = json.loads(program.run("check", "--connect", "--json")[0])
    t.equal(
        tools_of(report),
        {
            "pay": ("keyed", "this file", "/ref"),
            "set": ("opaque", "not said", None),
            "get": ("read_only", "readOnlyHint", None),
            "list": ("read_only", "readOnlyHint", None),
        },
        "believing readOnlyHint only",
    )
    program.write(of_stub(t, script, tools + ', "hints": "trust"'))
    report = json.loads(program.run("check", "--connect", "--json", "--strict")[0])
    t.equal(tools_of(report)["set"], ("idempotent", "idempotentHint", None), "trusting")
    program.write(of_stub(t, script, tools + ', "hints": "ignore"'))
    out, err = program.run("check", "--connect", "--strict", status=WARNED)
    t.equal(err.count("is not believed (hints: ignore)"), 2, f"readers that are not believed: {err}")
    t.equal(len(t.effects()), 0, "effects")
    t.true(not any(b"tools/call" in line for line in t.lines("received")), "no tool was called")


@config("connect_holds_the_file_against_the_server")
def against(t, w):
    program = Program(t)
    script = {"tools": {"pay": WRITER, "move": WRITER, "get": READER}}
    for tools, wanted in (
        ({"pya": {"class": "opaque"}}, "lists no tool that 'pya' speaks of"),
        ({"pay": {"class": "keyed", "effect_key": "/key"}}, "'pay' has no such argument"),
        ({"pay": {"key_argument": "/nr"}}, "key_argument is /nr, and 'pay' has no such argument"),
        ({"pay": {"inject_key": "/ref"}}, "such an argument of its own"),
        ({"pay": {"class": "keyed", "effect_key": "sep3182"}}, "does not say that it takes"),
        (
            {"pay": {"class": "probeable", "probe": "find", "probe_match": "text x"}},
            "is 'find', which the server does not list",
        ),
        (
            {"pay": {"class": "probeable", "probe": "move", "probe_match": "text x"}},
            "is 'move', which the server does not call read-only",
        ),
    ):
        tools.setdefault("move", {"class": "opaque"})
        tools.setdefault("pay", {"class": "opaque"})
        program.write(of_stub(t, script, f', "tools": {json.dumps(tools)}'))
        _, err = program.run("check", "--connect", "--strict", status=WARNED)
        t.equal((wanted in err, err.count("warning:")), (True, 1), f"{wanted!r} alone in {err!r}")
    good = {
        "pay": {"class": "probeable", "probe": "get", "probe_match": "text x"},
        "move": {"class": "keyed", "effect_key": "/ref", "inject_key": "/another"},
    }
    program.write(of_stub(t, script, f', "tools": {json.dumps(good)}'))
    t.equal(program.run("check", "--connect", "--strict")[1], "", "warnings of a good file")


@config("connect_knows_more_than_the_file")
def knows_more(t, w):
    """A rule that looks like one of a forgotten writer is of a reader, and no warning is left."""
    program = Program(t)
    program.write(of_stub(t, {"tools": {"get": READER}}, ', "tools": {"get": {"timeout": "9s"}}'))
    program.run("check", "--strict", status=WARNED)
    t.equal(program.run("check", "--strict", "--connect")[1], "", "warnings")


@config("connect_says_what_is_wrong_with_a_server")
def wrong(t, w):
    program = Program(t)
    mute = upstream(["sleep", "1000"], ', "start_timeout": "1s"')
    dies = upstream(["sh", "-c", "echo no licence >&2; exit 3"])
    good = upstream(inline(t, {"tools": {"get": READER}}))
    future = upstream(inline(t, {"version": "2031-01-01"}))
    program.write(
        "upstreams:\n"
        f"  good: {good}\n  dies: {dies}\n  mute: {mute}\n  future: {future}\n"
        '  gone: {command: /no/such/program}\n  far: {url: "http://127.0.0.1:1/mcp"}\n'
    )
    out, err = program.run("check", "--connect", status=WARNED)
    for words in (
        "exit status 3; its last words: no licence",
        "did not answer initialize within start_timeout (1 s)",
        "protocol version '2031-01-01', which Hapax does not know",
        "could not be started: No such file",
        "could not be reached",
        "answers",
    ):
        t.true(words in out, f"{words!r} in {out}")
    t.true("[dies] no licence" in err, f"its standard error: {err}")
    report = json.loads(program.run("check", "--connect", "--json", status=WARNED)[0])
    errors = {entry["name"]: entry["contact"]["error"] for entry in report["upstreams"]}
    t.equal([name for name, error in errors.items() if error is None], ["good"], "what is good")
    t.wait(lambda: not processes.marked(t.mark), "every process to be gone")


@config("connect_reads_a_list_of_pages_over_http")
def pages(t, w):
    """The whole list is read; what the server asks meanwhile is answered; the session is ended."""
    tool = '{"name":"%s","annotations":{"readOnlyHint":true}}'
    page = '{"jsonrpc":"2.0","id":$ID,"result":{"tools":[%s]%s}}'
    asks = 'data: {"jsonrpc":"2.0","id":"q","method":"ping"}\n\n'
    first = page % (tool % "one", ',"nextCursor":"c \\u00e4"')
    script = {
        "session": "s-1",
        "methods": {
            "tools/list": [
                {"if": "paged", "do": [{"json": page % (tool % "two", "")}]},
                {"unless": "paged", "do": [
                    {"touch": "paged"},
                    {"sse": {}}, {"text": asks}, {"text": f"data: {first}\n\n"}, {"end": True},
                ]},
            ]
        },
    }  # fmt: skip
    site = Site(t).serve(script)
    program = Program(t)
    program.write(f"upstreams: {{far: {{url: 'http://127.0.0.1:{site.port}/mcp'}}}}\n")
    report = json.loads(program.run("check", "--connect", "--strict", "--json", status=GOOD)[0])
    t.equal(sorted(tools_of(report, "far")), ["one", "two"], "tools")
    with open(os.path.join(site.dir, "requests"), encoding="utf-8") as file:
        requests = [json.loads(line) for line in file]
    bodies = [json.loads(request["body"]) for request in requests if request["body"]]
    t.equal(
        [body["params"]["cursor"] for body in bodies if "cursor" in body.get("params", {})],
        ["c ä"],
        "cursors sent",
    )
    t.true(any(body.get("id") == "q" and body.get("result") == {} for body in bodies), "the ping")
    t.equal(requests[-1]["verb"], "DELETE", "the session is ended")


@config("connect_to_a_server_without_tools")
def no_tools(t, w):
    program = Program(t)
    script = {"capabilities": {}, "list": [{"error": '{"code":-32601,"message":"no such method"}'}]}
    program.write(of_stub(t, script))
    out, _ = program.run("check", "--connect", "--strict")
    t.true("answers" in out, f"a server of prompts only: {out}")
    program.write(of_stub(t, {**script, "capabilities": {"tools": {}}}))
    out, _ = program.run("check", "--connect", status=WARNED)
    t.true("answers tools/list with an error: no such method" in out, f"a broken server: {out}")


@config("connect_needs_a_good_file")
def needs_a_good_file(t, w):
    """Nothing is started for a file that is refused."""
    program = Program(t)
    program.write(of_stub(t, {}, ', "timeout": "x"'))
    program.run("check", "--connect", status=REFUSED)
    t.equal(t.lines("starts"), [], "starts")
