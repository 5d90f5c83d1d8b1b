# SPDX-License-Identifier: MIT
"""Field cases, groups H and I: framing, and the fidelity of everything that passes."""

import base64
import json
import threading

from rawclient import RawClient, rawjson
from .way import assert_unknown, case, code, without_ours

KEY = "0190a0a0-0000-7000-8000-0000000004"


@case("102_noise_between_frames", bare="breaks")
def noise(t, w):
    """Banner, blank line, colour codes before and between frames: every frame arrives, no noise
    does.
    """
    noise_lines = ["Server v1.2 started", "", "   ", "\x1b[32mready\x1b[0m", "[info] {not json}"]
    client = w.client(
        {
            "start": [{"noise": noise_lines}],
            "tools": {
                "charge": {
                    "runs": [[{"noise": noise_lines}, {"text": "one"}, {"noise": noise_lines}]]
                }
            },
        }
    )
    for n in range(3):
        t.equal(
            client.result(client.call(args={"n": n}))["content"][0]["text"], "one", f"answer {n}"
        )
    for message in client.messages:
        t.true(isinstance(message.json, dict), f"only messages reach the client, not {message}")
    t.equal(len(t.lines("starts")), 1, "starts of the server")
    with open(client.stderr_path, encoding="utf-8") as file:
        said = file.read()
    t.true("e2e" in said, f"the log names the server that makes noise: {said[-300:]!r}")


@case("103_lines_that_look_like_json", bare="breaks")
def look_like_json(t, w):
    """`{not json`, `[1,2]`, `{"a":1}`: dropped, the connection stays."""
    client = w.client(
        {
            "tools": {
                "charge": {
                    "runs": [
                        [
                            {"raw": "{not json\n"},
                            {"raw": "[1,2]\n"},
                            {"raw": '{"a":1}\n'},
                            {"raw": "null\n"},
                            {"raw": '"$ID"\n'},
                            {"raw": '{"jsonrpc":"2.0","id":424242,"result":{}}\n'},
                            {"raw": '{"jsonrpc":"2.0","id":null,"result":{}}\n'},
                            {"raw": '{"jsonrpc":"2.0","id":"$ID","result":{"content":[]}}\n'},
                            {"text": "real"},
                        ]
                    ]
                }
            }
        }
    )
    ident = client.call()
    t.equal(client.result(ident)["content"][0]["text"], "real", "answer")
    client.result(client.request("ping"))
    t.equal(len(client.answers(ident)), 1, "answers to the call")
    for message in client.messages:
        t.true(
            message.get("jsonrpc") == "2.0" and message.get("id") != 424242,
            f"only messages, not {message}",
        )


@case("104_noise_is_logged")
def noise_logged(t, w):
    """The log names the server and shows the line, so that somebody can find it."""
    client = w.client({"start": [{"noise": ["debug: cache warm"]}]})
    client.result(client.call())

    def said():
        with open(client.stderr_path, encoding="utf-8") as file:
            text = file.read()
        return "e2e" in text and "cache warm" in text

    t.wait(said, "the noise in the log, with the server's name")


@case("105_long_reply_lines", bare="holds")
def long_lines(t, w):
    """Replies of 65,535, 65,536 and 65,537 bytes and of 1 MiB: whole."""
    sizes = [65535, 65536, 65537, 1 << 20]
    client = w.client({"tools": {f"line{size}": {"runs": [[{"line": size}]]} for size in sizes}})
    for size in sizes:
        text = client.result(client.call(f"line{size}"))["content"][0]["text"]
        t.true(
            size - 200 < len(text) < size and set(text) == {"x"},
            f"text of a {size} byte line: {len(text)} bytes",
        )


@case("106_three_long_lines_at_once", bare="holds")
def three_long(t, w):
    client = w.client({"tools": {"line": {"runs": [[{"wait": "release"}, {"line": 1 << 20}]]}}})
    refs = [client.call("line", {"n": n}) for n in range(3)]
    t.wait_effects(3)
    t.touch("release")
    lengths = [len(client.result(ref)["content"][0]["text"]) for ref in refs]
    t.true(min(lengths) > (1 << 20) - 200, f"lengths: {lengths}")


