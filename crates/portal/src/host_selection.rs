//! Actions on the selected hosts: drain and activate, after a confirmation page with a preview for each; plan a rollout.

use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api::Actions;
use forewarn_api_types::{NewDrain, count_of, join_names};
use forewarn_core::{DrainPlan, Name};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{address, waits, words};

use super::action::ButtonStyle;
use super::bulk::{BulkNoun, BulkResult};
use super::confirm::Confirmation;
use super::page_context::PageContext;
use super::refusal::Refusal;
use super::visitor::Form;
use super::{bulk, frame};
use forewarn_widgets::conflict;

const HERE: &str = "/hosts";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HostAction {
    Drain,
    Activate,
}

/// The preview of a drain, computed by the rules. HTML.
pub fn preview_drain(context: &PageContext, host: &str) -> String {
    let region = context.region();
    let plan = DrainPlan {
        host: Name::from(host),
        to: None,
        parallel: 1,
        unavailable_max: None,
        notice: None,
        in_place: false,
        description: None,
    };
    let moves = match region.preview_drain(&plan, context.now) {
        Ok(moves) => moves,
        Err(rejection) => return words::escape_html(rejection),
    };
    let name = |id| region.machine(id).map_or_else(String::new, |machine| words::escape_html(&machine.name));
    let kind = |wanted: &str| -> Vec<String> {
        let found = moves.iter().filter(|one| one.kind.is_some_and(|kind| kind.as_str() == wanted));
        found.map(|one| name(one.machine)).collect()
    };
    let mut sentences = Vec::new();
    for (event, effect) in [
        ("Freeze", "moved while running (Freeze)"),
        ("Redeploy", "redeployed on other hosts (Redeploy)"),
        ("Reboot", "restarted in place (Reboot)"),
    ] {
        let names = kind(event);
        if !names.is_empty() {
            let verb = if names.len() == 1 { "is" } else { "are" };
            sentences.push(format!("{} {verb} {effect}: {}.", count_of(names.len(), "machine"), join_names(&names)));
        }
    }
    let stuck: Vec<String> = moves.iter().filter(|one| one.kind.is_none()).map(|one| name(one.machine)).collect();
    if !stuck.is_empty() {
        let wait = moves.iter().find_map(|one| one.waits_for.as_ref());
        let reason = wait.map_or_else(
            || "no other host can take them".into(),
            |wait| waits::render_wait(&forewarn_render::render_wait(wait)),
        );
        sentences.push(format!("Not possible yet for {}: {reason}.", join_names(&stuck)));
    }
    let unnotified = moves.iter().filter_map(|one| region.machine(one.machine));
    let unnotified: Vec<String> = unnotified
        .filter(|machine| !region.is_on(machine.scope))
        .map(|machine| words::escape_html(&machine.name))
        .collect();
    if !unnotified.is_empty() {
        sentences.push(format!("No handler, not notified: {}.", join_names(&unnotified)));
    }
    if sentences.is_empty() {
        return "It has no machines and is drained at once.".into();
    }
    let owner = region.machines_on(&Name::from(host)).find_map(|machine| conflict::describe_owner(region, machine));
    sentences.extend(owner);
    sentences.join(" ")
}

/// Shows the confirmation page, or performs the action on the selected hosts if it was confirmed.
pub async fn perform(context: &PageContext, form: &Form) -> Result<Response, Refusal> {
    let hosts: Vec<&str> = form.all("host").into_iter().filter(|name| context.region().host(name).is_some()).collect();
    if hosts.is_empty() {
        return Err(Refusal::form("Select at least one host."));
    }
    let action = match form.text("act") {
        "plan" => {
            let query = PageQuery::default().with("hosts", &hosts.join(","));
            return Ok(Redirect::to(&query.address("/rollouts/plan")).into_response());
        }
        "drain" => HostAction::Drain,
        "activate" => HostAction::Activate,
        other => return Err(Refusal::form(format!("Unknown action '{other}'. Reload the page and try again."))),
    };
    let selected: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    // The overview and the page of a host have the same buttons.
    let back = bulk::select_rows(&address::check_own(form.text("back")), HERE, &selected);
    if !form.is_checked("confirmed") {
        let page = confirm(context, form, action, &hosts, &back).render();
        return Ok(frame::render(context, HERE, &page, "").into_response());
    }
    let actions = context.portal.actions(form.visitor.principal());
    let mut result = BulkResult::default();
    for host in &hosts {
        result.add(host, address::of_host(host), action.perform(&actions, host).await);
    }
    let verb = match action {
        HostAction::Drain => "Draining",
        HostAction::Activate => "Activated",
    };
    let flash = result.into_flash(verb, &BulkNoun { noun: "host", list: HERE })?;
    context.portal.shared.flashes.set(&form.visitor.cookie, flash);
    Ok(Redirect::to(&back).into_response())
}

fn confirm<'a>(
    context: &'a PageContext,
    form: &'a Form,
    action: HostAction,
    hosts: &[&'a str],
    back: &'a str,
) -> Confirmation<'a> {
    let preview = |host: &&str| {
        let text = match action {
            HostAction::Drain => preview_drain(context, host),
            HostAction::Activate => {
                "It becomes active. A drain in progress is canceled; moves in progress finish.".into()
            }
        };
        ((*host).to_owned(), text)
    };
    let (verb, label) = match action {
        HostAction::Drain => ("Drain", "Drain"),
        HostAction::Activate => ("Activate", "Activate"),
    };
    Confirmation {
        title: format!("{verb} {}?", join_names(hosts.iter().map(|host| (*host).to_owned()))),
        previews: hosts.iter().map(preview).collect(),
        action: "/portal/hosts",
        fields: [("act", form.text("act"))].into_iter().chain(hosts.iter().map(|host| ("host", *host))).collect(),
        label: label.into(),
        tone: ButtonStyle::Normal,
        back,
        csrf: &context.visitor.session.csrf,
    }
}

impl HostAction {
    async fn perform(self, actions: &Actions, host: &str) -> Result<(), Refusal> {
        let done = match self {
            HostAction::Drain => actions.drain_host(host, NewDrain::default()).await.map(drop),
            HostAction::Activate => actions.activate_host(host).await.map(drop),
        };
        done.map_err(Refusal::from)
    }
}
