//! Activities: the causes of events. An activity is an operation, or a rollout with all its operations. Pages are organized by
//! activity, because one host failure can cause a hundred events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use crate::activity_kind::ActivityKind;
use crate::readiness::Readiness;
use crate::severity::Severity;
use crate::words;
use forewarn_api_types::{WaitFor, WaitReason, join_names};
use forewarn_core::{
    EventKind, Operation, OperationId, OperationResult, OperationState, Region, Request, Rollout, RolloutAction,
    RolloutId, RolloutState, ScopeId, StepState, Timestamp,
};
pub use forewarn_render::{ActivityId, find_cause, find_title};
use forewarn_render::{describe_request, find_rollout, name_operation, name_step, render_wait, title_of_rollout};

use crate::event_timeline::{EventTimeline, live_events};
use crate::stage::Stage;

pub struct Activity {
    pub id: ActivityId,
    pub title: String,
    pub kind: ActivityKind,
    pub severity: Severity,
    /// Empty for an operation that is only in the history.
    pub requested_by: String,
    pub requested_at: Timestamp,
    /// The description or ticket; may be empty.
    pub note: String,
    pub events: Vec<Arc<EventTimeline>>,
    /// Whether the operation or rollout has not ended.
    pub is_running: bool,
    /// Hardware failed, so that there was no notice.
    pub is_failure: bool,
    /// Why it does not go on.
    pub waits_for: Option<WaitFor>,
    /// Hosts or update domains of a rollout: ended, all.
    pub steps: Option<(usize, usize)>,
    /// Hosts of a rollout that failed, and machines whose event failed.
    pub failures: Vec<String>,
}

/// All activities that run.
pub fn collect_running(region: &Region) -> Vec<Activity> {
    group_by_cause(region, Vec::new())
}

/// Everything that runs, and past events, by cause.
pub fn group_by_cause(region: &Region, past: Vec<Arc<EventTimeline>>) -> Vec<Activity> {
    let rollout_of = find_rollouts(region);
    let mut events: BTreeMap<ActivityId, Vec<Arc<EventTimeline>>> = BTreeMap::new();
    for event in live_events(region, |_, _| true).into_iter().chain(past) {
        let Some(operation) = event.operations.first() else { continue };
        events.entry(cause_of(*operation, &rollout_of)).or_default().push(event);
    }
    let running = region.operations().filter(|operation| operation.state == OperationState::Running);
    for operation in running {
        events.entry(cause_of(operation.id, &rollout_of)).or_default();
    }
    for rollout in region.live_rollouts().filter(|rollout| rollout.operation.is_none()) {
        events.entry(ActivityId::Rollout(rollout.id)).or_default();
    }
    let mut activities: Vec<Activity> =
        events.into_iter().map(|(id, events)| Activity::new(region, id, events)).collect();
    activities.sort_by_cached_key(Activity::sort_key);
    activities
}

/// The rollouts that requested operations. Maintenance that a rollout carries out is its own cause.
fn find_rollouts(region: &Region) -> HashMap<OperationId, RolloutId> {
    let rollouts = region.rollouts().filter(|rollout| rollout.operation.is_none());
    let steps = rollouts.flat_map(|rollout| rollout.steps.iter().map(move |step| (step, rollout.id)));
    let steps = steps.filter_map(|(step, rollout)| Some((step.operation?, rollout)));
    let requested = region.operations().filter_map(|operation| Some((operation.id, find_rollout(region, operation)?)));
    steps.chain(requested).collect()
}

fn cause_of(operation: OperationId, rollouts: &HashMap<OperationId, RolloutId>) -> ActivityId {
    rollouts.get(&operation).map_or(ActivityId::Operation(operation), |rollout| ActivityId::Rollout(*rollout))
}

impl Activity {
    fn new(region: &Region, id: ActivityId, events: Vec<Arc<EventTimeline>>) -> Activity {
        let found = match id {
            ActivityId::Rollout(id) => region.rollout(id).map(|rollout| Activity::of_rollout(region, rollout)),
            ActivityId::Operation(id) => {
                region.operation(id).map(|operation| Activity::of_operation(region, operation))
            }
        };
        let mut activity = found.unwrap_or_else(|| Activity::of_history(id, &events));
        let failed = events.iter().filter(|event| matches!(event.status.as_str(), "Failed" | "Timed out"));
        // A rollout names its failed steps, as far as they were not retried, so only the current steps are left.
        let failed = failed.filter(|event| match id {
            ActivityId::Operation(_) => true,
            ActivityId::Rollout(id) => event.operations.iter().any(|one| is_in_progress(region, id, *one)),
        });
        activity.failures.extend(failed.flat_map(|event| event.names.iter().cloned()));
        Activity { events, ..activity }
    }

