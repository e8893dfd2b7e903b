//! Registers, changes and deletes machines, starts operations on them, and changes their power state.

use std::sync::Arc;

use forewarn_access::random_guid;
use forewarn_api_types::{
    ActionOptions, EventType, FailureOptions, FailureType, Machine, MachineChange, MachineEvictionPolicy,
    MachinePriority, NewMachine, Operation, PowerState, join_first,
};
use forewarn_core as core;
use forewarn_core::{
    AddressRequest, Command, Guid, MachineId, NewMachine as NewCoreMachine, NewMembership, Region, Request, Target,
};
use forewarn_render::{Convert, render_machine};

use crate::Actions;
use crate::action::{Action, AuditNote, Permit};
use crate::audit_detail::AuditDetail;
use crate::error::{ApiError, ErrorCode};
use crate::into_core::{self, core_addresses, merge_details, resource_group_or_default, terminate_profile};
use crate::names::{self, GroupType, MachineTarget};

impl Actions {
    pub async fn register_machine(&self, new: NewMachine) -> Result<Machine, ApiError> {
        let permit = self.permit(Action::RegisterMachine)?;
        let name = new.name.0.clone();
        let new = new_machine(new, &self.engine().snapshot().region)?;
        let vm_id = new.vm_id;
        let note = permit.note(name).with(AuditDetail::Registration { vm_id: vm_id.to_string() });
        let done = self.submit(Command::RegisterMachine(Box::new(new)), note).await?;
        let region = &done.snapshot.region;
        let machine = names::find_machine(region, &vm_id.to_string(), None)?;
        Ok(render_machine(region, &machine))
    }

    pub async fn change_machine(&self, target: &MachineTarget, change: MachineChange) -> Result<Machine, ApiError> {
        let permit = self.permit(Action::ChangeMachine)?;
        let machine = self.find_machine(target)?;
        let change = Box::new(machine_change(change, &machine)?);
        let note = permit.note(machine.name.as_str());
        let done = self.submit(Command::ChangeMachine { machine: machine.id, change }, note).await?;
        Ok(render_changed(&done.snapshot.region, &machine))
    }

