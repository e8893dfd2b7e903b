//! One machine: everything known, its document in any version, what it asked lately, what happened to it, and what
//! can be done.

use askama::Template;
use forewarn_core::{Guid, Machine, Power, Priority, Region};
use forewarn_store::{HistoryQuery, HistoryRow};
use forewarn_wire::guid;
use forewarn_wire::version::Version;

use super::foretell::{self, Asked};
use super::page::{Drawn, Fragment, Missing, Panel, Scene};
use super::{timeline, words};
use crate::identity::Role;
use crate::metadata::Documents;
use crate::span::span_text;

/// Rows of history on a page, newest first.
const HISTORY_ROWS: u32 = 50;

/// Requests on a page, newest first.
const REQUESTS_SHOWN: usize = 12;

/// What a button does, and what is said before it does it.
#[derive(Template)]
#[template(path = "action.html")]
pub struct Action<'a> {
    pub act: &'static str,
    pub target: &'a str,
    pub label: &'static str,
    /// HTML.
    pub foretold: String,
    /// Whether the visitor may.
    pub allowed: bool,
    pub needs: Role,
    pub danger: bool,
    pub csrf: &'a str,
    pub back: &'a str,
}

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

#[derive(Template)]
#[template(path = "history.html")]
pub struct HistoryLine {
    pub id: String,
    pub sort: String,
    pub at: String,
    pub kind: String,
    pub what: String,
    pub event: Option<String>,
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
    let lives = timeline::lives(scene, |_, event| of_machine(event), |row| row.machines.contains(&name)).await;
    let history = HistoryQuery { machine: Some(name.clone()), ..HistoryQuery::default() };
    let panels = vec![
        Panel::one("facts", "Known", &facts(region, machine)),
        actions(scene, machine, &href),
        timeline::panel(scene, &lives),
        Panel::one("document", "The document as it sees it", &document(scene, machine, version, &href)),
        Panel::one("requests", "Requests", &requests(scene, machine)),
        history_panel(scene, history).await,
    ];
    let lead = format!("<p class=\"crumbs\"><a href=\"/\">Overview</a> / {}</p>", home(region, machine));
    Ok(Drawn { title: name, lead, panels })
}

fn home(region: &Region, machine: &Machine) -> String {
    match machine.seat.group().and_then(|group| region.group(group)) {
        Some(group) => format!(r#"<a href="/groups/{}">{}</a>"#, group.id.0, words::escaped(&group.name)),
        None => words::escaped(&machine.home.resource_group),
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
        ("Terminate notification", machine.terminate.as_ref().map_or("off".into(), |profile| plain(&profile.text))),
    ];
    facts.extend(machine.host.as_ref().map(|host| ("Host", plain(host))));
    facts.extend(machine.zone.as_ref().map(|zone| ("Zone", plain(zone))));
    let addresses: Vec<String> =
        machine.addresses.iter().map(|address| format!("{} ({})", address.ip, address.network)).collect();
    if !addresses.is_empty() {
        facts.push(("Addresses", plain(&addresses.join(", "))));
    }
    Facts { facts }
}

fn actions(scene: &Scene, machine: &Machine, back: &str) -> Panel {
    let region = scene.region();
    let target = guid::Lower(machine.vm_id.0).to_string();
    let csrf = &scene.visitor.session.csrf;
    let fragment = |order: usize, act, label, foretold, needs, danger| {
        let allowed = scene.visitor.may(needs);
        let action = Action { act, target: &target, label, foretold, allowed, needs, danger, csrf, back };
        Fragment::of(format!("do-{act}"), format!("{order:02}"), &action)
    };
    let told = |asked| foretell::one(region, machine, asked, scene.now);
    let mut fragments = vec![
        fragment(0, "restart", "Restart", told(Asked::Restart), Role::Operator, false),
        fragment(1, "redeploy", "Redeploy", told(Asked::Redeploy), Role::Operator, false),
        fragment(2, "perform-maintenance", "Perform maintenance", told(Asked::Maintenance), Role::Operator, false),
    ];
    if machine.priority == Priority::Spot {
        fragments.push(fragment(3, "evict", "Evict", told(Asked::Evict), Role::Owner, true));
    }
    let name = words::escaped(&machine.name);
    match machine.power {
        Power::Running => fragments.push(fragment(
            4,
            "stop",
            "Stop",
            format!("{name} is switched off at once. No event comes of it."),
            Role::Owner,
            true,
        )),
        Power::Stopped | Power::Deallocated => {
            fragments.push(fragment(4, "start", "Start", format!("{name} is switched on."), Role::Owner, false));
        }
    }
    fragments.push(fragment(5, "delete-machine", "Delete", told(Asked::Delete), Role::Owner, true));
    Panel::new("actions", "Actions", fragments)
}

fn document<'a>(scene: &Scene, machine: &Machine, version: Version, here: &'a str) -> Document<'a> {
    let region = scene.region();
    let (incarnation, body) = match region.scope(machine.scope) {
        Some(scope) => {
            let rendered = Documents::new(scene.service.names()).get(region, scope, version);
            (rendered.incarnation, String::from_utf8_lossy(&rendered.body).into_owned())
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
    let log = scene.service.engine().request_log_of(machine.id, 0);
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
    let row = |seen: &crate::requests::RequestSeen| RequestRow {
        at: words::time(seen.at),
        method: seen.method.clone(),
        path: seen.path.clone(),
        version: seen.version.clone().unwrap_or_default(),
        status: seen.status.map_or("no answer".into(), |status| status.to_string()),
        class: if seen.status.is_some_and(|status| status < 400) { "good" } else { "bad" },
    };
    Requests { summary, rows: log.requests.iter().rev().take(REQUESTS_SHOWN).map(row).collect() }
}

pub async fn history_panel(scene: &Scene, query: HistoryQuery) -> Panel {
    let query = HistoryQuery { newest: true, limit: Some(HISTORY_ROWS), ..query };
    let rows = scene.service.engine().history(query).await.unwrap_or_else(|error| {
        tracing::error!(%error, "history cannot be read");
        Vec::new()
    });
    let fragments = rows.iter().map(history_line).collect();
    Panel::new("history", "History", fragments).or("Nothing has happened yet.")
}

fn history_line(row: &HistoryRow) -> Fragment {
    let actor = row.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
    let machines = words::few(&row.machines);
    let outcome = row.outcome.as_deref().unwrap_or_default();
    let what = match row.kind.as_str() {
        "appeared" => format!("{outcome} appeared for {machines}"),
        "approved" => format!("approved{actor}"),
        "started" => format!("started on {machines}"),
        "ended" => format!("ended: {outcome}{actor}"),
        "audit" => format!("{outcome} of {}{actor}", row.target.as_deref().unwrap_or_default()),
        "operation-ended" => format!("operation {outcome}"),
        other => format!("{} {machines}", other.replace('-', " ")),
    };
    let sort = format!("{:016}", u64::MAX - row.number);
    let id = format!("row-{}", row.number);
    let line = HistoryLine {
        id: id.clone(),
        sort: sort.clone(),
        at: words::time(row.at),
        kind: row.kind.clone(),
        what,
        event: row.event.map(words::event_name),
    };
    Fragment::of(id, sort, &line)
}
