//! `forewarn rollout`: maintenance in steps.

use std::time::Duration;

use forewarn_api_client::moment;
use forewarn_api_types::{
    Clock, ConflictingOperation, EmptyBody, EventOutcome, HistoryRow, NewRollout, Number, PauseOptions, ResourceName,
    Rollout, RolloutPhase, RolloutPreview, RolloutStep, RolloutStepPhase, RolloutType, StepSelection, Text, Time,
    count_of,
};
use serde_json::Value;

use super::single_line;
use crate::args::{Output, RetryArgs, RolloutArgs, RolloutCommand, RolloutId};
use crate::client::{Api, Call, Change, Changes, clock_advice, format_time, join_few};
use crate::decode::decode;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Cell, Color, StatusLine, TableRow};

/// Interval at which the status line is rewritten.
const TICK: Duration = Duration::from_secs(1);

pub fn run(api: &Api, command: &RolloutCommand, output: Output) -> Result<(), Failure> {
    match command {
        RolloutCommand::Start(args) if args.dry_run => preview(api, args, output),
        RolloutCommand::Start(args) => start(api, args, output),
        RolloutCommand::List => output::print_list::<Rollout>(&api.list(Call::api(&["rollouts"]))?, output),
        RolloutCommand::Show(rollout) => show(&api.get(&one(rollout))?, output),
        RolloutCommand::Pause { rollout, now } => {
            show(&api.post(&verb(rollout, "pause"), &PauseOptions { now: *now })?, output)
        }
        RolloutCommand::Resume(rollout) => show(&api.post(&verb(rollout, "resume"), &EmptyBody {})?, output),
        RolloutCommand::Retry { rollout, steps } => retry(api, rollout, steps, output),
        RolloutCommand::Stop(rollout) => show(&api.post(&verb(rollout, "stop"), &EmptyBody {})?, output),
        RolloutCommand::Watch(rollout) => {
            let found: Rollout = decode(&api.get(&one(rollout))?)?;
            watch(api, &found.id.to_string(), output)
        }
    }
}

fn one(rollout: &RolloutId) -> Call {
    Call::api(&["rollouts", &rollout.id])
}

fn verb(rollout: &RolloutId, verb: &str) -> Call {
    Call::api(&["rollouts", &rollout.id, verb])
}

fn retry(api: &Api, rollout: &RolloutId, steps: &RetryArgs, output: Output) -> Result<(), Failure> {
    let selection = StepSelection {
        steps: Vec::new(),
        hosts: steps.host.clone(),
        machines: steps.vm.clone(),
        group: steps.set.clone(),
        update_domains: steps.update_domain.iter().map(|domain| Number(u64::from(*domain))).collect(),
    };
    show(&api.post(&verb(rollout, "retry").creates_events(), &selection)?, output)
}

fn start(api: &Api, args: &RolloutArgs, output: Output) -> Result<(), Failure> {
    let value = api.post(&Call::api(&["rollouts"]).creates_events(), &body(api, args)?)?;
    if args.no_wait {
        return output::print_one(&value, output, |rollout: &Rollout| {
            single_line(format!(
                "Started rollout {} with {}. Watch it with `forewarn rollout watch {}`.",
                rollout.id,
                count_of(rollout.steps.len(), "step"),
                short(rollout)
            ))
        });
    }
    let rollout: Rollout = decode(&value)?;
    watch(api, &rollout.id.to_string(), output)
}

/// The first characters of the ID, which commands accept.
fn short(rollout: &Rollout) -> String {
    rollout.id.to_string().chars().take(8).collect()
}

fn body(api: &Api, args: &RolloutArgs) -> Result<NewRollout, Failure> {
    let pool = args.to.clone().map(ResourceName::new).transpose();
    Ok(NewRollout {
        hosts: args.targets.host.clone(),
        host_label: args.targets.label.clone(),
        groups: args.targets.set.clone(),
        machines: args.targets.vm.clone(),
        at: moment::resolve(args.at, api)?.map(Time::from),
        parallel: args.parallel,
        pause_seconds: args.pause,
        windows: args.window.clone(),
        max_unavailable: args.max_unavailable,
        max_failures: args.max_failures,
        notice_seconds: args.notice,
        description: args.description.clone().map(Text),
        to: pool.map_err(|reason| Failure::Refused(format!("invalid pool: {reason}")))?,
        machines_parallel: args.machines_parallel,
        wait_in_place: args.wait_in_place,
        ..NewRollout::of(args.kind)
    })
}