@case("hundred_megabytes_on_one_line", prefix="more_", suite="more")
def hundred_megabytes(t, w):
    """A line of 100 MB is beyond result_max: it happened, its result is not kept; the neighbours
    are unharmed.
    """
    client = w.client({"tools": {"dump": {"runs": [[{"big": 100_000_000}]]}}})
    result = client.result(client.call("dump"), 120)
    t.true(
        code(result) == "RESULT_UNAVAILABLE" or len(result["content"][0]["text"]) == 100_000_000,
        f"whole or plainly refused: {str(result)[:300]}",
    )
    client.result(client.call("other"))
    t.equal(len(t.lines("starts")), 1, "starts of the server")


@case("108_slow_reader", bare="holds")
def slow_reader(t, w):
    """The client drains slowly while 300 KB wait for it: every byte arrives."""
    client = w.client({"tools": {"big": {"runs": [[{"big": 300000}]]}}})
    client.chunk_max = 1000
    client.pause()
    refs = [client.call("big", {"n": n}) for n in range(3)]
    t.wait_effects(3)
    client.pause(False)
    t.equal([len(client.result(ref)["content"][0]["text"]) for ref in refs], [300000] * 3, "bytes")


@case("110_content_length_framing")
def content_length(t, w):
    """A server, then a client, that speaks Content-Length headers: a clear end, no hang."""
    client = w.client(
        {
            "tools": {
                "charge": {
                    "runs": [[{"raw": "Content-Length: 40\r\n\r\n"}, {"text": "after the header"}]]
                }
            }
        }
    )
    t.equal(
        client.result(client.call())["content"][0]["text"],
        "after the header",
        "answer after the noise",
    )
    other = RawClient(t, client.argv)
    body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    other.send_bytes(b"Content-Length: %d\r\n\r\n" % len(body) + body + b"\n")
    other.wait_message(
        lambda one: one.get("error") and one.json["error"]["code"] == -32700, "a parse error"
    )


@case("117_big_integers_in_results", bare="holds")
def big_integers(t, w):
    """9007199254740993 in text, structured content and _meta: the same digits, live and replayed."""
    raw = (
        '{"content":[{"type":"text","text":"9007199254740993"}],"structuredContent":{"id":9007199254740993},'
        '"_meta":{"example.com/n":9007199254740993}}'
    )
    client = w.client({"tools": {"get": {"runs": [[{"result": raw}]]}}})
    lines = []
    for _ in range(2):
        ident = client.call("get", key=KEY + "17")
        client.result(ident)
        lines.append(client.answers(ident)[0].line)
    for line in lines:
        t.equal(line.count(b"9007199254740993"), 3, f"times that the number is in {line}")


@case("119_big_integers_in_arguments", bare="holds")
def big_arguments(t, w):
    """The number tokens of the client reach the server unchanged."""
    client = w.client({"tools": {"echo": {"runs": [[{"echo": True}]]}}})
    raw = b'{"id":9007199254740993,"f":1.10,"e":1E+2,"z":-0,"u":18446744073709551616}'
    client.send(client.call_line("echo", raw, 900))
    client.result(900)
    t.equal(t.effects()[0]["args"].encode(), raw, "arguments as the server saw them")


@case("120_integers_of_64_bits", bare="holds")
def sixty_four_bits(t, w):
    """2^64-1 and its neighbours: in and out, in the ledger's export and in the list, no crash."""
    raw = '{"content":[],"structuredContent":{"n":18446744073709551615,"m":-9223372036854775809}}'
    client = w.client({"tools": {"get": {"runs": [[{"result": raw}]]}}})
    client.send(client.call_line("get", b'{"n":18446744073709551615}', 900))
    client.result(900)
    line = client.answers(900)[0].line
    t.true(b"18446744073709551615" in line and b"-9223372036854775809" in line, f"digits in {line}")
    t.true("18446744073709551615" in t.effects()[0]["args"], "digits at the server")
    if not w.is_bare:
        t.equal(len(t.operations()), 1, "operations in the export")
        status, out, _ = t.ops("list", "--ledger", t.ledger, "--json")
        t.equal(status, 0, f"exit status of ops list: {out[:200]!r}")