    pub async fn restart_machine(&self, target: &MachineTarget, with: ActionOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::RestartMachine)?;
        self.start_on(permit, target, with, |machines| Request::Restart { machines }).await
    }

    pub async fn redeploy_machine(&self, target: &MachineTarget, with: ActionOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::RedeployMachine)?;
        self.start_on(permit, target, with, |machines| Request::Redeploy { machines }).await
    }

    /// Starts self-service maintenance.
    pub async fn perform_maintenance(
        &self,
        target: &MachineTarget,
        with: ActionOptions,
    ) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::PerformMaintenance)?;
        self.start_on(permit, target, with, |machines| Request::PerformMaintenance { machines }).await
    }

    pub async fn evict_machine(&self, target: &MachineTarget, with: ActionOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::EvictMachine)?;
        let machine = self.find_machine(target)?;
        let note = permit.note(machine.name.as_str());
        self.start_operation(Request::Evict { machine: machine.id }, with.event_id, note).await
    }

    /// Recommends moving work away from a Spot machine, for guests that request the preview version.
    pub async fn recommend_rebalance(
        &self,
        target: &MachineTarget,
        with: ActionOptions,
    ) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::RecommendRebalance)?;
        if !self.service.endpoint().serves_preview {
            let message = "No machine would see the recommendation, because the server does not serve api-version 2024-07-09. \
                           Start it with --preview-version.";
            return Err(ApiError::new(ErrorCode::NoPreviewVersion, message));
        }
        let machine = self.find_machine(target)?;
        let note = permit.note(machine.name.as_str());
        self.start_operation(Request::RecommendRebalance { machine: machine.id }, with.event_id, note).await
    }

    pub async fn delete_machine(&self, target: &MachineTarget, with: ActionOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::DeleteMachine)?;
        let started = self.start_machine_deletion(permit, target, with).await;
        self.or_repeated_deletion(started, &[]).await
    }

    async fn start_machine_deletion(
        &self,
        permit: Permit,
        target: &MachineTarget,
        with: ActionOptions,
    ) -> Result<Operation, ApiError> {
        let machine = self.find_machine(target)?;
        let request = Request::Delete { machines: vec![machine.id], group: None };
        self.start_deletion(request, with.event_id, permit.note(machine.name.as_str()), &[]).await
    }

    /// Simulates a hardware failure of a machine.
    pub async fn fail_machine(&self, target: &MachineTarget, with: FailureOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::Fail)?;
        let machine = self.find_machine(target)?;
        self.fail(permit, Target::Machines(vec![machine.id]), &machine.name, with).await
    }

    /// Simulates a hardware failure.
    pub(super) async fn fail(
        &self,
        permit: Permit,
        target: Target,
        name: &str,
        with: FailureOptions,
    ) -> Result<Operation, ApiError> {
        let kind: core::EventKind = with.kind.unwrap_or(FailureType::Reboot).convert();
        let event_type: EventType = kind.convert();
        let note = permit.note(name).with(AuditDetail::Failure { kind: event_type });
        self.start_operation(Request::Fail { target, kind }, with.event_id, note).await
    }

    /// Starts, stops or deallocates a machine, without an event.
    pub async fn set_power(&self, target: &MachineTarget, power: PowerState) -> Result<Machine, ApiError> {
        let permit = self.permit(power_action(power))?;
        let machine = self.find_machine(target)?;
        let command = power_command(machine.id, power, random_guid());
        let done = self.submit(command, permit.note(machine.name.as_str())).await?;
        Ok(render_changed(&done.snapshot.region, &machine))
    }

    /// Turns on the event group of a machine, as the first request of its handler does.
    pub async fn enable_events(&self, target: &MachineTarget) -> Result<Machine, ApiError> {
        let permit = self.permit(Action::EnableEvents)?;
        let machine = self.find_machine(target)?;
        let command = Command::Seen { machine: machine.id };
        let done = self.submit(command, permit.note(machine.name.as_str())).await?;
        Ok(render_changed(&done.snapshot.region, &machine))
    }

    /// Starts, stops or deallocates several machines in one commit. The orders have IDs that are derived from `seed` with
    /// 0, 1, 2 and so on.
    pub async fn set_power_of_all(
        &self,
        machines: &[Arc<core::Machine>],
        power: PowerState,
        seed: Guid,
    ) -> Result<(), ApiError> {
        let note = self.permit(power_action(power))?.note(name_machines(machines));
        let set = |(n, machine): (u64, &Arc<core::Machine>)| power_command(machine.id, power, seed.derive(n));
        self.commit((0..).zip(machines).map(set).collect(), note, |_| Vec::new()).await.map(drop)
    }

    /// Starts one operation of this kind for several machines.
    pub async fn start_on_all(
        &self,
        action: Action,
        machines: &[Arc<core::Machine>],
        request: fn(Vec<MachineId>) -> Request,
    ) -> Result<Operation, ApiError> {
        let note = self.permit(action)?.note(name_machines(machines));
        let ids = machines.iter().map(|machine| machine.id).collect();
        self.start_operation(request(ids), None, note).await
    }

    pub fn find_machine(&self, target: &MachineTarget) -> Result<Arc<core::Machine>, ApiError> {
        target.find(&self.engine().snapshot().region)
    }

    async fn start_on(
        &self,
        permit: Permit,
        target: &MachineTarget,
        with: ActionOptions,
        request: fn(Vec<MachineId>) -> Request,
    ) -> Result<Operation, ApiError> {
        let machine = self.find_machine(target)?;
        let note: AuditNote = permit.note(machine.name.as_str());
        self.start_operation(request(vec![machine.id]), with.event_id, note).await
    }
}

fn power_command(machine: MachineId, power: PowerState, order: core::EventId) -> Command {
    Command::ChangePower { machine, power: power.convert(), order }
}

fn power_action(power: PowerState) -> Action {
    match power {
        PowerState::Running => Action::StartMachine,
        PowerState::Stopped => Action::StopMachine,
        PowerState::Deallocated => Action::DeallocateMachine,
    }
}

/// The machines as the audit trail names them: the first few, then the number of the others.
pub fn name_machines(machines: &[Arc<core::Machine>]) -> String {
    const NAMED_MAX: usize = 10;
    join_first(machines.iter().map(|machine| &machine.name), machines.len(), NAMED_MAX)
}

/// A changed machine, or its previous state if it has been deleted since.
fn render_changed(region: &Region, before: &Arc<core::Machine>) -> Machine {
    render_machine(region, region.machine(before.id).unwrap_or(before))
}

