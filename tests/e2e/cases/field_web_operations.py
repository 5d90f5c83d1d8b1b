# SPDX-License-Identifier: MIT
"""Field cases, groups F, H, I and L over HTTP: what operators are shown, and what nobody is shown.
"""

import json
import os
import stat

from rawclient import operation
from webclient import Serve, WebClient
from .field_hang import SOON
from .http_upstream import ANSWER, Site
from .serve import QUICK, before_site, before_stub, token, upstream, write_config
from .way import assert_unknown, case

KEY = "0190a0a0-0000-7000-8000-0000000005"
SECRET = "SENTINEL-77ad01"


def page(running, path):
    """Status and text of one of the paths for operators."""
    exchange = WebClient(running, path=path).get()
    status, text = exchange.head(), exchange.body().decode()
    exchange.close()
    return status, text


def reachable(running, name):
    lines = page(running, "/metrics")[1].splitlines()
    return [line.split()[1] for line in lines if f'reachable{{upstream="{name}"}}' in line]


@case("078_upstream_that_is_gone")
def upstream_gone(t, w):
    """The upstream goes for good: calls are told at once that nothing was sent, readiness fails,
    metrics say which one; when it is back, so is all of that. Before, all of it was well."""
    site = Site(t).serve()
    running = before_site(t, site)
    client = running.client()
    client.call(args={"steps": [{"json": ANSWER}]}).result()
    t.equal(page(running, "/readyz"), (200, "ready\n"), "readiness before")
    t.equal(reachable(running, "e2e"), ["1"], "metrics before")
    port = site.port
    site.end()
    for n in range(3):
        begin = t.clock()
        error = client.call(args={"n": n}).error()
        t.equal((error["code"], error["data"]["retry_safe"]), (1502, True), f"call {n}: {error}")
        t.true(t.clock() - begin < SOON, f"call {n} took {t.clock() - begin:.2f} s")
    status, text = page(running, "/readyz")
    t.equal(status, 503, f"readiness: {text}")
    t.true("no upstream" in text, f"readiness says {text}")
    t.equal(reachable(running, "e2e"), ["0"], "metrics")
    t.equal(page(running, "/healthz")[0], 200, "the gateway itself is well")
    site.serve({}, port=port)
    t.true(
        "receipt" in str(client.call(args={"steps": [{"json": ANSWER}]}).result()), "a call again"
    )
    t.equal(page(running, "/readyz"), (200, "ready\n"), "readiness after")
    t.equal(reachable(running, "e2e"), ["1"], "metrics after")


@case("078_one_upstream_of_two_is_gone")
def one_of_two(t, w):
    """A program that cannot be started leaves the other upstream served, and the gateway ready."""
    dies = upstream_of(t, "dies", {"start": [{"exit": 3}]})
    lives = upstream_of(t, "lives", QUICK)
    running = Serve(t, [], config=write_config(t, [dies, lives]))
    asked = WebClient(running, "/mcp/dies")
    begun = {
        "protocolVersion": asked.version,
        "capabilities": {},
        "clientInfo": {"name": "w", "version": "1"},
    }
    asked.request("initialize", begun).error()
    t.equal(reachable(running, "dies"), ["0"], "metrics of the one that dies")
    t.equal(reachable(running, "lives"), ["1"], "metrics of the other")
    t.equal(page(running, "/readyz")[0], 200, "readiness")
    t.true("receipt" in str(running.client(path="/mcp/lives").call().result()), "the other one")


def upstream_of(t, name, script, more=""):
    """An upstream with a script file of its own: `upstream` keeps one for all."""
    entry = upstream(t, name, script, more)
    os.rename(t.path("script.json"), t.path(f"script-{name}.json"))
    return entry.replace("script.json", f"script-{name}.json")


@case("104_noise_is_counted_by_server")
def noise_counted(t, w):
    """Lines on a child's stdout that are no messages: counted in the metrics by the server's name.
    """
    noisy = {
        "tools": {"charge": {"runs": [[{"noise": ["{not json", "", "hello"]}, {"text": "ok"}]]}}
    }
    running = before_stub(t, noisy, "--name", "loud")
    client = running.client()
    for n in range(2):
        client.call(args={"n": n}).result()
    lines = page(running, "/metrics")[1].splitlines()
    counts = [line for line in lines if line.startswith("hapax_upstream_noise_total{")]
    t.equal(counts, ['hapax_upstream_noise_total{upstream="loud"} 4'], "the metric")


@case("120_integers_of_64_bits_in_what_operators_see")
def sixty_four_bits(t, w):
    """2^64-1 and its like in ids, arguments, results and tokens: nothing of it crashes metrics or
    export, and the caller has its own digits back."""
    script = {"tools": {"echo": {"runs": [[{"echo": True}]]}}}
    running = before_stub(t, script)
    client = running.client()
    for n in (2**64 - 1, 2**63, -(2**63) - 1, 2**53 + 1, 10**30):
        call = client.post(
            {
                "jsonrpc": "2.0",
                "id": n,
                "method": "tools/call",
                "params": {"name": "echo", "arguments": {"n": n}, "_meta": {"progressToken": n}},
            }
        )
        answer = call.answer()
        t.equal((answer["id"], answer["result"]["echo"]), (n, {"n": n}), "id and arguments")
    t.equal(page(running, "/metrics")[0], 200, "metrics")
    t.equal(len(t.operations()), 5, "operations in the export")
    t.equal(running.process.poll(), None, "the gateway's exit status")


