// SPDX-License-Identifier: MIT
// Keys: the shared vectors, and what the order and the number of calls do to them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";

import { stepKey } from "../dist/index.js";
import { Keys, callId, currentStep, langgraphPlace, step } from "../dist/steps.js";

const vectors = JSON.parse(
  readFileSync(join(import.meta.dirname, "..", "..", "vectors.json"), "utf8"),
);
const place = (run = 0, thread = "t", task = "k", checkpoint = `before ${task}`) => {
  const ids = ["langgraph", thread, `n:${task}`, checkpoint, task];
  return { ids, root: ids.slice(0, 3), run: `${task} ${run}`, thread, checkpoint };
};
const call = (where, args = {}, toolCallId = undefined, tool = "charge") => ({
  place: where,
  server: "pay",
  tool,
  arguments: args,
  toolCallId,
});
const keyOf = (keys, one) => keys.call(one, async (key) => key);

test("the shared vectors", async () => {
  for (const one of vectors.step_key) assert.equal(stepKey(...one.fields), one.key);
  for (const one of vectors.langgraph) {
    const where = langgraphPlace({
      threadId: one.thread_id,
      checkpointNs: one.checkpoint_ns,
      checkpointId: one.checkpoint_id,
      taskId: one.task_id,
    });
    const made = { place: where, server: one.server, tool: one.tool, arguments: {} };
    const keys = new Keys();
    for (const key of one.keys)
      assert.equal(await keyOf(keys, { ...made, toolCallId: one.tool_call_id ?? undefined }), key);
    assert.equal(await callId(one.call_id, () => keyOf(keys, made)), one.named_key);
  }
});

test("what is no id is refused", () => {
  assert.throws(() => stepKey(), TypeError);
  assert.throws(() => stepKey("a", 1), TypeError);
  assert.throws(() => stepKey("\ud800"), TypeError);
  assert.match(stepKey("x"), /^hx1-[0-9a-f]{64}$/);
});

test("ordinals begin anew with each run of the node, and count by tool", async () => {
  const keys = new Keys();
  const run = async (n) => [await keyOf(keys, call(place(n))), await keyOf(keys, call(place(n)))];
  const [first, again] = [await run(1), await run(2)];
  assert.deepEqual(first, again);
  assert.notEqual(first[0], first[1]);
  const other = await keyOf(keys, call(place(2), {}, undefined, "b"));
  assert.equal(other, await keyOf(new Keys(), call(place(), {}, undefined, "b")));
});

test("a tool call id does not depend on the order", async () => {
  const keys = new Keys();
  const one = await keyOf(keys, call(place(1), {}, "c1"));
  const two = await keyOf(keys, call(place(1), {}, "c2"));
  assert.equal(await keyOf(keys, call(place(2), {}, "c2")), two);
  assert.equal(await keyOf(keys, call(place(2), {}, "c1")), one);
});

test("overlapping different calls are warned of", async (t) => {
  const warnings = t.mock.method(process, "emitWarning", () => {});
  const keys = new Keys();
  await keys.call(call(place(), { amount: 1 }), async () => {
    await keyOf(keys, call(place(), { amount: 1 })); // equal: their keys may be exchanged
    assert.equal(warnings.mock.callCount(), 0);
    await keyOf(keys, call(place(), { amount: 2 }));
    assert.equal(warnings.mock.callCount(), 1);
  });
});

test("an equal call under a new id asks for what is open", async () => {
  const keys = new Keys();
  const first = call(place(1), { b: 1, a: { d: 1, c: 2 } }, "c1");
  const key = await keyOf(keys, first);
  keys.note(first, key, true);
  const later = (thread, args, id) => call(place(2, thread, "later"), args, id);
  const equal = { a: { c: 2, d: 1 }, b: 1 };
  assert.equal(await keyOf(keys, later("t", equal, "c2")), key);
  assert.notEqual(await keyOf(keys, later("t", { b: 2 }, "c3")), key);
  assert.notEqual(await keyOf(keys, later("other", equal, "c2")), key);
  keys.note(first, key, false);
  assert.notEqual(await keyOf(keys, later("t", equal, "c4")), key);
});

test("two open equal calls keep their own keys", async () => {
  const keys = new Keys();
  const first = [await keyOf(keys, call(place(1))), await keyOf(keys, call(place(1)))];
  for (const key of first) keys.note(call(place(1)), key, true);
  const again = [await keyOf(keys, call(place(2))), await keyOf(keys, call(place(2)))];
  assert.deepEqual(again, first);
});

// The keys of equal calls that leave together, and whose outcomes are not known.
async function openCalls(keys, ...ids) {
  const held = [];
  for (const id of ids) held.push(await keyOf(keys, call(place(1), {}, id)));
  for (const key of held) keys.note(call(place(1)), key, true);
  return held;
}
const later = (id, run = 2) => call(place(run, "t", "later"), {}, id);

