"""Typed client for the management API: machines, events, the clock and faults."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Dict, List, Literal, Optional, Type

from ._fault import Fault
from ._http import ApiError, Http, segment
from ._models import (
    ClockInfo,
    EventInfo,
    EventStatus,
    EventType,
    FaultInfo,
    MachineInfo,
    Outcome,
    RequestInfo,
)

__all__ = ["ActiveFault", "ApiError", "Client", "Event", "Machine", "WaitFailed"]

# Expires only if a test fails.
WAIT_SECS_DEFAULT = 60.0

# The server accepts up to 300; shorter requests notice sooner that it is gone.
WAIT_REQUEST_SECS_MAX = 30

# The shortest notice that a machine can have for its deletion.
TERMINATE_NOTICE_DEFAULT = "PT5M"

Method = Literal["GET", "POST"]


class WaitFailed(AssertionError):
    """An event did not reach the expected state."""


class Client:
    """A server's management API. `metadata_url` is the base of the machines' endpoints, if it is known.

    `url` can be the addresses of several servers of a cluster, separated by commas. The first one that accepts a
    connection is used until it no longer does.
    """

    def __init__(
        self,
        url: str,
        *,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        metadata_url: Optional[str] = None,
    ) -> None:
        self._http = Http(url, token, ca_file)
        self._metadata_url = metadata_url

    @property
    def management_url(self) -> str:
        return self._http.url

    @property
    def metadata_url(self) -> str:
        if self._metadata_url is None:
            raise ValueError("the metadata address is not known; pass metadata_url to Client")
        return self._metadata_url

    def call(self, method: str, path: str, body: Optional[Any] = None) -> Any:
        """Call a path below /api/v1, for what has no method here. See docs/api.md."""
        return self._http.call(method, path, body)

    def machine(self, name: str, **more: Any) -> Machine:
        """Return the machine with this name; create it if it does not exist.

        `more` are fields of NewMachine in docs/api.md, such as priority="Spot" or availabilitySet="web". With fields,
        the machine must not exist.
        """
        if more or not self._has_machine(name):
            self.call("POST", "/machines", {"name": name, "addresses": [], **more})
        return Machine(self, name)

    def machines(self) -> List[MachineInfo]:
        return [MachineInfo.from_json(value) for value in self._list("/machines")]

    def events(self) -> List[EventInfo]:
        """Unfinished events, in order of appearance."""
        return [EventInfo.from_json(value) for value in self._list("/events")]

    def event(self, id: str) -> Event:
        return Event(self, id)

    def availability_set(self, name: str, machines: List[str]) -> List[Machine]:
        """Create an availability set with these machines. They share one document."""
        self.call("POST", "/availability-sets", {"name": name})
        return [self.machine(machine, availabilitySet=name) for machine in machines]

    def scale_set(self, name: str, capacity: int) -> List[Machine]:
        """Create a Uniform scale set with this many instances, named web_0 and so on."""
        body = {"name": name, "capacity": capacity, "orchestration": "Uniform"}
        self.call("POST", "/scale-sets", body)
        instances = self._list(f"/scale-sets/{segment(name)}/instances")
        return [Machine(self, instance["name"]) for instance in instances]

    def clock(self) -> ClockInfo:
        return ClockInfo.from_json(self.call("GET", "/clock"))

    def advance(self, seconds: int) -> ClockInfo:
        """Advance a manual clock. All deadlines on the way are processed before this returns."""
        return ClockInfo.from_json(self.call("POST", "/clock/advance", {"seconds": seconds}))

    def faults(self) -> List[FaultInfo]:
        return [FaultInfo.from_json(value) for value in self._list("/faults")]

    def inject_fault(
        self,
        fault: Fault,
        *,
        machine: Optional[str] = None,
        count: Optional[int] = None,
        seconds: Optional[int] = None,
        percent: Optional[int] = None,
        method: Optional[Method] = None,
        documents_only: bool = False,
    ) -> ActiveFault:
        """Inject a fault into requests to the metadata endpoint, of one machine or of all.

        `count` limits the number of requests, `seconds` the time on the server's clock, and `percent`, `method` and
        `documents_only` which requests are affected. Otherwise the fault lasts until it is cleared. It never affects
        calls of this client.
        """
        body: Dict[str, Any] = {"fault": fault.to_json(), "documentsOnly": documents_only}
        limits = {"machine": machine, "count": count, "forSeconds": seconds, "percent": percent, "method": method}
        body.update({name: value for name, value in limits.items() if value is not None})
        return ActiveFault(self, FaultInfo.from_json(self.call("POST", "/faults", body)))

    def clear_faults(self) -> None:
        self.call("DELETE", "/faults")

    def _has_machine(self, name: str) -> bool:
        try:
            self.call("GET", f"/machines/{segment(name)}")
        except ApiError as error:
            if error.code == "MachineNotFound":
                return False
            raise
        return True

    def _list(self, path: str) -> List[Any]:
        """All pages of a list."""
        found: List[Any] = []
        after: Optional[str] = None
        while True:
            page = self._http.call("GET", path, query={"limit": 1000, "after": after})
            found.extend(page["value"])
            after = page.get("next")
            if after is None:
                return found

    def _wait(self, event: str, status: str, seconds: float) -> Any:
        """Wait for a status of an event; return the last answer of the server."""
        end = time.monotonic() + seconds
        while True:
            left = max(0.0, end - time.monotonic())
            timeout = min(WAIT_REQUEST_SECS_MAX, -int(-left // 1))
            query = {"status": status, "event": event, "timeout": timeout}
            answer = self._http.call("GET", "/events/wait", query=query)
            if answer["reached"] or answer.get("missed") or time.monotonic() >= end:
                return answer


class Machine:
    """A machine on the server."""

    def __init__(self, client: Client, name: str) -> None:
        self._client = client
        self.name = name

    def __repr__(self) -> str:
        return f"Machine({self.name!r})"

    @property
    def endpoint(self) -> str:
        """Base URL for the handler under test, in place of http://169.254.169.254."""
        return f"{self._client.metadata_url}/vm/{segment(self.name)}"

    def fetch(self) -> MachineInfo:
        return MachineInfo.from_json(self._client.call("GET", self._path()))

    def document(self) -> Dict[str, Any]:
        """The document that the machine's handler gets, without faults. This does not count as a request of the machine."""
        document: Dict[str, Any] = self._client.call("GET", self._path("document"))
        return document

    def requests(self) -> List[RequestInfo]:
        """The last 64 requests that the machine sent to its endpoint, oldest first."""
        value = self._client.call("GET", self._path("requests"))["value"]
        return [RequestInfo.from_json(request) for request in value]

    def enable_events(self) -> None:
        """Turn events on, as the first request of a handler does. The methods that create events do this themselves."""
        self._client.call("POST", self._path("enable-events"), {})

    def schedule(self, type: EventType) -> Event:
        """Schedule an event: maintenance for Freeze, Reboot and Redeploy, an eviction for Preempt, and a deletion with
        notice for Terminate."""
        if type == "Preempt":
            return self.evict()
        if type == "Terminate":
            return self._delete_with_notice()
        self.enable_events()
        return self._event(self._client.call("POST", "/maintenance", {"target": {"machine": self.name}, "type": type}))

    def restart(self) -> Event:
        """Restart the machine, as its owner."""
        return self._request("restart")

    def redeploy(self) -> Event:
        """Move the machine to another host, as its owner."""
        return self._request("redeploy")

    def evict(self) -> Event:
        """Evict a machine that was created with priority="Spot"."""
        return self._request("evict")

    def fail(self) -> Event:
        """Simulate a host failure: an event without notice that has started when it appears."""
        return self._request("hardware-failure")

    def delete(self) -> Optional[Event]:
        """Delete the machine. Return an event if the machine was created with
        terminateNotification={"notBeforeTimeout": "PT5M"}; otherwise the machine is deleted immediately."""
        self.enable_events()
        event = self._event(self._client.call("DELETE", self._path()))
        return event if event.fetch().visible else None

    def inject_fault(
        self,
        fault: Fault,
        *,
        count: Optional[int] = None,
        seconds: Optional[int] = None,
        percent: Optional[int] = None,
        method: Optional[Method] = None,
        documents_only: bool = False,
    ) -> ActiveFault:
        """Inject a fault into requests of this machine; see `Client.inject_fault`."""
        return self._client.inject_fault(
            fault,
            machine=self.name,
            count=count,
            seconds=seconds,
            percent=percent,
            method=method,
            documents_only=documents_only,
        )

    def _delete_with_notice(self) -> Event:
        if self.fetch().terminate_notice is None:
            notice = {"terminateNotification": {"notBeforeTimeout": TERMINATE_NOTICE_DEFAULT}}
            self._client.call("PATCH", self._path(), notice)
        event = self.delete()
        assert event is not None, f"{self.name} was deleted without an event"
        return event

    def _request(self, action: str) -> Event:
        self.enable_events()
        return self._event(self._client.call("POST", self._path(action), {}))

    def _event(self, operation: Any) -> Event:
        return Event(self._client, operation["events"][0]["id"])

    def _path(self, action: str = "") -> str:
        return f"/machines/{segment(self.name)}" + (f"/{action}" if action else "")


