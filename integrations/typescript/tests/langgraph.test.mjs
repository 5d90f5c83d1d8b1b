// SPDX-License-Identifier: MIT
// LangGraph.js and @langchain/mcp-adapters as published, a real server that counts its effects, and
// the built Hapax between them.
import assert from "node:assert/strict";
import { test } from "node:test";

import { BaseChatModel } from "@langchain/core/language_models/chat_models";
import { AIMessage } from "@langchain/core/messages";
import {
  Annotation,
  Command,
  MemorySaver,
  MessagesAnnotation,
  START,
  Send,
  StateGraph,
  interrupt,
} from "@langchain/langgraph";
import { ToolNode, createReactAgent } from "@langchain/langgraph/prebuilt";
import { MultiServerMCPClient, loadMcpTools } from "@langchain/mcp-adapters";

import { callOnce, stepKey } from "../dist/index.js";
import { callId, loadTools } from "../dist/langgraph.js";
import { Keys } from "../dist/steps.js";
import { Way } from "./ways.mjs";

const QUICK = { initialInterval: 10, jitter: false, logWarning: false };
const DEFAULT = { logWarning: false }; // but for its voice, the default retry policy

const State = Annotation.Root({ n: Annotation() });
const thread = (name) => ({ configurable: { thread_id: name } });
const charge = (tools) => tools.find((tool) => tool.name === "charge");

function graph(node, retryPolicy, checkpointer) {
  const builder = new StateGraph(State).addNode("act", node, { retryPolicy });
  return builder.addEdge(START, "act").compile({ checkpointer });
}

// A node that fails after its body, so many times.
function failing(body, times) {
  const node = async () => {
    node.runs.push(await body());
    if (node.runs.length <= times) throw new Error("lost after the tool returned");
    return { n: node.runs.length };
  };
  node.runs = [];
  return node;
}

function toolNodeApp(tools) {
  const builder = new StateGraph(MessagesAnnotation).addNode("tools", new ToolNode(tools));
  return builder.addEdge(START, "tools").compile({ checkpointer: new MemorySaver() });
}

// What a model says that wants those calls: [id, arguments].
const ask = (...calls) => ({
  messages: [
    new AIMessage({
      content: "",
      tool_calls: calls.map(([id, args]) => ({ name: "charge", args, id, type: "tool_call" })),
    }),
  ],
});
// A model that says one message a turn, each with calls of those ids.
function scripted(...turns) {
  class Scripted extends BaseChatModel {
    _llmType() {
      return "scripted";
    }
    bindTools() {
      return this;
    }
    async _generate() {
      const message = ask(...turns.shift().map((id) => [id, { amount: 5 }])).messages[0];
      return { generations: [{ text: "", message }] };
    }
  }
  return new Scripted({});
}
const said = (state) => state.messages.at(-1).content;

test("one table of ways", { concurrency: true }, async (t) => {
  const plain = async (way) => loadMcpTools("pay", await way.connect());
  const keyed = async (way) => loadTools("pay", await way.connect());
  const rows = [["bare", new Way(t, [], { bare: true }), plain, 3]];
  for (const [transport, program] of [["stdio", "hapax run"], ["http", "hapax serve"]])
    for (const [name, options, getTools, wanted] of [
      ["no key, repeat: lost (default)", [], plain, 3],
      ["no key, repeat: window", ["--repeat", "window"], plain, 1],
      ["loadTools, key in _meta", [], keyed, 1],
    ])
      rows.push([`${program}, ${name}`, new Way(t, options, { transport }), getTools, wanted]);
  const found = await Promise.all(
    rows.map(async ([, way, getTools]) => {
      const tool = charge(await getTools(way));
      const node = failing(() => tool.invoke({ amount: 5 }), 2);
      await graph(node, DEFAULT).invoke({ n: 0 });
      assert.equal(node.runs.length, 3);
      return way.effects();
    }),
  );
  rows.forEach(([name, , , wanted], i) => {
    console.log(`effects typescript ${name}: ${found[i]}`);
    assert.equal(found[i], wanted, name);
  });
});

test("a client of MultiServerMCPClient", async (t) => {
  const way = new Way(t);
  const [command, ...args] = way.argv;
  const mcpServers = { pay: { transport: "stdio", command, args } };
  const many = new MultiServerMCPClient({ mcpServers });
  try {
    const tool = charge(await loadTools("pay", await many.getClient("pay")));
    await graph(failing(() => tool.invoke({ amount: 5 }), 2), QUICK).invoke({ n: 0 });
  } finally {
    await many.close();
  }
  assert.equal(way.effects(), 1);
});

