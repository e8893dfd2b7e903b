//! The status of the overview: how many machines are down because of failures and for planned work, go down soon or are deleted, and
//! when; below it why, what happens next and which machines are not ready; with side facts.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use forewarn_api_types::count_of;
use forewarn_core::{GroupId, Region, Timestamp};
use forewarn_render::{GroupDip, compare_with_floor, describe_losses};
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::{address, words};

use super::fleet::FleetGroup;
use super::page_context::PageContext;
use super::timeline::Stage;
use super::unready::Unready;
use forewarn_widgets::activity::{Activity, ActivityId};
use forewarn_widgets::outage::{CauseCount, Outages, SOON, Upcoming};

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
    note: String,
    text: String,
    href: String,
}

/// A number beside the sentence, with a link to its details.
struct SideFact {
    number: usize,
    /// HTML.
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
        ("Planned work", list_entries(outages.list_planned(region), |_| String::new(), |_| String::new())),
        ("Next", list_next(context, activities, outages, dips)),
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

/// Machines that are down or go down soon, with the capacity of the most affected group, in at most two lines. Deletions are
/// below, unless nothing else happens. HTML.
fn describe_state(
    context: &PageContext,
    activities: &[Activity],
    groups: &[FleetGroup],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
) -> String {
    let describe_soon = |soon: &Upcoming| {
        describe_going_down(context, soon, outages.down()) + &describe_dips(context, activities, dips)
    };
    match (outages.down(), outages.soon(), outages.deleted()) {
        (0, None, None) => format!("No machines are down.{}", describe_next(activities)),
        (0, None, Some(deleted)) => format!("No machines are down. {}.", describe_deletion(context, &deleted)),
        (0, Some(soon), _) => describe_soon(&soon) + ".",
        (_, None, _) => format!("{}{}.", describe_down(outages), describe_lowest(context.region(), groups)),
        (_, Some(soon), _) => format!("{}. {}.", describe_down(outages), describe_soon(&soon)),
    }
}

/// Failures are not the same as planned work: only the former need an operator.
fn describe_down(outages: &Outages) -> String {
    let (all, failed) = (outages.down(), outages.failed());
    let down = format!("{} down now", count_of(all, "machine"));
    match (failed, all - failed) {
        (0, _) => format!(r#"<span class="amber">{down} for planned work</span>"#),
        (_, 0) => format!(r#"<span class="red">{down} because of failures</span>"#),
        (failed, _) => format!(r#"<span class="red">{down}</span>, {failed} because of failures"#),
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
        1 => ", as does 1 other group".into(),
        others => format!(", as do {others} other groups"),
    };
    let (class, outlook) = describe_outlook(worst);
    format!(
        r#"; <a href="{}">{}</a> <span class="{class}">{outlook}</span>{others}"#,
        address::of_group(worst.id),
        words::escape_html(&worst.name),
    )
}

/// The class and the end of a sentence about a group.
fn describe_outlook(dip: &GroupDip) -> (&'static str, String) {
    let floor = dip.floor;
    match (dip.is_below(), dip.could_be_below()) {
        (true, _) => ("red", format!("falls below its floor of {floor}")),
        (false, true) => ("amber", format!("may fall below its floor of {floor}")),
        (false, false) if dip.then == floor => ("", format!("falls to its floor of {floor}")),
        (false, false) => ("", format!("keeps {}", dip.range())),
    }
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

/// The groups that a cause makes smaller, or the machines that the group which suffers most keeps. Follows the number of machines.
fn describe_effect(cause: &CauseCount, dips: &BTreeMap<ActivityId, Vec<GroupDip>>) -> String {
    let of_cause = || cause.activities.iter().filter_map(|id| dips.get(id)).flatten();
    let mut smallest = BTreeMap::<GroupId, &GroupDip>::new();
    for dip in of_cause().filter(|dip| dip.is_shrinking) {
        let known = smallest.entry(dip.id).or_insert(dip);
        if dip.all < known.all {
            *known = dip;
        }
    }
    if let Some(losses) = describe_losses(smallest.into_values()) {
        return format!("; {losses}");
    }
    let at_risk = of_cause().filter(|dip| dip.could_be_below());
    let worst = at_risk.min_by_key(|dip| (dip.reserve(), dip.then));
    worst.map_or_else(String::new, |dip| format!("; {} then has {}", dip.name, dip.range()))
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
    let verb = if soon.machines == 1 { "goes" } else { "go" };
    format!(r#"<span class="amber">{machines} {verb} down {}</span>"#, describe_span(context, soon))
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
    let describe = |cause: &CauseCount| match (cause.stays, cause.machines) {
        (false, _) => ", recovering".into(),
        (true, 1) => ", stays down until you act".into(),
        (true, _) => ", stay down until you act".into(),
    };
    list_entries(causes, |_| String::new(), describe)
}

fn list_entries(
    causes: Vec<CauseCount>,
    render_time: impl Fn(&CauseCount) -> String,
    describe: impl Fn(&CauseCount) -> String,
) -> Vec<StatusEntry> {
    let entry = |cause: CauseCount| StatusEntry {
        at: render_time(&cause),
        machines: cause.machines,
        note: describe(&cause),
        text: cause.cause,
        href: cause.href,
    };
    causes.into_iter().map(entry).collect()
}

/// The causes of the next few minutes or, if there are none while machines are down, the next operation.
fn list_next(
    context: &PageContext,
    activities: &[Activity],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
) -> Vec<StatusEntry> {
    let mut next = outages.list_next(context.region());
    if next.is_empty() && outages.down() > 0 {
        next.extend(find_next(activities).map(|(at, activity)| CauseCount {
            machines: activity.readiness().all(),
            cause: activity.title.clone(),
            href: activity.href(),
            at,
            stays: false,
            activities: vec![activity.id],
        }));
    }
    list_entries(next, |cause| words::clock_time(cause.at), |cause| describe_effect(cause, dips))
}

/// The machines that are not ready for events within a few minutes, by operation.
fn list_unready(activities: &[Activity], unready: &BTreeMap<ActivityId, Unready>) -> Vec<StatusEntry> {
    let entries = activities.iter().filter_map(|activity| {
        let unready = unready.get(&activity.id)?;
        Some(StatusEntry {
            at: activity.due().map_or(String::new(), words::clock_time),
            machines: unready.count(),
            note: String::new(),
            text: unready.describe(),
            href: activity.href(),
        })
    });
    entries.take(ENTRIES_MAX).collect()
}

fn list_facts(context: &PageContext, groups: &[FleetGroup]) -> Vec<SideFact> {
    let silent = groups.iter().filter(|group| !group.has_handler && group.machines > 0).count();
    let hooks = context.portal.webhooks().list();
    let failing: Vec<Timestamp> = hooks.iter().filter_map(|hook| hook.status().failing_since).collect();
    let since = failing.iter().min().map_or_else(String::new, |at| format!(", since {}", words::clock_time(*at)));
    let with_failures = context.region().failing_hosts();
    let hosts = context.region().hosts().filter(|host| HostCondition::of(host, &with_failures).is_bad()).count();
    let fact = |number: usize, one: &str, many: &str, href, is_bad| {
        let text = words::escape_html(if number == 1 { one } else { many });
        (number > 0).then_some(SideFact { number, text, href, is_bad })
    };
    let webhooks = fact(failing.len(), "webhook failing", "webhooks failing", "/webhooks", true);
    [
        fact(silent, "group without a handler", "groups without a handler", "/groups?groups=no-handler", false),
        webhooks.map(|fact| SideFact { text: fact.text + &since, ..fact }),
        fact(hosts, "host failed or unreachable", "hosts failed or unreachable", "/hosts?state=bad", true),
    ]
    .into_iter()
    .flatten()
    .collect()
}
