//! The list of what needs attention: activities without notice, not ready in time, without a handler, over time, failed or blocked,
//! and hosts that are off. What needs action comes first, by deadline; what only runs comes below. Each row says why it is listed,
//! how many machines are down, and what can be done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{Group, GroupKind, MachineId, Name, Region, Timestamp, UNLIMITED};
use forewarn_render::{GroupDip, describe_losses};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::lane::clock_span;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::readiness::Readiness;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::{address, table, waits, words};

use super::page_context::PageContext;
use super::timeline::{EventTimeline, Stage};
use super::unready::Unready;
use forewarn_previews::preview::ApprovalTrial;
use forewarn_widgets::activity::{Activity, ActivityId};
use forewarn_widgets::outage::{Outages, SOON};

/// More rows are not read within seconds. The others are on the page of operations.
const ROWS_MAX: usize = 7;

/// Sorts before every row.
const HEAD_SORT: &str = " ";

const HEAD: &str = r#"<li id="attention-head" class="head" data-sort=" "><span>Type</span><span>Operation</span><span>When</span><span>Machines</span><span>Ready</span><span>If you do nothing</span><span></span></li>"#;

#[derive(Template)]
#[template(path = "attention_row.html")]
struct AttentionRow<'a> {
    id: String,
    sort: &'a str,
    kind: &'a str,
    severity: &'static str,
    title: String,
    href: String,
    /// The description and the requester.
    note: String,
    concern: AttentionReason,
    /// HTML.
    when: String,
    impact: String,
    is_down: bool,
    /// The first machines, by name.
    machines: String,
    /// HTML.
    meter: String,
    inaction: Inaction,
    csrf: &'a str,
    /// The address of the buttons' form, or of the link.
    action: &'static str,
    /// The name and value of the field with the operation or host that the buttons are for.
    target: (&'static str, String),
    /// Value and label of the buttons that open a confirmation.
    buttons: Vec<(&'static str, String)>,
    /// The address and the label of the link, if there are no buttons.
    open: (String, String),
}

/// The outcome without an operator.
#[derive(Debug, PartialEq, Eq)]
struct Inaction {
    /// HTML.
    text: String,
    detail: String,
}

/// The parts of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    ActNow,
    NothingToDo,
}

impl Section {
    fn of(concern: &AttentionReason, stage: Stage) -> Section {
        if concern.needs_action(stage) { Section::ActNow } else { Section::NothingToDo }
    }

    /// Its place in the list, before its rows.
    fn sort(self) -> &'static str {
        match self {
            Section::ActNow => "a",
            Section::NothingToDo => "b",
        }
    }

    fn render_head(self) -> Fragment {
        let (name, title) = match self {
            Section::ActNow => ("act", "Act now <small>soonest first</small>"),
            Section::NothingToDo => ("calm", "Running, nothing to do"),
        };
        let (id, sort) = (format!("attention-{name}"), self.sort());
        let html = format!(r#"<li id="{id}" class="part" data-sort="{sort}"><h3>{title}</h3></li>"#);
        Fragment { id, sort: sort.into(), html }
    }
}

/// Why an activity is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttentionReason {
    NoNotice,
    /// Longer than announced, by this number of seconds.
    OverTime(u64),
    Failed(String),
    /// Machines that are not ready shortly before the start.
    NotReady(Unready),
    NoHandler(Vec<String>),
    /// A group falls below its floor, together with other operations.
    BelowFloor(String),
    /// It cannot go on.
    Blocked(String),
    /// The host is off, and so are its machines.
    HostOff,
}