@case("121_ids_that_differ_beyond_2_53")
def differ_by_one(t, w):
    """Same key, ids that a double cannot tell apart: a conflict, not a replay. Without a key: two
    operations.
    """
    client = w.client({"tools": {"delete": {}}})
    meta = {"dev.hapax/idempotencyKey": KEY + "21"}
    client.send(client.call_line("delete", b'{"id":9007199254740993}', 900, meta))
    client.result(900)
    client.send(client.call_line("delete", b'{"id":9007199254740992}', 901, meta))
    t.equal(
        client.error(901)["data"]["type"],
        "idempotency_key_conflict",
        "the second id under the same key",
    )
    client.send(client.call_line("delete", b'{"id":9007199254740993.0}', 902, meta))
    client.result(902)
    t.equal(len(t.effects()), 1, "effects: the same number written otherwise is the same call")


@case("123_multibyte_characters_byte_by_byte", bare="holds")
def byte_by_byte(t, w):
    """A reply written one byte at a time, with characters of two, three and four bytes: exact."""
    text = "h\u00e9 \u20ac \U0001f600 \u6f22\u5b57"
    raw = json.dumps({"content": [{"type": "text", "text": text}]}, ensure_ascii=False)
    client = w.client({"tools": {"say": {"runs": [[{"trickle": raw}]]}}})
    t.equal(client.result(client.call("say"))["content"][0]["text"], text, "text")


@case("124_invalid_utf8_reply")
def invalid_utf8(t, w):
    """Raw 0xC7 0xD1 in a reply: the caller is told at once, nothing invalid is forwarded, others
    are served.
    """
    head = (
        b'{"jsonrpc":"2.0","id":'.hex()
        + "$ID"
        + b',"result":{"content":[{"type":"text","text":"'.hex()
    )
    client = w.client({"tools": {"bad": {"runs": [[{"hex": head + "c7d1" + b'"}]}}\n'.hex()}]]}}})
    answer = client.answer(client.call("bad", key=KEY + "24"))
    answer.line.decode("utf-8")
    assert_unknown(t, answer.json["result"], "answer")
    client.result(client.call("good"))
    t.equal(len(t.effects("bad")), 1, "effects")
    assert_unknown(t, client.result(client.call("bad", key=KEY + "24")), "answer to a repeat")
    for line in t.operations():
        json.dumps(line).encode("utf-8")


@case("124_truncated_reply")
def truncated(t, w):
    """Half a reply, then the end: unknown, never a success."""
    client = w.client({"tools": {"bad": {"runs": [[{"half": 50}, {"exit": 0}]]}}})
    assert_unknown(t, client.result(client.call("bad")), "answer")
    t.equal(len(t.effects()), 1, "effects")


@case("125_ids_of_every_kind", bare="holds")
def ids(t, w):
    """Ids come back with their type and value; two hundred digits or one."""
    client = w.client()
    for ident in (
        "abc",
        "1",
        1,
        0,
        -1,
        9007199254740993,
        "x" * 1024,
        "",
        "\u00e9\U0001f600",
        'a"b\\c\n',
    ):
        t.equal(
            client.result(client.call(args={"id": str(ident)}, ident=ident)).get("isError", False),
            False,
            f"result for id {str(ident)[:20]!r}",
        )
        t.equal(len(client.answers(ident)), 1, f"answers to id {str(ident)[:20]!r}")


@case("125_null_id_is_refused")
def null_id(t, w):
    client = w.client()
    client.send(
        {
            "jsonrpc": "2.0",
            "id": None,
            "method": "tools/call",
            "params": {"name": "charge", "arguments": {}},
        },
        odd=True,
    )
    client.wait_message(
        lambda one: one.get("error") and one.json["error"]["code"] == -32600,
        "an invalid request error",
    )
    t.equal(t.effects(), [], "effects")