    /// An operation that the region no longer has.
    fn of_history(id: ActivityId, events: &[Arc<EventTimeline>]) -> Activity {
        let kind = events.first().map_or(ActivityKind::Unknown, |event| ActivityKind::of_word(&event.kind));
        let names = events.iter().flat_map(|event| event.names.iter().cloned());
        Activity {
            title: format!("{} of {}", kind.as_str(), join_names(names)),
            requested_at: events.iter().map(|event| event.appeared).min().unwrap_or(Timestamp(0)),
            ..Activity::blank(id, kind, Severity::of_word(kind.as_str()))
        }
    }

    /// Failures are simulated, not requested.
    pub fn request_verb(&self) -> &'static str {
        if self.is_failure { "Simulated" } else { "Requested" }
    }

    pub fn of_operation(region: &Region, operation: &Operation) -> Activity {
        let kind = kind_of(operation);
        let drain = operation.drain.as_ref().and_then(|drain| drain.waits_for.as_ref());
        Activity {
            title: name_operation(region, operation),
            requested_by: operation.requested_by.to_string(),
            requested_at: operation.requested_at,
            note: describe_request(region, operation).unwrap_or_default(),
            is_running: operation.state == OperationState::Running,
            is_failure: matches!(operation.request, Request::Fail { .. }),
            waits_for: drain.map(render_wait),
            failures: match &operation.state {
                OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
                    vec![words::outcome_word(outcome).to_lowercase()]
                }
                OperationState::Ended { .. } | OperationState::Running => Vec::new(),
            },
            ..Activity::blank(
                ActivityId::Operation(operation.id),
                match operation.request {
                    Request::Drain(_) => ActivityKind::Drain,
                    Request::Restart { .. }
                    | Request::Redeploy { .. }
                    | Request::PerformMaintenance { .. }
                    | Request::Evict { .. }
                    | Request::RecommendRebalance { .. }
                    | Request::Delete { .. }
                    | Request::Maintain { .. }
                    | Request::Fail { .. } => ActivityKind::Events(kind),
                },
                Severity::of(kind),
            )
        }
    }

    pub fn of_rollout(region: &Region, rollout: &Rollout) -> Activity {
        let ended = rollout.steps.iter().filter(|step| step.ended.is_some()).count();
        let (kind, severity) = kind_of_rollout(rollout);
        Activity {
            title: title_of_rollout(region, rollout),
            requested_by: rollout.requested_by.to_string(),
            requested_at: rollout.created,
            note: rollout.plan.description.as_deref().unwrap_or_default().to_owned(),
            is_running: rollout.is_live(),
            waits_for: match (&rollout.state, &rollout.waits_for) {
                (RolloutState::Paused, _) => Some(WaitFor::of(WaitReason::Paused)),
                (_, wait) => wait.as_ref().map(render_wait),
            },
            steps: Some((ended, rollout.steps.len())),
            failures: rollout.open_failures().map(|(_, step)| name_step(region, &step.target)).collect(),
            ..Activity::blank(ActivityId::Rollout(rollout.id), kind, severity)
        }
    }

    fn blank(id: ActivityId, kind: ActivityKind, severity: Severity) -> Activity {
        Activity {
            id,
            title: String::new(),
            kind,
            severity,
            requested_by: String::new(),
            requested_at: Timestamp(0),
            note: String::new(),
            events: Vec::new(),
            is_running: false,
            is_failure: false,
            waits_for: None,
            steps: None,
            failures: Vec::new(),
        }
    }

    pub fn href(&self) -> String {
        self.id.href()
    }

    pub fn events_in(&self, stage: Stage) -> impl Iterator<Item = &Arc<EventTimeline>> {
        self.events.iter().filter(move |event| event.stage() == stage)
    }

    /// The number of machines with events that have not ended, or of all machines if every event has ended.
    pub fn machine_count(&self) -> usize {
        match self.live_names().len() {
            0 => self.events.iter().flat_map(|event| &event.names).collect::<BTreeSet<_>>().len(),
            live => live,
        }
    }

    /// The machines with events that have not ended.
    pub fn live_names(&self) -> BTreeSet<&str> {
        let live = self.events.iter().filter(|event| event.stage() != Stage::Finished);
        live.flat_map(|event| event.names.iter().map(String::as_str)).collect()
    }

    /// The earliest start of a scheduled event.
    pub fn due(&self) -> Option<Timestamp> {
        self.events_in(Stage::Scheduled).map(|event| event.not_before).min()
    }

    /// Whether an event starts at this time or before.
    pub fn is_due(&self, at: Timestamp) -> bool {
        self.due().is_some_and(|due| due <= at)
    }

    pub fn started(&self) -> Option<Timestamp> {
        self.events_in(Stage::InProgress).filter_map(|event| event.started).min()
    }

    /// The latest announced end of the events in progress. `None` if the duration of one of them is unknown.
    pub fn expected_end(&self) -> Option<Timestamp> {
        let mut end = None;
        for event in self.events_in(Stage::InProgress) {
            let secs = u64::try_from(event.duration_secs).ok().filter(|secs| *secs > 0)?;
            end = end.max(Some(event.started? + std::time::Duration::from_secs(secs)));
        }
        end
    }

    pub fn stage(&self) -> Stage {
        if self.events_in(Stage::InProgress).next().is_some() {
            Stage::InProgress
        } else if self.is_running || self.events_in(Stage::Scheduled).next().is_some() {
            Stage::Scheduled
        } else {
            Stage::Finished
        }
    }

    pub fn readiness(&self) -> Readiness {
        readiness_of(self.events_in(Stage::Scheduled))
    }

    /// The event groups with their events, in the order of their names.
    pub fn scopes(&self) -> Vec<(Option<ScopeId>, Vec<&Arc<EventTimeline>>)> {
        let mut scopes: BTreeMap<(String, Option<ScopeId>), Vec<&Arc<EventTimeline>>> = BTreeMap::new();
        for event in &self.events {
            scopes.entry((event.scope.to_lowercase(), event.scope_id)).or_default().push(event);
        }
        scopes.into_iter().map(|((_, scope), events)| (scope, events)).collect()
    }

    /// Activities in progress first, then by start, then finished ones, newest first.
    pub fn sort_key(&self) -> (u8, Severity, i64, String) {
        let (rank, at) = match self.stage() {
            Stage::InProgress => (0, self.started().map_or(0, |at| at.0)),
            Stage::Scheduled => (1, self.due().unwrap_or(Timestamp(i64::MAX)).0),
            Stage::Finished => (2, -self.events.iter().filter_map(|event| event.ended).max().map_or(0, |at| at.0)),
        };
        let severity = if rank == 0 { self.severity } else { Severity::Slate };
        (rank, severity, at, self.id.key())
    }
}

