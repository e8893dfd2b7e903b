"""Azure's SDK for Python: each call and its effect.

Usage: sdk.py HTTPS_URL HTTP_URL METADATA_URL DATA_DIRECTORY
Prints `passed CALL: EFFECT` for each call, and exits with an error at the first failure.
"""

import sys
import time

import requests
from azure.core.credentials import AccessToken
from azure.core.exceptions import HttpResponseError
from azure.core.pipeline.policies import SansIOHTTPPolicy
from azure.mgmt.compute import ComputeManagementClient
from azure.mgmt.maintenance import MaintenanceManagementClient

HTTPS, HTTP, METADATA, DATA = sys.argv[1:5]
SUBSCRIPTION = "00000000-0000-0000-0000-000000000000"
ANSWER_SECONDS_MAX = 120

with open(f"{DATA}/token") as file:
    TOKEN = file.read().strip()
NATIVE = {"Authorization": f"Bearer {TOKEN}"}


class Owner:
    """The holder of the token in the data directory."""

    def get_token(self, *scopes, **options):
        return AccessToken(TOKEN, int(time.time()) + 3600)


def over_tls(kind):
    return kind(
        Owner(),
        SUBSCRIPTION,
        base_url=HTTPS,
        credential_scopes=[f"{HTTPS}/.default"],
        connection_verify=f"{DATA}/ca.pem",
        polling_interval=1,
    )


compute, maintenance = over_tls(ComputeManagementClient), over_tls(MaintenanceManagementClient)
sets, instances = compute.virtual_machine_scale_sets, compute.virtual_machine_scale_set_vms
machines = compute.virtual_machines


def passed(call, what):
    print(f"passed {call}: {what}", flush=True)


def expect(what, found, wanted):
    assert found == wanted, f"{what}: {found!r}, not {wanted!r}"


def advance(seconds):
    requests.post(f"{HTTP}/api/v1/clock/advance", json={"seconds": seconds}, headers=NATIVE).raise_for_status()


def document(machine):
    url = f"{METADATA}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"
    answer = requests.get(url, headers={"Metadata": "true"})
    answer.raise_for_status()
    return answer.json()["Events"]


def sees(machine, *wanted):
    events = document(machine)
    found = [f"{event['EventType']} {event['EventStatus']} {'+'.join(event['Resources'])}" for event in events]
    expect(f"what {machine} sees", found, list(wanted))
    return [event["EventId"] for event in events]


def approve(machine, event):
    url = f"{METADATA}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"
    body = {"StartRequests": [{"EventId": event}]}
    requests.post(url, json=body, headers={"Metadata": "true"}).raise_for_status()


def names():
    answer = requests.get(f"{HTTP}/api/v1/machines?limit=1000", headers=NATIVE)
    answer.raise_for_status()
    return [machine["name"] for machine in answer.json()["value"]]


def waits(poller):
    expect("the status of the operation", poller.status(), "InProgress")


def ends(poller):
    poller.wait(ANSWER_SECONDS_MAX)
    expect("the status of the operation", poller.status(), "Succeeded")
    return poller.result()


def lasts(poller, watcher, *events, seconds):
    """The operation creates these events and lasts until they have ended."""
    sees(watcher, *events)
    waits(poller)
    advance(seconds)
    ends(poller)
    sees(watcher)


def put_group():
    url = f"{HTTP}/subscriptions/{SUBSCRIPTION}/resourceGroups/rg?api-version=2024-11-01"
    requests.put(url, json={"location": "westeurope"}, headers=NATIVE).raise_for_status()


def set_model(capacity):
    return {
        "location": "westeurope",
        "sku": {"name": "Standard_D2s_v5", "capacity": capacity},
        "properties": {
            "orchestrationMode": "Uniform",
            "upgradePolicy": {"mode": "Manual"},
            "virtualMachineProfile": {"osProfile": {"computerNamePrefix": "ss", "adminUsername": "me"}},
        },
    }


def profile(minutes):
    return {"terminateNotificationProfile": {"enable": True, "notBeforeTimeout": f"PT{minutes}M"}}


put_group()

