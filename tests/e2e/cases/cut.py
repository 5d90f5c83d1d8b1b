# SPDX-License-Identifier: MIT
"""The connection cut at each byte of a small call: on both sides of Hapax, in both directions, with a
key and without, answered in JSON and as an event stream. The client then calls again: never two
effects; the real answer, or, where Hapax itself lost the answer, an honest unknown.
"""

import json
import re

from kit.harness import Failure, test
from kit.webproxy import ByteCutter
from rawclient import stub
from webclient import Serve, WebClient
from .http_upstream import ANSWER, Site
from .way import code, operation

TOOL = {"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
STREAMED = {"tools": {"charge": {"runs": [[{"progress": 1}, {"text": "receipt $RECEIPT"}]]}}}
STEPS = [{"json": ANSWER}]


class At:
    """Where a client speaks to: a port, behind it a Serve."""

    def __init__(self, port):
        self.port = port


class Cutting:
    """Calls, numbered in a fixed width so that all have the same size, one with each cut."""

    def __init__(self, t, running, port, is_keyed, more):
        self.t, self.is_keyed, self.more, self.n = t, is_keyed, more, 0
        self.failure = None
        self.straight = running.client()
        self.cut = WebClient(At(port))
        self.cut.session = self.straight.session
        self.cut.next_id, self.straight.next_id = 10000, 50000

    def call(self, client):
        args = {"n": f"{self.n:05}", **self.more}
        key = f"0190a0a0-0000-7000-8000-0000000{self.n:05}" if self.is_keyed else None
        meta = {"progressToken": f"{self.n:05}"}
        return client.call(args=args, key=key, meta=meta)

    def attempt(self):
        """The answer to the first try, or None when the client got none."""
        try:
            return self.call(self.cut).answer()
        except (OSError, ValueError, IndexError, Failure) as error:
            self.failure = error
            return None


def receipt_of(answer):
    found = re.search(r"receipt (\S+?)\"", json.dumps(answer))
    return found.group(1) if found else None


def argument(effect):
    args = effect["args"]
    return (json.loads(args) if isinstance(args, str) else args)["n"]


def measure(cutting, cutter, way):
    """The size of one call in that direction, by one that nothing happens to."""
    for _ in range(2):  # the first one may bring a handshake with it
        cutter.arm(way, 1 << 30)
        answer = cutting.attempt()
        if answer is None or code(answer["result"]):
            raise Failure(f"the call that nothing was done to: {answer}, {cutting.failure}")
        cutting.n += 1
    cutter.disarm()
    return cutter.passed_on(way)


def before_hapax(t, way, is_keyed, script):
    running = Serve(t, ["--", *stub(t, script)], "--orphan-timeout", "120s")
    cutter = ByteCutter(t, running.port)
    cutting = Cutting(t, running, cutter.port, is_keyed, {})
    size = measure(cutting, cutter, way)
    # All that goes up may arrive, and its answer be lost; of what comes down something must lack.
    receipts = {}
    for count in range(size + 1 if way == "up" else size):
        cutter.arm(way, count, count % 2 == 1)
        first = cutting.attempt()
        if not cutter.disarm() and count > size - 10:
            # Event ids are numbers, so a stream may be some bytes shorter than the one measured.
            receipts[f"{cutting.n:05}"] = receipt_of(first)
            cutting.n += 1
            continue
        t.true(cutter.was_cut, f"byte {count} of {size}: the connection was cut")
        if way == "down" and script is STREAMED and first is not None:
            # The end of the chunks was cut, the event was there: that client has its answer.
            receipts[f"{cutting.n:05}"] = receipt_of(first)
        else:
            t.equal(first, None, f"byte {count} of {size}: attempt 1")
            again = cutting.call(cutting.straight).answer()
            receipts[f"{cutting.n:05}"] = receipt_of(again)
        t.true(receipts[f"{cutting.n:05}"], f"byte {count} of {size}: a real answer")
        cutting.n += 1
    t.true(len(receipts) > 200, f"{len(receipts)} cuts")
    effects = [(argument(one), one["receipt"]) for one in t.effects()][2:]
    numbers = [number for number, _ in effects]
    twice = sorted({number for number in numbers if numbers.count(number) > 1})
    t.equal(twice, [], f"calls that acted twice, the first cut being number 00002, of {size} bytes")
    t.equal(sorted(effects), sorted(receipts.items()), "effects against answers")


def behind_hapax(t, way, is_keyed):
    site = Site(t).serve({"session": "s1"})
    cutter = ByteCutter(t, site.port)
    url = f"http://127.0.0.1:{cutter.port}/mcp"
    running = Serve(t, [url], "--name", "e2e", "--orphan-timeout", "120s")
    cutting = Cutting(t, running, running.port, is_keyed, {"steps": STEPS})
    size = measure(cutting, cutter, way)
    real, unknown, astray = set(), set(), 0
    for count in range(size + 1 if way == "up" else size):
        cutter.arm(way, count, count % 2 == 1)
        first = cutting.attempt()
        t.true(cutter.disarm(), f"byte {count} of {size}: the connection was cut")
        t.true(first is not None, f"byte {count} of {size}: an answer, not {cutting.failure}")
        if code(first["result"]) is None:
            astray += 1  # the cut hit a connection beside that of the call
            real.add(f"{cutting.n:05}")
            cutting.n += 1
            continue
        t.equal(code(first["result"]), "OUTCOME_UNKNOWN", f"byte {count} of {size}: attempt 1")
        again = cutting.call(cutting.straight).answer()["result"]
        if code(again) is None:
            real.add(f"{cutting.n:05}")
        else:
            t.equal(code(again), "OUTCOME_UNKNOWN", f"byte {count} of {size}: the retry")
            ids = [operation(one)["id"] for one in (first["result"], again)]
            t.equal(ids[0], ids[1], "the operation named to the retry")
            unknown.add(f"{cutting.n:05}")
        cutting.n += 1
    executed = [
        json.loads(one["body"])["params"]["arguments"]["n"] for one in site.posts("tools/call")
    ][2:]
    t.true(astray <= 2, f"{astray} cuts missed the call")
    t.equal(len(executed), len(set(executed)), "executions, each of another call")
    t.true(real <= set(executed), f"answered without an execution: {real - set(executed)}")
    t.true(len(unknown) + len(real) > 100, f"{len(unknown)} and {len(real)} cuts")


for _way in ("up", "down"):
    for _is_keyed in (False, True):
        _kind = f"{_way}_{'keyed' if _is_keyed else 'keyless'}"
        for _name, _script in (("json", TOOL), ("stream", STREAMED)):

            def _front(t, way=_way, is_keyed=_is_keyed, script=_script):
                before_hapax(t, way, is_keyed, script)

            test("cut", f"cut_client_{_name}_{_kind}", needs_hapax=True)(_front)

        def _back(t, way=_way, is_keyed=_is_keyed):
            behind_hapax(t, way, is_keyed)

        test("cut", f"cut_upstream_{_kind}", needs_hapax=True)(_back)