impl AttentionReason {
    /// The most urgent concern about an activity, if there is one.
    fn of(
        context: &PageContext,
        activity: &Activity,
        dips: &[GroupDip],
        unready: Option<&Unready>,
    ) -> Option<AttentionReason> {
        let stage = activity.stage();
        if stage == Stage::Finished {
            return None;
        }
        if let Some(end) = activity.expected_end().filter(|end| *end < context.now) {
            return Some(AttentionReason::OverTime(context.now.since(end).as_secs()));
        }
        if activity.is_failure && stage == Stage::InProgress {
            return Some(AttentionReason::NoNotice);
        }
        if !activity.failures.is_empty() {
            return Some(AttentionReason::Failed(join_names(&activity.failures)));
        }
        let is_soon = activity.is_due(context.now + SOON);
        // A group that falls below its floor because of one cause alone was planned that way.
        let below = dips.iter().filter(|dip| dip.is_below() && !dip.others.is_empty());
        if let Some(dip) = below.min_by_key(|dip| dip.reserve()) {
            return Some(AttentionReason::BelowFloor(dip.describe()));
        }
        if let Some(unready) = unready.filter(|unready| unready.count() > unready.unnotified.len()) {
            return Some(AttentionReason::NotReady(unready.clone()));
        }
        let scheduled = activity.events_in(Stage::Scheduled).filter(|_| is_soon);
        let live = scheduled.chain(activity.events_in(Stage::InProgress));
        let unnotified = name_machines(live.filter(|event| !event.is_shown));
        if !unnotified.is_empty() {
            return Some(AttentionReason::NoHandler(unnotified));
        }
        let wait = activity.waits_for.as_ref().filter(|wait| activity.is_running && waits::is_unplanned(wait.reason));
        wait.map(|wait| AttentionReason::Blocked(waits::shorten(wait)))
    }

    /// Red for harm, amber for what can still be prevented.
    fn class(&self) -> &'static str {
        match self {
            AttentionReason::NoNotice
            | AttentionReason::OverTime(_)
            | AttentionReason::Failed(_)
            | AttentionReason::BelowFloor(_)
            | AttentionReason::HostOff => "red",
            AttentionReason::NotReady(_) | AttentionReason::NoHandler(_) | AttentionReason::Blocked(_) => "amber",
        }
    }

    fn describe(&self) -> String {
        match self {
            AttentionReason::NoNotice => "no notice was possible".into(),
            AttentionReason::OverTime(secs) => format!("{} longer than planned", clock_span(*secs)),
            AttentionReason::Failed(names) => format!("failed: {names}"),
            AttentionReason::NotReady(unready) => format!("not ready: {}", unready.describe()),
            AttentionReason::NoHandler(names) => format!("no handler, not notified: {}", join_names(names)),
            AttentionReason::BelowFloor(what) => what.clone(),
            AttentionReason::Blocked(why) => why.clone(),
            AttentionReason::HostOff => "failed and fenced, so its machines are stopped".into(),
        }
    }

    /// Whether an operator can still change what happens.
    fn needs_action(&self, stage: Stage) -> bool {
        match self {
            AttentionReason::NotReady(_)
            | AttentionReason::Blocked(_)
            | AttentionReason::Failed(_)
            | AttentionReason::OverTime(_)
            | AttentionReason::HostOff => true,
            AttentionReason::NoHandler(_) | AttentionReason::BelowFloor(_) => stage == Stage::Scheduled,
            AttentionReason::NoNotice => false,
        }
    }
}

/// When a row that needs action becomes worse: the start, or the failure of an activity that takes too long.
fn find_deadline(context: &PageContext, activity: &Activity, concern: &AttentionReason) -> Option<Timestamp> {
    match (concern, activity.stage()) {
        (AttentionReason::OverTime(_), _) => find_report_deadline(context.region(), activity),
        (_, Stage::Scheduled) => activity.due(),
        (_, Stage::InProgress | Stage::Finished) => None,
    }
}

fn name_machines<'e>(events: impl Iterator<Item = &'e Arc<EventTimeline>>) -> Vec<String> {
    let mut names: Vec<String> = events.flat_map(|event| event.names.iter().cloned()).collect();
    names.sort();
    names
}

