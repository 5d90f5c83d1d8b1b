// SPDX-License-Identifier: MIT
//
// A tool server written with the official TypeScript SDK. `charge` acts first (one line, synced) and
// only then waits: what it did is on disk whatever happens to the answer. server.py and go/server.go
// are its twins.
//
// argv: the directory of the SDK package (of version 2: of `server`), the directory of the test, and
// for Streamable HTTP `http` (no event ids) or `events` (an event store), for the transport of
// 2024-11-05 `sse` (version 1 only); the port is then the first line of stdout. PORT in the environment names one.
// With {"slow": true} the answer waits until the file `release` is there.

import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [, , package_dir, dir, way] = process.argv;
const is_v2 = existsSync(`${package_dir}/dist/index.mjs`);
const load = (path) => import(pathToFileURL(path).href);
const sdk = (one, two) => load(`${package_dir}/dist/${is_v2 ? two : one}`);
const { Server } = await sdk("esm/server/index.js", "index.mjs");

const rest = { client: Buffer.alloc(0), server: Buffer.alloc(0) };
function tape(from, chunk) {
    let bytes = Buffer.concat([rest[from], Buffer.from(chunk)]);
    for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
        const line = bytes.subarray(0, end).toString("utf8");
        const record = JSON.stringify({ from, at: "server", line });
        appendFileSync(`${dir}/wire/server-${process.pid}.jsonl`, `${record}\n`);
        bytes = bytes.subarray(end + 1);
    }
    rest[from] = bytes;
}

function effect(line) {
    const fd = openSync(`${dir}/effects`, "a");
    writeSync(fd, JSON.stringify(line) + "\n");
    fsyncSync(fd);
    closeSync(fd);
}

async function released() {
    for (let tries = 0; tries < 6000 && !existsSync(`${dir}/release`); tries++) {
        await new Promise((wake) => setTimeout(wake, 20));
    }
}

const charge = {
    name: "charge",
    description: "Charges a card once per call.",
    inputSchema: {
        type: "object",
        properties: { amount: { type: "number" }, slow: { type: "boolean" } },
    },
};

async function call(request) {
    const receipt = randomUUID();
    effect({ receipt, pid: process.pid, args: request.params.arguments });
    if (request.params.arguments?.slow) await released();
    return { content: [{ type: "text", text: `receipt ${receipt}` }] };
}

const types = is_v2 ? undefined : await load(`${package_dir}/dist/esm/types.js`);
function make() {
    const server = new Server({ name: "charge", version: "1" }, { capabilities: { tools: {} } });
    const list = async () => ({ tools: [charge] });
    server.setRequestHandler(is_v2 ? "tools/list" : types.ListToolsRequestSchema, list);
    server.setRequestHandler(is_v2 ? "tools/call" : types.CallToolRequestSchema, call);
    return server;
}

class Events {
    constructor() {
        this.all = [];
        this.name = randomUUID();
    }
    async storeEvent(stream, message) {
        this.all.push({ stream, message });
        return `${this.name}.${this.all.length}`;
    }
    async getStreamIdForEventId(id) {
        return this.all[Number(id.split(".")[1]) - 1]?.stream;
    }
    async replayEventsAfter(last, { send }) {
        const from = Number(last.split(".")[1]);
        const stream = this.all[from - 1]?.stream;
        for (let at = from; at < this.all.length; at++) {
            const event = this.all[at];
            if (event.stream !== stream || !event.message?.jsonrpc) continue;
            await send(`${this.name}.${at + 1}`, event.message);
        }
        return stream;
    }
}

async function serve_http() {
    const { StreamableHTTPServerTransport: One, NodeStreamableHTTPServerTransport: Two } = is_v2
        ? await load(`${package_dir}/../node/dist/index.mjs`)
        : await load(`${package_dir}/dist/esm/server/streamableHttp.js`);
    const Transport = is_v2 ? Two : One;
    const sessions = new Map();
    const http = createServer(async (request, response) => {
        const id = request.headers["mcp-session-id"];
        let transport = sessions.get(id);
        if (id && !transport) {
            response.writeHead(404).end("Session not found");
            return;
        }
        if (!transport) {
            transport = new Transport({
                sessionIdGenerator: randomUUID,
                eventStore: way === "events" ? new Events() : undefined,
                onsessioninitialized: (made) => void sessions.set(made, transport),
            });
            await make().connect(transport);
        }
        await transport.handleRequest(request, response);
    });
    listen(http);
}

function listen(http) {
    http.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
        process.stdout.write(`${http.address().port}\n`);
    });
    process.stdin.on("end", () => process.exit(0)).resume();
}

async function serve_sse() {
    const { SSEServerTransport } = await load(`${package_dir}/dist/esm/server/sse.js`);
    const sessions = new Map();
    const http = createServer(async (request, response) => {
        if (request.method === "GET") {
            const transport = new SSEServerTransport("/messages", response);
            sessions.set(transport.sessionId, transport);
            await make().connect(transport);
            return;
        }
        const id = new URL(request.url, "http://here").searchParams.get("sessionId");
        const transport = sessions.get(id);
        if (transport) await transport.handlePostMessage(request, response);
        else response.writeHead(404).end("Session not found");
    });
    listen(http);
}

async function serve_stdio() {
    const { StdioServerTransport } = await sdk("esm/server/stdio.js", "stdio.mjs");
    process.stdin.on("data", (chunk) => tape("client", chunk));
    const write = process.stdout.write.bind(process.stdout);
    process.stdout.write = (chunk, ...more) => {
        tape("server", chunk);
        return write(chunk, ...more);
    };
    process.stdin.on("end", () => process.exit(0));
    await make().connect(new StdioServerTransport());
}

appendFileSync(`${dir}/starts`, `${process.pid}\n`);
await (way === "sse" ? serve_sse() : way ? serve_http() : serve_stdio());
