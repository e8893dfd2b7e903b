//! Handlers of machines: register, list, get and change. Actions on them are in `machine_actions`.

use std::sync::Arc;

use axum::response::Response;
use forewarn_core as core;
use forewarn_core::{AddressWish, Command, Found, MachineId, Name, NewMachine as NewCoreMachine, Place, Region, Seat};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, GroupQuery, NoQuery, Page, Params, Segment};
use super::machine_parts::{Address, Details, home_or_default, into_addresses, into_tags, into_terminate_profile};
use super::names::{self, GroupType};
use super::object;
use super::text::{Ip, Number, ResourceName, Tags};
use super::values::*;
use super::{Api, AuditNote};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Machine {
    /// Number in order of registration.
    pub id: u64,
    pub vm_id: Id,
    pub name: String,
    pub subscription: String,
    pub resource_group: String,
    /// ID of the event group: the machines that share one document.
    pub scope: u64,
    /// Whether a machine of the event group requests the document.
    pub listening: bool,
    pub incarnation: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub availability_set: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cloud_service: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_set: Option<String>,
    /// Instance ID in a Uniform scale set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<u32>,
    /// Whether an instance of a scale set has the latest model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_model_applied: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    pub update_domain: u32,
    pub fault_domain: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    pub priority: MachinePriority,
    pub eviction_policy: MachineEvictionPolicy,
    pub power: PowerState,
    pub addresses: Vec<Address>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminate_notification: Option<TerminateNotification>,
    /// Whether it is protected from scale-in.
    pub protected: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<Policy>,
    pub details: Details,
    pub tags: Tags,
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewMachine {
    pub name: ResourceName,
    pub vm_id: Option<Id>,
    pub subscription: Option<ResourceName>,
    pub resource_group: Option<ResourceName>,
    /// Availability set to add it to.
    pub availability_set: Option<String>,
    /// Flexible scale set to add it to.
    pub scale_set: Option<String>,
    /// Cloud service to add it to, as a role instance.
    pub cloud_service: Option<String>,
    /// Role in the cloud service. Default: the part of the name before `_IN_`, as in `FrontEnd_IN_0`.
    pub role: Option<ResourceName>,
    pub host: Option<ResourceName>,
    #[schema(maximum = 99)]
    pub update_domain: Option<u32>,
    #[schema(maximum = 99)]
    pub fault_domain: Option<u32>,
    pub zone: Option<ResourceName>,
    pub priority: Option<MachinePriority>,
    pub eviction_policy: Option<MachineEvictionPolicy>,
    /// Addresses; an empty list for none. Default: one from the pool.
    #[serde(default, deserialize_with = "object::optional_list")]
    #[schema(max_items = 64)]
    pub addresses: Option<Vec<Address>>,
    #[serde(default, deserialize_with = "object::optional")]
    pub terminate_notification: Option<TerminateNotification>,
    #[serde(default, deserialize_with = "object::optional")]
    pub policy: Option<Policy>,
    #[serde(default, deserialize_with = "object::required")]
    pub details: Details,
    #[serde(default)]
    pub tags: Tags,
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MachineChange {
    /// Use `null` to remove the host.
    #[serde(default)]
    #[schema(value_type = Option<ResourceName>)]
    pub host: Nullable<ResourceName>,
    #[schema(maximum = 99)]
    pub update_domain: Option<u32>,
    #[schema(maximum = 99)]
    pub fault_domain: Option<u32>,
    #[serde(default)]
    #[schema(value_type = Option<ResourceName>)]
    pub zone: Nullable<ResourceName>,
    #[serde(default, deserialize_with = "object::optional_list")]
    #[schema(max_items = 64)]
    pub addresses: Option<Vec<Address>>,
    pub protected: Option<bool>,
    #[serde(default, deserialize_with = "nullable_object")]
    #[schema(value_type = Option<TerminateNotification>)]
    pub terminate_notification: Nullable<TerminateNotification>,
    #[serde(default, deserialize_with = "nullable_object")]
    #[schema(value_type = Option<Policy>)]
    pub policy: Nullable<Policy>,
    /// Merged with the existing details.
    #[serde(default, deserialize_with = "object::optional")]
    pub details: Option<Details>,
    /// Replaces all tags.
    pub tags: Option<Tags>,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    /// Only machines with this name.
    pub name: Option<String>,
    /// Only machines in this resource group or cloud service; used with `name`.
    pub group: Option<String>,
    #[param(inline)]
    pub scope: Option<Number>,
    pub host: Option<String>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let after = extract::numeric_cursor(query.after.as_deref())?.map(MachineId);
    let snapshot = api.engine().snapshot();
    let region = &snapshot.region;
    let wanted = |machine: &&Arc<core::Machine>| {
        after.is_none_or(|after| machine.id > after)
            && query.name.as_ref().is_none_or(|name| name.eq_ignore_ascii_case(&machine.name))
            && query.group.as_ref().is_none_or(|group| is_within(region, machine, group))
            && query.scope.is_none_or(|scope| machine.scope.0 == scope.0)
            && query.host.as_ref().is_none_or(|host| machine.host.as_deref() == Some(host))
    };
    let host = query.host.as_deref().map(Name::from);
    let named = query.name.as_deref().and_then(|name| indexed_by_name(region, name, query.group.as_deref()));
    let found: Box<dyn Iterator<Item = &Arc<core::Machine>>> = match (query.scope, &host) {
        _ if named.is_some() => Box::new(named.into_iter().flatten().filter_map(|id| region.machine(id))),
        (Some(scope), _) => Box::new(region.members(core::ScopeId(scope.0))),
        (None, Some(host)) => Box::new(region.machines_on(host)),
        (None, None) => Box::new(region.machines_after(after)),
    };
    let cursor = |machine: &&Arc<core::Machine>| machine.id.0.to_string();
    let page = Page::cut(found.filter(wanted), limit, cursor, |machine| Machine::of(region, machine));
    Ok(extract::ok(page))
}

pub async fn get(api: Api, Segment(name): Segment, Params(within): Params<GroupQuery>) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    Ok(extract::ok(Machine::of(&snapshot.region, &machine)))
}

pub async fn register(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewMachine>,
) -> Result<Response, ApiError> {
    let region = &api.engine().snapshot().region;
    let name = body.name.0.clone();
    let new = body.into_core(region)?;
    let note = AuditNote::new("machine.register", name).with(serde_json::json!({ "vmId": Id(new.vm_id) }));
    let vm_id = new.vm_id;
    let done = api.submit(Command::RegisterMachine(Box::new(new)), note).await?;
    let region = &done.snapshot.region;
    let machine = names::find_machine(region, &vm_id.to_string(), None)?;
    Ok(extract::created(Machine::of(region, &machine)))
}

pub async fn change(
    api: Api,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
    Body(body): Body<MachineChange>,
) -> Result<Response, ApiError> {
    let snapshot = api.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    let change = Box::new(body.into_core(&machine)?);
    let note = AuditNote::new("machine.change", machine.name.as_ref());
    let done = api.submit(Command::ChangeMachine { machine: machine.id, change }, note).await?;
    respond_changed(&done.snapshot.region, &machine)
}

/// Responds with a changed machine, or with its previous state if it has been deleted since.
pub fn respond_changed(region: &Region, before: &Arc<core::Machine>) -> Result<Response, ApiError> {
    Ok(extract::ok(Machine::of(region, region.machine(before.id).unwrap_or(before))))
}

/// Machines with this name in order of registration, from the index. None if there are too many for the index.
fn indexed_by_name(region: &Region, name: &str, within: Option<&str>) -> Option<Vec<MachineId>> {
    match region.machine_by_name(name, within) {
        Found::Nothing => Some(Vec::new()),
        Found::One(id) => Some(vec![id]),
        Found::Many(ids) if ids.len() == Region::CANDIDATES_MAX => None,
        Found::Many(mut ids) => {
            ids.sort_unstable();
            Some(ids)
        }
    }
}

fn is_within(region: &Region, machine: &core::Machine, group: &str) -> bool {
    let service = match &machine.seat {
        Seat::RoleInstance { service, .. } => region.group(*service),
        Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => None,
    };
    let within = service.map_or(&machine.home.resource_group, |service| &service.name);
    within.eq_ignore_ascii_case(group)
}

impl Machine {
    pub fn of(region: &Region, machine: &core::Machine) -> Machine {
        let scope = region.scope(machine.scope);
        let seat = |wanted: fn(&Seat) -> bool| {
            let group = machine.seat.group().filter(|_| wanted(&machine.seat))?;
            region.group(group).map(|group| group.name.to_string())
        };
        Machine {
            id: machine.id.0,
            vm_id: Id(machine.vm_id),
            name: machine.name.to_string(),
            subscription: machine.home.subscription.to_string(),
            resource_group: machine.home.resource_group.to_string(),
            scope: machine.scope.0,
            listening: region.is_on(machine.scope),
            incarnation: scope.map_or(0, |scope| scope.incarnation),
            availability_set: seat(|seat| matches!(seat, Seat::AvailabilitySet(_))),
            cloud_service: seat(|seat| matches!(seat, Seat::RoleInstance { .. })),
            role: match &machine.seat {
                Seat::RoleInstance { role, .. } => Some(role.to_string()),
                Seat::Standalone | Seat::AvailabilitySet(_) | Seat::Instance { .. } => None,
            },
            scale_set: seat(|seat| matches!(seat, Seat::Instance { .. })),
            instance_id: match machine.seat {
                Seat::Instance { number, .. } => number,
                Seat::Standalone | Seat::AvailabilitySet(_) | Seat::RoleInstance { .. } => None,
            },
            latest_model_applied: latest_model_applied(region, machine),
            host: machine.host.as_deref().map(str::to_owned),
            update_domain: machine.update_domain,
            fault_domain: machine.fault_domain,
            zone: machine.zone.as_deref().map(str::to_owned),
            priority: machine.priority.into(),
            eviction_policy: machine.eviction.into(),
            power: machine.power.into(),
            addresses: machine
                .addresses
                .iter()
                .map(|address| Address { network: ResourceName(address.network.to_string()), ip: Ip(address.ip) })
                .collect(),
            terminate_notification: machine.terminate.as_ref().map(TerminateNotification::of),
            protected: machine.protected,
            policy: machine.policy.as_ref().map(Policy::from),
            details: Details::of(&machine.details),
            tags: Tags(machine.details.tags.iter().cloned().collect()),
        }
    }
}

fn latest_model_applied(region: &Region, machine: &core::Machine) -> Option<bool> {
    let Seat::Instance { set, .. } = machine.seat else { return None };
    match &region.group(set)?.kind {
        core::GroupKind::ScaleSet(set) => Some(machine.model == set.model_version),
        core::GroupKind::AvailabilitySet | core::GroupKind::CloudService => None,
    }
}

impl NewMachine {
    fn into_core(self, region: &Region) -> Result<NewCoreMachine, ApiError> {
        let place = self.place(region)?;
        let home = home_or_default(self.subscription, self.resource_group);
        let mut details = core::Details::default();
        self.details.merge_into(&mut details);
        details.tags = into_tags(self.tags);
        Ok(NewCoreMachine {
            vm_id: self.vm_id.map_or_else(forewarn_access::random_guid, |id| id.0),
            name: self.name.into(),
            home,
            place,
            host: self.host.map(Name::from),
            update_domain: self.update_domain,
            fault_domain: self.fault_domain,
            zone: self.zone.map(Name::from),
            priority: self.priority.unwrap_or(MachinePriority::Regular).into(),
            eviction: self.eviction_policy.unwrap_or(MachineEvictionPolicy::Deallocate).into(),
            addresses: match self.addresses {
                None => AddressWish::FromPool,
                Some(given) if given.is_empty() => AddressWish::None,
                Some(given) => AddressWish::Given(into_addresses(given)?),
            },
            terminate: self.terminate_notification.map(into_terminate_profile).transpose()?,
            policy: self.policy.map(Into::into),
            details: Arc::new(details),
        })
    }

    fn place(&self, region: &Region) -> Result<Place, ApiError> {
        let conflict = |field: &str, message: &str| {
            Err(ApiError::new(ErrorCode::ConflictingPlace, format!("The field '{field}' {message}."))
                .with_target(field))
        };
        let found = |name: &str, kind: GroupType| Ok::<_, ApiError>(names::find_group(region, name, None, kind)?.id);
        match (&self.availability_set, &self.scale_set, &self.cloud_service) {
            (_, _, None) if self.role.is_some() => {
                conflict("role", "is only valid for instances of a cloud service. Omit it, or set 'cloudService'")
            }
            (None, None, None) => Ok(Place::Standalone),
            (Some(set), None, None) => Ok(Place::AvailabilitySet(found(set, GroupType::AvailabilitySet)?)),
            (None, Some(set), None) => Ok(Place::FlexibleSet(found(set, GroupType::ScaleSet)?)),
            (_, Some(_), _) => conflict("scaleSet", "conflicts with another group. A machine can be in only one group"),
            (Some(_), None, Some(_)) => {
                conflict("cloudService", "conflicts with 'availabilitySet'. A machine can be in only one group")
            }
            (None, None, Some(service)) => {
                let service = found(service, GroupType::CloudService)?;
                let in_name = self.name.0.rsplit_once("_IN_").map(|(role, _)| role);
                match self.role.as_ref().map(|role| role.0.as_str()).or(in_name) {
                    Some(role) => Ok(Place::CloudService { service, role: role.into() }),
                    None => conflict("role", "is required unless the name has the form FrontEnd_IN_0"),
                }
            }
        }
    }
}

impl MachineChange {
    fn into_core(self, machine: &core::Machine) -> Result<core::MachineChange, ApiError> {
        let details = match (self.details, self.tags) {
            (None, None) => None,
            (given, given_tags) => {
                let mut details = (*machine.details).clone();
                given.unwrap_or_default().merge_into(&mut details);
                if let Some(given_tags) = given_tags {
                    details.tags = into_tags(given_tags);
                }
                Some(Arc::new(details))
            }
        };
        let terminate = match self.terminate_notification.into_change() {
            Some(Some(given)) => Some(Some(into_terminate_profile(given)?)),
            Some(None) => Some(None),
            None => None,
        };
        Ok(core::MachineChange {
            host: self.host.into_change().map(|host| host.map(Name::from)),
            update_domain: self.update_domain,
            fault_domain: self.fault_domain,
            zone: self.zone.into_change().map(|zone| zone.map(Name::from)),
            addresses: self.addresses.map(into_addresses).transpose()?,
            protected: self.protected,
            terminate,
            policy: self.policy.into_change().map(|policy| policy.map(Into::into)),
            details,
        })
    }
}
