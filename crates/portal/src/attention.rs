//! The list of what needs attention: activities without notice, not ready in time, without a handler, over time, failed or blocked,
//! that take a group below its floor, and hosts that are off. What an operator can still prevent comes first, by severity and then by
//! deadline, and the page says which row to start with; what only runs comes below. Each row says in two lines why it is listed, what happens without an
//! operator, how many machines that affects, and what can be done.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use askama::Template;
use forewarn_api::Action;
use forewarn_api_types::{count_of, join_names};
use forewarn_core::{Group, GroupKind, MachineId, Name, Region, ScopeId, ScopeOwner, Timestamp, UNLIMITED};
use forewarn_render::{GroupDip, find_title};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::lane::clock_span;
use forewarn_widgets::panel::Panel;
use forewarn_widgets::readiness::Readiness;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::{address, table, waits, words};

use super::page_context::PageContext;
use super::scale_set;
use super::timeline::{EventTimeline, Stage};
use super::unready::Unready;
use forewarn_previews::preview::ApprovalTrial;
use forewarn_widgets::activity::{Activity, ActivityId};
use forewarn_widgets::outage::{Outages, SOON};

/// More rows are not read within seconds. The others are on the page of operations.
const ROWS_MAX: usize = 7;

/// Other activities that a row links to.
const LINKS_MAX: usize = 2;

/// Sorts before every row.
const HEAD_SORT: &str = " ";

const HEAD: &str = r#"<li id="attention-head" class="head" data-sort=" "><span>Type</span><span>Operation <small>first what you can still prevent</small></span><span>If you do nothing</span><span>Machines</span><span>Ready</span><span></span></li>"#;

#[derive(Template)]
#[template(path = "attention_row.html")]
struct AttentionRow<'a> {
    id: String,
    sort: &'a str,
    kind: &'a str,
    severity: &'static str,
    title: String,
    href: String,
    /// The description or ticket.
    note: String,
    /// Whether an operator should do this first. Its action is the primary one of the page.
    is_first: bool,
    concern: AttentionReason,
    /// Follows the concern: machines that are not ready. Empty if there are none, or the concern names them.
    unready: String,
    /// `requested by you`. Empty for failures.
    requester: String,
    inaction: Inaction,
    impact: AffectedMachines,
    /// HTML.
    meter: String,
    csrf: &'a str,
    /// The address of the buttons' form.
    action: &'static str,
    /// The name and value of the field with the operation or host that the buttons are for.
    target: (&'static str, String),
    /// Value and label of the buttons that open a confirmation. The first one is the action of the row, the others are in its menu.
    buttons: Vec<(&'static str, String)>,
    /// Addresses and labels of related pages. Without buttons, the first one is the action of the row.
    links: Vec<(String, String)>,
}

impl AttentionRow<'_> {
    /// The links that are in the menu: all but the one that is the action of the row.
    fn menu_links(&self) -> &[(String, String)] {
        if self.buttons.is_empty() { self.links.get(1..).unwrap_or_default() } else { &self.links }
    }

    fn has_menu(&self) -> bool {
        self.buttons.len() > 1 || !self.menu_links().is_empty()
    }
}

/// The number of machines, and the group that loses most.
struct AffectedMachines {
    text: String,
    is_down: bool,
    detail: String,
    /// The color of the detail.
    class: &'static str,
}

/// The outcome without an operator.
#[derive(Debug, PartialEq, Eq)]
struct Inaction {
    /// HTML.
    text: String,
    /// HTML.
    detail: String,
}

/// The parts of the list, each with a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Section {
    /// The first row that needs action.
    First,
    ActNow,
    NothingToDo,
}

impl Section {
    fn of(concern: &AttentionReason, stage: Stage) -> Section {
        if concern.needs_action(stage) { Section::ActNow } else { Section::NothingToDo }
    }

