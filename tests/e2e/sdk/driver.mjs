// SPDX-License-Identifier: MIT
//
// The official TypeScript SDK as a client, driven by lines of JSON on stdin, so that one scenario
// written once runs with every SDK (driver.py and go/main.go are its twins). It adds nothing but a
// copy of the wire of stdio; that of HTTP is kept by the proxy of the test:
//
//   {"ref":1,"do":"connect","command":C,"args":[],"env":{},"wire":FILE}  -> {"ref":1,"ok":{"pid":N}}
//     with "elicit":[WORD,...] the client can be asked, and a person answers each question by a word
//   {"ref":1,"do":"connect","url":URL}                                   -> {"ref":1,"ok":{"version":V}}
//   {"ref":2,"do":"call","tool":T,"args":{},"timeout_ms":N,"key":K}      -> {"ref":2,"ok":RESULT}
//   {"ref":3,"do":"abort","of":2,"reason":"user pressed Esc"}            -> {"ref":3,"ok":{}}
//   {"ref":4,"do":"close"}                                               -> {"ref":4,"ok":{}}
//
// What went wrong is {"ref":N,"error":{"kind":...,"code":...,"message":...}}.
//
// argv: the directory of the SDK package to use: one of version 1, or `client` of version 2.

import { appendFileSync, existsSync } from "node:fs";
import { pathToFileURL } from "node:url";
import { createInterface } from "node:readline";

const package_dir = process.argv[2];
const is_v2 = existsSync(`${package_dir}/dist/index.mjs`);
const sdk = (one, two) => import(pathToFileURL(`${package_dir}/dist/${is_v2 ? two : one}`).href);
const { Client } = await sdk("esm/client/index.js", "index.mjs");
const { StdioClientTransport } = await sdk("esm/client/stdio.js", "stdio.mjs");
const { StreamableHTTPClientTransport } = await sdk("esm/client/streamableHttp.js", "index.mjs");

class Tape {
    constructor(file) {
        this.file = file;
        this.rest = { client: Buffer.alloc(0), server: Buffer.alloc(0) };
    }
    write(from, chunk) {
        let bytes = Buffer.concat([this.rest[from], Buffer.from(chunk)]);
        for (let end = bytes.indexOf(10); end >= 0; end = bytes.indexOf(10)) {
            const line = bytes.subarray(0, end).toString("utf8");
            appendFileSync(this.file, JSON.stringify({ from, at: "client", line }) + "\n");
            bytes = bytes.subarray(end + 1);
        }
        this.rest[from] = bytes;
    }
}

class TapedTransport extends StdioClientTransport {
    constructor(params, tape) {
        super(params);
        this.tape = tape;
    }
    async start() {
        await super.start();
        const child = this._process;
        const write = child.stdin.write.bind(child.stdin);
        child.stdin.write = (chunk, ...rest) => {
            this.tape.write("client", chunk);
            return write(chunk, ...rest);
        };
        child.stdout.prependListener("data", (chunk) => this.tape.write("server", chunk));
    }
}

const say = (message) => process.stdout.write(JSON.stringify(message) + "\n");
const aborts = new Map();
let client;
let transport;

const verbs = {
    async connect({ command, args, env, wire, url, headers, elicit }) {
        transport = url
            ? new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } })
            : new TapedTransport({ command, args, env, stderr: "inherit" }, new Tape(wire));
        client = new Client({ name: "hapax-e2e", version: "1" }, { capabilities: elicit ? { elicitation: {} } : {} });
        if (elicit) {
            const { ElicitRequestSchema } = await sdk("esm/types.js", "index.mjs");
            client.setRequestHandler(ElicitRequestSchema, async () => {
                return { action: "accept", content: { decision: elicit.shift() } };
            });
        }
        await client.connect(transport);
        return { pid: transport.pid, version: transport.protocolVersion };
    },
    async call({ ref, tool, args, timeout_ms, key }) {
        const params = { name: tool, arguments: args };
        if (key) params._meta = { "dev.hapax/idempotencyKey": key };
        const abort = new AbortController();
        aborts.set(ref, abort);
        const options = { timeout: timeout_ms ?? 60000, signal: abort.signal };
        return is_v2 ? client.callTool(params, options) : client.callTool(params, undefined, options);
    },
    async abort({ of, reason }) {
        aborts.get(of).abort(reason);
        return {};
    },
    async list() {
        return client.listTools();
    },
    async close() {
        await client.close();
        return {};
    },
};

for await (const line of createInterface({ input: process.stdin })) {
    const command = JSON.parse(line);
    if (command.do === "quit") break;
    verbs[command.do](command).then(
        (ok) => say({ ref: command.ref, ok }),
        (e) => {
            const error = { kind: e?.constructor?.name, code: e?.code, message: String(e?.message ?? e) };
            say({ ref: command.ref, error });
        },
    );
}
process.exit(0);
