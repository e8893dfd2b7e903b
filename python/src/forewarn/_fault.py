"""Faults of the metadata endpoint, as values. `docs/faults.md` describes the effect of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, Optional, Tuple, Union

Setting = Union[str, int, float]


@dataclass(frozen=True)
class Fault:
    """Kind of a fault with its settings. Inject it with `Machine.inject_fault` or `Client.inject_fault`."""

    kind: str
    settings: Tuple[Tuple[str, Setting], ...] = ()

    @staticmethod
    def status(status: int, retry_after: Optional[int] = None) -> Fault:
        """Answer with this status. `retry_after` is the Retry-After header in seconds, for 429 and 503."""
        more: Tuple[Tuple[str, Setting], ...] = () if retry_after is None else (("retryAfterSeconds", retry_after),)
        return Fault("Status", (("status", status), *more))

    @staticmethod
    def delay(seconds: float) -> Fault:
        """Delay responses, in real time."""
        return Fault("Delay", (("delaySeconds", seconds),))

    @staticmethod
    def slow_first_call(seconds: float) -> Fault:
        """Delay the first response with the document to each machine, in real time."""
        return Fault("SlowFirstCall", (("delaySeconds", seconds),))

    @staticmethod
    def reset() -> Fault:
        """Reset the connection."""
        return Fault("Reset")

    @staticmethod
    def truncated() -> Fault:
        """Send half of the response, then close the connection."""
        return Fault("Truncated")

    @staticmethod
    def malformed() -> Fault:
        """Send a complete response that is not JSON."""
        return Fault("Malformed")

    @staticmethod
    def incarnation_restart() -> Fault:
        """Restart DocumentIncarnation and ETag at 1."""
        return Fault("IncarnationRestart")

    @staticmethod
    def events_vanish() -> Fault:
        """Hide all events."""
        return Fault("EventsVanish")

    @staticmethod
    def unknown_type() -> Fault:
        """Show events with an unknown type."""
        return Fault("UnknownType")

    def to_json(self) -> Dict[str, Setting]:
        return {"kind": self.kind, **dict(self.settings)}
