"""The handler under test, first inside this process with an address of its own, then as the program that it is."""

import pathlib
import subprocess
import sys
import threading
import urllib.error

import pytest

import handler


def begin(machine):
    said = []
    thread = threading.Thread(target=handler.watch, args=(machine.endpoint, True, said.append), daemon=True)
    thread.start()
    return thread, said


def test_a_restart_is_prepared_for_approved_and_undone(forewarn):
    web = forewarn.machine("web_0")
    event = web.restart()
    thread, said = begin(web)
    assert event.wait_approved() == "guest:web_0"
    assert said == [f"prepared for Reboot {event.id}"]
    forewarn.advance(600)
    assert event.wait_gone() == "Completed"
    thread.join(60)
    assert said[1:] == [f"restored after {event.id}"]


def test_what_concerns_another_machine_is_left_alone(forewarn):
    forewarn.call("POST", "/availability-sets", {"name": "web"})
    web, other = (forewarn.machine(name, availabilitySet="web") for name in ["web_0", "web_1"])
    others, mine = other.schedule("Redeploy"), web.schedule("Freeze")
    thread, said = begin(web)
    assert mine.wait_approved() == "guest:web_0"
    forewarn.advance(599)
    assert others.facts()["status"] == "Scheduled"
    others.cancel()
    assert others.wait_gone() == "Canceled"
    forewarn.advance(1)
    thread.join(60)
    assert said == [f"prepared for Freeze {mine.id}", f"restored after {mine.id}"]


def test_an_eviction_does_not_wait_for_anybody(forewarn_in_a_hurry):
    batch = forewarn_in_a_hurry.machine("batch_0", priority="Spot")
    assert batch.evict().wait_gone() == "Completed"


def test_deletions_are_announced_where_machines_have_that(forewarn):
    pool = forewarn.machine("pool_0", terminateNotification={"notBeforeTimeout": "PT10M"})
    event = pool.delete()
    assert [event["EventType"] for event in pool.document()["Events"]] == ["Terminate"]
    event.approve()
    assert event.wait_gone() == "Completed"
    assert forewarn.machine("web_0").schedule("Terminate").facts()["status"] == "Scheduled"
    assert forewarn.machine("web_1").delete() is None


def test_broken_hardware_gives_no_notice(forewarn):
    event = forewarn.machine("web_0").fail()
    assert event.facts()["status"] == "Started"
    forewarn.advance(3600)
    assert event.wait_gone() == "Completed"


def test_wrong_answers_are_recorded_and_end(forewarn):
    web = forewarn.machine("web_0")
    web.fault("Status", status=503, count=1)
    forewarn.fault("Delay", delaySeconds=0.01, seconds=60)
    with pytest.raises(urllib.error.HTTPError):
        web.document()
    assert web.document()["Events"] == []
    met = [[fault["kind"] for fault in request["faults"]] for request in web.requests()]
    assert [sorted(kinds) for kinds in met] == [["Delay", "Status"], ["Delay"]]
    forewarn.clear_faults()
    web.document()
    assert web.requests()[-1]["faults"] == []


def test_what_cannot_come_any_more_is_not_waited_for(forewarn):
    event = forewarn.machine("web_0").restart()
    event.cancel()
    with pytest.raises(AssertionError, match="is over and was not approved"):
        event.wait_approved()


def test_the_program_asks_at_the_fixed_address():
    program = pathlib.Path(handler.__file__)
    options = ["--quiet", "--vm", "web_0", "--schedule", "reboot", "--notice-scale", "60", "--impact-reboot", "0s"]
    command = ["forewarn", "run", *options, "--", sys.executable, program, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert (done.returncode, words) == (0, ["prepared", "restored"]), done
