//! Conflicts between causes: a rollout that owns the host or group of a machine, other operations on the same machines, and
//! groups that fall below their floor because several causes take machines down at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::{count_of, join_names};
use forewarn_core::{
    AvailabilityLimit, Event, EventKind, EvictionPolicy, LimitOwner, Machine, OperationId, Power, Region, RolloutStep,
    Status, StepState, Timestamp,
};
use forewarn_render::{find_owner, render_owner};
use forewarn_widgets::callout::Callout;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::group_dip::GroupDip;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::stage::Stage;
use forewarn_widgets::words;

use super::activity::{Activity, ActivityId, find_cause, find_title};
use super::fleet::{GroupKey, key_of};
use super::outage::SOON;

/// The assumed impact of an event that announces no duration.
const IMPACT_DEFAULT: Duration = Duration::from_secs(600);

/// A sentence that names the rollout that owns the host or group of a machine. HTML.
pub fn describe_owner(region: &Region, machine: &Machine) -> Option<String> {
    let owner = render_owner(region, machine)?;
    Some(format!(
        r#"{} belongs to the rollout <a href="/rollouts/{}">{}</a>, which {}."#,
        words::escape_html(owner.subject()),
        owner.rollout,
        words::escape_html(&owner.title),
        owner.progress()
    ))
}

