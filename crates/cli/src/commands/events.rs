//! `forewarn events`: see, approve, cancel.

use serde_json::json;

use crate::args::{EventsCommand, Output};
use crate::client::{Api, Call, Event, day_time, event_facts, timeline};
use crate::failure::Failure;
use crate::output::{self, Answer, Cell, Colour, Shown};
use crate::watch::{self, Style};

pub fn run(api: &Api, command: &EventsCommand, output: Output) -> Result<(), Failure> {
    match command {
        EventsCommand::List { all, vm } => list(api, *all, vm.as_deref(), output),
        EventsCommand::Show { id } => {
            let words = |event: &Event| output::facts(&event_facts(event));
            output::one(&api.get(&Call::to(&["events", id]))?, output, words)
        }
        EventsCommand::Watch { lines } => watch(api, *lines, output),
        EventsCommand::Wait(args) => super::wait::run(api, args, output),
        EventsCommand::Approve { ids } => approve(api, ids, output),
        EventsCommand::Cancel { id } => cancel(api, id, output),
    }
}

pub fn watch(api: &Api, lines: bool, output: Output) -> Result<(), Failure> {
    watch::run(api, if lines { Style::Lines } else { Style::View }, output)
}

fn list(api: &Api, all: bool, vm: Option<&str>, output: Output) -> Result<(), Failure> {
    let call = Call::to(&["events"]).with("all", all.then_some("true")).with("machine", vm);
    output::list::<Event>(&api.list(call)?, output)
}

impl Shown for Event {
    const HEAD: &'static [&'static str] = &["ID", "TYPE", "STATUS", "NOT BEFORE", "RESOURCES", "APPROVED"];
    const NONE: &'static str = "There are no events.";

    fn row(&self) -> Vec<Cell> {
        let approved = self.approval.as_ref().map_or("", |approval| approval.by.as_str());
        vec![
            Cell::new(&self.id),
            Cell::new(&self.kind),
            status(self),
            Cell::new(day_time(self.not_before)),
            Cell::new(self.resources.join(", ")),
            Cell::new(approved),
        ]
    }
}

fn told(event: &Event) -> String {
    format!("{}: {}", event.id, timeline(event))
}

fn status(event: &Event) -> Cell {
    let word = event.outcome.as_ref().unwrap_or(&event.status);
    let unseen = if event.shown || event.ended.is_some() { "" } else { ", unseen" };
    let colour = match word.as_str() {
        "Scheduled" => Colour::Yellow,
        "Started" => Colour::Red,
        "Completed" => Colour::Green,
        _ => Colour::Plain,
    };
    Cell::coloured(format!("{word}{unseen}"), colour)
}

fn approve(api: &Api, ids: &[String], output: Output) -> Result<(), Failure> {
    let answer = api.post(&Call::to(&["events", "approve"]), &json!({ "events": ids }))?;
    let values = answer["value"].as_array().cloned().unwrap_or_default();
    output::show(Answer::Many(&values), output, |events: &[Event]| {
        events.iter().try_for_each(|event| output::line(&told(event)))
    })
}

fn cancel(api: &Api, id: &str, output: Output) -> Result<(), Failure> {
    let answer = api.post(&Call::to(&["events", id, "cancel"]), &json!({}))?;
    output::one(&answer, output, |event| vec![told(event)])
}