test("a failed run resumed from its checkpoint", async (t) => {
  const way = new Way(t);
  const saver = new MemorySaver();
  const client = await way.connect();
  for (const run of [0, 1]) {
    // New keys for the second run, as in a new process.
    const tool = charge(await loadTools("pay", client, { keys: new Keys() }));
    const node = failing(() => tool.invoke({ amount: 5 }), run === 0 ? 1 : 0);
    const done = graph(node, undefined, saver).invoke(run === 0 ? { n: 0 } : null, thread("a"));
    await (run === 0 ? assert.rejects(done, /lost after/) : done);
  }
  assert.equal(way.effects(), 1);
});

test("an interrupted node", async (t) => {
  const way = new Way(t);
  const tool = charge(await loadTools("pay", await way.connect()));
  const node = async () => {
    await tool.invoke({ amount: 5 });
    interrupt("go on?");
    await tool.invoke({ amount: 5 });
    return { n: 1 };
  };
  const app = graph(node, undefined, new MemorySaver());
  await app.invoke({ n: 0 }, thread("a"));
  assert.equal(way.effects(), 1);
  await app.invoke(new Command({ resume: true }), thread("a"));
  assert.equal(way.effects(), 2, "two equal calls of one node are two");
});

test("another thread and another turn act again", async (t) => {
  const way = new Way(t);
  const tool = charge(await loadTools("pay", await way.connect()));
  const app = graph(failing(() => tool.invoke({ amount: 5 }), 0), undefined, new MemorySaver());
  for (const name of ["a", "b", "a"]) await app.invoke({ n: 0 }, thread(name));
  assert.equal(way.effects(), 3);
});

test("a nested graph started again is warned of, and a named call is safe", async (t) => {
  const warnings = t.mock.method(process, "emitWarning", () => {});
  for (const [isNamed, wanted] of [[false, 3], [true, 1]]) {
    const way = new Way(t);
    const tool = charge(await loadTools("pay", await way.connect()));
    const pay = () => tool.invoke({ amount: 5 });
    const inner = graph(failing(() => (isNamed ? callId("the fee", pay) : pay()), 2));
    await graph(inner, QUICK, new MemorySaver()).invoke({ n: 0 }, thread("a"));
    assert.equal(way.effects(), wanted);
  }
  assert.ok(warnings.mock.calls.some(({ arguments: [text] }) => /nested graph/.test(text)));
});

test("parallel calls of a ToolNode, run again", async (t) => {
  const way = new Way(t);
  const tools = new ToolNode(await loadTools("pay", await way.connect()));
  let runs = 0;
  const node = async (state, config) => {
    runs += 1;
    // The order turns round; the ids of the model's calls do not care.
    const calls = state.messages.at(-1).tool_calls;
    const turned = runs % 2 ? calls : [...calls].reverse();
    const message = new AIMessage({ content: "", tool_calls: turned });
    const result = await tools.invoke({ messages: [message] }, config);
    if (runs < 3) throw new Error("lost");
    return result;
  };
  const builder = new StateGraph(MessagesAnnotation).addNode("tools", node, { retryPolicy: QUICK });
  const app = builder.addEdge(START, "tools").compile({ checkpointer: new MemorySaver() });
  const question = ask(["c1", { amount: 5 }], ["c2", { amount: 5 }], ["c3", { amount: 7 }]);
  const answer = await app.invoke(question, thread("a"));
  assert.equal(way.effects(), 3);
  const receipts = answer.messages.filter((m) => m.getType() === "tool").map((m) => m.content);
  assert.equal(new Set(receipts).size, 3);
});

