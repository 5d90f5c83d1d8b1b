# SPDX-License-Identifier: MIT
"""Byte fidelity (semantics §8): arguments and results pass byte for byte, live and on replay,
whatever their numbers, escapes, order and white space look like; only what the contract adds or
removes differs.
"""

from rawclient import KEY, rawjson
from .way import case

# Text inside a JSON string is given as it stands on the wire.
ODD = {
    "big_integers": rb'{"a":9007199254740993,"b":12345678901234567890,"c":123456789012345678901234567890}',
    "huge_exponents": rb'{"a":1e400,"b":-1E+400,"c":1e-400,"d":1.0e0}',
    "negative_zero": rb'{"a":-0,"b":-0.0,"c":0.0,"d":-0e1}',
    "decimals_as_written": rb'{"a":1.0,"b":1.10,"c":0.1,"d":100,"e":1E2,"f":1e+2}',
    "escapes": rb'{"a":"\/","b":"/","c":"\u0041","d":"\b\f\n\r\t\"\\","e":"\u00e9"}',
    "escaped_names": rb'{"\u0061":1,"b\/c":2,"":3}',
    "unicode": '{"a":"h\u00e9 \u20ac \U0001f600","b":"\U0001f468\u200d\U0001f469\u200d\U0001f467","\u6f22":"\u5b57"}'.encode(),
    "surrogate_pair_escaped": rb'{"a":"\ud83d\ude00","b":"\uD83D\uDE00"}',
    "separators_of_lines": '{"a":"\u2028\u2029","b":"\ufeff","c":"\u0085"}'.encode(),
    "nul_escape": rb'{"a":"\u0000","b\u0000c":1}',
    "not_normalised": '{"a":"e\u0301","b":"\u00e9","c":"\u212b"}'.encode(),
    "white_space": b'{ "a" :\t1 ,  "b":[ 1,2 ,\t3 ] , "c" : { } , "d":[ ] }',
    "member_order": rb'{"z":1,"a":2,"m":{"y":1,"b":2},"10":3,"9":4}',
    "deep": b'{"a":' + b"[" * 30 + b"1" + b"]" * 30 + b"}",
    "literals": rb'{"a":true,"b":false,"c":null,"d":[null,true]}',
    "empty": rb"{}",
    "long_string": b'{"a":"' + b"x" * 200000 + b'"}',
}
LONE = rb'{"a":"\ud800","b":"x\udfffy"}'


def exact(name, raw):
    @case(f"arguments_{name}", bare="holds", suite="bytes", prefix="bytes_")
    def arguments(t, w):
        client = w.client({"tools": {"echo": {"runs": [[{"echo": True}]]}}})
        for ident in (800, 801):
            client.send(client.call_line("echo", raw, ident, {KEY: f"key-arguments-{name}"}))
            client.result(ident)
            echoed = rawjson.find(client.answers(ident)[0].line, "result", "echo")
            t.equal(echoed, raw, f"arguments that came back, call {ident}")
        t.equal(
            t.effects()[0]["args"].encode("utf-8", "surrogatepass"), raw, "arguments at the server"
        )
        if not w.is_bare:
            t.equal(len(t.effects()), 1, "effects")

    @case(f"result_{name}", bare="holds", suite="bytes", prefix="bytes_")
    def result(t, w):
        # Three shapes: no _meta of the server's own, one with members, an empty one.
        shapes = (
            b'{"content":[],"structuredContent":%s}' % raw,
            b'{"_meta":{"x/y":%s},"content":[]}' % raw,
            b'{ "content" : [ ] , "_meta" : {} , "structuredContent":%s }' % raw,
        )
        tools = {
            f"get{n}": {"runs": [[{"result": shape.decode("utf-8", "surrogatepass")}]]}
            for n, shape in enumerate(shapes)
        }
        client = w.client({"tools": tools})
        for n, shape in enumerate(shapes):
            for when in ("live", "replayed"):
                ident = f"{when}-{n}"
                client.send(
                    client.call_line(f"get{n}", b"{}", ident, {KEY: f"key-result-{name}-{n}"})
                )
                client.result(ident)
                got = rawjson.find(client.answers(ident)[0].line, "result")
                t.true(
                    shape in stripped(got),
                    f"result {n}, {when}: got {got[:500]!r}, wanted {shape[:500]!r} and ours",
                )

    return arguments, result


