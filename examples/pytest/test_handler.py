"""Tests of handler.py with the package `forewarn`: in a thread with its own endpoint, and as a program with the fixed
address."""

import pathlib
import subprocess
import sys
import threading

import handler
from forewarn import Fault


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
    web, other = forewarn.availability_set("web", ["web_0", "web_1"])
    others, mine = other.schedule("Redeploy"), web.schedule("Freeze")
    thread, reports = start_handler(web)
    assert mine.wait_approved() == "guest:web_0"
    forewarn.advance(599)
    assert others.status == "Scheduled"
    others.cancel()
    assert others.wait_finished() == "Canceled"
    forewarn.advance(1)
    thread.join(60)
    assert reports == [f"prepared for Freeze {mine.id}", f"restored after {mine.id}"]


def test_an_eviction_needs_no_approval(forewarn_scaled):
    batch = forewarn_scaled.machine("batch_0", priority="Spot")
    assert batch.evict().wait_finished() == "Completed"


def test_slow_responses_are_tolerated(forewarn):
    web = forewarn.machine("web_0")
    thread, reports = start_handler(web)
    with web.inject_fault(Fault.delay(0.05), method="GET"):
        event = web.schedule("Freeze")
        assert event.wait_approved() == "guest:web_0"
    forewarn.advance(600)
    thread.join(60)
    assert reports == [f"prepared for Freeze {event.id}", f"restored after {event.id}"]
    assert [request.approved for request in web.requests() if request.method == "POST"] == [(event.id,)]


def test_the_program_uses_the_fixed_address():
    program = pathlib.Path(handler.__file__)
    options = ["--quiet", "--vm", "web_0", "--schedule", "reboot", "--notice-scale", "60", "--impact-reboot", "0s"]
    command = ["forewarn", "run", *options, "--", sys.executable, program, "--once"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    words = [line.split()[0] for line in done.stdout.splitlines()]
    assert (done.returncode, words) == (0, ["prepared", "restored"]), done
