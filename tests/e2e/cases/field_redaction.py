# SPDX-License-Identifier: MIT
"""Field case 146: members that the operator names are shown to nobody who looks, and change nothing
for those who call."""

import hashlib
import json
import os
import stat

from rawclient import KEY as META_KEY, RawClient, rawjson
from webclient import Serve
from .admin import Admin, hashes
from .people import ASKS, FORM, question, reply
from .reload import hup, told
from .serve import token, upstream, write_config
from .way import case, operation, without_ours

KEY = "0190a0a0-0000-7000-8000-000000000146"
SECRETS = ("SENTINEL-1-e4a0", "SENTINEL-2-e4a0", "SENTINEL-3-e4a0", "SENTINEL-4-e4a0")
NAMES = ("--redact", "password,api_key", "--redact", "IBAN")
# Nested, in odd case, with an escape in a name, as JSON in a string, and in running text.
RAW = (
    b'{"user": "ann", "PassWord":"%s","deep":[{"api-Key" : ["%s", 15]}],'
    b'"ib\\u0061n":"%s", "note":"{\\"apiKey\\": \\"%s\\"}"}'
) % tuple(secret.encode() for secret in SECRETS)
ECHO = {"tools": {"charge": {"runs": [[{"echo": True}]]}}}


def has_secret(shown):
    text = shown if isinstance(shown, str) else json.dumps(shown)
    return [secret for secret in SECRETS if secret in text]


def export(t, *options):
    status, out, err = t.ops("export", "--ledger", t.ledger, *options)
    t.equal(status, 0, f"exit status of ops export {options} ({err[-300:]!r})")
    return out.decode()


def shown_of(t, text, what):
    """One operation as somebody is shown it: all of it but the secrets."""
    t.equal(has_secret(text), [], f"secrets in {what}: {text}")
    op = json.loads(text)
    t.equal(
        op["arguments"],
        {
            "user": "ann",
            "PassWord": "[redacted]",
            "deep": [{"api-Key": "[redacted]"}],
            "iban": "[redacted]",
            "note": '{"apiKey": "[redacted]"}',
        },
        f"arguments in {what}",
    )
    t.equal(op["outcome"]["value"]["echo"], op["arguments"], f"the result in {what}")
    t.equal(op["is_redacted"], True, f"{what} says that something is left out")
    return op


def names_kept(t):
    path = t.database() + "-redact"
    with open(path, encoding="utf-8") as file:
        lines = [line for line in file.read().splitlines() if not line.startswith("#")]
    t.equal(stat.S_IMODE(os.stat(path).st_mode), 0o600, "mode of the file of names")
    return path, lines


