//! The table of the steps of a rollout.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::span::format_span;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{
    Event, Name, Region, Rollout, RolloutPreview, RolloutStep, Status, StepState, StepTarget, Timestamp,
};
use forewarn_render::{count_machines, name_step};
use forewarn_widgets::address;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::readiness::Readiness;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::words;

use super::page_context::PageContext;
use forewarn_previews::plan;
use forewarn_previews::preview::is_unapproved;
use forewarn_widgets::activity::ActivityId;

const COLUMNS: [Column; 5] = [
    Column { key: "step", label: "Step", class: "" },
    Column { key: "state", label: "State", class: "" },
    Column { key: "ready", label: "Readiness", class: "" },
    Column { key: "", label: "Waiting for", class: "" },
    Column { key: "time", label: "Time", class: "r" },
];

/// Ranks of the steps that can be folded; see [`StepView::rank`].
const RANK_PENDING: u8 = 2;
const RANK_ENDED: u8 = 3;

/// Pending steps that are listed before the others are folded.
const PENDING_UNFOLDED_MAX: usize = 8;

/// Ended steps that are listed; more are folded. A night has dozens of steps, of which few need a look.
const ENDED_UNFOLDED_MAX: usize = 3;

#[derive(Template)]
#[template(path = "step_row.html")]
struct StepRow<'a> {
    id: &'a str,
    sort: &'a str,
    class: &'static str,
    name: String,
    href: String,
    state: &'static str,
    mark: &'static str,
    /// HTML.
    meter: String,
    /// HTML.
    waits_for: String,
    /// HTML.
    time: String,
    operation: String,
    /// The address that plans a failed step again; empty if it cannot be.
    again: String,
}

/// The steps. Failed ones are on top in any order.
pub fn render_panel(
    context: &PageContext,
    rollout: &Rollout,
    forecast: Option<&RolloutPreview>,
    query: &PageQuery,
) -> Panel {
    let order = SortOrder::of(query, &COLUMNS, "state");
    let failing = context.region().failing_hosts();
    let retries = rollout.retries();
    let retried: BTreeSet<usize> = retries.values().copied().collect();
    let mut steps: Vec<StepView<'_>> = rollout
        .steps
        .iter()
        .enumerate()
        .map(|(number, step)| StepView {
            number,
            step,
            expected: forecast.and_then(|forecast| forecast.rollout.steps.get(number)),
            events: events_of_step(context, rollout, step),
            problem: find_host_problem(context.region(), &failing, step),
            is_retry: retries.contains_key(&number),
            is_retried: retried.contains(&number),
        })
        .collect();
    sort(context, &mut steps, order);
    let is_default = order == SortOrder { key: "state", is_descending: false };
    let path = ActivityId::Rollout(rollout.id).href();
    let folds = if is_default { find_folds(&steps, query) } else { Vec::new() };
    let mut rows: Vec<Fragment> = folds.iter().map(|fold| fold.render(query, &path)).collect();
    for (place, step) in steps.iter().enumerate() {
        if folds.iter().any(|fold| !fold.is_open && fold.steps.contains(&step.number)) {
            continue;
        }
        // In the default order, a row does not depend on the others, so that few rows change with a step.
        let sort =
            if is_default { format!("{}-{}", step.rank(), table::row_key(step.number)) } else { table::row_key(place) };
        rows.push(render_row(context, rollout, step, &sort));
    }
    rows.sort_by(|one, other| one.sort.cmp(&other.sort));
    Panel::new("steps", "Steps", rows).with_table(table::render_head(&COLUMNS, order, query, &path))
}

/// Steps that are folded into one row.
struct Fold {
    /// The word in the address that unfolds them.
    word: &'static str,
    is_open: bool,
    /// Numbers of the steps.
    steps: BTreeSet<usize>,
    text: String,
    sort: String,
}

