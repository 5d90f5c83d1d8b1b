# SPDX-License-Identifier: MIT
"""What Hapax says about a call: read from a result or an error, and said again to a model."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mcp.shared.exceptions import McpError
from mcp.types import CallToolResult, TextContent

META_KEY = "dev.hapax/idempotencyKey"
META_OPERATION = "dev.hapax/operation"

# One word a model can hold on to, before the sentence that Hapax gives.
STATUS = {
    "BUSY": "running",
    "OUTCOME_UNKNOWN": "unknown",
    "RESULT_UNAVAILABLE": "done, its result is not kept",
    "FAILED": "nothing happened",
    "APPROVAL_REQUIRED": "waiting for a person's approval",
    "REPEAT_SUSPECTED": "not sent",
    "CANCELLED": "cancelled, nothing happened",
    "KEY_EXPIRED": "not known any more",
}

#: Codes after which the same key is worth asking again within one call.
UNSETTLED = ("BUSY", "OUTCOME_UNKNOWN")
UNAVAILABLE = ("UPSTREAM_UNAVAILABLE", "LEDGER_UNAVAILABLE")


@dataclass(frozen=True)
class Operation:
    """`_meta["dev.hapax/operation"]` of an answer. `code` is None for the tool's own result."""

    id: str | None
    code: str | None
    execution: str | None
    effect: str | None
    replayed: bool
    joined: bool
    wait_ms: int
    new_key_allowed: bool

    @property
    def is_open(self) -> bool:
        """Whether a repeat of this intent must carry the same key again."""
        return self.code is not None and not self.new_key_allowed


class HapaxError(Exception):
    """A call that Hapax did not send. `code` is the row of its table of answers."""

    def __init__(self, code: str, message: str, operation: Operation | None = None) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.operation = operation


class HapaxRefused(HapaxError, ValueError):
    """The key is wrong or belongs to another call, so the program has to change.

    A ValueError, which LangGraph's default RetryPolicy does not repeat.
    """


class HapaxUnavailable(HapaxError, ConnectionError):
    """The server or the ledger cannot be reached and this request sent nothing.

    A ConnectionError, which retry policies repeat; the repeat carries the same key.
    """


def _parse(value: object) -> Operation | None:
    if not isinstance(value, Mapping):
        return None
    wait = value.get("retry_after_ms", value.get("poll_after_ms", 0))
    return Operation(
        id=value.get("id"),
        code=value.get("code"),
        execution=value.get("execution"),
        effect=value.get("effect"),
        replayed=value.get("replayed") is True,
        joined=value.get("joined") is True,
        wait_ms=wait if isinstance(wait, int) and wait > 0 else 0,
        new_key_allowed=value.get("new_key_allowed") is True,
    )


def operation_of(answer: CallToolResult | McpError) -> Operation | None:
    """What Hapax says in this answer; None when the answer is not from Hapax."""
    source: Any = answer.error.data if isinstance(answer, McpError) else answer.meta
    return _parse(source.get(META_OPERATION)) if isinstance(source, Mapping) else None


def is_timeout(error: McpError) -> bool:
    """Whether the SDK gave up waiting. 408: Python; -32001: TypeScript's number, for proxies."""
    return error.error.code in (408, -32001)


def for_model(result: CallToolResult, operation: Operation | None) -> CallToolResult:
    """The same answer with its status as the first words, where it is not the tool's own."""
    if operation is None or operation.code is None:
        return result
    status = STATUS.get(operation.code, operation.code)
    text = " ".join(block.text for block in result.content if isinstance(block, TextContent))
    # A new object: the one from the session may be shared with other interceptors.
    return CallToolResult(
        _meta=result.meta,
        content=[TextContent(type="text", text=f"Status: {status}. {text}")],
        isError=True,
    )


def timed_out(tool: str) -> CallToolResult:
    """A timeout is no failure: the tool may have acted, and may still."""
    text = (
        f"Status: unknown. No answer came in time from {tool}, so it may or may not have happened, "
        "and may still happen. Do not report it as failed and do not try it in another way; a "
        "person or a query has to find out."
    )
    return CallToolResult(content=[TextContent(type="text", text=text)], isError=True)