@case("126_string_and_number_ids_are_two", bare="holds")
def two_ids(t, w):
    client = w.client({"tools": {"echo": {"runs": [[{"echo": True}]]}}})
    client.call("echo", {"n": 1}, ident=500)
    client.call("echo", {"n": 2}, ident="500")
    t.equal(client.result(500)["echo"], {"n": 1}, "answer to 500")
    t.equal(client.result("500")["echo"], {"n": 2}, 'answer to "500"')


@case("128_same_id_for_everything")
def same_id(t, w):
    """A client that numbers everything 1, one after the other: each answer is that of its own
    call.
    """
    client = w.client({"tools": {"echo": {"runs": [[{"echo": True}]]}}})
    for n in range(50):
        before = len(client.answers(1))
        client.call("echo", {"n": n}, ident=1)
        t.wait(lambda: len(client.answers(1)) > before, "an answer")
        t.equal(client.answers(1)[-1].json["result"]["echo"], {"n": n}, f"answer {n}")
    t.equal(len(t.effects()), 50, "effects")


@case("129_two_clients_same_ids", bare="holds")
def two_clients(t, w):
    """Two clients that both start at id 0: each gets its own answers."""
    script = {"tools": {"echo": {"runs": [[{"echo": True}]]}}}
    clients = [w.client(script) for _ in range(2)]
    for n in range(20):
        for who, client in enumerate(clients):
            client.call("echo", {"who": who, "n": n}, ident=1000 + n)
    for who, client in enumerate(clients):
        for n in range(20):
            t.equal(client.result(1000 + n)["echo"], {"who": who, "n": n}, "answer")


RICH = {
    "content": [
        {"type": "text", "text": "no", "annotations": {"audience": ["user"]}, "vendor": 1},
        {"type": "image", "data": base64.b64encode(b"png").decode(), "mimeType": "image/png"},
        {"type": "audio", "data": base64.b64encode(b"wav").decode(), "mimeType": "audio/wav"},
    ],
    "isError": True,
    "structuredContent": {"a": [1, None, {"b": 2}]},
    "vendorExtra": {"x": [True]},
    "_meta": {"example.com/m": 1},
}


@case("130_everything_in_a_result_passes", bare="holds")
def rich_result(t, w):
    """Error flag, unknown fields, _meta, structured content, image, audio: all there, live and on
    replay.
    """
    client = w.client({"tools": {"rich": {"runs": [[{"result": json.dumps(RICH)}]]}}})
    for when in ("live", "replayed"):
        t.equal(
            without_ours(client.result(client.call("rich", key=KEY + "30"))),
            RICH,
            f"result, {when}",
        )
    if not w.is_bare:
        t.equal(len(t.effects()), 1, "effects")


@case("131_metadata_of_the_request_passes", bare="holds")
def request_meta(t, w):
    client = w.client()
    client.result(client.call(meta={"example.com/trace": {"a": 1}, "traceparent": "00-x"}))
    meta = t.effects()[0]["meta"] or {}
    t.equal(
        {name: meta.get(name) for name in ("example.com/trace", "traceparent")},
        {"example.com/trace": {"a": 1}, "traceparent": "00-x"},
        "_meta at the server",
    )


LISTING = {
    "title": "T",
    "description": "d",
    "inputSchema": {"type": "object", "x": 1.0},
    "outputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": False, "title": "t"},
    "icons": [{"src": "data:,"}],
    "_meta": {"a": 1},
    "vendor": [1],
}


@case("132_tool_listing_unchanged", bare="holds")
def listing(t, w):
    client = w.client({"tools": {"a": {"listing": LISTING}, "b": {}}})
    tools = client.result(client.request("tools/list"))["tools"]
    t.equal(
        [tool for tool in tools if tool["name"] == "a"], [{"name": "a", **LISTING}], "listing of a"
    )
    t.equal([tool["name"] for tool in tools], ["a", "b"], "names")


