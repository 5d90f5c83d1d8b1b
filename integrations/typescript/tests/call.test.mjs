// SPDX-License-Identifier: MIT
// What is asked again, what is not, and what the caller is told; with answers made up here.
import assert from "node:assert/strict";
import { test } from "node:test";
import { McpError } from "@modelcontextprotocol/sdk/types.js";

import { HapaxRefused, HapaxUnavailable, callOnce } from "../dist/index.js";

const DONE = { id: "1", execution: "succeeded", effect: "confirmed", new_key_allowed: false };
const result = (text, isError = false, operation = undefined) => ({
  content: [{ type: "text", text }],
  isError,
  ...(operation && { _meta: { "dev.hapax/operation": { ...DONE, ...operation } } }),
});
const fault = (code, number) =>
  new McpError(number, "because", { code, "dev.hapax/operation": { ...DONE, code } });

class Scripted {
  sent = [];
  constructor(...answers) {
    this.answers = answers;
  }
  async callTool(params) {
    this.sent.push(JSON.stringify(params));
    const answer = this.answers.shift();
    if (answer instanceof Error) throw answer;
    return answer;
  }
}
const charge = { name: "charge", arguments: { amount: 1 } };

test("a result passes untouched", async () => {
  for (const answer of [result("paid"), result("no", true), result("paid", false, {})]) {
    const client = new Scripted(answer);
    assert.equal(await callOnce(client, "k1", charge), answer);
    const meta = { "dev.hapax/idempotencyKey": "k1" };
    assert.deepEqual(JSON.parse(client.sent[0]), { ...charge, _meta: meta });
  }
});

test("busy is asked again with the same bytes", async () => {
  const busy = result("wait", true, { code: "BUSY", retry_after_ms: 1 });
  const client = new Scripted(busy, busy, result("paid", false, { replayed: true }));
  const seen = [];
  const got = await callOnce(client, "k1", charge, { onAnswer: (one) => seen.push(one.code) });
  assert.equal(got.content[0].text, "paid");
  assert.deepEqual(seen, ["BUSY", "BUSY", undefined]);
  assert.equal(new Set(client.sent).size, 1);
});

test("what stays open is told with its status", async () => {
  for (const [code, word] of [["BUSY", "running"], ["OUTCOME_UNKNOWN", "unknown"]]) {
    const client = new Scripted(result("sentence", true, { code }));
    const got = await callOnce(client, "k1", charge, { waitMs: 0 });
    assert.equal(got.content[0].text, `Status: ${word}. sentence`);
    assert.equal(got.isError, true);
  }
});

test("a key fault is no retryable error", async () => {
  for (const code of ["KEY_CONFLICT", "KEY_INVALID", "KEY_REQUIRED", "REQUEST_INVALID"]) {
    const client = new Scripted(fault(code, -32602));
    await assert.rejects(callOnce(client, "k1", charge), (error) => {
      assert.ok(error instanceof HapaxRefused);
      assert.deepEqual([error.code, error.status], [code, 409]);
      return true;
    });
    assert.equal(client.sent.length, 1);
  }
});

test("unavailable is tried again, then an error of its own", async () => {
  const client = new Scripted(fault("LEDGER_UNAVAILABLE", 1503), result("paid"));
  assert.equal((await callOnce(client, "k1", charge)).content[0].text, "paid");
  const down = new Scripted(fault("UPSTREAM_UNAVAILABLE", 1502));
  await assert.rejects(callOnce(down, "k1", charge, { waitMs: 0 }), HapaxUnavailable);
});

test("a timeout is unknown, and a bare server is not asked twice", async () => {
  const late = new McpError(-32001, "Request timed out");
  const client = new Scripted(late);
  const got = await callOnce(client, "k1", charge);
  assert.match(got.content[0].text, /^Status: unknown\./);
  assert.equal(client.sent.length, 1);
  const known = new Scripted(late, result("paid"));
  const asked = await callOnce(known, "k1", charge, { isHapax: true });
  assert.equal(asked.content[0].text, "paid");
});

test("other errors pass", async () => {
  const closed = new McpError(-32000, "Connection closed");
  await assert.rejects(callOnce(new Scripted(closed), "k1", charge), closed);
});
