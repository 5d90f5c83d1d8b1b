# SPDX-License-Identifier: MIT
"""The official SDKs as clients, against servers written with the same SDK; bare, and behind
`hapax run`.

Each scenario is written once. Bare it must show the fault (that proves that the test can fail),
behind Hapax the promise. Before an effect is counted the test has seen attempt 1 fail and has
checked whom it killed.
"""

import functools
import os
import re
import sys

from kit import install, processes
from kit.harness import Skip, test
from kit.sdkclient import SDK, SdkClient

SDKS = {"ts130": "sdk-1-30", "tsnew": "sdk-newest", "py": None}
OPERATION = "dev.hapax/operation"


class Bench:
    """One client and one server of the same SDK, and the way between them."""

    def __init__(self, t, sdk, mode, options=()):
        self.t, self.sdk, self.mode = t, sdk, mode
        around = t.surroundings
        if SDKS[sdk]:
            if not around.node:
                raise Skip(around.node_reason)
            package = os.path.join(around.node, "node_modules", SDKS[sdk])
            reason = install.unfit(package)
            if reason:
                raise Skip(reason)
            client = ["node", os.path.join(SDK, "driver.mjs"), package]
            self.server = ["node", os.path.join(SDK, "server.mjs"), package, t.dir]
        else:
            client = [around.python, os.path.join(SDK, "driver.py")]
            self.server = [around.python, os.path.join(SDK, "server.py"), t.dir]
        self.argv = self.server if mode == "bare" else t.hapax_argv(self.server, *options)
        self.client = SdkClient(t, client)

    def connect(self):
        self.pid = self.client.connect(self.argv)
        return self.pid

    def kill_started(self):
        """SIGKILL to the process that the client started: bare the server, else the front."""
        expected = "server." if self.mode == "bare" else self.t.surroundings.hapax
        processes.kill(self.pid, expected)
        processes.wait_gone(self.pid)

    def server_pid(self):
        return int(self.t.lines("starts")[-1])

    def receipt(self, result):
        self.t.true(not result.get("isError"), f"an error result: {result}")
        return re.search(r"receipt ([0-9a-f-]{36})", result["content"][0]["text"]).group(1)


def scenario(function, options=()):
    """Registers it for every SDK, bare and through Hapax with these options."""
    for sdk in SDKS:
        for mode in ("bare", "hapax"):

            def run(t, sdk=sdk, mode=mode):
                function(t, Bench(t, sdk, mode, options))

            test("sdk", f"sdk_{sdk}_{function.__name__}_{mode}", needs_hapax=mode == "hapax")(run)
    return function


@scenario
def timeout_cancel_retry(t, b):
    """The client's own timeout, then the same call again on the same connection while the first
    still runs.
    """
    b.connect()
    args = {"amount": 5, "slow": True}
    first = b.client.call(args=args, timeout_ms=1500)
    t.wait_effects(1)
    error = b.client.error(first)
    t.true(error["code"] in (-32001, 408), f"attempt 1 failed by timeout, not by {error}")

    sent = [message for side, message in b.client.wire() if side == "client"]
    cancels = [
        message["params"] for message in sent if message.get("method") == "notifications/cancelled"
    ]
    if b.sdk == "py":
        # Measured: this SDK gives up silently. Only the overlap with a call that still waits
        # tells the retry.
        t.equal(cancels, [], "cancels sent by the Python SDK on timeout")
    else:
        t.equal(len(cancels), 1, "cancels sent by the TypeScript SDK on timeout")
        t.true(
            "Request timed out" in cancels[0]["reason"], f"the reason says timeout: {cancels[0]}"
        )

    second = b.client.call(args=args)
    if b.mode == "bare":
        t.wait_effects(2)
    else:
        t.wait_repeats(1)
    t.touch("release")
    receipt = b.receipt(b.client.result(second))
    effects = t.effects()
    t.equal(len(effects), 2 if b.mode == "bare" else 1, "effects of one wanted charge")
    t.equal(receipt, effects[-1]["receipt"], "receipt given to the retry")


