//! Handlers for forms that return to the page that they were sent from. Each button is one action. If it is refused, the page
//! is shown again with the message above it.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Actions, GroupDeletion, GroupTarget, GroupType, MachineTarget, PlainGroup};
use forewarn_api::{next_deadline, parse_event_id, parse_operation_id};
use forewarn_api_types::{
    ActionOptions, AdvanceClock, FailureOptions, FailureType, MachineChange, NewDrain, NewRun, Nullable, Operation,
    OperationPhase, PauseOptions, Policy, PolicyChange, PowerState, Resend, ScaleSetChange, StepSelection, Upgrade,
    join_names,
};
use forewarn_core::{Guid, Region};
use forewarn_render::{name_operation, name_rollout};
use forewarn_widgets::address;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::query::PageQuery;
use forewarn_wire::guid;
use http::StatusCode;

use super::flash::Flash;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::visitor::Form;
use super::{Portal, frame, group, host_selection, operations, page, scale_set, selection, test_kit};
use forewarn_previews::preview::find_unapproved;

/// Handles the buttons of all pages.
pub async fn submit_action(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    match perform(&portal, &form, &back).await {
        Ok(performed) => {
            portal.shared.flashes.set(&form.visitor.cookie, confirm(&portal, &form, &performed));
            Redirect::to(&performed.next).into_response()
        }
        Err(refused) => page::render_at(&portal, &form.visitor, &back, Some(&refused)).await,
    }
}

/// Handles actions on the selected machines of a group.
pub async fn submit_selection(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    match selection::perform(&context, &form, &back).await {
        Ok(response) => response,
        Err(refused) => page::render_at(&portal, &form.visitor, &back, Some(&refused)).await,
    }
}

/// Handles actions on the selected hosts.
pub async fn submit_hosts(State(portal): State<Portal>, form: Form) -> Response {
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    match host_selection::perform(&context, &form).await {
        Ok(response) => response,
        Err(refused) => {
            page::render_at(&portal, &form.visitor, &address::check_own(form.text("back")), Some(&refused)).await
        }
    }
}

/// Handles approvals and cancellations of the selected operations.
pub async fn submit_operations(State(portal): State<Portal>, form: Form) -> Response {
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    match operations::perform(&context, &form).await {
        Ok(response) => response,
        Err(refused) => {
            page::render_at(&portal, &form.visitor, &address::check_own(form.text("back")), Some(&refused)).await
        }
    }
}

/// Handles the forms on the page of a scale set.
pub async fn submit_scale_set(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    let Some((group, set)) = scale_set::find(context.region(), &back) else {
        let refused = Refusal::form("This scale set no longer exists.");
        return page::render_at(&portal, &form.visitor, &back, Some(&refused)).await;
    };
    let fields = match scale_set::change(&context, group, set, &form, &back).await {
        Ok(response) => return response,
        Err(fields) => fields,
    };
    match group::render(&context, group.id, &PageQuery::default(), Some(&fields)).await {
        Ok(content) => (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, &back, &content, "")).into_response(),
        Err(_) => Redirect::to("/").into_response(),
    }
}

/// The result of a button.
struct Performed {
    /// The page to show next.
    next: String,
    /// The operation that the action created, if the next page is another one.
    operation: Option<forewarn_api_types::Id>,
}

impl Performed {
    fn at(next: impl Into<String>) -> Performed {
        Performed { next: next.into(), operation: None }
    }

    fn with_operation(self, operation: &Operation) -> Performed {
        Performed { operation: Some(operation.id), ..self }
    }
}

