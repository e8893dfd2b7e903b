//! Actions on the selected machines of a group, after a confirmation page with a preview for each. Instances of a scale set
//! are changed in one operation, other machines one by one.

use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Action, Actions, ApiError, GroupTarget, MachineTarget};
use forewarn_api_types::{
    ActionOptions, DeleteInstances, InstanceSelection, MachineChange, Upgrade, count_of, join_names,
};
use forewarn_core::{Group, GroupKind, Guid, Machine, Rejection};
use forewarn_widgets::selection_bar::SelectionBar;
use forewarn_widgets::{address, words};
use forewarn_wire::guid;

use super::action::ButtonStyle;
use super::confirm::Confirmation;
use super::flash::Flash;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::visitor::Form;
use super::{frame, scale_set};
use forewarn_previews::plan;
use forewarn_previews::preview::MachineAction;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkAction {
    Restart,
    Redeploy,
    Delete,
    Upgrade,
    Protect,
    Unprotect,
}

const BULK_ACTIONS: [BulkAction; 6] = [
    BulkAction::Restart,
    BulkAction::Redeploy,
    BulkAction::Upgrade,
    BulkAction::Protect,
    BulkAction::Unprotect,
    BulkAction::Delete,
];

/// The buttons for the selected machines.
pub fn render_buttons(context: &PageContext, group: &Group, here: &str) -> String {
    let is_offered = |action: &BulkAction| {
        context.visitor.is_allowed(action.needs()) && (!action.needs_scale_set() || is_scale_set(group))
    };
    let button = |action: BulkAction| {
        (action.name(), action.button(), if action.tone() == ButtonStyle::Danger { "danger" } else { "" })
    };
    let mut buttons: Vec<_> = BULK_ACTIONS.into_iter().filter(is_offered).map(button).collect();
    if context.visitor.is_allowed(Action::StartMaintenance) {
        buttons.insert(2, ("plan", "Plan maintenance…", ""));
    }
    if buttons.is_empty() {
        return String::new();
    }
    let csrf = &context.visitor.session.csrf;
    let label = "Actions on selected machines";
    SelectionBar { action: "/portal/selection", csrf, back: here, label, buttons }.render()
}

/// Shows the confirmation page, or performs the action if it was confirmed.
pub async fn perform(context: &PageContext, form: &Form, back: &str) -> Result<Response, Refusal> {
    let group = address::find_group(context.region(), back);
    let group = group.ok_or_else(|| Refusal::form("This group no longer exists."))?;
    let machines = selected_machines(context, form)?;
    if form.text("act") == "plan" {
        let names: Vec<String> = machines.iter().map(|machine| plan::target_name(context.region(), machine)).collect();
        return Ok(Redirect::to(&plan::address_with("machine", &names.join(","))).into_response());
    }
    let action = BULK_ACTIONS.into_iter().find(|action| action.name() == form.text("act"));
    let action = action.ok_or_else(|| Refusal::form("Unknown action. Reload the page and try again."))?;
    if !form.is_checked("confirmed") {
        let confirmation = action.confirm(context, group, &machines, form, back);
        return Ok(frame::render(context, back, &confirmation.render(), "").into_response());
    }
    let actions = context.portal.actions(form.visitor.principal());
    action.perform(&actions, group, &machines).await?;
    let flash = Flash::new(format!("{} {}.", action.describe_request(), count_of(machines.len(), "machine")));
    let flash = match action {
        BulkAction::Restart | BulkAction::Redeploy | BulkAction::Delete => {
            flash.with_link("/operations", "Open operations")
        }
        BulkAction::Upgrade | BulkAction::Protect | BulkAction::Unprotect => {
            flash.with_link("/history", "Show history")
        }
    };
    context.portal.shared.flashes.set(&form.visitor.cookie, flash);
    Ok(Redirect::to(back).into_response())
}

