// SPDX-License-Identifier: MIT
// For LangGraph.js: every call of a node gets a key of its own that stays the same when the node is
// re-run, and the model is told what is running, done or unknown.
//
//   const tools = await loadTools("pay", client);   // in place of loadMcpTools
import { ToolMessage } from "@langchain/core/messages";
import { AsyncLocalStorageProviderSingleton } from "@langchain/core/singletons";
import type { DynamicStructuredTool } from "@langchain/core/tools";
import { loadMcpTools } from "@langchain/mcp-adapters";
import type { Client } from "@modelcontextprotocol/sdk/client/index.js";
import type { RequestOptions } from "@modelcontextprotocol/sdk/shared/protocol.js";
import type { CallToolResult } from "@modelcontextprotocol/sdk/types.js";
import { AsyncLocalStorage } from "node:async_hooks";

import { HapaxError, HapaxOpen, META_KEY, META_OPERATION } from "./answers.js";
import type { Operation } from "./answers.js";
import { settle } from "./call.js";
import type { Settled } from "./call.js";
import { Keys, currentStep, langgraphPlace, warn, warnOfNested } from "./steps.js";
import type { ExecutionInfo, Place } from "./steps.js";

export { callId, step } from "./steps.js";

type CallParams = Parameters<Client["callTool"]>[0];
type LoadOptions = NonNullable<Parameters<typeof loadMcpTools>[2]>;

export interface KeyedOptions {
  /** How long a call that runs, or whose outcome is unknown, is asked for again (30 s). */
  waitMs?: number;
  /** Called with each answer's operation, for logs and counters. */
  onAnswer?: (operation: Operation) => void;
  /** Shared by everything that one program loads; it holds what is open. */
  keys?: Keys;
}

/** What the tool's wrapper knows and the client needs, and back. */
interface Letter {
  info?: ExecutionInfo;
  toolCallId?: string;
  error?: HapaxError; // no answer: the program or what is around it is at fault
  answer?: HapaxError; // an answer of Hapax in the tool's stead
}

const letters = new AsyncLocalStorage<Letter>();
const allKeys = new Keys();

function place(letter: Letter | undefined): Place | undefined {
  const explicit = currentStep();
  if (explicit !== undefined) return explicit;
  const config = AsyncLocalStorageProviderSingleton.getRunnableConfig() as
    | { executionInfo?: ExecutionInfo }
    | undefined;
  const info = letter?.info ?? config?.executionInfo;
  if (info === undefined) return undefined;
  warnOfNested(info);
  return langgraphPlace(info);
}

/** Without our member: the adapters would write it into what the model reads. */
function withoutOperation(result: CallToolResult): CallToolResult {
  if (result._meta?.[META_OPERATION] === undefined) return result;
  const { [META_OPERATION]: _, ...rest } = result._meta;
  const { _meta: __, ...bare } = result;
  return Object.keys(rest).length > 0 ? { ...bare, _meta: rest } : bare;
}

function ownAnswer({ result, operation, isOpen }: Settled): HapaxError | undefined {
  if (operation?.code === undefined && !isOpen) return undefined; // the tool's own
  const text = result.content.map((one) => (one.type === "text" ? one.text : "")).join(" ");
  const Kind = isOpen ? HapaxOpen : HapaxError;
  return new Kind(operation?.code ?? "TIMEOUT", text, operation);
}

/** An MCP client whose tool calls carry the key of the node that makes them. */
export function keyedClient(server: string, client: Client, options: KeyedOptions = {}): Client {
  const keys = options.keys ?? allKeys;
  let isHapax = false;

  async function callTool(params: CallParams, schema: undefined, request?: RequestOptions) {
    const letter = letters.getStore();
    const where = place(letter);
    if (where === undefined) {
      warn("A call is made outside of LangGraph, without a key. Put it into a step: step(ids, ...).");
      return client.callTool(params, schema, request);
    }
    const call = {
      place: where,
      server,
      tool: params.name,
      arguments: params.arguments ?? {},
      toolCallId: letter?.toolCallId,
    };
    return keys.call(call, async (key) => {
      const keyed = { ...params, _meta: { ...params._meta, [META_KEY]: key } };
      const send = () => client.callTool(keyed, schema, request) as Promise<CallToolResult>;
      let isOpen = true; // until an answer says that it is settled
      try {
        const settled = await settle(send, params.name, {
          ...options,
          isHapax,
          signal: request?.signal,
        });
        isHapax = settled.isHapax;
        isOpen = settled.isOpen;
        if (letter !== undefined) letter.answer = ownAnswer(settled);
        return withoutOperation(settled.result);
      } catch (error) {
        if (error instanceof HapaxError) {
          isOpen = error.operation?.newKeyAllowed !== true;
          if (letter !== undefined) letter.error = error;
        }
        throw error;
      } finally {
        keys.note(call, key, isOpen);
      }
    });
  }

  return new Proxy(client, {
    get(target, name) {
      if (name === "callTool") return callTool;
      const value = Reflect.get(target, name, target);
      if (typeof value !== "function") return value;
      if (name !== "fork") return value.bind(target);
      // The adapters' client with other headers: it must not lose the keys.
      return async (...args: unknown[]) =>
        keyedClient(server, await value.apply(target, args), options);
    },
  });
}

interface ToolConfig {
  executionInfo?: ExecutionInfo;
  toolCall?: { id?: string };
}

/**
 * The adapters turn every error into a ToolException, and a ToolNode tells the model to fix its
 * mistakes. So a model's call is answered with our sentence; a program's own call throws our error.
 */
function wrap(tool: DynamicStructuredTool): void {
  const inner = tool.func;
  tool.func = async (args, manager, config) => {
    const { executionInfo, toolCall } = (config ?? {}) as ToolConfig;
    const letter: Letter = { info: executionInfo, toolCallId: toolCall?.id };
    try {
      return await letters.run(letter, () => inner.call(tool, args, manager, config));
    } catch (error) {
      if (letter.error !== undefined) throw letter.error;
      if (letter.answer === undefined) throw error;
      if (!toolCall?.id) throw letter.answer;
      const message = new ToolMessage({
        content: letter.answer.message,
        name: tool.name,
        status: "error",
        tool_call_id: toolCall.id,
      });
      return [message, undefined];
    }
  };
}

/** `loadMcpTools` with a key for each call, in `_meta`. */
export async function loadTools(
  server: string,
  client: Client,
  options: KeyedOptions & LoadOptions = {},
): Promise<DynamicStructuredTool[]> {
  const tools = await loadMcpTools(server, keyedClient(server, client, options), options);
  for (const tool of tools) wrap(tool);
  return tools;
}
