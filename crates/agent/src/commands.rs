//! `test` and `status`: what a person asks for; neither talks to the service.

use std::fmt::Write;
use std::sync::mpsc::channel;
use std::time::{Duration, SystemTime};

use anyhow::{Result, bail};
use forewarn_client::{Event, EventId, Kind, Resource, Source, Status, Version};

use crate::config::Config;
use crate::plan::{Job, limit_of_prepare};
use crate::process;
use crate::record::{Outcome, Phase, Progress, Record};
use crate::state;
use crate::toolbox::Toolbox;

/// Runs the steps of every phase for an event that does not exist.
pub fn test(config: &Config, kind: &Kind) -> Result<()> {
    let toolbox = Toolbox::open(config)?;
    let steps = toolbox.steps();
    let mut ended = Vec::new();
    for phase in Phase::ALL {
        for step in steps.iter().filter(|step| step.phase == phase && step.is_for(kind)) {
            let event = made_up(config, kind, phase);
            let limit = match phase {
                Phase::Prepare => limit_of_prepare(notice(kind), config.margin),
                Phase::Started | Phase::Restore => config.limit,
            };
            let job = Job { event, phase, step: step.name.clone(), limit };
            let (sender, wakes) = channel();
            let outcome = process::run(&toolbox.program(&job), &job, sender, &wakes, |_| {});
            println!("{} {outcome}", job.step);
            ended.push(outcome);
        }
    }
    if ended.is_empty() {
        println!("there is neither a hook nor an action for {kind}");
    }
    match ended.iter().filter(|outcome| **outcome != Outcome::Succeeded).count() {
        0 => Ok(()),
        bad => bail!("{bad} of {} did not succeed", ended.len()),
    }
}

/// The shortest notice that the service gives.
fn notice(kind: &Kind) -> Duration {
    Duration::from_secs(match kind {
        Kind::Freeze | Kind::Reboot | Kind::Other(_) => 15 * 60,
        Kind::Redeploy => 10 * 60,
        Kind::Terminate => 5 * 60,
        Kind::Preempt => 30,
    })
}

fn made_up(config: &Config, kind: &Kind, phase: Phase) -> Event {
    let version = Version::V2020_07_01;
    let name = config.name.as_deref().unwrap_or("this-machine");
    let is_announced = phase == Phase::Prepare;
    Event {
        version,
        id: EventId::parse("00000000-0000-0000-0000-000000000000").expect("a GUID is an id"),
        status: if is_announced { Status::Scheduled } else { Status::Started },
        kind: kind.clone(),
        resource_type: "VirtualMachine".into(),
        resources: vec![Resource::new(version, name)],
        not_before: is_announced.then(|| SystemTime::now() + notice(kind)),
        description: Some("A test of the hooks.".into()),
        source: Some(Source::User),
        duration_secs: Some(-1),
    }
}

pub fn status(config: &Config) -> Result<()> {
    let records = state::load(&config.state)?;
    print!("{}", show(&records));
    Ok(())
}

/// The newest first.
fn show(records: &[Record]) -> String {
    let mut records: Vec<&Record> = records.iter().collect();
    records.sort_by_key(|record| std::cmp::Reverse(record.seen_at));
    let mut text = String::new();
    for record in &records {
        let event = &record.event;
        let status = record.over.map_or(event.status.as_str(), |over| over.as_str());
        let approved = if record.approved { ", approved" } else { "" };
        let not_before = match (record.over, event.not_before_text()) {
            (None, text) if !text.is_empty() => format!(", not before {text}"),
            _ => String::new(),
        };
        let _ = writeln!(text, "{} {} {status}{not_before}{approved}", event.id, event.kind);
        for run in &record.runs {
            let progress = match &run.progress {
                Progress::Running => "is running".to_owned(),
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
