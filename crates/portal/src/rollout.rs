//! The page of a rollout: its state and steps with failures on top, its rules, the capacity of its groups, its history; pause,
//! resume, stop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use forewarn_api::{Action, forecast_rollout};
use forewarn_api_types::MaintenanceWindow;
use forewarn_api_types::span::span_text;
use forewarn_core::{
    Event, OperationId, Rollout, RolloutId, RolloutPreview, RolloutState, RolloutStep, Status, StepState, StepTarget,
    Timestamp, Wait,
};

use super::action::{Button, ButtonPanel, Tone};
use super::activity::{ActivityId, kind_of_rollout, name_rollout, name_step};
use super::facts::Facts;
use super::fleet;
use super::fragment::Fragment;
use super::operation::{PageHead, Sentence, events_of, is_unapproved};
use super::panel::{NotFound, PageContent, Panel};
use super::query::PageQuery;
use super::scene::Scene;
use super::table::{self, Column, SortOrder};
use super::words::count;
use super::{address, history, html, waits, words};

/// Groups in the list of capacities.
const GROUPS_MAX: usize = 12;

const COLUMNS: [Column; 5] = [
    Column { key: "", label: "Step", class: "" },
    Column { key: "", label: "State", class: "" },
    Column { key: "", label: "Readiness", class: "" },
    Column { key: "", label: "Waiting for", class: "" },
    Column { key: "", label: "Time", class: "r" },
];

#[derive(Template)]
#[template(path = "segments.html")]
struct Segments {
    /// Class and name of each step.
    steps: Vec<(&'static str, String)>,
    width: f64,
}

impl Segments {
    fn x(&self, number: &usize) -> String {
        format!("{:.3}", *number as f64 * self.width)
    }

    fn bar(&self) -> String {
        format!("{:.3}", (self.width - 0.4).max(0.2))
    }
}

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
    ready: usize,
    notified: usize,
    /// HTML.
    waits_for: String,
    /// HTML.
    time: String,
    operation: String,
}

impl StepRow<'_> {
    fn width(&self) -> usize {
        (52 * self.ready).checked_div(self.notified).unwrap_or(0)
    }
}

#[derive(Template)]
#[template(path = "capacity_now.html")]
struct CapacityNow {
    /// Name, address, up, all, floor.
    groups: Vec<(String, String, usize, usize, usize)>,
}

pub async fn render(scene: &Scene, id: RolloutId) -> Result<PageContent, NotFound> {
    let region = scene.region();
    let missing = || NotFound("This rollout does not exist, or ended more than a week ago.".into());
    let rollout = region.rollout(id).ok_or_else(missing)?;
    let (kind, severity) = kind_of_rollout(rollout);
    let text = id.to_string();
    let operations: BTreeSet<OperationId> = rollout.steps.iter().filter_map(|step| step.operation).collect();
    let is_of_rollout = |row: &forewarn_store::HistoryRow| {
        row.target.as_deref() == Some(&text)
            || row.operation.is_some_and(|one| operations.contains(&one) && row.kind == "ended")
    };
    let rows = history::render_filtered_panel(scene, is_of_rollout).await;
    let forecast = forecast(scene, rollout).await;
    let head = PageHead {
        parent: ("/operations", "Operations"),
        here: "Rollout",
        kind,
        severity: severity.class(),
        facts: vec![format!(
            "Requested by <b>{}</b> {}",
            words::escape_html(&rollout.by),
            words::time(rollout.created)
        )],
    };
    let panels = vec![
        Panel::with_content("status", "Status", &Sentence { text: describe_state(scene, rollout, forecast.as_ref()) })
            .without_frame(),
        render_actions(scene, rollout),
        Panel::with_content("segments", "Progress", &list_segments(scene, rollout)),
        render_steps(scene, rollout, forecast.as_ref()),
    ];
    let aside = vec![
        Panel::with_content("facts", "Rules", &list_rules(rollout)),
        Panel::with_content("capacity", "Capacity now", &list_capacity(scene, rollout)),
        rows,
    ];
    let title = name_rollout(region, rollout);
    Ok(PageContent::new(title, panels).with_lead(html::render(&head)).with_aside(aside))
}