// --- preview ---------------------------------------------------------------------------------------

fn preview(api: &Api, args: &RolloutArgs, output: Output) -> Result<(), Failure> {
    let value = api.post(&Call::api(&["rollouts", "preview"]), &body(api, args)?)?;
    if matches!(output, Output::Json | Output::Yaml) {
        return output::print_value(&value, output);
    }
    let preview: RolloutPreview = decode(&value)?;
    print_plan(&preview.steps)?;
    for line in describe_preview(&preview, args.kind) {
        output::print_line(&output::escape(&line))?;
    }
    Ok(())
}

fn describe_preview(preview: &RolloutPreview, kind: RolloutType) -> Vec<String> {
    let mut lines = vec![String::new()];
    let assumption = match kind {
        RolloutType::Drain => " and each drained host is activated immediately",
        RolloutType::Freeze | RolloutType::Reboot | RolloutType::Redeploy => "",
    };
    lines.push(match preview.ends.filter(|_| preview.is_complete) {
        Some(ends) => format!("Expected to finish at {}, if no handler approves early{assumption}.", format_time(ends)),
        None => "Not expected to finish: see the waits below.".to_owned(),
    });
    lines.extend(
        preview.waits.iter().map(|wait| format!("From {}: waits for {}.", format_time(wait.at), wait.waits_for)),
    );
    for group in &preview.groups {
        lines.push(format!(
            "{}: at least {} of {} machines available.",
            group.name, group.min_available, group.machines
        ));
    }
    let silent: Vec<String> = preview.groups.iter().filter(|it| !it.has_handler).map(|it| it.name.clone()).collect();
    if !silent.is_empty() {
        lines.push(format!("No handler, so no notice: {}.", join_few(&silent)));
    }
    let name = |one: &ConflictingOperation| format!("{} ({})", one.title, one.id);
    let conflicts: Vec<String> = preview.conflicting_operations.iter().map(name).collect();
    if !conflicts.is_empty() {
        lines.push(format!("Other operations on these machines: {}.", join_few(&conflicts)));
    }
    lines
}

// --- progress ----------------------------------------------------------------------------------------

/// Follows a rollout until it has ended. The stream of changes is opened first, so that no change is missed.
fn watch(api: &Api, id: &str, output: Output) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    let _interrupt = interrupt::explain(format!(
        "Stopped watching; the rollout continues. Show it with `forewarn rollout show {id}`, or stop it with `forewarn rollout \
         stop {id}`."
    ));
    let mut status = StatusLine::new();
    let mut shown: Vec<RolloutStepPhase> = Vec::new();
    let mut is_clock_mentioned = false;
    loop {
        let value = api.get(&Call::api(&["rollouts", id]))?;
        let rollout: Rollout = decode(&value)?;
        status.clear();
        if !matches!(output, Output::Json | Output::Yaml) {
            print_changed_steps(&rollout, &mut shown)?;
        }
        if is_over(rollout.state) {
            return finish(&value, &rollout, output);
        }
        if !is_clock_mentioned {
            mention_manual_clock(api)?;
            is_clock_mentioned = true;
        }
        status.show(&format!("{} (Ctrl-C: stop watching)", describe_progress(&rollout)));
        wait_for_change(&mut changes, &rollout, &mut status)?;
    }
}

fn mention_manual_clock(api: &Api) -> Result<(), Failure> {
    let clock: Clock = decode(&api.get(&Call::api(&["clock"]))?)?;
    if let Some(advice) = clock_advice(&clock) {
        output::print_stderr(&output::escape(&advice));
    }
    Ok(())
}

fn wait_for_change(changes: &mut Changes<'_>, rollout: &Rollout, status: &mut StatusLine) -> Result<(), Failure> {
    let id = rollout.id.to_string();
    loop {
        match changes.next(TICK)? {
            Change::Row(row) if concerns(&decode(&row)?, &id, rollout) => return Ok(()),
            Change::Row(_) | Change::Timeout => {}
            Change::Unreachable => status.show_reconnecting(),
            Change::Reconnected => return Ok(()),
        }
    }
}

/// Whether a row of history is about the rollout or one of its operations.
fn concerns(row: &HistoryRow, id: &str, rollout: &Rollout) -> bool {
    row.target.as_deref() == Some(id)
        || row.operation.is_some_and(|operation| rollout.steps.iter().any(|step| step.operation == Some(operation)))
}

