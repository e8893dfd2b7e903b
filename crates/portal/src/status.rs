//! The status sentence of the overview: how many machines are down, how many will be soon, where, and why; with side facts.

use askama::Template;
use forewarn_core::{Contact, HostState};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words::{self, count};

use super::activity::Activity;
use super::fleet::FleetGroup;
use super::outage::{CauseCount, Outages};
use super::page_context::PageContext;
use super::timeline::Stage;

#[derive(Template)]
#[template(path = "status.html")]
struct StatusSentence {
    down: usize,
    soon: usize,
    deleted: usize,
    /// The group with most of these machines, with their number.
    most: Option<(usize, words::ScopeName)>,
    /// The next operation, if nothing happens soon: HTML.
    next: String,
    /// Machines by cause, each list with its label.
    causes: Vec<(&'static str, Vec<CauseCount>)>,
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

pub fn render_panel(context: &PageContext, activities: &[Activity], groups: &[FleetGroup], outages: &Outages) -> Panel {
    let region = context.region();
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished).count();
    let hosts = region.hosts().count();
    let causes = vec![
        ("Down now", outages.list_down(region)),
        ("Within 10 minutes", outages.list_soon(region)),
        ("Deletions", outages.list_deleted(region)),
    ];
    let status = StatusSentence {
        down: outages.down(),
        soon: outages.soon(),
        deleted: outages.deleted(),
        most: outages.find_most(region),
        causes: causes.into_iter().filter(|(_, causes)| !causes.is_empty()).collect(),
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
        facts: list_facts(context, groups),
    };
    Panel::with_content("status", "Status", &status).without_frame()
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

fn list_facts(context: &PageContext, groups: &[FleetGroup]) -> Vec<SideFact> {
    let silent = groups.iter().filter(|group| !group.has_handler && group.machines > 0).count();
    let failing = context.portal.webhooks().list().iter().filter(|hook| hook.status().failures > 0).count();
    let is_bad = |host: &&std::sync::Arc<forewarn_core::Host>| {
        host.state == HostState::Failed || matches!(host.contact, Contact::Lost { .. })
    };
    let hosts = context.region().hosts().filter(is_bad).count();
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
