// Azure's SDK for JavaScript: each call and its effect.
//
// Usage: sdk.mjs HTTPS_URL HTTP_URL METADATA_URL DATA_DIRECTORY, with node_modules below $MODULES.
// Prints `passed CALL: EFFECT` for each call, and exits with an error at the first failure.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const require = createRequire(`${process.env.MODULES}/`);
const { ComputeManagementClient } = require("@azure/arm-compute");

const [HTTPS, HTTP, METADATA, DATA] = process.argv.slice(2);
const SUBSCRIPTION = "00000000-0000-0000-0000-000000000000";
const TOKEN = readFileSync(`${DATA}/token`, "utf8").trim();
const NATIVE = { Authorization: `Bearer ${TOKEN}`, "Content-Type": "application/json" };

const owner = { getToken: async () => ({ token: TOKEN, expiresOnTimestamp: Date.now() + 3600e3 }) };
const compute = new ComputeManagementClient(owner, SUBSCRIPTION, { endpoint: HTTPS });
const sets = compute.virtualMachineScaleSets;
const machines = compute.virtualMachines;

const passed = (call, what) => console.log(`passed ${call}: ${what}`);

async function native(method, path, body) {
  const answer = await fetch(`${HTTP}${path}`, { method, headers: NATIVE, body: body && JSON.stringify(body) });
  assert.ok(answer.ok, `${method} ${path}: ${answer.status}`);
  return answer.json();
}

const advance = (seconds) => native("POST", "/api/v1/clock/advance", { seconds });

const names = async () => (await native("GET", "/api/v1/machines?limit=1000")).value.map((one) => one.name);

const eventsUrl = (machine) => `${METADATA}/vm/${machine}/metadata/scheduledevents?api-version=2020-07-01`;

async function events(machine) {
  const answer = await fetch(eventsUrl(machine), { headers: { Metadata: "true" } });
  assert.equal(answer.status, 200);
  return (await answer.json()).Events;
}

const render = (list) => list.map((one) => `${one.EventType} ${one.EventStatus} ${one.Resources.join("+")}`);