fn print_changed_steps(rollout: &Rollout, shown: &mut Vec<RolloutStepPhase>) -> Result<(), Failure> {
    for (number, step) in rollout.steps.iter().enumerate() {
        let before = shown.get(number).copied().unwrap_or(RolloutStepPhase::Pending);
        if step.state != before {
            let at = step.ended.or(step.started).map_or(String::new(), |at| format!("{}  ", format_time(at)));
            output::print_line(&output::escape(&format!("{at}{}: {}", name_step(step), describe_step(step))))?;
        }
    }
    *shown = rollout.steps.iter().map(|step| step.state).collect();
    Ok(())
}

fn finish(value: &Value, rollout: &Rollout, output: Output) -> Result<(), Failure> {
    output::print_one(value, output, |rollout: &Rollout| single_line(describe_end(rollout)))?;
    match rollout.state {
        RolloutPhase::Failed => Err(Failure::Failed(format!("rollout {} failed", rollout.id))),
        RolloutPhase::Planned
        | RolloutPhase::Running
        | RolloutPhase::Waiting
        | RolloutPhase::Paused
        | RolloutPhase::Finished
        | RolloutPhase::Stopped
        | RolloutPhase::Unknown(_) => Ok(()),
    }
}

fn describe_end(rollout: &Rollout) -> String {
    let done = count(rollout, RolloutStepPhase::Succeeded) + count(rollout, RolloutStepPhase::Skipped);
    let by = rollout.stopped_by.as_ref().map_or(String::new(), |by| format!(" by {by}"));
    let state = rollout.state.as_str().to_lowercase();
    format!(
        "Rollout {} {state}{by}: {done} of {}, {}.",
        rollout.id,
        count_of(rollout.steps.len(), "step"),
        count_of(rollout.failures as usize, "failed machine")
    )
}

fn is_over(state: RolloutPhase) -> bool {
    match state {
        RolloutPhase::Planned
        | RolloutPhase::Running
        | RolloutPhase::Waiting
        | RolloutPhase::Paused
        | RolloutPhase::Unknown(_) => false,
        RolloutPhase::Finished | RolloutPhase::Stopped | RolloutPhase::Failed => true,
    }
}

fn count(rollout: &Rollout, state: RolloutStepPhase) -> usize {
    rollout.steps.iter().filter(|step| step.state == state).count()
}

fn describe_progress(rollout: &Rollout) -> String {
    let ended = rollout.steps.iter().filter(|step| step.ended.is_some()).count();
    let wait = rollout.waits_for.as_ref().map_or(String::new(), |wait| format!(", waits for {wait}"));
    format!("{}: {ended} of {} steps{wait}", rollout.state, rollout.steps.len())
}

fn describe_step(step: &RolloutStep) -> String {
    let text = match step.state {
        RolloutStepPhase::Pending => "announced again later",
        RolloutStepPhase::InProgress => "in progress",
        RolloutStepPhase::Succeeded => "succeeded",
        RolloutStepPhase::Failed => return describe_failure("failed", step),
        RolloutStepPhase::Skipped => "skipped, no machines",
        RolloutStepPhase::Canceled => "canceled",
        RolloutStepPhase::Unknown(word) => word.as_str(),
    };
    text.to_owned()
}

/// The target of a step: `h1`, or `h1 (retry)`.
fn name_step(step: &RolloutStep) -> String {
    let target = name_target(step);
    if step.retry_of.is_some() { format!("{target} (retry)") } else { target }
}

fn name_target(step: &RolloutStep) -> String {
    match (step.host.as_ref().or(step.machine.as_ref()), &step.group, step.update_domain) {
        (Some(name), _, _) => name.clone(),
        (None, None, Some(domain)) if !step.machines.is_empty() => {
            format!("UD {domain}: {}", join_few(&step.machines))
        }
        (None, group, Some(domain)) => format!("{} UD {domain}", group.as_deref().unwrap_or("?")),
        (None, group, None) => group.clone().unwrap_or_default(),
    }
}

// --- output --------------------------------------------------------------------------------------------

fn show(value: &Value, output: Output) -> Result<(), Failure> {
    if matches!(output, Output::Json | Output::Yaml) {
        return output::print_value(value, output);
    }
    let rollout: Rollout = decode(value)?;
    for line in output::format_fields(&facts(&rollout)) {
        output::print_line(&output::escape(&line))?;
    }
    output::print_line("")?;
    print_steps(&rollout.steps)
}

