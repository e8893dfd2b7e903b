//! One machine: everything known, its document in any version, what it asked lately, what happened to it, and what
//! can be done.

use askama::Template;
use forewarn_core::{EventKind, GroupKind, Guid, Machine, Power, Priority, Region, Seat};
use forewarn_store::HistoryRow;
use forewarn_wire::guid;
use forewarn_wire::version::Version;

use super::action::{Actions, Button, Tone};
use super::page::{Drawn, Missing, Panel, Scene};
use super::preview::{Asked, Oracle};
use super::{history, plan, policy, timeline, words};
use forewarn_access::Role;
use forewarn_api_types::span::span_text;
use forewarn_metadata::render_document;

/// Requests on a page, newest first.
const REQUESTS_SHOWN: usize = 12;

#[derive(Template)]
#[template(path = "facts.html")]
pub struct Facts {
    /// Label and HTML.
    pub facts: Vec<(&'static str, String)>,
}

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
struct Requests {
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

pub async fn draw(scene: &Scene, vm_id: Guid, version: Version) -> Result<Drawn, Missing> {
    let region = scene.region();
    let machine = region.machine_by_vm_id(vm_id).and_then(|id| region.machine(id));
    let machine = machine.ok_or_else(|| {
        Missing("There is no such machine; it may have been deleted. The overview shows which there are.".into())
    })?;
    let href = words::machine_href(machine);
    let id = machine.id;
    let of_machine = |event: &forewarn_core::Event| event.resources.iter().any(|resource| resource.machine == id);
    let name = machine.name.to_string();
    let is_named = |row: &HistoryRow| row.scope == Some(machine.scope.0) && row.machines.contains(&name);
    let lives = timeline::lives(scene, |_, event| of_machine(event), is_named).await;
    let mut panels = vec![
        Panel::one("facts", "Known", &facts(region, machine)),
        actions(scene, machine, &href),
        timeline::panel(scene, &lives),
        Panel::one("document", "The document as it sees it", &document(scene, machine, version, &href)),
        Panel::one("requests", "Requests", &requests(scene, machine)),
        history::panel_of_machine(scene, machine).await,
    ];
    if machine.seat == Seat::Standalone {
        let target = guid::Lower(machine.vm_id.0).to_string();
        panels.insert(2, policy::panel(scene, "machine-policy", "", &target, &region.policy_of(machine), &href));
    }
    let lead = format!("<p class=\"crumbs\"><a href=\"/\">Overview</a> / {}</p>", home(region, machine));
    Ok(Drawn { title: name, lead, panels })
}

fn home(region: &Region, machine: &Machine) -> String {
    match machine.seat.group().and_then(|group| region.group(group)) {
        Some(group) => format!(r#"<a href="/groups/{}">{}</a>"#, group.id.0, words::escaped(&group.name)),
        None => words::escaped(&machine.home.resource_group),
    }
}

/// Of an instance of a scale set: whether it has the set's latest model.
fn newest_model(region: &Region, machine: &Machine) -> Option<bool> {
    match &region.group(machine.seat.group()?)?.kind {
        GroupKind::ScaleSet(set) => Some(machine.model == set.model_version),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    }
}

fn facts(region: &Region, machine: &Machine) -> Facts {
    let plain = |text: &str| words::escaped(text);
    let listening = if region.is_on(machine.scope) {
        "on: a machine of its scope asks for events"
    } else {
        "off: nobody in its scope asks, so it gets no notice"
    };
    let mut facts = vec![
        ("Power", plain(words::power(machine.power))),
        ("Events", plain(listening)),
        ("vmId", format!("<code>{}</code>", guid::Lower(machine.vm_id.0))),
        ("Resource group", plain(&machine.home.resource_group)),
        ("Subscription", format!("<code>{}</code>", plain(&machine.home.subscription))),
        ("Update domain", machine.update_domain.to_string()),
        ("Fault domain", machine.fault_domain.to_string()),
        (
            "Priority",
            match machine.priority {
                Priority::Regular => "Regular".into(),
                Priority::Spot => "Spot".into(),
            },
        ),
        ("Terminate notification", plain(&words::notification(machine.terminate.as_ref()))),
    ];
    facts.extend(machine.host.as_ref().map(|host| ("Host", words::host_link(host))));
    facts.extend(machine.zone.as_ref().map(|zone| ("Zone", plain(zone))));
    if let Some(newest) = newest_model(region, machine) {
        let text = if newest { "the latest" } else { "not the latest: upgrade it on the page of its set" };
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

fn actions(scene: &Scene, machine: &Machine, back: &str) -> Panel {
    let oracle = Oracle::of(scene);
    let button = |act, label, asked, needs, tone| Button::new(act, label, oracle.machine(machine, asked), needs, tone);
    let plan = plan::prefilled("machine", &plan::name_of(scene.region(), machine));
    let mut actions = Actions::new(scene, guid::Lower(machine.vm_id.0).to_string(), back)
        .button(button("restart", "Restart", Asked::Restart, Role::Operator, Tone::Calm))
        .button(button("redeploy", "Redeploy", Asked::Redeploy, Role::Operator, Tone::Calm))
        .button(button("perform-maintenance", "Perform maintenance", Asked::Maintenance, Role::Operator, Tone::Calm))
        .link("plan", "Plan maintenance", &plan);
    if machine.priority == Priority::Spot {
        actions = actions.button(button("evict", "Evict", Asked::Evict, Role::Owner, Tone::Danger));
    }
    actions = match machine.power {
        Power::Running => actions
            .button(button("stop", "Stop", Asked::Stop, Role::Owner, Tone::Danger))
            .button(button("deallocate", "Deallocate", Asked::Deallocate, Role::Owner, Tone::Danger)),
        Power::Stopped => actions
            .button(button("start", "Start", Asked::Start, Role::Owner, Tone::Calm))
            .button(button("deallocate", "Deallocate", Asked::Deallocate, Role::Owner, Tone::Danger)),
        Power::Deallocated => actions.button(button("start", "Start", Asked::Start, Role::Owner, Tone::Calm)),
    };
    actions
        .button(button("fail", "Hardware failure: restart", Asked::Fail(EventKind::Reboot), Role::Owner, Tone::Danger))
        .button(button(
            "lose",
            "Hardware failure: another host",
            Asked::Fail(EventKind::Redeploy),
            Role::Owner,
            Tone::Danger,
        ))
        .button(button("delete-machine", "Delete", Asked::Delete, Role::Owner, Tone::Danger))
        .panel()
}

fn document<'a>(scene: &Scene, machine: &Machine, version: Version, here: &'a str) -> Document<'a> {
    let region = scene.region();
    let (incarnation, body) = match region.scope(machine.scope) {
        Some(scope) => {
            let body = render_document(scene.service.names(), region, scope, version);
            (scope.incarnation, String::from_utf8_lossy(&body).into_owned())
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

fn requests(scene: &Scene, machine: &Machine) -> Requests {
    let log = scene.service.endpoint().requests.log_of(machine.id, 0);
    let summary = match (log.summary.last_poll, log.summary.first_poll) {
        (Some(last), Some(first)) => {
            let often =
                log.summary.interval_median.filter(|span| span.as_millis() >= 100).map_or_else(String::new, |span| {
                    let span = std::time::Duration::from_millis(span.as_millis() as u64 / 100 * 100);
                    format!(", most often every {}", span_text(span))
                });
            format!(
                "Its handler polls: {} times since {}{often}; the last one {}.",
                log.summary.polls,
                words::time(first),
                words::time(last)
            )
        }
        _ => "It has not asked for its document since the server started: no handler polls.".into(),
    };
    let row = |seen: &forewarn_metadata::requests::RequestSeen| RequestRow {
        at: words::time(seen.at),
        method: seen.method.clone(),
        path: seen.path.clone(),
        version: seen.version.clone().unwrap_or_default(),
        status: seen.status.map_or("no answer".into(), |status| status.to_string()),
        class: if seen.status.is_some_and(|status| status < 400) { "good" } else { "bad" },
    };
    Requests { summary, rows: log.requests.iter().rev().take(REQUESTS_SHOWN).map(row).collect() }
}
