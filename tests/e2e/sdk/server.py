# SPDX-License-Identifier: MIT
"""The twin of server.mjs, written with the official Python SDK: acts, syncs, and only then waits.
"""

import io
import json
import os
import sys
import uuid

import anyio
import mcp.types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

DIR = sys.argv[1]


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


server = Server("charge", version="1")


@server.list_tools()
async def list_tools():
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "number"}, "slow": {"type": "boolean"}},
    }
    return [
        types.Tool(name="charge", description="Charges a card once per call.", inputSchema=schema)
    ]


@server.call_tool()
async def call_tool(name, arguments):
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


async def main():
    stdin = io.TextIOWrapper(io.BufferedReader(Taped(0, "client")), encoding="utf-8")
    stdout = io.TextIOWrapper(io.BufferedWriter(Taped(1, "server")), encoding="utf-8")
    async with stdio_server(anyio.wrap_file(stdin), anyio.wrap_file(stdout)) as (read, write):
        await server.run(read, write, server.create_initialization_options())


with open(f"{DIR}/starts", "a", encoding="utf-8") as starts:
    starts.write(f"{os.getpid()}\n")
anyio.run(main)
