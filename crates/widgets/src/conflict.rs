//! Conflicts between causes: a rollout that owns the host or group of a machine, other operations on the same machines, and
//! groups that fall below their floor because several causes take machines down at the same time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::callout::Callout;
use crate::fragment::Fragment;
use crate::panel::Panel;
use crate::stage::Stage;
use crate::words;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{AvailabilityLimit, Event, GroupId, LimitOwner, Machine, OperationId, Region, Timestamp};
use forewarn_render::{GroupDip, find_conflicts, find_dips, render_owner};

use crate::activity::{Activity, ActivityId, find_cause, find_title};
use crate::outage::SOON;

/// Buttons in a warning.
const LINKS_MAX: usize = 2;

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
        actions: link_causes(region, &causes),
    }
    .render()
}

/// A warning about other causes that affect the machines of an operation, or their groups, at the same time. Empty if there are
/// none.
pub fn warn_about(region: &Region, own: ActivityId, events: &[&Arc<Event>], dips: &[GroupDip]) -> String {
    let causes = find_conflicts(region, own, events, dips);
    let names: Vec<String> = dips.iter().filter(|dip| dip.is_below()).map(GroupDip::describe).collect();
    let title = match (names.is_empty(), causes.is_empty()) {
        (true, true) => return String::new(),
        (false, _) => join_names(&names),
        (true, false) => "Other operations affect the same machines".into(),
    };
    let text = match (causes.is_empty(), names.is_empty()) {
        (true, _) => "Nothing else takes machines of the group down at that time. Cancel this operation, or plan fewer machines at a time.".into(),
        (false, true) => format!("On the same machines: {}.", name_causes(region, &causes)),
        (false, false) => {
            format!("At the same time or on the same machines: {}. Cancel one of them.", name_causes(region, &causes))
        }
    };
    let class = if names.is_empty() { "c-amber" } else { "c-red" };
    Callout { class, title, text, actions: link_causes(region, &causes) }.render()
}

/// A warning that activities take a group below its floor, or may do so. Empty if none does.
pub fn warn_of_group(region: &Region, id: GroupId, dips: &BTreeMap<ActivityId, Vec<GroupDip>>) -> String {
    let is_at_risk = |dip: &&GroupDip| dip.id == id && dip.could_be_below() && !dip.is_shrinking;
    let worst = dips.values().flatten().filter(is_at_risk).min_by_key(|dip| (dip.reserve(), dip.min_up_then()));
    let of_causes = dips.iter().filter(|(_, dips)| dips.iter().any(|dip| is_at_risk(&dip)));
    let causes: BTreeSet<ActivityId> = of_causes.map(|(id, _)| *id).collect();
    worst.map_or_else(String::new, |worst| {
        let (class, title) = match worst.is_below() {
            true => ("c-red", worst.describe()),
            false => ("c-amber", worst.describe_risk()),
        };
        let text = format!("Because of {}. Open the operation to cancel it.", name_causes(region, &causes));
        Callout { class, title, text, actions: link_causes(region, &causes) }.render()
    })
}

/// Links to the pages of the first causes, where they can be canceled.
fn link_causes(region: &Region, causes: &BTreeSet<ActivityId>) -> Vec<(String, String)> {
    let link = |id: &ActivityId| (id.href(), format!("Open {}", find_title(region, *id)));
    causes.iter().take(LINKS_MAX).map(link).collect()
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
