//! The status sentence of the overview: how many machines are down, how many will be soon, and where; with side facts.

use std::collections::BTreeMap;

use askama::Template;
use forewarn_core::{Contact, HostState, MachineId, Region};

use super::activity::Activity;
use super::attention::SOON;
use super::fleet::{self, FleetGroup};
use super::panel::Panel;
use super::scene::Scene;
use super::timeline::Stage;
use super::words;

#[derive(Template)]
#[template(path = "status.html")]
struct StatusSentence {
    down: usize,
    soon: usize,
    /// The group with most of these machines: number, name, address.
    most: Option<(usize, String, String)>,
    /// The next operation, if nothing happens soon: HTML.
    next: String,
    counts: String,
    facts: Vec<SideFact>,
}

/// A number beside the sentence, with a link to its details.
struct SideFact {
    number: usize,
    text: String,
    href: &'static str,
    is_bad: bool,
}

pub fn render_panel(scene: &Scene, activities: &[Activity], groups: &[FleetGroup]) -> Panel {
    let region = scene.region();
    let (down, soon) = fleet::count_down(region, scene.now, SOON);
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished).count();
    let hosts = region.hosts().count();
    let status = StatusSentence {
        down: down.len(),
        soon: soon.len(),
        most: find_most(region, if soon.is_empty() { &down } else { &soon }),
        next: describe_next(activities),
        counts: [
            count(region.machines().len(), "machine"),
            format!("in {}", count(groups.len(), "group")),
            if hosts == 0 { String::new() } else { format!("on {}", count(hosts, "host")) },
            format!("· {}", count(running, "operation")),
        ]
        .iter()
        .filter(|part| !part.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join(" "),
        facts: list_facts(scene, groups),
    };
    Panel::with_content("status", "Status", &status).without_frame()
}

/// The group that most of these machines are in, if they are in several.
fn find_most(region: &Region, machines: &std::collections::BTreeSet<MachineId>) -> Option<(usize, String, String)> {
    let mut scopes: BTreeMap<forewarn_core::ScopeId, usize> = BTreeMap::new();
    for machine in machines.iter().filter_map(|id| region.machine(*id)) {
        *scopes.entry(machine.scope).or_default() += 1;
    }
    if scopes.len() < 2 {
        return None;
    }
    let (scope, count) = scopes.into_iter().max_by_key(|(_, count)| *count)?;
    let name = words::scope(region, region.scope(scope)?);
    Some((count, name.name, name.href))
}

fn describe_next(activities: &[Activity]) -> String {
    let scheduled = activities.iter().filter_map(|activity| Some((activity.due()?, activity)));
    match scheduled.min_by_key(|(due, _)| *due) {
        Some((due, activity)) => format!(
            r#"Next: <a href="{}">{}</a> <span class="count" data-until="{}">at {}</span>."#,
            activity.href(),
            words::escape_html(&activity.title),
            due.0,
            words::utc(due)
        ),
        None => "No events are scheduled.".into(),
    }
}

fn list_facts(scene: &Scene, groups: &[FleetGroup]) -> Vec<SideFact> {
    let silent = groups.iter().filter(|group| !group.has_handler && group.machines > 0).count();
    let failing = scene.portal.webhooks().list().iter().filter(|hook| hook.status().failures > 0).count();
    let is_bad = |host: &&std::sync::Arc<forewarn_core::Host>| {
        host.state == HostState::Failed || matches!(host.contact, Contact::Lost { .. })
    };
    let hosts = scene.region().hosts().filter(is_bad).count();
    let fact = |number: usize, one: &str, many: &str, href, is_bad| {
        (number > 0).then(|| SideFact { number, text: if number == 1 { one } else { many }.into(), href, is_bad })
    };
    [
        fact(silent, "group without a handler", "groups without a handler", "/groups?groups=no-handler", false),
        fact(failing, "webhook failing", "webhooks failing", "/webhooks", true),
        fact(hosts, "host failed or unreachable", "hosts failed or unreachable", "/hosts?state=bad", true),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// `1 machine`, `2 machines`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}