/// Activities that need attention, hosts that are off, and the number of all other activities that run.
pub fn render_panel(
    context: &PageContext,
    activities: &[Activity],
    outages: &Outages,
    dips: &BTreeMap<ActivityId, Vec<GroupDip>>,
    unready: &BTreeMap<ActivityId, Unready>,
) -> Panel {
    let dips_of = |activity: &Activity| dips.get(&activity.id).map_or(&[][..], Vec::as_slice);
    let find =
        |activity: &Activity| AttentionReason::of(context, activity, dips_of(activity), unready.get(&activity.id));
    let mut found: Vec<(&Activity, AttentionReason)> =
        activities.iter().filter_map(|activity| Some((activity, find(activity)?))).collect();
    found.sort_by_cached_key(|(activity, concern)| {
        let deadline = find_deadline(context, activity, concern).map_or(i64::MAX, |at| at.0);
        (Section::of(concern, activity.stage()), deadline, activity.severity, activity.title.clone())
    });
    // A host that is off stays as it is; a row with a deadline gets worse.
    let urgent = found.iter().take_while(|(activity, concern)| {
        concern.needs_action(activity.stage()) && find_deadline(context, activity, concern).is_some()
    });
    let urgent = urgent.count();
    let running = activities.iter().filter(|activity| activity.stage() != Stage::Finished);
    let listed: BTreeSet<ActivityId> = found.iter().map(|(activity, _)| activity.id).collect();
    let calm: Vec<&Activity> = running.filter(|activity| !listed.contains(&activity.id)).collect();
    let hosts = outages.stopped_by_host();
    let more = (hosts.len() + found.len()).saturating_sub(ROWS_MAX);
    let hosts = hosts.iter().map(|(host, ids)| (Section::ActNow, describe_host(context, host, ids)));
    let describe = |(activity, concern): (_, AttentionReason)| {
        let section = Section::of(&concern, Activity::stage(activity));
        (section, describe_activity(context, activity, concern, outages, dips_of(activity)))
    };
    let others = found.split_off(urgent).into_iter().map(describe);
    let rows = found.into_iter().map(describe).chain(hosts).chain(others);
    let mut fragments: Vec<Fragment> = Vec::new();
    let mut current = None;
    // Rows that are not shown are not computed: whether an operation can be canceled takes a run of the rules.
    for (number, (section, row)) in rows.take(ROWS_MAX).enumerate() {
        if current != Some(section) {
            fragments.push(section.render_head());
            current = Some(section);
        }
        let (id, sort) = (row.id.clone(), format!("{}-{}", section.sort(), table::row_key(number)));
        fragments.push(Fragment::render(id, sort.as_str(), &AttentionRow { sort: &sort, ..row }));
    }
    if !fragments.is_empty() {
        fragments.insert(0, Fragment { id: "attention-head".into(), sort: HEAD_SORT.into(), html: HEAD.into() });
    }
    let note = describe_others(more, &calm, outages);
    if !note.is_empty() {
        let html =
            format!(r#"<li id="attention-note" class="note" data-sort="~"><a href="/operations">{note}</a></li>"#);
        fragments.push(Fragment { id: "attention-note".into(), sort: "~".into(), html });
    }
    Panel::new("attention", "Needs attention", fragments).with_list_items().or_empty_text("Nothing needs attention.")
}

/// The activities that are not listed.
fn describe_others(more: usize, calm: &[&Activity], outages: &Outages) -> String {
    let note = match (more, calm.len()) {
        (0, 0) => return String::new(),
        (0, 1) => "1 other operation needs no attention".into(),
        (0, calm) => format!("{calm} other operations need no attention"),
        (1, _) => "1 more needs attention".into(),
        (more, _) => format!("{more} more need attention"),
    };
    match calm.iter().map(|activity| outages.down_by(activity.id)).sum::<usize>() {
        down if down > 0 && more == 0 => format!("{note}, {} down", count_of(down, "machine")),
        _ => note,
    }
}

fn describe_host<'a>(context: &'a PageContext, host: &Name, machines: &[MachineId]) -> AttentionRow<'a> {
    let region = context.region();
    let names = machines.iter().filter_map(|id| Some(region.machine(*id)?.name.to_string()));
    AttentionRow {
        id: format!("attention-host-{}", address::encode_segment(host)),
        sort: "",
        kind: "Host",
        severity: Severity::Red.class(),
        title: format!("Host {host} is off"),
        href: address::of_host(host),
        note: format!("Move {} or activate the host", count_of(machines.len(), "machine")),
        concern: AttentionReason::HostOff,
        when: "<b>now</b>".into(),
        impact: format!("{} down", count_of(machines.len(), "machine")),
        is_down: true,
        machines: join_names(names),
        meter: Readiness::default().render(),
        inaction: Inaction {
            text: if machines.len() == 1 { "stays down" } else { "stay down" }.into(),
            detail: "nothing scheduled brings them back".into(),
        },
        csrf: &context.visitor.session.csrf,
        action: "/portal/hosts",
        target: ("host", host.to_string()),
        buttons: if context.visitor.is_allowed(Action::ActivateHost) {
            vec![("activate", "Activate host…".into())]
        } else {
            Vec::new()
        },
        open: (address::of_host(host), "Open host".into()),
    }
}

