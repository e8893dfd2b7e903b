//! Starts, previews, pauses, resumes and stops rollouts, and retries their failed steps.

use std::collections::BTreeSet;
use std::time::Duration;

use forewarn_api_types::{NewRollout, PauseOptions, Rollout, RolloutPreview, RolloutType, StepSelection};
use forewarn_core as core;
use forewarn_core::{
    Command, Guid, Name, Region, RolloutAction, RolloutId, RolloutPlan, RolloutTargets, StepTarget, Timestamp,
};
use forewarn_render::{Convert, render_rollout, render_rollout_preview};

use crate::Actions;
use crate::action::{Action, AuditNote};
use crate::audit_detail::AuditDetail;
use crate::error::{ApiError, ErrorCode};
use crate::into_core;
use crate::{names, windows};
use forewarn_engine::SubmitError;

impl Actions {
    pub async fn start_rollout(&self, new: NewRollout) -> Result<Rollout, ApiError> {
        let permit = self.permit(Action::StartRollout)?;
        let new = self.resolve_rollout(new)?;
        let id = new.id;
        let note = permit.note(id.to_string()).with(AuditDetail::Steps { steps: count_targets(&new.targets) });
        self.change_rollout(Command::StartRollout(Box::new(new)), id, note).await
    }

    /// The expected course of a rollout, without starting it. A large one takes longer than other requests, and guests, can wait
    /// for a thread, so the simulation runs on another one.
    pub async fn preview_rollout(&self, new: NewRollout) -> Result<RolloutPreview, ApiError> {
        let actions = self.clone();
        let preview = tokio::task::spawn_blocking(move || actions.simulate_rollout(new));
        preview.await.map_err(|_| ApiError::from(SubmitError::Stopping))?
    }

    fn simulate_rollout(&self, new: NewRollout) -> Result<RolloutPreview, ApiError> {
        let new = self.resolve_rollout(new)?;
        let region = &self.engine().snapshot().region;
        let preview = region.preview_rollout(&new, self.engine().now())?;
        Ok(render_rollout_preview(region, &preview))
    }

    /// Pauses a rollout. Scheduled events still finish, unless the options cancel them.
    pub async fn pause_rollout(&self, id: &str, options: PauseOptions) -> Result<Rollout, ApiError> {
        let permit = self.permit(Action::PauseRollout)?;
        let rollout = names::find_rollout(&self.engine().snapshot().region, id)?;
        let note = permit.note(rollout.to_string()).with(AuditDetail::Pause { now: options.now });
        self.change_rollout(Command::PauseRollout { rollout, now: options.now }, rollout, note).await
    }

    pub async fn resume_rollout(&self, id: &str) -> Result<Rollout, ApiError> {
        let permit = self.permit(Action::ResumeRollout)?;
        let rollout = names::find_rollout(&self.engine().snapshot().region, id)?;
        self.change_rollout(Command::ResumeRollout { rollout }, rollout, permit.note(rollout.to_string())).await
    }

    /// Ends a rollout. Scheduled events are canceled, started events finish.
    pub async fn stop_rollout(&self, id: &str) -> Result<Rollout, ApiError> {
        let permit = self.permit(Action::StopRollout)?;
        let rollout = names::find_rollout(&self.engine().snapshot().region, id)?;
        let command = Command::StopRollout { rollout, by: self.principal_name() };
        self.change_rollout(command, rollout, permit.note(rollout.to_string())).await
    }

    pub async fn retry_steps(&self, id: &str, steps: StepSelection) -> Result<Rollout, ApiError> {
        let permit = self.permit(Action::RetrySteps)?;
        let snapshot = self.engine().snapshot();
        let rollout = names::find_rollout(&snapshot.region, id)?;
        let steps = resolve_steps(&snapshot.region, rollout, &steps)?;
        let note = permit.note(rollout.to_string()).with(AuditDetail::Steps { steps: steps.len() });
        self.change_rollout(Command::RetrySteps { rollout, operation: self.new_id(), steps }, rollout, note).await
    }

    async fn change_rollout(&self, command: Command, id: RolloutId, note: AuditNote) -> Result<Rollout, ApiError> {
        let done = self.submit(command, note).await?;
        let region = &done.snapshot.region;
        let rollout = region.rollout(id).ok_or(core::Rejection::UnknownRollout(id))?;
        Ok(render_rollout(region, rollout))
    }

    fn resolve_rollout(&self, new: NewRollout) -> Result<core::NewRollout, ApiError> {
        let region = &self.engine().snapshot().region;
        Ok(core::NewRollout {
            id: new.id.map_or_else(|| self.new_id(), |id| Guid(id.0)),
            by: self.principal_name(),
            targets: resolve_targets(&new, region)?,
            plan: build_plan(new, self.engine().now())?,
        })
    }
}

fn count_targets(targets: &RolloutTargets) -> usize {
    match targets {
        RolloutTargets::Hosts(hosts) => hosts.len(),
        RolloutTargets::Groups(groups) => groups.len(),
        RolloutTargets::Machines(machines) | RolloutTargets::MachinesByDomain(machines) => machines.len(),
    }
}

