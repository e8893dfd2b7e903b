// A third-party handler: Debian's azure-events-az, unchanged, run as a machine of the server by `forewarn run`, which provides the
// fixed address. The four cluster commands that it calls are those of the Pacemaker run.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { agents, program } from "./words.mjs";

const commands = fileURLToPath(new URL("../../pacemaker/bin", import.meta.url));
const ocf = join(agents, "usr/lib/ocf");

export class Handler {
  constructor(server, machine) {
    this.server = server;
    this.machine = machine;
    this.cluster = mkdtempSync(join(tmpdir(), "forewarn-cluster-"));
    writeFileSync(join(this.cluster, "nodes"), `${machine}\nelsewhere\n`);
    mkdirSync(join(this.cluster, "resources"));
    this.#place(machine);
    this.#act("start");
    this.monitor();
  }

  // Pacemaker does this every ten seconds.
  monitor() {
    this.#act("monitor");
  }

  // Moves the resources to another node, so that the handler can approve.
  drain() {
    this.#place("elsewhere");
  }

  state() {
    return readFileSync(join(this.cluster, "attributes", this.machine, "azure-events-az_curNodeState"), "utf8");
  }

  end() {
    rmSync(this.cluster, { recursive: true });
  }

  #place(node) {
    writeFileSync(join(this.cluster, "resources/rsc_hana"), node);
  }

  #act(action) {
    const env = {
      PATH: `${commands}:/usr/sbin:/usr/bin:/sbin:/bin`,
      CLUSTER: this.cluster,
      OCF_ROOT: ocf,
      OCF_RESOURCE_INSTANCE: "rsc_azure-events-az",
      HA_LOGFILE: join(this.cluster, "agents.log"),
      PYTHONDONTWRITEBYTECODE: "1",
      FOREWARN_TOKEN: this.server.token,
    };
    const words = ["run", "--quiet", "--vm", this.machine, "--server", this.server.management, "--"];
    execFileSync(program, [...words, join(ocf, "resource.d/heartbeat/azure-events-az"), action], { env });
  }
}
