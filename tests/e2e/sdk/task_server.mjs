// SPDX-License-Identifier: MIT
//
// A server of the official TypeScript SDK whose tools run as tasks (2025-11-25). Each acts first (one
// line, synced) and then works in the background. The store of tasks lives as long as the process and
// is not bound to a session, as a store bound to who may ask is.
//
// argv: the directory of the SDK package, the directory of the test, `http` or nothing (stdio).
// {"slow": true} works until the file `release` is there; {"fail": true} ends as failed; {"ask": true}
// asks a person; {"steps": N} tells N steps of progress.

import { appendFileSync, closeSync, existsSync, fsyncSync, openSync, writeSync } from "node:fs";
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { pathToFileURL } from "node:url";

const [, , package_dir, dir, way] = process.argv;
const load = (path) => import(pathToFileURL(`${package_dir}/dist/esm/${path}`).href);
const { Server } = await load("server/index.js");
const { InMemoryTaskStore, InMemoryTaskMessageQueue } = await load(
    "experimental/tasks/stores/in-memory.js",
);
const types = await load("types.js");

class Store extends InMemoryTaskStore {
    lookup(id) {
        note("looked", id);
        return this.tasks.get(id);
    }
}
const taskStore = new Store();
const taskMessageQueue = new InMemoryTaskMessageQueue();

function note(file, line) {
    const fd = openSync(`${dir}/${file}`, "a");
    writeSync(fd, JSON.stringify(line) + "\n");
    fsyncSync(fd);
    closeSync(fd);
}

async function released() {
    for (let tries = 0; tries < 3000 && !existsSync(`${dir}/release`); tries++)
        await new Promise((wake) => setTimeout(wake, 20));
}

const tool = (name, execution) => ({
    name,
    description: "Charges a card once per call.",
    inputSchema: { type: "object" },
    ...(execution ? { execution } : {}),
    ...(name === "look" ? { annotations: { readOnlyHint: true } } : {}),
});

async function work(server, extra, task, args, receipt) {
    let text = `receipt ${receipt}`;
    for (let step = 1; step <= (args?.steps ?? 0); step++)
        await extra.sendNotification({
            method: "notifications/progress",
            params: { progressToken: extra._meta?.progressToken, progress: step },
        });
    if (args?.slow) await released();
    if (args?.ask) {
        await extra.taskStore.updateTaskStatus(task.taskId, "input_required");
        const said = await extra.sendRequest(
            {
                method: "elicitation/create",
                params: { mode: "form", message: "Sure?", requestedSchema: { type: "object", properties: {} } },
            },
            types.ElicitResultSchema,
            { relatedTask: { taskId: task.taskId } },
        );
        text += ` ${said.action}`;
    }
    const result = { content: [{ type: "text", text }], ...(args?.fail ? { isError: true } : {}) };
    await taskStore.storeTaskResult(task.taskId, args?.fail ? "failed" : "completed", result);
    server._taskChanged?.();
}

function make() {
    const server = new Server(
        { name: "tasks", version: "1" },
        {
            capabilities: { tools: {}, tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } },
            taskStore,
            taskMessageQueue,
        },
    );
    server.setRequestHandler(types.ListToolsRequestSchema, async () => ({
        tools: [
            tool("charge", { taskSupport: "required" }),
            tool("look", { taskSupport: "required" }),
            tool("maybe", { taskSupport: "optional" }),
        ],
    }));
    server.setRequestHandler(types.CallToolRequestSchema, async (request, extra) => {
        const { name, arguments: args, task: wanted } = request.params;
        if (name !== "maybe" && !wanted)
            throw new types.McpError(types.ErrorCode.MethodNotFound, "this tool runs as a task");
        const receipt = randomUUID();
        note("effects", { receipt, pid: process.pid, args, task: wanted ?? null });
        if (!wanted) return { content: [{ type: "text", text: `receipt ${receipt}` }] };
        const task = await extra.taskStore.createTask({ ttl: wanted.ttl, pollInterval: 100 });
        if (!args?.silent) setImmediate(() => work(server, extra, task, args, receipt).catch((e) => note("faults", String(e))));
        return { task };
    });
    return server;
}

async function serve_http() {
    const { StreamableHTTPServerTransport } = await load("server/streamableHttp.js");
    const sessions = new Map();
    const http = createServer(async (request, response) => {
        const id = request.headers["mcp-session-id"];
        let transport = sessions.get(id);
        if (id && !transport) return void response.writeHead(404).end("Session not found");
        if (!transport) {
            transport = new StreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                onsessioninitialized: (made) => void sessions.set(made, transport),
            });
            await make().connect(transport);
        }
        await transport.handleRequest(request, response);
    });
    http.listen(Number(process.env.PORT ?? 0), "127.0.0.1", () => {
        process.stdout.write(`${http.address().port}\n`);
    });
    process.stdin.on("end", () => process.exit(0)).resume();
}

async function serve_stdio() {
    const { StdioServerTransport } = await load("server/stdio.js");
    process.stdin.on("data", (chunk) => appendFileSync(`${dir}/heard`, chunk));
    process.stdin.on("end", () => process.exit(0));
    await make().connect(new StdioServerTransport());
}

await (way ? serve_http() : serve_stdio());
