//! Registers, changes, drains, activates, fences and removes hosts.

use std::collections::BTreeMap;
use std::time::Duration;

use forewarn_access::HostAccess;
use forewarn_api_types::{
    DrainMove, DrainPreview, FailureOptions, Host, HostChange, NewDrain, Operation, ResourceName,
};
use forewarn_core as core;
use forewarn_core::{Command, DrainPlan, Name, Request, Target};
use forewarn_render::{Convert, render_host, render_owners, render_wait};

use crate::Actions;
use crate::action::Action;
use crate::error::{ApiError, ErrorCode};
use crate::into_core;
use crate::names::find_host;

/// Whether a request created the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registration {
    New,
    Existing,
}

impl Actions {
    /// Registers a host. An existing host is not changed.
    pub async fn register_host(&self, name: &str) -> Result<(Registration, Host), ApiError> {
        let permit = self.permit(Action::RegisterHost)?;
        let snapshot = self.engine().snapshot();
        if let Some(host) = snapshot.region.host(name) {
            return Ok((Registration::Existing, render_host(&snapshot.region, &host.name)));
        }
        let ResourceName(name) = ResourceName::new(name.to_owned())
            .map_err(|reason| ApiError::new(ErrorCode::InvalidPath, format!("{reason}.")).with_target("host"))?;
        let note = permit.note(name.as_str());
        let name = Name::from(name);
        let done = self.submit(Command::RegisterHost { name: name.clone() }, note).await?;
        Ok((Registration::New, render_host(&done.snapshot.region, &name)))
    }

    pub async fn change_host(&self, name: &str, change: HostChange) -> Result<Host, ApiError> {
        let permit = self.permit(Action::ChangeHost)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        let labels = |labels: BTreeMap<String, String>| {
            labels.into_iter().map(|(key, value)| (Name::from(key), Name::from(value))).collect()
        };
        let change = core::HostChange {
            pool: change.pool.map(into_core::name),
            labels: change.labels.map(labels),
            memory_mib: change.memory_mib.into_change().map(|memory| memory.map(|number| number.0)),
        };
        let note = permit.note(name.as_str());
        let done = self.submit(Command::ChangeHost { name: name.clone(), change }, note).await?;
        Ok(render_host(&done.snapshot.region, &name))
    }

    /// Moves all machines away from a host.
    pub async fn drain_host(&self, name: &str, new: NewDrain) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::DrainHost)?;
        let host = find_host(&self.engine().snapshot().region, name)?;
        let note = permit.note(host.as_str());
        self.start_operation(Request::Drain(drain_plan(host, new)), None, note).await
    }

    /// Where each machine of a host would go, without draining the host.
    pub fn preview_drain(&self, name: &str, new: NewDrain) -> Result<DrainPreview, ApiError> {
        let region = &self.engine().snapshot().region;
        let host = find_host(region, name)?;
        let moves = region.preview_drain(&drain_plan(host, new), self.engine().now())?;
        let rollouts = render_owners(region, moves.iter().map(|one| one.machine));
        let machines = moves.into_iter().filter_map(|one| {
            let machine = region.machine(one.machine)?;
            Some(DrainMove {
                machine: machine.name.to_string(),
                event_type: one.kind.map(Convert::convert),
                to: one.to.map(|host| host.to_string()),
                waits_for: one.waits_for.as_ref().map(render_wait),
                has_handler: region.is_on(machine.scope),
            })
        });
        Ok(DrainPreview { machines: machines.collect(), rollouts })
    }

    /// Makes a host available again. Cancels a drain that is in progress.
    pub async fn activate_host(&self, name: &str) -> Result<Host, ApiError> {
        let permit = self.permit(Action::ActivateHost)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        let note = permit.note(name.as_str());
        let command = Command::ActivateHost { name: name.clone(), by: self.principal_name() };
        let done = self.submit(command, note).await?;
        Ok(render_host(&done.snapshot.region, &name))
    }

    /// Records that a host is off, so that its machines are certainly not running.
    pub async fn fence_host(&self, name: &str) -> Result<Host, ApiError> {
        let permit = self.permit(Action::FenceHost)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        let note = permit.note(name.as_str());
        let done = self.submit(Command::FenceHost { name: name.clone() }, note).await?;
        Ok(render_host(&done.snapshot.region, &name))
    }

    pub async fn remove_host(&self, name: &str) -> Result<(), ApiError> {
        let permit = self.permit(Action::RemoveHost)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        let note = permit.note(name.as_str());
        let removed = HostAccess::remove_host(&name);
        self.commit(vec![Command::RemoveHost { name: name.clone() }], note, move |_| removed).await?;
        self.forget_certificates(&name);
        Ok(())
    }

    /// Simulates a hardware failure of a host.
    pub async fn fail_host(&self, name: &str, with: FailureOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::Fail)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        self.fail(permit, Target::Host(name.clone()), &name, with).await
    }
}

fn drain_plan(host: Name, new: NewDrain) -> DrainPlan {
    DrainPlan {
        host,
        to: new.to.map(into_core::name),
        parallel: new.parallel.unwrap_or(1),
        unavailable_max: new.max_unavailable,
        notice: new.notice_seconds.map(Duration::from_secs),
        in_place: new.wait_in_place,
        description: new.description.map(|text| Name::from(text.0)),
    }
}