    /// The ID and the text of its head, and its place in the list, before its rows.
    fn head(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Section::First => ("attention-first", "Start here", "a"),
            Section::ActNow => ("attention-next", "Next", "b"),
            Section::NothingToDo => ("attention-calm", "In progress, no action needed", "c"),
        }
    }

    fn sort(self) -> &'static str {
        self.head().2
    }

    fn render_head(self) -> Fragment {
        let (id, text, sort) = self.head();
        let html = format!(r#"<li id="{id}" class="part" data-sort="{sort}"><h3>{text}</h3></li>"#);
        Fragment { id: id.into(), sort: sort.into(), html }
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
    /// A group falls below its floor if machines that are down now return late.
    AtRisk(String),
    /// It cannot go on.
    Blocked(String),
    /// The host is off, and so are these machines.
    HostOff(String),
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
        // A group that is below its floor because of one cause alone was planned that way; before the start, that can be changed.
        let is_choice = |dip: &GroupDip| is_soon || !dip.others.is_empty();
        let below = dips.iter().filter(|dip| dip.is_below() && !dip.is_shrinking && is_choice(dip));
        if let Some(dip) = below.min_by_key(|dip| dip.reserve()) {
            return Some(AttentionReason::BelowFloor(dip.describe()));
        }
        if let Some(unready) = unready.filter(|unready| unready.is_waited_for()) {
            return Some(AttentionReason::NotReady(unready.clone()));
        }
        let scheduled = activity.events_in(Stage::Scheduled).filter(|_| is_soon);
        let live = scheduled.chain(activity.events_in(Stage::InProgress));
        let unnotified = name_machines(live.filter(|event| !event.is_shown));
        if !unnotified.is_empty() {
            return Some(AttentionReason::NoHandler(unnotified));
        }
        let at_risk = dips.iter().filter(|dip| is_soon && !dip.is_shrinking && dip.could_be_below());
        if let Some(dip) = at_risk.min_by_key(|dip| dip.min_up_then()) {
            return Some(AttentionReason::AtRisk(dip.describe_risk()));
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
            | AttentionReason::HostOff(_) => "red",
            AttentionReason::NotReady(_)
            | AttentionReason::NoHandler(_)
            | AttentionReason::AtRisk(_)
            | AttentionReason::Blocked(_) => "amber",
        }
    }

    fn describe(&self) -> String {
        match self {
            AttentionReason::NoNotice => "no notice was possible".into(),
            AttentionReason::OverTime(secs) => format!("{} longer than planned", clock_span(*secs)),
            AttentionReason::Failed(names) => format!("failed: {names}"),
            AttentionReason::NotReady(unready) => format!("not ready: {}", unready.describe()),
            AttentionReason::NoHandler(names) => format!("no handler, not notified: {}", join_names(names)),
            AttentionReason::BelowFloor(what) | AttentionReason::AtRisk(what) => what.clone(),
            AttentionReason::Blocked(why) => why.clone(),
            AttentionReason::HostOff(names) => format!("failed and fenced; stopped: {names}"),
        }
    }

    /// Whether an operator can still change what happens.
    fn needs_action(&self, stage: Stage) -> bool {
        match self {
            AttentionReason::NotReady(_)
            | AttentionReason::Blocked(_)
            | AttentionReason::Failed(_)
            | AttentionReason::OverTime(_)
            | AttentionReason::HostOff(_) => true,
            AttentionReason::NoHandler(_) | AttentionReason::BelowFloor(_) | AttentionReason::AtRisk(_) => {
                stage == Stage::Scheduled
            }
            AttentionReason::NoNotice => false,
        }
    }
}

/// The severity of a row: that of its event type, and red if a group falls below its floor.
fn find_severity(activity: &Activity, concern: &AttentionReason) -> Severity {
    if matches!(concern, AttentionReason::BelowFloor(_)) { Severity::Red } else { activity.severity }
}

