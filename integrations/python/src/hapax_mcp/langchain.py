# SPDX-License-Identifier: MIT
"""For langchain-mcp-adapters: every call of a LangGraph node gets a key of its own that stays the
same when the node is re-run, and the model is told what is running, done or unknown.

    tools = await load_tools(session, server_name="pay")          # the key travels in `_meta`

or, where the adapters make a session for each call:

    keys = HapaxInterceptor(argument="idempotency_key")           # hapax run --inject-key /idempotency_key
    client = MultiServerMCPClient(servers, tool_interceptors=[keys])
    tools = keys.prepare(await client.get_tools())
"""

import warnings
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar, cast

from langchain_core.tools import BaseTool
from langchain_mcp_adapters.interceptors import (
    MCPToolCallRequest,
    MCPToolCallResult,
    ToolCallInterceptor,
)
from langchain_mcp_adapters.tools import load_mcp_tools
from mcp import ClientSession
from mcp.types import CallToolResult

from .answers import META_KEY, HapaxRefused
from .call import OnAnswer, settle
from .steps import Keys, UnstableKeyWarning, call_id, current_place, step

__all__ = [
    "HapaxInterceptor",
    "KeyedSession",
    "UnstableKeyWarning",
    "call_id",
    "load_tools",
    "step",
]

Handler = Callable[[MCPToolCallRequest], Awaitable[MCPToolCallResult]]
Tool = TypeVar("Tool", bound=BaseTool)


class _Letter:
    """A key on its way from the interceptor to the session: the adapters' request has no `_meta`."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.is_taken = False


_letter: ContextVar[_Letter | None] = ContextVar("hapax_letter", default=None)


class KeyedSession:
    """A ClientSession whose calls carry the key that the interceptor around them chose."""

    def __init__(self, session: ClientSession) -> None:
        self._session = session

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def call_tool(
        self, name: str, arguments: dict[str, Any] | None = None, *args: Any, **more: Any
    ) -> CallToolResult:
        letter = _letter.get()
        if letter is not None:
            letter.is_taken = True
            more["meta"] = {**(more.get("meta") or {}), META_KEY: letter.key}
        return await self._session.call_tool(name, arguments, *args, **more)


class HapaxInterceptor:
    """An interceptor of tool calls. One for a program: it holds what is open.

    argument      the tool argument that carries the key (`inject_key` or `key_argument` of Hapax);
                  None: the key travels in `_meta` by a KeyedSession
    wait_seconds  how long a call that runs, or whose outcome is unknown, is asked for again before
                  the model is told so
    on_answer     is called with each `Operation`, for logs and counters
    """

    def __init__(
        self,
        *,
        argument: str | None = None,
        wait_seconds: float = 30.0,
        on_answer: OnAnswer | None = None,
    ) -> None:
        self._argument = argument
        self._wait_seconds = wait_seconds
        self._on_answer = on_answer
        self._keys = Keys()
        self._hapax_servers: set[str] = set()
        self._takes_key: dict[str, bool] = {}

    def prepare(self, tools: Sequence[Tool]) -> list[Tool]:
        """Notes which tools take a key, and hides that argument: a model must not invent keys."""
        if self._argument is None:
            raise ValueError("only an interceptor with an `argument` prepares tools")
        for tool in tools:
            # MCP tools have a plain schema; a tool with a class for it is not one of theirs.
            schema: dict[str, Any] = tool.args_schema if isinstance(tool.args_schema, dict) else {}
            properties = schema.get("properties", {})
            takes_key = self._argument in properties
            self._takes_key[tool.name] = takes_key
            if takes_key:
                tool.args_schema = {
                    **schema,
                    "properties": {k: v for k, v in properties.items() if k != self._argument},
                    "required": [k for k in schema.get("required", []) if k != self._argument],
                }
            elif not (tool.metadata or {}).get("readOnlyHint"):
                warnings.warn(
                    f"{tool.name} may write and has no argument {self._argument}: its calls have no "
                    f"key. Start Hapax with --inject-key /{self._argument}.",
                    UnstableKeyWarning,
                    stacklevel=2,
                )
        return list(tools)

    async def __call__(self, request: MCPToolCallRequest, handler: Handler) -> MCPToolCallResult:
        arguments = request.args
        if self._argument is not None:
            arguments = {k: v for k, v in arguments.items() if k != self._argument}
            prefixed = f"{request.server_name}_{request.name}"  # `tool_name_prefix`
            takes_key = self._takes_key.get(request.name, self._takes_key.get(prefixed))
            if takes_key is None:
                raise HapaxRefused("KEY_REQUIRED", f"{request.name} was not given to prepare()")
            if not takes_key:
                return await handler(request.override(args=arguments))
        place = current_place(request.runtime)
        if place is None:
            warnings.warn(
                "This call is made outside of LangGraph, without a key. Put it into a step: "
                "with hapax_mcp.langchain.step(...).",
                UnstableKeyWarning,
                stacklevel=2,
            )
            return await handler(request.override(args=arguments))
        tool_call_id = getattr(request.runtime, "tool_call_id", None)
        where = (place, request.server_name, request.name, arguments)
        with self._keys.call(*where, tool_call_id) as key:
            is_open = True  # until an answer says that it is settled
            try:
                result, is_open = await self._send(request, handler, arguments, key)
                return result
            except HapaxRefused:
                is_open = False
                raise
            finally:
                self._keys.note(*where, key, is_open=is_open)

    async def _send(
        self,
        request: MCPToolCallRequest,
        handler: Handler,
        arguments: dict[str, Any],
        key: str,
    ) -> tuple[MCPToolCallResult, bool]:
        letter = _Letter(key)
        if self._argument is not None:
            arguments = {**arguments, self._argument: key}
        keyed = request.override(args=arguments)

        def is_keyed() -> bool:
            return self._argument is not None or letter.is_taken

        async def send() -> CallToolResult:
            token = _letter.set(letter if self._argument is None else None)
            try:
                result = await handler(keyed)
            finally:
                _letter.reset(token)
            if not isinstance(result, CallToolResult):
                raise _Foreign(result)
            return result

        try:
            settled = await settle(
                send,
                request.name,
                wait_seconds=self._wait_seconds,
                is_hapax=request.server_name in self._hapax_servers,
                is_keyed=is_keyed,
                on_answer=self._on_answer,
            )
        except _Foreign as foreign:
            return foreign.result, False
        if settled.is_hapax:
            self._hapax_servers.add(request.server_name)
        if not is_keyed():
            warnings.warn(
                f"{request.name} was called without its key: the session is no KeyedSession. Use "
                "load_tools(), or an interceptor with an `argument`.",
                UnstableKeyWarning,
                stacklevel=2,
            )
        return settled.result, settled.is_open


class _Foreign(Exception):
    """An inner interceptor answered with something that is no MCP result; it passes."""

    def __init__(self, result: MCPToolCallResult) -> None:
        self.result = result


async def load_tools(
    session: ClientSession,
    *,
    server_name: str,
    interceptor: HapaxInterceptor | None = None,
    tool_interceptors: Sequence[ToolCallInterceptor] = (),
    **options: Any,
) -> list[BaseTool]:
    """`load_mcp_tools` with keys in `_meta`. Interceptors given here are outside of ours."""
    mine = interceptor or HapaxInterceptor()
    return await load_mcp_tools(
        cast(ClientSession, KeyedSession(session)),
        tool_interceptors=[*tool_interceptors, mine],
        server_name=server_name,
        **options,
    )
