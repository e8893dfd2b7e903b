//! The status of the overview: how many machines are down because of failures and for planned work, go down soon or are deleted, and
//! when; below it why, what happens next and which machines are not ready; with side facts.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use forewarn_api_types::count_of;
use forewarn_core::{GroupId, Region, Timestamp};
use forewarn_widgets::group_dip::{GroupDip, compare_with_floor, describe_losses};
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::{address, words};

use super::activity::{Activity, ActivityId};
use super::fleet::FleetGroup;
use super::outage::{CauseCount, Outages, SOON, Upcoming};
use super::page_context::PageContext;
use super::timeline::Stage;
use super::unready::Unready;

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
    /// Follows the number of machines.
    note: &'static str,
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

pub fn render_panel(
    context: &PageContext,
    activities: &[Activity],
    groups: &[FleetGroup],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
    unready: &BTreeMap<ActivityId, Unready>,
) -> Panel {
    let region = context.region();
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished).count();
    let hosts = region.hosts().count();
    let lists = vec![
        ("Failures", list_failures(outages.list_failed(region))),
        ("Planned work", list_entries(outages.list_planned(region), |_| String::new())),
        ("Next", list_next(context, activities, outages)),
        ("Not ready", list_unready(activities, unready)),
    ];
    let status = StatusSentence {
        down: outages.down(),
        sentence: describe_state(context, activities, groups, outages, dips),
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

/// Machines that are down, go down soon and are deleted, in the order of time, with the capacity of the group that suffers most.
/// HTML.
fn describe_state(
    context: &PageContext,
    activities: &[Activity],
    groups: &[FleetGroup],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
) -> String {
    let (soon, deleted) = (outages.soon(), outages.deleted());
    let mut later: Vec<(Timestamp, String)> = Vec::new();
    later.extend(soon.as_ref().map(|soon| {
        let capacity = describe_dips(context, activities, dips);
        (soon.first, describe_going_down(context, soon, outages.down()) + &capacity)
    }));
    later.extend(deleted.as_ref().map(|deleted| {
        let losses = describe_deletions(context, activities, dips);
        (deleted.first, describe_deletion(context, deleted) + &losses)
    }));
    later.sort_by_key(|(at, _)| *at);
    let now = match (outages.down(), &soon) {
        (0, Some(_)) => None,
        (0, None) => Some("No machines are down".to_owned()),
        (_, Some(_)) => Some(describe_down(outages)),
        (_, None) => Some(describe_down(outages) + &describe_lowest(context.region(), groups)),
    };
    let sentences: Vec<String> = now.into_iter().chain(later.into_iter().map(|(_, text)| text)).collect();
    let mut text = sentences.join(". ") + ".";
    if outages.down() == 0 && soon.is_none() && deleted.is_none() {
        text += &describe_next(activities);
    }
    text
}

/// Failures are not the same as planned work: only the former need an operator.
fn describe_down(outages: &Outages) -> String {
    let (all, failed) = (outages.down(), outages.failed());
    let down = format!("{} down now", count_of(all, "machine"));
    match (failed, all - failed) {
        (0, _) => format!(r#"<span class="amber">{down} for planned work</span>"#),
        (_, 0) => format!(r#"<span class="red">{down} because of failures</span>"#),
        (failed, planned) => format!(
            r#"<span class="red">{down}: {failed} because of failures</span>, <span class="amber">{planned} for planned work</span>"#
        ),
    }
}

/// The group that is farthest below its floor, or nearest to it, once the next machines are down; and how many others fall below
/// theirs.
fn describe_dips(context: &PageContext, activities: &[Activity], dips: &BTreeMap<ActivityId, Vec<GroupDip>>) -> String {
    let falling: Vec<&GroupDip> = find_next_dips(context, activities, dips, |activity| !activity.kind.is_deletion());
    let Some(worst) = falling.iter().min_by_key(|dip| (dip.reserve(), dip.then)) else { return String::new() };
    let below: BTreeSet<GroupId> = falling.iter().filter(|dip| dip.is_below()).map(|dip| dip.id).collect();
    let others = match below.len().saturating_sub(1) {
        0 => String::new(),
        1 => ", and 1 other group will fall below its floor".into(),
        others => format!(", and {others} other groups will fall below theirs"),
    };
    let (class, outlook) = worst.outlook();
    format!(
        r#"; <a href="{}">{}</a> <span class="{class}">{outlook}</span>{others}"#,
        address::of_group(worst.id),
        words::escape_html(&worst.name),
    )
}

/// The groups that lose machines to the wanted activities within a few minutes.
fn find_next_dips<'d>(
    context: &PageContext,
    activities: &[Activity],
    dips: &'d BTreeMap<ActivityId, Vec<GroupDip>>,
    is_wanted: impl Fn(&Activity) -> bool,
) -> Vec<&'d GroupDip> {
    let due = activities.iter().filter(|activity| is_wanted(activity) && activity.is_due(context.now + SOON));
    due.filter_map(|activity| dips.get(&activity.id)).flatten().filter(|dip| dip.takes_machines()).collect()
}

/// The groups that shrink because of the next deletions. HTML.
fn describe_deletions(
    context: &PageContext,
    activities: &[Activity],
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
) -> String {
    let due = activities.iter().filter(|it| it.kind.is_deletion() && it.is_due(context.now + SOON));
    let shrinking = due.filter_map(|activity| dips.get(&activity.id)).flatten().filter(|dip| dip.is_shrinking);
    let mut smallest = BTreeMap::<GroupId, &GroupDip>::new();
    for dip in shrinking {
        let known = smallest.entry(dip.id).or_insert(dip);
        if dip.all < known.all {
            *known = dip;
        }
    }
    let losses = describe_losses(smallest.into_values());
    losses.map_or_else(String::new, |losses| format!("; {}", words::escape_html(losses)))
}

/// The group that is farthest below its floor, or nearest to it, now.
fn describe_lowest(region: &Region, groups: &[FleetGroup]) -> String {
    let affected = groups.iter().filter(|group| group.up < group.machines && group.machines > 1);
    let lowest = affected.min_by_key(|group| group.up as i64 - group.floor(region) as i64);
    lowest.map_or_else(String::new, |group| {
        format!(
            r#"; <a href="{}">{}</a> has {} of {} up, {}"#,
            group.href,
            words::escape_html(&group.name),
            group.up,
            group.machines,
            compare_with_floor(group.up, group.floor(region))
        )
    })
}

fn describe_going_down(context: &PageContext, soon: &Upcoming, down: usize) -> String {
    let machines = if down == 0 { count_of(soon.machines, "machine") } else { format!("{} more", soon.machines) };
    format!(r#"<span class="amber">{machines} will go down {}</span>"#, describe_span(context, soon))
}

fn describe_deletion(context: &PageContext, deleted: &Upcoming) -> String {
    let machines = count_of(deleted.machines, "machine");
    format!(r#"<span class="red">{machines} will be deleted {}</span>"#, describe_span(context, deleted))
}

/// `at 02:54`, `from 02:54 to 03:00`, `at any moment`.
fn describe_span(context: &PageContext, upcoming: &Upcoming) -> String {
    let minute = |at: Timestamp| at.as_secs() / 60;
    let (first, last) = (words::clock_time(upcoming.first), words::clock_time(upcoming.last));
    if upcoming.last <= context.now {
        "at any moment".into()
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
            r#" Next: <a href="{}">{}</a> {}."#,
            activity.href(),
            words::escape_html(&activity.title),
            words::countdown_at(due)
        ),
        None => " No events are scheduled.".into(),
    }
}

fn find_next(activities: &[Activity]) -> Option<(Timestamp, &Activity)> {
    let scheduled = activities.iter().filter_map(|activity| Some((activity.due()?, activity)));
    scheduled.min_by_key(|(due, _)| *due)
}

/// Failures say whether an operator must act.
fn list_failures(causes: Vec<CauseCount>) -> Vec<StatusEntry> {
    let notes: Vec<&'static str> = causes
        .iter()
        .map(|cause| match (cause.stays, cause.machines) {
            (false, _) => ", recovering",
            (true, 1) => ", stays down until you act",
            (true, _) => ", stay down until you act",
        })
        .collect();
    let entries = list_entries(causes, |_| String::new());
    entries.into_iter().zip(notes).map(|(entry, note)| StatusEntry { note, ..entry }).collect()
}

fn list_entries(causes: Vec<CauseCount>, render_time: impl Fn(&CauseCount) -> String) -> Vec<StatusEntry> {
    let entry = |cause: CauseCount| StatusEntry {
        at: render_time(&cause),
        machines: cause.machines,
        note: "",
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
            stays: false,
        }));
    }
    list_entries(next, |cause| words::clock_time(cause.at))
}

/// The machines that are not ready for events within a few minutes, by operation.
fn list_unready(activities: &[Activity], unready: &BTreeMap<ActivityId, Unready>) -> Vec<StatusEntry> {
    let entries = activities.iter().filter_map(|activity| {
        let unready = unready.get(&activity.id)?;
        Some(StatusEntry {
            at: activity.due().map_or(String::new(), words::clock_time),
            machines: unready.count(),
            note: "",
            text: unready.describe(),
            href: activity.href(),
        })
    });
    entries.take(ENTRIES_MAX).collect()
}

fn list_facts(context: &PageContext, groups: &[FleetGroup]) -> Vec<SideFact> {
    let silent = groups.iter().filter(|group| !group.has_handler && group.machines > 0).count();
    let failing = context.portal.webhooks().list().iter().filter(|hook| hook.status().failures > 0).count();
    let with_failures = context.region().failing_hosts();
    let hosts = context.region().hosts().filter(|host| HostCondition::of(host, &with_failures).is_bad()).count();
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
