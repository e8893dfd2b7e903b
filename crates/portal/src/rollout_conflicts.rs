//! Conflicts of a planned rollout: steps during which a group is below its floor, and steps with machines that another operation
//! affects at the same time. The rules only keep the limits of rollouts and drains, so a plan with conflicts can be scheduled.

use std::collections::{BTreeMap, BTreeSet};

use forewarn_api_types::{GroupAvailability, join_names};
use forewarn_core::{Event, GroupKey, Machine, Region, Timestamp};
use forewarn_render::{find_cause, find_title, impact_of};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::words;

use super::fleet::FleetGroup;
use super::rollout_chart::{Chart, StepSpan, list_levels};
use forewarn_previews::rollout_fields::{HERE, names};

/// The field of the address with the name of the step that was moved.
pub const MOVED: &str = "moved";

/// One conflict of a plan.
pub struct PlanConflict {
    at: Timestamp,
    /// The conflict, and its reason. HTML.
    pub what: String,
    pub why: String,
    cause: ConflictCause,
    /// The machines of each step that take part.
    machines: BTreeMap<usize, BTreeSet<String>>,
}

enum ConflictCause {
    /// The group is below its floor.
    Floor { group: GroupKey, name: String },
    /// Another operation affects a machine until this time.
    Operation { ends: Timestamp },
}

impl PlanConflict {
    /// The group that is below its floor.
    pub fn group(&self) -> Option<&str> {
        match &self.cause {
            ConflictCause::Floor { name, .. } => Some(name),
            ConflictCause::Operation { .. } => None,
        }
    }
}

/// All conflicts of a plan: groups below their floors first, then by time.
pub fn find(chart: &Chart<'_>, region: &Region, now: Timestamp) -> Vec<PlanConflict> {
    let of_groups = chart.groups().filter_map(|(group, expected)| find_below_floor(chart, region, group, expected));
    let of_machines = chart.steps().iter().enumerate().flat_map(|(number, step)| {
        step.machines.iter().filter_map(move |machine| find_overlap(region, now, number, step, machine))
    });
    let mut conflicts: Vec<PlanConflict> = of_groups.chain(of_machines).collect();
    conflicts.sort_by_key(|conflict| (conflict.group().is_none(), conflict.at));
    conflicts
}

/// The groups that the plan takes below their floors.
pub fn groups_below(conflicts: &[PlanConflict]) -> BTreeSet<GroupKey> {
    let key = |conflict: &PlanConflict| match &conflict.cause {
        ConflictCause::Floor { group, .. } => Some(*group),
        ConflictCause::Operation { .. } => None,
    };
    conflicts.iter().filter_map(key).collect()
}

/// The machines in conflict of each step.
pub fn machines_by_step(conflicts: &[PlanConflict]) -> BTreeMap<usize, BTreeSet<&str>> {
    let mut steps: BTreeMap<usize, BTreeSet<&str>> = BTreeMap::new();
    for (step, names) in conflicts.iter().flat_map(|conflict| &conflict.machines) {
        steps.entry(*step).or_default().extend(names.iter().map(String::as_str));
    }
    steps
}

/// The first time that a group is below its floor during the impact of some of its machines.
fn find_below_floor(
    chart: &Chart<'_>,
    region: &Region,
    group: &FleetGroup,
    expected: &GroupAvailability,
) -> Option<PlanConflict> {
    let floor = chart.floor_of(group);
    let below = list_levels(&expected.available).filter(|(_, _, level)| (*level as usize) < floor);
    below.into_iter().find_map(|(from, to, level)| {
        let steps = chart.steps().iter().enumerate().filter(|(_, step)| step.impact < to && from < step.end);
        let machines: BTreeMap<usize, BTreeSet<String>> = steps
            .map(|(number, step)| (number, names_of_group(step, group.key)))
            .filter(|(_, names)| !names.is_empty())
            .collect();
        let first = machines.keys().map(|number| chart.steps()[*number].impact).min()?;
        let at = Timestamp(first.max(from));
        let name = words::escape_html(&group.name);
        let (time, of) = (words::time(at), group.machines);
        Some(PlanConflict {
            at,
            what: format!("{name} would have {level} of {of} up at {time}, floor {floor}."),
            why: describe_steps(chart, region, machines.keys().copied()),
            cause: ConflictCause::Floor { group: group.key, name: group.name.clone() },
            machines,
        })
    })
}

fn names_of_group(step: &StepSpan<'_>, group: GroupKey) -> BTreeSet<String> {
    let of_group = step.machines.iter().filter(|machine| GroupKey::of(machine) == group);
    of_group.map(|machine| machine.name.to_string()).collect()
}

