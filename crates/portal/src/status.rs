//! The status of the overview: how many machines are down, go down soon or are deleted, and when; below it why, what happens next
//! and which machines are not ready; with side facts.

use askama::Template;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{Contact, EventKind, HostState, Timestamp};
use forewarn_widgets::panel::Panel;
use forewarn_widgets::words;

use super::activity::Activity;
use super::attention;
use super::fleet::FleetGroup;
use super::outage::{CauseCount, Outages, Upcoming};
use super::page_context::PageContext;
use super::timeline::Stage;

/// Entries per list; more cannot be read within seconds.
const ENTRIES_MAX: usize = 5;

#[derive(Template)]
#[template(path = "status.html")]
struct StatusSentence {
    down: usize,
    /// HTML.
    sentence: String,
    /// The causes, what happens next, and the machines that are not ready, each list with its label.
    lists: Vec<(&'static str, Vec<StatusEntry>)>,
    counts: String,
    facts: Vec<SideFact>,
}

/// Machines with their cause, or the names of machines.
struct StatusEntry {
    /// The start, as HTML, or empty.
    at: String,
    machines: usize,
    text: String,
    href: String,
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
    let lists = vec![
        ("Down now", list_entries(outages.list_down(region), |_| String::new())),
        ("Next", list_next(context, activities, outages)),
        ("Not ready", list_unready(context, activities)),
    ];
    let status = StatusSentence {
        down: outages.down(),
        sentence: describe_state(context, activities, outages),
        lists: lists.into_iter().filter(|(_, entries)| !entries.is_empty()).collect(),
        counts: [
            count_of(region.machines().len(), "machine"),
            format!("in {}", count_of(groups.len(), "group")),
            if hosts == 0 { String::new() } else { format!("on {}", count_of(hosts, "host")) },
            format!("· {}", count_of(running, "operation")),
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

/// Machines that are down, go down soon and are deleted, in the order of time. HTML.
fn describe_state(context: &PageContext, activities: &[Activity], outages: &Outages) -> String {
    let most = outages.find_most(context.region()).map_or(String::new(), |(number, group)| {
        format!(r#", {number} of them in <a href="{}">{}</a>"#, group.href, words::escape_html(&group.name))
    });
    let (soon, deleted) = (outages.soon(), outages.deleted());
    let going = soon.as_ref().map(|soon| describe_going_down(context, soon, outages.down()) + &most);
    let deletion = deleted.as_ref().map(|deleted| describe_deletion(context, deleted));
    let is_deletion_first = matches!((&soon, &deleted), (Some(soon), Some(deleted)) if deleted.first < soon.first);
    let down = format!(r#"<span class="red">{} down now</span>"#, count_of(outages.down(), "machine"));
    let sentences = match (outages.down(), going) {
        (0, None) => vec![Some("No machines are down".to_owned()), deletion],
        (0, going) if is_deletion_first => vec![deletion, going],
        (0, going) => vec![going, deletion],
        (_, None) => vec![Some(down + &most), deletion],
        (_, going) if is_deletion_first => vec![Some(down), deletion, going],
        (_, Some(going)) => vec![Some(format!("{down}, {going}")), deletion],
    };
    let mut text = sentences.into_iter().flatten().collect::<Vec<_>>().join(". ") + ".";
    if outages.down() == 0 && soon.is_none() && deleted.is_none() {
        text += &describe_next(activities);
    }
    text
}

fn describe_going_down(context: &PageContext, soon: &Upcoming, down: usize) -> String {
    let machines = if down == 0 { count_of(soon.machines, "machine") } else { format!("{} more", soon.machines) };
    let verb = if soon.machines == 1 { "goes" } else { "go" };
    format!(r#"<span class="amber">{machines} {verb} down {}</span>"#, describe_span(context, soon))
}

fn describe_deletion(context: &PageContext, deleted: &Upcoming) -> String {
    let verb = if deleted.machines == 1 { "is" } else { "are" };
    let machines = count_of(deleted.machines, "machine");
    format!(r#"<span class="red">{machines} {verb} deleted {}</span>"#, describe_span(context, deleted))
}

/// `at 02:54`, `from 02:54 to 03:00`, `now`.
fn describe_span(context: &PageContext, upcoming: &Upcoming) -> String {
    let minute = |at: Timestamp| at.as_secs() / 60;
    let (first, last) = (words::clock_time(upcoming.first), words::clock_time(upcoming.last));
    if upcoming.last <= context.now {
        "now".into()
    } else if upcoming.first <= context.now {
        format!("by {last}")
    } else if minute(upcoming.first) == minute(upcoming.last) {
        format!("at {first}")
    } else {
        format!("from {first} to {last}")
    }
}

fn describe_next(activities: &[Activity]) -> String {
    match find_next(activities) {
        Some((due, activity)) => format!(
            r#" Next: <a href="{}">{}</a> <span class="count" data-until="{}">at {}</span>."#,
            activity.href(),
            words::escape_html(&activity.title),
            due.0,
            words::utc(due)
        ),
        None => " No events are scheduled.".into(),
    }
}

fn find_next(activities: &[Activity]) -> Option<(Timestamp, &Activity)> {
    let scheduled = activities.iter().filter_map(|activity| Some((activity.due()?, activity)));
    scheduled.min_by_key(|(due, _)| *due)
}

fn list_entries(causes: Vec<CauseCount>, render_time: impl Fn(&CauseCount) -> String) -> Vec<StatusEntry> {
    let entry = |cause: CauseCount| StatusEntry {
        at: render_time(&cause),
        machines: cause.machines,
        text: cause.cause,
        href: cause.href,
    };
    causes.into_iter().map(entry).collect()
}

/// The causes of the next few minutes or, if there are none while machines are down, the next operation.
fn list_next(context: &PageContext, activities: &[Activity], outages: &Outages) -> Vec<StatusEntry> {
    let mut next = outages.list_next(context.region());
    if next.is_empty() && outages.down() > 0 {
        next.extend(find_next(activities).map(|(at, activity)| CauseCount {
            machines: activity.readiness().all(),
            cause: activity.title.clone(),
            href: activity.href(),
            at,
        }));
    }
    list_entries(next, |cause| words::clock_time(cause.at))
}

/// The machines that are not ready for events within a few minutes, by operation.
fn list_unready(context: &PageContext, activities: &[Activity]) -> Vec<StatusEntry> {
    // A recommendation takes no machine down, so that nothing waits for its approval.
    let recommendation = words::event_kind(EventKind::SpotRebalanceRecommendation);
    let activities = activities.iter().filter(|activity| activity.kind != recommendation);
    let unready = activities.filter_map(|activity| {
        let names = attention::find_unready(context, activity);
        let text = join_names(&names);
        (!names.is_empty()).then(|| StatusEntry {
            at: activity.due().map_or(String::new(), words::clock_time),
            machines: names.len(),
            text,
            href: activity.href(),
        })
    });
    unready.take(ENTRIES_MAX).collect()
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
