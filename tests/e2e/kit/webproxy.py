# SPDX-License-Identifier: MIT
"""TCP proxies between a client over Streamable HTTP and what it speaks to; neither changes a byte.

`WebProxy` reads along, so that what a real SDK sends is known without a hook in it; it holds a
request back when told, and cuts the connection of one. `ByteCutter` cuts after a number of bytes.
"""

import asyncio
import json
import re
import select
import socket
import struct
import threading
import time

CALL, CANCEL = "tools/call", "notifications/cancelled"


class Request:
    """One request as it passed. `seen` counts what came before it, over all connections."""

    def __init__(self, conn, seen, head, body):
        first, *lines = head.decode("latin-1").split("\r\n")
        self.conn, self.seen, self.body = conn, seen, body
        self.verb, self.path = first.split()[:2]
        self.headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            if name:
                self.headers[name.lower()] = value.strip()
        try:
            self.message = json.loads(body)
        except ValueError:
            self.message = {}
        self.method = self.message.get("method") if isinstance(self.message, dict) else None

    def __repr__(self):
        return f"{self.verb} {self.method or ''} {self.headers.get('last-event-id', '')}"


class Framer:
    """Cuts one direction of HTTP/1.1 into messages: (head, body), and heads and events of a stream as
    they end. What it cannot read is the proxy's own fault: SDKs and servers here write plain HTTP.
    """

    def __init__(self, on_message, on_head=None, on_event=None):
        self.buffer, self.steps = b"", self.run()
        self.on_message, self.on_head, self.on_event = on_message, on_head, on_event
        next(self.steps)

    def feed(self, data):
        self.buffer += data
        self.steps.send(None)

    def line(self):
        while b"\r\n" not in self.buffer:
            yield
        line, self.buffer = self.buffer.split(b"\r\n", 1)
        return line

    def exactly(self, count):
        while len(self.buffer) < count:
            yield
        data, self.buffer = self.buffer[:count], self.buffer[count:]
        return data

    def run(self):
        while True:
            while b"\r\n\r\n" not in self.buffer:
                yield
            head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
            if self.on_head:
                self.on_head(head)
            low = head.lower()
            body, size = b"", 0
            if b"\r\ntransfer-encoding: chunked" in low:
                body = yield from self.chunks(b"text/event-stream" in low)
            elif b"\r\ncontent-length:" in low:
                size = int(low.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0])
                body = yield from self.exactly(size)
            if not low.startswith(b"http/1.1 1"):
                self.on_message(head, body)

    def chunks(self, is_stream):
        body = b""
        while True:
            size = int((yield from self.line()).split(b";")[0], 16)
            body += yield from self.exactly(size)
            yield from self.line()
            if size == 0:
                return body
            if is_stream and self.on_event:
                *events, body = body.replace(b"\r\n", b"\n").split(b"\n\n")
                for event in events:
                    self.on_event(event)


class Pair:
    """A client's connection and ours to the server."""

    def __init__(self, proxy, number):
        self.proxy, self.number, self.writers = proxy, number, []
        self.is_cut, self.is_open, self.event_ids = False, False, []

    async def run(self, reader, writer):
        try:
            up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.proxy.target)
        except OSError:
            writer.transport.abort()
            return
        self.writers, self.is_open = [writer, up_writer], True
        self.up = Framer(self.on_request)
        self.down = Framer(self.on_response, self.on_response_head, self.on_event)
        self.ready = []
        await asyncio.gather(self.pump(reader, up_writer, "up"), self.pump(up_reader, writer, "down"))

    async def pump(self, reader, writer, way):
        try:
            while data := await reader.read(65536):
                await self.pass_on(data, writer, way)
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            # Whatever ends one side ends the other: no half-open connections through here.
            self.close()
            self.is_open = False

    async def pass_on(self, data, writer, way):
        """The bytes that end a request wait while somebody holds it."""
        if way == "up":
            self.up.feed(data)
            ready, self.ready = self.ready, []
            for request in ready:
                while any(hold(request) for hold in self.proxy.holds):
                    await asyncio.sleep(0.01)
        else:
            self.down.feed(data)  # written down before the client can say that it had it
        writer.write(data)
        await writer.drain()

    def on_request(self, head, body):
        request = Request(self, len(self.proxy.requests), head, body)
        self.proxy.requests.append(request)
        self.ready.append(request)
        if body:
            self.proxy.record("client", body)

    def on_response_head(self, head):
        """A client may act on a head alone, and says so before the rest of it has come by."""
        self.proxy.statuses.append(int(head.split()[1]))

    def on_response(self, head, body):
        if b"application/json" in head.lower() and body:
            self.proxy.record("server", body)

    def on_event(self, event):
        ids = [line[3:].strip() for line in event.split(b"\n") if line.startswith(b"id:")]
        self.event_ids += ids
        data = b"\n".join(
            line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:")
        )
        if data:
            self.proxy.record("server", data)

    def cut(self):
        """As a cable that is pulled and a router that says so: reset on both sides."""
        self.is_cut = True
        for writer in self.writers:
            reset = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            writer.transport.abort()

    def close(self):
        for writer in self.writers:
            writer.close()