/// Whether an operator can still keep the event from happening: it can be canceled, unlike a deletion.
fn can_prevent(activity: &Activity) -> bool {
    activity.stage() == Stage::Scheduled && !activity.kind.is_deletion()
}

fn endangers_floor(dips: &[GroupDip]) -> bool {
    dips.iter().any(|dip| dip.could_be_below() && !dip.is_shrinking)
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
        let deadline = find_deadline(context, activity, concern);
        (
            Section::of(concern, activity.stage()),
            !can_prevent(activity),
            deadline.is_none(),
            find_severity(activity, concern),
            deadline,
            !endangers_floor(dips_of(activity)),
            Reverse(activity.machine_count()),
            activity.title.clone(),
        )
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
        let unready = unready.get(&activity.id);
        (section, describe_activity(context, activity, concern, outages, dips_of(activity), unready))
    };
    let others = found.split_off(urgent).into_iter().map(describe);
    let rows = found.into_iter().map(describe).chain(hosts).chain(others);
    let mut fragments: Vec<Fragment> = Vec::new();
    let mut last = None;
    // Rows that are not shown are not computed: whether an operation can be canceled takes a run of the rules.
    for (number, (section, row)) in rows.take(ROWS_MAX).enumerate() {
        let is_first = section == Section::ActNow && number == 0;
        let section = if is_first { Section::First } else { section };
        if last.replace(section) != Some(section) {
            fragments.push(section.render_head());
        }
        let (id, sort) = (row.id.clone(), format!("{}-{}", section.sort(), table::row_key(number)));
        fragments.push(Fragment::render(id, sort.as_str(), &AttentionRow { sort: &sort, is_first, ..row }));
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
    let found = || machines.iter().filter_map(|id| region.machine(*id));
    let scopes: BTreeSet<ScopeId> = found().map(|machine| machine.scope).collect();
    let may_activate = context.visitor.is_allowed(Action::ActivateHost);
    AttentionRow {
        id: format!("attention-host-{}", address::encode_segment(host)),
        sort: "",
        kind: "Host",
        severity: Severity::Red.class(),
        title: format!("Host {host} is off"),
        href: address::of_host(host),
        note: String::new(),
        is_first: false,
        concern: AttentionReason::HostOff(join_names(found().map(|machine| machine.name.to_string()))),
        unready: String::new(),
        requester: String::new(),
        inaction: Inaction {
            text: if machines.len() == 1 { "stays down" } else { "stay down" }.into(),
            detail: "until you activate the host".into(),
        },
        impact: AffectedMachines {
            text: format!("{} down", count_of(machines.len(), "machine")),
            is_down: true,
            detail: name_scopes(region, &scopes),
            class: "",
        },
        meter: Readiness::default().render(),
        csrf: &context.visitor.session.csrf,
        action: "/portal/hosts",
        target: ("host", host.to_string()),
        buttons: may_activate.then(|| ("activate", "Activate host…".into())).into_iter().collect(),
        links: vec![(address::of_host(host), "Open host".into())],
    }
}

