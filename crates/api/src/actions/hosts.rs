//! Registers, removes and fails hosts.

use forewarn_api_types::{FailureOptions, Host, Operation, ResourceName};
use forewarn_core::{Command, Name, Target};

use crate::Actions;
use crate::action::Action;
use crate::error::{ApiError, ErrorCode};
use crate::names::find_host;
use crate::render::render_host;

/// Whether a request created the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registered {
    New,
    Existing,
}

impl Actions {
    /// Registers a host. An existing host is not changed.
    pub async fn register_host(&self, name: &str) -> Result<(Registered, Host), ApiError> {
        let permit = self.permit(Action::RegisterHost)?;
        let snapshot = self.engine().snapshot();
        if let Some(host) = snapshot.region.host(name) {
            return Ok((Registered::Existing, render_host(&snapshot.region, &host.name)));
        }
        let ResourceName(name) = ResourceName::new(name.to_owned())
            .map_err(|reason| ApiError::new(ErrorCode::InvalidPath, format!("{reason}.")).with_target("host"))?;
        let note = permit.note(name.as_str());
        let name = Name::from(name);
        let done = self.submit(Command::RegisterHost { name: name.clone() }, note).await?;
        Ok((Registered::New, render_host(&done.snapshot.region, &name)))
    }

    pub async fn remove_host(&self, name: &str) -> Result<(), ApiError> {
        let permit = self.permit(Action::RemoveHost)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        let note = permit.note(name.as_ref());
        self.submit(Command::RemoveHost { name }, note).await.map(drop)
    }

    /// Simulates a hardware failure of a host.
    pub async fn fail_host(&self, name: &str, with: FailureOptions) -> Result<Operation, ApiError> {
        let permit = self.permit(Action::Fail)?;
        let name = find_host(&self.engine().snapshot().region, name)?;
        self.fail(permit, Target::Host(name.clone()), &name, with).await
    }
}
