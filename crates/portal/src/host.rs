//! The page of a host: state, machines by event group, operations, timeline, history; drain, activate, plan a rollout, simulated
//! failure, removal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_api_types::{Fencing, count_of};
use forewarn_core::{
    Contact, Event, EventId, EventKind, Host, HostState, Machine, MachineId, Resource, ScopeId, Status,
};
use forewarn_widgets::chip::{Chip, chip_of};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::page_head::Sentence;
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::state::MachineState;
use forewarn_widgets::{address, words};

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::activities;
use super::handler::{self, ScopeHandler};
use super::history::{self, HistorySearch};
use super::maintenance::render_operations;
use super::operation_lanes::{self, LaneView};
use super::page_context::PageContext;
use super::timeline::EventTimeline;
use super::unready::Unready;
use super::{fencing, host_selection};
use forewarn_api::Action;
use forewarn_previews::plan;
use forewarn_render::name_rollout;
use forewarn_store::HistoryQuery;
use forewarn_widgets::activity::ActivityId;

/// Machines per page.
const MACHINES_MAX: usize = 1000;

#[derive(Template)]
#[template(path = "host_scope.html")]
struct HostScope {
    id: String,
    sort: String,
    scope: words::ScopeName,
    handler: ScopeHandler,
    chips: Vec<(u32, Chip)>,
}

pub async fn render(context: &PageContext, name: &str, query: &PageQuery) -> Result<PageContent, NotFound> {
    let region = context.region();
    let host =
        region.host(name).ok_or_else(|| NotFound(format!("Host '{name}' does not exist or has been removed.")))?;
    let here = address::of_host(name);
    let is_on = |machine: &Machine| machine.host.as_ref() == Some(&host.name);
    let names: Vec<(Option<u64>, &str)> =
        region.machines_on(&host.name).map(|machine| (Some(machine.scope.0), &*machine.name)).collect();
    let is_of_host = |event: &EventTimeline| {
        event.machines.iter().any(|id| region.machine(*id).is_some_and(|machine| is_on(machine)))
    };
    let is_named = |row: &forewarn_store::HistoryRow| {
        row.machines.iter().any(|machine| names.contains(&(row.scope, machine.as_str())))
    };
    let view = LaneView::of(context, query, &here);
    let owner = region.rollout_of_host(&host.name).map(|rollout| rollout.id);
    let activities = activities::collect_some(context, view.window.begin(), owner, is_of_host).await;
    let operations = region.operations().filter(|operation| operation.request.host() == Some(&host.name));
    let fencing = fencing::find(context, host).await;
    let scopes: BTreeSet<Option<u64>> = names.iter().map(|(scope, _)| *scope).collect();
    let search = HistorySearch {
        indexed: Some(HistoryQuery { target: Some(name.to_owned()), ..HistoryQuery::default() }),
        scanned: (!scopes.is_empty())
            .then(|| HistoryQuery { scopes: scopes.into_iter().collect(), ..HistoryQuery::default() }),
        is_wanted: is_named,
        here: &here,
        query,
    };
    let panels = vec![
        describe_state(context, host, fencing.as_ref()).into_panel(),
        render_actions(context, host, &here).without_frame(),
        render_machines(context, host),
        render_operations(context, "Operations", operations).or_empty_text("No recent operations."),
        operation_lanes::render_operation_lanes(context, &activities, query, view),
        Panel::with_content("facts", "Details", &list_facts(context, host, fencing.as_ref())),
        history::render_search_panel(context, &search).await,
    ];
    let lead = "<p class=\"crumbs\"><a href=\"/hosts\">Hosts</a> / Host</p>".to_owned();
    Ok(PageContent { title: name.to_owned(), lead, panels, aside: Vec::new() })
}

