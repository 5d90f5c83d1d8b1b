#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Our reader of HTTP requests against two that others wrote: llhttp (inside Node) and h11 (Python).

    http_differs.py ORACLE CORPUS [--site-packages DIR] [--inputs N] [--seed N]

The corpus and mutations of it go to all of them. What we accept, each of the others must refuse or
read the same: method, target, version, headers, body, and where the message ends. What we wait for
more of, none may take for whole. What we refuse and another accepts is counted by reason and told:
that is the strictness, and no fault. A parser that is not installed is skipped. Repeatable: the seed
is fixed. The last line is `N passed, N failed[, N skipped]`.
"""
import argparse
import collections
import glob
import json
import os
import random
import shutil
import struct
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHOWN_MAX = 5

LINES = [
    b"Content-Length: 5", b"Content-Length: 0", b"content-length:5", b"Content-Length: 05", b"Content-Length: +5",
    b"Content-Length: 5,5", b"Transfer-Encoding: chunked", b"transfer-encoding:chunked",
    b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity", b"Transfer-Encoding : chunked",
    b"Connection: close", b"Connection: keep-alive", b"Connection: upgrade", b"Upgrade: websocket", b"Host: other",
    b"Expect: 100-continue", b"X: \xe9\xff", b"X:", b"X: a\tb", b" folded", b"X-Long: " + b"y" * 300, b"A: 1",
    b"Accept: application/json, text/event-stream", b"Origin: http://localhost:1", b"X: \"a\\\"b\"",
]
STARTS = [b"POST /mcp HTTP/1.1", b"GET / HTTP/1.1", b"DELETE /mcp?a=b%20c HTTP/1.1", b"POST /mcp HTTP/1.0",
          b"OPTIONS * HTTP/1.1", b"PUT //a/../b HTTP/1.1", b"GET /a|b{c}[d]^`?x=| HTTP/1.1", b"GET http://h/ HTTP/1.1",
          b"CONNECT h:1 HTTP/1.1", b"GET /  HTTP/1.1", b"GET / HTTP/1.2", b"PATCH /x;y=1,2 HTTP/1.1"]
BODIES = [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"3;a=b\r\nhel\r\n2\r\nlo\r\n0\r\nT: x\r\n\r\n", b"0\r\n\r\n",
          b"00005\r\nhello\r\n000\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n",
          b"5\r\nhello0\r\n\r\n", b"5;\r\nhello\r\n0\r\n\r\n", b"hellohello"]
BYTES = [b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b";", b",", b"\x0b", b"\x7f", b"\x80", b"0", b"a", b"-"]


def generate(rng):
    lines = [rng.choice(STARTS)]
    if rng.random() < 0.95:
        lines.append(b"Host: h")
    lines += rng.sample(LINES, rng.choice((0, 0, 1, 1, 2, 3)))
    if rng.random() < 0.5:
        lines.append(rng.choice(LINES[:3] + LINES[6:8]))
    return b"\r\n".join(lines) + b"\r\n\r\n" + rng.choice(BODIES) + rng.choice((b"", b"", b"GET /next HTTP/1.1\r\n"))


def mutate(rng, data):
    for _ in range(rng.choice((1, 1, 2, 3))):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            data = data[:at] + rng.choice(BYTES) + data[at:]
        elif kind == 1:
            data = data[:at] + data[at + rng.choice((1, 1, 2, 5)):]
        elif kind == 2:
            data = data[:at] + rng.choice(BYTES) + data[at + 1:]
        else:
            data = data[:at] + data[max(0, at - rng.randrange(20)):]
    return data


def make_inputs(rng, corpus, count):
    inputs = []
    for name in sorted(os.listdir(corpus)):
        with open(os.path.join(corpus, name), "rb") as file:
            inputs.append(file.read())
    seeds = list(inputs)
    while len(inputs) < count:
        data = generate(rng) if rng.random() < 0.8 else rng.choice(seeds)
        inputs.append(data if rng.random() < 0.4 else mutate(rng, data))
    return [data for data in inputs if data]


def field(text):
    return b"" if text == "-" else bytes.fromhex(text)


def ask(oracle, inputs):
    """For each input ("ok", used, what was read) or ("more",) or ("bad", reason)."""
    packed = b"".join(struct.pack(">I", len(data)) + data for data in inputs)
    run = subprocess.run([oracle], input=packed, capture_output=True, check=True)
    verdicts = []
    for line in run.stdout.decode().splitlines():
        words = line.split(" ")
        if words[0] == "ok":
            fields = [field(word) for word in words[3:]]
            pairs = list(zip(fields[3::2], fields[4::2]))
            verdicts.append(("ok", int(words[1]), (fields[0], fields[1], int(words[2]), pairs, fields[2])))
        else:
            verdicts.append((words[0], " ".join(words[2:])))
    assert len(verdicts) == len(inputs), (len(verdicts), len(inputs))
    return verdicts


def ask_llhttp(inputs, verdicts):
    cases = [[data.hex(), ours[1] if ours[0] == "ok" else 0] for data, ours in zip(inputs, verdicts)]
    run = subprocess.run(["node", "--no-deprecation", os.path.join(HERE, "http_llhttp.js")],
                         input=json.dumps(cases).encode(), capture_output=True, check=True)
    for message in json.loads(run.stdout):
        if not message["isDone"]:
            yield ("bad",) if message["error"] else ("more",)
            continue
        texts = [bytes.fromhex(text) for text in message["headers"]]
        is_end = message.get("isDoneAt", True) and not message.get("isDoneBefore", False)
        yield ("ok", is_end, (message["method"].encode(), bytes.fromhex(message["target"]), message["version"][1],
                              list(zip(texts[::2], texts[1::2])), bytes.fromhex(message["body"])))


def ask_h11(inputs, verdicts):
    import h11  # pylint: disable=import-outside-toplevel

    def read(data):
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        request, body = None, b""
        try:
            connection.receive_data(data)
            while True:
                event = connection.next_event()
                if isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                elif isinstance(event, h11.EndOfMessage):
                    minor = int(request.http_version.split(b".")[1])
                    return ("ok", True, (request.method, request.target, minor,
                                         [(bytes(n), bytes(v)) for n, v in request.headers.raw_items()], body))
                else:
                    return ("more",)
        except h11.RemoteProtocolError:
            return ("bad",)

    for data, ours in zip(inputs, verdicts):
        theirs = read(data)
        if theirs[0] == "ok" and ours[0] == "ok":
            is_end = read(data[:ours[1]])[0] == "ok" and read(data[:ours[1] - 1])[0] != "ok"
            theirs = ("ok", is_end, theirs[2])
        yield theirs


def compare(name, inputs, verdicts, answers):
    differences, agreed, stricter, wider = [], 0, collections.Counter(), 0
    for data, ours, theirs in zip(inputs, verdicts, answers):
        if ours[0] == "ok" and theirs[0] == "ok":
            agreed += 1
            if ours[2] != theirs[2] or not theirs[1]:
                differences.append((data, ours, theirs))
        elif ours[0] == "ok" and theirs[0] == "more":
            differences.append((data, ours, theirs))
        elif ours[0] == "ok":
            wider += 1
        elif theirs[0] == "ok" and ours[0] == "more":
            differences.append((data, ours, theirs))
        elif theirs[0] == "ok":
            stricter[ours[1]] += 1
    for data, ours, theirs in differences[:SHOWN_MAX]:
        print(f"{name}: {data!r}\n  ours:   {ours}\n  theirs: {theirs}")
    print(f"# {name}: {len(inputs)} inputs, {agreed} read by both, {wider} refused by it alone; by us alone:")
    for reason, count in stricter.most_common():
        print(f"#   {count:6} {reason}")
    is_good = not differences and agreed > len(inputs) // 50
    print(f"{'ok' if is_good else 'not ok'}: requests as {name} reads them")
    return is_good


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oracle")
    parser.add_argument("corpus")
    parser.add_argument("--site-packages", help="a virtual environment that may have h11")
    parser.add_argument("--inputs", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=9112)
    options = parser.parse_args()
    for path in glob.glob(os.path.join(options.site_packages or "/nonexistent", "lib/python3*/site-packages")):
        sys.path.append(path)
    inputs = make_inputs(random.Random(options.seed), options.corpus, options.inputs)
    verdicts = ask(options.oracle, inputs)
    passed = failed = skipped = 0
    for name, there, answers in (("llhttp", shutil.which("node"), ask_llhttp), ("h11", None, ask_h11)):
        if name == "h11":
            try:
                import h11  # noqa: F401 pylint: disable=import-outside-toplevel,unused-import
                there = True
            except ImportError:
                there = None
        if not there:
            print(f"skip: {name} is not installed")
            skipped += 1
        elif compare(name, inputs, verdicts, answers(inputs, verdicts)):
            passed += 1
        else:
            failed += 1
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
