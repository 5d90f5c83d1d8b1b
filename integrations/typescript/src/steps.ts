// SPDX-License-Identifier: MIT
// Where a call stands in the program that makes it, and the key that follows from that.
//
// In LangGraph a call stands in a task: thread, checkpoint namespace, checkpoint and task id are the
// same when the node is re-run by its retry policy, after an interrupt, and when a failed or killed
// run is resumed from its checkpoint. Within the task one of these names the call, the first there is:
//
// 1. `callId("invoice 17", ...)` around it: the program's own name;
// 2. the id of the model's tool call (ToolNode): part of the stored message, so the order in which
//    parallel calls start does not matter, and a repeat by middleware keeps the key;
// 3. its ordinal among the task's calls of that tool, counted anew at each run of the node. This
//    needs a node that makes its calls in the same order each time; calls that overlap and differ are
//    warned of, since their order may change.
import { AsyncLocalStorage } from "node:async_hooks";

import { stepKey } from "./keys.js";

// A few hundred bytes each. Forgetting one that is in use would restart its ordinals, so the bound is
// far above what one process has in flight.
const RUNS_MAX = 65_536;
const OPEN_MAX = 65_536;
const GIVEN_MAX = 65_536;

/** A run of a step. `ids` stay the same when the step is run again, `run` does not. */
export interface Place {
  ids: string[];
  root: string[];
  run: string;
  thread?: string;
  /** What the tasks that were planned together share. None of them is the repeat of another. */
  checkpoint?: string;
}

/** LangGraph's ExecutionInfo, as far as it is used here. */
export interface ExecutionInfo {
  threadId?: unknown;
  checkpointNs?: string;
  checkpointId?: string;
  taskId?: string;
  nodeAttempt?: number;
  nodeFirstAttemptTime?: number;
}

const names = new AsyncLocalStorage<string>();
const steps = new AsyncLocalStorage<Place>();
const warned = new Set<string>();
let stepRuns = 0;

export function warn(text: string): void {
  if (warned.has(text)) return;
  if (warned.size < 1000) warned.add(text);
  process.emitWarning(text, "UnstableKeyWarning");
}

/** Names the calls inside. Unique in its outermost node, and the same when that is re-run. */
export function callId<T>(name: string, body: () => T): T {
  return names.run(name, body);
}

/** The calls inside belong to the step of those ids, for frameworks other than LangGraph. */
export function step<T>(ids: string[], body: () => T): T {
  const place = { ids: ["step", ...ids], root: ["step", ...ids], run: `step ${++stepRuns}` };
  return steps.run({ ...place, thread: JSON.stringify(ids) }, body);
}

export function currentStep(): Place | undefined {
  return steps.getStore();
}

export function langgraphPlace(info: ExecutionInfo): Place {
  const thread = info.threadId == null ? "" : String(info.threadId);
  const namespace = info.checkpointNs ?? "";
  const task = info.taskId ?? "";
  return {
    ids: ["langgraph", thread, namespace, info.checkpointId ?? "", task],
    root: ["langgraph", thread, namespace.split("|")[0]],
    run: `task ${task} ${info.nodeFirstAttemptTime} ${info.nodeAttempt}`,
    thread: thread === "" ? undefined : thread,
    checkpoint: info.checkpointId || undefined,
  };
}

// "outer:id|1|inner:id": the second start of a nested graph by one run of the node that holds it.
// That is what a retry of the outer node looks like, and the inner ids are new ones then.
export function warnOfNested(info: ExecutionInfo): void {
  if (!(info.checkpointNs ?? "").split("|").some((part) => /^\d+$/.test(part))) return;
  warn(
    "A nested graph was started again by the node that holds it. LangGraph gives its tasks new " +
      "ids, so calls made before are not recognised. Put the retry policy on the inner node, or " +
      "name the call: callId(name, ...).",
  );
}

function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  return Object.entries(value)
    .sort(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, member]) => [name, sorted(member)]);
}

/** One call, as the keys see it. */
export interface Call {
  place: Place;
  server: string;
  tool: string;
  arguments: unknown;
  toolCallId?: string;
}

function signature(call: Call): string {
  return JSON.stringify([call.server, call.tool, sorted(call.arguments)]);
}

interface Run {
  ordinals: Map<string, number>;
  inFlight: Set<{ kind: string; equal: string }>;
}

/** Whose an open key is: tasks of one checkpoint, the latest that it was sent from. */
interface Open {
  checkpoint?: string;
  tasks: Set<string>;
}

const taskOf = (place: Place): string => JSON.stringify(place.ids);

