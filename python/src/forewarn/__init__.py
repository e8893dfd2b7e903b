"""Test handlers of Azure's Scheduled Events: a local server, a typed client and pytest fixtures."""

from ._binary import BinaryNotFound, find_binary
from ._client import ApiError, Client, Event, Machine, ActiveFault, WaitFailed
from ._fault import Fault
from ._models import (
    ClockInfo,
    EventInfo,
    EventSource,
    EventStatus,
    EventType,
    FaultInfo,
    MachineInfo,
    Outcome,
    RequestInfo,
)
from ._server import Forewarn, StartFailed

__version__ = "0.1.0"

__all__ = [
    "ActiveFault",
    "ApiError",
    "BinaryNotFound",
    "Client",
    "ClockInfo",
    "Event",
    "EventInfo",
    "EventSource",
    "EventStatus",
    "EventType",
    "Fault",
    "FaultInfo",
    "Forewarn",
    "Machine",
    "MachineInfo",
    "Outcome",
    "RequestInfo",
    "StartFailed",
    "WaitFailed",
    "find_binary",
]
