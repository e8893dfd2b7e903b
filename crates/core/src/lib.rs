//! The rules of events: pure, no I/O, no async, no clock.
