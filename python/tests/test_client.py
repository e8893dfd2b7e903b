"""The client against a real server: machines, events, the clock and faults."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from datetime import timedelta
from typing import Any, Callable

import pytest

from forewarn import ApiError, Client, Fault, Forewarn, Machine, WaitFailed

EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"

_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def poll(machine: Machine) -> Any:
    """What a handler does: request the document from the machine's endpoint."""
    request = urllib.request.Request(machine.endpoint + EVENTS, headers={"Metadata": "true"})
    with _direct.open(request) as response:
        return json.load(response)


def approve(machine: Machine, event: str) -> None:
    body = json.dumps({"StartRequests": [{"EventId": event}]}).encode()
    _direct.open(urllib.request.Request(machine.endpoint + EVENTS, body, {"Metadata": "true"})).close()


def test_an_event_is_scheduled_approved_and_finished(forewarn: Forewarn) -> None:
    web = forewarn.machine("web_0")
    event = web.schedule("Reboot")
    assert [found["EventId"] for found in poll(web)["Events"]] == [event.id]
    info = event.fetch()
    assert (info.type, info.status, info.source, info.resources) == ("Reboot", "Scheduled", "Platform", ("web_0",))
    assert info.not_before - forewarn.clock().now == timedelta(minutes=15)
    approve(web, event.id)
    assert event.wait_approved() == "guest:web_0"
    event.wait_started()
    forewarn.advance(600)
    assert event.wait_finished() == "Completed"
    assert [request.approved for request in web.requests()] == [(), (event.id,)]


@pytest.mark.parametrize("fault", [Fault.status(503), Fault.reset(), Fault.malformed(), Fault.events_vanish()])
def test_faults_do_not_affect_the_calls_of_the_fixture(forewarn: Forewarn, fault: Fault) -> None:
    web = forewarn.machine("web_0", priority="Spot")
    web.inject_fault(fault)
    forewarn.inject_fault(Fault.status(429, retry_after=1), percent=50)
    event = web.schedule("Reboot")
    assert event.status == "Scheduled"
    assert [found["EventId"] for found in web.document()["Events"]] == [event.id]
    assert web.evict().type == "Preempt"
    assert web.requests() == []


def test_the_handler_gets_the_fault_until_it_is_cleared(forewarn: Forewarn) -> None:
    web, db = forewarn.machine("web_0"), forewarn.machine("db_0")
    with web.inject_fault(Fault.status(503)) as outage:
        with pytest.raises(urllib.error.HTTPError) as refused:
            poll(web)
        refused.value.close()
        assert refused.value.code == 503
        assert poll(db)["Events"] == []
        assert outage.fetch_affected() == 1
        assert [fault.machine for fault in forewarn.faults()] == ["web_0"]
    assert poll(web)["Events"] == []
    assert outage.fetch_affected() == 1
    assert [request.faults for request in web.requests()] == [("Status",), ()]
    web.inject_fault(Fault.delay(0.01), count=1).clear()
    forewarn.inject_fault(Fault.truncated(), method="POST", documents_only=True, seconds=60)
    forewarn.clear_faults()
    assert forewarn.faults() == []


def test_a_fault_with_a_count_expires(forewarn: Forewarn) -> None:
    web = forewarn.machine("web_0")
    fault = web.inject_fault(Fault.status(500), count=1)
    with pytest.raises(urllib.error.HTTPError) as refused:
        poll(web)
    refused.value.close()
    assert poll(web)["Events"] == []
    fault.clear()


def test_deletions_have_notice_if_the_machine_has_it(forewarn: Forewarn) -> None:
    pool = forewarn.machine("pool_0", terminateNotification={"notBeforeTimeout": "PT10M"})
    assert pool.fetch().terminate_notice == "PT10M"
    event = pool.delete()
    assert event is not None and event.type == "Terminate"
    event.approve()
    assert event.wait_finished() == "Completed"
    assert forewarn.machine("web_0").schedule("Terminate").status == "Scheduled"
    assert forewarn.machine("web_1").delete() is None


def test_host_failures_and_evictions(forewarn: Forewarn) -> None:
    assert forewarn.machine("web_0").fail().status == "Started"
    assert forewarn.machine("batch_0", priority="Spot").schedule("Preempt").type == "Preempt"


def test_sets_share_a_document(forewarn: Forewarn) -> None:
    one, two = forewarn.availability_set("web", ["web_0", "web_1"])
    event = one.schedule("Freeze")
    assert two.document() == one.document()
    approve(two, event.id)
    assert event.wait_approved() == "guest:web_1"
    assert [machine.name for machine in forewarn.scale_set("pool", 2)] == ["pool_0", "pool_1"]
    assert {machine.availability_set for machine in forewarn.machines()} >= {"web", None}
    assert [event.id for event in forewarn.events()] == [event.id]


def test_a_machine_is_created_once(forewarn: Forewarn) -> None:
    assert forewarn.machine("web_0").endpoint == forewarn.machine("web_0").endpoint
    assert forewarn.machine("web_0").fetch().handler_connected is False
    with pytest.raises(ApiError, match="web_0") as refused:
        forewarn.machine("web_0", priority="Spot")
    assert (refused.value.status, refused.value.code) == (409, "NameTaken")


def test_waiting_fails_when_it_is_in_vain(forewarn: Forewarn) -> None:
    web = forewarn.machine("web_0")
    event = web.schedule("Reboot")
    with pytest.raises(WaitFailed, match="was not approved within 0 s"):
        event.wait_approved(timeout=0)
    event.cancel()
    assert event.wait_finished() == "Canceled"
    with pytest.raises(WaitFailed, match="has finished and was not approved"):
        event.wait_approved()


def test_the_real_clock_can_be_scaled(forewarn_scaled: Forewarn) -> None:
    clock = forewarn_scaled.clock()
    assert (clock.manual, clock.notice_scale) == (False, 900)
    assert forewarn_scaled.machine("batch_0", priority="Spot").evict().wait_finished() == "Completed"


def test_the_next_server_is_used_when_one_does_not_answer(forewarn_server: Callable[..., Forewarn]) -> None:
    first, second = forewarn_server(), forewarn_server()
    second.machine("only-here")
    client = Client(f"{first.management_url}, {second.management_url}/")
    assert client.management_url == first.management_url
    assert "only-here" not in [machine.name for machine in client.machines()]
    first.close()
    assert "only-here" in [machine.name for machine in client.machines()]
    assert client.management_url == second.management_url
    second.close()
    with pytest.raises(urllib.error.URLError):
        client.machines()


def test_a_token_is_sent_only_over_https_or_loopback(forewarn_server: Callable[..., Forewarn]) -> None:
    server = forewarn_server()
    assert Client(server.management_url, token="unused").clock().manual is False
    for url in ["http://192.0.2.1:8170", "http://127.evil.example:8170", "http://127.0.0.1.evil.example", "http:///"]:
        with pytest.raises(ValueError, match="use https"):
            Client(url, token="secret")
    for url in ["http://127.1.2.3:8170", "http://[::1]:8170", "http://localhost:8170"]:
        Client(url, token="secret")
    with pytest.raises(ValueError, match="192.0.2.1:8170 without encryption"):
        Client("https://192.0.2.2:8171,http://192.0.2.1:8170", token="secret")
    with pytest.raises(ValueError, match="metadata_url"):
        Client(server.management_url).machine("web_0").endpoint