class WebProxy:
    """`wire` names a file that gets the messages which passed, for the judge of the schemas."""

    def __init__(self, t, target, wire=None):
        self.target, self.wire, self.lock = target, wire, threading.Lock()
        self.requests, self.statuses, self.holds, self.pairs = [], [], [], []
        self.loop = asyncio.new_event_loop()
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1024)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        t.at_end(self.end)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(asyncio.start_server(self._accept, sock=self.listener))
        self.loop.run_forever()
        tasks = asyncio.all_tasks(self.loop)
        for task in tasks:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        for pair in self.pairs:
            for writer in pair.writers:
                writer.transport.abort()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.listener.close()

    async def _accept(self, reader, writer):
        pair = Pair(self, len(self.pairs))
        self.pairs.append(pair)
        try:
            await pair.run(reader, writer)
        except asyncio.CancelledError:
            pass  # the end of the test; the streams of Python 3.11 complain about a cancelled task

    def record(self, sender, line):
        if self.wire is None:
            return
        try:
            text = json.dumps(json.loads(line))
        except ValueError:
            return
        with open(self.wire, "a", encoding="utf-8") as out:
            out.write(json.dumps({"from": sender, "at": "client", "line": text}) + "\n")

    def of(self, method):
        return [request for request in self.requests if request.method == method]

    def gets(self):
        return [request for request in self.requests if request.verb == "GET"]

    def are_open(self):
        """Whether a connection still is: one whose server died is closed a moment after."""
        return any(pair.is_open for pair in self.pairs)

    def cut(self, request):
        """The connection on which this request came."""
        done = threading.Event()

        def now():
            request.conn.cut()
            done.set()

        self.loop.call_soon_threadsafe(now)
        done.wait(10)

    def hold(self, predicate):
        """Requests that fit wait here; call what this returns to let them go."""
        self.holds.append(predicate)
        return lambda: self.holds.remove(predicate)

    def end(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)


def wait_end_known(port, from_port, seconds=20.0):
    """Until the connection at `port` of this machine from `from_port` is no longer an open one there.
    The kernel of a busy machine delivers some later than others, over loopback too.
    """
    row = re.compile(rf":{port:04X} \w+:{from_port:04X} 01 ")
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with open("/proc/net/tcp", encoding="ascii") as connections:
            if not any(row.search(line) for line in connections):
                return
        time.sleep(0.001)


class ByteCutter:
    """`arm(way, count, is_rude)`: the next `count` bytes of that direction pass, on whatever
    connection, and then that connection is cut. The rest stays unread in the kernel, as from a peer
    that died there. `was_cut` tells whether it happened.
    """

    def __init__(self, t, target):
        self.target, self.lock = target, threading.Lock()
        self.way, self.left, self.is_rude, self.was_cut = None, 0, False, False
        self.passed = {"up": 0, "down": 0}
        self.listener = socket.socket()
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1024)
        self.port = self.listener.getsockname()[1]
        self.is_over = False
        threading.Thread(target=self._accept, daemon=True).start()
        t.at_end(self.end)

    def arm(self, way, count, is_rude=False):
        with self.lock:
            self.way, self.left, self.is_rude, self.was_cut = way, count, is_rude, False
            self.passed = {"up": 0, "down": 0}

    def disarm(self):
        with self.lock:
            self.way = None
            return self.was_cut

    def passed_on(self, way):
        """Bytes of that direction since it was armed."""
        with self.lock:
            return self.passed[way]

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        try:
            server = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        ends = {client: (server, "up"), server: (client, "down")}
        try:
            while not self.is_over:
                for source in select.select(list(ends), [], [], 1)[0]:
                    if not self._pass_on(source, *ends[source]):
                        self._close(server, client)
                        return
        except (OSError, ValueError):
            pass
        self._close(server, client)

    def _pass_on(self, source, target, way):
        with self.lock:
            is_counted = way == self.way
            if is_counted and self.left == 0:
                if not source.recv(1, socket.MSG_PEEK):
                    return False  # an end, no byte
                self.way, self.was_cut = None, True
                return False
            data = source.recv(self.left if is_counted else 65536)
            if data:
                target.sendall(data)
            self.passed[way] += len(data)
            if is_counted:
                self.left -= len(data)
                if self.left == 0 and data:
                    self.way, self.was_cut = None, True
                    return False
            return bool(data)

    def _close(self, server, client):
        """The server's first, until its kernel knows of it: a client that calls again has lost its
        connection for both sides. The other order is a client that knows earlier, which nobody can
        tell from one that was answered.
        """
        own_port = server.getsockname()[1]
        for end in (server, client):
            if self.is_rude:
                reset = struct.pack("ii", 1, 0)
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            end.close()
            if end is server:
                wait_end_known(self.target, own_port)

    def end(self):
        self.is_over = True
        self.listener.close()