@scenario
def front_killed(t, b):
    """The process that the client started is SIGKILLed in the middle of a call; new connection,
    same call.
    """
    b.connect()
    args = {"amount": 6, "slow": True}
    first = b.client.call(args=args)
    t.wait_effects(1)
    b.kill_started()
    b.client.error(first)
    t.touch("release")
    b.connect()
    receipt = b.receipt(b.client.result(b.client.call(args=args)))
    effects = t.effects()
    t.equal(len(effects), 2 if b.mode == "bare" else 1, "effects of one wanted charge")
    t.equal(receipt, effects[-1]["receipt"], "receipt given to the retry")


@scenario
def server_killed(t, b):
    """The server itself is SIGKILLed after it acted. Nobody can know; so nobody may act again or
    say "failed".
    """
    b.connect()
    args = {"amount": 7, "slow": True}
    first = b.client.call(args=args)
    t.wait_effects(1)
    processes.kill(b.server_pid(), "server.")
    if b.mode == "bare":
        b.client.error(first)
        t.touch("release")
        b.connect()
        b.receipt(b.client.result(b.client.call(args=args)))
        t.equal(len(t.effects()), 2, "effects of one wanted charge")
        return

    def assert_unknown(result, which):
        meta = result.get("_meta", {}).get(OPERATION, {})
        t.equal(
            (result.get("isError"), meta.get("code")),
            (True, "OUTCOME_UNKNOWN"),
            f"{which} of {result}",
        )
        t.equal(meta.get("new_key_allowed"), False, f"new_key_allowed in {which}")
        return meta["id"]

    told = assert_unknown(b.client.result(first), "answer to attempt 1")
    t.touch("release")
    again = assert_unknown(b.client.result(b.client.call(args=args)), "answer to the retry")
    t.equal(again, told, "operation named to the retry")
    t.equal(len(t.effects()), 1, "effects of one wanted charge")
    other = b.receipt(b.client.result(b.client.call(args={"amount": 8})))
    t.equal(other, t.effects()[-1]["receipt"], "receipt of another call on the restarted server")
    t.equal(len(t.effects()), 2, "effects after another call")
    t.equal(len(t.lines("starts")), 2, "starts of the server")


@scenario
def keyed_fifty(t, b):
    """Fifty concurrent calls with one key are one operation: one effect, fifty equal results."""
    b.connect()
    args = {"amount": 9, "slow": True}
    refs = [b.client.call(args=args, key="018f6f2e-7c1a-7000-8000-0000000000f5") for _ in range(50)]
    t.wait_effects(50 if b.mode == "bare" else 1, 40)
    t.wait(
        lambda: sum(
            m.get("method") == "tools/call" for side, m in b.client.wire() if side == "client"
        )
        == 50,
        "fifty calls on the wire",
        40,
    )
    t.touch("release")
    results = [b.client.result(ref) for ref in refs]
    t.equal(len(t.effects()), 50 if b.mode == "bare" else 1, "effects")
    for result in results:
        result.get("_meta", {}).pop(OPERATION, None)
        if not result.get("_meta"):
            result.pop("_meta", None)
    different = {str(sorted(result.items())) for result in results}
    t.equal(
        len(different), 50 if b.mode == "bare" else 1, "different results, our _meta member apart"
    )


@scenario
def two_wanted_in_turn(t, b):
    """Two equal calls, both wanted, one after the other: both act."""
    b.connect()
    receipts = [b.receipt(b.client.result(b.client.call(args={"amount": 3}))) for _ in range(2)]
    t.equal(
        receipts, [effect["receipt"] for effect in t.effects()], "receipts of two wanted charges"
    )


@functools.partial(scenario, options=("--overlap", "30s"))
def two_wanted_at_once(t, b):
    """Two equal calls, both wanted, leave together: both act."""
    b.connect()
    refs = [b.client.call(args={"amount": 4, "slow": True}) for _ in range(2)]
    t.wait_effects(2)
    t.touch("release")
    receipts = sorted(b.receipt(b.client.result(ref)) for ref in refs)
    t.equal(
        receipts,
        sorted(effect["receipt"] for effect in t.effects()),
        "receipts of two wanted charges",
    )


if __name__ == "__main__":
    sys.exit("run tests/e2e/run")