/// Waits until the machine sees these events. Fails with the events that it sees instead.
async function sees(machine, ...wanted) {
  for (let attempt = 0; attempt < 600; attempt += 1) {
    const list = await events(machine);
    if (render(list).join() === wanted.join()) return list;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  assert.deepEqual(render(await events(machine)), wanted);
}

async function approve(machine, event) {
  const body = JSON.stringify({ StartRequests: [{ EventId: event }] });
  const answer = await fetch(eventsUrl(machine), { method: "POST", headers: { Metadata: "true" }, body });
  assert.equal(answer.status, 200);
}

/// An operation in progress, with its state.
function watched(operation) {
  const state = { isOver: false };
  state.ended = operation.then(() => (state.isOver = true));
  state.waits = () => assert.equal(state.isOver, false, "the operation ended before its events");
  return state;
}

/// The operation creates these events and lasts until they have ended.
async function lasts(operation, watcher, wanted, seconds) {
  const going = watched(operation);
  await sees(watcher, ...wanted);
  going.waits();
  await advance(seconds);
  await going.ended;
  await sees(watcher);
}

const setModel = (capacity) => ({
  location: "westeurope",
  sku: { name: "Standard_D2s_v5", capacity },
  orchestrationMode: "Uniform",
  upgradePolicy: { mode: "Manual" },
  virtualMachineProfile: { osProfile: { computerNamePrefix: "ss", adminUsername: "me" } },
});

/// A poller starts when it is awaited; a promise starts it at once.
const begin = (poller) => Promise.resolve(poller);

await native("PUT", `/subscriptions/${SUBSCRIPTION}/resourceGroups/rg?api-version=2024-11-01`, { location: "westeurope" });

// Scale sets.
await sets.createOrUpdate("rg", "ss", setModel(3));
assert.deepEqual(await names(), ["ss_0", "ss_1", "ss_2"]);
passed("virtualMachineScaleSets.createOrUpdate", "The set and its three machines exist.");

const model = setModel(3);
model.virtualMachineProfile.scheduledEventsProfile = {
  terminateNotificationProfile: { enable: true, notBeforeTimeout: "PT5M" },
};
const updated = await sets.createOrUpdate("rg", "ss", model);
const profile = updated.virtualMachineProfile.scheduledEventsProfile;
assert.equal(profile.terminateNotificationProfile.notBeforeTimeout, "PT5M");
await sets.updateInstances("rg", "ss", { instanceIds: ["*"] });
passed("virtualMachineScaleSets.updateInstances", "Terminate notification is enabled in all instances.");

await sees("ss_0");
const deleted = watched(begin(sets.deleteInstances("rg", "ss", { instanceIds: ["1", "2"] })));
const [first, second] = await sees("ss_0", "Terminate Scheduled ss_1", "Terminate Scheduled ss_2");
await approve("ss_1", first.EventId);
await sees("ss_0", "Terminate Scheduled ss_1", "Terminate Scheduled ss_2");
deleted.waits();
await approve("ss_2", second.EventId);
await deleted.ended;
assert.deepEqual(await names(), ["ss_0"]);
passed("virtualMachineScaleSets.deleteInstances", "Two Terminates; the approved one waited for the other; both started together.");

await lasts(begin(sets.restart("rg", "ss")), "ss_0", ["Reboot Scheduled ss_0"], 1500);
passed("virtualMachineScaleSets.restart", "A Reboot; the call returned when the machine was running again.");
await lasts(begin(sets.redeploy("rg", "ss")), "ss_0", ["Redeploy Scheduled ss_0"], 1200);
passed("virtualMachineScaleSets.redeploy", "A Redeploy; the call returned when the machine was running again.");
await sets.reimage("rg", "ss");
await sees("ss_0");
passed("virtualMachineScaleSets.reimage", "No event.");
const gone = watched(begin(sets.delete("rg", "ss")));
await sees("ss_0", "Terminate Scheduled ss_0");
gone.waits();
await advance(300);
await gone.ended;
assert.deepEqual(await names(), []);
passed("virtualMachineScaleSets.delete", "A Terminate; the call returned when the set and its instance were gone.");

// Virtual machines.
const set = await compute.availabilitySets.createOrUpdate("rg", "as1", { location: "westeurope", sku: { name: "Aligned" } });
assert.equal(set.name, "as1");
passed("availabilitySets.createOrUpdate", "The set exists.");
const machine = (more) => ({ location: "westeurope", hardwareProfile: { vmSize: "Standard_D2s_v5" }, ...more });
const announced = { terminateNotificationProfile: { enable: true, notBeforeTimeout: "PT10M" } };
for (const name of ["web1", "web2"]) {
  await machines.createOrUpdate("rg", name, machine({ availabilitySet: { id: set.id }, scheduledEventsProfile: announced }));
}
assert.deepEqual(await names(), ["web1", "web2"]);
passed("virtualMachines.createOrUpdate", "The machines exist in one availability set.");
await sees("web2");
await lasts(begin(machines.restart("rg", "web1")), "web2", ["Reboot Scheduled web1"], 1500);
passed("virtualMachines.restart", "A Reboot that the other machine sees; the call returned when the machine was running again.");
await lasts(begin(machines.redeploy("rg", "web1")), "web2", ["Redeploy Scheduled web1"], 1200);
passed("virtualMachines.redeploy", "A Redeploy; the call returned when the machine was running again.");
await machines.createOrUpdate("rg", "evicted", machine({ priority: "Spot" }));
await sees("evicted");
await machines.simulateEviction("rg", "evicted");
await sees("evicted", "Preempt Scheduled evicted");
await advance(30);
await sees("evicted");
const view = await machines.instanceView("rg", "evicted");
assert.equal(view.statuses.at(-1).code, "PowerState/deallocated");
passed("virtualMachines.simulateEviction", "A Preempt with 30 seconds of notice; then the machine was deallocated.");
const leaving = watched(begin(machines.delete("rg", "web1")));
const [farewell] = await sees("web2", "Terminate Scheduled web1");
leaving.waits();
await approve("web1", farewell.EventId);
await leaving.ended;
assert.ok(!(await names()).includes("web1"));
passed("virtualMachines.delete", "A Terminate; the call returned after the approval, when the machine was gone.");

// Plain HTTP, which the client accepts only without its own authentication policy.
const plain = new ComputeManagementClient(owner, SUBSCRIPTION, { endpoint: HTTP, allowInsecureConnection: true });
plain.pipeline.removePolicy({ name: "bearerTokenAuthenticationPolicy" });
plain.pipeline.addPolicy({
  name: "token",
  sendRequest: (request, next) => {
    request.headers.set("Authorization", `Bearer ${TOKEN}`);
    return next(request);
  },
});
const listed = [];
for await (const one of plain.virtualMachines.list("rg")) listed.push(one.name);
assert.ok(listed.includes("evicted"));
passed("virtualMachines.list", "Over plain HTTP, with a custom authentication policy.");
