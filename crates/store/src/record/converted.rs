//! Maintenance by update domain that was in progress in a store before format 7. Its operation had its progress; now a rollout
//! with the same ID has it.

use forewarn_core::*;

use super::intern::Interner;
use super::operation::{DomainsBody, OperationBody};

impl OperationBody<'_> {
    /// The rollout that continues the maintenance of this operation. None: the operation needs none.
    ///
    /// The update domains that were visited before the current one are unknown, and those that follow are determined when their
    /// turn comes, so the rollout begins with the current one. Later pauses have the default length, because the settings are
    /// not stored.
    pub fn into_rollout(self, id: OperationId, interner: &mut Interner) -> Option<Rollout> {
        let DomainsBody { next_domain, resume } = *self.progress_by_domain()?;
        let operation = self.into_operation(id, interner);
        let Request::Maintain { target, plan } = &operation.request else { return None };
        let domain = next_domain.saturating_sub(1);
        let (targets, target) = match target {
            Target::Group(group) => {
                (RolloutTargets::Groups(vec![*group]), StepTarget::Domain { group: *group, domain })
            }
            Target::Machines(machines) => (
                RolloutTargets::MachinesByDomain(machines.clone()),
                StepTarget::Machines { domain, machines: Vec::new() },
            ),
            Target::Host(_) => return None,
        };
        let resume = resume.map(Timestamp);
        let first_part = operation.parts.iter().position(|part| part.outcome.is_none());
        let step = RolloutStep {
            state: if resume.is_some() { StepState::Succeeded } else { StepState::InProgress },
            operation: Some(id),
            first_part: first_part.unwrap_or(operation.parts.len()),
            started: Some(operation.requested_at),
            ended: resume.map(|_| operation.requested_at),
            ..RolloutStep::new(target)
        };
        Some(Rollout {
            id,
            seq: 0,
            requested_by: operation.requested_by.clone(),
            created: operation.requested_at,
            targets,
            plan: RolloutPlan::of_maintenance(plan, Settings::default().update_domain_pause)?,
            operation: Some(id),
            first_event: None,
            state: if resume.is_some() { RolloutState::Waiting } else { RolloutState::Running },
            steps: vec![step],
            waits_for: resume.map(|until| Wait::Pause { until }),
            failures: 0,
            paused_until: resume,
            wake: resume,
            requested: 1,
        })
    }
}
