// One member of etcd that a chapter can stop and continue.

import { spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePort } from "./server.mjs";
import { etcd } from "./words.mjs";

export class Etcd {
  static async start() {
    const member = new Etcd();
    member.data = mkdtempSync(join(tmpdir(), "forewarn-etcd-"));
    member.address = `127.0.0.1:${await freePort()}`;
    const [clients, peers] = [`http://${member.address}`, `http://127.0.0.1:${await freePort()}`];
    const words = ["--data-dir", member.data, "--listen-client-urls", clients, "--advertise-client-urls", clients];
    words.push("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", `default=${peers}`);
    member.child = spawn("setpriv", ["--pdeathsig", "KILL", "--", etcd, ...words], { stdio: "ignore" });
    return member;
  }

  stop() {
    this.child.kill("SIGSTOP");
  }

  resume() {
    this.child.kill("SIGCONT");
  }

  async end() {
    const gone = new Promise((resolve) => this.child.on("exit", resolve));
    this.child.kill("SIGKILL");
    await gone;
    rmSync(this.data, { recursive: true });
  }
}
