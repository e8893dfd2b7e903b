//! The page of a rollout: its state, a chart of its progress, its steps with failures on top, its rules, the capacity of its groups,
//! its history; pause, resume, stop.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::span::format_span;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{
    GroupKey, LimitOwner, OperationId, Rollout, RolloutId, RolloutPreview, RolloutState, RolloutStep, RolloutTargets,
    Status, StepState, UNLIMITED, Wait,
};
use forewarn_render::{name_rollout, name_step};
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::page_head::{PageHead, Sentence};
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{html, waits, words};

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::fleet::{self, FleetGroup};
use super::history::{self, HistorySearch};
use super::page_context::PageContext;
use super::rollout_steps::{events_of_step, find_host_problem, missing_names};
use super::{rollout_progress, rollout_steps};
use forewarn_previews::rollout_fields;
use forewarn_widgets::activity::{ActivityId, kind_of_rollout};
use forewarn_widgets::conflict;

/// Groups in the list of capacities.
const GROUPS_MAX: usize = 12;

#[derive(Template)]
#[template(path = "capacity_now.html")]
struct CapacityNow {
    groups: Vec<GroupCapacityNow>,
}

struct GroupCapacityNow {
    name: String,
    href: String,
    up: usize,
    all: usize,
    floor: usize,
    class: &'static str,
    /// The other drain or rollout that sets the floor. HTML; empty if there is none.
    limit: String,
}

pub async fn render(context: &PageContext, id: RolloutId, query: &PageQuery) -> Result<PageContent, NotFound> {
    let region = context.region();
    let missing = || NotFound("This rollout does not exist, or ended more than a week ago.".into());
    let rollout = region.rollout(id).ok_or_else(missing)?;
    let (kind, severity) = kind_of_rollout(rollout);
    let kind = kind.as_str();
    let operations: BTreeSet<OperationId> = rollout.steps.iter().filter_map(|step| step.operation).collect();
    let here = ActivityId::Rollout(id).href();
    let search = HistorySearch {
        indexed: Some(HistoryQuery { target: Some(id.to_string()), ..HistoryQuery::default() }),
        scanned: Some(HistoryQuery { kinds: vec![HistoryKind::Ended], ..HistoryQuery::default() }),
        is_wanted: |row: &HistoryRow| row.operation.is_some_and(|one| operations.contains(&one)),
        here: &here,
        query,
    };
    let rows = history::render_search_panel(context, &search).await;
    let forecast = context.portal.shared.forecasts.find(context, rollout).await;
    let forecast = forecast.as_deref();
    let head = PageHead {
        parent: ("/operations", "Operations"),
        here: "Rollout",
        kind,
        severity: severity.class(),
        facts: vec![format!(
            "Requested by <b>{}</b> {}",
            words::escape_html(context.name_requester(&rollout.requested_by)),
            words::time(rollout.created)
        )],
    };
    let panels = vec![
        describe_state(context, rollout, forecast).into_panel(),
        render_actions(context, rollout),
        conflict::render_panel(&warn_of_conflicts(context, rollout, forecast)),
        rollout_progress::render_panel(context, rollout, forecast).await,
        rollout_steps::render_panel(context, rollout, forecast, query),
    ];
    let aside = vec![
        Panel::with_content("facts", "Rules", &list_rules(rollout)),
        Panel::with_content("capacity", "Capacity now", &list_capacity(context, rollout)),
        rows,
    ];
    let title = name_rollout(region, rollout);
    Ok(PageContent::new(title, panels).with_lead(html::render(&head)).with_aside(aside))
}

/// Names operations that have events on the machines of a rollout. HTML.
fn warn_of_conflicts(context: &PageContext, rollout: &Rollout, forecast: Option<&RolloutPreview>) -> String {
    match forecast {
        Some(forecast) if rollout.is_live() => conflict::warn_of_operations(context.region(), &forecast.conflicts),
        Some(_) | None => String::new(),
    }
}