test("a running call is running, and the model cannot start it again", async (t) => {
  const way = new Way(t, ["--join-wait", "50ms"]);
  const client = await way.connect();
  const keys = new Keys();
  // It runs well past the bound of the impatient one, which leaves room for a busy machine.
  const slow = { amount: 5, sleep_ms: 8000 };
  const options = { keys, waitMs: 200 };
  // The first answer is lost to a timeout, which is told as unknown, not as a failure.
  const impatient = await loadTools("pay", client, { ...options, defaultToolTimeout: 2000 });
  const first = said(await toolNodeApp(impatient).invoke(ask(["c1", slow]), thread("a")));
  assert.match(first, /^Status: unknown\./);
  // The model tries again: a new tool call, a new task; one operation.
  const tools = await loadTools("pay", client, options);
  const second = said(await toolNodeApp(tools).invoke(ask(["c2", slow]), thread("a")));
  assert.match(second, /^Status: running\./);
  const patient = toolNodeApp(await loadTools("pay", client, { keys, waitMs: 20_000 }));
  const third = said(await patient.invoke(ask(["c3", slow]), thread("a")));
  assert.match(third, /^charged, receipt/);
  assert.equal(way.effects(), 1);
  // That is settled; now the same words are a new wish.
  assert.match(said(await patient.invoke(ask(["c4", slow]), thread("a"))), /^charged, receipt/);
  assert.equal(way.effects(), 2);
});

test("an unknown outcome is unknown and stays one effect", async (t) => {
  const way = new Way(t);
  const tools = await loadTools("pay", await way.connect(), { waitMs: 0 });
  const app = toolNodeApp(tools);
  const slow = { amount: 5, sleep_ms: 60_000 };
  const call = app.invoke(ask(["c1", slow]), thread("a"));
  await way.killServer();
  const first = said(await call);
  assert.match(first, /^Status: unknown\..*hapax ops resolve/s);
  assert.match(said(await app.invoke(ask(["c2", slow]), thread("a"))), /^Status: unknown\./);
  // Without a model in between, the program gets an error; its repeat carries the same key.
  const node = failing(() => charge(tools).invoke(slow), 0);
  await assert.rejects(graph(node, undefined, new MemorySaver()).invoke({ n: 0 }, thread("a")), {
    name: "HapaxOpen",
    code: "OUTCOME_UNKNOWN",
  });
  assert.equal(way.effects(), 1);
});

test("after a restart, a fresh key for what is unknown can be refused", async (t) => {
  const way = new Way(t, ["--fresh-key", "refuse"]);
  const client = await way.connect();
  for (const name of ["c1", "c2"]) {
    // What the process remembers is gone with it.
    const tools = await loadTools("pay", client, { waitMs: 0, keys: new Keys() });
    const slow = { amount: 5, sleep_ms: 60_000 };
    const call = toolNodeApp(tools).invoke(ask([name, slow]), thread("a"));
    if (name === "c1") await way.killServer();
    assert.match(said(await call), name === "c1" ? /^Status: unknown/ : /^Status: not sent/);
  }
  assert.equal(way.effects(), 1);
});