fn find_folds(steps: &[StepView<'_>], query: &PageQuery) -> Vec<Fold> {
    let of_rank = |rank: u8| steps.iter().filter(move |view| view.rank() == rank);
    let pending = of_rank(RANK_PENDING).skip(PENDING_UNFOLDED_MAX).map(|view| view.number).collect::<BTreeSet<_>>();
    let ended = of_rank(RANK_ENDED).map(|view| view.number).collect::<BTreeSet<_>>();
    let states = [
        (StepState::Succeeded, "finished"),
        (StepState::Failed, "retried"),
        (StepState::Skipped, "skipped"),
        (StepState::Canceled, "canceled"),
    ];
    let counts =
        states.map(|(state, word)| (of_rank(RANK_ENDED).filter(|view| view.step.state == state).count(), word));
    let counts: Vec<String> =
        counts.iter().filter(|(number, _)| *number > 0).map(|(number, word)| format!("{number} {word}")).collect();
    let fold = |word, steps, text, sort| Fold { word, is_open: query.has_word("steps", word), steps, text, sort };
    let mut folds = Vec::new();
    if !pending.is_empty() {
        let text = format!("{} more pending", pending.len());
        folds.push(fold("pending", pending, text, format!("{RANK_PENDING}-~")));
    }
    if ended.len() > ENDED_UNFOLDED_MAX {
        folds.push(fold("ended", ended, counts.join(", "), format!("{RANK_ENDED}-")));
    }
    folds
}

impl Fold {
    fn render(&self, query: &PageQuery, path: &str) -> Fragment {
        let id = format!("steps-{}", self.word);
        let href = query.with_toggled("steps", self.word).address(path).replace('&', "&amp;");
        let html = format!(
            r#"<tr id="{id}" class="folded" data-sort="{}"><td colspan="{}"><a id="fold-{}" href="{href}" data-soft aria-expanded="{}">{}</a></td></tr>"#,
            self.sort,
            COLUMNS.len(),
            self.word,
            self.is_open,
            self.text
        );
        Fragment { id, sort: self.sort.clone(), html }
    }
}

/// A step with what is known about it.
struct StepView<'a> {
    number: usize,
    step: &'a RolloutStep,
    /// The step as it is expected to end.
    expected: Option<&'a RolloutStep>,
    events: Vec<&'a Arc<Event>>,
    /// The condition of its host, if it is bad.
    problem: Option<HostCondition>,
    /// Whether it retries a failed step.
    is_retry: bool,
    /// Whether a later step retries it.
    is_retried: bool,
}

impl StepView<'_> {
    fn is_failed(&self) -> bool {
        has_failed(self.step, self.problem) && !self.is_retried
    }

    /// Failed steps first, then those in progress, then the next ones, then those that ended.
    fn rank(&self) -> u8 {
        match self.step.state {
            StepState::Failed | StepState::Succeeded if self.is_failed() => 0,
            StepState::InProgress => 1,
            StepState::Pending => RANK_PENDING,
            StepState::Failed | StepState::Succeeded | StepState::Skipped | StepState::Canceled => RANK_ENDED,
        }
    }

    /// The readiness for the events that have not started.
    fn readiness(&self) -> Readiness {
        let scheduled = self.events.iter().filter(|event| event.status == Status::Scheduled);
        Readiness::of(scheduled.map(|event| &***event))
    }

    /// When it ended, or is expected to start.
    fn time(&self) -> i64 {
        let expected = self.expected.and_then(|step| step.started);
        self.step.ended.or(self.step.started).or(expected).map_or(i64::MAX, |at| at.0)
    }
}