@case("133_annotations_unchanged", bare="holds")
def annotations(t, w):
    hints = {
        "readOnlyHint": True,
        "destructiveHint": False,
        "idempotentHint": True,
        "openWorldHint": False,
        "x": 1,
    }
    client = w.client({"tools": {"a": {"listing": {"annotations": hints}}}})
    (tool,) = client.result(client.request("tools/list"))["tools"]
    t.equal(tool["annotations"], hints, "annotations")


@case("134_handshake_unchanged", bare="holds")
def handshake(t, w):
    """Instructions, version, icons, capabilities and unknown fields of the handshake pass; for
    every revision.
    """
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"):
        hello = {
            "protocolVersion": version,
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {
                "name": "s",
                "version": "9.9.9",
                "title": "S",
                "icons": [{"src": "data:,"}],
            },
            "instructions": "read me",
            "vendor": {"a": 1},
        }
        client = RawClient(t, w.argv({"result": json.dumps(hello)}), name=f"v{version}")
        got = without_ours(client.initialize(version))
        extra = set(got.get("capabilities", {})) - set(hello["capabilities"])
        for name in extra & {
            "experimental",
            "extensions",
        }:  # Hapax may announce its own extension here
            del got["capabilities"][name]
        t.equal(got, hello, f"handshake of {version}")


@case("135_our_errors_carry_the_callers_id")
def errors_carry_ids(t, w):
    """Each error that Hapax makes has the caller's own id, of its own type."""
    client = w.client(
        {"tools": {"dies": {"runs": [[{"exit": 1}]]}, "mute": {"runs": [[{"wait": "never"}]]}}},
        "--tool",
        "mute: timeout=500ms",
        "--tool",
        "keyed: repeat=require_key",
    )
    client.result(client.call("charge", {"n": 1}, key=KEY + "35", ident="first"))
    client.error(client.call("charge", {"n": 2}, key=KEY + "35", ident="conflict"))
    client.error(client.call("charge", key="null", ident="invalid"))
    client.error(client.call("keyed", ident="required"))
    client.result(client.call("mute", ident="timeout"))
    client.result(client.call("dies", ident="unknown"))
    client.error(client.request("no/such/method", ident="method"))
    for message in client.messages:
        if "method" not in (message.json or {}):
            t.true(message.get("id") is not None, f"an answer without id: {message}")


@case("batch_of_2025_03_26", prefix="more_", suite="more")
def batch(t, w):
    """A batch of the one revision that has them: one answer per request, one effect per call."""
    client = w.client({"tools": {"charge": {}}}, version="2025-03-26")
    calls = [
        {
            "jsonrpc": "2.0",
            "id": 700 + n,
            "method": "tools/call",
            "params": {"name": "charge", "arguments": {"n": n}},
        }
        for n in range(3)
    ]
    client.send([*calls, {"jsonrpc": "2.0", "id": 710, "method": "ping"}])

    def answered():
        found = [
            one
            for message in list(client.messages)
            for one in (message.json if isinstance(message.json, list) else [message.json])
            if isinstance(one, dict) and one.get("id") in (700, 701, 702, 710)
        ]
        return sorted(one["id"] for one in found) == [700, 701, 702, 710]

    t.wait(answered, "one answer for each of the batch")
    t.equal(len(t.effects()), 3, "effects")


@case("batch_elsewhere_is_refused", prefix="more_", suite="more")
def no_batch(t, w):
    client = w.client({"tools": {"charge": {}}}, version="2025-11-25")
    client.send(
        json.dumps(
            [
                {
                    "jsonrpc": "2.0",
                    "id": 1,
                    "method": "tools/call",
                    "params": {"name": "charge", "arguments": {}},
                }
            ]
        ).encode(),
        odd=True,
    )
    client.wait_message(
        lambda one: one.get("error") and one.json["error"]["code"] == -32600,
        "an invalid request error",
    )
    client.result(client.request("ping", ident="after"))
    t.equal(t.effects(), [], "effects")