@case("146_redacted_in_log_export_and_admin_api")
def redacted(t, w):
    """The server, the caller and the replay get the bytes as they are, and the fingerprint is of those;
    log, export, show and admin API leave out what is named."""
    log = t.path("log")
    api = Admin(t)
    client = w.client(
        ECHO, *NAMES, "--log-level", "debug", "--log-file", log, "--log-arguments", *api.options
    )
    results = []
    for ident in (700, 701):
        client.send(client.call_line("charge", RAW, ident, {META_KEY: KEY}))
        client.result(ident)
        results.append(rawjson.find(client.answers(ident)[0].line, "result", "echo"))
    t.equal(results, [RAW, RAW], "what the caller got, live and replayed")
    t.equal([one["args"].encode() for one in t.effects()], [RAW], "what the server got")
    other = RAW.replace(SECRETS[0].encode(), b"another")
    client.send(client.call_line("charge", other, 702, {META_KEY: KEY}))
    t.equal(client.error(702)["code"], -32602, "the key with another password is another call")

    op = shown_of(t, export(t), "the export")
    canonical = json.dumps(json.loads(RAW), sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    t.equal(op["fingerprint"], f"sha256:{digest}", "the fingerprint")
    raw = export(t, "--raw")
    t.equal(has_secret(raw), list(SECRETS), "secrets with --raw")
    t.equal(json.loads(raw)["is_redacted"], False, "--raw leaves nothing out")
    ident = operation(client.answers(701)[0].json["result"])["id"]
    for options in (["--json"], ["--arguments"]):
        status, out, err = t.ops("show", ident, "--ledger", t.ledger, *options)
        t.equal((status, has_secret(out.decode())), (0, []), f"show {options}: {out!r} {err!r}")
        t.true(b"[redacted]" in out and b"ann" in out, f"show {options} tells the rest: {out!r}")
    shown_of(t, json.dumps(api.get(f"/v1/operations/{ident}")), "the admin API")
    with open(log, encoding="utf-8") as file:
        said = file.read()
    t.equal(has_secret(said), [], "secrets in the log")
    t.true("[redacted]" in said and "ann" in said, f"the log tells the rest: {said[-800:]}")
    t.true(b"ann" not in export(t, "--redact", "user").encode(), "a name more for this export")


@case("146_names_are_kept_with_the_ledger")
def kept(t, w):
    """What one process was told to hide, another that was told nothing hides too, in its log and its
    admin API; and where the names cannot be read, nothing is shown."""
    w.client(ECHO, *NAMES).close_stdin()
    log = t.path("log")
    api = Admin(t)
    client = w.client(
        ECHO, "--log-level", "info", "--log-file", log, "--log-arguments", *api.options
    )
    client.send(client.call_line("charge", RAW, 700, {META_KEY: KEY}))
    ident = operation(client.result(700))["id"]
    shown_of(t, export(t), "the export")
    shown_of(t, json.dumps(api.get(f"/v1/operations/{ident}")), "the admin API")
    with open(log, encoding="utf-8") as file:
        said = file.read()
    t.true(has_secret(said) == [] and "[redacted]" in said, f"the log: {said}")
    path, lines = names_kept(t)
    t.equal(lines, ["password", "api_key", "IBAN"], "the names")
    w.client(ECHO, *NAMES, "--redact", "Api-Key,user").close_stdin()
    t.equal(names_kept(t)[1], [*lines, "user"], "only what is new is added")
    t.true("ann" not in export(t), "a name that came later hides what is there already")
    told = api.get(f"/v1/operations/{ident}")
    t.equal(told["arguments"]["user"], "[redacted]", "in a process that was there before")

    with open(path, "a", encoding="utf-8") as file:
        file.write("/password\n")
    status, out, err = t.ops("export", "--ledger", t.ledger)
    t.equal((status, out), (1, b""), f"an export when a line is no name: {err!r}")
    t.true(b"line 6" in err, f"it says which: {err!r}")
    t.equal(api.get(f"/v1/operations/{ident}", 503)["error"], "LEDGER_UNAVAILABLE", "admin API")
    t.equal(api.get(f"/v1/operations/{ident}?payload=no")["id"], ident, "without arguments")
    t.true(has_secret(export(t, "--raw")), "--raw needs no names")
    export(t, "--without-payload")
    last = RawClient(t, client.argv)
    last.initialize()
    refused = last.error(last.call(args={"n": 1}))
    t.equal(refused["data"]["code"], "LEDGER_UNAVAILABLE", f"a guarded call then: {refused}")
    t.equal(len(t.effects()), 1, "effects")


@case("146_a_key_in_a_named_member")
def key_in_member(t, w):
    """The caller's key is shown to operators, unless it came in a member that is named."""
    client = w.client(ECHO, "--key-argument", "/api_key", *NAMES)
    for n in range(2):
        result = client.result(client.call(args={"API_key": 1, "api_key": SECRETS[0]}))
        t.equal(operation(result)["replayed"], n == 1, "replayed")
    op = json.loads(export(t))
    t.equal((op["key"], op["key_source"]), ("[redacted]", "key_argument"), "the key in the export")
    status, out, _ = t.ops("show", SECRETS[0], "--arguments", "--ledger", t.ledger)
    t.equal((status, has_secret(out.decode())), (0, []), f"show, found by the key: {out!r}")
    t.equal(json.loads(export(t, "--raw"))["key"], SECRETS[0], "the key with --raw")
    other = w.client(ECHO, "--key-argument", "/order", ledger=t.path("other"))
    other.result(other.call(args={"order": "o-4711"}))
    told = t.ops("export", "--ledger", t.path("other"), "--redact", "password")[1]
    t.equal(json.loads(told)["key"], "o-4711", "a key that came in another member")


@case("146_redacted_in_questions_to_people")
def asked(t, w):
    """A person who is asked to approve sees what is to run, less the secrets; and that is what runs."""
    client = w.client(ECHO, *ASKS, *NAMES, capabilities=FORM)
    client.send(client.call_line("charge", RAW, 700, {META_KEY: KEY}))
    found = question(client)
    said = found["params"]["message"]
    t.equal(has_secret(said), [], f"secrets in the question: {said}")
    t.true("[redacted]" in said and "ann" in said and "sha256:" in said, f"the question: {said}")
    reply(client, found, "approve")
    client.result(700)
    t.equal([one["args"].encode() for one in t.effects()], [RAW], "what the server got")


def config_of(t, api, names):
    return write_config(
        t,
        [upstream(t, "bank", ECHO)],
        [token("one", "hpx_one", "ann")],
        f"redact: [{names}]\nlog_level: info\nlog_file: {t.path('log')}\nlog_arguments: on\n"
        f"admin_listen: unix:{api.path}\nadmin_tokens: {hashes()}\n",
    )


@case("146_redacted_behind_serve")
def served(t, w):
    """The same with `redact` in the file of `hapax serve`, a name more on its command line, and one more
    when the file is read again."""
    api = Admin(t)
    running = Serve(t, ["--redact", "iban"], config=config_of(t, api, "password, api_key"))
    client = running.client(path="/mcp/bank", token="hpx_one")
    args = json.loads(RAW)
    results = [client.call(args=args, key=KEY).result() for _ in range(2)]
    t.equal([one["echo"] for one in results], [args, args], "what the caller got")
    t.equal(without_ours(results[0]), without_ours(results[1]), "the replay")
    t.equal([json.loads(one["args"]) for one in t.effects()], [args], "what the server got")
    shown_of(t, export(t), "the export")
    ident = operation(results[0])["id"]
    shown_of(t, json.dumps(api.get(f"/v1/operations/{ident}")), "the admin API")
    said = "\n".join(told(t, "event=arguments"))
    t.true(has_secret(said) == [] and "[redacted]" in said and "ann" in said, f"the log: {said}")
    t.equal(names_kept(t)[1], ["password", "api_key", "iban"], "the names")
    config_of(t, api, "password, user")
    hup(t, running)
    t.equal(client.call(args={"user": "bob", "api_key": "x-y-z"}).result()["echo"]["user"], "bob", "echo")
    said = told(t, "event=arguments")[-1]
    t.true("bob" not in said and "x-y-z" not in said, f"the log after another name: {said}")
    users = [json.loads(line)["arguments"]["user"] for line in export(t).splitlines()]
    t.equal(users, ["[redacted]"] * 2, "the export after another name")