class Event:
    """An event on the server."""

    def __init__(self, client: Client, id: str) -> None:
        self._client = client
        self.id = id

    def __repr__(self) -> str:
        return f"Event({self.id!r})"

    def fetch(self) -> EventInfo:
        return EventInfo.from_json(self._client.call("GET", f"/events/{self.id}"))

    @property
    def type(self) -> EventType:
        return self.fetch().type

    @property
    def status(self) -> EventStatus:
        return self.fetch().status

    def approve(self) -> None:
        """Approve the event through the management API, in place of a machine."""
        self._client.call("POST", f"/events/{self.id}/approve", {})

    def cancel(self) -> None:
        self._client.call("POST", f"/events/{self.id}/cancel", {})

    def wait_approved(self, timeout: float = WAIT_SECS_DEFAULT) -> str:
        """Wait for an approval and return who approved, such as guest:web_0. The timeout is in real seconds."""
        approved_by = self._wait("approved", timeout).approved_by
        assert approved_by is not None
        return approved_by

    def wait_started(self, timeout: float = WAIT_SECS_DEFAULT) -> None:
        self._wait("started", timeout)

    def wait_finished(self, timeout: float = WAIT_SECS_DEFAULT) -> Outcome:
        """Wait until the event has finished and return its outcome, such as Completed or Canceled."""
        outcome = self._wait("gone", timeout).outcome
        assert outcome is not None
        return outcome

    def _wait(self, status: str, seconds: float) -> EventInfo:
        answer = self._client._wait(self.id, status, seconds)
        event = self.fetch()
        word = "finished" if status == "gone" else status
        if answer.get("missed"):
            raise WaitFailed(f"the event has finished and was not {word}: {event}")
        if not answer["reached"]:
            raise WaitFailed(f"the event was not {word} within {seconds:g} s: {event}")
        return event


class ActiveFault:
    """A fault that was injected. As a context manager, it is cleared at the end of the block."""

    def __init__(self, client: Client, info: FaultInfo) -> None:
        self._client = client
        self._last = info

    @property
    def id(self) -> int:
        return self._last.id

    def fetch_affected(self) -> int:
        """Number of requests that the fault has affected so far."""
        try:
            self._last = FaultInfo.from_json(self._client.call("GET", f"/faults/{self.id}"))
        except ApiError as error:
            self._expect_gone(error)
        return self._last.affected

    def clear(self) -> None:
        """Clear the fault, if it has not expired."""
        try:
            self._last = FaultInfo.from_json(self._client.call("DELETE", f"/faults/{self.id}"))
        except ApiError as error:
            self._expect_gone(error)

    def __enter__(self) -> ActiveFault:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        self.clear()

    @staticmethod
    def _expect_gone(error: ApiError) -> None:
        if error.code != "FaultNotFound":
            raise error