test("an open key is given to one call at a time", async () => {
  const keys = new Keys();
  const [one, two] = await openCalls(keys, "c1", "c2");
  await keys.call(later("c3"), (third) =>
    keys.call(later("c4"), (fourth) =>
      keys.call(later("c5"), async (fifth) => {
        assert.deepEqual([third, fourth], [one, two]);
        assert.equal(fifth, await keyOf(new Keys(), later("c5")), "a third one is new");
        for (const key of [third, fourth, fifth]) keys.note(later(), key, false);
      }),
    ),
  );
  const own = await keyOf(new Keys(), later("c6"));
  assert.equal(await keyOf(keys, later("c6")), own, "a settled key was kept");
});

test("a call that fails before its outcome is noted gives the key back", async () => {
  const fails = [
    () => Promise.reject(new Error("lost")),
    () => {
      throw new Error("lost");
    },
  ];
  for (const fail of fails) {
    const keys = new Keys();
    const [one] = await openCalls(keys, "c1");
    let got;
    const failed = keys.call(later("c3"), (key) => {
      got = key;
      return fail();
    });
    await assert.rejects(failed, /lost/);
    assert.equal(got, one);
    assert.equal(await keyOf(keys, later("c4")), one);
  }
});

test("a call run again keeps the key that it was sent under", async () => {
  const keys = new Keys();
  const [one, two] = await openCalls(keys, "c1", "c2");
  await keys.call(later("c3"), (third) =>
    keys.call(later("c4"), async (fourth) => {
      assert.deepEqual([third, fourth], [one, two]);
      keys.note(later(), one, false);
    }),
  );
  // Were it given the one that is still open, the other one would have none, and act.
  assert.equal(await keyOf(keys, later("c3", 3)), one);
  assert.equal(await keyOf(keys, later("c4", 3)), two);
  // The call that has its result keeps that, too.
  assert.equal(await keyOf(keys, call(place(3), {}, "c1")), one);
});

test("a call that follows an open one of its node is its own when that is settled", async () => {
  const keys = new Keys();
  const oneOf = async (run, isOpen) => {
    const key = await keyOf(keys, call(place(run)));
    keys.note(call(place(run)), key, isOpen);
    return key;
  };
  const first = [await oneOf(1, true), await oneOf(1, true)];
  assert.equal(first[0], first[1]);
  const again = [await oneOf(2, false), await oneOf(2, false)];
  assert.equal(again[0], first[0]);
  assert.notEqual(again[1], first[0]);
});

const noteOpen = async (keys, one) => {
  const key = await keyOf(keys, one);
  keys.note(one, key, true);
  return key;
};

test("what the program names differently shares no key", async () => {
  const keys = new Keys();
  const [first, second] = [
    await callId("invoice 17", () => noteOpen(keys, call(place(1)))),
    await callId("invoice 18", () => noteOpen(keys, call(place(1)))),
  ];
  assert.notEqual(first, second);
  for (const id of [undefined, "c1"]) {
    const key = await noteOpen(keys, call(place(1), {}, id));
    assert.ok(key !== first && key !== second);
  }
  // Nor is an open one of no name taken by a call that has one.
  const third = (keys) => callId("invoice 19", () => keyOf(keys, call(place(1))));
  assert.equal(await third(keys), await third(new Keys()));
  // Run again, and in a later turn, each is its own.
  for (const task of ["k", "later"])
    for (const [name, key] of [["invoice 18", second], ["invoice 17", first]])
      assert.equal(await callId(name, () => keyOf(keys, call(place(2, "t", task)))), key, task);
});

test("tasks of one checkpoint share no key", async () => {
  const keys = new Keys();
  for (const id of [undefined, "c1"]) {
    const calls = (run) => ["one", "two"].map((task) => call(place(run, "t", task, "c"), {}, id));
    const [one, two] = calls(1);
    const first = [await noteOpen(keys, one), await noteOpen(keys, two)];
    assert.notEqual(first[0], first[1]);
    const again = calls(2);
    assert.equal(await keyOf(keys, again[1]), first[1]);
    assert.equal(await keyOf(keys, again[0]), first[0]);
    keys.note(one, first[0], false);
    keys.note(two, first[1], false);
  }
});

test("an open key that was taken over is the taker's among its siblings", async () => {
  const keys = new Keys();
  const first = await noteOpen(keys, call(place(1), {}, "c1"));
  const [two, three] = ["two", "three"].map((task) => place(2, "t", task, "later"));
  assert.equal(await noteOpen(keys, call(two, {}, "c2")), first);
  assert.notEqual(await noteOpen(keys, call(three, {}, "c3")), first);
});

test("a step and a thread of one name share no key", async () => {
  const keys = new Keys();
  const stepped = await step(["a"], () => noteOpen(keys, call(currentStep())));
  for (const thread of ["a", '["a"]'])
    assert.notEqual(await keyOf(keys, call(place(1, thread))), stepped);
});

test("a step of another framework", async () => {
  const keys = new Keys();
  const run = () => step(["flow", "run 7"], () => keyOf(keys, call(currentStep())));
  const key = await run();
  assert.equal(await run(), key);
  assert.equal(key, stepKey("step", "flow", "run 7", "pay", "charge", "ordinal", "0"));
});
