// SPDX-License-Identifier: MIT
// What Hapax says about a call: read from a result or an error, and said again to a model.
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";

export const META_KEY = "dev.hapax/idempotencyKey";
export const META_OPERATION = "dev.hapax/operation";

// One word a model can hold on to, before the sentence that Hapax gives.
const STATUS: Record<string, string> = {
  BUSY: "running",
  OUTCOME_UNKNOWN: "unknown",
  RESULT_UNAVAILABLE: "done, its result is not kept",
  FAILED: "nothing happened",
  APPROVAL_REQUIRED: "waiting for a person's approval",
  REPEAT_SUSPECTED: "not sent",
  CANCELLED: "cancelled, nothing happened",
  KEY_EXPIRED: "not known any more",
};

/** `_meta["dev.hapax/operation"]` of an answer. Without `code` it is the tool's own result. */
export interface Operation {
  id?: string;
  code?: string;
  execution?: string;
  effect?: string;
  replayed: boolean;
  joined: boolean;
  waitMs: number;
  newKeyAllowed: boolean;
}

/** What Hapax answered in the tool's stead. `code` is the row of its table of answers. */
export class HapaxError extends Error {
  constructor(
    readonly code: string,
    message: string,
    readonly operation?: Operation,
  ) {
    super(message);
    this.name = new.target.name;
  }
}

/**
 * The key is wrong or belongs to another call, so the program has to change; nothing was sent.
 * `status` is what LangGraph.js's default retry looks at: 409 is not repeated.
 */
export class HapaxRefused extends HapaxError {
  readonly status = 409;
}

/** Nothing was sent: the server or the ledger cannot be reached. A repeat carries the same key. */
export class HapaxUnavailable extends HapaxError {}

/** The call runs, waits, or may have happened. A repeat of the node asks for it and runs nothing. */
export class HapaxOpen extends HapaxError {}

function parse(value: unknown): Operation | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const raw = value as Record<string, unknown>;
  const text = (name: string) => (typeof raw[name] === "string" ? (raw[name] as string) : undefined);
  const wait = raw.retry_after_ms ?? raw.poll_after_ms;
  return {
    id: text("id"),
    code: text("code"),
    execution: text("execution"),
    effect: text("effect"),
    replayed: raw.replayed === true,
    joined: raw.joined === true,
    waitMs: typeof wait === "number" && wait > 0 ? wait : 0,
    newKeyAllowed: raw.new_key_allowed === true,
  };
}

/** What Hapax says in this answer; undefined when the answer is not from Hapax. */
export function operationOf(answer: CallToolResult | McpError): Operation | undefined {
  const source = answer instanceof McpError ? answer.data : answer._meta;
  if (typeof source !== "object" || source === null) return undefined;
  return parse((source as Record<string, unknown>)[META_OPERATION]);
}

/** Whether a repeat of this intent must carry the same key again. */
export function isOpen(operation: Operation | undefined): boolean {
  return operation?.code !== undefined && !operation.newKeyAllowed;
}

/** Whether asking again, within one call and under the same key, may bring the outcome. */
export function isUnsettled(operation: Operation | undefined): boolean {
  return operation?.code === "BUSY" || operation?.code === "OUTCOME_UNKNOWN";
}

export function isUnavailable(code: string): boolean {
  return code === "UPSTREAM_UNAVAILABLE" || code === "LEDGER_UNAVAILABLE";
}

/** Whether the SDK gave up waiting. -32001: this SDK; 408: Python's number, for proxies. */
export function isTimeout(error: McpError): boolean {
  return error.code === -32001 || error.code === 408;
}

/** The same answer with its status as the first words, where it is not the tool's own. */
export function forModel(result: CallToolResult, operation: Operation | undefined): CallToolResult {
  if (operation?.code === undefined) return result;
  const status = STATUS[operation.code] ?? operation.code;
  const text = result.content.map((block) => (block.type === "text" ? block.text : "")).join(" ");
  const content = [{ type: "text" as const, text: `Status: ${status}. ${text}` }];
  return { ...result, content, isError: true };
}

/** A timeout is no failure: the tool may have acted, and may still. */
export function timedOut(tool: string): CallToolResult {
  const text =
    `Status: unknown. No answer came in time from ${tool}, so it may or may not have happened, ` +
    "and may still happen. Do not report it as failed and do not try it in another way; a person " +
    "or a query has to find out.";
  return { content: [{ type: "text", text }], isError: true };
}
