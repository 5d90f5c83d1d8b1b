# SPDX-License-Identifier: MIT
"""The real server and the built Hapax, for the tests. HAPAX and HAPAX_EXAMPLE_SERVER name them."""

import asyncio
import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator

from langchain_mcp_adapters.sessions import create_session
from mcp import ClientSession

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
HAPAX = os.environ.get("HAPAX") or os.path.join(ROOT, "build", "src", "app", "hapax")
SERVER = os.environ.get("HAPAX_EXAMPLE_SERVER") or os.path.join(
    ROOT, "build", "examples", "hapax-example-server"
)


class Way:
    """One way to the example server; its effects are the lines of a synced file.

    `transport`: stdio is `hapax run`, one process for each session; http is `hapax serve`.
    """

    def __init__(self, *options: str, bare: bool = False, transport: str = "stdio") -> None:
        self.directory = tempfile.mkdtemp(prefix="hapax-frameworks-")
        self.effects_file = os.path.join(self.directory, "effects")
        server = [SERVER, "--ledger", self.effects_file]
        ledger = os.path.join(self.directory, "ledger")
        common = ["--ledger", ledger, "--name", "pay", "--orphan-timeout", "5s", *options]
        self.argv = server if bare else [HAPAX, "run", *common, "--", *server]
        self.hapax_options = ["--ledger", ledger]
        self.connection: dict[str, object] = {
            "transport": "stdio",
            "command": self.argv[0],
            "args": self.argv[1:],
        }
        self.gateway: subprocess.Popen[str] | None = None
        if transport == "http":
            argv = [HAPAX, "serve", "--listen", "127.0.0.1:0", *common, "--", *server]
            self.gateway = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True)
            assert self.gateway.stderr is not None
            said = self.gateway.stderr.readline()
            self.connection = {"transport": "streamable_http", "url": said.split()[-1]}

    @contextlib.asynccontextmanager
    async def session(self, **options: object) -> AsyncIterator[ClientSession]:
        async with create_session({**self.connection, "session_kwargs": options}) as session:
            await session.initialize()
            yield session

    def lines(self) -> list[bytes]:
        try:
            with open(self.effects_file, "rb") as file:
                return file.read().split(b"\n")[:-1]
        except FileNotFoundError:
            return []

    def effects(self) -> int:
        return len(self.lines())

    async def ops(self, *arguments: str) -> None:
        argv = [HAPAX, "ops", *arguments, *self.hapax_options]
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(*argv, stdout=quiet, stderr=quiet)
        if await child.wait() != 0:
            raise AssertionError(f"{argv} ended with {child.returncode}")

    def close(self) -> None:
        if self.gateway is not None:
            self.gateway.terminate()
            self.gateway.communicate(timeout=30)
        shutil.rmtree(self.directory, ignore_errors=True)
