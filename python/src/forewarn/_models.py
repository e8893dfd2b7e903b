"""Values that the server returns, read once from JSON. Field names are those of the management API in snake case."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Dict, Literal, Mapping, Optional, Tuple

EventType = Literal["Freeze", "Reboot", "Redeploy", "Preempt", "Terminate", "SpotRebalanceRecommendation"]
EventStatus = Literal["Scheduled", "Started", "Ended"]
EventSource = Literal["Platform", "User"]
Outcome = Literal["Completed", "Failed", "TimedOut", "Superseded", "NoEffect", "ResourceGone", "Canceled"]
Json = Mapping[str, Any]


@dataclass(frozen=True)
class MachineInfo:
    """State of a machine."""

    name: str
    vm_id: str
    resource_group: str
    power: Literal["Running", "Stopped", "Deallocated"]
    priority: Literal["Regular", "Spot"]
    handler_connected: bool
    """Whether a handler of the machine's event group requests the document."""
    addresses: Tuple[str, ...]
    availability_set: Optional[str]
    scale_set: Optional[str]
    cloud_service: Optional[str]
    host: Optional[str]
    terminate_notice: Optional[str]
    """Notice of a deletion in ISO 8601, such as PT5M."""
    tags: Dict[str, str]

    @staticmethod
    def from_json(value: Json) -> MachineInfo:
        return MachineInfo(
            name=value["name"],
            vm_id=value["vmId"],
            resource_group=value["resourceGroup"],
            power=value["power"],
            priority=value["priority"],
            handler_connected=value["handlerConnected"],
            addresses=tuple(address["ip"] for address in value["addresses"]),
            availability_set=value.get("availabilitySet"),
            scale_set=value.get("scaleSet"),
            cloud_service=value.get("cloudService"),
            host=value.get("host"),
            terminate_notice=value.get("terminateNotification", {}).get("notBeforeTimeout"),
            tags=dict(value["tags"]),
        )


@dataclass(frozen=True)
class EventInfo:
    """State of an event."""

    id: str
    type: EventType
    status: EventStatus
    outcome: Optional[Outcome]
    """None until the event has finished."""
    reason: Optional[str]
    source: EventSource
    resources: Tuple[str, ...]
    visible: bool
    """Whether machines see the event; False if no handler was connected."""
    not_before: datetime
    started: Optional[datetime]
    ended: Optional[datetime]
    approved_by: Optional[str]
    """Such as guest:web_0 or management:owner; None without an approval."""
    description: str
    duration_seconds: int

    @staticmethod
    def from_json(value: Json) -> EventInfo:
        approval = value.get("approval")
        return EventInfo(
            id=value["id"],
            type=value["type"],
            status=value["status"],
            outcome=value.get("outcome"),
            reason=value.get("reason"),
            source=value["source"],
            resources=tuple(value["resources"]),
            visible=value["visible"],
            not_before=parse_time(value["notBefore"]),
            started=optional_time(value.get("started")),
            ended=optional_time(value.get("ended")),
            approved_by=approval["approvedBy"] if approval else None,
            description=value["description"],
            duration_seconds=value["durationSeconds"],
        )


@dataclass(frozen=True)
class RequestInfo:
    """Request that a machine sent to the metadata endpoint."""

    number: int
    at: datetime
    method: str
    path: str
    version: Optional[str]
    status: Optional[int]
    """None if no response was sent: a fault reset the connection, or the handler closed it."""
    approved: Tuple[str, ...]
    """IDs of the events that the request approved."""
    faults: Tuple[str, ...]
    """Kinds of the faults that affected the request."""

    @staticmethod
    def from_json(value: Json) -> RequestInfo:
        return RequestInfo(
            number=value["number"],
            at=parse_time(value["at"]),
            method=value["method"],
            path=value["path"],
            version=value.get("version"),
            status=value.get("status"),
            approved=tuple(value["approved"]),
            faults=tuple(fault["kind"] for fault in value["faults"]),
        )


@dataclass(frozen=True)
class ClockInfo:
    """State of the server's clock."""

    manual: bool
    now: datetime
    notice_scale: int
    next_deadline: Optional[datetime]

    @staticmethod
    def from_json(value: Json) -> ClockInfo:
        return ClockInfo(
            manual=value["kind"] == "Manual",
            now=parse_time(value["now"]),
            notice_scale=value["noticeScale"],
            next_deadline=optional_time(value.get("nextDeadline")),
        )


@dataclass(frozen=True)
class FaultInfo:
    """State of a fault that is in effect."""

    id: int
    kind: str
    machine: Optional[str]
    """None if the fault is for all machines."""
    matched: int
    """Number of matching requests."""
    affected: int
    """Number of requests that the fault affected."""

    @staticmethod
    def from_json(value: Json) -> FaultInfo:
        return FaultInfo(
            id=value["id"],
            kind=value["fault"]["kind"],
            machine=value.get("machine"),
            matched=value["matched"],
            affected=value["affected"],
        )


def parse_time(text: str) -> datetime:
    # Before Python 3.11, fromisoformat does not accept Z.
    return datetime.fromisoformat(text[:-1] + "+00:00" if text.endswith("Z") else text)


def optional_time(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else parse_time(text)
