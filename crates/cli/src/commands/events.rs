//! `forewarn events`: see, approve, cancel.

use std::time::Duration;

use serde_json::{Value, json};

use super::{list_json, machine_segment};
use crate::args::{EventsCommand, Output};
use crate::client::{self, Api, Call, Changes, Event, HistoryRow, Next, day_time, timeline};
use crate::failure::Failure;
use crate::output::{self, Cell, Colour, StatusLine};

pub fn run(api: &Api, command: &EventsCommand, output: Output) -> Result<(), Failure> {
    match command {
        EventsCommand::List { all, vm } => list(api, *all, vm.as_deref(), output),
        EventsCommand::Watch => watch(api, output),
        EventsCommand::Wait(args) => super::wait::run(api, args, output),
        EventsCommand::Approve { ids } => approve(api, ids, output),
        EventsCommand::Cancel { id } => cancel(api, id, output),
    }
}

fn list(api: &Api, all: bool, vm: Option<&str>, output: Output) -> Result<(), Failure> {
    let call = Call::to(&["events"]).with("all", all.then_some("true")).with("machine", vm.map(machine_segment));
    let values = api.list(call)?;
    show(values, output)
}

fn show(values: Vec<Value>, output: Output) -> Result<(), Failure> {
    if output == Output::Json {
        return output::json(&list_json(values));
    }
    let events: Vec<Event> = client::read_all(&values)?;
    let rows: Vec<Vec<Cell>> = events.iter().map(row).collect();
    output::table(&["ID", "TYPE", "STATUS", "NOT BEFORE", "RESOURCES", "APPROVED"], &rows, "There are no events.")
}

fn row(event: &Event) -> Vec<Cell> {
    let approved = event.approval.as_ref().map_or("", |approval| approval.by.as_str());
    vec![
        Cell::new(&event.id),
        Cell::new(&event.kind),
        status(event),
        Cell::new(day_time(event.not_before)),
        Cell::new(event.resources.join(", ")),
        Cell::new(approved),
    ]
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
    if output == Output::Json {
        return output::json(&list_json(values));
    }
    let events: Vec<Event> = client::read_all(&values)?;
    events.iter().try_for_each(|event| output::line(&format!("{}: {}", event.id, timeline(event))))
}

fn cancel(api: &Api, id: &str, output: Output) -> Result<(), Failure> {
    let answer = api.post(&Call::to(&["events", id, "cancel"]), &json!({}))?;
    if output == Output::Json {
        return output::json(&answer);
    }
    let event: Event = client::read(&answer)?;
    output::line(&format!("{}: {}", event.id, timeline(&event)))
}

/// What is there, then what happens, until somebody interrupts. In JSON each is one line: first events, which
/// have a `status`, then rows of history, which have a `kind`.
fn watch(api: &Api, output: Output) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    let there = api.list(Call::to(&["events"]))?;
    match output {
        Output::Json => there.iter().try_for_each(|event| output::line(&event.to_string()))?,
        Output::Table => show(there, output)?,
    }
    let mut status = StatusLine::new();
    loop {
        let next = changes.next(Duration::from_secs(15))?;
        match &next {
            Next::Gone => status.show_gone(),
            _ => status.clear(),
        }
        if let Next::Row(row) = next {
            match output {
                Output::Json => output::line(&row.to_string())?,
                Output::Table => happened(&client::read(&row)?)?,
            }
        }
    }
}

fn happened(row: &HistoryRow) -> Result<(), Failure> {
    if row.event.is_none() {
        return Ok(());
    }
    output::line(&super::history::sentence(row))
}