/// Performs the action of a button. The next page is the new event of an action on one machine, otherwise the page with the
/// button, unless that is gone.
async fn perform(portal: &Portal, form: &Form, back: &str) -> Result<Performed, Refusal> {
    let actions = portal.actions(form.visitor.principal());
    let (act, target) = (form.text("act"), form.text("target"));
    if let Some(operation) = start_on_machine(&actions, act, target).await? {
        return Ok(Performed::at(address::after_operation(&operation, back)));
    }
    match act {
        "start" => actions.set_power(&MachineTarget::named(target), PowerState::Running).await.map(drop)?,
        "stop" => actions.set_power(&MachineTarget::named(target), PowerState::Stopped).await.map(drop)?,
        "deallocate" => actions.set_power(&MachineTarget::named(target), PowerState::Deallocated).await.map(drop)?,
        "machine-policy" => {
            let change = MachineChange { policy: Nullable::Value(read_policy(form)), ..MachineChange::default() };
            actions.change_machine(&MachineTarget::named(target), change).await.map(drop)?;
        }
        "fail-host" | "lose-host" => {
            let kind = if act == "fail-host" { FailureType::Reboot } else { FailureType::Redeploy };
            let operation = actions.fail_host(target, failure(kind)).await?;
            return Ok(Performed::at(back).with_operation(&operation));
        }
        "drain-host" => {
            let operation = actions.drain_host(target, NewDrain::default()).await?;
            return Ok(Performed::at(format!("/operations/{}", operation.id)));
        }
        "activate-host" => actions.activate_host(target).await.map(drop)?,
        "pause-rollout" => {
            actions.pause_rollout(target, PauseOptions { now: form.is_checked("now") }).await.map(drop)?;
        }
        "resume-rollout" => actions.resume_rollout(target).await.map(drop)?,
        "stop-rollout" => actions.stop_rollout(target).await.map(drop)?,
        "retry-steps" => retry_steps(&actions, form, target).await?,
        "approve-operation" => approve_operation(portal, &actions, target).await?,
        "test-webhook" => {
            let test = actions.test_webhook(target).await?;
            if !test.delivered {
                return Err(Refusal::form(format!("The test message was not delivered: {}", test.message)));
            }
        }
        "resend-webhook" => actions.resend_messages(target, Resend { ids: None }).await.map(drop)?,
        "delete-webhook" => actions.delete_webhook(target).await?,
        "remove-host" => actions.remove_host(target).await?,
        "approve" => actions.approve_event(parse_event_id(target)?).await.map(drop)?,
        "cancel" => actions.cancel_event(parse_event_id(target)?).await.map(drop)?,
        "cancel-operation" => actions.cancel_operation(parse_operation_id(target)?).await.map(drop)?,
        "delete-group" => return delete_group(&actions, form, back).await,
        "policy" => change_policy(&actions, form).await?,
        "upgrade" => actions.upgrade_instances(&GroupTarget::named(target), Upgrade::default()).await.map(drop)?,
        "run" => {
            actions.run_scenario(NewRun { scenario: Some(target.to_owned()), ..NewRun::default() }).await?;
            return Ok(Performed::at(test_kit::address_of("runs")));
        }
        "stop-run" => {
            actions.stop_run(target)?;
            return Ok(Performed::at(test_kit::address_of("runs")));
        }
        "clear-fault" => {
            actions.clear_fault(target).await?;
            return Ok(Performed::at(test_kit::address_of("faults")));
        }
        "advance-next" => {
            actions.advance_clock(time_to_next_deadline(portal)?).await?;
            return Ok(Performed::at(test_kit::address_of("panel-clock-panel")));
        }
        other => return Err(Refusal::form(format!("Unknown action '{other}'. Reload the page and try again."))),
    }
    Ok(Performed::at(back))
}

/// Approves all events of an operation that wait for an approval.
async fn approve_operation(portal: &Portal, actions: &Actions, target: &str) -> Result<(), Refusal> {
    let id = parse_operation_id(target)?;
    let region = &portal.engine().snapshot().region;
    if region.operation(id).is_some_and(|found| find_unapproved(region, found).is_empty()) {
        return Err(Refusal::form("No approvals are missing."));
    }
    actions.approve_operation(id).await.map(drop).map_err(Refusal::from)
}

/// Repeats the selected steps of a rollout.
async fn retry_steps(actions: &Actions, form: &Form, target: &str) -> Result<(), Refusal> {
    let steps: Vec<usize> = form.all("step").into_iter().filter_map(|number| number.parse().ok()).collect();
    // Without a selection, the action would repeat all failed steps.
    if steps.is_empty() {
        return Err(Refusal::form("Select at least one step."));
    }
    actions.retry_steps(target, StepSelection { steps, ..StepSelection::default() }).await?;
    Ok(())
}

/// The confirmation of an action, with a link to what it created, or to the history.
fn confirm(portal: &Portal, form: &Form, performed: &Performed) -> Flash {
    let text = match form.text("act") {
        "restart" => "Requested a restart of",
        "redeploy" => "Requested a redeploy of",
        "perform-maintenance" => "Requested maintenance of",
        "evict" => "Requested the eviction of",
        "recommend-rebalance" => "Recommended a rebalance to",
        "delete-machine" | "delete-group" => "Requested the deletion of",
        "fail" | "lose" | "fail-host" | "lose-host" => "Simulated a failure of",
        "start" => "Requested the start of",
        "stop" => "Requested the stop of",
        "deallocate" => "Requested the deallocation of",
        "drain-host" => "Draining host",
        "activate-host" => "Activated host",
        "remove-host" => "Removed host",
        "pause-rollout" => "Paused rollout",
        "resume-rollout" => "Resumed rollout",
        "stop-rollout" => "Stopped rollout",
        "retry-steps" => "Requested a retry of failed steps of rollout",
        "approve" => "Approved",
        "approve-operation" => "Approved all events of operation",
        "cancel" => "Canceled",
        "cancel-operation" => "Canceled operation",
        "test-webhook" => "Delivered a test message to webhook",
        "resend-webhook" => "Resending the messages of webhook",
        "delete-webhook" => "Deleted webhook",
        "policy" | "machine-policy" => "Changed the approval policy of",
        "upgrade" => "Upgrading the instances of",
        "run" => "Started scenario",
        "stop-run" => "Stopped run",
        "clear-fault" => "Cleared fault",
        "advance-next" => return Flash::new("Advanced the clock to the next deadline."),
        _ => "Changed",
    };
    let name = name_target(&portal.engine().snapshot().region, form.text("act"), form.text("target"));
    let flash = Flash::new(format!("{text} {name}."));
    let is_created = performed.next.starts_with("/events/") || performed.next.starts_with("/operations/");
    match performed.operation {
        Some(id) => flash.with_link(format!("/operations/{id}"), "Open operation"),
        None if is_created => flash.with_link("/operations", "All operations"),
        None => flash.with_link("/history", "Show history"),
    }
}