/// The expected course of the rest of a rollout that has not ended.
async fn forecast(scene: &Scene, rollout: &Rollout) -> Option<RolloutPreview> {
    if !rollout.is_live() {
        return None;
    }
    forecast_rollout(scene.snapshot.clone(), rollout.id, scene.now).await.ok()
}

fn describe_state(scene: &Scene, rollout: &Rollout, forecast: Option<&RolloutPreview>) -> String {
    let ended = rollout.steps.iter().filter(|step| step.ended.is_some()).count();
    let noun = match rollout.steps.first().map(|step| &step.target) {
        Some(StepTarget::Host(_)) => "hosts",
        Some(StepTarget::Machine(_)) => "machines",
        Some(StepTarget::Domain { .. }) | None => "update domains",
    };
    let progress = format!("{ended}/{} {noun}", rollout.steps.len());
    let mut parts = vec![match &rollout.state {
        RolloutState::Planned => "Planned".to_owned(),
        RolloutState::Running => "Running".to_owned(),
        RolloutState::Waiting => r#"<span class="amber">Waiting</span>"#.to_owned(),
        RolloutState::Paused => r#"<span class="amber">Paused</span>"#.to_owned(),
        RolloutState::Finished { .. } => r#"<span class="green">Finished</span>"#.to_owned(),
        RolloutState::Stopped { by, .. } => format!("Stopped by {}", words::escape_html(by)),
        RolloutState::Failed { .. } => r#"<span class="red">Failed</span>"#.to_owned(),
    }];
    parts.push(progress);
    if rollout.failures > 0 {
        parts.push(format!(r#"<span class="red">{} failed</span>"#, count(rollout.failures as usize, "machine")));
    }
    let is_told = |wait: &&Wait| rollout.is_live() && **wait != Wait::Approvals;
    if let Some(wait) = rollout.waits_for.as_ref().filter(is_told) {
        let wait = forewarn_api::render_wait(wait);
        let class = if waits::is_unplanned(wait.reason) { "amber" } else { "q" };
        parts.push(format!(r#"<span class="{class}">{}</span>"#, waits::render_wait(&wait)));
    }
    let in_progress = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
    let missing: usize = in_progress.map(|step| missing_names(scene, step).len()).sum();
    if missing > 0 {
        parts.push(format!(r#"<span class="amber">{} missing</span>"#, count(missing, "approval")));
    }
    let steps = forecast.filter(|forecast| forecast.is_complete).map_or(&[][..], |forecast| &forecast.rollout.steps);
    if let Some(end) = steps.iter().filter_map(|step| step.ended).max() {
        parts.push(format!("ends {}", words::about(end)));
    }
    parts.join(r#" <span class="qq">·</span> "#)
}

fn events_of_step<'s>(scene: &'s Scene, step: &RolloutStep) -> Vec<&'s Arc<Event>> {
    let operation = step.operation.and_then(|id| scene.region().operation(id));
    operation.map_or_else(Vec::new, |operation| events_of(scene.region(), operation))
}

fn missing_names(scene: &Scene, step: &RolloutStep) -> Vec<String> {
    let waiting = events_of_step(scene, step).into_iter().filter(|event| is_unapproved(event));
    waiting.flat_map(|event| event.resources.iter().map(|one| one.name.to_string()).collect::<Vec<_>>()).collect()
}

fn render_actions(scene: &Scene, rollout: &Rollout) -> Panel {
    let id = rollout.id.to_string();
    let live = || {
        let steps = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
        steps.flat_map(|step| events_of_step(scene, step)).filter(|event| event.is_live())
    };
    let scheduled = live().filter(|event| event.status == Status::Scheduled).count();
    let started = live().count() - scheduled;
    let left = format!("{} scheduled and {} in progress", count(scheduled, "event"), count(started, "event"));
    let mut actions = ButtonPanel::new(scene, &id, ActivityId::Rollout(rollout.id).href());
    if !rollout.is_live() {
        return actions.into_panel().without_frame();
    }
    if rollout.state == RolloutState::Paused {
        let text = "The rollout continues with the next step that its rules allow.".into();
        actions = actions.button(Button::new("resume-rollout", "Resume", text, Action::ResumeRollout, Tone::Primary));
    } else {
        let now = "<label class=\"tick\"><input type=\"checkbox\" name=\"now\" value=\"on\"> Cancel scheduled events too</label> ";
        let text = format!("No further step starts. {left}: they finish, unless you cancel the scheduled ones.");
        let pause = Button::new("pause-rollout", "Pause", text, Action::PauseRollout, Tone::Normal);
        actions = actions.button(pause.with_fields(now.to_owned()));
    }
    let pending = rollout.steps.iter().filter(|step| step.state == StepState::Pending).count();
    let text = format!(
        "The rollout ends. {} skipped. {left}: scheduled events are canceled, events in progress finish.",
        if pending == 1 { "1 step is".to_owned() } else { format!("{pending} steps are") }
    );
    actions = actions.button(Button::new("stop-rollout", "Stop", text, Action::StopRollout, Tone::Danger));
    actions.into_panel().without_frame()
}

fn list_segments(scene: &Scene, rollout: &Rollout) -> Segments {
    let class = |step: &RolloutStep| match step.state {
        StepState::Pending => "p-off",
        StepState::InProgress => "p-wait",
        StepState::Succeeded | StepState::Skipped => "p-ok",
        StepState::Failed => "p-bad",
        StepState::Canceled => "p-gone",
    };
    let steps: Vec<(&'static str, String)> =
        rollout.steps.iter().map(|step| (class(step), name_step(scene.region(), &step.target))).collect();
    Segments { width: 100.0 / steps.len().max(1) as f64, steps }
}

/// Failed steps first, then those in progress, then the next ones, then those that ended.
fn render_steps(scene: &Scene, rollout: &Rollout, forecast: Option<&RolloutPreview>) -> Panel {
    let rank = |step: &RolloutStep| match step.state {
        StepState::Failed => 0,
        StepState::InProgress => 1,
        StepState::Pending => 2,
        StepState::Succeeded | StepState::Skipped | StepState::Canceled => 3,
    };
    let rows = rollout.steps.iter().enumerate();
    let expected = |number: usize| forecast.and_then(|forecast| forecast.rollout.steps.get(number));
    let mut rows: Vec<Fragment> =
        rows.map(|(number, step)| render_step(scene, (step, expected(number)), number, rank(step))).collect();
    rows.sort_by(|one, other| one.sort.cmp(&other.sort));
    let order = SortOrder { key: "", is_descending: false };
    Panel::new("steps", "Steps", rows).with_table(table::render_head(&COLUMNS, order, &PageQuery::default(), ""))
}

/// The row of a step, with the step as it is expected to end.
fn render_step(
    scene: &Scene,
    (step, expected): (&RolloutStep, Option<&RolloutStep>),
    number: usize,
    rank: u8,
) -> Fragment {
    let region = scene.region();
    let (id, sort) = (format!("step-{number}"), format!("{rank}-{}", table::row_key(number)));
    let events = events_of_step(scene, step);
    let machines = |wanted: &dyn Fn(&Event) -> bool| -> usize {
        events.iter().filter(|event| wanted(event)).map(|event| event.resources.len()).sum()
    };
    let missing = missing_names(scene, step);
    let (state, mark) = match step.state {
        StepState::Pending => ("Pending", "idle"),
        StepState::InProgress if missing.is_empty() => ("In progress", "wait"),
        StepState::InProgress => ("Waiting for approval", "wait"),
        StepState::Succeeded => ("Finished", ""),
        StepState::Failed => ("Failed", "down"),
        StepState::Skipped => ("Skipped: no machines", "idle"),
        StepState::Canceled => ("Canceled", "idle"),
    };
    let row = StepRow {
        id: &id,
        sort: &sort,
        class: if step.state == StepState::Failed { "pin" } else { "" },
        name: name_step(region, &step.target),
        href: match &step.target {
            StepTarget::Host(host) => address::of_host(host),
            StepTarget::Domain { group, .. } => address::of_group(*group),
            StepTarget::Machine(id) => {
                region.machine(*id).map_or_else(String::new, |machine| address::of_machine(machine))
            }
        },
        state,
        mark,
        ready: machines(&|event| event.is_shown() && (event.approval.is_some() || event.status != Status::Scheduled)),
        notified: machines(&Event::is_shown),
        waits_for: describe_step(scene, step, &events, &missing),
        time: describe_time(step, expected, &events),
        operation: step.operation.map_or_else(String::new, |id| ActivityId::Operation(id).href()),
    };
    Fragment::render(id.as_str(), sort.as_str(), &row)
}

fn describe_step(scene: &Scene, step: &RolloutStep, events: &[&Arc<Event>], missing: &[String]) -> String {
    let failed: Vec<String> = events
        .iter()
        .filter_map(|event| match &event.status {
            Status::Ended {
                outcome: outcome @ (forewarn_core::Outcome::Failed(_) | forewarn_core::Outcome::TimedOut),
                ..
            } => {
                let names: Vec<String> = event.resources.iter().map(|one| one.name.to_string()).collect();
                Some(format!("{}: {}", words::join_names(&names), super::timeline::describe_outcome(outcome)))
            }
            Status::Ended { .. } | Status::Scheduled | Status::Started { .. } => None,
        })
        .collect();
    if !failed.is_empty() {
        return format!(r#"<span class="red">{}</span>"#, words::escape_html(words::join_names(&failed)));
    }
    if !missing.is_empty() {
        return format!("Missing: {}", words::escape_html(words::join_names(missing)));
    }
    let down: usize = events
        .iter()
        .filter(|event| matches!(event.status, Status::Started { .. }))
        .map(|event| event.resources.len())
        .sum();
    let machines = match &step.target {
        StepTarget::Host(host) => scene.region().machines_on(host).count(),
        StepTarget::Domain { group, domain } => scene.region().group(*group).map_or(0, |group| {
            scene.region().group_members(group).filter(|machine| machine.update_domain == *domain).count()
        }),
        StepTarget::Machine(id) => usize::from(scene.region().machine(*id).is_some()),
    };
    match step.state {
        StepState::InProgress if down > 0 => format!("{} down", count(down, "machine")),
        StepState::InProgress => "approvals, or the end of the notice".into(),
        StepState::Pending if step.withdrawn => format!("{}, to be announced again", count(machines, "machine")),
        StepState::Pending => count(machines, "machine"),
        StepState::Succeeded => "finished".into(),
        StepState::Failed => r#"<span class="red">a machine failed</span>"#.into(),
        StepState::Skipped => "nothing to do".into(),
        StepState::Canceled => "the rollout ended".into(),
    }
}

fn describe_time(step: &RolloutStep, expected: Option<&RolloutStep>, events: &[&Arc<Event>]) -> String {
    let due = events.iter().filter(|event| event.status == Status::Scheduled).map(|event| event.not_before).min();
    let about = |at: Option<Timestamp>, word: &str| {
        at.map_or_else(String::new, |at| format!("<small>{word} {}</small>", words::about(at)))
    };
    let end = about(expected.and_then(|step| step.ended), "ends");
    match (step.ended, due, step.started, expected.and_then(|step| step.started)) {
        (Some(ended), _, Some(started), _) => {
            let took = span_text(Duration::from_secs(ended.since(started).as_secs()));
            format!("{}<small>took {took}</small>", words::time(ended))
        }
        (Some(ended), _, None, _) => words::time(ended),
        (None, Some(due), _, _) => {
            format!(r#"<span class="count" data-until="{}">{}</span>{end}"#, due.0, words::utc(due))
        }
        (None, None, Some(started), _) => format!("since {}{end}", words::time(started)),
        (None, None, None, Some(start)) => format!("{}{end}", words::about(start)),
        (None, None, None, None) => r#"<span class="qq">–</span>"#.into(),
    }
}

fn list_rules(rollout: &Rollout) -> Facts {
    let plan = &rollout.plan;
    let windows: Vec<String> = plan.windows.iter().map(|window| words::escape_html(describe_window(window))).collect();
    let mut facts: Vec<_> = plan.at.map(|at| ("Not before", words::time(at))).into_iter().collect();
    facts.extend([
        ("In parallel", plan.parallel.to_string()),
        ("Pause between", if plan.pause.is_zero() { "none".into() } else { span_text(plan.pause) }),
        ("Windows", if windows.is_empty() { "any time".into() } else { windows.join("<br>") }),
        (
            "Unavailable per group",
            plan.unavailable_max.map_or_else(|| "one update domain".into(), |max| format!("at most {max}")),
        ),
        ("Failures", format!("{} of {} tolerated", rollout.failures, plan.failures_max)),
        ("Rollout", format!("<code>{}</code>", rollout.id)),
    ]);
    facts.extend(plan.notice.map(|notice| ("Notice", span_text(notice))));
    Facts { facts }
}

fn describe_window(window: &forewarn_core::Window) -> String {
    let clock = |minute: u32| format!("{:02}:{:02}", minute / 60, minute % 60);
    let names = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let days: Vec<&str> = names
        .into_iter()
        .enumerate()
        .filter(|(day, _)| window.days.contains(*day as u8))
        .map(|(_, name)| name)
        .collect();
    let days = if days.len() == 7 { String::new() } else { format!("{} ", days.join(",")) };
    let text = format!("{days}{}-{} {}", clock(window.start_minute), clock(window.end_minute), window.zone.name);
    MaintenanceWindow::parse(&text).map_or(text, |window| window.to_string())
}

fn list_capacity(scene: &Scene, rollout: &Rollout) -> CapacityNow {
    let region = scene.region();
    let hosts: BTreeSet<&str> = rollout
        .steps
        .iter()
        .filter_map(|step| match &step.target {
            StepTarget::Host(host) => Some(&**host),
            StepTarget::Domain { .. } | StepTarget::Machine(_) => None,
        })
        .collect();
    let groups: BTreeSet<_> = rollout
        .steps
        .iter()
        .filter_map(|step| match step.target {
            StepTarget::Host(_) => None,
            StepTarget::Domain { group, .. } => Some(fleet::GroupKey::Group(group)),
            StepTarget::Machine(id) => region.machine(id).map(|machine| fleet::key_of(machine)),
        })
        .collect();
    let on_hosts = region.machines().filter(|machine| machine.host.as_deref().is_some_and(|host| hosts.contains(host)));
    let keys: BTreeSet<_> = on_hosts.map(|machine| fleet::key_of(machine)).chain(groups).collect();
    let mut found: Vec<_> = fleet::list_groups(scene).into_iter().filter(|group| keys.contains(&group.key)).collect();
    let floor = |group: &fleet::FleetGroup| {
        rollout.plan.unavailable_max.map_or(group.floor(), |max| group.machines.saturating_sub(max as usize))
    };
    found.sort_by_key(|group| group.up as i64 - floor(group) as i64);
    let row =
        |group: &fleet::FleetGroup| (group.name.clone(), group.href.clone(), group.up, group.machines, floor(group));
    CapacityNow { groups: found.iter().take(GROUPS_MAX).map(row).collect() }
}