fn sort(context: &PageContext, steps: &mut [StepView<'_>], order: SortOrder<'_>) {
    match order.key {
        "step" => steps.sort_by_cached_key(|view| name_step(context.region(), &view.step.target)),
        "ready" => steps.sort_by_key(|view| Reverse(view.readiness().missing())),
        "time" => steps.sort_by_key(StepView::time),
        _ => steps.sort_by_key(StepView::rank),
    }
    if order.is_descending {
        steps.reverse();
    }
    steps.sort_by_key(|view| !view.is_failed());
}

/// The condition of the host of a step, if it is bad. `failing` are the hosts whose hardware fails.
pub fn find_host_problem(region: &Region, failing: &BTreeSet<&Name>, step: &RolloutStep) -> Option<HostCondition> {
    let StepTarget::Host(host) = &step.target else { return None };
    Some(HostCondition::of(region.host(host)?, failing)).filter(|condition| condition.is_bad())
}

/// Whether a step has failed, or its host has failed since the step ended.
pub fn has_failed(step: &RolloutStep, problem: Option<HostCondition>) -> bool {
    match step.state {
        StepState::Failed => true,
        StepState::Succeeded => problem.is_some(),
        StepState::Pending | StepState::InProgress | StepState::Skipped | StepState::Canceled => false,
    }
}

pub fn events_of_step<'s>(context: &'s PageContext, rollout: &Rollout, step: &RolloutStep) -> Vec<&'s Arc<Event>> {
    let operation = step.operation.and_then(|id| context.region().operation(id));
    let parts = operation.map_or(&[][..], |operation| rollout.parts_of(step, operation));
    parts.iter().filter_map(|part| context.region().event(part.event)).collect()
}

pub fn missing_names(events: &[&Arc<Event>]) -> Vec<String> {
    let waiting = events.iter().filter(|event| is_unapproved(event));
    waiting.flat_map(|event| event.resources.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()).collect()
}

fn render_row(context: &PageContext, rollout: &Rollout, view: &StepView<'_>, sort: &str) -> Fragment {
    let StepView { number, step, expected, events, problem, is_retry, is_retried } = view;
    let id = format!("step-{number}");
    let missing = missing_names(events);
    let (state, mark) = match step.state {
        StepState::Pending => ("Pending", "idle"),
        StepState::InProgress if missing.is_empty() => ("In progress", "wait"),
        StepState::InProgress => ("Waiting for approval", "wait"),
        StepState::Succeeded => problem.map_or(("Finished", ""), |problem| (problem.describe(), "down")),
        StepState::Failed if *is_retried => ("Failed, retried", "idle"),
        StepState::Failed => ("Failed", "down"),
        StepState::Skipped => ("Skipped: no machines", "idle"),
        StepState::Canceled => ("Canceled", "idle"),
    };
    let row = StepRow {
        id: &id,
        sort,
        class: if view.is_failed() { "pin" } else { "" },
        name: name_step(context.region(), &step.target) + if *is_retry { " (retry)" } else { "" },
        href: address_of(context.region(), step),
        state,
        mark,
        meter: view.readiness().render(),
        waits_for: describe_step(context, rollout, step, events, &missing)
            + &problem.map_or_else(String::new, describe_problem),
        time: describe_time(step, *expected, events),
        operation: step.operation.map_or_else(String::new, |id| ActivityId::Operation(id).href()),
        again: find_plan_again_address(context, rollout, step).filter(|_| !is_retried).unwrap_or_default(),
    };
    Fragment::render(id.as_str(), sort, &row)
}

/// The address that plans a failed step again while its rollout runs. A rollout owns its hosts, but other operations on them stay
/// possible. `None` for update domains: their maintenance would be a second rollout of the group.
fn find_plan_again_address(context: &PageContext, rollout: &Rollout, step: &RolloutStep) -> Option<String> {
    let is_open = rollout.is_live() && step.state == StepState::Failed;
    if !is_open || !context.visitor.is_allowed(Action::StartMaintenance) {
        return None;
    }
    let address = match (&step.target, rollout.plan.action.kind()) {
        // The page of a host offers to drain it.
        (StepTarget::Host(host), None) => return Some(address::of_host(host)),
        (StepTarget::Host(host), Some(_)) => plan::address_with("host", host),
        (StepTarget::Machine(id), Some(_)) => {
            let machine = context.region().machine(*id)?;
            plan::address_with("machine", &plan::target_name(context.region(), machine))
        }
        (StepTarget::Machine(_), None) | (StepTarget::Domain { .. } | StepTarget::Machines { .. }, _) => return None,
    };
    let kind = rollout.plan.action.kind()?.as_str();
    let description = address::encode_segment(rollout.plan.description.as_deref().unwrap_or_default());
    Some(format!("{address}&kind={kind}&description={description}"))
}