/// The drain or rollout that sets a limit, as a link. HTML.
pub fn render_limit(region: &Region, limit: AvailabilityLimit) -> String {
    let owner = match limit.owner {
        LimitOwner::Drain(id) => find_cause(region, id),
        LimitOwner::Rollout(id) => ActivityId::Rollout(id),
    };
    let title = words::escape_html(find_title(region, owner));
    format!(r#"at most {} down, by <a href="{}">{title}</a>"#, limit.max, owner.href())
}

/// A warning that names other operations on the machines of a rollout. Empty if there are none.
pub fn warn_of_operations(region: &Region, operations: &[OperationId]) -> String {
    let causes: BTreeSet<ActivityId> = operations
        .iter()
        .filter(|id| region.operation(**id).is_some())
        .map(|operation| find_cause(region, *operation))
        .collect();
    if causes.is_empty() {
        return String::new();
    }
    Callout {
        class: "c-amber",
        title: format!("{} on machines of this rollout", count_of(causes.len(), "other operation")),
        text: format!(
            "{}. Steps wait while their groups have too many machines down. Open an operation to cancel it.",
            name_causes(region, &causes)
        ),
    }
    .render()
}

/// A warning about other causes that affect the machines of an operation, or their groups, at the same time. Empty if there are
/// none.
pub fn warn_about(region: &Region, own: ActivityId, events: &[&Arc<Event>], dips: &[GroupDip]) -> String {
    let below: Vec<&GroupDip> = dips.iter().filter(|dip| dip.is_below()).collect();
    let mut causes: BTreeSet<ActivityId> = below.iter().flat_map(|dip| dip.others.iter().copied()).collect();
    let live = events.iter().filter(|event| event.is_live());
    let machines: Vec<&Arc<Machine>> =
        live.flat_map(|event| &*event.resources).filter_map(|resource| region.machine(resource.machine)).collect();
    causes.extend(
        machines.iter().flat_map(|machine| region.events_of(machine.id)).flat_map(|event| {
            event.operations.iter().map(|operation| find_cause(region, *operation)).collect::<Vec<_>>()
        }),
    );
    causes.extend(machines.iter().filter_map(|machine| {
        let (rollout, step) = find_owner(region, machine)?;
        is_open(step).then_some(ActivityId::Rollout(rollout.id))
    }));
    causes.remove(&own);
    let names: Vec<String> = below.iter().map(|dip| dip.describe()).collect();
    let title = match (names.is_empty(), causes.is_empty()) {
        (true, true) => return String::new(),
        (false, _) => join_names(&names),
        (true, false) => "Other operations affect the same machines".into(),
    };
    let text = if causes.is_empty() {
        "Nothing else takes machines of the group down at that time.".into()
    } else {
        format!("At the same time or on the same machines: {}.", name_causes(region, &causes))
    };
    Callout { class: if names.is_empty() { "c-amber" } else { "c-red" }, title, text }.render()
}

fn is_open(step: &RolloutStep) -> bool {
    match step.state {
        StepState::Pending | StepState::InProgress => true,
        StepState::Succeeded | StepState::Failed | StepState::Skipped | StepState::Canceled => false,
    }
}

/// A panel with a warning, which is hidden while there is none.
pub fn render_panel(warning: &str) -> Panel {
    let html = format!(r#"<div id="conflict-content">{warning}</div>"#);
    let fragment = Fragment { id: "conflict-content".into(), sort: String::new(), html };
    Panel::new("conflict", "Conflicts", if warning.is_empty() { Vec::new() } else { vec![fragment] }).without_frame()
}

fn name_causes(region: &Region, causes: &BTreeSet<ActivityId>) -> String {
    let link =
        |id: &ActivityId| format!(r#"<a href="{}">{}</a>"#, id.href(), words::escape_html(find_title(region, *id)));
    join_names(causes.iter().map(link))
}

/// The groups of every activity that starts soon or is in progress.
pub fn find_all_dips(region: &Region, now: Timestamp, activities: &[Activity]) -> BTreeMap<ActivityId, Vec<GroupDip>> {
    let is_near = |activity: &&Activity| activity.is_due(now + SOON) || activity.stage() == Stage::InProgress;
    let dips = activities.iter().filter(is_near).map(|activity| {
        let live = activity.events.iter().filter(|event| event.stage() != Stage::Finished);
        let events: Vec<_> = live.filter_map(|event| region.event(event.id)).collect();
        (activity.id, find_dips(region, now, activity.id, &events))
    });
    dips.collect()
}

/// The groups of these events, which belong to one cause, while they have their impact.
pub fn find_dips(region: &Region, now: Timestamp, own: ActivityId, events: &[&Arc<Event>]) -> Vec<GroupDip> {
    let live: Vec<&Arc<Event>> = events.iter().copied().filter(|event| takes_down(event)).collect();
    let machines = live.iter().flat_map(|event| &*event.resources);
    let machines = machines.filter_map(|resource| region.machine(resource.machine));
    let keys: BTreeSet<GroupKey> = machines.map(|machine| key_of(machine)).collect();
    let spans: BTreeSet<(Timestamp, Timestamp)> = live.iter().map(|event| impact_of(event, now)).collect();
    let dips = keys.into_iter().filter_map(|key| dip_of(region, now, own, &spans, key));
    dips.collect()
}

fn dip_of(
    region: &Region,
    now: Timestamp,
    own: ActivityId,
    spans: &BTreeSet<(Timestamp, Timestamp)>,
    key: GroupKey,
) -> Option<GroupDip> {
    let GroupKey::Group(id) = key else { return None };
    let group = region.group(id)?;
    let mut dip = GroupDip {
        id,
        name: words::group_name(region, group),
        up: 0,
        then: 0,
        returning: 0,
        size: 0,
        all: 0,
        is_shrinking: false,
        floor: 0,
        others: BTreeSet::new(),
    };
    let mut domains = BTreeMap::<u32, usize>::new();
    for machine in region.group_members(group) {
        let events: Vec<&Arc<Event>> = region.events_of(machine.id).filter(|event| takes_down(event)).collect();
        let is_running = machine.power == Power::Running;
        let is_up = is_running && !events.iter().any(|event| matches!(event.status, Status::Started { .. }));
        let overlaps = |event: &Arc<Event>| {
            let (from, to) = impact_of(event, now);
            spans.iter().any(|(begin, end)| from < *end && (*begin < to || deletes(event, machine)))
        };
        let mut is_down_then = !is_running;
        let mut is_deleted_then = false;
        for event in events.into_iter().filter(|event| overlaps(event)) {
            is_down_then = true;
            let mut causes = event.operations.iter().map(|operation| find_cause(region, *operation));
            if deletes(event, machine) {
                is_deleted_then = true;
                dip.is_shrinking |= causes.any(|cause| cause == own);
            } else {
                dip.others.extend(causes.filter(|cause| *cause != own));
            }
        }
        dip.size += 1;
        *domains.entry(machine.update_domain).or_default() += usize::from(!is_deleted_then);
        dip.up += usize::from(is_up);
        dip.then += usize::from(!is_down_then);
        dip.returning += usize::from(!is_up && !is_down_then);
    }
    dip.all = domains.values().sum();
    let domain_max = domains.values().max().copied().unwrap_or(0);
    dip.floor = dip.all.saturating_sub(region.find_strictest_limit(id).map_or(domain_max, |limit| limit.max as usize));
    Some(dip)
}

/// A freeze lasts seconds and keeps everything, and a recommendation changes nothing.
fn takes_down(event: &Event) -> bool {
    match event.kind {
        EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => event.is_live(),
        EventKind::Freeze | EventKind::SpotRebalanceRecommendation => false,
    }
}

/// Whether the event removes the machine. The group is then smaller, and its floor lower.
fn deletes(event: &Event, machine: &Machine) -> bool {
    match event.kind {
        EventKind::Terminate => true,
        EventKind::Preempt => machine.eviction == EvictionPolicy::Delete,
        EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::SpotRebalanceRecommendation => false,
    }
}

/// When the impact of an event begins and ends. One that takes longer than announced does not end.
fn impact_of(event: &Event, now: Timestamp) -> (Timestamp, Timestamp) {
    let secs = u64::try_from(event.duration_secs).ok().filter(|secs| *secs > 0);
    let span = secs.map_or(IMPACT_DEFAULT, Duration::from_secs);
    match event.status {
        Status::Started { at } if at + span <= now => (at, Timestamp(i64::MAX)),
        Status::Started { at } => (at, at + span),
        Status::Scheduled | Status::Ended { .. } => (event.not_before, event.not_before + span),
    }
}