@case("requests_of_the_server_reach_the_caller", prefix="more_", suite="more", bare="holds")
def server_requests(t, w):
    """A question of the server in a call goes to the client, the answer to the server, ids mapped
    both ways.
    """
    ask = {
        "method": "elicitation/create",
        "params": {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}},
    }
    client = w.client(
        {"tools": {"charge": {"runs": [[{"ask": ask}, {"text": "asked"}]]}}},
        capabilities={"elicitation": {}},
    )
    ident = client.call()
    question = client.wait_message(
        lambda one: one.get("method") == "elicitation/create", "the question"
    )
    t.equal(without_ours(question.json["params"])["message"], "sure?", "question")
    client.send(
        {"jsonrpc": "2.0", "id": question.json["id"], "result": {"action": "accept", "content": {}}}
    )
    t.equal(client.result(ident)["content"][0]["text"], "asked", "answer")
    t.equal(
        json.loads(t.lines("answers")[0])["id"],
        "stub-1",
        "the id that the server gave its question",
    )


@case("unknown_methods_pass", prefix="more_", suite="more", bare="holds")
def unknown_methods(t, w):
    """A vendor method and its error, byte for byte."""
    client = w.client(
        {
            "methods": {
                "vendor/thing": [{"result": '{"n":1.0,"s":"\\u0041"}'}],
                "vendor/fails": [{"error": '{"code":-31999,"message":"m","data":{"d":1e400}}'}],
            }
        }
    )
    ident = client.request("vendor/thing", {"x": 1})
    client.result(ident)
    t.equal(
        rawjson.find(client.answers(ident)[0].line, "result"), b'{"n":1.0,"s":"\\u0041"}', "result"
    )
    ident = client.request("vendor/fails")
    client.error(ident)
    t.equal(
        rawjson.find(client.answers(ident)[0].line, "error"),
        b'{"code":-31999,"message":"m","data":{"d":1e400}}',
        "error",
    )


@case("duplicate_and_late_answers", prefix="more_", suite="more")
def duplicate_answers(t, w):
    """A server that answers twice, and one that answers another's id: the client sees one answer
    per request.
    """
    client = w.client(
        {
            "tools": {
                "twice": {
                    "runs": [
                        [
                            {"text": "one"},
                            {"raw": '{"jsonrpc":"2.0","id":$ID,"result":{"content":[]}}\n'},
                        ]
                    ]
                }
            }
        }
    )
    ident = client.call("twice")
    t.equal(client.result(ident)["content"][0]["text"], "one", "the first answer counts")
    client.result(client.request("ping"))
    client.result(client.call("other"))
    t.equal(len(client.answers(ident)), 1, "answers")


@case("server_that_writes_before_it_reads", prefix="more_", suite="more", bare="holds")
def writes_first(t, w):
    """A server that sends 200 KB of notifications before it reads anything: no deadlock."""
    note = (
        '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"'
        + "x" * 1000
        + '"}}\n'
    )
    client = w.client(
        {"start": [{"raw": note}] * 200, "capabilities": {"tools": {}, "logging": {}}}
    )
    client.result(client.call())


@case("server_that_reads_nothing_for_a_while", prefix="more_", suite="more", bare="holds")
def reads_late(t, w):
    """A server stops reading while 400 KB are sent to it: when it reads again, all is answered."""
    client = w.client(
        {
            "tools": {
                "stop": {"runs": [[{"stop_reading": "read"}, {"text": "stopped"}]]},
                "charge": {},
            }
        }
    )
    client.result(client.call("stop"))
    refs = []
    sender = threading.Thread(
        target=lambda: refs.extend(
            client.call("charge", {"n": n, "pad": "x" * 4000}) for n in range(100)
        ),
        daemon=True,
    )
    sender.start()
    t.wait(lambda: client.ids >= 10, "some calls to be under way")
    t.touch("read")
    sender.join(30)
    for ref in refs:
        t.true(not client.result(ref, 40).get("isError"), "a real result")
    t.equal(len(t.effects("charge")), 100, "effects")
