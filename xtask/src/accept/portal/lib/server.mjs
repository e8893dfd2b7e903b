// A server that a chapter can kill and restart, its API, and curl as an independent metadata client.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { program } from "./words.mjs";

// Flags can be functions of the management address.
export class Server {
  static async start(...flags) {
    const server = new Server();
    server.data = mkdtempSync(join(tmpdir(), "forewarn-portal-"));
    server.ports = [await freePort(), await freePort()];
    server.flags = flags;
    await server.run();
    return server;
  }

  async run() {
    const [metadata, management] = this.ports.map((port) => `127.0.0.1:${port}`);
    this.metadata = `http://${metadata}`;
    this.management = `http://${management}`;
    const words = ["--pdeathsig", "KILL", "--", program, "serve", "--data", join(this.data, "data"), "--metadata", metadata];
    const flags = this.flags.map((flag) => (typeof flag === "function" ? flag(this.management) : flag));
    words.push("--management", management, "--management-tls", "off", ...flags);
    this.child = spawn("setpriv", words, { stdio: ["ignore", "pipe", "ignore"] });
    let said = "";
    await new Promise((resolve, reject) => {
      this.child.stdout.on("data", (data) => (said += data).includes("try ") && resolve());
      this.child.on("exit", () => reject(new Error("forewarn did not start: " + said)));
    });
    if (flags.includes("--no-auth")) return;
    const words_of_link = ["portal", "--print", "--server", this.management, "--data", join(this.data, "data")];
    this.link = execFileSync(program, words_of_link, { encoding: "utf8" }).trim();
    this.token = readFileSync(join(this.data, "data/token"), "utf8").trim();
  }

  // A signed token with this role.
  issueToken(role) {
    return execFileSync(program, ["token", "issue", "--role", role, "--data", join(this.data, "data")], { encoding: "utf8" }).trim();
  }

  kill() {
    const gone = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill("SIGKILL");
    return gone;
  }

  async end() {
    await this.kill();
    rmSync(this.data, { recursive: true });
  }

  async api(method, path, body) {
    const headers = { Authorization: `Bearer ${this.token}`, "Content-Type": "application/json" };
    const answer = await fetch(`${this.management}/api/v1${path}`, { method, headers, body: body && JSON.stringify(body) });
    const text = await answer.text();
    assert.ok(answer.ok, `${method} ${path}: ${text}`);
    return text ? JSON.parse(text) : null;
  }

  // Polls once without starting a process, for many machines.
  async listen(machine) {
    const answer = await fetch(`${this.metadata}/vm/${machine}/metadata/scheduledevents?api-version=2020-07-01`, { headers: { Metadata: "true" } });
    assert.ok(answer.ok, machine);
  }

  curl(machine, ...words) {
    const url = `${this.metadata}/vm/${machine}/metadata/scheduledevents?api-version=2020-07-01`;
    return execFileSync("curl", ["-q", "-sS", "--fail", "--noproxy", "*", "-H", "Metadata:true", ...words, url], { encoding: "utf8" });
  }

  approve(machine, event) {
    this.curl(machine, "-d", JSON.stringify({ StartRequests: [{ EventId: event }] }));
  }
}

export const eventOf = (operation) => operation.events[0].id;

export function freePort() {
  return new Promise((resolve) => {
    const socket = createServer().listen(0, "127.0.0.1", () => {
      const { port } = socket.address();
      socket.close(() => resolve(port));
    });
  });
}
