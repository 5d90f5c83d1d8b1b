# SPDX-License-Identifier: MIT
"""One call under one key: asked again, under the same key, while it is not settled."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import anyio
from mcp import ClientSession
from mcp.shared.exceptions import McpError
from mcp.types import CallToolResult

from .answers import (
    META_KEY,
    UNAVAILABLE,
    UNSETTLED,
    HapaxRefused,
    HapaxUnavailable,
    Operation,
    for_model,
    is_timeout,
    operation_of,
    timed_out,
)

Send = Callable[[], Awaitable[CallToolResult]]
OnAnswer = Callable[[Operation], None]

UNAVAILABLE_WAIT_SECONDS = 0.5


@dataclass(frozen=True)
class Settled:
    """`is_open`: the intent is not settled, and a repeat of it must carry the same key."""

    result: CallToolResult
    is_open: bool
    is_hapax: bool


async def settle(
    send: Send,
    tool: str,
    *,
    wait_seconds: float,
    is_hapax: bool = False,
    is_keyed: Callable[[], bool] = lambda: True,
    on_answer: OnAnswer | None = None,
) -> Settled:
    """Sends until the outcome is known or `wait_seconds` are over. Every send is the same bytes.

    Only a peer that is known to keep the key's promise is asked again: a bare server that is sent
    the call twice acts twice. `is_hapax` says that it was known before; an answer of its own shows
    it too. `is_keyed` is asked after a send: to Hapax, a call without its key is a new one.
    """
    deadline = anyio.current_time() + wait_seconds

    async def may_repeat(seconds: float) -> bool:
        left = deadline - anyio.current_time()
        if left <= 0 or not is_keyed():
            return False
        await anyio.sleep(min(seconds, left))
        return True

    while True:
        try:
            result = await send()
        except McpError as error:
            operation = operation_of(error)
            if operation is not None and on_answer:
                on_answer(operation)
            if operation is None or operation.code is None:
                if not is_timeout(error):
                    raise
                if is_hapax and await may_repeat(0):
                    continue
                return Settled(timed_out(tool), True, is_hapax)
            if operation.code not in UNAVAILABLE:
                raise HapaxRefused(operation.code, str(error), operation) from error
            is_hapax = True
            if not await may_repeat(UNAVAILABLE_WAIT_SECONDS):
                raise HapaxUnavailable(operation.code, str(error), operation) from error
            continue
        operation = operation_of(result)
        if operation is not None and on_answer:
            on_answer(operation)
        is_hapax = is_hapax or operation is not None
        is_unsettled = operation is not None and operation.code in UNSETTLED
        if operation and is_unsettled and await may_repeat(operation.wait_ms / 1000):
            continue
        is_open = operation is not None and operation.is_open
        return Settled(for_model(result, operation), is_open, is_hapax)


async def call_once(
    session: ClientSession,
    key: str,
    tool: str,
    arguments: dict[str, Any] | None = None,
    *,
    wait_seconds: float = 30.0,
    is_hapax: bool = False,
    on_answer: OnAnswer | None = None,
) -> CallToolResult:
    """Calls a tool under a key, for programs and frameworks of any kind.

    `key` comes from `step_key`, or is any text that is the same each time this very intent is
    repeated. Returns the tool's result, live or stored; a result that begins with "Status:" when it
    is not there. Raises HapaxRefused (the key is wrong, change the program) and HapaxUnavailable
    (nothing was sent, repeat with the same key).
    """

    async def send() -> CallToolResult:
        return await session.call_tool(tool, arguments, meta={META_KEY: key})

    settled = await settle(
        send, tool, wait_seconds=wait_seconds, is_hapax=is_hapax, on_answer=on_answer
    )
    return settled.result
