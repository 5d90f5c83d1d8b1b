// SPDX-License-Identifier: MIT
// One call under one key: asked again, under the same key, while it is not settled.
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js";
import { McpError } from "@modelcontextprotocol/sdk/types.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { setTimeout as pause } from "node:timers/promises";

import {
  HapaxRefused,
  HapaxUnavailable,
  META_KEY,
  forModel,
  isOpen,
  isTimeout,
  isUnavailable,
  isUnsettled,
  operationOf,
  timedOut,
} from "./answers.js";
import type { Operation } from "./answers.js";

const UNAVAILABLE_WAIT_MS = 500;

export interface CallOptions {
  /** How long a call that runs, or whose outcome is unknown, is asked for again (30 s). */
  waitMs?: number;
  /** The peer is known to be Hapax. A bare server is never sent a call twice. */
  isHapax?: boolean;
  /** Called with each answer's operation, for logs and counters. */
  onAnswer?: (operation: Operation) => void;
  signal?: AbortSignal;
}

export interface Settled {
  result: CallToolResult;
  operation?: Operation;
  /** The intent is not settled, and a repeat of it must carry the same key. */
  isOpen: boolean;
  isHapax: boolean;
}

/** Sends until the outcome is known or the time is over. Every send is the same bytes. */
export async function settle(
  send: () => Promise<CallToolResult>,
  tool: string,
  options: CallOptions,
): Promise<Settled> {
  const deadline = performance.now() + (options.waitMs ?? 30_000);
  let isHapax = options.isHapax === true;
  const mayRepeat = async (ms: number): Promise<boolean> => {
    const left = deadline - performance.now();
    if (left <= 0) return false;
    await pause(Math.min(ms, left), undefined, { signal: options.signal });
    return true;
  };
  for (;;) {
    try {
      const result = await send();
      const operation = operationOf(result);
      if (operation) options.onAnswer?.(operation);
      isHapax ||= operation !== undefined;
      if (isUnsettled(operation) && (await mayRepeat(operation!.waitMs))) continue;
      return { result: forModel(result, operation), operation, isOpen: isOpen(operation), isHapax };
    } catch (error) {
      if (!(error instanceof McpError)) throw error;
      const operation = operationOf(error);
      if (operation) options.onAnswer?.(operation);
      if (operation?.code === undefined) {
        if (!isTimeout(error)) throw error;
        if (isHapax && (await mayRepeat(0))) continue;
        return { result: timedOut(tool), isOpen: true, isHapax };
      }
      if (!isUnavailable(operation.code))
        throw new HapaxRefused(operation.code, error.message, operation);
      isHapax = true;
      if (!(await mayRepeat(UNAVAILABLE_WAIT_MS)))
        throw new HapaxUnavailable(operation.code, error.message, operation);
    }
  }
}

/**
 * Calls a tool under a key, for programs and frameworks of any kind. `key` comes from `stepKey`, or
 * is any text that is the same each time this very intent is repeated. Gives the tool's result, live
 * or stored; a result that begins with "Status:" when it is not there. Throws HapaxRefused (the key
 * is wrong, change the program) and HapaxUnavailable (nothing was sent, repeat with the same key).
 */
export async function callOnce(
  client: Client,
  key: string,
  params: { name: string; arguments?: Record<string, unknown>; _meta?: Record<string, unknown> },
  options: CallOptions & { request?: RequestOptions } = {},
): Promise<CallToolResult> {
  const keyed = { ...params, _meta: { ...params._meta, [META_KEY]: key } };
  const signal = options.signal ?? options.request?.signal;
  const send = () =>
    client.callTool(keyed, undefined, { ...options.request, signal }) as Promise<CallToolResult>;
  return (await settle(send, params.name, { ...options, signal })).result;
}
