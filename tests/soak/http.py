#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Many clients of `hapax serve` at once: idle sessions with their GET stream, and connections that
call all the time, with clients of both kinds leaving at random and coming back.

  tests/soak/http.py [--seconds 60] [--idle 2000] [--busy 512] [--seed 1]

HAPAX names the program (default build/src/app/hapax). It fails when resident memory grows from the
first third of the run to the last by more than a bound, when descriptors or processes are left when
the clients have gone, when a call gets no answer, or when an idle stream with its connection costs more
than 4 KB beside its session. It prints what it measured. Loopback only.
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
STREAM_MAX_BYTES = 4096
GROWTH_MAX_BYTES = 8 << 20
HEAD = "POST /mcp/charge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
ACCEPT = "Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\n"


def resident(pid):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
        return int(re.search(r"^Private_Dirty:\s+(\d+)", file.read(), re.M).group(1)) << 10


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def children(pid):
    """Pids and states of the children, zombies too."""
    found = []
    for entry in os.listdir("/proc"):
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields and int(fields[1]) == pid:
            found.append((int(entry), fields[0].decode()))
    return found


class Client:
    """One connection, kept alive."""

    def __init__(self, port):
        self.port, self.session, self.reader, self.writer = port, None, None, None

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port, limit=4096)

    def leave(self, is_rude=False):
        if self.writer:
            if is_rude:
                self.writer.transport.abort()
            else:
                self.writer.close()

    async def post(self, message):
        body = json.dumps(message)
        session = f"Mcp-Session-Id: {self.session}\r\n" if self.session else ""
        head = f"{HEAD}{ACCEPT}{session}Content-Length: {len(body)}\r\n\r\n"
        self.writer.write((head + body).encode())
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        status = int(head.split()[1])
        found = re.search(r"mcp-session-id: *(\S+)", head, re.I)
        if found:
            self.session = found.group(1)
        size = re.search(r"content-length: *(\d+)", head, re.I)
        if size:
            return status, await self.reader.readexactly(int(size.group(1)))
        body = b""
        while True:
            count = int((await self.reader.readline()).split(b";")[0], 16)
            body += (await self.reader.readexactly(count + 2))[:-2]
            if count == 0:
                return status, body

    async def initialize(self):
        params = {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "soak", "version": "1"},
        }
        await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def stream(self):
        """Its GET stream, on this connection."""
        head = f"GET /mcp/charge HTTP/1.1\r\nHost: 127.0.0.1\r\n{ACCEPT}Mcp-Session-Id: {self.session}\r\n\r\n"
        self.writer.write(head.encode())
        status = int((await self.reader.readuntil(b"\r\n\r\n")).split()[1])
        if status != 200:
            raise RuntimeError(f"GET: HTTP {status}")


