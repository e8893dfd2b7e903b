//! Starts or plans maintenance of machines, a host or a group.

use std::time::Duration;

use forewarn_api_types::{MaintenanceCause, MaintenanceTarget, NewMaintenance, Operation};
use forewarn_core::{Name, Plan, Region, Request, Target};
use forewarn_render::Convert;

use crate::Actions;
use crate::action::Action;
use crate::audit_detail::AuditDetail;
use crate::error::ApiError;
use crate::names;

impl Actions {
    pub async fn start_maintenance(&self, new: NewMaintenance) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::StartMaintenance)?;
        let (target, name) = resolve(&new.target, &self.engine().snapshot().region)?;
        let detail = AuditDetail::Maintenance { at: new.at, notice_seconds: new.notice_seconds, kind: new.kind };
        let event = new.event_id;
        let request = Request::Maintain { target, plan: build_plan(new) };
        self.start_operation(request, event, permit.note(name).with(detail)).await
    }
}

/// The plan of maintenance for the rules.
pub fn build_plan(new: NewMaintenance) -> Plan {
    Plan {
        kind: new.kind.convert(),
        cause: new.cause.unwrap_or(MaintenanceCause::HostMaintenance).convert(),
        at: new.at.map(Convert::convert),
        notice: new.notice_seconds.map(Duration::from_secs),
        duration_secs: new.duration_seconds,
        description: new.description.map(|text| Name::from(text.0)),
    }
}

/// The target and its name for the audit trail.
fn resolve(target: &MaintenanceTarget, region: &Region) -> Result<(Target, String), ApiError> {
    Ok(match target {
        MaintenanceTarget::Machines(given) => {
            let machines = names::find_machines(region, given)?;
            let names = machines.iter().map(|machine| &*machine.name).collect::<Vec<_>>().join(", ");
            (Target::Machines(machines.iter().map(|machine| machine.id).collect()), names)
        }
        MaintenanceTarget::Host(name) => (Target::Host(names::find_host(region, name)?), name.clone()),
        MaintenanceTarget::Group(name) => {
            let group = names::find_any_group(region, name)?;
            (Target::Group(group.id), group.name.to_string())
        }
    })
}
