//! The list of hosts with the registration form, and the page of a host: machines by event group, operations, timeline,
//! history; actions.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::{EventKind, Host, Machine, Operation, Request, ScopeId, Target};
use http::StatusCode;

use super::action::{Button, ButtonPanel, Tone};
use super::facts::Facts;
use super::field::{self, Field, Problems};
use super::fragment::Fragment;
use super::html::RenderMode;
use super::maintenance::render_operations;
use super::panel::{NotFound, PageContent, Panel};
use super::preview::Preview;
use super::scene::Scene;
use super::scope::{Chip, chip_of};
use super::visitor::Form;
use super::{Portal, address, frame, history, html, plan, timeline, words};
use forewarn_api::Action;

const HERE: &str = "/hosts";

/// Hosts per page. Others are reached by the name in the address.
const HOSTS_MAX: usize = 1000;

/// Machines per page.
const MACHINES_MAX: usize = 1000;

#[derive(Template)]
#[template(path = "host_row.html")]
struct HostRow {
    id: String,
    sort: String,
    link: String,
    machines: usize,
    events: usize,
}

#[derive(Template)]
#[template(path = "host_form.html")]
struct RegistrationForm<'a> {
    field: String,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "host_scope.html")]
struct HostScope {
    id: String,
    sort: String,
    scope: words::ScopeName,
    has_handler: bool,
    chips: Vec<(u32, Chip)>,
}

pub fn render_all(scene: &Scene, name: &str, problems: &Problems) -> PageContent {
    let rows = scene.region().hosts().take(HOSTS_MAX).map(|host| render_row(scene, host)).collect();
    let field = Field::new("name", "Name", name, problems).render();
    let form =
        RegistrationForm { field, csrf: &scene.visitor.session.csrf, allowed: scene.visitor.may(Action::RegisterHost) };
    let panel = Panel::new("hosts", "Hosts", rows)
        .or_empty_text("No hosts. Register one here, or name a host when you register a machine.");
    let register = Panel::new("register", "Register a host", Vec::new()).with_html_before(html::render(&form));
    PageContent { title: "Hosts".into(), lead: String::new(), panels: vec![panel, register] }
}

fn render_row(scene: &Scene, host: &Host) -> Fragment {
    let region = scene.region();
    let machines = || region.machines_on(&host.name);
    let id = format!("host-{}", address::encode_segment(&host.name));
    let row = HostRow {
        id: id.clone(),
        sort: host.name.to_string(),
        link: words::host_link(&host.name),
        machines: machines().count(),
        events: machines().filter(|machine| region.events_of(machine.id).next().is_some()).count(),
    };
    Fragment::render(id, host.name.to_string(), &row)
}

pub async fn render_one(scene: &Scene, name: &str) -> Result<PageContent, NotFound> {
    let region = scene.region();
    let host =
        region.host(name).ok_or_else(|| NotFound(format!("Host '{name}' does not exist or has been removed.")))?;
    let here = address::of_host(name);
    let is_on = |machine: &Machine| machine.host.as_ref() == Some(&host.name);
    let names: Vec<(Option<u64>, &str)> =
        region.machines_on(&host.name).map(|machine| (Some(machine.scope.0), &*machine.name)).collect();
    let of_host = |event: &forewarn_core::Event| {
        event.resources.iter().any(|resource| region.machine(resource.machine).is_some_and(|machine| is_on(machine)))
    };
    let is_named = |row: &forewarn_store::HistoryRow| {
        row.machines.iter().any(|machine| names.contains(&(row.scope, machine.as_str())))
    };
    let events = timeline::find_events(scene, |_, event| of_host(event), is_named).await;
    let operations = region.operations().filter(|operation| targets_host(operation, host));
    let panels = vec![
        Panel::with_content("facts", "Details", &list_facts(scene, host)),
        render_actions(scene, host, &here),
        render_machines(scene, host),
        render_operations(scene, "Operations", operations).or_empty_text("No recent operations."),
        timeline::render_panel(scene, &events),
        history::render_filtered_panel(scene, |row| is_named(row) || row.target.as_deref() == Some(name)).await,
    ];
    let lead = "<p class=\"crumbs\"><a href=\"/hosts\">Hosts</a> / Host</p>".to_owned();
    Ok(PageContent { title: name.to_owned(), lead, panels })
}

fn targets_host(operation: &Operation, host: &Host) -> bool {
    match &operation.request {
        Request::Maintain { target, .. } | Request::Fail { target, .. } => *target == Target::Host(host.name.clone()),
        Request::Drain(plan) => plan.host == host.name,
        Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::Delete { .. } => false,
    }
}

fn list_facts(scene: &Scene, host: &Host) -> Facts {
    let region = scene.region();
    let machines = || region.machines_on(&host.name);
    let scopes: std::collections::BTreeSet<ScopeId> = machines().map(|machine| machine.scope).collect();
    let on = scopes.iter().filter(|scope| region.is_on(**scope)).count();
    Facts {
        facts: vec![
            ("Machines", machines().count().to_string()),
            ("Event groups", format!("{}, {on} with a handler", scopes.len())),
        ],
    }
}

fn render_actions(scene: &Scene, host: &Host, here: &str) -> Panel {
    let is_empty = scene.region().machines_on(&host.name).next().is_none();
    if is_empty {
        let consequences = format!("{} is removed. It has no machines.", words::escape_html(&host.name));
        let remove = Button::new("remove-host", "Remove", consequences, Action::RemoveHost, Tone::Danger);
        return ButtonPanel::new(scene, &*host.name, HERE).button(remove).into_panel();
    }
    let fail = |act, label, kind| {
        Button::new(act, label, Preview::of(scene).describe_host_failure(host, kind), Action::Fail, Tone::Danger)
    };
    ButtonPanel::new(scene, &*host.name, here)
        .link("plan", "Plan maintenance", &plan::address_with("host", &host.name))
        .button(fail("fail-host", "Simulate host failure: restart", EventKind::Reboot))
        .button(fail("lose-host", "Simulate host failure: redeploy", EventKind::Redeploy))
        .into_panel()
}

/// Machines by event group.
fn render_machines(scene: &Scene, host: &Host) -> Panel {
    let region = scene.region();
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
            has_handler: region.is_on(scope.id),
            chips: machines.iter().map(|machine| (machine.update_domain, chip_of(region, machine))).collect(),
            scope: name,
        };
        Fragment::render(id, on_host.sort.clone(), &on_host)
    });
    Panel::new("machines", "Machines by event group", rows.collect()).or_empty_text("No machines on this host.")
}

/// Registers a host.
pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let name = form.text("name");
    let mut problems = Problems::default();
    if problems.take("name", field::parse_name(name)).is_some() {
        match portal.actions(form.visitor.principal()).register_host(name).await {
            Ok(_) => return Redirect::to(&address::of_host(name)).into_response(),
            Err(refused) => problems.add("name", refused.message),
        }
    }
    let scene = Scene::now(&portal, &form.visitor, RenderMode::Page);
    let content = render_all(&scene, name, &problems);
    (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&scene, HERE, &content, "")).into_response()
}
