// SPDX-License-Identifier: MIT
// The real server and the built Hapax, for the tests. HAPAX and HAPAX_EXAMPLE_SERVER name them.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as pause } from "node:timers/promises";

const ROOT = resolve(import.meta.dirname, "..", "..", "..");
const HAPAX = process.env.HAPAX ?? join(ROOT, "build", "src", "app", "hapax");
const SERVER =
  process.env.HAPAX_EXAMPLE_SERVER ?? join(ROOT, "build", "examples", "hapax-example-server");

// One way to the example server; its effects are the lines of a synced file. `transport`: stdio is
// `hapax run`, one process for each client; http is `hapax serve`.
export class Way {
  constructor(test, options = [], { bare = false, transport = "stdio" } = {}) {
    this.directory = mkdtempSync(join(tmpdir(), "hapax-frameworks-"));
    this.effectsFile = join(this.directory, "effects");
    const server = [SERVER, "--ledger", this.effectsFile];
    const ledger = join(this.directory, "ledger");
    const common = ["--ledger", ledger, "--name", "pay", "--orphan-timeout", "5s", ...options];
    this.opsOptions = ["--ledger", ledger];
    this.argv = bare ? server : [HAPAX, "run", ...common, "--", ...server];
    this.clients = [];
    if (transport === "http") {
      const args = ["serve", "--listen", "127.0.0.1:0", ...common, "--", ...server];
      this.gateway = spawn(HAPAX, args, { stdio: ["ignore", "inherit", "pipe"] });
    }
    test.after(async () => {
      for (const client of this.clients) await client.close();
      if (this.gateway?.exitCode === null) {
        this.gateway.kill();
        await once(this.gateway, "exit");
      }
      rmSync(this.directory, { recursive: true, force: true });
    });
  }

  async transport() {
    const [command, ...args] = this.argv;
    if (!this.gateway) return new StdioClientTransport({ command, args });
    const [said] = await once(createInterface(this.gateway.stderr), "line");
    return new StreamableHTTPClientTransport(new URL(said.split(" ").at(-1)));
  }

  async connect() {
    const client = new Client({ name: "frameworks", version: "1" });
    await client.connect(await this.transport());
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