fn facts(rollout: &Rollout) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("rollout", rollout.id.to_string()),
        ("type", rollout.kind.to_string()),
        ("state", rollout.state.to_string()),
    ];
    lines.extend(rollout.waits_for.as_ref().map(|wait| ("waits for", wait.to_string())));
    lines.push(("requested by", rollout.requested_by.clone()));
    lines.push(("created", format_time(rollout.created)));
    lines.extend(rollout.ended.map(|at| ("ended", format_time(at))));
    lines.extend(rollout.expected_end.map(|at| ("expected end", format_time(at))));
    lines.extend(rollout.at.map(|at| ("starts at", format_time(at))));
    lines.push(("in parallel", rollout.parallel.to_string()));
    lines.extend(rollout.max_unavailable.map(|max| ("max unavailable", max.to_string())));
    lines.push(match rollout.max_failures {
        Some(max) => ("failures", format!("{} of at most {max}", rollout.failures)),
        None => ("failures", rollout.failures.to_string()),
    });
    lines.extend(rollout.operation.map(|id| ("operation", id.to_string())));
    lines.extend(rollout.windows.iter().map(|window| ("window", window.to_string())));
    lines.extend(rollout.description.clone().map(|text| ("description", text)));
    lines
}

fn print_steps(steps: &[RolloutStep]) -> Result<(), Failure> {
    let time = |at: Option<Time>, expected: Option<Time>| match (at, expected) {
        (Some(at), _) => Cell::new(format_time(at)),
        (None, Some(expected)) => Cell::new(format!("about {}", format_time(expected))),
        (None, None) => Cell::new(""),
    };
    let rows: Vec<Vec<Cell>> = steps
        .iter()
        .map(|step| {
            let waiting = join_few(&step.waiting_machines);
            vec![
                Cell::new(name_step(step)),
                state_cell(step),
                time(step.started, step.expected_start),
                time(step.ended, step.expected_end),
                Cell::new(waiting),
            ]
        })
        .collect();
    output::print_table(&["STEP", "STATE", "STARTED", "ENDED", "WAITING MACHINES"], &rows, "There are no steps.")
}

/// The steps of a rollout that has not begun, with their expected times.
fn print_plan(steps: &[RolloutStep]) -> Result<(), Failure> {
    let time = |at: Option<Time>| Cell::new(at.map_or_else(|| "unknown".to_owned(), format_time));
    let rows: Vec<Vec<Cell>> = steps
        .iter()
        .map(|step| {
            let machines = step.machine_count.map_or_else(String::new, |count| count.to_string());
            vec![Cell::new(name_step(step)), Cell::new(machines), time(step.started), time(step.ended)]
        })
        .collect();
    output::print_table(&["STEP", "MACHINES", "ANNOUNCED", "ENDS"], &rows, "There are no steps.")
}

/// A word for the failure of a step, with its reason: `Failed: HostFailed`.
fn describe_failure(word: &str, step: &RolloutStep) -> String {
    let reason = step.reason.as_deref().or(step.outcome.filter(|it| *it != EventOutcome::Failed).map(|it| it.as_str()));
    reason.map_or_else(|| word.to_owned(), |reason| format!("{word}: {reason}"))
}

fn state_cell(step: &RolloutStep) -> Cell {
    let state = step.state;
    match state {
        RolloutStepPhase::Failed => Cell::colored(describe_failure(state.as_str(), step), Color::Red),
        RolloutStepPhase::InProgress => Cell::colored(state.as_str(), Color::Yellow),
        RolloutStepPhase::Pending
        | RolloutStepPhase::Succeeded
        | RolloutStepPhase::Skipped
        | RolloutStepPhase::Canceled
        | RolloutStepPhase::Unknown(_) => Cell::new(state.as_str()),
    }
}

impl TableRow for Rollout {
    const HEADER: &'static [&'static str] = &["ID", "TYPE", "STATE", "STEPS", "FAILED", "DESCRIPTION", "REQUESTED BY"];
    const EMPTY: &'static str = "There are no rollouts.";

    fn cells(&self) -> Vec<Cell> {
        let ended = self.steps.iter().filter(|step| step.ended.is_some()).count();
        vec![
            Cell::new(short(self)),
            Cell::new(self.kind.as_str()),
            Cell::new(self.state.as_str()),
            Cell::new(format!("{ended}/{}", self.steps.len())),
            Cell::new(self.failures.to_string()),
            Cell::new(self.description.as_deref().unwrap_or_default()),
            Cell::new(&self.requested_by),
        ]
    }
}