# Scale sets.
made = ends(sets.begin_create_or_update("rg", "ss", set_model(4)))
expect("capacity", made.sku.capacity, 4)
expect("machines", names(), ["ss_0", "ss_1", "ss_2", "ss_3"])
passed("virtual_machine_scale_sets.begin_create_or_update", "The set and its four machines exist.")

expect("get", sets.get("rg", "ss").properties.orchestration_mode, "Uniform")
passed("virtual_machine_scale_sets.get", "The response has the requested properties.")

change = {"properties": {"virtualMachineProfile": {"scheduledEventsProfile": profile(10)}}}
shown = ends(sets.begin_update("rg", "ss", change))
found = shown.properties.virtual_machine_profile.scheduled_events_profile.terminate_notification_profile
expect("notification", (found.enable, found.not_before_timeout), (True, "PT10M"))
passed("virtual_machine_scale_sets.begin_update", "Terminate notification is enabled.")

expect("models", [one.properties.latest_model_applied for one in instances.list("rg", "ss")], [False] * 4)
ends(sets.begin_update_instances("rg", "ss", {"instanceIds": ["0", "1", "2", "3"]}))
expect("models", [one.properties.latest_model_applied for one in instances.list("rg", "ss")], [True] * 4)
passed("virtual_machine_scale_set_vms.list", "The response shows which instances have the latest model.")
passed("virtual_machine_scale_sets.begin_update_instances", "All instances have the latest model.")

sees("ss_0")
poller = sets.begin_delete_instances("rg", "ss", {"instanceIds": ["2", "3"]})
first, second = sees("ss_0", "Terminate Scheduled ss_2", "Terminate Scheduled ss_3")
approve("ss_2", first)
sees("ss_0", "Terminate Scheduled ss_2", "Terminate Scheduled ss_3")
waits(poller)
approve("ss_3", second)
ends(poller)
expect("machines", names(), ["ss_0", "ss_1"])
passed("virtual_machine_scale_sets.begin_delete_instances", "Two Terminates; the approved one waited for the other; both started together.")

everything = ["ss_0", "ss_1"]
lasts(sets.begin_restart("rg", "ss"), "ss_0", *[f"Reboot Scheduled {name}" for name in everything], seconds=1500)
passed("virtual_machine_scale_sets.begin_restart", "A Reboot for each instance; the call returned when they were running again.")
lasts(sets.begin_redeploy("rg", "ss", {"instanceIds": ["1"]}), "ss_0", "Redeploy Scheduled ss_1", seconds=1200)
passed("virtual_machine_scale_sets.begin_redeploy", "A Redeploy; the call returned when the machine was running again.")
ends(sets.begin_reimage("rg", "ss"))
sees("ss_0")
passed("virtual_machine_scale_sets.begin_reimage", "No event.")
lasts(instances.begin_restart("rg", "ss", "1"), "ss_0", "Reboot Scheduled ss_1", seconds=1500)
passed("virtual_machine_scale_set_vms.begin_restart", "A Reboot; the call returned when the machine was running again.")
lasts(instances.begin_redeploy("rg", "ss", "1"), "ss_0", "Redeploy Scheduled ss_1", seconds=1200)
passed("virtual_machine_scale_set_vms.begin_redeploy", "A Redeploy; the call returned when the machine was running again.")
of_instance = ("rg", "Microsoft.Compute", "virtualMachineScaleSets", "ss", "virtualMachines", "1")
expect("status", maintenance.apply_updates.create_or_update_parent(*of_instance).properties.status, "Pending")
sees("ss_0", "Freeze Scheduled ss_1")
advance(1800)
expect("status", maintenance.apply_updates.get_parent(*of_instance, "default").properties.status, "Completed")
passed("apply_updates.create_or_update_parent", "A Freeze of the instance.")
listed = [(one.properties.resource_id.rsplit("/", 1)[1], one.properties.status) for one in maintenance.apply_updates.list()]
expect("updates", listed, [("1", "Completed")])
passed("apply_updates.list", "The updates of the instance.")
lasts(instances.begin_delete("rg", "ss", "1"), "ss_0", "Terminate Scheduled ss_1", seconds=600)
expect("machines", names(), ["ss_0"])
passed("virtual_machine_scale_set_vms.begin_delete", "A Terminate; the instance was deleted at the timeout.")
ends(sets.begin_deallocate("rg", "ss"))
view = instances.get_instance_view("rg", "ss", "0")
expect("power", [status.code for status in view.statuses][-1], "PowerState/deallocated")
sees("ss_0")
passed("virtual_machine_scale_sets.begin_deallocate", "The instance was deallocated; no event.")
ends(sets.begin_start("rg", "ss"))
poller = sets.begin_delete("rg", "ss")
sees("ss_0", "Terminate Scheduled ss_0")
waits(poller)
advance(600)
ends(poller)
expect("machines", names(), [])
passed("virtual_machine_scale_sets.begin_delete", "A Terminate; the call returned when the set and its instances were gone.")