/// The selected machines that still exist.
fn selected_machines<'s>(context: &'s PageContext, form: &Form) -> Result<Vec<&'s Machine>, Refusal> {
    let region = context.region();
    let ids = form.all("machine").into_iter().filter_map(guid::parse);
    let machines = ids.filter_map(|id| region.machine(region.machine_by_vm_id(Guid(id))?)).map(|machine| &**machine);
    match machines.collect::<Vec<_>>() {
        machines if machines.is_empty() => Err(Refusal::form("Select at least one machine.")),
        machines => Ok(machines),
    }
}

fn is_scale_set(group: &Group) -> bool {
    matches!(group.kind, GroupKind::ScaleSet(_))
}

impl BulkAction {
    fn name(self) -> &'static str {
        match self {
            BulkAction::Restart => "restart",
            BulkAction::Redeploy => "redeploy",
            BulkAction::Delete => "delete",
            BulkAction::Upgrade => "upgrade",
            BulkAction::Protect => "protect",
            BulkAction::Unprotect => "unprotect",
        }
    }

    /// The label of the button, which opens a confirmation.
    fn button(self) -> &'static str {
        match self {
            BulkAction::Restart => "Restart…",
            BulkAction::Redeploy => "Redeploy…",
            BulkAction::Delete => "Delete…",
            BulkAction::Upgrade => "Upgrade…",
            BulkAction::Protect => "Protect…",
            BulkAction::Unprotect => "Unprotect…",
        }
    }

    fn label(self) -> &'static str {
        match self {
            BulkAction::Restart => "Restart",
            BulkAction::Redeploy => "Redeploy",
            BulkAction::Delete => "Delete",
            BulkAction::Upgrade => "Upgrade",
            BulkAction::Protect => "Protect",
            BulkAction::Unprotect => "Unprotect",
        }
    }

    /// The confirmation, up to the number of machines.
    fn describe_request(self) -> &'static str {
        match self {
            BulkAction::Restart => "Requested a restart of",
            BulkAction::Redeploy => "Requested a redeploy of",
            BulkAction::Delete => "Requested the deletion of",
            BulkAction::Upgrade => "Upgrading",
            BulkAction::Protect => "Protected",
            BulkAction::Unprotect => "Removed the protection of",
        }
    }

    fn tone(self) -> ButtonStyle {
        match self {
            BulkAction::Delete => ButtonStyle::Danger,
            BulkAction::Restart
            | BulkAction::Redeploy
            | BulkAction::Upgrade
            | BulkAction::Protect
            | BulkAction::Unprotect => ButtonStyle::Normal,
        }
    }

    fn needs(self) -> Action {
        match self {
            BulkAction::Restart => Action::RestartMachine,
            BulkAction::Redeploy => Action::RedeployMachine,
            BulkAction::Delete => Action::DeleteMachine,
            BulkAction::Upgrade => Action::UpgradeInstances,
            BulkAction::Protect | BulkAction::Unprotect => Action::ChangeMachine,
        }
    }

    /// Whether the action applies only to instances of scale sets.
    fn needs_scale_set(self) -> bool {
        match self {
            BulkAction::Upgrade | BulkAction::Protect | BulkAction::Unprotect => true,
            BulkAction::Restart | BulkAction::Redeploy | BulkAction::Delete => false,
        }
    }

    fn confirm<'a>(
        self,
        context: &'a PageContext,
        group: &Group,
        machines: &[&Machine],
        form: &'a Form,
        back: &'a str,
    ) -> Confirmation<'a> {
        let ids = form.all("machine").into_iter().map(|id| ("machine", id));
        Confirmation {
            title: format!("{} {}?", self.label(), join_names(machines.iter().map(|machine| machine.name.to_string()))),
            previews: self.preview(context, group, machines),
            action: "/portal/selection",
            fields: [("act", self.name())].into_iter().chain(ids).collect(),
            label: self.label().into(),
            tone: self.tone(),
            back,
            csrf: &context.visitor.session.csrf,
        }
    }

    /// A description for each machine.
    fn preview(self, context: &PageContext, group: &Group, machines: &[&Machine]) -> Vec<(String, String)> {
        let action = match self {
            BulkAction::Restart => MachineAction::Restart,
            BulkAction::Redeploy => MachineAction::Redeploy,
            BulkAction::Delete => MachineAction::Delete,
            BulkAction::Upgrade | BulkAction::Protect | BulkAction::Unprotect => {
                let describe = |machine: &&Machine| (machine.name.to_string(), self.describe_change(group, machine));
                return machines.iter().map(describe).collect();
            }
        };
        let preview = context.preview();
        if is_scale_set(group) {
            preview.describe_together(machines, action)
        } else {
            preview.describe_each(machines, action)
        }
    }

    /// The effect of an action that creates no event.
    fn describe_change(self, group: &Group, machine: &Machine) -> String {
        let (version, latest) = match &group.kind {
            GroupKind::ScaleSet(set) => (set.model_version, scale_set::latest_notification(set)),
            GroupKind::AvailabilitySet | GroupKind::CloudService => return String::new(),
        };
        let current = words::notification(machine.terminate.as_deref());
        match self {
            BulkAction::Upgrade if machine.model == version => "It already has the latest model.".into(),
            BulkAction::Upgrade => format!(
                "Its termination notification changes from {} to {}. It keeps running, and no event is created.",
                words::escape_html(current),
                words::escape_html(latest)
            ),
            BulkAction::Protect => "Scale-in will not delete it. It can still be deleted by name.".into(),
            BulkAction::Unprotect => "Scale-in can delete it.".into(),
            BulkAction::Restart | BulkAction::Redeploy | BulkAction::Delete => String::new(),
        }
    }

    /// Performs the action: on instances of a scale set together, on other machines one by one.
    async fn perform(self, actions: &Actions, group: &Group, machines: &[&Machine]) -> Result<(), Refusal> {
        let set = GroupTarget::Id(group.id);
        let instances: Vec<String> = machines.iter().map(|machine| machine.vm_id.to_string()).collect();
        let of_set = |error: ApiError| Refusal::from(error).about(&group.name);
        match self {
            BulkAction::Restart if is_scale_set(group) => {
                let some = InstanceSelection { instances, event_id: None };
                actions.restart_instances(&set, some).await.map(drop).map_err(of_set)
            }
            BulkAction::Redeploy if is_scale_set(group) => {
                let some = InstanceSelection { instances, event_id: None };
                actions.redeploy_instances(&set, some).await.map(drop).map_err(of_set)
            }
            BulkAction::Delete if is_scale_set(group) => {
                let these = DeleteInstances { instances, event_id: None };
                actions.delete_instances(&set, these).await.map(drop).map_err(of_set)
            }
            BulkAction::Upgrade => {
                actions.upgrade_instances(&set, Upgrade { instances }).await.map(drop).map_err(of_set)
            }
            BulkAction::Restart
            | BulkAction::Redeploy
            | BulkAction::Delete
            | BulkAction::Protect
            | BulkAction::Unprotect => {
                for machine in machines {
                    let done = self.perform_on_machine(actions, machine).await;
                    done.map_err(|error| Refusal::from(error).about(&machine.name))?;
                }
                Ok(())
            }
        }
    }

    async fn perform_on_machine(self, actions: &Actions, machine: &Machine) -> Result<(), ApiError> {
        let (target, default) = (MachineTarget::Id(machine.id), ActionOptions::default());
        let protect = |protected| MachineChange { protected: Some(protected), ..MachineChange::default() };
        match self {
            BulkAction::Restart => actions.restart_machine(&target, default).await.map(drop),
            BulkAction::Redeploy => actions.redeploy_machine(&target, default).await.map(drop),
            BulkAction::Delete => actions.delete_machine(&target, default).await.map(drop),
            BulkAction::Protect => actions.change_machine(&target, protect(true)).await.map(drop),
            BulkAction::Unprotect => actions.change_machine(&target, protect(false)).await.map(drop),
            BulkAction::Upgrade => Err(Rejection::NotAMember(machine.name.clone()).into()),
        }
    }
}