/** The kind of step, its thread, the program's own name for the call, and the call. */
function slotOf(call: Call): string {
  const { ids, thread } = call.place;
  return JSON.stringify([ids[0], thread, names.getStore() ?? null, signature(call)]);
}

function isOfSibling(place: Place, open: Open): boolean {
  const isTogether = place.checkpoint !== undefined && place.checkpoint === open.checkpoint;
  return isTogether && !open.tasks.has(taskOf(place));
}

function touch<V>(map: Map<string, V>, key: string, value: V, max: number): V {
  map.delete(key);
  map.set(key, value);
  if (map.size > max) map.delete(map.keys().next().value as string);
  return value;
}

/** Hands out the keys of one program's calls. */
export class Keys {
  readonly #runs = new Map<string, Run>();
  readonly #open = new Map<string, Map<string, Open>>();
  // By the key of the call's own place: the key that it was given, and its task.
  readonly #given = new Map<string, { key: string; task: string }>();
  readonly #taken = new Map<string, number>(); // by calls that have not ended

  /** Runs `body` with the key of the call. */
  async call<T>(call: Call, body: (key: string) => Promise<T>): Promise<T> {
    const { place, server, tool } = call;
    const name = names.getStore();
    if (name !== undefined)
      return this.#giveTo(call, stepKey(...place.root, server, tool, "named", name), body);
    if (call.toolCallId) {
      const key = stepKey(...place.ids, server, tool, "tool_call", call.toolCallId);
      return this.#giveTo(call, key, body);
    }
    const run = this.#runs.get(place.run) ?? { ordinals: new Map(), inFlight: new Set() };
    touch(this.#runs, place.run, run, RUNS_MAX);
    const mine = { kind: JSON.stringify([server, tool]), equal: signature(call) };
    const ordinal = run.ordinals.get(mine.kind) ?? 0;
    run.ordinals.set(mine.kind, ordinal + 1);
    for (const other of run.inFlight)
      if (other.kind === mine.kind && other.equal !== mine.equal)
        warn(
          `Different calls of ${tool} overlap in one node. Their keys follow the order in which ` +
            "they start; if that changes when the node is re-run, a call runs twice. Name each " +
            "call: callId(name, ...), or leave them to a ToolNode.",
        );
    run.inFlight.add(mine);
    try {
      const key = stepKey(...place.ids, server, tool, "ordinal", String(ordinal));
      return await this.#giveTo(call, key, body);
    } finally {
      run.inFlight.delete(mine);
    }
  }

  /**
   * Remembers a key whose outcome is not known, so that an equal call of this thread, such as a
   * model's second try under a new tool call id, asks for that outcome and does not act. Only after
   * a call has ended: two equal calls that leave together are two intents. So are two calls that the
   * program names differently, and those of two tasks of one checkpoint.
   */
  note(call: Call, key: string, isOpen: boolean): void {
    const { place } = call;
    if (place.thread === undefined) return;
    const slot = slotOf(call);
    const keys = this.#open.get(slot) ?? new Map<string, Open>();
    const before = keys.get(key);
    const tasks = before?.checkpoint === place.checkpoint ? before?.tasks : undefined;
    if (isOpen)
      keys.set(key, {
        checkpoint: place.checkpoint,
        tasks: (tasks ?? new Set<string>()).add(taskOf(place)),
      });
    else keys.delete(key);
    if (keys.size > 0) touch(this.#open, slot, keys, OPEN_MAX);
    else this.#open.delete(slot);
  }

  /**
   * The key that a call is sent under: the one it had before, else one that is open, that may be its
   * own and that no other call has, else its own. Each open key is one intent, so two calls that
   * leave together get two; and a call that is run again takes none that belongs to another one.
   */
  async #giveTo<T>(call: Call, own: string, body: (key: string) => Promise<T>): Promise<T> {
    const { place } = call;
    if (place.thread === undefined) return body(own);
    const keys = this.#open.get(slotOf(call)) ?? new Map<string, Open>();
    const isFree = ([other, open]: [string, Open]) =>
      !this.#taken.has(other) && !isOfSibling(place, open);
    const before = this.#given.get(own)?.key;
    const key = before ?? (keys.has(own) ? own : ([...keys].find(isFree)?.[0] ?? own));
    const task = taskOf(place);
    // Not what an earlier call of this task left open: when that is run again and has its result, a
    // call that still follows it is one of its own.
    if (key === own || this.#given.get(key)?.task !== task)
      touch(this.#given, own, { key, task }, GIVEN_MAX);
    this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1);
    try {
      return await body(key);
    } finally {
      const left = this.#taken.get(key)! - 1;
      if (left > 0) this.#taken.set(key, left);
      else this.#taken.delete(key);
    }
  }
}
