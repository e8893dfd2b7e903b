//! Every action of the management APIs in one table: its name in the audit trail and the role that it requires. The routes
//! of the native API and of ARM, the buttons of the portal and the actions themselves refer to this table.

use forewarn_access::Role;
use forewarn_engine::AuditEntry;

use crate::audit_detail::AuditDetail;

macro_rules! table {
    ($($action:ident: $name:literal, $role:ident;)+) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Action { $($action),+ }

        impl Action {
            pub const ALL: &'static [Action] = &[$(Action::$action),+];

            /// The name in the audit trail.
            pub fn name(self) -> &'static str {
                match self { $(Action::$action => $name),+ }
            }

            /// The role that a caller must have.
            pub fn role(self) -> Role {
                match self { $(Action::$action => Role::$role),+ }
            }
        }
    };
}

// Operators can call actions that give notice and destroy nothing.
table! {
    RegisterMachine: "machine.register", Owner;
    ChangeMachine: "machine.change", Owner;
    DeleteMachine: "delete", Owner;
    RestartMachine: "restart", Operator;
    RedeployMachine: "redeploy", Operator;
    PerformMaintenance: "perform-maintenance", Operator;
    EvictMachine: "evict", Owner;
    RecommendRebalance: "recommend-rebalance", Operator;
    Fail: "hardware-failure", Owner;
    StartMachine: "start", Owner;
    StopMachine: "stop", Owner;
    EnableEvents: "enable-events", Owner;
    DeallocateMachine: "deallocate", Owner;
    AssignIdentity: "machine.identity", Owner;
    RemoveIdentity: "machine.identity.remove", Owner;

    CreateAvailabilitySet: "availability-set.create", Owner;
    ChangeAvailabilitySet: "availability-set.change", Owner;
    DeleteAvailabilitySet: "availability-set.delete", Owner;
    CreateCloudService: "cloud-service.create", Owner;
    ChangeCloudService: "cloud-service.change", Owner;
    DeleteCloudService: "cloud-service.delete", Owner;

    CreateScaleSet: "scale-set.create", Owner;
    ChangeScaleSet: "scale-set.change", Owner;
    DeleteScaleSet: "scale-set.delete", Owner;
    UpgradeInstances: "scale-set.upgrade", Owner;
    RestartInstances: "scale-set.restart", Operator;
    RedeployInstances: "scale-set.redeploy", Operator;
    PerformMaintenanceOfInstances: "scale-set.perform-maintenance", Operator;
    DeleteInstances: "scale-set.delete-instances", Owner;

    RegisterHost: "host.register", Owner;
    RemoveHost: "host.remove", Owner;
    ChangeHost: "host.change", Owner;
    DrainHost: "host.drain", Operator;
    ActivateHost: "host.activate", Operator;
    FenceHost: "host.fence", Owner;
    CreateHostToken: "host.token", Owner;

    StartRollout: "rollout.start", Operator;
    PauseRollout: "rollout.pause", Operator;
    ResumeRollout: "rollout.resume", Operator;
    StopRollout: "rollout.stop", Operator;
    RetrySteps: "rollout.retry", Operator;
    StartMaintenance: "maintenance", Operator;

    ApproveEvents: "approve", Operator;
    ApproveOperation: "operation.approve", Operator;
    Cancel: "cancel", Operator;

    AddFault: "fault.add", Owner;
    ClearFault: "fault.clear", Owner;
    RunScenario: "scenario.run", Owner;
    StopRun: "scenario.stop", Owner;
    AdvanceClock: "clock.advance", Owner;
    SetClock: "clock.set", Owner;

    CreateWebhook: "webhook.create", Owner;
    ChangeWebhook: "webhook.change", Owner;
    DeleteWebhook: "webhook.delete", Owner;
    TestWebhook: "webhook.test", Owner;
    ResendMessages: "webhook.resend", Owner;

    CreatePortalLink: "portal-link.create", Reader;

    // Actions that only the ARM API has.
    CreateVm: "vm.create", Owner;
    ChangeVm: "vm.change", Owner;
    ReimageMachine: "reimage", Owner;
    PutResourceGroup: "resource-group.put", Owner;
    DeleteResourceGroup: "resource-group.delete", Owner;
    PutNetworkResource: "network.put", Owner;
    DeleteNetworkResource: "network.delete", Owner;
    PutMaintenanceConfiguration: "maintenance-configuration.put", Owner;
    DeleteMaintenanceConfiguration: "maintenance-configuration.delete", Owner;
    PutDeployment: "deployment.put", Owner;
    DeleteDeployment: "deployment.delete", Owner;
}

/// An action that the caller is allowed to perform. Only `Actions::permit` creates it, so nothing is done without a check
/// of the role.
#[derive(Clone, Copy, Debug)]
pub struct Permit(Action);

impl Permit {
    pub(super) fn new(action: Action) -> Permit {
        Permit(action)
    }

    /// The audit entry of the action on this target.
    pub fn note(self, target: impl Into<String>) -> AuditNote {
        AuditNote { action: self.0, target: target.into(), detail: AuditDetail::Nothing {} }
    }
}

/// An entry of the audit trail, before the caller and the time are known.
pub struct AuditNote {
    action: Action,
    target: String,
    detail: AuditDetail,
}

impl AuditNote {
    pub fn with(mut self, detail: AuditDetail) -> AuditNote {
        self.detail = detail;
        self
    }

    /// The entry with its actor.
    pub fn by(self, actor: String) -> AuditEntry {
        AuditEntry { actor, action: self.action.name().into(), target: self.target, detail: self.detail.to_json() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_the_audit_trail_are_unique() {
        let mut names: Vec<&str> = Action::ALL.iter().map(|action| action.name()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Action::ALL.len());
    }
}