fn describe_activity<'a>(
    context: &'a PageContext,
    activity: &'a Activity,
    concern: AttentionReason,
    outages: &Outages,
    dips: &[GroupDip],
) -> AttentionRow<'a> {
    let (buttons, can_cancel) = list_buttons(context, activity, &concern);
    let inaction = describe_inaction(context, activity, &concern, dips, can_cancel);
    let down = outages.down_by(activity.id);
    AttentionRow {
        id: format!("attention-{}", activity.id.key()),
        sort: "",
        kind: activity.kind.as_str(),
        severity: activity.severity.class(),
        title: activity.title.clone(),
        href: activity.href(),
        note: describe_request(context, activity),
        concern,
        when: describe_time(activity),
        impact: describe_impact(activity, down),
        is_down: down > 0,
        machines: join_names(activity.live_names().into_iter().map(str::to_owned)),
        meter: activity.readiness().render(),
        inaction,
        csrf: &context.visitor.session.csrf,
        action: "/portal/operations",
        target: match activity.id {
            ActivityId::Operation(id) => ("id", id.to_string()),
            ActivityId::Rollout(_) => ("id", String::new()),
        },
        buttons,
        open: find_link(context, activity),
    }
}

/// The page that helps most: for a deletion, which cannot be canceled, the scale set that can replace the machines.
fn find_link(context: &PageContext, activity: &Activity) -> (String, String) {
    let label = match activity.id {
        ActivityId::Operation(_) => "Open operation",
        ActivityId::Rollout(_) => "Open rollout",
    };
    let may = context.visitor.is_allowed(Action::ChangeScaleSet);
    match find_shrinking_set(context.region(), activity).filter(|_| may) {
        Some(group) => (address::of_group(group.id), format!("Scale out {}", group.name)),
        None => (activity.href(), label.into()),
    }
}

/// The scale set whose instances a scheduled deletion removes.
fn find_shrinking_set<'r>(region: &'r Region, activity: &Activity) -> Option<&'r Group> {
    let deletion = Some(activity).filter(|activity| activity.kind.is_deletion());
    let machines = deletion?.events.iter().flat_map(|event| &event.machines);
    let mut groups = machines.filter_map(|machine| region.group(region.machine(*machine)?.membership.group()?));
    groups.find(|group| matches!(group.kind, GroupKind::ScaleSet(_)) && !group.leaving).map(|group| &**group)
}