spot = set_model(1)
spot["properties"]["virtualMachineProfile"]["priority"] = "Spot"
ends(sets.begin_create_or_update("rg", "spot", spot))
sees("spot_0")
instances.simulate_eviction("rg", "spot", "0")
sees("spot_0", "Preempt Scheduled spot_0")
advance(30)
sees("spot_0")
view = instances.get_instance_view("rg", "spot", "0")
expect("power", [status.code for status in view.statuses][-1], "PowerState/deallocated")
passed("virtual_machine_scale_set_vms.simulate_eviction", "A Preempt with 30 seconds of notice; then the instance was deallocated.")
ends(sets.begin_delete("rg", "spot"))

# Virtual machines.
found = compute.availability_sets.create_or_update("rg", "as1", {"location": "westeurope", "sku": {"name": "Aligned"}})
expect("name", found.name, "as1")
passed("availability_sets.create_or_update", "The set exists.")


def machine_model(**properties):
    return {"location": "westeurope", "properties": {"hardwareProfile": {"vmSize": "Standard_D2s_v5"}, **properties}}


for name in ("web1", "web2"):
    model = machine_model(availabilitySet={"id": found.id}, scheduledEventsProfile=profile(10))
    ends(machines.begin_create_or_update("rg", name, model))
expect("machines", names(), ["web1", "web2"])
passed("virtual_machines.begin_create_or_update", "The machines exist in one availability set.")
sees("web2")
lasts(machines.begin_restart("rg", "web1"), "web2", "Reboot Scheduled web1", seconds=1500)
passed("virtual_machines.begin_restart", "A Reboot that the other machine sees; the call returned when the machine was running again.")
lasts(machines.begin_redeploy("rg", "web1"), "web2", "Redeploy Scheduled web1", seconds=1200)
passed("virtual_machines.begin_redeploy", "A Redeploy; the call returned when the machine was running again.")
lasts(machines.begin_perform_maintenance("rg", "web1"), "web2", "Redeploy Scheduled web1", seconds=1200)
passed("virtual_machines.begin_perform_maintenance", "A Redeploy; the call returned when the machine was running again.")
expect("power", machines.instance_view("rg", "web1").statuses[-1].code, "PowerState/running")
passed("virtual_machines.instance_view", "The machine is running.")
ends(machines.begin_create_or_update("rg", "evicted", machine_model(priority="Spot")))
sees("evicted")
machines.simulate_eviction("rg", "evicted")
sees("evicted", "Preempt Scheduled evicted")
advance(30)
sees("evicted")
expect("power", machines.instance_view("rg", "evicted").statuses[-1].code, "PowerState/deallocated")
passed("virtual_machines.simulate_eviction", "A Preempt with 30 seconds of notice; then the machine was deallocated.")

