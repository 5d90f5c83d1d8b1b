#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A receiver of Hapax's events that counts each of them once, with nothing but Python's own library.

    examples/outbox_consumer.py --port 8750 --secret-file secret --database seen.db

Hapax delivers an event at least once: when our answer was lost, or Hapax was killed before it could
write down that we have it, the same event comes again under the same id. So the id is written in the
same transaction as whatever we do about the event; if it is there already, nothing is done. Only then
we answer 204, since an answer before that could lose the event.

What is done here is to add a row to a table. Where the effect is in another system, hand it the id as
its key for the same purpose.
"""

import argparse
import base64
import hashlib
import hmac
import http.server
import json
import sqlite3
import threading
import time

TOLERANCE_SECONDS = 300  # an older signature may be a recorded request that somebody plays again
BODY_MAX = 64 * 1024


def read_secrets(path):
    """One secret a line, as for outbox_secret_file; "whsec_" says that base64 follows."""
    with open(path, "rb") as file:
        lines = [line.rstrip(b"\r\n") for line in file]
    return [
        base64.b64decode(line[len(b"whsec_") :]) if line.startswith(b"whsec_") else line
        for line in lines
        if line and not line.startswith(b"#")
    ]


def is_genuine(headers, body, secrets, now):
    """Whether somebody who knows one of the secrets sent this body, under this id, just now."""
    ident, seconds = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not seconds.isdecimal() or abs(now - int(seconds)) > TOLERANCE_SECONDS:
        return False
    signed = ident.encode() + b"." + seconds.encode() + b"." + body
    wanted = [hmac.new(secret, signed, hashlib.sha256).digest() for secret in secrets]
    for given in headers.get("webhook-signature", "").split():
        version, _, text = given.partition(",")
        try:
            digest = base64.b64decode(text, validate=True)
        except ValueError:
            continue
        if version == "v1" and any(hmac.compare_digest(digest, one) for one in wanted):
            return True
    return False


class Store:
    """The events that we have, each once, in the order in which they came first."""

    def __init__(self, path):
        self.lock = threading.Lock()
        self.database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute("PRAGMA synchronous = FULL")
        self.database.execute(
            "CREATE TABLE IF NOT EXISTS event(place INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE,"
            " operation TEXT, type TEXT, sequence TEXT, body TEXT)"
        )
        self.database.execute("CREATE TABLE IF NOT EXISTS repeat(id TEXT)")

    def take(self, event, body):
        """True when it is new. One transaction: the id and what we do about the event."""
        with self.lock, self.database:
            self.database.execute("BEGIN IMMEDIATE")
            added = self.database.execute(
                "INSERT OR IGNORE INTO event(id, operation, type, sequence, body) VALUES (?, ?, ?, ?, ?)",
                (
                    event["id"],
                    event["data"]["operation"],
                    event["type"],
                    event.get("sequence"),
                    body.decode(),
                ),
            ).rowcount
            if added == 0:
                self.database.execute("INSERT INTO repeat(id) VALUES (?)", (event["id"],))
            # Here stands what the event is to cause, in the same transaction.
            self.database.execute("COMMIT")
        return added == 1


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status):
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_POST(self):
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > BODY_MAX:
            self.close_connection = True
            return self.answer(413)
        body = self.rfile.read(int(length))
        if not is_genuine(self.headers, body, self.server.secrets, time.time()):
            return self.answer(401)
        event = json.loads(body)
        # The signature binds the id of the header, so it must be that of the event.
        if event.get("specversion") != "1.0" or event["id"] != self.headers["webhook-id"]:
            return self.answer(400)
        self.server.store.take(event, body)
        return self.answer(204)

    def log_message(self, *arguments):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address, handler, secrets, store):
        super().__init__(address, handler)
        self.secrets, self.store = secrets, store

    def handle_error(self, request, address):
        pass  # a sender that went away; it comes again


def main():
    parser = argparse.ArgumentParser(description="Receives the events of Hapax, each once.")
    parser.add_argument("--port", type=int, default=8750)
    parser.add_argument("--secret-file", required=True)
    parser.add_argument("--database", required=True)
    words = parser.parse_args()
    server = Server(
        ("127.0.0.1", words.port), Handler, read_secrets(words.secret_file), Store(words.database)
    )
    print(f"listening at http://127.0.0.1:{server.server_address[1]}/", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