@case("145_no_secret_in_logs_and_metrics")
def no_secrets(t, w):
    """Secrets in tokens, headers of both sides, arguments, results and errors: not in the log at
    its loudest, not in metrics or lists; the files are their owner's."""
    headers = t.path("headers")
    with open(headers, "w", encoding="utf-8") as file:
        file.write(f"Authorization: Bearer {SECRET}\nX-Api-Key: {SECRET}\n")
    site = Site(t).serve()
    entry = f"  bank:\n    url: http://127.0.0.1:{site.port}/mcp\n    headers_file: {headers}\n"
    log = t.path("log")
    config = write_config(
        t,
        [entry],
        [token("one", f"hpx_{SECRET}", "ann")],
        f"log_level: debug\nlog_file: {log}\n",
    )
    running = Serve(t, [], config=config)
    client = running.client(path="/mcp/bank", token=f"hpx_{SECRET}")
    result = (
        '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"' + SECRET + '"}]}}'
    )
    error = '{"jsonrpc":"2.0","id":$ID,"error":{"code":-32000,"message":"' + SECRET + '"}}'
    replies = (
        {"json": result},
        {"json": error},
        {"status": [503, "text/plain", SECRET]},
        {"status": [401, "text/plain", SECRET, {"WWW-Authenticate": f'Bearer x="{SECRET}"'}]},
        {"json": SECRET},
        {"close": True},
    )
    for n, reply in enumerate(replies):
        client.call(
            args={"steps": [reply], "password": SECRET},
            key=f"{SECRET}-{n}",
            headers=[("X-Trace", SECRET)],
        ).answer()
    client.post(b'{"half": "' + SECRET.encode()).head()
    WebClient(running, "/mcp/bank", SECRET).request("ping").head()
    t.equal(site.posts("tools/call")[0]["headers"]["x-api-key"], SECRET, "the header does go out")
    with open(log, encoding="utf-8") as file:
        said = file.read()
    t.true(len(said) > 100, "something is logged at all")
    t.true(SECRET not in said, f"the log: {[line for line in said.splitlines() if SECRET in line]}")
    for path in ("/metrics", "/readyz"):
        t.true(SECRET not in page(running, path)[1], f"{path} holds no secret")
    status, out, _ = t.ops("list", "--ledger", t.ledger)
    t.equal(status, 0, "exit status of ops list")
    t.true(SECRET.encode() not in out, f"the list holds no secret: {out[:300]!r}")
    for path in [*t.ledger_files(), log]:
        mode = stat.S_IMODE(os.stat(path).st_mode)
        t.equal(mode & 0o077, 0, f"mode bits for others of {os.path.basename(path)}")


@case("147_each_call_under_its_principal")
def principals(t, w):
    """Who called what: every operation under the principal of its token, with tool, times and
    outcome, and as many as the server counts itself."""
    config = write_config(
        t,
        [upstream(t, "bank", {"tools": {"charge": {}, "dies": {"runs": [[{"exit": 1}]]}}})],
        [token("one", "hpx_one", "ann"), token("two", "hpx_two", "bob")],
    )
    running = Serve(t, [], config=config)
    calls = {"ann": 3, "bob": 2}
    for who, secret in (("ann", "hpx_one"), ("bob", "hpx_two")):
        client = running.client(path="/mcp/bank", token=secret)
        for n in range(calls[who]):
            client.call(args={"n": n}).result()
    assert_unknown(t, client.call("dies").result(), "the one that dies")
    found = t.operations()
    t.equal(len(found), len(t.effects()), "operations against effects")
    for who, count in calls.items():
        done = [op for op in found if op["principal"] == who and op["tool"] == "charge"]
        t.equal([op["execution"] for op in done], ["succeeded"] * count, f"outcomes of {who}")
        t.true(all(op["created"] and op["updated"] for op in done), f"times: {done}")
    dead = [op for op in found if op["tool"] == "dies"]
    t.equal(
        [(op["principal"], op["execution"]) for op in dead], [("bob", "unknown")], "the dead one"
    )


MUTE = {"initialize": [{"wait": "never"}]}
MUTE_LISTS = {"list": [{"wait": "never"}]}


@case("063_one_mute_upstream_of_three")
def one_mute(t, w):
    """The merged list without the one that says nothing, within its deadline, and a log line that
    names it; the others are called meanwhile. Once it speaks at the handshake only, once not at
    all: whoever waits for everybody would never answer."""
    for what, script in (("handshake", MUTE), ("list", MUTE_LISTS)):
        log = t.path(f"log-{what}")
        mute = upstream_of(t, "mute", script, "    start_timeout: 2s\n")
        config = write_config(
            t,
            [mute, upstream_of(t, "bank", QUICK), upstream_of(t, "mail", QUICK)],
            more=f"log_file: {log}\n",
        )
        running = Serve(t, [], config=config, ledger=t.path(f"ledger-{what}"))
        begin = t.clock()
        client = running.client()
        listed = client.request("tools/list").result()["tools"]
        t.equal(sorted(tool["name"] for tool in listed), ["bank_charge", "mail_charge"], what)
        t.true(t.clock() - begin < 12 + SOON, f"{what}: it took {t.clock() - begin:.1f} s")
        for tool in ("bank_charge", "mail_charge"):
            t.true("receipt" in str(client.call(tool, {"at": what}).result()), f"{what}: {tool}")
        with open(log, encoding="utf-8") as file:
            lines = [line for line in file if "mute" in line]
        t.true(lines, f"{what}: a line of the log names it")
        running.end()