fn describe_activity<'a>(
    context: &'a PageContext,
    activity: &'a Activity,
    concern: AttentionReason,
    outages: &Outages,
    dips: &[GroupDip],
    unready: Option<&Unready>,
) -> AttentionRow<'a> {
    let (buttons, can_cancel) = list_buttons(context, activity, unready);
    // The title of a rollout is its description.
    let note = if activity.title.contains(&activity.note) { String::new() } else { activity.note.clone() };
    let is_named = matches!(concern, AttentionReason::NotReady(_));
    let unready = unready.filter(|_| !is_named).map(|unready| format!("not ready: {}", unready.describe()));
    // A failure that was reported for a host or machine is no request.
    let is_request = !activity.requested_by.is_empty() && !matches!(concern, AttentionReason::NoNotice);
    let by = Some(&activity.requested_by).filter(|_| is_request);
    let by = by.map(|by| format!("requested by {}", context.name_requester(by)));
    AttentionRow {
        id: format!("attention-{}", activity.id.key()),
        sort: "",
        kind: activity.kind.as_str(),
        severity: find_severity(activity, &concern).class(),
        title: activity.title.clone(),
        href: activity.href(),
        note,
        is_first: false,
        inaction: describe_inaction(context, activity, &concern, can_cancel),
        concern,
        unready: unready.unwrap_or_default(),
        requester: by.unwrap_or_default(),
        impact: describe_impact(context.region(), activity, outages.down_by(activity.id), dips),
        meter: activity.readiness().render(),
        csrf: &context.visitor.session.csrf,
        action: "/portal/operations",
        target: match activity.id {
            ActivityId::Operation(id) => ("id", id.to_string()),
            ActivityId::Rollout(_) => ("id", String::new()),
        },
        buttons,
        links: list_links(context, activity, dips),
    }
}

/// The pages that help most: for a deletion, which cannot be canceled, the scale set that can replace the machines; the activity
/// itself; and those that take machines of the same groups down at the same time.
fn list_links(context: &PageContext, activity: &Activity, dips: &[GroupDip]) -> Vec<(String, String)> {
    let region = context.region();
    let label = match activity.id {
        ActivityId::Operation(_) => "Open operation",
        ActivityId::Rollout(_) => "Open rollout",
    };
    let may = context.visitor.is_allowed(Action::ChangeScaleSet);
    let set = find_shrinking_set(region, activity).filter(|_| may);
    let set = set.map(|group| (scale_set::address_of_scaling(group), format!("Scale out {}", group.name)));
    let at_risk = dips.iter().filter(|dip| dip.could_be_below() && !dip.is_shrinking);
    let others: BTreeSet<ActivityId> = at_risk.flat_map(|dip| dip.others.iter().copied()).collect();
    let others = others.into_iter().take(LINKS_MAX).map(|id| (id.href(), format!("Open {}", find_title(region, id))));
    set.into_iter().chain([(activity.href(), label.into())]).chain(others).collect()
}

/// The scale set whose instances a scheduled deletion removes.
fn find_shrinking_set<'r>(region: &'r Region, activity: &Activity) -> Option<&'r Group> {
    let deletion = Some(activity).filter(|activity| activity.kind.is_deletion());
    let machines = deletion?.events.iter().flat_map(|event| &event.machines);
    let mut groups = machines.filter_map(|machine| region.group(region.machine(*machine)?.membership.group()?));
    groups.find(|group| matches!(group.kind, GroupKind::ScaleSet(_)) && !group.leaving).map(|group| &**group)
}

/// The number of machines, those that are down, and the group that suffers most, or else the number of groups.
fn describe_impact(region: &Region, activity: &Activity, down: usize, dips: &[GroupDip]) -> AffectedMachines {
    let all = activity.live_names().len();
    let text = match (activity.kind.is_deletion(), down, all.saturating_sub(down)) {
        (true, _, _) | (_, 0, _) => count_of(all, "machine"),
        (_, _, 0) => format!("{} down", count_of(down, "machine")),
        (_, _, next) => format!("{} down, {next} next", count_of(down, "machine")),
    };
    let losing = dips.iter().filter(|dip| dip.takes_machines() || dip.is_shrinking);
    let worst =
        losing.min_by_key(|dip| (dip.reserve(), dip.then)).filter(|dip| dip.could_be_below() || dip.is_shrinking);
    let (detail, class) = match worst {
        Some(dip) if dip.is_shrinking => (format!("{}: {} → {}", dip.name, dip.size, dip.all), ""),
        Some(dip) => {
            let class = if dip.is_below() { "red" } else { "amber" };
            (format!("{}: {}, floor {}", dip.name, dip.range_up(), dip.floor), class)
        }
        None => (name_scopes(region, &find_live_scopes(activity)), ""),
    };
    AffectedMachines { text, is_down: down > 0, detail, class }
}

