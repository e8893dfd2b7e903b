//! `forewarn events wait`: waits until an event reaches a status, or times out.

use std::time::{Duration, Instant};

use forewarn_api_types::{Event, WaitAnswer};
use forewarn_config::parse::format_span;
use serde_json::Value;

use crate::args::{Output, WaitArgs, WaitStatus};
use crate::client::{Api, Call, clock_advice, format_timeline, whole_secs};
use crate::client::{moment, short_id};
use crate::decode::decode;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, StatusLine};

/// Limit of one request. The next one continues where it stopped, so that nothing is missed.
const ONE_REQUEST: Duration = Duration::from_secs(20);

pub fn run(api: &Api, args: &WaitArgs, output: Output) -> Result<(), Failure> {
    let event = args.event.as_deref().map(|id| short_id::event(api, id)).transpose()?;
    let args = &WaitArgs { event, ..args.clone() };
    let since = moment::resolve(args.since, api)?;
    let _interrupt = interrupt::explain("Stopped waiting; the events are not affected.");
    let started_at = Instant::now();
    let mut status_line = StatusLine::new();
    let mut after = None;
    loop {
        let left = args.timeout.saturating_sub(started_at.elapsed());
        status_line.show(&format!(
            "Waiting until {}, {} left (Ctrl-C: stop)",
            describe_condition(args),
            format_span(whole_secs(left))
        ));
        let answer = api.get(&call(args, since, left.min(ONE_REQUEST), after))?;
        let read: WaitAnswer = decode(&answer)?;
        after = Some(read.after);
        if read.reached {
            drop(status_line);
            return print_reached(api, &answer, read, output);
        }
        if read.missed {
            drop(status_line);
            return Err(missed(api, args, &answer, read, output)?);
        }
        if started_at.elapsed() >= args.timeout {
            drop(status_line);
            return Err(timed_out(api, args, &answer, output)?);
        }
    }
}

fn timed_out(api: &Api, args: &WaitArgs, answer: &Value, output: Output) -> Result<Failure, Failure> {
    if is_for_programs(output) {
        output::print_value(answer, output)?;
    }
    let advice = match args.status {
        WaitStatus::Started | WaitStatus::Gone => clock_advice(&decode(&api.get(&Call::api(&["clock"]))?)?),
        WaitStatus::Scheduled | WaitStatus::Approved => None,
    };
    let advice = advice.map_or(String::new(), |advice| format!(". {advice}"));
    let text = format!("timed out after {}: {}{advice}", format_span(args.timeout), describe_timeout(args));
    Ok(Failure::TimedOut(output::escape(&text)))
}

fn missed(api: &Api, args: &WaitArgs, answer: &Value, read: WaitAnswer, output: Output) -> Result<Failure, Failure> {
    if is_for_programs(output) {
        output::print_value(answer, output)?;
    }
    let (_, did_not) = status_verbs(args.status);
    let text = format!("the event finished and {did_not}: {}", describe_event(api, read)?);
    Ok(Failure::Missed(output::escape(&text)))
}

fn call(args: &WaitArgs, since: Option<jiff::Timestamp>, left: Duration, after: Option<u64>) -> Call {
    Call::api(&["events", "wait"])
        .with("status", Some(status_word(args.status)))
        .with("machine", args.vm.as_ref())
        .with("type", args.kind.map(|kind| kind.as_str()))
        .with("event", args.event.as_ref())
        .with("since", since)
        .with("after", after)
        .with("timeout", Some(whole_secs(left).as_secs()))
}

fn print_reached(api: &Api, answer: &Value, read: WaitAnswer, output: Output) -> Result<(), Failure> {
    if is_for_programs(output) {
        return output::print_value(answer, output);
    }
    output::print_line(&output::escape(&describe_event(api, read)?))
}

/// `602D…: Reboot of web_0, Scheduled 10:05:00 · Canceled by owner 10:06:00`.
fn describe_event(api: &Api, answer: WaitAnswer) -> Result<String, Failure> {
    let event: Option<Event> = match answer.id.map(|id| api.get(&Call::api(&["events", &id.to_string()]))) {
        Some(Ok(value)) => Some(decode(&value)?),
        // History no longer contains the event.
        Some(Err(Failure::Refused(_))) | None => None,
        Some(Err(failure)) => return Err(failure),
    };
    let id = answer.id.map_or(String::new(), |id| id.to_string());
    let details = event.map_or(String::new(), |event| {
        format!(": {} of {}, {}", event.kind, event.resources.join(", "), format_timeline(&event))
    });
    Ok(format!("{id}{details}"))
}

fn is_for_programs(output: Output) -> bool {
    matches!(output, Output::Json | Output::Yaml)
}

fn status_word(status: WaitStatus) -> &'static str {
    match status {
        WaitStatus::Scheduled => "scheduled",
        WaitStatus::Approved => "approved",
        WaitStatus::Started => "started",
        WaitStatus::Gone => "gone",
    }
}

/// `a Reboot of web_0 is approved`.
fn describe_condition(args: &WaitArgs) -> String {
    let what = match (&args.event, args.kind) {
        (Some(id), _) => format!("event {id}"),
        (None, Some(kind)) => format!("a {kind}"),
        (None, None) => "an event".to_owned(),
    };
    let of = args.vm.as_ref().map_or(String::new(), |vm| format!(" of {vm}"));
    format!("{what}{of} is {}", status_word(args.status))
}

/// A status as verbs: done, and not done.
fn status_verbs(status: WaitStatus) -> (&'static str, &'static str) {
    match status {
        WaitStatus::Scheduled => ("appeared", "did not appear"),
        WaitStatus::Approved => ("was approved", "was not approved"),
        WaitStatus::Started => ("started", "did not start"),
        WaitStatus::Gone => ("ended", "did not end"),
    }
}

/// `no Reboot of web_0 was approved`.
fn describe_timeout(args: &WaitArgs) -> String {
    let of = args.vm.as_ref().map_or(String::new(), |vm| format!(" of {vm}"));
    let (did, did_not) = status_verbs(args.status);
    match (&args.event, args.kind) {
        (Some(id), _) => format!("event {id}{of} {did_not}"),
        (None, Some(kind)) => format!("no {kind}{of} {did}"),
        (None, None) => format!("no event{of} {did}"),
    }
}
