//! The servers of a cluster and the host agents: who leads, how far each copy is, the health of etcd, and which agents are in contact.

use std::time::Duration;

use askama::Template;
use forewarn_api_types::{ClusterNode, ClusterReport, EtcdMember, HostAgent, count_of};
use forewarn_core::{Contact, Host, Timestamp};
use forewarn_widgets::facts::Facts;
use forewarn_widgets::fragment::Fragment;
use forewarn_widgets::page_head::Sentence;
use forewarn_widgets::panel::{PageContent, Panel};
use forewarn_widgets::query::PageQuery;
use forewarn_widgets::table::{self, Column, SortOrder};
use forewarn_widgets::{address, words};

use super::page_context::PageContext;

/// Agents that are listed, unreachable ones first. The page of hosts lists all hosts.
const AGENTS_MAX: usize = 500;

/// How long the page waits for etcd. Later it shows what this server knows by itself.
const REPORT_WAIT_MAX: Duration = Duration::from_secs(2);

const NODES: [Column; 5] = columns([("Server", ""), ("Role", ""), ("Revision", "r"), ("Behind", "r"), ("Address", "")]);
const ETCD: [Column; 4] = columns([("Endpoint", ""), ("State", ""), ("Version", ""), ("Size", "r")]);
const AGENTS: [Column; 7] = columns([
    ("Host", ""),
    ("State", ""),
    ("Connected since", ""),
    ("Last heartbeat", ""),
    ("Revision", "r"),
    ("Version", ""),
    ("Address", ""),
]);

const UNKNOWN: &str = r#"<span class="qq">–</span>"#;

/// A row of any of the tables. Name and cells are HTML.
#[derive(Template)]
#[template(path = "cells.html")]
struct Row<'a> {
    id: &'a str,
    sort: &'a str,
    name: String,
    cells: Vec<RowCell>,
}

struct RowCell {
    label: &'static str,
    class: &'static str,
    html: String,
}

/// The label of the page in the navigation. None: there is neither a cluster nor an agent.
pub fn find_label(context: &PageContext) -> Option<&'static str> {
    let has_agent = || context.region().hosts().any(|host| host.contact != Contact::None);
    match context.portal.engine().cluster() {
        Some(_) => Some("Cluster"),
        None => has_agent().then_some("Host agents"),
    }
}

/// The warning on every page while no server leads; empty otherwise.
pub fn describe_outage(context: &PageContext) -> &'static str {
    match context.portal.engine().cluster() {
        Some(cluster) if cluster.status().leader.is_none() => {
            "The cluster has no leader. Pages show the last known state, and changes are refused until a server leads."
        }
        Some(_) | None => "",
    }
}

pub async fn render(context: &PageContext) -> PageContent {
    let mut panels = Vec::new();
    if context.portal.engine().cluster().is_some() {
        panels.extend(render_servers(fetch_report(context).await));
    }
    panels.push(render_agents(context));
    PageContent::new(find_label(context).unwrap_or("Host agents"), panels)
}

/// The report, or this server's own view if etcd does not answer in time.
async fn fetch_report(context: &PageContext) -> ClusterReport {
    let report = tokio::time::timeout(REPORT_WAIT_MAX, context.portal.report_cluster()).await;
    report.ok().flatten().unwrap_or_else(|| report_this_server(context))
}

fn report_this_server(context: &PageContext) -> ClusterReport {
    let status = context.portal.engine().cluster().map(|cluster| cluster.status());
    let status = status.as_deref();
    ClusterReport {
        region: String::new(),
        node: status.map_or_else(String::new, |status| status.node.clone()),
        role: status.map_or_else(String::new, |status| status.role.as_str().into()),
        leader: status.and_then(|status| Some(status.leader.as_ref()?.node.clone())),
        term: status.map_or(0, |status| status.term),
        revision: context.snapshot.revision,
        heartbeat_age_ms: None,
        problem: status.and_then(|status| status.problem.clone()).or(Some("etcd does not answer".into())),
        nodes: Vec::new(),
        log_bytes: 0,
        etcd: Vec::new(),
    }
}

