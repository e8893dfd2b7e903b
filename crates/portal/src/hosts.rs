//! Hosts: which there are, registering one; one host with its machines by scope, what is done with it, what happened.

use std::collections::BTreeMap;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_core::{EventKind, Host, Machine, Operation, Request, ScopeId, Target};
use http::{Method, StatusCode};

use super::Portal;
use super::act::segment;
use super::action::{Actions, Button, Tone};
use super::field::{self, Field, Problems};
use super::machine::Facts;
use super::maintenance::operations_panel;
use super::page::{self, Drawn, Fragment, Look, Missing, Panel, Scene};
use super::preview::Oracle;
use super::visitor::Form;
use super::{history, overview, plan, sign_in, timeline, words};
use forewarn_access::Role;

const HERE: &str = "/hosts";

/// Hosts on the page; more are found by their name in the address.
const HOSTS_MAX: usize = 1000;

/// Machines of one host on its page.
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
struct Register<'a> {
    field: String,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "host_scope.html")]
struct OnHost {
    id: String,
    sort: String,
    scope: words::ScopeName,
    listening: bool,
    chips: Vec<(u32, overview::Chip)>,
}

pub fn draw_all(scene: &Scene, typed: &str, problems: &Problems) -> Drawn {
    let rows = scene.region().hosts().take(HOSTS_MAX).map(|host| row(scene, host)).collect();
    let field = Field::new("name", "Name", typed, problems).html();
    let form = Register { field, csrf: &scene.visitor.session.csrf, allowed: scene.visitor.may(Role::Owner) };
    let panel = Panel::new("hosts", "Hosts", rows)
        .or("No host is known. Register one, or name it when a machine is registered.");
    let register = Panel::new("register", "Register a host", Vec::new()).below(sign_in::rendered(&form).0);
    Drawn { title: "Hosts".into(), lead: String::new(), panels: vec![panel, register] }
}

fn row(scene: &Scene, host: &Host) -> Fragment {
    let region = scene.region();
    let machines = || region.machines_on(&host.name);
    let id = format!("host-{}", segment(&host.name));
    let row = HostRow {
        id: id.clone(),
        sort: host.name.to_string(),
        link: words::host_link(&host.name),
        machines: machines().count(),
        events: machines().filter(|machine| region.events_of(machine.id).next().is_some()).count(),
    };
    Fragment::of(id, host.name.to_string(), &row)
}

pub async fn draw_one(scene: &Scene, name: &str) -> Result<Drawn, Missing> {
    let region = scene.region();
    let host =
        region.host(name).ok_or_else(|| Missing(format!("There is no host '{name}'; it may have been removed.")))?;
    let here = words::host_href(name);
    let is_on = |machine: &Machine| machine.host.as_ref() == Some(&host.name);
    let names: Vec<(Option<u64>, &str)> =
        region.machines_on(&host.name).map(|machine| (Some(machine.scope.0), &*machine.name)).collect();
    let of_host = |event: &forewarn_core::Event| {
        event.resources.iter().any(|resource| region.machine(resource.machine).is_some_and(|machine| is_on(machine)))
    };
    let is_named = |row: &forewarn_store::HistoryRow| {
        row.machines.iter().any(|machine| names.contains(&(row.scope, machine.as_str())))
    };
    let lives = timeline::lives(scene, |_, event| of_host(event), is_named).await;
    let operations = region.operations().filter(|operation| is_of(operation, host));
    let panels = vec![
        Panel::one("facts", "Known", &facts(scene, host)),
        actions(scene, host, &here),
        machines(scene, host),
        operations_panel(scene, "Operations", operations).or("Nothing was asked for this host lately."),
        timeline::panel(scene, &lives),
        history::panel_of(scene, |row| is_named(row) || row.target.as_deref() == Some(name)).await,
    ];
    let lead = "<p class=\"crumbs\"><a href=\"/hosts\">Hosts</a> / Host</p>".to_owned();
    Ok(Drawn { title: name.to_owned(), lead, panels })
}

fn is_of(operation: &Operation, host: &Host) -> bool {
    match &operation.request {
        Request::Maintain { target, .. } | Request::Fail { target, .. } => *target == Target::Host(host.name.clone()),
        Request::Restart { .. }
        | Request::Redeploy { .. }
        | Request::PerformMaintenance { .. }
        | Request::Evict { .. }
        | Request::Delete { .. } => false,
    }
}

fn facts(scene: &Scene, host: &Host) -> Facts {
    let region = scene.region();
    let machines = || region.machines_on(&host.name);
    let scopes: std::collections::BTreeSet<ScopeId> = machines().map(|machine| machine.scope).collect();
    let on = scopes.iter().filter(|scope| region.is_on(**scope)).count();
    Facts {
        facts: vec![
            ("Machines", machines().count().to_string()),
            ("Documents", format!("{}, {on} listened to", scopes.len())),
        ],
    }
}

fn actions(scene: &Scene, host: &Host, here: &str) -> Panel {
    let is_empty = scene.region().machines_on(&host.name).next().is_none();
    if is_empty {
        let told = format!("{} is forgotten. No machine is on it.", words::escaped(&host.name));
        let remove = Button::new("remove-host", "Remove", told, Role::Owner, Tone::Danger);
        return Actions::new(scene, &*host.name, HERE).button(remove).panel();
    }
    let fails = |act, label, kind| {
        Button::new(act, label, Oracle::of(scene).host_failure(host, kind), Role::Owner, Tone::Danger)
    };
    Actions::new(scene, &*host.name, here)
        .link("plan", "Plan maintenance", &plan::prefilled("host", &host.name))
        .button(fails("fail-host", "Hardware failure: restart", EventKind::Reboot))
        .button(fails("lose-host", "Hardware failure: another host", EventKind::Redeploy))
        .panel()
}

/// By the document that they share.
fn machines(scene: &Scene, host: &Host) -> Panel {
    let region = scene.region();
    let mut scopes: BTreeMap<ScopeId, Vec<&Machine>> = BTreeMap::new();
    for machine in region.machines_on(&host.name).take(MACHINES_MAX) {
        scopes.entry(machine.scope).or_default().push(machine);
    }
    let scopes = scopes.into_iter().filter_map(|(id, machines)| Some((region.scope(id)?, machines)));
    let shown = scopes.map(|(scope, machines)| {
        let (id, name) = (format!("scope-{}", scope.id.0), words::scope(region, scope));
        let on_host = OnHost {
            id: id.clone(),
            sort: name.name.clone(),
            listening: region.is_on(scope.id),
            chips: machines.iter().map(|machine| (machine.update_domain, overview::chip(region, machine))).collect(),
            scope: name,
        };
        Fragment::of(id, on_host.sort.clone(), &on_host)
    });
    Panel::new("machines", "Machines on it, by document", shown.collect()).or("No machine is on it.")
}

/// Registers a host.
pub async fn submit(State(service): State<Portal>, form: Form) -> Response {
    let name = form.text("name");
    let mut problems = Problems::default();
    let checked = field::name(name);
    if problems.take("name", checked).is_some() {
        match service.client(form.visitor.principal()).call(Method::PUT, &words::host_href(name), None).await {
            Ok(_) => return Redirect::to(&words::host_href(name)).into_response(),
            Err(refused) => problems.add("name", refused.message),
        }
    }
    let scene = Scene::now(&service, &form.visitor, Look::First);
    let drawn = draw_all(&scene, name, &problems);
    (StatusCode::UNPROCESSABLE_ENTITY, page::framed(&scene, HERE, &drawn, "")).into_response()
}
