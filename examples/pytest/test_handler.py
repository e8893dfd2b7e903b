"""Tests of handler.py: in a thread with its own endpoint, and as a program with the fixed address."""

import pathlib
import subprocess
import sys
import threading
import urllib.error

import pytest

import handler


def start_handler(machine):
    reports = []
    thread = threading.Thread(target=handler.watch, args=(machine.endpoint, True, reports.append), daemon=True)
    thread.start()
    return thread, reports


def test_a_restart_is_prepared_approved_and_undone(forewarn):
    web = forewarn.machine("web_0")
    event = web.restart()
    thread, reports = start_handler(web)
    assert event.wait_approved() == "guest:web_0"
    assert reports == [f"prepared for Reboot {event.id}"]
    forewarn.advance(600)
    assert event.wait_finished() == "Completed"
    thread.join(60)
    assert reports[1:] == [f"restored after {event.id}"]


def test_events_of_other_machines_are_ignored(forewarn):
    forewarn.call("POST", "/availability-sets", {"name": "web"})
    web, other = (forewarn.machine(name, availabilitySet="web") for name in ["web_0", "web_1"])
    others, mine = other.schedule("Redeploy"), web.schedule("Freeze")
    thread, reports = start_handler(web)
    assert mine.wait_approved() == "guest:web_0"
    forewarn.advance(599)
    assert others.fetch()["status"] == "Scheduled"
    others.cancel()
    assert others.wait_finished() == "Canceled"
    forewarn.advance(1)
    thread.join(60)
    assert reports == [f"prepared for Freeze {mine.id}", f"restored after {mine.id}"]


def test_an_eviction_needs_no_approval(forewarn_scaled):
    batch = forewarn_scaled.machine("batch_0", priority="Spot")
    assert batch.evict().wait_finished() == "Completed"


def test_a_deletion_has_notice_if_the_machine_is_configured_for_it(forewarn):
    pool = forewarn.machine("pool_0", terminateNotification={"notBeforeTimeout": "PT10M"})
    event = pool.delete()
    assert [event["EventType"] for event in pool.document()["Events"]] == ["Terminate"]
    event.approve()
    assert event.wait_finished() == "Completed"
    assert forewarn.machine("web_0").schedule("Terminate").fetch()["status"] == "Scheduled"
    assert forewarn.machine("web_1").delete() is None


def test_a_host_failure_has_no_notice(forewarn):
    event = forewarn.machine("web_0").fail()
    assert event.fetch()["status"] == "Started"
    forewarn.advance(3600)
    assert event.wait_finished() == "Completed"


def test_faults_are_recorded_and_expire(forewarn):
    web = forewarn.machine("web_0")
    web.inject_fault("Status", status=503, count=1)
    forewarn.inject_fault("Delay", delaySeconds=0.01, seconds=60)
    with pytest.raises(urllib.error.HTTPError):
        web.document()
    assert web.document()["Events"] == []
    kinds = [[fault["kind"] for fault in request["faults"]] for request in web.requests()]
    assert [sorted(each) for each in kinds] == [["Delay", "Status"], ["Delay"]]
    forewarn.clear_faults()
    web.document()
    assert web.requests()[-1]["faults"] == []


def test_waiting_for_the_approval_of_a_finished_event_fails_at_once(forewarn):
    event = forewarn.machine("web_0").restart()
    event.cancel()
    with pytest.raises(AssertionError, match="has finished and was not approved"):
        event.wait_approved()


def test_the_program_uses_the_fixed_address():
    program = pathlib.Path(handler.__file__)
    options = ["--quiet", "--vm", "web_0", "--schedule", "reboot", "--notice-scale", "60", "--impact-reboot", "0s"]
    command = ["forewarn", "run", *options, "--", sys.executable, program, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert (done.returncode, words) == (0, ["prepared", "restored"]), done
