// SPDX-License-Identifier: MIT
// Keys for MCP tool calls that stay the same when a framework runs a step again. This part needs the
// MCP SDK alone; "@hapax/mcp/langgraph" is for LangGraph.js.
export { HapaxError, HapaxOpen, HapaxRefused, HapaxUnavailable, operationOf } from "./answers.js";
export type { Operation } from "./answers.js";
export { callOnce } from "./call.js";
export type { CallOptions } from "./call.js";
export { stepKey } from "./keys.js";
