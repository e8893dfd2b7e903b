//! The page of a scale set, availability set or cloud service, and the list of scale sets.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use forewarn_api_types::count_of;
use forewarn_core::{Event, EventId, Group, GroupId, GroupKind, Rollout, RolloutTargets, Status, Timestamp};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::page_head::Sentence;
use forewarn_widgets::panel::{NotFound, PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::{address, words};

use super::action::{Button, ButtonPanel, ButtonStyle};
use super::fleet::{self, FleetGroup};
use super::history::{self, HistorySearch};
use super::operation_lanes::{self, LaneView};
use super::page_context::PageContext;
use super::timeline::EventTimeline;
use super::unready::Unready;
use super::{activities, group_machines, group_table, handler, policy, scale_set};
use forewarn_api::{Action, GroupType, delete_action};
use forewarn_previews::plan;
use forewarn_render::{find_cause, find_dips};
use forewarn_store::HistoryQuery;
use forewarn_widgets::conflict;

/// Times of the next events that the status names.
const TIMES_MAX: usize = 2;

#[derive(Template)]
#[template(path = "scale_set_row.html")]
struct ScaleSetRow {
    id: u64,
    sort: String,
    name: String,
    kind: &'static str,
    capacity: u32,
    notification: String,
    outdated: usize,
}

/// `fields` is what was typed into the forms of a scale set, if it contains errors.
pub async fn render(
    context: &PageContext,
    id: GroupId,
    query: &PageQuery,
    fields: Option<&scale_set::ScaleSetFields>,
) -> Result<PageContent, NotFound> {
    let region = context.region();
    let group = region.group(id).ok_or_else(|| NotFound("This group does not exist or has been deleted.".into()))?;
    let here = address::of_group(id);
    let scopes = group.scopes.clone();
    let numbers: Vec<u64> = scopes.iter().map(|scope| scope.0).collect();
    let view = LaneView::of(context, query, &here).of_one_group();
    let owner = region.live_rollouts().find(|rollout| owns_group(rollout, id)).map(|rollout| rollout.id);
    let is_of_scope = |event: &EventTimeline| event.scope_id.is_some_and(|scope| scopes.contains(&scope));
    let activities = activities::collect_some(context, view.window.begin(), owner, is_of_scope).await;
    let fleet = fleet::of_group(context, group);
    let mut panels = vec![
        describe_state(context, group, &fleet).into_panel(),
        render_actions(context, group, &here).without_frame(),
        conflict::render_panel(&conflict::warn_of_group(
            region,
            id,
            &conflict::find_all_dips(region, context.now, &activities),
        )),
        operation_lanes::render_operation_lanes(context, &activities, query, view),
        group_machines::render_panel(context, group, query, &here),
        Panel::with_content("facts", "Details", &list_facts(context, group)),
    ];
    let members: std::collections::BTreeSet<_> = region.group_members(group).map(|machine| machine.id).collect();
    let is_of_group = |row: &forewarn_store::HistoryRow| {
        row.scope.is_some_and(|scope| numbers.contains(&scope))
            || row.target.as_deref() == Some(&*group.name)
            || row.machine_ids.iter().any(|machine| members.contains(machine))
    };
    // Requests have no event group.
    let scopes = numbers.iter().copied().map(Some).chain([None]).collect();
    let search = HistorySearch {
        indexed: None,
        scanned: Some(HistoryQuery { scopes, ..HistoryQuery::default() }),
        is_wanted: is_of_group,
        here: &here,
        query,
    };
    panels.push(history::render_search_panel(context, &search).await);
    if let GroupKind::ScaleSet(of_set) = &group.kind {
        let settings = scale_set::render_panel(context, group, of_set, &here, fields);
        panels.push(settings.opened(query.text(scale_set::SETTINGS) == scale_set::OPEN));
    }
    panels.push(render_policy(context, group, &here));
    Ok(PageContent::new(group.name.to_string(), panels).with_lead(render_lead(context, group, &fleet)))
}

fn owns_group(rollout: &Rollout, id: GroupId) -> bool {
    match &rollout.targets {
        RolloutTargets::Groups(groups) => groups.contains(&id),
        RolloutTargets::Hosts(_) | RolloutTargets::Machines(_) | RolloutTargets::MachinesByDomain(_) => false,
    }
}

fn render_lead(context: &PageContext, group: &Group, fleet: &FleetGroup) -> String {
    let region = context.region();
    let hosts: std::collections::BTreeSet<_> =
        region.group_members(group).filter_map(|machine| machine.host.as_ref()).collect();
    let on_hosts = if hosts.is_empty() { String::new() } else { format!(" on {}", count_of(hosts.len(), "host")) };
    let limit = fleet.limit(region).map(|limit| format!(" ({})", conflict::render_limit(region, limit)));
    let limit = limit.unwrap_or_default();
    let facts = [
        words::group_kind(group).to_owned(),
        format!("<b>{}</b>{on_hosts}", count_of(fleet.machines, "machine")),
        format!("Handlers polling: <b>{}</b>", handler::describe_group(context, group, fleet.polling, fleet.up)),
        format!("Floor <b>{}</b>{limit}", fleet.floor(region)),
    ];
    let facts: Vec<String> = facts.iter().map(|fact| format!("<span>{fact}</span>")).collect();
    let crumbs = r#"<p class="crumbs"><a href="/groups">Groups</a> / Group</p>"#;
    format!(r#"{crumbs}<p class="head-facts">{}</p>"#, facts.join(" "))
}

/// The state in one sentence: machines that are up, those that go down next, how many are left then, and which are not ready.
fn describe_state(context: &PageContext, group: &Group, fleet: &FleetGroup) -> Sentence {
    let region = context.region();
    let (up, all, floor) = (fleet.up, fleet.machines, fleet.floor(region));
    let mut parts = vec![match all {
        0 => "No machines".to_owned(),
        all if up < all => {
            let capacity = describe_capacity(up, floor);
            format!(r#"<span class="{}">{up} of {all} up{capacity}</span>"#, fleet.class(region, up))
        }
        all => format!(r#"<span class="green">{up} of {all} up</span>"#),
    }];
    let times = find_next_times(context, group);
    let mut more = "";
    for ((due, verb), next) in times.iter().take(TIMES_MAX) {
        let machines = next.machines;
        let verb = if machines == 1 { verb.0 } else { verb.1 };
        let left = describe_left(context, group, next);
        parts.push(format!("{machines}{more} {verb} {}{left}", words::countdown_at(*due)));
        more = " more";
    }
    if let Some(next) = times.values().next().filter(|_| fleet.has_handler) {
        parts.push(Unready::of(context, next.events.values().copied(), |_| true).render());
    }
    if times.is_empty() && all > 0 {
        parts.push(r#"<span class="q">no events scheduled</span>"#.into());
    }
    if fleet.has_handler && fleet.polling == 0 && up > 0 {
        parts.push(r#"<span class="amber">no handler polls</span>"#.into());
    }
    if !fleet.has_handler && all > 0 {
        parts.push(r#"<span class="amber">no handler, so events come without notice</span>"#.into());
    }
    if group.leaving {
        parts.push(r#"<span class="red">being deleted</span>"#.into());
    }
    Sentence::of(parts)
}

/// Where a number of machines is in relation to the floor.
fn describe_capacity(up: usize, floor: usize) -> String {
    match up.cmp(&floor) {
        Ordering::Less => format!(", {} below the floor", floor - up),
        Ordering::Equal => ", at the floor".into(),
        Ordering::Greater => format!(", {} above the floor", up - floor),
    }
}

/// The machines of the group that are up while these events have their impact. HTML, or empty if they take no machine down.
fn describe_left(context: &PageContext, group: &Group, next: &NextOutage<'_>) -> String {
    let region = context.region();
    let events: Vec<&Arc<Event>> = next.events.values().copied().collect();
    let cause = events.first().and_then(|event| event.operations.first());
    let Some(own) = cause.map(|operation| find_cause(region, *operation)) else {
        return String::new();
    };
    let dips = find_dips(region, context.now, own, &events);
    dips.iter().find(|dip| dip.id == group.id).map_or_else(String::new, |dip| {
        let span = |up: usize| {
            format!(
                r#"<span class="{}">{up}{}</span>"#,
                fleet::floor_class(up, dip.floor),
                describe_capacity(up, dip.floor)
            )
        };
        match dip.returning {
            0 if dip.all == 0 => ", leaving none".to_owned(),
            0 => format!(", leaving {}", span(dip.then)),
            returning => {
                let late =
                    if returning == 1 { "1 machine returns".into() } else { format!("{returning} machines return") };
                format!(", leaving {}, or {} if {late} late", span(dip.then), dip.min_up_then())
            }
        }
    })
}

/// Machines of a group whose next events start at the same time.
#[derive(Default)]
struct NextOutage<'r> {
    machines: usize,
    events: BTreeMap<EventId, &'r Arc<Event>>,
}

/// The next events of the machines of a group, by time and effect.
fn find_next_times<'c>(
    context: &'c PageContext,
    group: &Group,
) -> BTreeMap<(Timestamp, words::VerbForms), NextOutage<'c>> {
    let region = context.region();
    let mut times: BTreeMap<(Timestamp, words::VerbForms), NextOutage<'c>> = BTreeMap::new();
    for machine in region.group_members(group) {
        let scheduled = region.events_of(machine.id).filter(|event| event.status == Status::Scheduled);
        let with_verb = scheduled.filter_map(|event| Some((event, words::impact_verb(event.kind)?)));
        if let Some((event, verb)) = with_verb.min_by_key(|(event, _)| event.not_before) {
            let next = times.entry((event.not_before, verb)).or_default();
            next.machines += 1;
            next.events.insert(event.id, event);
        }
    }
    times
}

fn render_policy(context: &PageContext, group: &Group, here: &str) -> Panel {
    let (kind, target) = (address::group_kind_word(group), address::group_target(group));
    policy::render_panel(context, "policy", kind, &target, &group.policy, here)
}

/// The table of all groups.
pub fn render_all(context: &PageContext, query: &PageQuery) -> PageContent {
    let kind = query.text("kind");
    let mut groups = fleet::list_groups(context);
    let kinds = [
        ("", "All kinds"),
        ("Scale set", "Scale sets"),
        ("Availability set", "Availability sets"),
        ("Cloud service", "Cloud services"),
        ("Standalone", "Standalone VMs"),
    ];
    let links = kinds.map(|(word, label)| {
        format!(
            r#"<a href="{}" data-soft{}>{label} <span class="n">{}</span></a>"#,
            query.with("kind", word).with("from", "").address("/groups").replace('&', "&amp;"),
            if word == kind { r#" aria-current="true""# } else { "" },
            groups.iter().filter(|group| group.kind.starts_with(word)).count()
        )
    });
    groups.retain(|group| group.kind.starts_with(kind));
    let add = match context.visitor.is_allowed(Action::CreateScaleSet) {
        true => r#" <a class="button" href="/scale-sets/add">Add a scale set</a>"#,
        false => "",
    };
    let lead = format!(
        r#"<p class="row"><span class="seg" role="group" aria-label="Filter by kind">{}</span>{add}</p>"#,
        links.concat()
    );
    let panel = group_table::render_panel(context, &groups, query, "/groups", group_table::ROWS_MAX);
    PageContent::new("Groups", vec![panel]).with_lead(lead)
}

pub fn render_scale_sets(context: &PageContext) -> PageContent {
    let region = context.region();
    let rows = region.groups().filter_map(|group| match &group.kind {
        GroupKind::ScaleSet(set) => Some((group, set)),
        GroupKind::AvailabilitySet | GroupKind::CloudService => None,
    });
    let rows = rows.map(|(group, set)| {
        let sort = format!("{}-{}", group.name, group.id.0);
        let row = ScaleSetRow {
            id: group.id.0,
            sort: sort.clone(),
            name: group.name.to_string(),
            kind: words::group_kind(group),
            capacity: set.capacity,
            notification: scale_set::latest_notification(set),
            outdated: scale_set::outdated(context, group, set).count(),
        };
        Fragment::render(format!("set-{}", group.id.0), sort, &row)
    });
    let panel =
        Panel::new("sets", "Scale sets", rows.collect()).or_empty_text("No scale sets yet. Choose Add to create one.");
    let add = match context.visitor.is_allowed(Action::CreateScaleSet) {
        true => r#"<p><a class="button primary" href="/scale-sets/add">Add</a></p>"#,
        false => "",
    };
    PageContent { title: "Virtual machine scale sets".into(), lead: add.into(), panels: vec![panel], aside: Vec::new() }
}

fn list_facts(context: &PageContext, group: &Group) -> Facts {
    let mut facts = vec![
        ("Resource group", words::escape_html(&group.home.resource_group)),
        ("Event groups", handler::count_scopes(context, group.scopes.iter().copied())),
        ("Polls of handlers", handler::describe_polls(context, group)),
        ("Update domains", group.update_domains.to_string()),
        ("Fault domains", group.fault_domains.to_string()),
    ];
    if let GroupKind::ScaleSet(set) = &group.kind {
        facts.push(("Capacity", set.capacity.to_string()));
        facts.push(("Upgrade mode", scale_set::mode_name(set.upgrade_mode).into()));
        facts.push(("Instance termination notification", words::escape_html(scale_set::latest_notification(set))));
        facts.push(("Outdated instances", scale_set::outdated(context, group, set).count().to_string()));
    }
    Facts { facts }
}

fn render_actions(context: &PageContext, group: &Group, here: &str) -> Panel {
    let consequences = context.preview().describe_group_deletion(group);
    let kind = format!(r#"<input type="hidden" name="kind" value="{}">"#, address::group_kind_word(group));
    let delete =
        Button::new("delete-group", "Delete", consequences, delete_action(GroupType::of(group)), ButtonStyle::Danger);
    let name = format!("{}/{}", group.home.resource_group, group.name);
    let rollout = PageQuery::default().with("groups", &name).address("/rollouts/plan");
    let mut actions = ButtonPanel::new(context, address::group_target(group), here);
    if matches!(group.kind, GroupKind::ScaleSet(_)) {
        actions = actions.link("scale", "Scale…", &scale_set::address_of_scaling(group), Action::ChangeScaleSet);
    }
    actions
        .link("plan", "Plan maintenance", &plan::address_with("group", &name), Action::StartMaintenance)
        .link("rollout", "Plan a rollout", &rollout, Action::StartRollout)
        .button(delete.with_fields(kind))
        .into_panel()
}
