//! The status of the overview: how many machines are down, because of failures and for planned work; what happens next, in the order
//! of time; below it why machines are down; with side facts.

use std::collections::{BTreeMap, BTreeSet};

use askama::Template;
use forewarn_api_types::count_of;
use forewarn_core::{GroupId, Region, Timestamp};
use forewarn_render::{GroupDip, compare_with_floor};
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::{address, words};

use super::fleet::FleetGroup;
use super::page_context::PageContext;
use super::timeline::Stage;
use forewarn_widgets::activity::{Activity, ActivityId};
use forewarn_widgets::outage::{CauseCount, Outages, SOON, Upcoming};

#[derive(Template)]
#[template(path = "status.html")]
struct StatusSentence {
    down: usize,
    /// HTML.
    sentence: String,
    /// The causes of the machines that are down.
    causes: Vec<DownCause>,
    counts: String,
    facts: Vec<SideFact>,
}

/// Machines that are down, with their cause.
struct DownCause {
    machines: usize,
    text: String,
    href: String,
    /// Whether an operator must act.
    note: &'static str,
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
) -> Panel {
    let region = context.region();
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished).count();
    let hosts = region.hosts().count();
    let status = StatusSentence {
        down: outages.down(),
        sentence: describe_state(context, activities, groups, outages, dips),
        causes: list_causes(region, outages),
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

/// Machines that are down, then what comes next, with the capacity of the most affected group, in at most two lines. HTML.
fn describe_state(
    context: &PageContext,
    activities: &[Activity],
    groups: &[FleetGroup],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
) -> String {
    let next = list_next(context, outages);
    let lowest = if next.is_empty() { describe_lowest(context.region(), groups) } else { String::new() };
    let now = match outages.down() {
        0 => "No machines are down.".into(),
        _ => format!("{}{lowest}.", describe_down(outages)),
    };
    match next.is_empty() {
        true => now + &describe_later(activities, outages),
        false => format!("{now} Next: {}{}.", next.join(", "), describe_dips(context, activities, dips)),
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
    let due = activities.iter().filter(|activity| !activity.kind.is_deletion() && activity.is_due(context.now + SOON));
    let falling = due.filter_map(|activity| dips.get(&activity.id)).flatten().filter(|dip| dip.takes_machines());
    let falling: Vec<&GroupDip> = falling.collect();
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

/// Machines that go down or are deleted within a few minutes, in the order of time. HTML.
fn list_next(context: &PageContext, outages: &Outages) -> Vec<String> {
    let has_down = outages.down() > 0;
    let down = outages.soon().map(|soon| (soon, "amber", if has_down { "more down" } else { "down" }));
    let deleted = outages.deleted().map(|deleted| (deleted, "red", "deleted"));
    let mut next: Vec<_> = deleted.into_iter().chain(down).collect();
    next.sort_by_key(|(upcoming, _, _)| upcoming.first);
    let describe = |(number, (upcoming, class, verb)): (usize, (Upcoming, &str, &str))| {
        // The sentence has named the machines before.
        let machines = match number {
            0 if !has_down => count_of(upcoming.machines, "machine"),
            _ => upcoming.machines.to_string(),
        };
        format!(r#"<span class="{class}">{machines} {verb} {}</span>"#, describe_span(context, &upcoming))
    };
    next.into_iter().enumerate().map(describe).collect()
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

/// The first event after the next few minutes. HTML.
fn describe_later(activities: &[Activity], outages: &Outages) -> String {
    let scheduled = activities.iter().filter_map(|activity| Some((activity.due()?, activity)));
    match scheduled.min_by_key(|(due, _)| *due) {
        Some((due, activity)) => format!(
            r#" Next: <a href="{}">{}</a> {}."#,
            activity.href(),
            words::escape_html(&activity.title),
            words::countdown_at(due)
        ),
        None if outages.down() > 0 => String::new(),
        None => " No events are scheduled.".into(),
    }
}

/// The causes of all machines that are down: failures first, which say whether an operator must act.
fn list_causes(region: &Region, outages: &Outages) -> Vec<DownCause> {
    let describe =
        |cause: CauseCount, note| DownCause { machines: cause.machines, text: cause.cause, href: cause.href, note };
    let failed = outages.list_failed(region).into_iter().map(|cause| match cause.stays {
        true => describe(cause, "until you act"),
        false => describe(cause, "recovering"),
    });
    failed.chain(outages.list_planned(region).into_iter().map(|cause| describe(cause, ""))).collect()
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
