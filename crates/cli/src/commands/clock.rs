//! `forewarn clock`: show it, and move it when it is manual.

use serde_json::json;

use super::sentence;
use crate::args::{ClockCommand, Output};
use crate::client::{Api, Call, Clock, day_time};
use crate::failure::Failure;
use crate::output::{self, Cell, Shown};

pub fn run(api: &Api, command: &ClockCommand, output: Output) -> Result<(), Failure> {
    let answer = match command {
        ClockCommand::Show => api.get(&Call::to(&["clock"]))?,
        ClockCommand::Advance { seconds } => {
            api.post(&Call::to(&["clock", "advance"]), &json!({ "seconds": seconds }))?
        }
        ClockCommand::Set { time } => api.put(&Call::to(&["clock"]), &json!({ "now": time.to_string() }))?,
    };
    output::one(&answer, output, |clock: &Clock| sentence(words(clock)))
}

fn words(clock: &Clock) -> String {
    let scale =
        if clock.notice_scale == 1 { String::new() } else { format!(", notice divided by {}", clock.notice_scale) };
    let next = clock.next().map_or(String::new(), |(at, of)| format!("; {}: {of}", day_time(at)));
    format!("{} ({} clock{scale}{next})", day_time(clock.now), clock.kind.to_lowercase())
}

impl Shown for Clock {
    const HEAD: &'static [&'static str] = &["NOW", "KIND", "NOTICE SCALE", "NEXT DEADLINE", "OF"];
    const NONE: &'static str = "There is no clock.";

    fn row(&self) -> Vec<Cell> {
        vec![
            Cell::new(day_time(self.now)),
            Cell::new(&self.kind),
            Cell::new(self.notice_scale.to_string()),
            Cell::new(self.next_deadline.map_or(String::new(), day_time)),
            Cell::new(self.next_deadline_of.clone().unwrap_or_default()),
        ]
    }
}
