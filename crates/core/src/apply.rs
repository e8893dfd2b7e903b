//! Entry point of the rules: applies one command at one time, atomically.

use crate::command::Command;
use crate::region::Region;
use crate::rejection::Rejection;
use crate::step::Step;
use crate::time::Timestamp;
use crate::transition::{Answer, Transition};

impl Region {
    /// Applies `command` at `now`. Everything due by then is handled first, as a separate step. A rejected
    /// command changes nothing, not even the region's time.
    pub fn apply(&self, command: &Command, now: Timestamp) -> Result<Transition, Rejection> {
        let before = self.now();
        let mut step = Step::new(self.clone(), now.max(before));
        if *command == Command::Resume {
            step.resume(before);
        }
        if self.next_deadline().is_some_and(|deadline| deadline <= now) {
            step.handle_due();
            step.finish();
        }
        let is_retry = step.is_retry(command);
        let answer = step.perform(command)?;
        step.finish();
        if !is_retry {
            step.check(command)?;
        }
        Ok(step.into_transition(answer))
    }
}

impl Step {
    fn perform(&mut self, command: &Command) -> Result<Answer, Rejection> {
        match command {
            Command::RegisterMachine(new) => self.register_machine(new),
            Command::ChangeMachine { machine, change } => self.change_machine(*machine, change),
            Command::CreateGroup(new) => self.create_group(new),
            Command::ChangeGroup { group, change, salt } => self.change_group(*group, change, *salt),
            Command::UpgradeInstances { group, machines } => self.upgrade_instances(*group, machines),
            Command::RegisterHost { name } => self.register_host(name),
            Command::ChangeHost { name, change } => self.change_host(name, change),
            Command::RemoveHost { name } => self.remove_host(name),
            Command::ActivateHost { name, by } => self.activate_host(name, by),
            Command::FenceHost { name } => self.fence_host(name),
            Command::ConfirmHost { name, revision } => self.confirm_host(name, *revision),
            Command::LoseHost { name } => self.mark_host_unreachable(name),
            Command::SetPower { machine, power } => self.set_power(*machine, *power),
            Command::ChangePower { machine, power, order } => self.change_power(*machine, *power, *order),
            Command::Request { operation, by, request, event } => self.request(*operation, by, request, *event),
            Command::Cancel { operation, by } => self.cancel(*operation, by),
            Command::CancelEvent { event, by } => self.cancel_event(*event, by),
            Command::StartRollout(new) => self.start_rollout(new),
            Command::PauseRollout { rollout, now } => self.pause_rollout(*rollout, *now),
            Command::ResumeRollout { rollout } => self.resume_rollout(*rollout),
            Command::StopRollout { rollout, by } => self.stop_rollout(*rollout, by),
            Command::RetrySteps { rollout, operation, steps } => self.retry_steps(*rollout, *operation, steps),
            Command::Approve { by, within, events } => self.approve(by, within, events),
            Command::Seen { machine } => self.record_seen(*machine),
            Command::Report { event, report } => self.report(*event, report),
            Command::ReportMachine { event, machine, host, epoch, report } => {
                self.report_machine(*event, *machine, host, *epoch, report)
            }
            Command::ClaimMachine { machine, host, present } => self.claim_machine(*machine, host, *present),
            Command::Resume | Command::Tick => Ok(Answer::Done),
        }
    }

    /// Whether the operation of this request already exists.
    fn is_retry(&self, command: &Command) -> bool {
        matches!(command, Command::Request { operation, .. } if self.region.operations.contains_key(operation))
    }

    /// Checks limits that can only be evaluated after everything has settled.
    fn check(&self, command: &Command) -> Result<(), Rejection> {
        match command {
            Command::Request { operation, .. } => self.check_user_operations(*operation),
            Command::RegisterMachine(_)
            | Command::ChangeMachine { .. }
            | Command::CreateGroup(_)
            | Command::ChangeGroup { .. }
            | Command::UpgradeInstances { .. }
            | Command::RegisterHost { .. }
            | Command::ChangeHost { .. }
            | Command::RemoveHost { .. }
            | Command::ActivateHost { .. }
            | Command::FenceHost { .. }
            | Command::ConfirmHost { .. }
            | Command::LoseHost { .. }
            | Command::StartRollout(_)
            | Command::PauseRollout { .. }
            | Command::ResumeRollout { .. }
            | Command::StopRollout { .. }
            | Command::RetrySteps { .. }
            | Command::SetPower { .. }
            | Command::ChangePower { .. }
            | Command::Cancel { .. }
            | Command::CancelEvent { .. }
            | Command::Approve { .. }
            | Command::Seen { .. }
            | Command::Report { .. }
            | Command::ReportMachine { .. }
            | Command::ClaimMachine { .. }
            | Command::Resume
            | Command::Tick => Ok(()),
        }
    }
}
