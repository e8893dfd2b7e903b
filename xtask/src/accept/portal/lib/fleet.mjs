// A fleet for screenshots, on a manual clock.

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
    overview: "/",
    machine: `/machines/${vmId}`,
    group: `/groups/${web.id}`,
    event: `/events/${event}`,
    "scale-sets": "/scale-sets",
    "add-scale-set": "/scale-sets/add",
    maintenance: "/maintenance",
    "test-kit": "/test-kit",
  };
}
