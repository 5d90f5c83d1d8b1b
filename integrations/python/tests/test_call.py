# SPDX-License-Identifier: MIT
"""What is asked again, what is not, and what the caller is told; with answers made up here."""

import unittest
import warnings

from langchain_mcp_adapters.interceptors import MCPToolCallRequest
from mcp.shared.exceptions import McpError
from mcp.types import CallToolResult, ErrorData, TextContent

from hapax_mcp import HapaxRefused, HapaxUnavailable, call_once
from hapax_mcp.langchain import HapaxInterceptor, UnstableKeyWarning, step

DONE = {
    "id": "1",
    "execution": "succeeded",
    "effect": "confirmed",
    "replayed": False,
    "joined": False,
    "new_key_allowed": False,
}


def result(text, is_error=False, **operation):
    meta = {"dev.hapax/operation": {**DONE, **operation}} if operation else None
    return CallToolResult(
        _meta=meta, content=[TextContent(type="text", text=text)], isError=is_error
    )


def error(code, number, **operation):
    data = {"code": code, "dev.hapax/operation": {**DONE, "code": code, **operation}}
    return McpError(ErrorData(code=number, message="because", data=data))


class Session:
    def __init__(self, *answers):
        self.answers, self.sent = list(answers), []

    async def call_tool(self, name, arguments=None, *, meta=None):
        self.sent.append((name, arguments, meta))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def text(answer):
    return answer.content[0].text


class CallTest(unittest.IsolatedAsyncioTestCase):
    async def test_a_result_passes_untouched(self):
        for answer in (result("paid"), result("no money", True), result("paid", replayed=True)):
            session = Session(answer)
            self.assertIs(await call_once(session, "k1", "charge", {"a": 1}), answer)
            sent = ("charge", {"a": 1}, {"dev.hapax/idempotencyKey": "k1"})
            self.assertEqual(session.sent, [sent])

    async def test_busy_is_asked_again_with_the_same_bytes(self):
        busy = result("wait", True, code="BUSY", retry_after_ms=1)
        session = Session(busy, busy, result("paid", replayed=True))
        seen = []
        self.assertEqual(
            text(await call_once(session, "k1", "charge", on_answer=seen.append)), "paid"
        )
        self.assertEqual([one.code for one in seen], ["BUSY", "BUSY", None])
        self.assertEqual(len({repr(sent) for sent in session.sent}), 1)

    async def test_what_stays_open_is_told_with_its_status(self):
        for code, word in (("BUSY", "running"), ("OUTCOME_UNKNOWN", "unknown")):
            answer = await call_once(
                Session(result("sentence", True, code=code)), "k1", "charge", wait_seconds=0
            )
            self.assertEqual(text(answer), f"Status: {word}. sentence")
            self.assertTrue(answer.isError)

    async def test_a_key_fault_is_no_retryable_error(self):
        for code in ("KEY_CONFLICT", "KEY_INVALID", "KEY_REQUIRED", "REQUEST_INVALID"):
            session = Session(error(code, -32602))
            with self.assertRaises(HapaxRefused) as caught:
                await call_once(session, "k1", "charge")
            self.assertEqual(caught.exception.code, code)
            self.assertIsInstance(caught.exception, ValueError)
            self.assertEqual(len(session.sent), 1)

    async def test_unavailable_is_tried_again_and_then_a_connection_error(self):
        session = Session(error("LEDGER_UNAVAILABLE", 1503), result("paid"))
        self.assertEqual(text(await call_once(session, "k1", "charge")), "paid")
        session = Session(error("UPSTREAM_UNAVAILABLE", 1502))
        with self.assertRaises(HapaxUnavailable) as caught:
            await call_once(session, "k1", "charge", wait_seconds=0)
        self.assertIsInstance(caught.exception, ConnectionError)

    async def test_a_timeout_is_unknown_and_a_bare_server_is_not_asked_twice(self):
        late = McpError(ErrorData(code=408, message="Timed out"))
        session = Session(late)
        self.assertTrue(
            text(await call_once(session, "k1", "charge")).startswith("Status: unknown.")
        )
        self.assertEqual(len(session.sent), 1)
        session = Session(late, result("paid", replayed=True))
        self.assertEqual(text(await call_once(session, "k1", "charge", is_hapax=True)), "paid")

    async def test_what_went_out_without_its_key_is_sent_once(self):
        late = McpError(ErrorData(code=408, message="Timed out"))
        busy = result("wait", True, code="BUSY", retry_after_ms=1)
        unknown = result("wait", True, code="OUTCOME_UNKNOWN", retry_after_ms=1)
        down = error("UPSTREAM_UNAVAILABLE", 1502)
        told = {"unknown": (late, unknown), "running": (busy,), None: (down,)}
        for status, answers in told.items():
            for answer in answers:
                keys, session = HapaxInterceptor(), Session(result("paid", id="1"), answer)

                async def handler(request, session=session):  # no KeyedSession
                    return await session.call_tool(request.name, request.args)

                request = MCPToolCallRequest(name="charge", args={"a": 1}, server_name="pay")
                with warnings.catch_warnings(), step("flow"):
                    warnings.simplefilter("ignore", UnstableKeyWarning)
                    await keys(request, handler)  # shows that it is Hapax
                    if status is None:
                        with self.assertRaises(HapaxUnavailable):
                            await keys(request, handler)
                    else:
                        got = text(await keys(request, handler))
                        self.assertTrue(got.startswith(f"Status: {status}."), got)
                self.assertEqual(len(session.sent), 2)

    async def test_other_errors_pass(self):
        closed = McpError(ErrorData(code=-32000, message="Connection closed"))
        with self.assertRaises(McpError) as caught:
            await call_once(Session(closed), "k1", "charge")
        self.assertIs(caught.exception, closed)


if __name__ == "__main__":
    unittest.main()
