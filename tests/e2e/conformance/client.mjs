// SPDX-License-Identifier: MIT
//
// Hapax as the client of the conformance package's client scenarios: a program on stdio, the SDK's,
// which speaks to the scenario's server through `hapax run URL`. What the scenario sees on HTTP is
// Hapax; what it wants asked is here.
//
// argv: the hapax program, the ledger, the revision to ask for, and the URL that the package appends.

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { ElicitRequestSchema, LATEST_PROTOCOL_VERSION } from "@modelcontextprotocol/sdk/types.js";

const [, , hapax, ledger, revision, url] = process.argv;

// What each scenario wants called once the hands are shaken.
const SCENARIOS = {
    initialize: async (client) => await client.listTools(),
    tools_call: async (client) => {
        await client.listTools();
        await client.callTool({ name: "add_numbers", arguments: { a: 5, b: 3 } });
    },
    "sse-retry": async (client) => {
        await client.listTools();
        const result = await client.callTool({ name: "test_reconnection", arguments: {} });
        if (!JSON.stringify(result).includes("Reconnection test completed")) {
            throw new Error(`not the server's result: ${JSON.stringify(result)}`);
        }
    },
    "elicitation-sep1034-client-defaults": async (client) => {
        await client.listTools();
        await client.callTool({ name: "test_client_elicitation_defaults", arguments: {} });
    },
    "json-schema-2020-12-preservation": async (client) => {
        const { tools } = await client.listTools();
        const schema = tools.find((tool) => tool.name === "json_schema_2020_12_tool").inputSchema;
        await client.callTool({ name: "json_schema_echo", arguments: { schema } });
    },
};

const client = new Client(
    { name: "hapax-conformance-client", version: "1" },
    { capabilities: { elicitation: { form: { applyDefaults: true } } } },
);
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: {} }));

// The SDK asks for its newest revision; a scenario of an older one must be asked in that.
const transport = new StdioClientTransport({
    command: hapax,
    args: ["run", "--ledger", ledger, "--name", "conformance", url],
    env: process.env,
    stderr: "inherit",
});
const send = transport.send.bind(transport);
transport.send = (message, ...more) => {
    if (message.method === "initialize" && message.params.protocolVersion === LATEST_PROTOCOL_VERSION) {
        message.params.protocolVersion = revision;
    }
    return send(message, ...more);
};

await client.connect(transport);
await SCENARIOS[process.env.MCP_CONFORMANCE_SCENARIO](client);
await client.close();