fn describe_state(context: &PageContext, rollout: &Rollout, forecast: Option<&RolloutPreview>) -> Sentence {
    let region = context.region();
    let failing = region.failing_hosts();
    let names = |wanted: &dyn Fn(&RolloutStep) -> bool| -> Vec<String> {
        rollout.steps.iter().filter(|step| wanted(step)).map(|step| name_step(region, &step.target)).collect()
    };
    let failed: Vec<String> = rollout.open_failures().map(|(_, step)| name_step(region, &step.target)).collect();
    let failed_since =
        names(&|step| step.state == StepState::Succeeded && find_host_problem(region, &failing, step).is_some());
    let ended = rollout.steps.iter().filter(|step| step.ended.is_some() && step.state != StepState::Failed).count();
    let noun = match rollout.targets {
        RolloutTargets::Hosts(_) => "host",
        RolloutTargets::Machines(_) => "machine",
        RolloutTargets::Groups(_) | RolloutTargets::MachinesByDomain(_) => "update domain",
    };
    let progress = format!("{ended} of {} finished", count_of(rollout.steps.len(), noun));
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
    if !failed.is_empty() {
        let names = words::escape_html(join_names(&failed));
        parts.push(format!(r#"<span class="red">{} failed: {names}</span>"#, failed.len()));
    }
    if !failed_since.is_empty() {
        let names = words::escape_html(join_names(&failed_since));
        parts.push(format!(r#"<span class="red">failed or unreachable since: {names}</span>"#));
    }
    let running = rollout.steps.iter().filter(|step| step.state == StepState::InProgress).count();
    if running > 0 {
        parts.push(format!("{running} in progress"));
    }
    let is_told = |wait: &&Wait| rollout.is_live() && **wait != Wait::Approvals;
    if let Some(wait) = rollout.waits_for.as_ref().filter(is_told) {
        let wait = forewarn_render::render_wait(wait);
        let class = if waits::is_unplanned(wait.reason) { "amber" } else { "q" };
        parts.push(format!(r#"<span class="{class}">{}</span>"#, waits::render_next_step(&wait)));
    }
    let in_progress = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
    let missing: usize = in_progress.map(|step| missing_names(&events_of_step(context, rollout, step)).len()).sum();
    if missing > 0 {
        parts.push(format!(r#"<span class="amber">approvals missing from {}</span>"#, count_of(missing, "machine")));
    }
    let steps = forecast.filter(|forecast| forecast.is_complete).map_or(&[][..], |forecast| &forecast.rollout.steps);
    if let Some(end) = steps.iter().filter_map(|step| step.ended).max() {
        parts.push(format!("ends {}", words::about(end)));
    }
    Sentence::of(parts)
}

fn render_actions(context: &PageContext, rollout: &Rollout) -> Panel {
    let id = rollout.id.to_string();
    let live = || {
        let steps = rollout.steps.iter().filter(|step| step.state == StepState::InProgress);
        steps.flat_map(|step| events_of_step(context, rollout, step)).filter(|event| event.is_live())
    };
    let scheduled = live().filter(|event| event.status == Status::Scheduled).count();
    let started = live().count() - scheduled;
    let left = format!("{} scheduled and {} in progress", count_of(scheduled, "event"), count_of(started, "event"));
    let mut actions = ButtonPanel::new(context, &id, ActivityId::Rollout(rollout.id).href());
    if !rollout.is_live() {
        return add_plan_again_links(context, rollout, actions).into_panel().without_frame();
    }
    if rollout.state == RolloutState::Paused {
        let text = "The rollout continues with the next step that its rules allow.".into();
        actions =
            actions.button(Button::new("resume-rollout", "Resume", text, Action::ResumeRollout, ButtonStyle::Primary));
    } else {
        let now = "<label class=\"tick\"><input type=\"checkbox\" name=\"now\" value=\"on\"> Cancel scheduled events too</label> ";
        let text = format!("No further step starts. {left}: they finish, unless you cancel the scheduled ones.");
        let pause = Button::new("pause-rollout", "Pause new steps", text, Action::PauseRollout, ButtonStyle::Normal);
        actions = actions.button(pause.with_fields(now.to_owned()));
    }
    if let Some(button) = retry_button(context, rollout) {
        actions = actions.button(button);
    }
    let pending = rollout.steps.iter().filter(|step| step.state == StepState::Pending).count();
    let text = format!(
        "The rollout ends. {} skipped. {left}: scheduled events are canceled, events in progress finish.",
        if pending == 1 { "1 step is".to_owned() } else { format!("{pending} steps are") }
    );
    actions = actions.button(Button::new(
        "stop-rollout",
        "Stop and skip the rest",
        text,
        Action::StopRollout,
        ButtonStyle::Danger,
    ));
    actions.into_panel().without_frame()
}

/// The button that retries failed steps. `None` if there are none.
fn retry_button(context: &PageContext, rollout: &Rollout) -> Option<Button> {
    let steps: Vec<String> = rollout
        .open_failures()
        .map(|(number, step)| {
            let name = words::escape_html(name_step(context.region(), &step.target));
            let tick = format!(r#"<input type="checkbox" name="step" value="{number}" checked>"#);
            format!(r#"<label class="tick">{tick} {name}</label> "#)
        })
        .collect();
    if steps.is_empty() {
        return None;
    }
    let text = "The selected steps are announced again after the pending ones, with full notice and the same rules. Their earlier \
                failures keep counting."
        .to_owned();
    let button = Button::new("retry-steps", "Retry failed steps", text, Action::RetrySteps, ButtonStyle::Normal);
    Some(button.with_fields(steps.concat()))
}

/// Links that plan the failed and the canceled steps of an ended rollout again, with the same rules.
fn add_plan_again_links<'s>(
    context: &'s PageContext,
    rollout: &Rollout,
    mut actions: ButtonPanel<'s>,
) -> ButtonPanel<'s> {
    if !context.visitor.is_allowed(Action::StartRollout) {
        return actions;
    }
    for (state, act, word) in [(StepState::Failed, "retry", "failed"), (StepState::Canceled, "rest", "canceled")] {
        let steps: Vec<&RolloutStep> = match state {
            // A step that was retried is not planned again.
            StepState::Failed => rollout.open_failures().map(|(_, step)| step).collect(),
            _ => rollout.steps.iter().filter(|step| step.state == state).collect(),
        };
        let label = format!("Plan {} again", count_of(steps.len(), &format!("{word} step")));
        if let Some(href) = rollout_fields::plan_again(context.region(), rollout, &steps) {
            actions = actions.link(act, &label, &href, Action::StartRollout);
        }
    }
    actions
}

fn list_rules(rollout: &Rollout) -> Facts {
    let plan = &rollout.plan;
    let windows: Vec<String> =
        plan.windows.iter().map(|window| words::escape_html(rollout_fields::describe_window(window))).collect();
    let mut facts: Vec<_> = plan.at.map(|at| ("Not before", words::time(at))).into_iter().collect();
    facts.extend([
        ("In parallel", plan.parallel.to_string()),
        ("Pause between", if plan.pause.is_zero() { "none".into() } else { format_span(plan.pause) }),
        ("Windows", if windows.is_empty() { "any time".into() } else { windows.join("<br>") }),
        (
            "Unavailable per group",
            match plan.unavailable_max {
                None => "one update domain".into(),
                Some(UNLIMITED) => "no limit of its own".into(),
                Some(max) => format!("at most {max}"),
            },
        ),
        (
            "Failed machines",
            match plan.failures_max {
                UNLIMITED => format!("{}, all tolerated", rollout.failures),
                max => format!("{} so far; more than {max} stop the rollout", rollout.failures),
            },
        ),
        ("Rollout", format!("<code>{}</code>", rollout.id)),
    ]);
    facts.extend(plan.notice.map(|notice| ("Notice", format_span(notice))));
    Facts { facts }
}

fn list_capacity(context: &PageContext, rollout: &Rollout) -> CapacityNow {
    let region = context.region();
    let keys: BTreeSet<_> = match &rollout.targets {
        RolloutTargets::Hosts(hosts) => {
            hosts.iter().flat_map(|host| region.machines_on(host)).map(|machine| GroupKey::of(machine)).collect()
        }
        RolloutTargets::Groups(groups) => groups.iter().copied().map(GroupKey::Group).collect(),
        RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => {
            machines.iter().filter_map(|id| region.machine(*id)).map(|machine| GroupKey::of(machine)).collect()
        }
    };
    let mut found: Vec<_> = fleet::list_groups(context).into_iter().filter(|group| keys.contains(&group.key)).collect();
    found.sort_by_key(|group| group.up as i64 - group.floor(region) as i64);
    let row = |group: &FleetGroup| {
        let limit = group.limit(region).filter(|limit| limit.owner != LimitOwner::Rollout(rollout.id));
        GroupCapacityNow {
            name: group.name.clone(),
            href: group.href.clone(),
            up: group.up,
            all: group.machines,
            floor: group.floor(region),
            class: match group.up.cmp(&group.floor(region)) {
                Ordering::Less => "red",
                Ordering::Equal if group.up < group.machines => "amber",
                Ordering::Equal | Ordering::Greater => "",
            },
            limit: limit.map_or_else(String::new, |limit| conflict::render_limit(region, limit)),
        }
    };
    CapacityNow { groups: found.iter().take(GROUPS_MAX).map(row).collect() }
}