/// The target of an action in words: operations, rollouts and events have IDs that say nothing.
fn name_target(region: &Region, act: &str, target: &str) -> String {
    let id = || guid::parse(target).map(Guid);
    let found = match act {
        "pause-rollout" | "resume-rollout" | "stop-rollout" | "retry-steps" => {
            id().and_then(|id| region.rollout(id)).map(|rollout| name_rollout(region, rollout))
        }
        "approve-operation" | "cancel-operation" => {
            id().and_then(|id| region.operation(id)).map(|operation| name_operation(region, operation))
        }
        "approve" | "cancel" => id().and_then(|id| region.event(id)).map(|event| {
            let names = event.resources.iter().map(|resource| resource.name.to_string());
            format!("{} of {}", event.kind.as_str(), join_names(names))
        }),
        _ => {
            let machine = id().and_then(|id| region.machine(region.machine_by_vm_id(id)?));
            machine.map(|machine| machine.name.to_string())
        }
    };
    found.unwrap_or_else(|| target.replace('~', "/"))
}

/// Starts an operation on one machine; None if the button is another one.
async fn start_on_machine(actions: &Actions, act: &str, target: &str) -> Result<Option<Operation>, Refusal> {
    let (machine, default) = (MachineTarget::named(target), ActionOptions::default());
    Ok(Some(match act {
        "restart" => actions.restart_machine(&machine, default).await?,
        "redeploy" => actions.redeploy_machine(&machine, default).await?,
        "perform-maintenance" => actions.perform_maintenance(&machine, default).await?,
        "evict" => actions.evict_machine(&machine, default).await?,
        "recommend-rebalance" => actions.recommend_rebalance(&machine, default).await?,
        "fail" => actions.fail_machine(&machine, failure(FailureType::Reboot)).await?,
        "lose" => actions.fail_machine(&machine, failure(FailureType::Redeploy)).await?,
        "delete-machine" => actions.delete_machine(&machine, default).await?,
        _ => return Ok(None),
    }))
}

fn failure(kind: FailureType) -> FailureOptions {
    FailureOptions { kind: Some(kind), event_id: None }
}

async fn delete_group(actions: &Actions, form: &Form, back: &str) -> Result<Performed, Refusal> {
    let kind = address::parse_group_type(form.text("kind")).map_err(Refusal::form)?;
    let target = GroupTarget::named(form.text("target"));
    // The page has shown the machines, and the visitor has confirmed.
    let deletion = GroupDeletion::WithMachines;
    let operation = actions.delete_group(kind, &target, deletion, ActionOptions::default()).await?;
    let next = if operation.state == OperationPhase::Running { back } else { "/" };
    Ok(Performed::at(next).with_operation(&operation))
}

async fn change_policy(actions: &Actions, form: &Form) -> Result<(), Refusal> {
    let target = GroupTarget::named(form.text("target"));
    let policy = Some(read_policy(form));
    let plain = match address::parse_group_type(form.text("kind")).map_err(Refusal::form)? {
        GroupType::ScaleSet => {
            actions.change_scale_set(&target, ScaleSetChange { policy, ..ScaleSetChange::default() }).await?;
            return Ok(());
        }
        GroupType::AvailabilitySet => PlainGroup::AvailabilitySet,
        GroupType::CloudService => PlainGroup::CloudService,
    };
    actions.change_group(plain, &target, PolicyChange { policy }).await?;
    Ok(())
}

/// The time until the next deadline.
fn time_to_next_deadline(portal: &Portal) -> Result<AdvanceClock, Refusal> {
    let engine = portal.engine();
    let (now, snapshot) = (engine.now(), engine.snapshot());
    let next = next_deadline(&snapshot.region, engine.next_report());
    let (next, _) = next.ok_or_else(|| Refusal::form("There is no deadline to advance to."))?;
    // Deadlines can be between two seconds.
    Ok(AdvanceClock { seconds: next.since(now).as_millis().div_ceil(1000) as u64 })
}

/// Browsers do not send checkboxes that are not checked.
fn read_policy(form: &Form) -> Policy {
    Policy {
        approve_user_reboot: form.is_checked("reboot"),
        approve_user_redeploy: form.is_checked("redeploy"),
        approve_all_instances_down: form.is_checked("down"),
    }
}