/// `r06-n01 and r06-n03 are both in wave 3.`
fn describe_steps(chart: &Chart<'_>, region: &Region, numbers: impl Iterator<Item = usize>) -> String {
    let steps: Vec<&StepSpan<'_>> = numbers.map(|number| &chart.steps()[number]).collect();
    let waves: BTreeSet<usize> = steps.iter().map(|step| step.wave).collect();
    let names = join_names(steps.iter().map(|step| words::escape_html(step.name_and_address(region).0)));
    match (waves.first(), waves.len(), steps.len()) {
        (Some(wave), 1, 1) => format!("{names} is in wave {wave}; other machines of the group are down too."),
        (Some(wave), 1, 2) => format!("{names} are both in wave {wave}."),
        (Some(wave), 1, _) => format!("{names} are all in wave {wave}."),
        _ => format!("{names} are down at the same time."),
    }
}

/// An event of another operation that affects a machine between the notice and the end of its step.
fn find_overlap(
    region: &Region,
    now: Timestamp,
    number: usize,
    step: &StepSpan<'_>,
    machine: &Machine,
) -> Option<PlanConflict> {
    let overlaps = |event: &&std::sync::Arc<Event>| {
        let (from, to) = impact_of(event, now);
        event.is_live() && event.kind.has_impact() && from.0 < step.end && step.notice < to.0
    };
    let event = region.events_of(machine.id).filter(overlaps).min_by_key(|event| impact_of(event, now).0)?;
    let (at, ends) = impact_of(event, now);
    let name = words::escape_html(&machine.name);
    let cause = event.operations.first().map(|operation| find_cause(region, *operation));
    let cause = cause.map(|id| (id.href(), words::escape_html(find_title(region, id))));
    Some(PlanConflict {
        at,
        what: format!("{name} also has a {} at {}.", event.kind.as_str(), words::time(at)),
        why: cause.map_or_else(String::new, |(href, title)| format!(r#"It belongs to <a href="{href}">{title}</a>."#)),
        cause: ConflictCause::Operation { ends },
        machines: BTreeMap::from([(number, BTreeSet::from([machine.name.to_string()]))]),
    })
}

/// The label and the address of a plan in which the last step of the conflict is in the next wave. `None` if there is no later wave,
/// if the conflict would go on there, or if the steps are not hosts or machines in the order of a field.
pub fn find_fix(
    chart: &Chart<'_>,
    region: &Region,
    query: &PageQuery,
    conflict: &PlanConflict,
) -> Option<(String, String)> {
    let (&moved, names_moved) = conflict.machines.last_key_value()?;
    let moved = &chart.steps()[moved];
    let next = chart.steps().iter().find(|step| step.wave > moved.wave)?;
    let is_solved = match &conflict.cause {
        ConflictCause::Operation { ends } => ends.0 <= next.notice,
        ConflictCause::Floor { group, .. } => {
            let until = next.impact + moved.end - moved.impact;
            has_room(chart, *group, (next.impact, until), names_moved.len())
        }
    };
    if !is_solved {
        return None;
    }
    let field = ["hosts", "machines"].into_iter().find(|field| !query.text(field).is_empty())?;
    let mut order = names(query.text(field));
    let place = |step: &StepSpan<'_>| {
        let name = step.name_and_address(region).0;
        order.iter().position(|found| found.eq_ignore_ascii_case(&name))
    };
    let (from, to) = (place(moved)?, place(next)?);
    if to <= from {
        return None;
    }
    let name = order.remove(from);
    let label = format!("Move {name} to wave {}", next.wave);
    order.insert(to, name.clone());
    Some((label, query.with(field, &order.join(",")).with(MOVED, &name).address(HERE)))
}

/// The new time of a step that was moved to another wave. HTML, or empty if there is no such step.
pub fn describe_move(chart: &Chart<'_>, region: &Region, name: &str) -> String {
    let step = chart.steps().iter().find(|step| step.name_and_address(region).0.eq_ignore_ascii_case(name));
    step.map_or_else(String::new, |step| {
        let (from, to) = (words::time(Timestamp(step.impact)), words::about(Timestamp(step.end)));
        format!("{} is now in wave {}: down from {from} to {to}.", words::escape_html(name), step.wave)
    })
}

/// Whether this number of further machines of a group can be down at a time without going below its floor.
fn has_room(chart: &Chart<'_>, group: GroupKey, (begin, end): (i64, i64), machines: usize) -> bool {
    chart.groups().filter(|(found, _)| found.key == group).all(|(found, expected)| {
        let mut levels = list_levels(&expected.available).filter(|(from, to, _)| *from < end && begin < *to);
        levels.all(|(_, _, level)| level as usize >= chart.floor_of(found) + machines)
    })
}
