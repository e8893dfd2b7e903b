//! The table of hosts with the registration form: state, machines, the worst group affected and the next maintenance. Selected
//! hosts can be drained, activated, or planned for a rollout.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use forewarn_api_types::{Fencing, count_of, join_names};
use forewarn_core::{GroupKey, Host, Name, Region, RolloutStep, StepState, StepTarget};
use forewarn_widgets::field::{self, Field, FieldErrors};
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::host_condition::HostCondition;
use forewarn_widgets::html::RenderMode;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::selection_bar::SelectionBar;
use forewarn_widgets::severity::Severity;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, html, words};
use http::StatusCode;

use super::flash::Flash;
use super::fleet::{self, FleetGroup, NextEvent};
use super::page_context::PageContext;
use super::visitor::Form;
use super::{Portal, fencing, frame, group_table};
use forewarn_api::Action;
use forewarn_render::name_rollout;
use forewarn_widgets::activity::ActivityId;

const HERE: &str = "/hosts";

/// Hosts per page.
const ROWS_MAX: usize = 200;

const COLUMNS: [Column; 8] = [
    Column { key: "", label: "", class: "w4 all" },
    Column { key: "name", label: "Name", class: "" },
    Column { key: "pool", label: "Pool", class: "" },
    Column { key: "state", label: "State", class: "" },
    Column { key: "machines", label: "Machines", class: "r" },
    Column { key: "worst", label: "Most affected group", class: "" },
    Column { key: "", label: "If the host goes down", class: "" },
    Column { key: "next", label: "Next maintenance", class: "" },
];

const STATES: [(&str, &str); 6] = [
    ("", "All"),
    ("active", "Active"),
    ("draining", "Draining"),
    ("drained", "Drained"),
    ("failed", "Failed"),
    ("unreachable", "Unreachable"),
];

/// A host with what the table shows about it.
struct HostFacts<'r> {
    host: &'r Arc<Host>,
    condition: HostCondition,
    machines: usize,
    worst: Option<WorstGroup>,
    /// The next event of its machines, and the number of machines that it affects.
    next: Option<(NextEvent, usize)>,
}

impl HostFacts<'_> {
    fn next_rank(&self) -> i64 {
        self.next.map_or(i64::MAX, |(next, _)| next.rank())
    }
}

/// The group that is affected most if the host goes down.
struct WorstGroup {
    name: String,
    href: String,
    up: usize,
    after: usize,
    floor: usize,
}

impl WorstGroup {
    /// Red below the floor, amber at it.
    fn class(&self) -> &'static str {
        match self.after.cmp(&self.floor) {
            Ordering::Less => "red",
            Ordering::Equal => "amber",
            Ordering::Greater => "",
        }
    }
}

#[derive(Template)]
#[template(path = "host_row.html")]
struct HostRow<'a> {
    id: &'a str,
    sort: &'a str,
    name: &'a str,
    href: String,
    pool: &'a str,
    /// HTML.
    state: String,
    machines: usize,
    worst: &'a Option<WorstGroup>,
    /// HTML.
    next: String,
    selectable: bool,
    is_selected: bool,
}

#[derive(Template)]
#[template(path = "host_form.html")]
struct RegistrationForm<'a> {
    field: String,
    csrf: &'a str,
    allowed: bool,
}

#[derive(Template)]
#[template(path = "host_filters.html")]
struct HostFilters<'a> {
    /// Address, label, number, and whether it is selected.
    states: Vec<(String, &'static str, usize, bool)>,
    pools: Vec<String>,
    pool: &'a str,
    search: &'a str,
    others: Vec<(&'a str, &'a str)>,
}

