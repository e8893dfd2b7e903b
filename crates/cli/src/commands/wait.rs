//! `forewarn events wait`: waits until an event reaches a status, or times out.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::args::{Output, WaitArgs, WaitStatus};
use crate::client::{Api, Call, Clock, event_history, format_timeline, whole_secs};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, StatusLine};
use crate::parse::span_text;

/// Limit of one request. The next one continues where it stopped, so that nothing is missed.
const ONE_REQUEST: Duration = Duration::from_secs(20);

pub fn run(api: &Api, args: &WaitArgs, output: Output) -> Result<(), Failure> {
    let started_at = Instant::now();
    let mut status_line = StatusLine::new();
    let mut after = None;
    loop {
        let left = args.timeout.saturating_sub(started_at.elapsed());
        status_line.show(&format!(
            "NoWaitArgs until {}, {} left (Ctrl-C: stop)",
            describe_condition(args),
            span_text(whole_secs(left))
        ));
        let answer = api.get(&call(args, left.min(ONE_REQUEST), after))?;
        after = answer["after"].as_u64();
        if answer["met"] == true {
            drop(status_line);
            return met(api, &answer, output);
        }
        if answer["missed"] == true {
            drop(status_line);
            return Err(missed(api, args, &answer, output)?);
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
        WaitStatus::Started | WaitStatus::Gone => decode::<Clock>(&api.get(&Call::api(&["clock"]))?)?.advice(),
        WaitStatus::Scheduled | WaitStatus::Approved => None,
    };
    let advice = advice.map_or(String::new(), |advice| format!(". {advice}"));
    let text = format!("timed out after {}: {}{advice}", span_text(args.timeout), describe_timeout(args));
    Ok(Failure::TimedOut(output::escape(&text)))
}

fn missed(api: &Api, args: &WaitArgs, answer: &Value, output: Output) -> Result<Failure, Failure> {
    if is_for_programs(output) {
        output::print_value(answer, output)?;
    }
    let (_, did_not) = status_verbs(args.status);
    let text = format!("the event finished and {did_not}: {}", describe_event(api, answer)?);
    Ok(Failure::Missed(output::escape(&text)))
}

fn call(args: &WaitArgs, left: Duration, after: Option<u64>) -> Call {
    Call::api(&["events", "wait"])
        .with("status", Some(status_word(args.status)))
        .with("machine", args.vm.as_ref())
        .with("type", args.kind.map(|kind| format!("{kind:?}")))
        .with("event", args.event.as_ref())
        .with("since", args.since)
        .with("after", after)
        .with("timeout", Some(whole_secs(left).as_secs()))
}

fn met(api: &Api, answer: &Value, output: Output) -> Result<(), Failure> {
    if is_for_programs(output) {
        return output::print_value(answer, output);
    }
    output::print_line(&output::escape(&describe_event(api, answer)?))
}

/// `602D…: Reboot of web_0, Scheduled 10:05:00 · Canceled by owner 10:06:00`.
fn describe_event(api: &Api, answer: &Value) -> Result<String, Failure> {
    let id = answer["id"].as_str().unwrap_or_default();
    let event = match &answer["event"] {
        Value::Null => event_history::find_event(api, id)?,
        event => Some(event_history::add_start(api, decode(event)?)?),
    };
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
        (None, Some(kind)) => format!("a {kind:?}"),
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
        (None, Some(kind)) => format!("no {kind:?}{of} {did}"),
        (None, None) => format!("no event{of} {did}"),
    }
}
