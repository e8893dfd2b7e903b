//! The availability of a group while an operation takes machines down or deletes them, compared with its floor.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::{OperationCapacity, count_of, join_names};
use forewarn_core::{Event, EventKind, GroupId, GroupKey, MachineId, Power, Region, Status, Timestamp};

use super::cause::{ActivityId, find_cause};

/// The assumed impact of an event that announces no duration.
const IMPACT_DEFAULT: Duration = Duration::from_secs(600);

/// The availability of a group while an operation has its impact.
pub struct GroupDip {
    pub id: GroupId,
    pub name: String,
    /// Machines that run without impact now.
    pub up: usize,
    /// Machines that still run during the impact, if every other impact ends as expected.
    pub then: usize,
    /// Machines that are down now and are expected to be up then.
    pub returning: usize,
    /// All machines of the group now, including those that are being deleted.
    pub size: usize,
    /// Those that are not deleted by then.
    pub all: usize,
    /// Whether the operation deletes some of them.
    pub is_shrinking: bool,
    /// The number of machines that must stay up: all but those that the strictest drain or rollout in progress may take down, or
    /// else all but one update domain.
    pub floor: usize,
    /// Other causes that take machines of the group down at the same time.
    pub others: BTreeSet<ActivityId>,
}

impl GroupDip {
    pub fn is_below(&self) -> bool {
        self.reserve() < 0 && self.takes_machines()
    }

    /// Whether machines that would be up are down during the impact.
    pub fn takes_machines(&self) -> bool {
        self.then < self.up + self.returning
    }

    /// The machines above the floor; negative below it.
    pub fn reserve(&self) -> i64 {
        self.then as i64 - self.floor as i64
    }

    /// Machines that are up during the impact if none of those that are down now has returned.
    pub fn min_up_then(&self) -> usize {
        self.then.saturating_sub(self.returning)
    }

    /// Whether the group falls below its floor if machines return late.
    pub fn could_be_below(&self) -> bool {
        self.min_up_then() < self.floor && self.takes_machines()
    }

    /// `pay-db falls to 3 up, floor 4`.
    pub fn describe(&self) -> String {
        format!("{} falls to {} up, floor {}", self.name, self.then, self.floor)
    }

    /// `pay-db may fall to 13 up, floor 14`.
    pub fn describe_risk(&self) -> String {
        format!("{} may fall to {} up, floor {}", self.name, self.min_up_then(), self.floor)
    }

    /// `13 to 15 of 20 up`: fewer if those that are down now have not returned.
    pub fn range(&self) -> String {
        format!("{} of {} up", self.span(), self.all)
    }

    /// `13 to 15 up`.
    pub fn range_up(&self) -> String {
        format!("{} up", self.span())
    }

    fn span(&self) -> String {
        match self.min_up_then() {
            least if least == self.then => least.to_string(),
            least => format!("{least} to {}", self.then),
        }
    }

    /// `web shrinks from 20 to 18 machines`.
    fn describe_loss(&self) -> String {
        let GroupDip { name, size, all, then, floor, .. } = self;
        let verdict = if self.is_below() { format!(" ({then} up, floor {floor})") } else { String::new() };
        match all {
            0 => format!("{name} loses all its machines"),
            all => format!("{name} shrinks from {size} to {}{verdict}", count_of(*all, "machine")),
        }
    }
}

/// The groups that shrink. `None` if no group does.
pub fn describe_losses<'d>(dips: impl IntoIterator<Item = &'d GroupDip>) -> Option<String> {
    let losses: Vec<String> = dips.into_iter().filter(|dip| dip.is_shrinking).map(GroupDip::describe_loss).collect();
    (!losses.is_empty()).then(|| join_names(&losses))
}

pub fn compare_with_floor(up: usize, floor: usize) -> String {
    match up.cmp(&floor) {
        Ordering::Less => format!("below its floor of {floor}"),
        Ordering::Equal => format!("at its floor of {floor}"),
        Ordering::Greater => format!("{} above its floor of {floor}", up - floor),
    }
}

/// The groups of these events, which belong to one cause, while they have their impact.
pub fn find_dips(region: &Region, now: Timestamp, own: ActivityId, events: &[&Arc<Event>]) -> Vec<GroupDip> {
    let live: Vec<&Arc<Event>> = events.iter().copied().filter(|event| takes_down(event)).collect();
    let machines = live.iter().flat_map(|event| &*event.resources);
    let machines = machines.filter_map(|resource| region.machine(resource.machine));
    let groups: BTreeSet<GroupId> = machines.filter_map(|machine| machine.membership.group()).collect();
    let spans: BTreeSet<(Timestamp, Timestamp)> = live.iter().map(|event| impact_of(event, now)).collect();
    groups.into_iter().filter_map(|id| dip_of(region, now, own, &spans, id)).collect()
}