pub async fn render(context: &PageContext, query: &PageQuery, name: &str, problems: &FieldErrors) -> PageContent {
    let region = context.region();
    let facts = list_facts(context);
    let hosts: Vec<&HostFacts<'_>> = facts.iter().filter(|facts| is_wanted(facts, query)).collect();
    let order = SortOrder::of(query, &COLUMNS, "state");
    let mut found = hosts;
    sort(&mut found, order);
    let from = query.number("from");
    let shown: Vec<&HostFacts<'_>> = found.iter().skip(from).take(ROWS_MAX).copied().collect();
    let hosts: Vec<Arc<Host>> = shown.iter().map(|facts| facts.host.clone()).collect();
    let fencings = fencing::find_all(context, &hosts).await;
    let rows = shown.iter().enumerate();
    let rows =
        rows.map(|(number, facts)| render_row(context, query, facts, fencings.get(&facts.host.name), number)).collect();
    let panel = Panel::new("hosts", "Hosts", rows)
        .with_table(render_head(context, order, query))
        .with_html_before(html::render(&filters(&facts, query)))
        .with_html_after(
            group_table::render_paging(query, HERE, from, ROWS_MAX, found.len())
                + &render_selection_bar(context, query),
        )
        .or_empty_text("No matching hosts. Register one below, or name a host when you register a machine.");
    let field = Field::new("name", "Name", name, problems).render();
    let form = RegistrationForm {
        field,
        csrf: &context.visitor.session.csrf,
        allowed: context.visitor.is_allowed(Action::RegisterHost),
    };
    let register = Panel::new("register", "Register a host", Vec::new()).with_html_before(html::render(&form));
    PageContent::new("Hosts", vec![panel, register]).with_lead(describe_fleet(region))
}

