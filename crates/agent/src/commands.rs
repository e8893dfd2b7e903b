//! The commands `test` and `status`. Neither contacts the service.

use std::fmt::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use forewarn_client::{Event, EventId, EventKind, EventSource, EventStatus, Resource, Version};

use crate::catalog::StepCatalog;
use crate::config::Config;
use crate::plan::{Job, prepare_limit};
use crate::process;
use crate::record::{Outcome, Phase, Progress, Record};
use crate::state;

/// Runs the steps of every phase for a sample event.
pub fn run_test(config: &Config, catalog: &StepCatalog, kind: &EventKind) -> Result<()> {
    let steps = catalog.steps();
    let mut outcomes = Vec::new();
    for phase in Phase::ALL {
        for step in steps.iter().filter(|step| step.phase == phase && step.applies_to(kind)) {
            let event = sample_event(config, kind, phase);
            let limit = match phase {
                Phase::Prepare => prepare_limit(shortest_notice(kind), config.margin),
                Phase::Started | Phase::Restore => config.limit,
            };
            let job = Job { event, phase, step: step.name.clone(), limit };
            let (sender, signals) = channel();
            let outcome = process::run(&catalog.program(&job), &job, sender, &signals, |_| {});
            println!("{} {outcome}", job.step);
            outcomes.push(outcome);
        }
    }
    if outcomes.is_empty() {
        println!("no hook or action for {kind}");
    }
    match outcomes.iter().filter(|outcome| **outcome != Outcome::Succeeded).count() {
        0 => Ok(()),
        bad => bail!("{bad} of {} steps failed", outcomes.len()),
    }
}

/// Shortest notice that the service gives.
fn shortest_notice(kind: &EventKind) -> Duration {
    Duration::from_secs(match kind {
        EventKind::Freeze | EventKind::Reboot | EventKind::Other(_) => 15 * 60,
        EventKind::Redeploy => 10 * 60,
        EventKind::Terminate => 5 * 60,
        EventKind::Preempt => 30,
    })
}

fn sample_event(config: &Config, kind: &EventKind, phase: Phase) -> Event {
    let version = Version::V2020_07_01;
    let name = config.name.as_deref().unwrap_or("this-machine");
    let is_scheduled = phase == Phase::Prepare;
    Event {
        version,
        id: EventId::parse("00000000-0000-0000-0000-000000000000").expect("a GUID is a valid ID"),
        status: if is_scheduled { EventStatus::Scheduled } else { EventStatus::Started },
        kind: kind.clone(),
        resource_type: "VirtualMachine".into(),
        resources: vec![Resource::new(version, name)],
        not_before: is_scheduled.then(|| SystemTime::now() + shortest_notice(kind)),
        description: Some("Test of hooks and actions.".into()),
        source: Some(EventSource::User),
        duration_secs: Some(-1),
    }
}

pub fn print_status(config: &Config) -> Result<()> {
    let records = state::load(&config.state)?;
    print!("{}", render_records(&records));
    Ok(())
}

/// Renders records, newest first.
fn render_records(records: &[Record]) -> String {
    let mut records: Vec<&Record> = records.iter().collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.seen_at));
    let mut text = String::new();
    for record in &records {
        let event = &record.event;
        let status = record.end.map_or_else(|| event.status.as_str().to_owned(), |end| end.to_string());
        let approved = if record.approved { ", approved" } else { "" };
        let not_before = match (record.end, event.not_before_text()) {
            (None, text) if !text.is_empty() => format!(", not before {text}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "{} {} {status}{not_before}{approved}", event.id, event.kind);
        for run in &record.runs {
            let progress = match &run.progress {
                Progress::Running => "running".to_owned(),
                Progress::Ended(outcome) => outcome.to_string(),
            };
            let _ = writeln!(text, "  {} {progress}", run.name);
        }
    }
    if records.is_empty() {
        text.push_str("no events so far\n");
    }
    text
}
