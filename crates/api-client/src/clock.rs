//! Deadlines, advice and the current time from the server's clock.

use std::time::{Duration, Instant};

use forewarn_api_types::{Clock, ClockMode, HOUSEKEEPING, Time};
use jiff::Timestamp;

use forewarn_api_types::span::format_span;

pub fn is_manual(clock: &Clock) -> bool {
    clock.kind == ClockMode::Manual
}

/// The next deadline and its description, without housekeeping.
pub fn next_deadline(clock: &Clock) -> Option<(Time, &str)> {
    let of = clock.next_deadline_of.as_deref().filter(|of| *of != HOUSEKEEPING)?;
    Some((clock.next_deadline?, of))
}

/// Advice for a manual clock; None if the clock is real.
pub fn clock_advice(clock: &Clock) -> Option<String> {
    let next = next_deadline(clock);
    let next = next.and_then(|(at, _)| Duration::try_from(at.timestamp().duration_since(clock.now.timestamp())).ok());
    let span = next.filter(|span| !span.is_zero()).map_or("15m".into(), |span| format_span(whole_secs(span)));
    is_manual(clock).then(|| format!("The clock is manual: run `forewarn clock advance {span}` to let time pass."))
}

/// The server's time, given when the clock was fetched. A manual clock does not advance.
pub fn now_since(clock: &Clock, seen: Instant) -> Option<Timestamp> {
    let passed = if is_manual(clock) { Duration::ZERO } else { seen.elapsed() };
    clock.now.timestamp().checked_add(passed).ok()
}

/// Rounds up to whole seconds.
pub fn whole_secs(span: Duration) -> Duration {
    Duration::from_secs(span.as_secs() + u64::from(span.subsec_nanos() > 0))
}
