# SPDX-License-Identifier: MIT
"""A raw client over Streamable HTTP, and `hapax serve` to speak to. One connection per request in
flight, so that a test can cut the one that it means.
"""

import fcntl
import json
import os
import re
import signal
import socket
import struct
import subprocess
import threading

from kit.harness import Failure

LATEST = "2025-11-25"


class Serve:
    """One `hapax serve`, restarted at will at the same place on the same ledger."""

    def __init__(self, t, words, *options, config=None, ledger=None, env=None, is_read=True, cwd=None):
        self.t, self.words, self.options, self.env = t, words, options, env or t.env
        self.cwd = cwd
        self.is_read = is_read  # what it says, by a pipe that is full soon if nobody reads
        self.config, self.ledger = config, ledger or t.ledger
        self.process, self.port = None, 0
        self.start()
        t.at_end(self.end)

    def argv(self):
        where = [] if self.config else ["--ledger", self.ledger]
        config = ["--config", self.config] if self.config else []
        listen = ["--listen", f"127.0.0.1:{self.port}"]
        hapax = self.t.surroundings.hapax
        return [hapax, "serve", *config, *listen, *where, *self.options, *self.words]

    def start(self):
        self.process = subprocess.Popen(
            self.argv(),
            env=self.env,
            cwd=self.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if not self.is_read:
            fcntl.fcntl(self.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
        lines = []
        while not self.port or not lines:
            line = self.process.stderr.readline().decode()
            if not line:
                raise Failure(f"hapax serve ended: {''.join(lines)}")
            lines.append(line)
            found = re.search(r"listening at https?://[^ ]*:(\d+)/mcp", line)
            if found:
                self.port = int(found.group(1))
                break
        if self.is_read:
            threading.Thread(target=self.process.stderr.read, daemon=True).start()
        return self

    def kill(self):
        """SIGKILL of the process that was started, and it died of that."""
        os.kill(self.process.pid, signal.SIGKILL)
        self.t.equal(self.process.wait(), -9, "how hapax serve ended")

    def term(self, seconds=20):
        self.process.terminate()
        return self.process.wait(seconds)

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def client(self, **options):
        client = WebClient(self, **options)
        client.initialize()
        return client


class Exchange:
    """One request on a connection of its own, and what comes back."""

    def __init__(self, client, verb, path, headers, body):
        self.client = client
        port = client.serve.port
        self.conn = socket.create_connection(("127.0.0.1", port), 20)
        head = f"{verb} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        for name, value in headers:
            head += f"{name}: {value}\r\n"
        if body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        self.conn.sendall(head.encode("latin-1") + b"\r\n" + (body or b""))
        self.stream = self.conn.makefile("rb")
        self.status, self.headers, self.event_id = None, {}, None

    def head(self):
        if self.status is not None:
            return self.status
        first = self.stream.readline()
        if not first:
            raise Failure("the connection ended before an answer")
        self.status = int(first.split()[1])
        while True:
            line = self.stream.readline().strip()
            if not line:
                return self.status
            name, _, value = line.decode("latin-1").partition(":")
            self.headers[name.lower()] = value.strip()

    def chunk(self):
        """The next piece of a body in chunks; nothing at its end."""
        size = int(self.stream.readline().split(b";")[0] or b"0", 16)
        data = self.stream.read(size)
        self.stream.readline()
        return data

    def body(self):
        self.head()
        if "content-length" in self.headers:
            return self.stream.read(int(self.headers["content-length"]))
        parts = []
        while self.headers.get("transfer-encoding") == "chunked":
            part = self.chunk()
            if not part:
                break
            parts.append(part)
        return b"".join(parts)

    def events(self):
        """The events of a stream as they come: dicts of id, data."""
        self.head()
        pending = b""
        while True:
            part = self.chunk()
            if not part:
                return
            pending += part
            while b"\n\n" in pending:
                raw, _, pending = pending.partition(b"\n\n")
                event = {}
                for line in raw.split(b"\n"):
                    name, _, value = line.partition(b":")
                    if name:
                        text = value[1:] if value.startswith(b" ") else value
                        event[name.decode()] = event.get(name.decode(), b"") + text
                if "id" in event:
                    self.event_id = event["id"].decode()
                if event:
                    yield event

    def messages(self):
        self.head()
        if self.headers.get("content-type", "").startswith("application/json"):
            yield json.loads(self.body())
            return
        for event in self.events():
            if event.get("data"):
                yield json.loads(event["data"])

    def answer(self):
        """The response to what was asked; what comes before it goes to `client.others`."""
        for message in self.messages():
            if "method" not in message:
                self.close()
                return message
            self.client.others.append(message)
        raise Failure(f"the answer did not come: HTTP {self.status} {self.headers}")

    def result(self):
        message = self.answer()
        if "result" not in message:
            raise Failure(f"an error: {message}")
        return message["result"]

    def error(self):
        message = self.answer()
        if "error" not in message:
            raise Failure(f"no error: {message}")
        return message["error"]

    def wait_event_id(self):
        """Reads until the server has told an event id."""
        for _ in self.events():
            if self.event_id is not None:
                return self.event_id
        raise Failure("the stream ended without an event id")

    def reset(self):
        """Goes with what has come unread, and lets the server know that."""
        self.conn.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.stream.close()
        self.conn.close()

    def close(self):
        try:
            self.conn.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.stream.close()
        self.conn.close()


class WebClient:
    def __init__(self, serve, path="/mcp", token=None, version=LATEST):
        self.serve, self.path, self.token, self.version = serve, path, token, version
        self.session, self.next_id, self.others = None, 1, []
        self.lock = threading.Lock()

    def headers(self, more=()):
        headers = [
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ]
        if self.token:
            headers.append(("Authorization", f"Bearer {self.token}"))
        if self.session:
            headers += [("Mcp-Session-Id", self.session), ("MCP-Protocol-Version", self.version)]
        return headers + list(more)

    def post(self, message, headers=()):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return Exchange(self, "POST", self.path, self.headers(headers), body)

    def get(self, last_event_id=None):
        more = [("Last-Event-ID", last_event_id)] if last_event_id else []
        return Exchange(self, "GET", self.path, self.headers(more), None)

    def delete(self):
        return Exchange(self, "DELETE", self.path, self.headers(), None)

    def request(self, method, params=None, headers=(), request_id=None):
        with self.lock:
            request_id, self.next_id = request_id or self.next_id, self.next_id + 1
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        exchange = self.post(message, headers)
        exchange.request_id = request_id
        return exchange

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        exchange = self.post(message)
        status = exchange.head()
        exchange.close()
        return status

    def initialize(self, capabilities=None):
        params = {
            "protocolVersion": self.version,
            "capabilities": capabilities or {},
            "clientInfo": {"name": "web", "version": "1"},
        }
        exchange = self.request("initialize", params)
        exchange.head()
        self.session = exchange.headers.get("mcp-session-id")
        result = exchange.result()
        if not self.session:
            raise Failure(f"no session id: {exchange.headers}")
        self.notify("notifications/initialized")
        return result

    def call(self, tool="charge", args=None, key=None, meta=None, headers=(), **more):
        params = {"name": tool, "arguments": args if args is not None else {}, **more}
        meta = dict(meta or {})
        if key:
            meta["dev.hapax/idempotencyKey"] = key
        if meta:
            params["_meta"] = meta
        return self.request("tools/call", params, headers)

    def cancel(self, exchange, reason):
        self.notify(
            "notifications/cancelled", {"requestId": exchange.request_id, "reason": reason}
        )