/// The state in one sentence: of the host, what happens to its machines now and next, and which of them are not ready.
fn describe_state(context: &PageContext, host: &Host, fencing: Option<&Fencing>) -> Sentence {
    let region = context.region();
    let machines: Vec<&Arc<Machine>> = region.machines_on(&host.name).collect();
    let condition = HostCondition::of(host, &region.failing_hosts());
    let down = machines.iter().filter(|machine| MachineState::of(region, machine).is_down()).count();
    let mut parts = vec![
        format!(r#"<span class="{}">{}</span>"#, condition.color(), condition.as_str()),
        fencing.map_or_else(String::new, fencing::render),
        count_of(machines.len(), "machine"),
    ];
    if down > 0 {
        parts.push(format!(r#"<span class="red">{down} down</span>"#));
    }
    match describe_next(context, &machines) {
        Some(next) => parts.extend(next),
        None if down > 0 => {}
        None => parts.push(r#"<span class="q">no events scheduled</span>"#.into()),
    }
    if let Some(rollout) = region.rollout_of_host(&host.name) {
        parts.push(format!(
            r#"part of <a href="{}">{}</a>"#,
            ActivityId::Rollout(rollout.id).href(),
            words::escape_html(name_rollout(region, rollout))
        ));
    }
    Sentence::of(parts)
}

/// The next event of the machines of a host, and those that are not ready for it. `None` if no event is scheduled.
fn describe_next(context: &PageContext, machines: &[&Arc<Machine>]) -> Option<[String; 2]> {
    let region = context.region();
    let scheduled =
        |machine: &&Arc<Machine>| region.events_of(machine.id).filter(|event| event.status == Status::Scheduled);
    let first = machines.iter().flat_map(scheduled).min_by_key(|event| event.not_before)?;
    let is_next = |event: &&Arc<Event>| (event.kind, event.not_before) == (first.kind, first.not_before);
    let events: BTreeMap<EventId, &Arc<Event>> =
        machines.iter().flat_map(scheduled).filter(is_next).map(|event| (event.id, event)).collect();
    let here: BTreeSet<MachineId> = machines.iter().map(|machine| machine.id).collect();
    let is_here = |resource: &Resource| here.contains(&resource.machine);
    let resources = events.values().flat_map(|event| event.resources.iter()).filter(|resource| is_here(resource));
    let affected: BTreeSet<MachineId> = resources.map(|resource| resource.machine).collect();
    let of_all = match affected.len() {
        affected if affected < machines.len() => format!(" of {affected} of {}", count_of(machines.len(), "machine")),
        _ => String::new(),
    };
    let (kind, when) = (words::event_kind(first.kind), words::countdown_at(first.not_before));
    let readiness = match first.kind.has_impact() {
        true => Unready::of(context, events.into_values(), is_here).render(),
        false => String::new(),
    };
    Some([format!(r#"<span class="amber">{kind}{of_all} {when}</span>"#), readiness])
}

fn list_facts(context: &PageContext, host: &Host, fencing: Option<&Fencing>) -> Facts {
    let region = context.region();
    let machines = || region.machines_on(&host.name);
    let scopes: std::collections::BTreeSet<ScopeId> = machines().map(|machine| machine.scope).collect();
    Facts {
        facts: vec![
            (
                "State",
                HostCondition::of(host, &region.failing_hosts()).render()
                    + &fencing.map_or_else(String::new, fencing::render_note),
            ),
            ("Pool", words::escape_html(&host.pool)),
            ("Memory", host.memory_mib.map_or_else(|| "not limited".into(), |mib| format!("{mib} MiB"))),
            ("Agent", describe_contact(host.contact)),
            ("Machines", machines().count().to_string()),
            ("Event groups", handler::count_scopes(context, scopes.into_iter())),
        ],
    }
}

fn describe_contact(contact: Contact) -> String {
    match contact {
        Contact::None => "none".into(),
        Contact::Confirmed { .. } => "connected".into(),
        Contact::Lost { since, .. } => format!("unreachable since {}", words::time(since)),
    }
}

fn render_actions(context: &PageContext, host: &Host, here: &str) -> Panel {
    let is_empty = context.region().machines_on(&host.name).next().is_none();
    let name = words::escape_html(&host.name);
    let fail = |act, label, kind| {
        Button::new(act, label, context.preview().describe_host_failure(host, kind), Action::Fail, ButtonStyle::Danger)
    };
    let mut actions = ButtonPanel::new(context, &*host.name, here);
    if !is_empty && host.state == HostState::Active {
        let href = format!("/rollouts/plan?hosts={}", address::encode_segment(&host.name));
        actions = actions
            .button(Button::new(
                "drain-host",
                "Drain host",
                host_selection::preview_drain(context, &host.name),
                Action::DrainHost,
                ButtonStyle::Primary,
            ))
            .link("rollout", "Plan a rollout", &href, Action::StartRollout);
    }
    if host.state != HostState::Active {
        let consequences = match host.state {
            HostState::Draining => format!("The drain of {name} is canceled. Moves in progress finish."),
            HostState::Drained | HostState::Failed | HostState::Active => {
                format!("{name} becomes active, and machines can be placed on it.")
            }
        };
        actions = actions.button(Button::new(
            "activate-host",
            "Activate",
            consequences,
            Action::ActivateHost,
            ButtonStyle::Primary,
        ));
    }
    if is_empty {
        let consequences = format!("{name} is removed. It has no machines.");
        return actions
            .button(Button::new("remove-host", "Remove", consequences, Action::RemoveHost, ButtonStyle::Danger))
            .into_panel();
    }
    actions
        .link("plan", "Plan maintenance", &plan::address_with("host", &host.name), Action::StartMaintenance)
        .button(fail("fail-host", "Simulate host failure: restart", EventKind::Reboot).under_more())
        .button(fail("lose-host", "Simulate host failure: redeploy", EventKind::Redeploy).under_more())
        .into_panel()
}

/// Machines by event group.
fn render_machines(context: &PageContext, host: &Host) -> Panel {
    let region = context.region();
    let mut scopes: BTreeMap<ScopeId, Vec<&Machine>> = BTreeMap::new();
    for machine in region.machines_on(&host.name).take(MACHINES_MAX) {
        scopes.entry(machine.scope).or_default().push(machine);
    }
    let scopes = scopes.into_iter().filter_map(|(id, machines)| Some((region.scope(id)?, machines)));
    let rows = scopes.map(|(scope, machines)| {
        let (id, name) = (format!("scope-{}", scope.id.0), words::scope(region, scope));
        let on_host = HostScope {
            id: id.clone(),
            sort: name.name.clone(),
            handler: ScopeHandler::of(context, scope.id),
            chips: machines.iter().map(|machine| (machine.update_domain, chip_of(region, machine))).collect(),
            scope: name,
        };
        Fragment::render(id, on_host.sort.clone(), &on_host)
    });
    Panel::new("machines", "Machines by event group", rows.collect()).or_empty_text("No machines on this host.")
}