fn describe_request(context: &PageContext, activity: &Activity) -> String {
    // The title of a rollout is its description.
    let note = if activity.title.contains(&activity.note) { "" } else { &activity.note };
    let by = match activity.requested_by.as_str() {
        "" => String::new(),
        by => format!("requested by {}", context.name_requester(by)),
    };
    let parts: Vec<&str> = [note, &by].into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn describe_time(activity: &Activity) -> String {
    match (activity.stage(), activity.due(), activity.started()) {
        (Stage::InProgress, _, Some(started)) => {
            format!(r#"<b>in progress</b><small>since {}</small>"#, words::time(started))
        }
        (_, Some(due), _) => {
            format!("<b>{}</b><small>at {}</small>", words::countdown(due, "scheduled"), words::time(due))
        }
        (_, None, _) => "<b>waiting</b>".to_owned(),
    }
}

/// The number of machines, with what they are: down, deleted or about to be.
fn describe_impact(activity: &Activity, down: usize) -> String {
    let all = activity.live_names().len();
    match (activity.kind.is_deletion(), down, all.saturating_sub(down)) {
        (true, _, _) => format!("{} to delete", count_of(all, "machine")),
        (_, 0, _) => count_of(all, "machine"),
        (_, _, 0) => format!("{} down", count_of(down, "machine")),
        (_, _, next) => format!("{} down, {next} next", count_of(down, "machine")),
    }
}

/// Describes the outcome without an operator.
fn describe_inaction(
    context: &PageContext,
    activity: &Activity,
    concern: &AttentionReason,
    dips: &[GroupDip],
    can_cancel: bool,
) -> Inaction {
    let of = |text: String, detail: &str| Inaction { text, detail: detail.to_owned() };
    match (concern, activity.stage(), activity.due()) {
        (AttentionReason::Blocked(_), _, _) => of("waits".into(), "until this changes"),
        (AttentionReason::Failed(_), _, _) if activity.is_running => describe_tolerance(context, activity),
        (_, Stage::Scheduled, Some(due)) => {
            let is_deletion = activity.kind.is_deletion();
            let verb = if is_deletion { "deleted" } else { "starts" };
            let detail = match (concern, can_cancel) {
                (AttentionReason::NoHandler(_), _) => "without notice",
                (_, true) => "ready or not; earlier if approved",
                (_, false) if find_shrinking_set(context.region(), activity).is_some() => {
                    match context.visitor.is_allowed(Action::ChangeScaleSet) {
                        true => "cannot be canceled; new instances can replace them",
                        false => "cannot be canceled; an owner can add new instances",
                    }
                }
                (_, false) if is_deletion => "cannot be canceled; save the data first",
                (_, false) => "cannot be canceled",
            };
            let losses = describe_losses(dips);
            let detail = losses.map_or_else(|| detail.to_owned(), |losses| format!("{losses}; {detail}"));
            match due <= context.now {
                true => of(format!("{verb} as soon as possible"), &detail),
                false => of(format!("{verb} at {}", words::clock_time(due)), &detail),
            }
        }
        (AttentionReason::OverTime(_), _, _) => match find_report_deadline(context.region(), activity) {
            Some(at) => of(format!("fails at {}", words::clock_time(at)), "if it has not ended by then"),
            None => of("no end is known".into(), ""),
        },
        (_, _, _) => match activity.expected_end() {
            Some(end) => of(format!("ends at {}", words::clock_time(end)), "nothing to do"),
            None => of("ends without action".into(), "nothing to do"),
        },
    }
}

/// When the first event in progress fails if its driver does not report.
fn find_report_deadline(region: &Region, activity: &Activity) -> Option<Timestamp> {
    let started = activity.events_in(Stage::InProgress).filter_map(|event| region.event(event.id));
    started.map(|event| region.report_deadline(event)).min()
}

/// How many failures a rollout tolerates before it starts nothing more.
fn describe_tolerance(context: &PageContext, activity: &Activity) -> Inaction {
    let rollout = match activity.id {
        ActivityId::Rollout(id) => context.region().rollout(id),
        ActivityId::Operation(_) => None,
    };
    let detail = match rollout.map(|rollout| (rollout.failures, rollout.plan.failures_max)) {
        None => String::new(),
        Some((_, UNLIMITED)) => "with any number of failures".into(),
        Some((failures, max)) => format!("{failures} failed so far; more than {max} stop it"),
    };
    Inaction { text: "continues".into(), detail }
}

/// The buttons that the visitor may use, and whether the rules let the activity be canceled.
fn list_buttons(
    context: &PageContext,
    activity: &Activity,
    concern: &AttentionReason,
) -> (Vec<(&'static str, String)>, bool) {
    let ActivityId::Operation(id) = activity.id else { return (Vec::new(), true) };
    let Some(operation) = context.region().operation(id) else { return (Vec::new(), true) };
    let mut approve = None;
    match concern {
        // An approved deletion only starts sooner.
        AttentionReason::NotReady(_)
            if !activity.kind.is_deletion() && context.visitor.is_allowed(Action::ApproveEvents) =>
        {
            let trial = context.preview().try_approval_of(operation);
            approve = trial.map(|trial| ("approve", label_approval(activity, &trial)));
        }
        AttentionReason::NotReady(_)
        | AttentionReason::NoNotice
        | AttentionReason::OverTime(_)
        | AttentionReason::Failed(_)
        | AttentionReason::NoHandler(_)
        | AttentionReason::BelowFloor(_)
        | AttentionReason::Blocked(_)
        | AttentionReason::HostOff => {}
    }
    // Nothing is expected to be canceled while machines are down.
    if activity.stage() != Stage::Scheduled {
        return (approve.into_iter().collect(), true);
    }
    let can_cancel = context.preview().find_cancel_obstacle(operation).is_none();
    let cancel = can_cancel && context.visitor.is_allowed(Action::Cancel);
    let cancel = cancel.then(|| ("cancel", format!("Cancel {}…", activity.kind.noun())));
    // A button that prevents harm comes before one that hastens it.
    (cancel.into_iter().chain(approve).collect(), can_cancel)
}

/// Says what an approval does: it usually starts the impact at once, also on machines that were ready before.
fn label_approval(activity: &Activity, trial: &ApprovalTrial<'_>) -> String {
    match trial.count_starting() {
        0 => format!("Approve for {}…", count_of(trial.count_approved(), "machine")),
        starting => format!("Approve, {} {starting} now…", activity.kind.verb()),
    }
}
