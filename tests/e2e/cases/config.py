# SPDX-License-Identifier: MIT
"""The configuration from outside: `hapax check`, `hapax token`, `hapax serve`. Names: config_..."""

import hashlib
import json
import os
import re
import subprocess

from rawclient import stub
from webclient import Serve
from .way import case

GOOD, WARNED, REFUSED = range(3)
EXAMPLE = os.path.join(os.path.dirname(__file__), "..", "..", "..", "examples", "hapax.yaml")
SECRET = "hpx_SENTINEL-9d41c0aa7733"


def config(title):
    return case(title, None, suite="config", prefix="config_")


class Program:
    """Runs the program in the directory of the test."""

    def __init__(self, t):
        self.t = t

    def run(self, *words, status=GOOD, stdin=b"", stdout=subprocess.PIPE):
        done = subprocess.run(
            [self.t.surroundings.hapax, *words],
            cwd=self.t.dir,
            env=self.t.env,
            input=stdin,
            stdout=stdout,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        out, err = (done.stdout or b"").decode(), done.stderr.decode()
        self.t.equal(
            done.returncode, status, f"exit status of {words} ({out[-300:]!r} {err[-400:]!r})"
        )
        return out, err

    def write(self, text, name="hapax.yaml"):
        with open(self.t.path(name), "w", encoding="utf-8") as file:
            file.write(text)


BANK = """\
upstreams:
  bank:
    command: bank-mcp
    args: [--password, {secret}]
    env: {{BANK_TOKEN: {secret}}}
    tools:
      pay: {{class: keyed, effect_key: /key}}
      "get_*": {{class: read_only}}
{more}"""


@case("011_write_tool_without_key")
def forgotten_key(t, w):
    """One tool lacks the key mapping that its sibling has: told with its place, an error in strict
    mode; said, it is silent."""
    program = Program(t)
    program.write(BANK.format(secret=SECRET, more="      withdraw: {timeout: 90s}\n"))
    for words, status in ((("check",), GOOD), (("check", "--strict"), WARNED)):
        _, err = program.run(*words, status=status)
        t.true("hapax.yaml:9:7: upstream 'bank': nothing says" in err, f"the place: {err}")
        t.true("'withdraw', while 'pay' takes a key" in err, f"the tool: {err}")
        t.equal(err.count("warning:"), 1, f"warnings in {err}")
    report = json.loads(program.run("check", "--strict", "--json", status=WARNED)[0])
    t.equal(len(report["warnings"]), 1, f"warnings of {report}")
    for more in ("class: idempotent", "class: opaque", "inject_key: /key", "class: read_only"):
        program.write(BANK.format(secret=SECRET, more=f"      withdraw: {{{more}}}\n"))
        t.equal(program.run("check", "--strict")[1], "", f"warnings with {more}")


@config("a_relative_ledger_and_a_server_of_another_directory")
def relative_ledger(t, w):
    """The ledger is found from our directory, also by what runs in the server's."""
    program = Program(t)
    os.mkdir(t.path("elsewhere"))
    command, *args = (json.dumps(word) for word in stub(t, {"tools": {"charge": {}}}))
    program.write(
        f"ledger: led\nupstreams:\n  bank:\n    command: {command}\n    args: [{', '.join(args)}]\n"
        f"    cwd: {t.path('elsewhere')}\n"
    )
    client = Serve(t, [], config=t.path("hapax.yaml"), cwd=t.dir).client(path="/mcp/bank")
    client.call().result()
    t.equal(len(t.effects()), 1, "effects")
    t.equal(os.listdir(t.path("elsewhere")), [], "what lies in the server's directory")
    t.true(os.path.exists(t.path("led/ledger.db")), "the ledger is in ours")


@config("the_example_is_good")
def example(t, w):
    out, err = Program(t).run("check", "--strict", "--config", EXAMPLE)
    t.equal(err, "", "warnings of the example")
    for words in ("billing_", "/mcp/tickets", "https://tickets.example/mcp", "set_*", "2 tokens"):
        t.true(words in out, f"{words} in {out}")


@config("report_for_programs")
def report(t, w):
    program = Program(t)
    program.write(BANK.format(secret=SECRET, more="  crm: {url: 'https://crm.example/mcp?k=1'}\n"))
    seen = json.loads(program.run("check", "--json")[0])
    bank, crm = seen["upstreams"]
    t.equal((seen["error"], seen["listen"]), (None, ["127.0.0.1:7332"]), "the whole")
    t.equal((bank["name"], bank["command"], bank["prefix"]), ("bank", "bank-mcp", "bank_"), "bank")
    t.equal(
        [(tool["tools"], tool["class"], tool["key"]) for tool in bank["tools"]],
        [("get_*", "read_only", None), ("pay", "keyed", "/key"), (None, "opaque", None)],
        "tools",
    )
    t.equal(crm["url"], "https://crm.example/mcp?...", "a query may be a secret")
    program.write("upstreams: {bank: {comand: x}}\n")
    seen = json.loads(program.run("check", "--json", status=REFUSED)[0])
    t.equal(
        seen["error"],
        "hapax.yaml:1:20: there is no 'comand' in an upstream; did you mean 'command'?",
        "the refusal",
    )


@config("refusals_have_a_place")
def refusals(t, w):
    program = Program(t)
    for text, wanted in (
        ("upstreams:\n  a: {command: x, timeout: 5}\n", "hapax.yaml:2:28: timeout: '5' is not"),
        ("upstreams:\n  a: {command: x\n", "hapax.yaml:3:1: this is not YAML"),
        ("upstreams:\n  a: {command: x, row_retention: 8d, retry_horizon: 7d}\n", "hapax.yaml:2:3:"),
        ('{"upstreams": {"a": {"command": 1,}}}', "hapax.yaml:1:35: this is not JSON"),
    ):
        program.write(text)
        for command in ("check", "serve"):
            out, err = program.run(command, status=REFUSED)
            t.equal(out, "", f"output beside a refusal by {command}")
            t.true(err.startswith(f"hapax {command}: {wanted}"), f"{wanted!r} in {err!r}")
    t.remove("hapax.yaml")
    t.true("No such file" in program.run("check", status=REFUSED)[1], "an absent file")
    t.true("no hapax.yaml here" in program.run("serve", status=REFUSED)[1], "an absent file")
    t.true("did you mean '--strict'" in program.run("check", "--srtict", status=REFUSED)[1], "a slip")


@config("secrets_are_not_shown")
def secrets(t, w):
    """Wherever a secret is put, right or wrong, nothing repeats it."""
    program = Program(t)
    texts = [BANK.format(secret=SECRET, more="")]
    for broken in (
        "tokens: {a: {sha256: %s}}",
        "tokens: {%s: {sha256: x}}",
        "tokens: {a: %s}",
        "tokens: {a: {token: %s}}",
        "upstreams: {a: {url: 'https://u:%s@x/'}}",
        "upstreams: {a: {url: 'https://x', headers: {A: [%s]}}}",
        "upstreams: {a: {command: x, env: {A: {%s: 1}}}}",
        "%s: 1",
    ):
        texts.append(broken % SECRET + "\n")
    for text in texts:
        program.write(text)
        for words in (("check",), ("check", "--json")):
            out, err = program.run(*words, status=GOOD if text is texts[0] else REFUSED)
            t.true("SENTINEL" not in out + err, f"{text!r} is repeated by {words}: {out}{err}")


@config("an_editors_file_as_it_is")
def editor(t, w):
    program = Program(t)
    servers = {
        "My Server": {"command": "npx", "args": ["-y", "x"], "env": {"A": SECRET}, "icon": "\U0001f600"},
        "crm": {"type": "http", "url": "https://crm.example/mcp"},
    }
    program.write(json.dumps({"mcpServers": servers, "theme": "dark"}, indent=2), "mcp.json")
    out, err = program.run("check", "mcp.json")
    t.true("my-server" in out and "npx (2 arguments)" in out, f"the servers: {out}")
    t.true("'icon' of the server 'my-server' is passed over" in err, f"what is the editor's: {err}")
    t.true("'theme' is passed over" in err, f"what is the editor's: {err}")
    t.true("SENTINEL" not in out + err, "the environment is not shown")
    program.run("serve", "--config", "mcp.json", "--listen", "0.0.0.0:1", status=REFUSED)


@config("a_token_is_made_and_recognised")
def token(t, w):
    """The printed line is good in a file, is the hash of the token, and no two are alike."""
    program = Program(t)
    made = set()
    for _ in range(3):
        out, err = program.run("token", "--name", "alice@x")
        value, line = out.splitlines()
        t.true(re.fullmatch(r"hpx_[A-Za-z0-9_-]{43}", value), f"a token: {value}")
        t.true(value not in err, "standard error has no token")
        t.equal(
            line,
            f'  "alice@x": {{sha256: {hashlib.sha256(value.encode()).hexdigest()}}}',
            "the line",
        )
        made.add(value)
        again, _ = program.run("token", "--stdin", "--name=alice@x", stdin=value.encode() + b"\r\n")
        t.equal(again, line + "\n", "the hash of a token that there is")
    t.equal(len(made), 3, "different tokens")
    program.write(f"listen: 0.0.0.0:7332\nupstreams: {{a: {{command: x}}}}\ntokens:\n{line}\n")
    _, err = program.run("check")
    t.true("in the clear" in err, f"no TLS: {err}")
    for words, stdin in (
        (("token", SECRET), b""),
        (("token", "--stdin"), b"short"),
        (("token", "--stdin"), b"two words of some length here\n"),
        (("token", "--stdin"), b"x" * 5000),
        (("token", "--name", "a b"), b""),
        (("token", "--nmae", "a"), b""),
    ):
        out, err = program.run(*words, stdin=stdin, status=REFUSED)
        t.true("SENTINEL" not in err and "words of" not in err, f"{words} repeats it: {err}")
        t.equal(out, "", f"output of {words}")


@config("lost_output_is_a_failure")
def lost_output(t, w):
    program = Program(t)
    program.write(BANK.format(secret="x", more=""))
    with open("/dev/full", "wb") as full:
        for words in (("check",), ("check", "--json"), ("token",)):
            _, err = program.run(*words, status=1, stdout=full)
            t.true("No space left" in err, f"{words}: {err}")


@config("a_terminal_cannot_be_moved")
def terminal(t, w):
    """Names out of a file do not reach the terminal as control bytes."""
    program = Program(t)
    program.write('upstreams: {a: {command: "x", "\\e[2Jfoo": 1}}\n')
    _, err = program.run("check", status=REFUSED)
    t.true("\x1b" not in err and "?[2Jfoo" in err, f"{err!r}")
    program.write('upstreams: {a: {command: "x\\ty"}}\n')
    program.run("check", status=REFUSED)


@config("serve_wants_tokens_beyond_loopback")
def loopback(t, w):
    program = Program(t)
    for address in ("0.0.0.0:7332", "[::]:7332", "192.0.2.1:7332"):
        _, err = program.run("serve", "--listen", address, "--", "x", status=REFUSED)
        t.true("without tokens everybody there" in err, f"{address}: {err}")
