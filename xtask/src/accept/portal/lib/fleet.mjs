// Fleets for screenshots, on a manual clock: one for people who write handlers, and one of a data center at night.

import { eventOf } from "./server.mjs";

// Creates the fleet and returns the addresses of its pages.
export async function fleet(server) {
  const post = (path, body = {}) => server.api("POST", path, body);
  const terminateNotification = { notBeforeTimeout: "PT7M" };
  const web = await post("/scale-sets", { name: "web", capacity: 8, orchestration: "Uniform", model: { terminateNotification } });
  await post("/scale-sets", { name: "workers", capacity: 60, orchestration: "Flexible", model: { priority: "Spot" } });
  await post("/availability-sets", { name: "db" });
  for (const number of [1, 2, 3]) await post("/machines", { name: `db-${number}`, availabilitySet: "db", host: "rack-4" });
  for (const machine of ["web_0", "db-1"]) server.curl(machine);
  const started = eventOf(await post("/machines/web_3/restart"));
  await post("/clock/advance", { seconds: 240 });
  const event = eventOf(await post("/machines/web_1/redeploy"));
  server.approve("web_0", started);
  await post("/clock/advance", { seconds: 120 });
  await post("/maintenance", { target: { host: "rack-4" }, type: "Freeze" });
  await post("/maintenance", { target: { group: "web" }, type: "Reboot", description: "Firmware" });
  await post("/clock/advance", { seconds: 150 });
  for (let polls = 0; polls < 4; polls++) {
    server.curl("web_1");
    await post("/clock/advance", { seconds: 1 });
  }
  await post("/faults", { fault: { kind: "Status", status: 503 }, count: 3 });
  await post("/scenario-runs", { scenario: "eviction" });
  const { vmId } = await server.api("GET", "/machines/web_1");
  return {
    start: "/",
    machine: `/machines/${vmId}`,
    "scale-set": `/groups/${web.id}`,
    event: `/events/${event}`,
    "scale-sets": "/scale-sets",
    "add-scale-set": "/scale-sets/add",
    maintenance: "/maintenance",
    "test-kit": "/test-kit",
  };
}

const two = (number) => String(number).padStart(2, "0");
const hostsOf = (rack) => Array.from({ length: 10 }, (_, n) => `${rack}-n${two(n + 1)}`);

// 40 hosts in four racks at night: a rollout over two racks with a host that failed, maintenance of a host and of a group, a hardware
// failure, a drain, restarts, a failing webhook, and groups without a handler. Returns the addresses of the pages.
export async function night(server, longName) {
  const post = (path, body = {}) => server.api("POST", path, body);
  const advance = (seconds) => post("/clock/advance", { seconds });
  const groups = ["pay-db", "kafka", "postgres", "orders-prod", "ledger-prod", "search", "gateway-prod", "tax-prod"];
  for (const name of groups) await post("/availability-sets", { name });
  const hosts = ["r01", "r02", "r03", "r04"].flatMap(hostsOf);
  for (const [number, host] of hosts.entries()) {
    const placed = groups.filter((_, index) => (number + index) % 2);
    for (const group of placed) await post("/machines", { name: `${group}-${two(number + 1)}`, availabilitySet: group, host, addresses: [] });
  }
  await post("/scale-sets", { name: "api", capacity: 30, orchestration: "Uniform" });
  await post("/scale-sets", { name: "checkout", capacity: 40, orchestration: "Uniform", model: { terminateNotification: { notBeforeTimeout: "PT5M" } } });
  for (const name of ["grafana", longName]) await post("/machines", { name, addresses: [] });
  const listen = async () => {
    const machines = (await server.api("GET", "/machines?limit=1000")).value.map((machine) => machine.name);
    for (const name of machines) if (!/tax|grafana|0[37]$/.test(name)) await server.listen(name);
  };
  await listen();
  await post("/webhooks", { name: "ops", url: "http://127.0.0.1:9/hook" });
  const plan = { type: "Reboot", parallel: 3, pauseSeconds: 600, maxFailures: 10, maxUnavailable: 6, durationSeconds: 360, description: "CHG-20151 Host firmware 4.12" };
  const rollout = await post("/rollouts", { ...plan, hosts: [...hostsOf("r03"), ...hostsOf("r04")] });
  for (const seconds of [900, 600, 700, 500]) await advance(seconds);
  const operation = await post("/maintenance", { target: { host: "r01-n03" }, type: "Reboot", description: "CHG-20170 Replace DIMM A3", durationSeconds: 600 });
  await post("/maintenance", { target: { group: "pay-db" }, type: "Reboot", description: "CHG-20163 Hypervisor update", durationSeconds: 600 });
  await advance(240);
  await listen();
  await server.api("PATCH", "/scale-sets/checkout", { capacity: 35 });
  await post("/machines/grafana/restart");
  for (const instance of [3, 4, 5]) await post(`/machines/api_${instance}/restart`);
  await post("/hosts/r02-n09/drain");
  await post("/hosts/r02-n06/hardware-failure", { type: "Redeploy" });
  const { steps } = await server.api("GET", `/rollouts/${rollout.id}`);
  await post(`/hosts/${steps.find((step) => step.state === "InProgress").host}/fence`);
  await advance(150);
  for (const event of operation.events.slice(0, 2)) await post(`/events/${event.id}/approve`);
  await advance(30);
  await listen();
  const { id: group } = await server.api("GET", "/availability-sets/pay-db");
  const { vmId } = await server.api("GET", `/machines/${longName}`);
  return {
    overview: "/",
    expanded: `/?open=op-${operation.id}`,
    operations: "/operations",
    operation: `/operations/${operation.id}`,
    rollout: `/rollouts/${rollout.id}`,
    planner: "/rollouts/plan?hosts=r01-n01,r01-n02,r01-n04,r01-n05&parallel=2&pause=20m&description=CHG-20188+Microcode",
    groups: "/groups",
    group: `/groups/${group}`,
    hosts: "/hosts",
    host: "/hosts/r01-n03",
    machines: "/machines",
    "long-name": `/machines/${vmId}`,
    webhooks: "/webhooks",
    history: "/history",
    calendar: "/calendar",
    search: "/search?q=pay-db",
  };
}