/// Whether an operation carries out a step that is in progress.
fn is_in_progress(region: &Region, rollout: RolloutId, operation: OperationId) -> bool {
    let steps = region.rollout(rollout).map_or(&[][..], |rollout| &rollout.steps);
    steps.iter().any(|step| step.operation == Some(operation) && step.state == StepState::InProgress)
}

pub fn readiness_of<'e>(events: impl Iterator<Item = &'e Arc<EventTimeline>>) -> Readiness {
    let mut found = Readiness::default();
    for event in events {
        found.add(event.names.len(), event.is_shown, event.approved.is_some());
    }
    found
}

/// The type of the events that an operation creates.
fn kind_of(operation: &Operation) -> EventKind {
    match &operation.request {
        Request::Restart { .. } => EventKind::Reboot,
        Request::Redeploy { .. } | Request::PerformMaintenance { .. } => EventKind::Redeploy,
        Request::Evict { .. } => EventKind::Preempt,
        Request::RecommendRebalance { .. } => EventKind::SpotRebalanceRecommendation,
        Request::Delete { .. } => EventKind::Terminate,
        Request::Maintain { plan, .. } => plan.kind,
        Request::Drain(_) => EventKind::Freeze,
        Request::Fail { kind, .. } => *kind,
    }
}

pub fn kind_of_rollout(rollout: &Rollout) -> (ActivityKind, Severity) {
    let of_events = |kind| (ActivityKind::Events(kind), Severity::of(kind));
    match rollout.plan.action {
        RolloutAction::Freeze => of_events(EventKind::Freeze),
        RolloutAction::Reboot => of_events(EventKind::Reboot),
        RolloutAction::Redeploy => of_events(EventKind::Redeploy),
        RolloutAction::Drain { .. } => (ActivityKind::Drain, Severity::Slate),
    }
}
