# SPDX-License-Identifier: MIT
"""The official Python SDK, version 1 or 2, as a client, driven by lines of JSON; the verbs are those
of driver.mjs. Of version 2 only HTTP, with its class Client and its defaults.
"""

import asyncio
import json
import sys
from datetime import timedelta

import mcp.client.stdio as stdio_module
from mcp import ClientSession, StdioServerParameters
from mcp.client import streamable_http
from mcp.client.stdio import stdio_client

try:
    from mcp import McpError

    IS_V2 = False
except ImportError:
    from mcp import Client, MCPError as McpError

    IS_V2 = True


class Tape:
    """Writes each whole line that passes, with the side it came from."""

    def __init__(self, path):
        self.path = path
        self.rest = {"client": b"", "server": b""}

    def write(self, sender, chunk):
        *lines, self.rest[sender] = (self.rest[sender] + chunk).split(b"\n")
        with open(self.path, "a", encoding="utf-8") as out:
            for line in lines:
                out.write(
                    json.dumps({"from": sender, "at": "client", "line": line.decode("utf-8")})
                    + "\n"
                )


class TapedSend:
    def __init__(self, stream, tape):
        self.stream, self.tape = stream, tape

    async def send(self, chunk):
        self.tape.write("client", chunk)
        await self.stream.send(chunk)

    async def aclose(self):
        await self.stream.aclose()


class TapedReceive:
    def __init__(self, stream, tape):
        self.stream, self.tape = stream, tape

    async def receive(self, max_bytes=65536):
        chunk = await self.stream.receive(max_bytes)
        self.tape.write("server", chunk)
        return chunk

    async def aclose(self):
        await self.stream.aclose()


class Connection:
    """One SDK session in a task of its own: its context managers must end in the task that
    entered them.
    """

    def __init__(self, params, tape, elicit=None):
        self.params, self.tape, self.elicit = params, tape, elicit
        self.ready = asyncio.get_running_loop().create_future()
        self.ending = asyncio.Event()
        self.task = asyncio.create_task(self.live())

    async def live(self):
        start = stdio_module._create_platform_compatible_process

        async def taped_start(*args, **kwargs):
            process = await start(*args, **kwargs)
            process._stdin = TapedSend(process._stdin, self.tape)
            process._stdout = TapedReceive(process._stdout, self.tape)
            self.pid = process.pid
            return process

        stdio_module._create_platform_compatible_process = taped_start
        try:
            async with stdio_client(self.params) as (read, write):
                stdio_module._create_platform_compatible_process = start
                asked = self.answer if self.elicit else None
                async with ClientSession(
                    read, write, elicitation_callback=asked
                ) as self.session:
                    await self.session.initialize()
                    self.ready.set_result(self.pid)
                    await self.ending.wait()
        except Exception as error:
            if not self.ready.done():
                self.ready.set_exception(error)


    async def answer(self, _context, _params):
        """A person, who answers each question by the next of his words."""
        from mcp.types import ElicitResult

        return ElicitResult(action="accept", content={"decision": self.elicit.pop(0)})


class WebConnection(Connection):
    """The same over Streamable HTTP."""

    def __init__(self, url):
        self.url = url
        super().__init__(None, None)

    async def live(self):
        try:
            if IS_V2:
                async with Client(self.url) as client:
                    self.session = client.session
                    await self.stay(client.protocol_version)
            else:
                async with streamable_http.streamable_http_client(self.url) as (read, write, _):
                    async with ClientSession(read, write) as self.session:
                        await self.stay((await self.session.initialize()).protocolVersion)
        except Exception as error:
            if not self.ready.done():
                self.ready.set_exception(error)

    async def stay(self, version):
        self.ready.set_result(version)
        await self.ending.wait()


class Driver:
    def __init__(self):
        self.calls = {}
        self.connection = None

    async def connect(self, order):
        if "url" in order:
            self.connection = WebConnection(order["url"])
            return {"version": await self.connection.ready}
        params = StdioServerParameters(
            command=order["command"], args=order["args"], env=order["env"]
        )
        self.connection = Connection(params, Tape(order["wire"]), order.get("elicit"))
        return {"pid": await self.connection.ready}

    async def call(self, order):
        meta = {"dev.hapax/idempotencyKey": order["key"]} if order.get("key") else None
        timeout = (order.get("timeout_ms") or 60000) / 1000
        if not IS_V2:
            timeout = timedelta(seconds=timeout)
        result = await self.connection.session.call_tool(
            order["tool"], order["args"], timeout, meta=meta
        )
        return result.model_dump(mode="json", by_alias=True, exclude_none=True)

    async def abort(self, order):
        self.calls[order["of"]].cancel()
        return {}

    async def list(self, order):
        return (await self.connection.session.list_tools()).model_dump(
            mode="json", by_alias=True, exclude_none=True
        )

    async def close(self, order):
        self.connection.ending.set()
        await asyncio.wait([self.connection.task], timeout=20)
        return {}

    async def obey(self, order):
        try:
            answer = {"ok": await getattr(self, order["do"])(order)}
        except McpError as error:
            answer = {
                "error": {
                    "kind": "McpError",
                    "code": error.error.code,
                    "message": error.error.message,
                }
            }
        except (Exception, asyncio.CancelledError) as error:
            answer = {"error": {"kind": type(error).__name__, "message": str(error)}}
        print(json.dumps({"ref": order["ref"], **answer}), flush=True)


async def main():
    reader = asyncio.StreamReader(limit=1 << 24)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    driver = Driver()
    while line := await reader.readline():
        order = json.loads(line)
        if order["do"] == "quit":
            break
        driver.calls[order["ref"]] = asyncio.create_task(driver.obey(order))


if __name__ == "__main__":
    asyncio.run(main())