/// One sentence: the leader, the number of servers, and the role of this one.
fn describe_leader(report: &ClusterReport) -> Sentence {
    let leader = match &report.leader {
        Some(leader) if *leader == report.node => "This server leads".to_owned(),
        Some(leader) => format!("{} leads", words::escape_html(leader)),
        None => r#"<span class="red">No leader</span>"#.to_owned(),
    };
    let mut parts = vec![leader];
    if !report.nodes.is_empty() {
        parts.push(count_of(report.nodes.len(), "server"));
    }
    let behind = report.nodes.iter().filter(|node| node.behind > 0).count();
    if behind > 0 {
        parts.push(format!(r#"<span class="amber">{behind} behind</span>"#));
    }
    let failing = report.etcd.iter().filter(|member| !member.errors.is_empty()).count();
    if failing > 0 {
        let members = count_of(report.etcd.len(), "etcd member");
        parts.push(format!(r#"<span class="red">{failing} of {members} failing</span>"#));
    }
    Sentence::of(parts)
}

fn list_facts(report: &ClusterReport) -> Facts {
    let role = if report.role == "catching-up" { "catching up" } else { &report.role };
    let facts = [
        ("Region", report.region.clone()),
        ("This server", format!("{}, {role}", report.node)),
        ("Term", report.term.to_string()),
        ("Revision", report.revision.to_string()),
        ("Problem", report.problem.clone().unwrap_or_default()),
    ];
    let known = facts.into_iter().filter(|(_, value)| !value.is_empty());
    Facts { facts: known.map(|(label, value)| (label, words::escape_html(value))).collect() }
}

fn render_servers(report: ClusterReport) -> Vec<Panel> {
    let nodes = report.nodes.iter().map(|node| render_node(&report, node)).collect();
    let etcd = report.etcd.iter().map(render_member).collect();
    vec![
        describe_leader(&report).into_panel(),
        Panel::new("servers", "Servers", nodes)
            .with_table(head(&NODES))
            .or_empty_text("The servers are listed in etcd, which does not answer."),
        Panel::new("etcd", "etcd", etcd).with_table(head(&ETCD)).or_empty_text("etcd does not answer."),
        Panel::with_content("facts", "Details", &list_facts(&report)),
    ]
}

fn render_node(report: &ClusterReport, node: &ClusterNode) -> Fragment {
    let is_self = node.name == report.node;
    let role = match (node.is_leader, node.behind) {
        (true, _) => r#"<span class="st">Leader</span>"#.to_owned(),
        (false, 0) => r#"<span class="st idle">Follower</span>"#.to_owned(),
        (false, _) => r#"<span class="st wait">Follower, catching up</span>"#.to_owned(),
    };
    let this = if is_self { r#" <small class="q">this server</small>"# } else { "" };
    let cells = [
        role,
        node.revision.to_string(),
        node.behind.to_string(),
        format!("<code>{}</code>", words::escape_html(&node.address)),
    ];
    render_row(
        &format!("server-{}", address::encode_segment(&node.name)),
        &node.name,
        words::escape_html(&node.name) + this,
        &NODES,
        cells,
    )
}

fn render_member(member: &EtcdMember) -> Fragment {
    let state = match (&member.errors[..], member.is_leader) {
        ([], true) => r#"<span class="st">Leader</span>"#.to_owned(),
        ([], false) => r#"<span class="st">Healthy</span>"#.to_owned(),
        ([first, ..], _) => {
            format!(r#"<span class="st down">Failing</span> <span class="q">{}</span>"#, words::escape_html(first))
        }
    };
    let size = member.bytes.map_or_else(|| UNKNOWN.into(), |bytes| format!("{:.1} MB", bytes as f64 / 1e6));
    let version = member.version.as_ref().map_or_else(|| UNKNOWN.into(), words::escape_html);
    let name = format!("<code>{}</code>", words::escape_html(&member.endpoint));
    let id = format!("etcd-{}", address::encode_segment(&member.endpoint));
    render_row(&id, &member.endpoint, name, &ETCD, [state, version, size])
}

/// All hosts with an agent, unreachable ones first.
fn render_agents(context: &PageContext) -> Panel {
    let contacts = context.portal.agents();
    let found = context.region().hosts().filter_map(|host| Some((host, contacts.describe(host)?)));
    let mut found: Vec<(&std::sync::Arc<Host>, HostAgent)> = found.collect();
    found.sort_by_key(|(host, agent)| (agent.unreachable_since.is_none(), host.name.clone()));
    let all = found.len();
    let rows = found.iter().take(AGENTS_MAX).map(|(host, agent)| render_agent(context, host, agent)).collect();
    let title = if all > AGENTS_MAX { format!("Host agents, {AGENTS_MAX} of {all}") } else { "Host agents".into() };
    Panel::new("agents", title, rows)
        .with_table(head(&AGENTS))
        .or_empty_text("No host agents. Let a host join with: forewarn host token NAME")
}

fn render_agent(context: &PageContext, host: &Host, agent: &HostAgent) -> Fragment {
    let time = |at: forewarn_api_types::Time| words::time(Timestamp(at.0));
    let state = match (agent.unreachable_since, agent.connected_since) {
        (Some(since), _) => {
            format!(r#"<span class="st gone">Unreachable</span> <span class="q">since {}</span>"#, time(since))
        }
        (None, Some(_)) => r#"<span class="st">Connected</span>"#.into(),
        (None, None) => r#"<span class="st">Connected to another server</span>"#.into(),
    };
    let behind = context.snapshot.revision.saturating_sub(agent.revision);
    let revision = match behind {
        0 => agent.revision.to_string(),
        behind => format!(r#"{} <span class="q">{behind} behind</span>"#, agent.revision),
    };
    let text = |text: &Option<String>| text.as_ref().map_or_else(|| UNKNOWN.into(), words::escape_html);
    let cells = [
        state,
        agent.connected_since.map_or_else(|| UNKNOWN.into(), time),
        agent.last_heartbeat.map_or_else(|| UNKNOWN.into(), time),
        revision,
        text(&agent.version),
        text(&agent.address),
    ];
    let sort = format!("{}-{}", u8::from(agent.unreachable_since.is_none()), host.name);
    let id = format!("agent-{}", address::encode_segment(&host.name));
    render_row(&id, &sort, words::host_link(&host.name), &AGENTS, cells)
}

fn render_row<const CELLS: usize>(
    id: &str,
    sort: &str,
    name: String,
    columns: &[Column],
    cells: [String; CELLS],
) -> Fragment {
    // The first column is the name.
    let cells = columns[1..].iter().zip(cells);
    let cells = cells.map(|(column, html)| RowCell { label: column.label, class: column.class, html }).collect();
    Fragment::render(id, sort, &Row { id, sort, name, cells })
}

fn head(columns: &[Column]) -> String {
    table::render_head(columns, SortOrder { key: "", is_descending: false }, &PageQuery::default(), "/cluster")
}

const fn columns<const COLUMNS: usize>(labels: [(&'static str, &'static str); COLUMNS]) -> [Column; COLUMNS] {
    let mut columns = [Column { key: "", label: "", class: "" }; COLUMNS];
    let mut number = 0;
    while number < COLUMNS {
        columns[number] = Column { key: "", label: labels[number].0, class: labels[number].1 };
        number += 1;
    }
    columns
}
