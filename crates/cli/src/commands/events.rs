//! `forewarn events`: lists, shows, watches, approves and cancels events.

use forewarn_api_types::{Approvals, EmptyBody, Event, EventOutcome, EventStatus, Page};
use serde_json::Value;

use super::bodies::read;
use crate::args::{EventsCommand, Output};
use crate::client::short_id;
use crate::client::{Api, Call, event_facts, format_time, format_timeline, status_word};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, ApiValue, Cell, Color, TableRow};
use crate::watch::{self, Style};

pub fn run(api: &Api, command: &EventsCommand, output: Output) -> Result<(), Failure> {
    match command {
        EventsCommand::List { all, vm } => list(api, *all, vm.as_deref(), output),
        EventsCommand::Show { id } => {
            let words = |event: &Event| output::format_fields(&event_facts(event));
            output::print_one(&api.get(&Call::api(&["events", &short_id::event(api, id)?]))?, output, words)
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
    let call = Call::api(&["events"]).with("all", all.then_some("true")).with("machine", vm);
    output::print_list::<Event>(&api.list(call)?, output)
}

impl TableRow for Event {
    const HEADER: &'static [&'static str] = &["ID", "TYPE", "STATUS", "NOT BEFORE", "RESOURCES", "APPROVED"];
    const EMPTY: &'static str = "There are no events.";

    fn cells(&self) -> Vec<Cell> {
        let approved = self.approval.as_ref().map_or("", |approval| approval.approved_by.as_str());
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(self.kind.as_str()),
            status(self),
            Cell::new(format_time(self.not_before)),
            Cell::new(self.resources.join(", ")),
            Cell::new(approved),
        ]
    }
}

fn describe(event: &Event) -> String {
    format!("{}: {}", event.id, format_timeline(event))
}

fn status(event: &Event) -> Cell {
    let word = status_word(event);
    let unseen = if event.visible || event.ended.is_some() { "" } else { ", unseen" };
    let color = match (event.status, event.outcome) {
        (EventStatus::Scheduled, None) => Color::Yellow,
        (EventStatus::Started, None) => Color::Red,
        (_, Some(EventOutcome::Completed)) => Color::Green,
        (_, Some(_)) | (EventStatus::Ended | EventStatus::Unknown(_), None) => Color::Plain,
    };
    Cell::colored(format!("{word}{unseen}"), color)
}

fn approve(api: &Api, ids: &[String], output: Output) -> Result<(), Failure> {
    let events = ids.iter().map(|id| read(&short_id::event(api, id)?)).collect::<Result<_, _>>()?;
    let answer = api.post(&Call::api(&["events", "approve"]), &Approvals { events })?;
    let Page { value: values, .. } = decode::<Page<Value>>(&answer)?;
    output::print_answer(ApiValue::Many(&values), output, |events: &[Event]| {
        events.iter().try_for_each(|event| output::print_line(&describe(event)))
    })
}

fn cancel(api: &Api, id: &str, output: Output) -> Result<(), Failure> {
    let answer = api.post(&Call::api(&["events", &short_id::event(api, id)?, "cancel"]), &EmptyBody {})?;
    output::print_one(&answer, output, |event| vec![describe(event)])
}
