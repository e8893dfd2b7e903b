//! `forewarn clock`: show it, and move it when it is manual.

use serde_json::{Value, json};

use crate::args::{ClockCommand, Output};
use crate::client::{self, Api, Call, Clock, day_time};
use crate::failure::Failure;
use crate::output;

pub fn run(api: &Api, command: &ClockCommand, output: Output) -> Result<(), Failure> {
    let answer = match command {
        ClockCommand::Show => api.get(&Call::to(&["clock"]))?,
        ClockCommand::Advance { seconds } => {
            api.post(&Call::to(&["clock", "advance"]), &json!({ "seconds": seconds }))?
        }
        ClockCommand::Set { time } => api.put(&Call::to(&["clock"]), &json!({ "now": time.to_string() }))?,
    };
    show(&answer, output)
}

fn show(answer: &Value, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(answer);
    }
    let clock: Clock = client::read(answer)?;
    let scale =
        if clock.notice_scale == 1 { String::new() } else { format!(", notice divided by {}", clock.notice_scale) };
    let next = clock.next_deadline.map_or(String::new(), |at| format!(", next deadline {}", day_time(at)));
    output::line(&format!("{} ({} clock{scale}{next})", day_time(clock.now), clock.kind.to_lowercase()))
}