/// The page of the host, group or machine. Empty for a machine that was deleted, and for several machines.
pub fn address_of(region: &Region, step: &RolloutStep) -> String {
    match &step.target {
        StepTarget::Host(host) => address::of_host(host),
        StepTarget::Domain { group, .. } => address::of_group(*group),
        StepTarget::Machine(id) => region.machine(*id).map_or_else(String::new, |machine| address::of_machine(machine)),
        StepTarget::Machines { .. } => String::new(),
    }
}

fn describe_step(
    context: &PageContext,
    rollout: &Rollout,
    step: &RolloutStep,
    events: &[&Arc<Event>],
    missing: &[String],
) -> String {
    let failed: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.status {
            Status::Ended {
                outcome: outcome @ (forewarn_core::Outcome::Failed(_) | forewarn_core::Outcome::TimedOut),
                ..
            } => {
                let names: Vec<String> = event.resources.iter().map(|one| one.name.to_string()).collect();
                Some(format!("{}: {}", join_names(&names), super::timeline::describe_outcome(outcome)))
            }
            Status::Ended { .. } | Status::Scheduled | Status::Started { .. } => None,
        })
        .collect();
    if !failed.is_empty() {
        return format!(r#"<span class="red">{}</span>"#, words::escape_html(join_names(&failed)));
    }
    if !missing.is_empty() {
        return format!("Missing: {}", words::escape_html(join_names(missing)));
    }
    let down: usize = events
        .iter()
        .filter(|event| matches!(event.status, Status::Started { .. }))
        .map(|event| event.resources.len())
        .sum();
    let machines = count_machines(context.region(), &step.target);
    match step.state {
        StepState::InProgress if down > 0 => format!("{} down", count_of(down, "machine")),
        StepState::InProgress => "approvals, or the end of the notice".into(),
        StepState::Pending if step.withdrawn => format!("{}, to be announced again", count_of(machines, "machine")),
        StepState::Pending => count_of(machines, "machine"),
        StepState::Succeeded => "finished".into(),
        StepState::Failed => {
            let failure = context.region().failure_of_step(rollout, step);
            let reason = failure.as_ref().map_or_else(|| "a machine failed".into(), super::timeline::describe_outcome);
            format!(r#"<span class="red">{}</span>"#, words::escape_html(reason))
        }
        StepState::Skipped => "nothing to do".into(),
        StepState::Canceled => "the rollout ended".into(),
    }
}

/// The condition of the host, after what is known about the step. HTML.
fn describe_problem(problem: HostCondition) -> String {
    let text = match problem {
        HostCondition::Failed => "the host is off",
        HostCondition::Failing => "its hardware has failed",
        HostCondition::Unreachable => "it does not answer",
        HostCondition::Draining | HostCondition::Drained | HostCondition::Active => return String::new(),
    };
    format!(r#" <span class="qq">·</span> <span class="red">{text}</span>"#)
}

fn describe_time(step: &RolloutStep, expected: Option<&RolloutStep>, events: &[&Arc<Event>]) -> String {
    let due = events.iter().filter(|event| event.status == Status::Scheduled).map(|event| event.not_before).min();
    let about = |at: Option<Timestamp>, word: &str| {
        at.map_or_else(String::new, |at| format!("<small>{word} {}</small>", words::about(at)))
    };
    let end = about(expected.and_then(|step| step.ended), "ends");
    match (step.ended, due, step.started, expected.and_then(|step| step.started)) {
        (Some(ended), _, Some(started), _) => {
            let took = format_span(Duration::from_secs(ended.since(started).as_secs()));
            format!("{}<small>took {took}</small>", words::time(ended))
        }
        (Some(ended), _, None, _) => words::time(ended),
        (None, Some(due), _, _) => words::countdown(due, &words::utc(due)) + &end,
        (None, None, Some(started), _) => format!("since {}{end}", words::time(started)),
        (None, None, None, Some(start)) => format!("{}{end}", words::about(start)),
        (None, None, None, None) => r#"<span class="qq">–</span>"#.into(),
    }
}