fn dip_of(
    region: &Region,
    now: Timestamp,
    own: ActivityId,
    spans: &BTreeSet<(Timestamp, Timestamp)>,
    id: GroupId,
) -> Option<GroupDip> {
    let group = region.group(id)?;
    let mut dip = GroupDip {
        id,
        name: region.group_label(group),
        up: 0,
        then: 0,
        returning: 0,
        size: 0,
        all: 0,
        is_shrinking: false,
        floor: 0,
        others: BTreeSet::new(),
    };
    // The floor is lower once they are gone.
    let mut deleted: BTreeSet<MachineId> = BTreeSet::new();
    for machine in region.group_members(group) {
        let events: Vec<&Arc<Event>> = region.events_of(machine.id).filter(|event| takes_down(event)).collect();
        let is_up = region.is_available(machine);
        let overlaps = |event: &Arc<Event>| {
            let (from, to) = impact_of(event, now);
            spans.iter().any(|(begin, end)| from < *end && (*begin < to || event.kind.deletes(machine)))
        };
        let mut is_down_then = machine.power != Power::Running;
        for event in events.into_iter().filter(|event| overlaps(event)) {
            is_down_then = true;
            let mut causes = event.operations.iter().map(|operation| find_cause(region, *operation));
            if event.kind.deletes(machine) {
                deleted.insert(machine.id);
                dip.is_shrinking |= causes.any(|cause| cause == own);
            } else {
                dip.others.extend(causes.filter(|cause| *cause != own));
            }
        }
        dip.size += 1;
        dip.up += usize::from(is_up);
        dip.then += usize::from(!is_down_then);
        dip.returning += usize::from(!is_up && !is_down_then);
    }
    dip.all = dip.size - deleted.len();
    dip.floor = region.find_floor(GroupKey::Group(id), |machine| !deleted.contains(&machine.id)) as usize;
    Some(dip)
}

/// A freeze lasts seconds and keeps everything, and a recommendation changes nothing.
fn takes_down(event: &Event) -> bool {
    match event.kind {
        EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => event.is_live(),
        EventKind::Freeze | EventKind::SpotRebalanceRecommendation => false,
    }
}

/// When the impact of an event begins and ends. An impact that takes longer than announced has no known end.
pub fn impact_of(event: &Event, now: Timestamp) -> (Timestamp, Timestamp) {
    let secs = u64::try_from(event.duration_secs).ok().filter(|secs| *secs > 0);
    let span = secs.map_or(IMPACT_DEFAULT, Duration::from_secs);
    match event.status {
        Status::Started { at } if at + span <= now => (at, Timestamp(i64::MAX)),
        Status::Started { at } => (at, at + span),
        Status::Scheduled | Status::Ended { .. } => (event.not_before, event.not_before + span),
    }
}

/// The groups of an operation as the API shows them.
pub fn render_capacity(region: &Region, dips: &[GroupDip]) -> Vec<OperationCapacity> {
    let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
    let render = |dip: &GroupDip| {
        let group = region.group(dip.id)?;
        Some(OperationCapacity {
            group: group.name.to_string(),
            resource_group: group.home.resource_group.to_string(),
            up: number(dip.up),
            up_then: number(dip.then),
            returning: number(dip.returning),
            machines: number(dip.size),
            machines_then: number(dip.all),
            floor: number(dip.floor),
        })
    };
    dips.iter().filter_map(render).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dip(up: usize, then: usize, returning: usize, (size, all): (usize, usize), floor: usize) -> GroupDip {
        GroupDip {
            id: GroupId(1),
            name: "web".into(),
            up,
            then,
            returning,
            size,
            all,
            is_shrinking: all < size,
            floor,
            others: BTreeSet::new(),
        }
    }

    #[test]
    fn a_forecast_is_a_range_if_machines_are_expected_back() {
        for (dip, range, is_below, could_be_below) in [
            (dip(4, 3, 0, (4, 4), 3), "3 of 4 up", false, false),
            (dip(4, 2, 0, (4, 4), 3), "2 of 4 up", true, true),
            (dip(3, 2, 1, (4, 4), 3), "1 to 2 of 4 up", true, true),
            (dip(3, 3, 1, (4, 4), 3), "2 to 3 of 4 up", false, true),
            (dip(3, 3, 1, (4, 4), 2), "2 to 3 of 4 up", false, false),
        ] {
            assert_eq!((dip.range().as_str(), dip.is_below(), dip.could_be_below()), (range, is_below, could_be_below));
        }
    }

    #[test]
    fn a_deletion_says_how_far_the_group_shrinks() {
        let kept = dip(4, 3, 0, (4, 4), 3);
        assert_eq!(describe_losses([&kept]), None);
        let some = dip(20, 18, 0, (20, 18), 14);
        assert_eq!(describe_losses([&kept, &some]).as_deref(), Some("web shrinks from 20 to 18 machines"));
        let one = dip(1, 0, 0, (2, 1), 1);
        assert_eq!(describe_losses([&one]).as_deref(), Some("web shrinks from 2 to 1 machine (0 up, floor 1)"));
        let none = dip(2, 0, 0, (2, 0), 0);
        assert_eq!(
            describe_losses([&none, &some]).unwrap(),
            "web loses all its machines and web shrinks from 20 to 18 machines"
        );
    }
}
