//! Record bodies of groups and scopes.

use forewarn_core::*;
use serde::{Deserialize, Serialize};

use super::intern::Interner;
use super::machine::{DetailsBody, PolicyBody, TerminateBody, home};
use super::tag::{Tag, Text};

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GroupBody<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow)]
    subscription: Text<'a>,
    #[serde(borrow)]
    resource_group: Text<'a>,
    #[serde(borrow)]
    kind: GroupKindBody<'a>,
    policy: PolicyBody,
    scopes: Vec<u64>,
    update_domains: u32,
    fault_domains: u32,
    seats_given: u32,
    leaving: bool,
}

impl<'a> From<&'a Group> for GroupBody<'a> {
    fn from(group: &'a Group) -> Self {
        GroupBody {
            name: (&group.name).into(),
            subscription: (&group.home.subscription).into(),
            resource_group: (&group.home.resource_group).into(),
            kind: (&group.kind).into(),
            policy: (&group.policy).into(),
            scopes: group.scopes.iter().map(|scope| scope.0).collect(),
            update_domains: group.update_domains,
            fault_domains: group.fault_domains,
            seats_given: group.seats_given,
            leaving: group.leaving,
        }
    }
}

impl GroupBody<'_> {
    pub fn into_group(self, id: GroupId, interner: &mut Interner) -> Group {
        Group {
            id,
            name: Name::from(&*self.name.0),
            home: home(self.subscription, self.resource_group, interner),
            kind: self.kind.into_kind(interner),
            policy: self.policy.into(),
            scopes: self.scopes.into_iter().map(ScopeId).collect(),
            update_domains: self.update_domains,
            fault_domains: self.fault_domains,
            seats_given: self.seats_given,
            leaving: self.leaving,
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum GroupKindBody<'a> {
    #[serde(rename = "availability-set")]
    AvailabilitySet,
    #[serde(rename = "cloud-service")]
    CloudService,
    #[serde(rename = "scale-set", borrow)]
    ScaleSet(Box<ScaleSetBody<'a>>),
}

impl<'a> From<&'a GroupKind> for GroupKindBody<'a> {
    fn from(kind: &'a GroupKind) -> Self {
        match kind {
            GroupKind::AvailabilitySet => GroupKindBody::AvailabilitySet,
            GroupKind::CloudService => GroupKindBody::CloudService,
            GroupKind::ScaleSet(set) => GroupKindBody::ScaleSet(Box::new((&**set).into())),
        }
    }
}

impl GroupKindBody<'_> {
    fn into_kind(self, interner: &mut Interner) -> GroupKind {
        match self {
            GroupKindBody::AvailabilitySet => GroupKind::AvailabilitySet,
            GroupKindBody::CloudService => GroupKind::CloudService,
            GroupKindBody::ScaleSet(set) => GroupKind::ScaleSet(Box::new(set.into_set(interner))),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleSetBody<'a> {
    orchestration: Tag<Orchestration>,
    upgrade_mode: Tag<UpgradeMode>,
    capacity: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    placement_group_max: Option<u32>,
    #[serde(borrow)]
    zones: Vec<Text<'a>>,
    priority: Tag<Priority>,
    eviction: Tag<EvictionPolicy>,
    #[serde(borrow, skip_serializing_if = "Option::is_none")]
    terminate: Option<TerminateBody<'a>>,
    #[serde(borrow)]
    details: DetailsBody<'a>,
    model_version: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    next_batch: Option<i64>,
}

impl<'a> From<&'a ScaleSet> for ScaleSetBody<'a> {
    fn from(set: &'a ScaleSet) -> Self {
        ScaleSetBody {
            orchestration: Tag(set.orchestration),
            upgrade_mode: Tag(set.upgrade_mode),
            capacity: set.capacity,
            placement_group_max: set.placement_group_max,
            zones: set.zones.iter().map(Text::from).collect(),
            priority: Tag(set.model.priority),
            eviction: Tag(set.model.eviction),
            terminate: set.model.terminate.as_deref().map(TerminateBody::from),
            details: (&*set.model.details).into(),
            model_version: set.model_version,
            next_batch: set.next_batch.map(|at| at.0),
        }
    }
}

impl ScaleSetBody<'_> {
    fn into_set(self, interner: &mut Interner) -> ScaleSet {
        ScaleSet {
            orchestration: self.orchestration.0,
            upgrade_mode: self.upgrade_mode.0,
            capacity: self.capacity,
            placement_group_max: self.placement_group_max,
            zones: self.zones.into_iter().map(|zone| interner.shared_name(zone)).collect(),
            model: SetModel {
                priority: self.priority.0,
                eviction: self.eviction.0,
                terminate: self.terminate.map(|terminate| terminate.into_profile(interner)),
                details: self.details.into_details(None, interner),
            },
            model_version: self.model_version,
            next_batch: self.next_batch.map(Timestamp),
        }
    }
}

/// Does not contain the live events, which follow from the scope's events.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScopeBody {
    owner: OwnerBody,
    switch: SwitchBody,
    incarnation: u64,
}

impl From<&Scope> for ScopeBody {
    fn from(scope: &Scope) -> Self {
        let owner = match scope.owner {
            ScopeOwner::Machine(machine) => OwnerBody::Machine(machine.0),
            ScopeOwner::Group { group, part } => OwnerBody::Group { group: group.0, part },
        };
        let switch = match scope.switch {
            EventsState::Off => SwitchBody::Off,
            EventsState::On { seen } => SwitchBody::On { seen: seen.0 },
        };
        ScopeBody { owner, switch, incarnation: scope.incarnation }
    }
}

impl ScopeBody {
    pub fn into_scope(self, id: ScopeId) -> Scope {
        let owner = match self.owner {
            OwnerBody::Machine(machine) => ScopeOwner::Machine(MachineId(machine)),
            OwnerBody::Group { group, part } => ScopeOwner::Group { group: GroupId(group), part },
        };
        let switch = match self.switch {
            SwitchBody::Off => EventsState::Off,
            SwitchBody::On { seen } => EventsState::On { seen: Timestamp(seen) },
        };
        Scope { id, owner, switch, incarnation: self.incarnation, live: Vec::new() }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum OwnerBody {
    #[serde(rename = "machine")]
    Machine(u64),
    #[serde(rename = "group")]
    Group { group: u64, part: u32 },
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) enum SwitchBody {
    #[serde(rename = "off")]
    Off,
    #[serde(rename = "on")]
    On { seen: i64 },
}