fn new_machine(new: NewMachine, region: &Region) -> Result<NewCoreMachine, ApiError> {
    let place = place_of(&new, region)?;
    let mut details = core::Details::default();
    merge_details(new.details, Some(new.tags), &mut details);
    Ok(NewCoreMachine {
        vm_id: new.vm_id.map_or_else(random_guid, |id| Guid(id.0)),
        name: into_core::name(new.name),
        home: resource_group_or_default(new.subscription, new.resource_group),
        place,
        host: new.host.map(into_core::name),
        update_domain: new.update_domain,
        fault_domain: new.fault_domain,
        zone: new.zone.map(into_core::name),
        priority: new.priority.unwrap_or(MachinePriority::Regular).convert(),
        eviction: new.eviction_policy.unwrap_or(MachineEvictionPolicy::Deallocate).convert(),
        addresses: match new.addresses {
            None => AddressRequest::FromPool,
            Some(given) if given.is_empty() => AddressRequest::None,
            Some(given) => AddressRequest::Given(core_addresses(given)?),
        },
        terminate: new.terminate_notification.as_ref().map(terminate_profile).transpose()?,
        policy: new.policy.map(Convert::convert),
        memory_mib: new.memory_mib.map_or(0, |memory| memory.0),
        live_migratable: new.live_migratable.unwrap_or(true),
        details: Arc::new(details),
    })
}

fn place_of(new: &NewMachine, region: &Region) -> Result<NewMembership, ApiError> {
    let conflict = |field: &str, message: &str| {
        Err(ApiError::new(ErrorCode::ConflictingPlace, format!("The field '{field}' {message}.")).with_target(field))
    };
    let found = |name: &str, kind: GroupType| Ok::<_, ApiError>(names::find_group(region, name, None, kind)?.id);
    match (&new.availability_set, &new.scale_set, &new.cloud_service) {
        (_, _, None) if new.role.is_some() => {
            conflict("role", "is only valid for instances of a cloud service. Omit it, or set 'cloudService'")
        }
        (None, None, None) => Ok(NewMembership::Standalone),
        (Some(set), None, None) => Ok(NewMembership::AvailabilitySet(found(set, GroupType::AvailabilitySet)?)),
        (None, Some(set), None) => Ok(NewMembership::FlexibleSet(found(set, GroupType::ScaleSet)?)),
        (_, Some(_), _) => conflict("scaleSet", "conflicts with another group. A machine can be in only one group"),
        (Some(_), None, Some(_)) => {
            conflict("cloudService", "conflicts with 'availabilitySet'. A machine can be in only one group")
        }
        (None, None, Some(service)) => {
            let service = found(service, GroupType::CloudService)?;
            let in_name = new.name.0.rsplit_once("_IN_").map(|(role, _)| role);
            match new.role.as_ref().map(|role| role.0.as_str()).or(in_name) {
                Some(role) => Ok(NewMembership::CloudService { service, role: role.into() }),
                None => {
                    let message =
                        "A machine of a cloud service needs a role. Use a name such as FrontEnd_IN_0, or set 'role'.";
                    Err(ApiError::new(ErrorCode::ConflictingPlace, message).with_target("role"))
                }
            }
        }
    }
}

fn machine_change(given: MachineChange, machine: &core::Machine) -> Result<core::MachineChange, ApiError> {
    let details = match (given.details, given.tags) {
        (None, None) => None,
        (changed, tags) => {
            let mut details = (*machine.details).clone();
            merge_details(changed.unwrap_or_default(), tags, &mut details);
            Some(Arc::new(details))
        }
    };
    let terminate = match given.terminate_notification.into_change() {
        Some(Some(given)) => Some(Some(terminate_profile(&given)?)),
        Some(None) => Some(None),
        None => None,
    };
    Ok(core::MachineChange {
        host: given.host.into_change().map(|host| host.map(into_core::name)),
        update_domain: given.update_domain,
        fault_domain: given.fault_domain,
        zone: given.zone.into_change().map(|zone| zone.map(into_core::name)),
        addresses: given.addresses.map(core_addresses).transpose()?,
        protected: given.protected,
        memory_mib: given.memory_mib.map(|memory| memory.0),
        live_migratable: given.live_migratable,
        terminate,
        policy: given.policy.into_change().map(|policy| policy.map(Convert::convert)),
        details,
    })
}