fn find_live_scopes(activity: &Activity) -> BTreeSet<ScopeId> {
    let live = activity.events.iter().filter(|event| event.stage() != Stage::Finished);
    live.filter_map(|event| event.scope_id).collect()
}

/// `in web`, `in 3 groups`, `standalone`.
fn name_scopes(region: &Region, scopes: &BTreeSet<ScopeId>) -> String {
    let first = scopes.first().and_then(|id| region.scope(*id));
    match (scopes.len(), first) {
        (1, Some(scope)) => match scope.owner {
            ScopeOwner::Group { .. } => format!("in {}", words::scope(region, scope).name),
            ScopeOwner::Machine(_) => "standalone".into(),
        },
        (0 | 1, _) => String::new(),
        (scopes, _) => format!("in {scopes} groups"),
    }
}

/// Describes the outcome without an operator.
fn describe_inaction(
    context: &PageContext,
    activity: &Activity,
    concern: &AttentionReason,
    can_cancel: bool,
) -> Inaction {
    let of = |text: String, detail: String| Inaction { text, detail };
    match (concern, activity.stage(), activity.due()) {
        (AttentionReason::Blocked(_), _, _) => of("waits".into(), "until this changes".into()),
        (AttentionReason::Failed(_), _, _) if activity.is_running => describe_tolerance(context, activity),
        (_, Stage::Scheduled, Some(due)) => {
            let set = find_shrinking_set(context.region(), activity);
            let detail = match (concern, can_cancel, set) {
                (AttentionReason::NoHandler(_), _, _) => "without notice",
                (_, true, _) => "ready or not",
                (_, false, Some(_)) if !context.visitor.is_allowed(Action::ChangeScaleSet) => "an owner can scale out",
                (_, false, None) if activity.kind.is_deletion() => "save the data first",
                (_, false, _) => "cannot be canceled",
            };
            let (effect, at) = (activity.kind.effect(), words::time(due));
            match due <= context.now {
                true => of(format!("{effect} as soon as possible"), detail.into()),
                false => of(format!("{effect} {}", words::countdown_at(due)), format!("at {at}, {detail}")),
            }
        }
        (AttentionReason::OverTime(_), _, _) => match find_report_deadline(context.region(), activity) {
            Some(at) => of(format!("fails at {}", words::clock_time(at)), "if it has not ended by then".into()),
            None => of("no end is known".into(), describe_start(activity)),
        },
        (_, _, _) => match activity.expected_end() {
            Some(end) => of(format!("ends at {}", words::clock_time(end)), describe_start(activity)),
            None => of("ends by itself".into(), describe_start(activity)),
        },
    }
}

fn describe_start(activity: &Activity) -> String {
    activity.started().map_or_else(String::new, |at| format!("in progress since {}", words::time(at)))
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
        Some((failures, max)) => format!("{} failed, limit {max}", count_of(failures as usize, "machine")),
    };
    Inaction { text: "continues".into(), detail }
}

/// The buttons that the visitor may use, and whether the rules let the activity be canceled.
fn list_buttons(
    context: &PageContext,
    activity: &Activity,
    unready: Option<&Unready>,
) -> (Vec<(&'static str, String)>, bool) {
    let ActivityId::Operation(id) = activity.id else { return (Vec::new(), true) };
    let Some(operation) = context.region().operation(id) else { return (Vec::new(), true) };
    // An approved deletion only starts sooner.
    let is_waited_for = unready.is_some_and(Unready::is_waited_for);
    let can_approve =
        is_waited_for && !activity.kind.is_deletion() && context.visitor.is_allowed(Action::ApproveEvents);
    let trial = if can_approve { context.preview().try_approval_of(operation) } else { None };
    let approve = trial.map(|trial| ("approve", label_approval(activity, &trial)));
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