def stripped(result):
    """What the server may have sent, if this is that with our member of `_meta` added."""
    candidates = {result}
    for key, key_start, start, end in rawjson.members(result):
        if key == b"_meta":
            for meta in rawjson.without(result[start:end], "dev.hapax/operation"):
                whole = result[:start] + meta + result[end:]
                candidates.add(whole)
                if not rawjson.members(meta):
                    candidates |= rawjson.without(whole, "_meta")
    return candidates


for _name, _raw in ODD.items():
    exact(_name, _raw)


@case("lone_surrogates_in_a_result", bare="holds", suite="bytes", prefix="bytes_")
def lone_in_result(t, w):
    """Lone surrogate escapes are legal JSON text that JavaScript peers send: a result with them
    passes.
    """
    shape = b'{"content":[],"structuredContent":' + LONE + b"}"
    client = w.client({"tools": {"get": {"runs": [[{"result": shape.decode()}]]}}})
    for ident in (800, 801):
        client.send(client.call_line("get", b"{}", ident, {KEY: "key-lone"}))
        client.result(ident)
        t.true(
            shape in stripped(rawjson.find(client.answers(ident)[0].line, "result")),
            "the same bytes",
        )


@case("lone_surrogates_of_a_read_only_tool", bare="holds", suite="bytes", prefix="bytes_")
def lone_unguarded(t, w):
    client = w.client(
        {
            "tools": {
                "look": {
                    "listing": {"annotations": {"readOnlyHint": True}},
                    "runs": [[{"echo": True}]],
                }
            }
        }
    )
    client.result(client.request("tools/list"))
    client.send(client.call_line("look", LONE, 800))
    client.result(800)
    t.equal(t.effects()[0]["args"].encode(), LONE, "arguments at the server")


@case("what_has_no_canonical_form_is_refused", suite="bytes", prefix="bytes_")
def refused(t, w):
    """Lone surrogates and duplicate names in guarded arguments: refused, nothing runs."""
    client = w.client({"tools": {"charge": {}}})
    for ident, raw in enumerate((LONE, rb'{"a":1,"a":2}', rb'{"a":{"b":1,"\u0062":2}}'), 800):
        client.send(client.call_line("charge", raw, ident), odd=True)
        t.equal(client.error(ident)["code"], -32602, f"error code for {raw}")
    client.send(
        b'{"jsonrpc":"2.0","id":810,"method":"tools/call","params":{"name":"charge","arguments":{"a":"\xc3("}}}',
        odd=True,
    )
    t.equal(client.error(810)["code"], -32700, "an error for invalid UTF-8, to its caller")
    client.result(client.request("ping", ident=820))
    t.equal(t.effects(), [], "effects")


@case("replay_equals_first_answer", suite="bytes", prefix="field_025_")
def replay_equals(t, w):
    """Field case 25: the replay is the first answer, byte for byte, the id and our member apart."""
    client = w.client({"tools": {"build": {"runs": [[{"text": "wall \u00e9 $RECEIPT"}]]}}})
    results = []
    for ident in (800, 801, 802):
        client.send(client.call_line("build", b'{"n":1}', ident, {KEY: "key-field-25"}))
        client.result(ident)
        results.append(stripped(rawjson.find(client.answers(ident)[0].line, "result")))
    t.true(results[0] & results[1] & results[2], f"results differ: {results}")
    t.equal(len(t.effects()), 1, "effects")
