//! The change of a machine's host that its form requests, after a confirmation page.

use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::{Action, MachineTarget};
use forewarn_api_types::{MachineChange, Nullable, ResourceName};
use forewarn_core::{Machine, Name};
use forewarn_widgets::address;
use forewarn_widgets::html::RenderMode;

use super::action::ButtonStyle;
use super::confirm::Confirmation;
use super::flash::Flash;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::visitor::Form;
use super::{Portal, frame, page};

/// Shows the confirmation page, or changes the host if it was confirmed.
pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let back = address::check_own(form.text("back"));
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    match perform(&context, &form, &back).await {
        Ok(response) => response,
        Err(refused) => page::render_at(&portal, &form.visitor, &back, Some(&refused)).await,
    }
}

async fn perform(context: &PageContext, form: &Form, back: &str) -> Result<Response, Refusal> {
    let actions = context.portal.actions(form.visitor.principal());
    // The confirmation page shows nothing that the visitor may not do.
    actions.permit(Action::ChangeMachine)?;
    let target = MachineTarget::named(form.text("target"));
    let machine = target.find(context.region())?;
    let host = find_host(context, form.text("host"))?;
    if host == machine.host && machine.transfer.is_none() {
        let place = host.map_or_else(|| "on no host".into(), |host| format!("on host '{host}'"));
        return Err(Refusal::form(format!("Machine '{}' is already {place}.", machine.name)));
    }
    if !form.is_checked("confirmed") {
        let content = confirm(context, form, &machine, host.as_ref(), back).render();
        return Ok(frame::render(context, back, &content, "").into_response());
    }
    let host = match &host {
        Some(host) => Nullable::Value(ResourceName::new(host.to_string()).map_err(Refusal::form)?),
        None => Nullable::Null,
    };
    actions.change_machine(&target, MachineChange { host, ..MachineChange::default() }).await?;
    let flash = Flash::new(format!("Changed the host of {}.", machine.name));
    context.portal.shared.flashes.set(&form.visitor.cookie, flash.with_link("/history", "Show history"));
    Ok(Redirect::to(back).into_response())
}

/// The host with this name. The rules would register an unknown host, which is rarely what a typing error means.
fn find_host(context: &PageContext, name: &str) -> Result<Option<Name>, Refusal> {
    if name.is_empty() {
        return Ok(None);
    }
    let found = context.region().host(name).map(|host| host.name.clone());
    found.map(Some).ok_or_else(|| Refusal::form(format!("Host '{name}' does not exist. Register it first.")))
}

fn confirm<'a>(
    context: &'a PageContext,
    form: &'a Form,
    machine: &Machine,
    host: Option<&Name>,
    back: &'a str,
) -> Confirmation<'a> {
    Confirmation {
        title: format!("Change the host of {}?", machine.name),
        previews: vec![(machine.name.to_string(), context.preview().describe_host_change(machine, host))],
        action: "/portal/machine-host",
        fields: vec![("target", form.text("target")), ("host", form.text("host"))],
        label: "Change host".into(),
        tone: ButtonStyle::Normal,
        back,
        csrf: &context.visitor.session.csrf,
    }
}
