//! `forewarn clock`: shows the clock, and moves a manual one.

use forewarn_api_types::{AdvanceClock, Clock, SetClock, Time};

use super::single_line;
use crate::args::{ClockCommand, Output};
use crate::client::{Api, Call, format_time, next_deadline};
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

pub fn run(api: &Api, command: &ClockCommand, output: Output) -> Result<(), Failure> {
    let answer = match command {
        ClockCommand::Show => api.get(&Call::api(&["clock"]))?,
        ClockCommand::Advance { seconds } => {
            api.post(&Call::api(&["clock", "advance"]), &AdvanceClock { seconds: *seconds })?
        }
        ClockCommand::Set { time } => {
            api.put(&Call::api(&["clock"]), &SetClock { now: Time::from(time.resolve(api)?) })?
        }
    };
    output::print_one(&answer, output, |clock: &Clock| single_line(describe(clock)))
}

fn describe(clock: &Clock) -> String {
    let scale =
        if clock.notice_scale == 1 { String::new() } else { format!(", notice divided by {}", clock.notice_scale) };
    let next = next_deadline(clock).map_or(String::new(), |(at, of)| format!("; {}: {of}", format_time(at)));
    format!("{} ({} clock{scale}{next})", format_time(clock.now), clock.kind.as_str().to_lowercase())
}

impl TableRow for Clock {
    const HEADER: &'static [&'static str] = &["NOW", "KIND", "NOTICE SCALE", "NEXT DEADLINE", "OF"];
    const EMPTY: &'static str = "There is no clock.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(format_time(self.now)),
            Cell::new(self.kind.as_str()),
            Cell::new(self.notice_scale.to_string()),
            Cell::new(self.next_deadline.map_or(String::new(), format_time)),
            Cell::new(self.next_deadline_of.clone().unwrap_or_default()),
        ]
    }
}
