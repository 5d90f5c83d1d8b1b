# SPDX-License-Identifier: MIT
"""Servers that speak the transport of 2024-11-05 (HTTP+SSE) behind Hapax: those of the official SDKs,
in the suite sdkhttp, and the stub, in the suite http. Names sse_…, and field cases by their number.
"""

import json
import signal

from kit.harness import test
from rawclient import RawClient
from webclient import Serve
from .http_upstream import Site
from .sdk_http import WebServer, programs
from .way import assert_unknown

SDKS = ("py129", "py23", "ts130", "ts132")
KEY = "018f6f2e-7c1a-7000-8000-0000000086"
SLOW = {"slow": True}


def of_each(title, prefix="sse_", fields=()):
    """One test for the server of each SDK that still speaks it."""

    def register(run):
        for sdk in SDKS:
            name = f"{prefix}{title}_{sdk}"

            def through(t, sdk=sdk):
                _, server = programs(t, sdk)
                t.is_traffic_judged = False  # what the client saw is of stdio; the server's is not
                run(t, WebServer(t, [*server, "sse"]))

            test("sdkhttp", name, needs_hapax=True, fields=fields)(through)
        return run

    return register


def run_url(t, server, *options):
    argv = t.hapax_argv([f"http://127.0.0.1:{server.port}/sse"], "--transport", "sse", *options)
    client = RawClient(t, argv)
    client.initialize()
    return client


@of_each("086_handshake_after_an_sse_reconnect", prefix="field_")
def reconnect(t, server):
    """The server is killed in a call and started again: that call is unknown, and never made again;
    the next one finds a new stream and a new handshake, and works."""
    client = run_url(t, server)
    t.true("receipt" in str(client.result(client.call("charge", {"amount": 1}))), "before")
    lost = client.call("charge", {"amount": 2, **SLOW})
    t.wait_effects(2)
    server.kill()
    assert_unknown(t, client.result(lost), "the call that was cut")
    server.start()
    t.true("receipt" in str(client.result(client.call("charge", {"amount": 3}))), "after")
    assert_unknown(t, client.result(client.call("charge", {"amount": 2, **SLOW})), "its repeat")
    t.equal([one["args"]["amount"] for one in t.effects()], [1, 2, 3], "effects")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@of_each("timeout_cancel_retry")
def timeout_cancel_retry(t, server):
    """The retry of a call that its client gave up joins it."""
    client = run_url(t, server)
    first = client.call("charge", SLOW)
    t.wait_effects(1)
    client.cancel(first, "McpError: MCP error -32001: Request timed out")
    second = client.call("charge", SLOW)
    t.wait_repeats(1)
    t.touch("release")
    t.true("receipt" in str(client.result(second)), "the real result")
    t.equal(len(t.effects()), 1, "effects")
    t.equal(client.answers(first), [], "the cancelled one is not answered")


@of_each("behind_serve")
def behind_serve(t, server):
    """The file of an editor names it by its type; two clients, SIGKILL of Hapax in a call."""
    path = t.path("mcp.json")
    url = f"http://127.0.0.1:{server.port}/sse"
    with open(path, "w", encoding="utf-8") as file:
        json.dump({"mcpServers": {"shop": {"type": "sse", "url": url}}}, file)
    running = Serve(t, [], "--ledger", t.ledger, config=path)
    one, other = (running.client(path="/mcp/shop") for _ in range(2))
    results = [client.call(args={"amount": 1}, key=KEY + "01").result() for client in (one, other)]
    t.equal(results[0]["content"], results[1]["content"], "one outcome for both")
    t.equal(len(t.effects()), 1, "effects")
    cut = one.call(args=SLOW, key=KEY + "02")
    t.wait_effects(2)
    running.kill()
    cut.close()
    running.start()
    assert_unknown(t, one.call(args=SLOW, key=KEY + "02").result(), "the call that was cut")
    t.equal(len(t.effects()), 2, "effects")


@test("http", "sse_nothing_is_sent_twice", needs_hapax=True)
def nothing_twice(t):
    """What the POST says, and that it says nothing, makes no call run twice: refused is told as not
    run, a lost acceptance waits for the stream's word."""
    site = Site(t).serve({"apart": "/message?s=$SESSION"})
    client = run_url(t, site)
    answer = '{"jsonrpc":"2.0","id":$ID,"result":{"content":[{"type":"text","text":"receipt"}]}}'
    late = client.call("pay", {"post": [{"close": True}], "steps": []})
    assert_unknown(t, client.result(late), "no acceptance and no answer")
    told = client.call("pay", {"post": [{"status": [502]}], "steps": [{"message": answer}]})
    t.true("receipt" in str(client.result(told)), "the stream's word counts")
    refused = client.error(client.call("pay", {"post": [{"status": [401]}]}))
    t.true("401" in json.dumps(refused), f"refused: {refused}")
    t.equal(site.effects(), 3, "POSTs of calls")
    t.equal(len(site.posts("initialize")), 1, "handshakes")


@test("http", "sse_server_is_away", needs_hapax=True)
def away(t):
    """Nobody there, then a server of the other transport: told at once, nothing is sent."""
    site = Site(t).serve({"apart": "/message?s=$SESSION"})
    client = run_url(t, site)
    port = site.port
    t.true("receipt" in str(client.result(client.call("pay", {"n": 1}))), "a call")
    site.process.send_signal(signal.SIGKILL)
    site.end()
    error = client.error(client.call("pay", {"n": 2}))
    t.equal(error["code"], 1502, f"told {error}")
    site.serve({"apart": "/message?s=$SESSION"}, port=port)
    t.true("receipt" in str(client.result(client.call("pay", {"n": 3}))), "it is back")
    t.equal(site.effects(), 2, "effects")