fn resolve_targets(new: &NewRollout, region: &Region) -> Result<RolloutTargets, ApiError> {
    match (new.hosts.as_slice(), &new.host_label, new.groups.as_slice(), new.machines.as_slice()) {
        ([], Some(label), [], []) => Ok(RolloutTargets::Hosts(find_labeled_hosts(region, label)?)),
        (hosts, None, [], []) if !hosts.is_empty() => {
            let found = hosts.iter().map(|name| names::find_host(region, name));
            Ok(RolloutTargets::Hosts(found.collect::<Result<_, _>>()?))
        }
        ([], None, groups, []) if !groups.is_empty() => {
            let found = groups.iter().map(|name| Ok(names::find_any_group(region, name)?.id));
            Ok(RolloutTargets::Groups(found.collect::<Result<_, ApiError>>()?))
        }
        ([], None, [], machines) if !machines.is_empty() => {
            let found = names::find_machines(region, machines)?;
            Ok(RolloutTargets::Machines(found.iter().map(|machine| machine.id).collect()))
        }
        _ => Err(ApiError::new(
            ErrorCode::ConflictingTargets,
            "Set exactly one of 'hosts', 'hostLabel', 'groups' and 'machines', with at least one name.",
        )),
    }
}

/// The targets of the selected steps. Empty: all failed steps.
fn resolve_steps(region: &Region, rollout: RolloutId, selected: &StepSelection) -> Result<Vec<StepTarget>, ApiError> {
    if selected.group.is_some() && selected.update_domains.is_empty() {
        return Err(ApiError::field("updateDomains", "must name the update domains of the group"));
    }
    let steps = region.rollout(rollout).map_or(&[][..], |rollout| &rollout.steps);
    let unknown = |step: String| ApiError::from(core::Rejection::NotAStep { step: step.into(), rollout });
    let hosts = selected.hosts.iter().map(|name| Ok(StepTarget::Host(names::find_host(region, name)?)));
    let machine = |name: &String| Ok(StepTarget::Machine(names::find_machine(region, name, None)?.id));
    let numbered = selected.steps.iter().map(|number| {
        steps.get(*number).map(|step| step.target.clone()).ok_or_else(|| unknown(format!("step {number}")))
    });
    let group = selected.group.as_ref().map(|name| names::find_any_group(region, name)).transpose()?;
    let domains = selected.update_domains.iter().map(|number| u32::try_from(number.0).unwrap_or(u32::MAX));
    let domains = domains.map(|domain| match &group {
        Some(group) => Ok(StepTarget::Domain { group: group.id, domain }),
        None => find_domain(steps, domain)?.ok_or_else(|| unknown(format!("update domain {domain}"))),
    });
    hosts.chain(selected.machines.iter().map(machine)).chain(numbered).chain(domains).collect()
}

/// The target of the only step over an update domain with this number.
fn find_domain(steps: &[core::RolloutStep], domain: u32) -> Result<Option<StepTarget>, ApiError> {
    let targets = steps.iter().map(|step| &step.target).filter(|target| target.domain() == Some(domain));
    let mut targets: BTreeSet<&StepTarget> = targets.collect();
    let found = targets.pop_first().cloned();
    let ambiguous = ApiError::field("group", "must name the group of the update domains");
    if targets.is_empty() { Ok(found) } else { Err(ambiguous) }
}

fn find_labeled_hosts(region: &Region, label: &str) -> Result<Vec<Name>, ApiError> {
    let (key, value) =
        label.split_once('=').ok_or_else(|| ApiError::field("hostLabel", "must have the form KEY=VALUE"))?;
    let has_label = |host: &&std::sync::Arc<core::Host>| host.labels.get(key).is_some_and(|found| **found == *value);
    let hosts: Vec<Name> = region.hosts().filter(has_label).map(|host| host.name.clone()).collect();
    if hosts.is_empty() {
        return Err(ApiError::new(ErrorCode::HostNotFound, format!("No host has the label '{label}'.")));
    }
    Ok(hosts)
}

fn build_plan(new: NewRollout, now: Timestamp) -> Result<RolloutPlan, ApiError> {
    let drain = RolloutAction::Drain {
        to: new.to.map(into_core::name),
        machines_parallel: new.machines_parallel.unwrap_or(1),
        in_place: new.wait_in_place,
    };
    Ok(RolloutPlan {
        action: match new.kind {
            RolloutType::Freeze => RolloutAction::Freeze,
            RolloutType::Reboot => RolloutAction::Reboot,
            RolloutType::Redeploy => RolloutAction::Redeploy,
            RolloutType::Drain => drain,
        },
        at: new.at.map(Convert::convert),
        parallel: new.parallel.unwrap_or(1),
        pause: Duration::from_secs(new.pause_seconds.unwrap_or(0)),
        windows: windows::resolve(&new.windows, now)?,
        unavailable_max: new.max_unavailable,
        failures_max: new.max_failures.unwrap_or(0),
        notice: new.notice_seconds.map(Duration::from_secs),
        duration_secs: new.duration_seconds,
        description: new.description.map(|text| Name::from(text.0)),
    })
}