test("a call that a person must approve", async (t) => {
  const way = new Way(t, ["--approval", "always"]);
  const seen = [];
  const onAnswer = (one) => seen.push(one);
  const tools = await loadTools("pay", await way.connect(), { onAnswer });
  const app = toolNodeApp(tools);
  const first = said(await app.invoke(ask(["c1", { amount: 5 }]), thread("a")));
  assert.match(first, /^Status: waiting for a person's approval\./);
  assert.equal(way.effects(), 0);
  way.ops("approve", seen[0].id);
  const second = said(await app.invoke(ask(["c2", { amount: 5 }]), thread("a")));
  assert.match(second, /^charged, receipt/);
  assert.equal(way.effects(), 1);
});

test("two equal calls that are open are asked for each", async (t) => {
  const way = new Way(t, ["--approval", "always"]);
  const seen = [];
  const onAnswer = (one) => seen.push(one.id);
  const options = { onAnswer, keys: new Keys() };
  const app = toolNodeApp(await loadTools("pay", await way.connect(), options));
  const args = { amount: 5 };
  await app.invoke(ask(["c1", args], ["c2", args]), thread("a"));
  const waiting = new Set(seen);
  assert.equal(waiting.size, 2);
  for (const id of waiting) way.ops("approve", id);
  const answer = await app.invoke(ask(["c3", args], ["c4", args]), thread("a"));
  const receipts = new Set(answer.messages.slice(-2).map((one) => one.content));
  for (const one of receipts) assert.match(one, /^charged, receipt/);
  assert.equal(receipts.size, 2);
  // Both are settled; the same words are a new wish, which nobody has approved.
  const fifth = said(await app.invoke(ask(["c5", args]), thread("a")));
  assert.match(fifth, /^Status: waiting for a person's approval\./);
  assert.equal(way.effects(), 2);
});

test("calls with names of their own are asked for each", async (t) => {
  const way = new Way(t, ["--approval", "always"]);
  const seen = new Set();
  const onAnswer = (one) => seen.add(one.id);
  const options = { onAnswer, keys: new Keys() };
  const tool = charge(await loadTools("pay", await way.connect(), options));
  const runs = [];
  const approved = [];
  const node = async () => {
    const saidTo = {};
    // The order turns round; the names do not care.
    for (const number of runs.length > 0 ? [18, 17] : [17, 18])
      saidTo[number] = await callId(`invoice ${number}`, () =>
        tool.invoke({ amount: 5 }).catch((error) => error.message),
      );
    runs.push(saidTo);
    if (runs.length === 3) return { n: 1 };
    assert.equal(seen.size, 2, "one was asked for under the key of the other");
    approved.push([...seen][approved.length]);
    way.ops("approve", approved.at(-1));
    throw new Error("run again");
  };
  const app = graph(node, { ...QUICK, maxAttempts: 5 }, new MemorySaver());
  await app.invoke({ n: 0 }, thread("a"));
  assert.match(runs[1][17], /^charged, receipt/);
  assert.match(runs[1][18], /^Status: waiting for a person/);
  assert.equal(runs[2][17], runs[1][17]);
  assert.match(runs[2][18], /^charged, receipt/);
  assert.notEqual(runs[2][17], runs[2][18]);
  assert.equal(way.effects(), 2);
});

test("tasks that were planned together are asked for each", async (t) => {
  const way = new Way(t, ["--approval", "always"]);
  const seen = new Set();
  const options = { onAnswer: (one) => seen.add(one.id), keys: new Keys() };
  const tool = charge(await loadTools("pay", await way.connect(), options));
  let end;
  const first = new Promise((resolve) => (end = resolve));
  const node = async ({ n }) => {
    if (n === 2) await first; // what the first one left open is there to be taken
    await tool.invoke({ amount: 5 }).catch(() => {});
    end();
    return {};
  };
  const app = new StateGraph(State)
    .addNode("act", node)
    .addConditionalEdges(START, () => [1, 2].map((n) => new Send("act", { n })))
    .compile({ checkpointer: new MemorySaver() });
  await app.invoke({ n: 0 }, thread("a"));
  assert.equal(seen.size, 2, "one was asked for under the key of the other");
});

test("the prebuilt agent, its tools run again", async (t) => {
  const way = new Way(t);
  const failed = new Set();
  const afterToolCall = ({ result }) => {
    const receipt = JSON.stringify(result);
    if (failed.has(receipt)) return;
    failed.add(receipt);
    throw new Error("lost after the tool returned");
  };
  const tools = await loadTools("pay", await way.connect(), { afterToolCall });
  const model = scripted(["c1", "c2"], ["c3"], []);
  const agent = createReactAgent({
    llm: model,
    tools: new ToolNode(tools, { handleToolErrors: false }),
    checkpointer: new MemorySaver(),
  });
  let question = { messages: [["user", "charge five, twice, then once more"]] };
  let answer;
  for (let run = 0; answer === undefined && run < 10; run++) {
    answer = await agent.invoke(question, thread("a")).catch(() => undefined);
    question = null;
  }
  assert.equal(failed.size, 3);
  assert.equal(answer.messages.filter((one) => one.getType() === "tool").length, 3);
  assert.equal(way.effects(), 3);
});

test("other arguments on the second run are refused and not retried", async (t) => {
  const way = new Way(t);
  const tool = charge(await loadTools("pay", await way.connect()));
  let amount = 5;
  const node = failing(() => tool.invoke({ amount: amount++ }), 2);
  await assert.rejects(graph(node, QUICK).invoke({ n: 0 }), {
    name: "HapaxRefused",
    code: "KEY_CONFLICT",
  });
  assert.equal(amount, 7, "the conflict was repeated");
  assert.equal(way.effects(), 1);
});

test("the plain function, with the SDK's client alone", async (t) => {
  const way = new Way(t);
  const client = await way.connect();
  const key = stepKey("flow", "order-7", "charge", "0");
  const call = { name: "charge", arguments: { amount: 5 } };
  const first = await callOnce(client, key, call);
  const again = await callOnce(await way.connect(), key, call);
  assert.deepEqual(again.content, first.content);
  assert.equal(way.effects(), 1);
});
