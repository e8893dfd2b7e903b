//! The availability of a group while an operation takes machines down or deletes them, compared with its floor.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use forewarn_api_types::{count_of, join_names};
use forewarn_core::GroupId;

use super::cause::ActivityId;

/// The availability of a group while an operation has its impact.
pub struct GroupDip {
    pub id: GroupId,
    pub name: String,
    /// Machines that run without impact now.
    pub up: usize,
    /// Those that still do during the impact, if every other impact ends when it is expected to.
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
    /// else but one update domain.
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
    pub fn then_at_worst(&self) -> usize {
        self.then.saturating_sub(self.returning)
    }

    /// Whether the group falls below its floor if machines return late.
    pub fn could_be_below(&self) -> bool {
        self.then_at_worst() < self.floor && self.takes_machines()
    }

    /// `pay-db falls to 3 up, floor 4`.
    pub fn describe(&self) -> String {
        format!("{} falls to {} up, floor {}", self.name, self.then, self.floor)
    }

    /// The class and the end of a sentence about the group, such as `will then have 3 of 4 up, at its floor of 3`. A range ends
    /// with the number of machines if those that are down now return in time.
    pub fn outlook(&self) -> (&'static str, String) {
        let GroupDip { then, all, floor, .. } = self;
        let range = format!("{} to {then} of {all} up", self.then_at_worst());
        let (class, verdict) = match (self.is_below(), self.could_be_below()) {
            (true, _) => ("red", format!("will fall below its floor of {floor}: {range}")),
            (false, true) => ("amber", format!("may fall below its floor of {floor}: {range}")),
            (false, false) => ("", format!("will then have {range}, floor {floor}")),
        };
        match self.returning {
            0 => (class, format!("will then have {then} of {all} up, {}", compare_with_floor(*then, *floor))),
            _ => (class, verdict),
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
    fn a_forecast_has_a_verdict_and_a_range_if_machines_are_expected_back() {
        for (dip, class, text) in [
            (dip(4, 3, 0, (4, 4), 2), "", "will then have 3 of 4 up, 1 above its floor of 2"),
            (dip(4, 3, 0, (4, 4), 3), "", "will then have 3 of 4 up, at its floor of 3"),
            (dip(4, 2, 0, (4, 4), 3), "red", "will then have 2 of 4 up, below its floor of 3"),
            (dip(3, 2, 1, (4, 4), 3), "red", "will fall below its floor of 3: 1 to 2 of 4 up"),
            (dip(3, 3, 1, (4, 4), 3), "amber", "may fall below its floor of 3: 2 to 3 of 4 up"),
            (dip(3, 3, 1, (4, 4), 2), "", "will then have 2 to 3 of 4 up, floor 2"),
        ] {
            assert_eq!(dip.outlook(), (class, text.to_owned()));
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
