// SPDX-License-Identifier: MIT
//
// A tool server written with the official TypeScript SDK. `charge` acts first (one line, synced) and
// only then waits: what it did is on disk whatever happens to the answer. server.py is its twin.
//
// argv: the directory of the SDK package, the directory of the test.
// With {"slow": true} the answer waits until the file `release` is there.

import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, writeSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [, , package_dir, dir] = process.argv;
const sdk = (file) => import(pathToFileURL(`${package_dir}/dist/esm/${file}`).href);
const { Server } = await sdk("server/index.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = await sdk("types.js");

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
process.stdin.on("data", (chunk) => tape("client", chunk));
const write = process.stdout.write.bind(process.stdout);
process.stdout.write = (chunk, ...more) => {
    tape("server", chunk);
    return write(chunk, ...more);
};

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

const server = new Server({ name: "charge", version: "1" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({
    tools: [
        {
            name: "charge",
            description: "Charges a card once per call.",
            inputSchema: {
                type: "object",
                properties: { amount: { type: "number" }, slow: { type: "boolean" } },
            },
        },
    ],
}));
server.setRequestHandler(CallToolRequestSchema, async (request) => {
    const receipt = randomUUID();
    effect({ receipt, pid: process.pid, args: request.params.arguments });
    if (request.params.arguments?.slow) await released();
    return { content: [{ type: "text", text: `receipt ${receipt}` }] };
});
appendFileSync(`${dir}/starts`, `${process.pid}\n`);
process.stdin.on("end", () => process.exit(0));
await server.connect(new StdioServerTransport());
