# SPDX-License-Identifier: MIT
"""The twin of server.mjs, written with the official Python SDK, version 1 or 2: acts, syncs, and
only then waits.
"""

import io
import json
import os
import sys
import threading
import uuid

import anyio
from mcp.server.lowlevel import Server

DIR = sys.argv[1]
WAY = sys.argv[2] if len(sys.argv) > 2 else "stdio"
IS_V2 = not hasattr(Server, "list_tools")
if IS_V2:
    import mcp_types as types
else:
    import mcp.types as types


class Taped(io.RawIOBase):
    """A descriptor whose whole lines are also written to the tape of this test."""

    def __init__(self, fd, sender):
        self.file, self.sender, self.rest = (
            io.FileIO(fd, "rb" if sender == "client" else "wb", closefd=False),
            sender,
            b"",
        )

    def readable(self):
        return self.sender == "client"

    def writable(self):
        return self.sender == "server"

    def tape(self, chunk):
        *lines, self.rest = (self.rest + chunk).split(b"\n")
        with open(f"{DIR}/wire/server-{os.getpid()}.jsonl", "a", encoding="utf-8") as out:
            for line in lines:
                out.write(
                    json.dumps({"from": self.sender, "at": "server", "line": line.decode("utf-8")})
                    + "\n"
                )

    def readinto(self, buffer):
        count = self.file.readinto(buffer)
        self.tape(bytes(buffer[:count]))
        return count

    def write(self, chunk):
        count = self.file.write(chunk)
        self.tape(bytes(chunk[:count]))
        return count


def tools():
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "slow": {"type": "boolean"}},
    }
    name = "input_schema" if IS_V2 else "inputSchema"
    text = "Charges a card once per call."
    return [types.Tool(name="charge", description=text, **{name: schema})]


async def charge(arguments):
    receipt = str(uuid.uuid4())
    line = json.dumps({"receipt": receipt, "pid": os.getpid(), "args": arguments}) + "\n"
    fd = os.open(f"{DIR}/effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, line.encode())
    os.fsync(fd)
    os.close(fd)
    if arguments.get("slow"):
        with anyio.move_on_after(120):
            while not os.path.exists(f"{DIR}/release"):
                await anyio.sleep(0.02)
    return [types.TextContent(type="text", text=f"receipt {receipt}")]


def make():
    if IS_V2:

        async def on_list(_, __):
            return types.ListToolsResult(tools=tools())

        async def on_call(_, params):
            return types.CallToolResult(content=await charge(params.arguments or {}))

        return Server("charge", version="1", on_list_tools=on_list, on_call_tool=on_call)
    server = Server("charge", version="1")

    @server.list_tools()
    async def list_tools():
        return tools()

    @server.call_tool()
    async def call_tool(_, arguments):
        return await charge(arguments)

    return server


async def serve_stdio():
    from mcp.server.stdio import stdio_server

    server = make()
    stdin = io.TextIOWrapper(io.BufferedReader(Taped(0, "client")), encoding="utf-8")
    stdout = io.TextIOWrapper(io.BufferedWriter(Taped(1, "server")), encoding="utf-8")
    async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


def event_store():
    from mcp.server.streamable_http import EventMessage, EventStore

    class Events(EventStore):
        def __init__(self):
            self.all, self.name = [], str(uuid.uuid4())

        async def store_event(self, stream_id, message):
            self.all.append((stream_id, message))
            return f"{self.name}.{len(self.all)}"

        async def replay_events_after(self, last_event_id, send_callback):
            begin = int(last_event_id.split(".")[1])
            stream = self.all[begin - 1][0]
            for number, (one, message) in enumerate(self.all[begin:], begin + 1):
                if one == stream and message is not None:
                    await send_callback(EventMessage(message, f"{self.name}.{number}"))
            return stream

    return Events()


async def run_app(app):
    import socket

    import uvicorn

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off"))

    def end_with_stdin():
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=end_with_stdin, daemon=True).start()
    listener.listen(1024)
    print(listener.getsockname()[1], flush=True)
    await server.serve(sockets=[listener])


async def serve_http():
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

    manager = StreamableHTTPSessionManager(
        make(), event_store=event_store() if WAY == "events" else None
    )

    async def app(scope, receive, send):
        if scope["type"] == "http":
            await manager.handle_request(scope, receive, send)

    async with manager.run():
        await run_app(app)


async def serve_sse():
    """The transport of 2024-11-05: the stream at /sse, messages at /messages."""
    from mcp.server.sse import SseServerTransport

    transport = SseServerTransport("/messages")

    async def app(scope, receive, send):
        if scope["type"] == "http" and scope["method"] == "POST":
            await transport.handle_post_message(scope, receive, send)
        elif scope["type"] == "http":
            server = make()
            async with transport.connect_sse(scope, receive, send) as (read, write):
                await server.run(read, write, server.create_initialization_options())

    await run_app(app)


with open(f"{DIR}/starts", "a", encoding="utf-8") as starts:
    starts.write(f"{os.getpid()}\n")
anyio.run({"stdio": serve_stdio, "sse": serve_sse}.get(WAY, serve_http))
