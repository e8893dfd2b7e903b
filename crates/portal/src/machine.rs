//! The page of a machine: its state in one sentence, timeline, its document in any version, its metadata requests, details, history;
//! actions.

use askama::Template;
use forewarn_core::{EventKind, GroupKind, Guid, Machine, Membership, Power, Priority, Region, Status};
use forewarn_store::HistoryRow;
use forewarn_widgets::facts::Facts;
use forewarn_widgets::page_head::Sentence;
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::state::MachineState;
use forewarn_widgets::{address, json_text, words};
use forewarn_wire::guid;
use forewarn_wire::version::Version;

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::handler::{Handler, ScopeHandler};
use super::page_context::PageContext;
use super::{history, machine_host, policy, timeline};
use forewarn_api::Action;
use forewarn_metadata::render_document;
use forewarn_previews::plan;
use forewarn_previews::preview::{MachineAction, is_unapproved};
use forewarn_render::render_machine;

/// Metadata requests per page, newest first.
const REQUESTS_SHOWN: usize = 12;

#[derive(Template)]
#[template(path = "document.html")]
struct Document<'a> {
    here: &'a str,
    version: &'a str,
    versions: Vec<&'static str>,
    incarnation: u64,
    body: String,
}

#[derive(Template)]
#[template(path = "requests.html")]
struct RequestList {
    summary: String,
    rows: Vec<RequestRow>,
}

struct RequestRow {
    at: String,
    method: String,
    path: String,
    version: String,
    status: String,
    class: &'static str,
}

pub async fn render(context: &PageContext, vm_id: Guid, version: Version) -> Result<PageContent, NotFound> {
    let region = context.region();
    let machine = region.machine_by_vm_id(vm_id).and_then(|id| region.machine(id));
    let machine = machine.ok_or_else(|| NotFound("This machine does not exist or has been deleted.".into()))?;
    let href = address::of_machine(machine);
    let id = machine.id;
    let of_machine = |event: &forewarn_core::Event| event.resources.iter().any(|resource| resource.machine == id);
    let name = machine.name.to_string();
    let is_named = |row: &HistoryRow| row.scope == Some(machine.scope.0) && row.machines.contains(&name);
    let events = timeline::find_events(context, |_, event| of_machine(event), is_named).await;
    let mut panels = vec![
        describe_state(context, machine).into_panel(),
        render_actions(context, machine, &href).without_frame(),
        timeline::render_panel(context, &events),
        Panel::with_content("document", "Scheduled Events document", &build_document(context, machine, version, &href)),
        Panel::with_content("requests", "Metadata requests", &list_requests(context, machine)),
        Panel::with_content("facts", "Details", &list_facts(context, machine)),
        history::render_machine_panel(context, machine, &href).await,
    ];
    panels.push(machine_host::render_panel(context, machine, &href));
    if machine.membership == Membership::Standalone {
        let target = guid::Lower(machine.vm_id.0).to_string();
        panels.push(policy::render_panel(context, "machine-policy", "", &target, &region.policy_of(machine), &href));
    }
    Ok(PageContent::new(name, panels).with_lead(render_lead(region, machine)))
}

