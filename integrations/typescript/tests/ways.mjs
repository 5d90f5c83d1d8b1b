// SPDX-License-Identifier: MIT
// The real server and the built Hapax, for the tests. HAPAX and HAPAX_EXAMPLE_SERVER name them.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { setTimeout as pause } from "node:timers/promises";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const HAPAX = process.env.HAPAX ?? join(ROOT, "build", "src", "app", "hapax");
const SERVER =
  process.env.HAPAX_EXAMPLE_SERVER ?? join(ROOT, "build", "examples", "hapax-example-server");

// One way to the example server; its effects are the lines of a synced file. `transport` is here so
// that `hapax serve` becomes one more value of it.
export class Way {
  constructor(test, options = [], { bare = false, transport = "stdio" } = {}) {
    if (transport !== "stdio") throw new Error(`not yet: ${transport}`);
    this.directory = mkdtempSync(join(tmpdir(), "hapax-frameworks-"));
    this.effectsFile = join(this.directory, "effects");
    const server = [SERVER, "--ledger", this.effectsFile];
    const ledger = join(this.directory, "ledger");
    const run = [HAPAX, "run", "--ledger", ledger, "--name", "pay", "--orphan-timeout", "5s"];
    this.opsOptions = ["--ledger", ledger];
    this.argv = bare ? server : [...run, ...options, "--", ...server];
    this.clients = [];
    test.after(async () => {
      for (const client of this.clients) await client.close();
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  async connect() {
    const client = new Client({ name: "frameworks", version: "1" });
    const [command, ...args] = this.argv;
    await client.connect(new StdioClientTransport({ command, args }));
    this.clients.push(client);
    return client;
  }

  ops(...args) {
    execFileSync(HAPAX, ["ops", ...args, ...this.opsOptions], { stdio: "ignore" });
  }

  // Once it has acted, so that its answer is lost and its effect is not.
  async killServer() {
    const deadline = performance.now() + 30_000;
    while (this.effects() === 0) {
      if (performance.now() > deadline) throw new Error("waited 30 s for an effect");
      await pause(10);
    }
    process.kill(JSON.parse(this.lines()[0]).pid, "SIGKILL");
  }

  lines() {
    try {
      return readFileSync(this.effectsFile, "utf8").split("\n").slice(0, -1);
    } catch {
      return [];
    }
  }

  effects() {
    return this.lines().length;
  }
}