class Soak:
    def __init__(self, options, port, pid):
        self.options, self.port, self.pid = options, port, pid
        self.random = random.Random(options.seed)
        self.calls = self.left = self.numbers = 0
        self.faults = []
        self.end_at = 0.0

    async def one_idle(self, session=None):
        client = Client(self.port)
        await client.open()
        client.session = session
        if session is None:
            await client.initialize()
        await client.stream()
        return client

    async def session(self):
        """One whose connection has ended."""
        client = Client(self.port)
        await client.open()
        await client.initialize()
        client.leave()
        return client.session

    async def many(self, make, count, at_once=64):
        gate, made = asyncio.Semaphore(at_once), []

        async def one():
            async with gate:
                made.append(await make())

        await asyncio.gather(*(one() for _ in range(count)))
        return made

    async def busy(self, session):
        """Calls until the end; now and then it leaves in the middle of one and comes back."""
        while time.monotonic() < self.end_at:
            client = Client(self.port)
            client.session = session
            await client.open()
            for _ in range(self.random.randrange(5, 60)):
                if time.monotonic() >= self.end_at:
                    break
                self.numbers += 1
                args = {"n": self.numbers}
                params = {"name": "charge", "arguments": args}
                call = {"jsonrpc": "2.0", "id": self.numbers, "method": "tools/call", "params": params}
                status, body = await client.post(call)
                self.calls += 1
                if status != 200 or b"receipt" not in body:
                    self.faults.append(f"HTTP {status}: {body[:200]}")
            else:
                client.writer.write(b"POST /mcp/charge HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Le")
            self.left += 1
            client.leave(is_rude=self.random.random() < 0.5)

    async def restless(self, idle):
        """Idle clients that leave, one every few milliseconds, and others that come."""
        while time.monotonic() < self.end_at:
            at = self.random.randrange(len(idle))
            idle[at].leave(is_rude=self.random.random() < 0.5)
            self.left += 1
            idle[at] = await self.one_idle(idle[at].session)
            await asyncio.sleep(0.02)

    async def watch(self, seen):
        while time.monotonic() < self.end_at:
            seen.append((resident(self.pid), descriptors(self.pid)))
            await asyncio.sleep(0.5)

    async def until(self, fact, what, seconds=15):
        limit = time.monotonic() + seconds
        while not fact():
            if time.monotonic() > limit:
                self.faults.append(f"waited {seconds} s for {what}")
                return
            await asyncio.sleep(0.05)

    async def run(self):
        options, say = self.options, print
        first = Client(self.port)
        await first.open()
        await first.initialize()
        warm = await self.many(lambda: self.one_idle(), 50)
        before, fds_before = resident(self.pid), descriptors(self.pid)
        # Sessions first and their streams after them, in memory that nothing has used before: what a
        # later phase frees and takes again would hide the price.
        sessions = await self.many(self.session, options.idle)
        between = resident(self.pid)
        idle = await self.many(lambda it=iter(sessions): self.one_idle(next(it)), options.idle)
        after = resident(self.pid)
        session_bytes = (between - before) / max(1, options.idle)
        stream_bytes = (after - between) / max(1, options.idle)
        say(f"an idle session: {session_bytes:.0f} bytes; its GET stream and the connection of that:")
        say(f"  {stream_bytes:.0f} bytes")
        if stream_bytes > STREAM_MAX_BYTES:
            self.faults.append(f"{stream_bytes:.0f} bytes a stream, the budget is {STREAM_MAX_BYTES}")
        self.end_at = time.monotonic() + options.seconds
        seen, own = [], [client.session for client in warm]
        tasks = [self.busy(own[n % len(own)]) for n in range(options.busy)]
        await asyncio.gather(self.restless(idle), self.watch(seen), *tasks)
        third = max(1, len(seen) // 3)
        early, late = max(m for m, _ in seen[:third]), max(m for m, _ in seen[-third:])
        say(f"{self.calls} calls in {options.seconds} s, {self.left} clients left at random")
        say(f"private memory: {before >> 10} KiB before, {after >> 10} idle, {early >> 10} in the")
        say(f"  first third, {late >> 10} in the last; descriptors at most {max(f for _, f in seen)}")
        if late - early > GROWTH_MAX_BYTES:
            self.faults.append(f"memory grew by {late - early} bytes within the run")
        for client in idle:
            client.leave()
        await self.until(lambda: descriptors(self.pid) <= fds_before, "descriptors of those gone")
        for client in [*warm, first]:
            client.leave()
        await self.until(lambda: descriptors(self.pid) <= fds_before, "the last descriptors")
        say(f"descriptors: {fds_before} before, {descriptors(self.pid)} after")
        dead = [child for child in children(self.pid) if child[1] == "Z"]
        if dead:
            self.faults.append(f"zombies: {dead}")


def start(directory):
    hapax = os.path.abspath(os.environ.get("HAPAX") or os.path.join(ROOT, "build/src/app/hapax"))
    stub = os.path.abspath(os.path.join(ROOT, "tests/fixtures/stub_server.py"))
    script = {"tools": {"charge": {"runs": [[{"text": "receipt $RECEIPT"}]]}}}
    config = os.path.join(directory, "hapax.yaml")
    os.makedirs(os.path.join(directory, "wire"))
    words = json.dumps(["-S", "-E", stub, directory, json.dumps(script)])
    with open(config, "w", encoding="utf-8") as file:
        file.write(
            f"ledger: {directory}/ledger\nlisten: 127.0.0.1:0\n"
            "limits: {sessions: 5000, sessions_per_principal: 5000, connections: 5000}\n"
            f"upstreams:\n  charge:\n    command: {json.dumps(sys.executable)}\n"
            f"    args: {words}\n    affinity: shared\n    class: read_only\n"
        )
    process = subprocess.Popen(
        [hapax, "serve", "--config", config], stderr=subprocess.PIPE, stdin=subprocess.DEVNULL
    )
    for line in process.stderr:
        found = re.search(rb"listening at http://127.0.0.1:(\d+)/", line)
        if found:
            return process, int(found.group(1))
        sys.stderr.buffer.write(line)
    raise SystemExit("hapax serve did not start")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--idle", type=int, default=2000)
    parser.add_argument("--busy", type=int, default=512)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 16384), hard))
    with tempfile.TemporaryDirectory() as directory:
        process, port = start(directory)
        soak = Soak(options, port, process.pid)
        try:
            asyncio.run(soak.run())
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                status = process.wait(40)
            except subprocess.TimeoutExpired:
                process.kill()
                status = process.wait()
        if status != 0:
            soak.faults.append(f"hapax serve ended with {status}")
    for fault in soak.faults[:10]:
        print(f"not ok: {fault}")
    print(f"{0 if soak.faults else 1} passed, {1 if soak.faults else 0} failed")
    return 1 if soak.faults else 0


if __name__ == "__main__":
    sys.exit(main())
