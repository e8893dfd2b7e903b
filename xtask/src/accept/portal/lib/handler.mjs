// A handler that others wrote: Debian's azure-events-az, unchanged, run as a machine of the server by `forewarn run`, which gives it the
// fixed address. The four commands of the cluster that it speaks to are those of the run with Pacemaker.

import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
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
    writeFileSync(join(this.cluster, "nodes"), `${hostname()}\nelsewhere\n`);
    mkdirSync(join(this.cluster, "resources"));
    this.#place(hostname());
    this.#act("start");
    this.look();
  }

  // What Pacemaker has it do every ten seconds.
  look() {
    this.#act("monitor");
  }

  // The cluster has moved away what ran here; now the handler may say that it is ready.
  drain() {
    this.#place("elsewhere");
  }

  state() {
    return readFileSync(join(this.cluster, "attributes", hostname(), "azure-events-az_curNodeState"), "utf8");
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
