//! The chart on the page of a rollout: its steps until now, and the expected rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_api_types::count_of;
use forewarn_core::{
    EventKind, OperationId, Region, Rollout, RolloutAction, RolloutPreview, RolloutState, RolloutStep, StepState,
    Timestamp,
};
use forewarn_render::{count_machines, name_step};
use forewarn_widgets::gantt::{Gantt, GanttPhase, GanttSpan, GanttStep, GanttTimes};
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::panel::Panel;

use super::page_context::PageContext;
use super::rollout_steps::{address_of, events_of_step, find_host_problem, has_failed, missing_names};
use super::timeline::{EventTimeline, live_events};
use forewarn_widgets::activity::kind_of_rollout;

#[derive(Template)]
#[template(path = "rollout_progress.html")]
struct ProgressChart {
    /// The progress of each wave. HTML.
    segments: String,
    chart: String,
}

/// When the events of an operation started, or will at the latest, and their latest announced end.
#[derive(Clone, Copy)]
struct Impact {
    from: i64,
    to: i64,
}

pub async fn render_panel(context: &PageContext, rollout: &Rollout, forecast: Option<&RolloutPreview>) -> Panel {
    let impacts = find_impacts(context, rollout).await;
    let failing = context.region().failing_hosts();
    let retries = rollout.retries();
    let draw = |(number, step): (usize, &RolloutStep)| {
        let expected = forecast.and_then(|forecast| forecast.rollout.steps.get(number));
        let problem = find_host_problem(context.region(), &failing, step);
        let step = draw_step(context, rollout, step, expected, &impacts, problem);
        let name = if retries.contains_key(&number) { step.name + " (retry)" } else { step.name };
        GanttStep { name, ..step }
    };
    let steps: Vec<GanttStep> = rollout.steps.iter().enumerate().map(draw).collect();
    let times = || steps.iter().filter_map(|step| step.times);
    let now = context.now.0;
    let begin = times().map(|times| times.notice).min().unwrap_or(now);
    let end = times().map(|times| times.end).max().unwrap_or(now).max(if rollout.is_live() { now } else { begin });
    let (_, severity) = kind_of_rollout(rollout);
    let gantt = Gantt::new(GanttSpan::new(begin, end), severity.class(), steps).with_now(context.now, context.mode);
    Panel::with_content(
        "rollout-progress",
        "Progress",
        &ProgressChart { segments: gantt.render_segments(), chart: gantt.render() },
    )
}

/// The impact of each operation of the rollout.
async fn find_impacts(context: &PageContext, rollout: &Rollout) -> BTreeMap<OperationId, Impact> {
    let operations: BTreeSet<OperationId> = rollout.steps.iter().filter_map(|step| step.operation).collect();
    let is_of_rollout = |id: OperationId| operations.contains(&id);
    let mut events = live_events(context.region(), |_, event| event.operations.iter().any(|id| is_of_rollout(*id)));
    events.extend(
        context.portal.shared.past.find_finished(context, |row| row.operation.is_some_and(is_of_rollout)).await,
    );
    let mut impacts: BTreeMap<OperationId, Impact> = BTreeMap::new();
    for event in &events {
        let impact = Impact::of(event);
        for operation in &event.operations {
            let known = impacts.entry(*operation).or_insert(impact);
            *known = Impact { from: known.from.min(impact.from), to: known.to.max(impact.to) };
        }
    }
    impacts
}

impl Impact {
    fn of(event: &Arc<EventTimeline>) -> Impact {
        let from = event.started.or(event.ended).unwrap_or(event.not_before);
        let secs = u64::try_from(event.duration_secs).unwrap_or(0);
        let to = event.ended.unwrap_or(from + std::time::Duration::from_secs(secs));
        Impact { from: from.0, to: to.0 }
    }
}

fn draw_step(
    context: &PageContext,
    rollout: &Rollout,
    step: &RolloutStep,
    expected: Option<&RolloutStep>,
    impacts: &BTreeMap<OperationId, Impact>,
    problem: Option<HostCondition>,
) -> GanttStep {
    let impact = step.operation.and_then(|operation| impacts.get(&operation)).copied();
    let phase = match step.state {
        StepState::Failed => GanttPhase::Failed,
        StepState::Succeeded if has_failed(step, problem) => GanttPhase::Failed,
        StepState::InProgress => GanttPhase::Running,
        StepState::Succeeded | StepState::Skipped => GanttPhase::Done,
        StepState::Canceled => GanttPhase::Canceled,
        StepState::Pending => GanttPhase::Expected,
    };
    let times = match step.state {
        StepState::Pending => expected.and_then(|expected| expect_times(context.region(), rollout, expected)),
        StepState::Failed | StepState::InProgress | StepState::Succeeded | StepState::Skipped | StepState::Canceled => {
            step.started.map(|started| known_times(context, started, step, expected, impact))
        }
    };
    GanttStep {
        name: name_step(context.region(), &step.target),
        href: address_of(context.region(), step),
        machines: count_machines(context.region(), &step.target),
        phase,
        times,
        note: describe_step(context, rollout, step, problem),
    }
}

/// The times of a step that has started.
fn known_times(
    context: &PageContext,
    started: Timestamp,
    step: &RolloutStep,
    expected: Option<&RolloutStep>,
    impact: Option<Impact>,
) -> GanttTimes {
    let from = impact.map_or(started.0, |impact| impact.from).max(started.0);
    let expected = expected.and_then(|step| step.ended).map(|at| at.0);
    let end = step.ended.map(|at| at.0).or(expected).or(impact.map(|impact| impact.to)).unwrap_or(context.now.0);
    GanttTimes { notice: started.0, impact: from.min(end.max(started.0)), end: end.max(started.0) }
}

/// The times of a step that is expected to start.
fn expect_times(region: &Region, rollout: &Rollout, expected: &RolloutStep) -> Option<GanttTimes> {
    let (started, ended) = (expected.started?.0, expected.ended?.0);
    let kind = match rollout.plan.action {
        RolloutAction::Freeze => Some(EventKind::Freeze),
        RolloutAction::Reboot => Some(EventKind::Reboot),
        RolloutAction::Redeploy => Some(EventKind::Redeploy),
        // Each machine has its own notice; the whole step counts as impact.
        RolloutAction::Drain { .. } => None,
    };
    let settings = region.settings();
    let notice = kind.map_or(0, |kind| {
        let notice = rollout.plan.notice.map_or(settings.notice_min(kind), |notice| settings.scaled(notice));
        notice.as_millis() as i64
    });
    Some(GanttTimes { notice: started, impact: (started + notice).min(ended), end: ended })
}

fn describe_step(
    context: &PageContext,
    rollout: &Rollout,
    step: &RolloutStep,
    problem: Option<HostCondition>,
) -> String {
    match step.state {
        StepState::Succeeded => problem.map_or_else(String::new, |problem| problem.describe().to_lowercase()),
        StepState::Failed => "failed".into(),
        StepState::InProgress => match missing_names(&events_of_step(context, rollout, step)).len() {
            0 => String::new(),
            missing => format!("{} not ready", count_of(missing, "machine")),
        },
        StepState::Pending if rollout.state == RolloutState::Paused => "paused".into(),
        StepState::Canceled => "canceled".into(),
        StepState::Skipped => "no machines".into(),
        StepState::Pending => String::new(),
    }
}