# Approval from outside.
poller = machines.begin_restart("rg", "web1")
(event,) = sees("web2", "Reboot Scheduled web1")
maintenance.scheduled_events.acknowledge("rg", "virtualMachines", "web1", event)
sees("web2", "Reboot Started web1")
advance(600)
ends(poller)
passed("scheduled_events.acknowledge", "The Reboot started at once.")
poller = machines.begin_redeploy("rg", "web2")
(event,) = sees("web1", "Redeploy Scheduled web2")
maintenance.scheduled_events.acknowledge_list("rg", "availabilitySets", "as1", {"value": [event]})
sees("web1", "Redeploy Started web2")
advance(600)
ends(poller)
passed("scheduled_events.acknowledge_list", "The Redeploy started at once.")
try:
    maintenance.scheduled_events.acknowledge("rg", "virtualMachines", "web1", "00000000-0000-0000-0000-000000000001")
    raise SystemExit("an unknown event was acknowledged")
except HttpResponseError as error:
    expect("status", error.status_code, 404)

# Maintenance windows.
window = {"startDateTime": "2026-03-01 22:00", "duration": "05:00", "timeZone": "Pacific Standard Time", "recurEvery": "Day"}
nights = {"location": "westeurope", "properties": {"maintenanceScope": "Host", "maintenanceWindow": window}}
made = maintenance.maintenance_configurations.create_or_update("rg", "nights", nights)
expect("configuration", (made.name, made.properties.maintenance_scope), ("nights", "Host"))
expect("configurations", [one.name for one in maintenance.maintenance_configurations.list()], ["nights"])
passed("maintenance_configurations.create_or_update", "A window for maintenance of hosts.")
of_set = ("rg", "Microsoft.Compute", "availabilitySets", "as1")
assignment = {"location": "westeurope", "properties": {"maintenanceConfigurationId": made.id}}
maintenance.configuration_assignments.create_or_update(*of_set, "a", assignment)
expect("assignments", [one.name for one in maintenance.configuration_assignments.list(*of_set)], ["a"])
passed("configuration_assignments.create_or_update", "The window applies to an availability set.")
expect("status", maintenance.apply_updates.create_or_update(*of_set).properties.status, "Pending")
rollouts = requests.get(f"{HTTP}/api/v1/rollouts", headers=NATIVE).json()["value"]
expect("windows", [one["timeZone"] for one in rollouts[0]["windows"]], ["America/Los_Angeles"])
advance(3 * 24 * 3600)
expect("status", maintenance.apply_updates.get(*of_set, "default").properties.status, "Completed")
passed("apply_updates.create_or_update", "A rollout over the set within its window.")
maintenance.configuration_assignments.delete(*of_set, "a")
maintenance.maintenance_configurations.delete("rg", "nights")
sees("web1")
sees("web2")

poller = machines.begin_delete("rg", "web1")
(event,) = sees("web2", "Terminate Scheduled web1")
waits(poller)
approve("web1", event)
ends(poller)
expect("machines", "web1" in names(), False)
passed("virtual_machines.begin_delete", "A Terminate; the call returned after the approval, when the machine was gone.")

# Plain HTTP, which the client accepts only without its own authentication policy.
class Token(SansIOHTTPPolicy):
    def on_request(self, request):
        request.http_request.headers["Authorization"] = f"Bearer {TOKEN}"


plain = ComputeManagementClient(Owner(), SUBSCRIPTION, base_url=HTTP, authentication_policy=Token())
expect("machines", [one.name for one in plain.virtual_machines.list("rg")], ["web2", "evicted"])
passed("virtual_machines.list", "Over plain HTTP, with a custom authentication policy.")


class NoTls(SansIOHTTPPolicy):
    def on_request(self, request):
        request.context.options["enforce_https"] = False


plain = ComputeManagementClient(Owner(), SUBSCRIPTION, base_url=HTTP, per_call_policies=[NoTls()])
expect("name", plain.virtual_machines.get("rg", "web2").name, "web2")
passed("virtual_machines.get", "Over plain HTTP, with the client's own token, allowed for all calls.")
plain = ComputeManagementClient(Owner(), SUBSCRIPTION, base_url=HTTP)
poller = plain.virtual_machines.begin_restart("rg", "web2", enforce_https=False, polling_interval=1)
lasts(poller, "web2", "Reboot Scheduled web2", seconds=1500)
passed("virtual_machines.begin_restart(enforce_https=False)", "Over plain HTTP, allowed for this call; a Reboot, and the call returned when the machine was running again.")