fn render_head(context: &PageContext, order: SortOrder<'_>, query: &PageQuery) -> String {
    let head = table::render_head(&COLUMNS, order, query, HERE);
    if !context.visitor.is_allowed(Action::DrainHost) {
        return head;
    }
    let all = r#"<input type="checkbox" id="select-all" form="selection" aria-label="Select all hosts">"#;
    head.replacen(r#"<span class="vh">Select</span>"#, all, 1)
}

fn describe_fleet(region: &Region) -> String {
    let pools: std::collections::BTreeSet<&Name> = region.hosts().map(|host| &host.pool).collect();
    let mut facts = vec![
        count_of(region.hosts().count(), "host"),
        count_of(region.machines().filter(|machine| machine.host.is_some()).count(), "machine"),
        count_of(pools.len(), "pool"),
    ];
    let rollouts = region.live_rollouts().map(|rollout| {
        let (href, name) = (ActivityId::Rollout(rollout.id).href(), words::escape_html(name_rollout(region, rollout)));
        format!(r#"<a href="{href}">{name}</a>"#)
    });
    let rollouts: Vec<String> = rollouts.collect();
    if !rollouts.is_empty() {
        facts.push(format!("{} in progress: {}", count_of(rollouts.len(), "rollout"), join_names(rollouts)));
    }
    let facts: Vec<String> = facts.into_iter().map(|fact| format!("<span>{fact}</span>")).collect();
    format!(r#"<p class="head-facts">{}</p>"#, facts.join(" "))
}

fn render_selection_bar(context: &PageContext, query: &PageQuery) -> String {
    let offered = [
        ("plan", "Plan rollout", "primary", Action::StartRollout),
        ("drain", "Drain…", "", Action::DrainHost),
        ("activate", "Activate…", "", Action::ActivateHost),
    ];
    let buttons: Vec<_> = offered
        .into_iter()
        .filter(|(_, _, _, needs)| context.visitor.is_allowed(*needs))
        .map(|(act, label, class, _)| (act, label, class))
        .collect();
    if buttons.is_empty() {
        return format!(r#"<p class="foot">{}</p>"#, words::role_needed(Action::DrainHost.role()));
    }
    SelectionBar {
        action: "/portal/hosts",
        csrf: &context.visitor.session.csrf,
        back: &query.address(HERE),
        label: "Actions on selected hosts",
        buttons,
    }
    .render()
}

fn is_wanted(facts: &HostFacts<'_>, query: &PageQuery) -> bool {
    let (host, condition) = (facts.host, facts.condition);
    let (state, pool, search) = (query.text("state"), query.text("pool"), query.text("q").to_lowercase());
    let has_state = match state {
        "bad" => condition.is_bad(),
        state => !STATES.iter().any(|(known, _)| *known == state && !known.is_empty()) || condition.filter() == state,
    };
    let name = host.name.to_lowercase();
    let has_name = match search.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name.contains(&search),
    };
    has_state && has_name && (pool.is_empty() || *host.pool == *pool)
}

fn filters<'a>(facts: &[HostFacts<'_>], query: &'a PageQuery) -> HostFilters<'a> {
    let selected = query.text("state");
    let number = |word: &str| facts.iter().filter(|one| word.is_empty() || one.condition.filter() == word).count();
    let pools: std::collections::BTreeSet<String> = facts.iter().map(|one| one.host.pool.to_string()).collect();
    HostFilters {
        states: STATES
            .map(|(word, label)| {
                let href = query.with("state", word).with("from", "").address(HERE);
                (href, label, number(word), word == selected)
            })
            .into(),
        pools: pools.into_iter().collect(),
        pool: query.text("pool"),
        search: query.text("q"),
        others: query.fields_except("q").into_iter().filter(|(name, _)| *name != "pool").collect(),
    }
}

/// All hosts, with one pass over the machines.
fn list_facts(context: &PageContext) -> Vec<HostFacts<'_>> {
    let region = context.region();
    let groups: BTreeMap<GroupKey, FleetGroup> =
        fleet::list_groups(context).into_iter().map(|group| (group.key, group)).collect();
    let mut machines: BTreeMap<&Name, BTreeMap<GroupKey, usize>> = BTreeMap::new();
    let mut next: BTreeMap<&Name, (NextEvent, usize)> = BTreeMap::new();
    for machine in region.machines() {
        let Some(host) = &machine.host else { continue };
        *machines.entry(host).or_default().entry(GroupKey::of(machine)).or_default() += 1;
        let Some(found) = fleet::next_event(region, machine.id) else { continue };
        match next.entry(host).or_insert((found, 0)) {
            (known, affected) if *known == found => *affected += 1,
            known if found.rank() < known.0.rank() => *known = (found, 1),
            _ => {}
        }
    }
    let failing = region.failing_hosts();
    let facts = region.hosts().map(|host| {
        let on_host = machines.get(&host.name);
        HostFacts {
            host,
            condition: HostCondition::of(host, &failing),
            machines: on_host.map_or(0, |groups| groups.values().sum()),
            worst: on_host.and_then(|on_host| find_worst(region, on_host, &groups)),
            next: next.get(&host.name).copied(),
        }
    });
    facts.collect()
}

/// The group with the fewest machines above its floor after the loss of the host.
fn find_worst(
    region: &Region,
    on_host: &BTreeMap<GroupKey, usize>,
    groups: &BTreeMap<GroupKey, FleetGroup>,
) -> Option<WorstGroup> {
    let after = |group: &FleetGroup, lost: usize| group.up.saturating_sub(lost);
    let candidates = on_host.iter().filter_map(|(key, lost)| Some((groups.get(key)?, *lost)));
    let (group, lost) = candidates.min_by_key(|(group, lost)| {
        let left = after(group, *lost);
        (left as i64 - group.floor(region) as i64, left)
    })?;
    Some(WorstGroup {
        name: group.name.clone(),
        href: group.href.clone(),
        up: group.up,
        after: after(group, lost),
        floor: group.floor(region),
    })
}

fn sort(found: &mut [&HostFacts<'_>], order: SortOrder<'_>) {
    let worst =
        |facts: &&HostFacts<'_>| facts.worst.as_ref().map_or(i64::MAX, |worst| worst.after as i64 - worst.floor as i64);
    match order.key {
        "name" => found.sort_by_key(|facts| facts.host.name.clone()),
        "pool" => found.sort_by_key(|facts| (facts.host.pool.clone(), facts.host.name.clone())),
        "machines" => found.sort_by_key(|facts| std::cmp::Reverse(facts.machines)),
        "worst" => found.sort_by_key(worst),
        "next" => found.sort_by_key(|facts| facts.next_rank()),
        _ => found.sort_by_key(|facts| (facts.condition, facts.next_rank(), facts.host.name.clone())),
    }
    if order.is_descending {
        found.reverse();
    }
}

fn render_row(
    context: &PageContext,
    query: &PageQuery,
    facts: &HostFacts<'_>,
    fencing: Option<&Fencing>,
    number: usize,
) -> Fragment {
    let host = facts.host;
    let (id, sort) = (format!("host-{}", address::encode_segment(&host.name)), table::row_key(number));
    let row = HostRow {
        id: &id,
        sort: &sort,
        name: &host.name,
        href: address::of_host(&host.name),
        pool: &host.pool,
        state: facts.condition.render() + &fencing.map_or_else(String::new, fencing::render_note),
        machines: facts.machines,
        worst: &facts.worst,
        next: describe_next(context.region(), facts),
        selectable: context.visitor.is_allowed(Action::DrainHost),
        is_selected: query.has_word("selected", &host.name),
    };
    Fragment::render(id.as_str(), sort.as_str(), &row)
}

/// The next event of the host's machines, and the rollout that owns the host.
fn describe_next(region: &Region, facts: &HostFacts<'_>) -> String {
    let rollout = region.rollout_of_host(&facts.host.name);
    let is_of_host = |step: &&RolloutStep| step.target == StepTarget::Host(facts.host.name.clone());
    let step = rollout.and_then(|rollout| rollout.steps.iter().rev().find(is_of_host)).map(|step| step.state);
    let link = rollout.map_or_else(String::new, |rollout| {
        format!(
            r#"<a class="q" href="{}">{}</a>"#,
            ActivityId::Rollout(rollout.id).href(),
            words::escape_html(name_rollout(region, rollout))
        )
    });
    let event = facts.next.map(|(NextEvent { kind, due }, affected)| {
        let class = Severity::of(kind).class();
        let when = due.map_or_else(|| "in progress".into(), |due| words::countdown(due, ""));
        let part = if affected < facts.machines {
            format!(r#" <span class="q">{affected} of {}</span>"#, count_of(facts.machines, "machine"))
        } else {
            String::new()
        };
        format!(r#"<span class="b b-{class}">{}</span> {when}{part}"#, words::event_kind(kind))
    });
    match (event, step) {
        (Some(event), Some(StepState::InProgress)) => format!("{event} {link}"),
        (Some(event), Some(StepState::Pending)) => format!("{event}, then {link}"),
        (Some(event), _) => event,
        (None, Some(StepState::Pending | StepState::InProgress)) => format!("waits in {link}"),
        (None, Some(StepState::Failed)) => format!(r#"<span class="red">failed in</span> {link}"#),
        (None, Some(StepState::Succeeded | StepState::Skipped | StepState::Canceled)) => {
            format!(r#"<span class="q">done in</span> {link}"#)
        }
        (None, None) => r#"<span class="qq">none</span>"#.into(),
    }
}

/// Registers a host.
pub async fn submit(State(portal): State<Portal>, form: Form) -> Response {
    let name = form.text("name");
    let mut problems = FieldErrors::default();
    if problems.take("name", field::parse_name(name)).is_some() {
        match portal.actions(form.visitor.principal()).register_host(name).await {
            Ok(_) => {
                let flash = Flash::new(format!("Registered host {name}."));
                portal.shared.flashes.set(&form.visitor.cookie, flash.with_link(HERE, "All hosts"));
                return Redirect::to(&address::of_host(name)).into_response();
            }
            Err(refused) => problems.add("name", refused.message),
        }
    }
    let context = PageContext::now(&portal, &form.visitor, RenderMode::Page);
    let content = render(&context, &PageQuery::default(), name, &problems).await;
    (StatusCode::UNPROCESSABLE_ENTITY, frame::render(&context, HERE, &content, "")).into_response()
}
