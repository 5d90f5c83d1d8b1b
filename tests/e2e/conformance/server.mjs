// SPDX-License-Identifier: MIT
//
// The server that the conformance package asks for: every tool, resource and prompt that its server
// scenarios name, written from their descriptions with the official TypeScript SDK. The low-level
// `Server` of the SDK is used so that what is listed here is what goes over the wire.
//
//   node server.mjs             Streamable HTTP on a free port of 127.0.0.1; prints the port
//   node server.mjs --stdio     the same server on standard input and output
//   node server.mjs --without TOOL   over HTTP, and that tool is missing: a scenario must notice
//
// The HTTP one ends with its standard input, so that nobody has to find it.

import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import {
    CallToolRequestSchema,
    CompleteRequestSchema,
    CreateMessageResultSchema,
    ElicitResultSchema,
    GetPromptRequestSchema,
    ListPromptsRequestSchema,
    ListResourcesRequestSchema,
    ListResourceTemplatesRequestSchema,
    ListToolsRequestSchema,
    ReadResourceRequestSchema,
    SubscribeRequestSchema,
    UnsubscribeRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";

const PIXEL =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==";
const SILENCE = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";
const RETRY_MS = 100;
// Longer than a gateway may wait before it turns an answer into a stream of events.
const RECONNECTION_MS = 1500;

const text = (words) => ({ type: "text", text: words });
const image = { type: "image", data: PIXEL, mimeType: "image/png" };
const resource = (uri, mimeType, words) => ({
    type: "resource",
    resource: { uri, mimeType, text: words },
});
const said = (words) => ({ content: [text(words)] });
const pause = (ms) => new Promise((wake) => setTimeout(wake, ms));

const DIALECT = "https://json-schema.org/draft/2020-12/schema";
const FULL_SCHEMA = {
    $schema: DIALECT,
    type: "object",
    $defs: {
        address: {
            $anchor: "addressDef",
            type: "object",
            properties: { street: { type: "string" }, city: { type: "string" } },
        },
    },
    properties: {
        name: { type: "string" },
        address: { $ref: "#/$defs/address" },
        contactMethod: { type: "string", enum: ["phone", "email"] },
        phone: { type: "string" },
        email: { type: "string" },
    },
    allOf: [{ anyOf: [{ required: ["phone"] }, { required: ["email"] }] }],
    if: { properties: { contactMethod: { const: "phone" } }, required: ["contactMethod"] },
    then: { required: ["phone"] },
    else: { required: ["email"] },
    additionalProperties: false,
};

const word = (more) => ({ type: "string", ...more });
const DEFAULTS = {
    type: "object",
    properties: {
        name: word({ default: "John Doe" }),
        age: { type: "integer", default: 30 },
        score: { type: "number", default: 95.5 },
        status: word({ enum: ["active", "inactive", "pending"], default: "active" }),
        verified: { type: "boolean", default: true },
    },
    required: [],
};
const options = ["option1", "option2", "option3"];
const titled = ["First", "Second", "Third"].map((title, at) => ({
    const: `value${at + 1}`,
    title: `${title} choice`,
}));
const ENUMS = {
    type: "object",
    properties: {
        untitledSingle: word({ enum: options }),
        titledSingle: word({ oneOf: titled }),
        legacyEnum: word({
            enum: ["opt1", "opt2", "opt3"],
            enumNames: ["Option one", "Option two", "Option three"],
        }),
        untitledMulti: { type: "array", items: word({ enum: options }) },
        titledMulti: { type: "array", items: { anyOf: titled } },
    },
    required: [],
};
const USER = {
    type: "object",
    properties: {
        username: word({ description: "User's response" }),
        email: word({ description: "User's email address" }),
    },
    required: ["username", "email"],
};

async function elicit(extra, message, requestedSchema) {
    const params = { message, requestedSchema };
    const request = { method: "elicitation/create", params };
    return await extra.sendRequest(request, ElicitResultSchema);
}

async function elicited(extra, requestedSchema) {
    const answer = await elicit(extra, "Please look through these fields", requestedSchema);
    const content = JSON.stringify(answer.content ?? {});
    return said(`Elicitation completed: action=${answer.action}, content=${content}`);
}

const none = { type: "object" };
const one = (name) => ({ type: "object", properties: { [name]: word({}) }, required: [name] });

// What a tool lists, and what it does with (arguments, extra).
const TOOLS = {
    test_simple_text: [none, () => said("This is a simple text response for testing.")],
    test_image_content: [none, () => ({ content: [image] })],
    test_audio_content: [
        none,
        () => ({ content: [{ type: "audio", data: SILENCE, mimeType: "audio/wav" }] }),
    ],
    test_embedded_resource: [
        none,
        () => ({
            content: [
                resource(
                    "test://embedded-resource",
                    "text/plain",
                    "This is an embedded resource content.",
                ),
            ],
        }),
    ],
    test_multiple_content_types: [
        none,
        () => ({
            content: [
                text("Multiple content types test:"),
                image,
                resource(
                    "test://mixed-content-resource",
                    "application/json",
                    '{"test":"data","value":123}',
                ),
            ],
        }),
    ],
    test_tool_with_logging: [
        none,
        async (_, extra) => {
            for (const data of ["Tool started", "Tool at work", "Tool done"]) {
                const params = { level: "info", logger: "fixture", data };
                await extra.sendNotification({ method: "notifications/message", params });
                await pause(20);
            }
            return said("Logged three times.");
        },
    ],
    test_tool_with_progress: [
        none,
        async (_, extra) => {
            const progressToken = extra._meta?.progressToken;
            for (const progress of [0, 50, 100]) {
                if (progressToken !== undefined) {
                    const params = { progressToken, progress, total: 100 };
                    await extra.sendNotification({ method: "notifications/progress", params });
                }
                await pause(20);
            }
            return said("Progressed.");
        },
    ],
    test_error_handling: [
        none,
        () => ({
            ...said("This tool intentionally returns an error for testing"),
            isError: true,
        }),
    ],
    test_sampling: [
        one("prompt"),
        async (given, extra) => {
            const messages = [{ role: "user", content: text(given.prompt) }];
            const params = { messages, maxTokens: 100 };
            const request = { method: "sampling/createMessage", params };
            const answer = await extra.sendRequest(request, CreateMessageResultSchema);
            return said(`LLM response: ${answer.content.text}`);
        },
    ],
    test_elicitation: [
        one("message"),
        async (given, extra) => {
            const answer = await elicit(extra, given.message, USER);
            return said(`User response: ${JSON.stringify(answer)}`);
        },
    ],
    test_elicitation_sep1034_defaults: [none, (_, extra) => elicited(extra, DEFAULTS)],
    test_elicitation_sep1330_enums: [none, (_, extra) => elicited(extra, ENUMS)],
    test_reconnection: [
        none,
        async (_, extra) => {
            extra.closeSSEStream?.(); // absent on stdio, and before revision 2025-11-25
            await pause(RECONNECTION_MS);
            return said("Finished while the stream was closed.");
        },
    ],
    json_schema_2020_12_tool: [FULL_SCHEMA, () => said("Seen.")],
};

if (process.argv[2] === "--without") delete TOOLS[process.argv[3]];

const RESOURCES = {
    "test://static-text": {
        mimeType: "text/plain",
        text: "This is the content of the static text resource.",
    },
    "test://static-binary": { mimeType: "image/png", blob: PIXEL },
    "test://watched-resource": { mimeType: "text/plain", text: "Watched." },
};

function contents(uri) {
    if (RESOURCES[uri]) return { contents: [{ uri, ...RESOURCES[uri] }] };
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (!id) throw Object.assign(new Error(`no resource ${uri}`), { code: -32002 });
    const data = JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` });
    return { contents: [{ uri, mimeType: "application/json", text: data }] };
}

const user = (content) => ({ role: "user", content });
const argument = (name) => ({ name, description: `The argument ${name}`, required: true });
const PROMPTS = {
    test_simple_prompt: [[], () => [user(text("This is a simple prompt for testing."))]],
    test_prompt_with_arguments: [
        [argument("arg1"), argument("arg2")],
        (given) => [
            user(text(`Prompt with arguments: arg1='${given.arg1}', arg2='${given.arg2}'`)),
        ],
    ],
    test_prompt_with_embedded_resource: [
        [argument("resourceUri")],
        (given) => [
            user(
                resource(
                    given.resourceUri,
                    "text/plain",
                    "Embedded resource content for testing.",
                ),
            ),
            user(text("Please process the embedded resource above.")),
        ],
    ],
    test_prompt_with_image: [
        [],
        () => [user(image), user(text("Please analyze the image above."))],
    ],
};

function entry(table, name) {
    if (Object.hasOwn(table, name)) return table[name];
    throw Object.assign(new Error(`nothing is named ${name}`), { code: -32602 });
}

function server() {
    const capabilities = {
        tools: {},
        resources: { subscribe: true },
        prompts: {},
        logging: {},
        completions: {},
    };
    const made = new Server({ name: "hapax-conformance-fixture", version: "1" }, { capabilities });
    const watched = new Set();
    made.setRequestHandler(ListToolsRequestSchema, () => ({
        tools: Object.entries(TOOLS).map(([name, [inputSchema]]) => ({
            name,
            description: `The tool ${name} of the conformance scenarios`,
            inputSchema,
        })),
    }));
    made.setRequestHandler(CallToolRequestSchema, ({ params }, extra) =>
        entry(TOOLS, params.name)[1](params.arguments ?? {}, extra),
    );
    made.setRequestHandler(ListResourcesRequestSchema, () => ({
        resources: Object.entries(RESOURCES).map(([uri, { mimeType }]) => ({
            uri,
            name: uri.slice("test://".length),
            description: `The resource ${uri}`,
            mimeType,
        })),
    }));
    made.setRequestHandler(ListResourceTemplatesRequestSchema, () => ({
        resourceTemplates: [
            {
                uriTemplate: "test://template/{id}/data",
                name: "template",
                description: "Data of an id",
                mimeType: "application/json",
            },
        ],
    }));
    made.setRequestHandler(ReadResourceRequestSchema, ({ params }) => contents(params.uri));
    made.setRequestHandler(SubscribeRequestSchema, ({ params }) => {
        watched.add(params.uri);
        return {};
    });
    made.setRequestHandler(UnsubscribeRequestSchema, ({ params }) => {
        watched.delete(params.uri);
        return {};
    });
    made.setRequestHandler(ListPromptsRequestSchema, () => ({
        prompts: Object.entries(PROMPTS).map(([name, [given]]) => ({
            name,
            description: `The prompt ${name} of the conformance scenarios`,
            arguments: given,
        })),
    }));
    made.setRequestHandler(GetPromptRequestSchema, ({ params }) => ({
        messages: entry(PROMPTS, params.name)[1](params.arguments ?? {}),
    }));
    made.setRequestHandler(CompleteRequestSchema, ({ params }) => {
        const known = ["paris", "park", "party"];
        const values = known.filter((value) => value.startsWith(params.argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
    return made;
}

// Events of all streams of one session in the order in which they came; an id is the place of its
// event. What is replayed belongs to the stream of the id that the client names.
class Events {
    #all = [];
    async storeEvent(stream, message) {
        this.#all.push({ stream, message });
        return String(this.#all.length);
    }
    async getStreamIdForEventId(id) {
        return this.#all[Number(id) - 1]?.stream;
    }
    async replayEventsAfter(id, { send }) {
        const stream = await this.getStreamIdForEventId(id);
        if (stream === undefined) throw new Error(`no event ${id}`);
        for (let at = Number(id); at < this.#all.length; at++) {
            const event = this.#all[at];
            // The first event of a stream carries no message: it only gives the client an id.
            if (event.stream === stream && event.message.jsonrpc) {
                await send(String(at + 1), event.message);
            }
        }
        return stream;
    }
}

const sessions = new Map();

function refuse(response, status, code, message) {
    const body = JSON.stringify({ jsonrpc: "2.0", id: null, error: { code, message } });
    response.writeHead(status, { "content-type": "application/json" }).end(body);
}

// A page in a browser reaches us by a name of its own: only loopback names are ours.
function isLocal(value) {
    return /^(https?:\/\/)?(localhost|127\.0\.0\.1|\[::1\])(:\d+)?$/.test(value);
}

async function answer(request, response) {
    const { host, origin } = request.headers;
    if (!isLocal(host ?? "") || (origin !== undefined && !isLocal(origin))) {
        return refuse(response, 403, -32000, "this name is not ours");
    }
    if (request.url !== "/mcp") return refuse(response, 404, -32000, "only /mcp is here");
    const id = request.headers["mcp-session-id"];
    if (id !== undefined) {
        const known = sessions.get(id);
        if (!known) return refuse(response, 404, -32001, "no such session");
        return await known.handleRequest(request, response);
    }
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new Events(),
        retryInterval: RETRY_MS,
        onsessioninitialized: (made) => void sessions.set(made, transport),
        onsessionclosed: (gone) => void sessions.delete(gone),
    });
    await server().connect(transport);
    await transport.handleRequest(request, response);
}

if (process.argv[2] === "--stdio") {
    process.stdin.on("end", () => process.exit(0));
    await server().connect(new StdioServerTransport());
} else {
    const http = createServer((request, response) => {
        answer(request, response).catch((error) => {
            process.stderr.write(`${error.stack}\n`);
            response.destroy();
        });
    });
    http.listen(0, "127.0.0.1", () => process.stdout.write(`${http.address().port}\n`));
    process.stdin.on("end", () => process.exit(0)).resume();
}