fn render_lead(region: &Region, machine: &Machine) -> String {
    let mut facts = Vec::new();
    facts.extend(machine.host.as_ref().map(|host| format!("On host {}", words::host_link(host))));
    facts.push(format!("Update domain <b>{}</b>, fault domain <b>{}</b>", machine.update_domain, machine.fault_domain));
    facts.extend(machine.addresses.first().map(|address| words::escape_html(address.ip)));
    if machine.priority == Priority::Spot {
        facts.push("Spot".into());
    }
    let facts: Vec<String> = facts.iter().map(|fact| format!("<span>{fact}</span>")).collect();
    let crumbs =
        format!(r#"<p class="crumbs"><a href="/machines">Machines</a> / {}</p>"#, render_parent(region, machine));
    format!(r#"{crumbs}<p class="head-facts">{}</p>"#, facts.join(" "))
}

/// The state in one sentence: what happens to the machine now and next, and whether its handler is ready.
fn describe_state(context: &PageContext, machine: &Machine) -> Sentence {
    let region = context.region();
    let handler = Handler::of(context, machine.id);
    let state = MachineState::of(region, machine);
    let mut parts = vec![format!(r#"<span class="{}">{}</span>"#, state.color(), state.as_str())];
    let scheduled = region.events_of(machine.id).filter(|event| event.status == Status::Scheduled);
    match scheduled.min_by_key(|event| event.not_before) {
        Some(event) => {
            parts.push(format!(
                r#"<span class="amber">{} {}</span>"#,
                describe_next(event.kind),
                words::countdown_at(event.not_before)
            ));
            let has_read = handler.last_poll().is_some_and(|at| at >= event.appeared);
            parts.push(match (event.is_shown(), event.approval.is_some(), has_read) {
                (false, _, _) => "no handler, not notified".into(),
                (true, true, _) => r#"<span class="green">ready</span>"#.into(),
                (true, false, true) => "handler has read it, not ready".into(),
                (true, false, false) => "handler has not read it".into(),
            });
        }
        None => parts.push(match (region.is_on(machine.scope), handler.is_polling) {
            (_, true) => r#"<span class="q">handler polls</span>"#.into(),
            (true, false) => r#"<span class="amber">handler of this machine does not poll</span>"#.into(),
            (false, false) => r#"<span class="amber">no handler, so events come without notice</span>"#.into(),
        }),
    }
    Sentence::of(parts)
}

fn describe_next(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Freeze => "pauses",
        EventKind::Reboot => "restarts",
        EventKind::Redeploy => "moves to another host",
        EventKind::Preempt => "is evicted",
        EventKind::Terminate => "is deleted",
        EventKind::SpotRebalanceRecommendation => "rebalance recommended",
    }
}

/// The group or resource group of a machine.
fn render_parent(region: &Region, machine: &Machine) -> String {
    match machine.membership.group().and_then(|group| region.group(group)) {
        Some(group) => format!(r#"<a href="/groups/{}">{}</a>"#, group.id.0, words::escape_html(&group.name)),
        None => words::escape_html(&machine.home.resource_group),
    }
}

/// Whether an instance has the latest model of its scale set. `None` for other machines.
fn has_latest_model(region: &Region, machine: &Machine) -> Option<bool> {
    match &region.group(machine.membership.group()?)?.kind {
        GroupKind::ScaleSet(set) => Some(machine.model == set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

fn describe_power(region: &Region, machine: &Machine) -> String {
    let power = words::power(machine.power);
    let change = render_machine(region, machine).power_change;
    change.map_or(power.into(), |change| format!("{power}, {}", change.describe()))
}

fn list_facts(context: &PageContext, machine: &Machine) -> Facts {
    let region = context.region();
    let plain = |text: &str| words::escape_html(text);
    let handler = format!("{} in its event group", ScopeHandler::of(context, machine.scope).as_str());
    let mut facts = vec![
        ("Power", plain(&describe_power(region, machine))),
        ("Handler", plain(&handler)),
        ("vmId", format!("<code>{}</code>", guid::Lower(machine.vm_id.0))),
        ("Resource group", plain(&machine.home.resource_group)),
        ("Subscription", format!("<code>{}</code>", plain(&machine.home.subscription))),
        (
            "Priority",
            match machine.priority {
                Priority::Regular => "Regular".into(),
                Priority::Spot => "Spot".into(),
            },
        ),
        ("Terminate notification", plain(&words::notification(machine.terminate.as_deref()))),
    ];
    facts.extend(machine.zone.as_ref().map(|zone| ("Zone", plain(zone))));
    if let Some(newest) = has_latest_model(region, machine) {
        let text = if newest { "latest" } else { "outdated: upgrade it on the page of its scale set" };
        facts.push(("Model", text.into()));
        facts.push(("Protected from scale-in", if machine.protected { "yes" } else { "no" }.into()));
    }
    let addresses: Vec<String> =
        machine.addresses.iter().map(|address| format!("{} ({})", address.ip, address.network)).collect();
    if !addresses.is_empty() {
        facts.push(("Addresses", plain(&addresses.join(", "))));
    }
    Facts { facts }
}

fn render_actions(context: &PageContext, machine: &Machine, back: &str) -> Panel {
    let preview = context.preview();
    let button = |act, label, action, needs, tone| {
        Button::new(act, label, preview.describe_action(machine, action), needs, tone)
    };
    let rare = |act, label, action, needs, tone| button(act, label, action, needs, tone).under_more();
    let plan = plan::address_with("machine", &plan::target_name(context.region(), machine));
    let mut actions = ButtonPanel::new(context, guid::Lower(machine.vm_id.0).to_string(), back);
    let waiting = context.region().events_of(machine.id).filter(|event| is_unapproved(event));
    if let Some(event) = waiting.min_by_key(|event| event.not_before) {
        let text = preview.describe_approval(event);
        let approve = Button::new("approve", "Approve", text, Action::ApproveEvents, ButtonStyle::Normal);
        actions = actions.button_for(&words::event_name(event.id), approve);
    }
    let is_stopping = machine.pending_power().is_some_and(|change| change.to != Power::Running);
    if machine.power != Power::Running || is_stopping {
        actions =
            actions.button(button("start", "Start", MachineAction::Start, Action::StartMachine, ButtonStyle::Primary));
    }
    actions = actions
        .button(button("restart", "Restart", MachineAction::Restart, Action::RestartMachine, ButtonStyle::Normal))
        .button(button("redeploy", "Redeploy", MachineAction::Redeploy, Action::RedeployMachine, ButtonStyle::Normal))
        .link("plan", "Plan maintenance", &plan, Action::StartMaintenance)
        .button(rare(
            "perform-maintenance",
            "Perform maintenance",
            MachineAction::PerformMaintenance,
            Action::PerformMaintenance,
            ButtonStyle::Normal,
        ));
    if machine.priority == Priority::Spot {
        actions =
            actions.button(rare("evict", "Evict", MachineAction::Evict, Action::EvictMachine, ButtonStyle::Danger));
        // Guests see it only in the preview version of the document.
        if context.portal.endpoint().serves_preview {
            actions = actions.button(rare(
                "recommend-rebalance",
                "Recommend rebalance",
                MachineAction::RecommendRebalance,
                Action::RecommendRebalance,
                ButtonStyle::Normal,
            ));
        }
    }
    if machine.power == Power::Running {
        actions = actions.button(rare("stop", "Stop", MachineAction::Stop, Action::StopMachine, ButtonStyle::Danger));
    }
    if machine.power != Power::Deallocated {
        let deallocate = MachineAction::Deallocate;
        actions = actions.button(rare(
            "deallocate",
            "Deallocate",
            deallocate,
            Action::DeallocateMachine,
            ButtonStyle::Danger,
        ));
    }
    actions
        .button(rare(
            "fail",
            "Simulate host failure: restart",
            MachineAction::Fail(EventKind::Reboot),
            Action::Fail,
            ButtonStyle::Danger,
        ))
        .button(rare(
            "lose",
            "Simulate host failure: redeploy",
            MachineAction::Fail(EventKind::Redeploy),
            Action::Fail,
            ButtonStyle::Danger,
        ))
        .button(rare("delete-machine", "Delete", MachineAction::Delete, Action::DeleteMachine, ButtonStyle::Danger))
        .into_panel()
}

fn build_document<'a>(context: &PageContext, machine: &Machine, version: Version, here: &'a str) -> Document<'a> {
    let region = context.region();
    let (incarnation, body) = match region.scope(machine.scope) {
        Some(scope) => {
            let body = render_document(context.portal.names(), region, scope, version);
            (scope.incarnation, json_text::format_json(&String::from_utf8_lossy(&body)))
        }
        None => (0, String::new()),
    };
    Document {
        here,
        version: version.as_str(),
        versions: Version::ALL.iter().rev().map(|version| version.as_str()).collect(),
        incarnation,
        body,
    }
}

fn list_requests(context: &PageContext, machine: &Machine) -> RequestList {
    let log = context.portal.endpoint().requests.log_of(machine.id, 0);
    let summary = Handler::of(context, machine.id).describe();
    let row = |seen: &forewarn_metadata::requests::RequestSeen| RequestRow {
        at: words::time(seen.at),
        method: seen.method.clone(),
        path: seen.path.clone(),
        version: seen.version.clone().unwrap_or_default(),
        status: seen.status.map_or("no response".into(), |status| status.to_string()),
        class: if seen.status.is_some_and(|status| status < 400) { "good" } else { "bad" },
    };
    RequestList { summary, rows: log.requests.iter().rev().take(REQUESTS_SHOWN).map(row).collect() }
}
