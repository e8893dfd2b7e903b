//! `forewarn cluster`: shows and manages the servers that share a region.

use forewarn_api_types::{AppliedRules, ClusterNode, ClusterReport, EmptyBody, EtcdMember, SteppedDown};
use forewarn_server::EtcdAccess;
use serde_json::Value;

use super::single_line;
use crate::args::{Client, ClusterCommand, EtcdArgs, Output};
use crate::client::Call;
use crate::connect::connect;
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, TableRow};

/// Clocks of nodes that differ by more are a problem: the region's time continues from the leader's clock.
const CLOCK_DIFFERENCE_MS_MAX: i64 = 1000;

pub fn run(args: &Client<ClusterCommand>) -> Result<(), Failure> {
    let api = || connect(&args.connection);
    match &args.command {
        ClusterCommand::Status => show(&api()?.get(&Call::api(&["cluster"]))?, args.connection.output),
        ClusterCommand::StepDown => {
            let done = api()?.post(&Call::api(&["cluster", "step-down"]), &EmptyBody {})?;
            let done: SteppedDown = decode(&done)?;
            output::print_stderr(&output::escape(&format!("Node {} no longer leads", done.node)));
            Ok(())
        }
        ClusterCommand::Remove { node } => {
            api()?.delete(&Call::api(&["cluster", "nodes", node]))?;
            output::print_stderr(&output::escape(&format!("Removed node {node}")));
            Ok(())
        }
        ClusterCommand::ApplyRules => {
            let done = api()?.post(&Call::api(&["cluster", "apply-rules"]), &EmptyBody {})?;
            let AppliedRules { node, changed } = decode(&done)?;
            let text = match changed.len() {
                0 => format!("The region already has the rules of node {node}"),
                _ => format!("Applied the rules of node {node} to the region. Previous values: {}", changed.join("; ")),
            };
            output::print_stderr(&output::escape(&text));
            Ok(())
        }
        ClusterCommand::Key { file } => {
            forewarn_server::create_cluster_key(file).map_err(|error| Failure::Refused(format!("{error:#}")))?;
            output::print_line(&format!("Created the cluster key {}. Copy it to every server", file.display()))
        }
        ClusterCommand::Init { from, cluster, etcd } => {
            let revision = forewarn_server::init_region(from, cluster, &etcd_access(etcd))
                .map_err(|error| Failure::Refused(format!("{error:#}")))?;
            output::print_line(&format!(
                "Created the region at revision {revision}. Start the first node with --data {} --cluster {cluster}",
                from.display()
            ))
        }
    }
}

fn etcd_access(args: &EtcdArgs) -> EtcdAccess {
    EtcdAccess {
        authority: args.etcd_ca.clone(),
        certificate: args.etcd_cert.clone(),
        key: args.etcd_key.clone(),
        user: args.etcd_user.clone(),
        password_file: args.etcd_password_file.clone(),
    }
}

impl TableRow for ClusterNode {
    const HEADER: &'static [&'static str] = &["NODE", "ROLE", "REVISION", "BEHIND", "CLOCK", "VERSION", "ADDRESS"];
    const EMPTY: &'static str = "There are no nodes.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(match &self.role {
                _ if self.is_leader => "leader",
                Some(role) => role,
                None => "unreachable",
            }),
            Cell::new(self.revision.to_string()),
            Cell::new(self.behind.to_string()),
            Cell::new(self.clock_difference_ms.map_or("-".into(), |ms| format!("{ms:+} ms"))),
            Cell::new(self.version.as_deref().unwrap_or("-")),
            Cell::new(&self.address),
        ]
    }
}

fn show(status: &Value, output: Output) -> Result<(), Failure> {
    match output {
        Output::Json | Output::Yaml => return output::print_value(status, output),
        Output::Table | Output::Tsv => {}
    }
    let nodes: Vec<Value> = decode(&status["nodes"])?;
    output::print_list::<ClusterNode>(&nodes, output)?;
    if output == Output::Tsv {
        return Ok(());
    }
    let report: ClusterReport = decode(status)?;
    let facts = [
        ("Region", report.region.clone()),
        ("Leader", report.leader.clone().unwrap_or_else(|| "none".to_owned())),
        ("Term", report.term.to_string()),
        ("etcd", report.etcd.iter().map(describe_member).collect::<Vec<_>>().join(", ")),
    ];
    let mut lines = single_line(String::new());
    lines.extend(output::format_fields(&facts));
    lines.extend(list_problems(&report).iter().map(|problem| output::escape(&format!("Problem: {problem}"))));
    lines.iter().try_for_each(|line| output::print_line(line))
}

fn list_problems(report: &ClusterReport) -> Vec<String> {
    let mut problems: Vec<String> = report.problem.iter().cloned().collect();
    for ClusterNode { name, problem, clock_difference_ms, rule_differences, .. } in &report.nodes {
        problems.extend(problem.iter().map(|problem| format!("{name}: {problem}")));
        let ahead_ms = clock_difference_ms.filter(|ms| ms.abs() > CLOCK_DIFFERENCE_MS_MAX);
        problems.extend(ahead_ms.map(|ms| format!("the clock of {name} differs by {ms:+} ms")));
        problems.extend(rule_differences.iter().map(|rule| format!("{name}: the rule {rule}")));
    }
    problems
}

fn describe_member(member: &EtcdMember) -> String {
    let endpoint = &member.endpoint;
    match (&member.version, member.errors.first()) {
        (Some(version), None) => {
            let leads = if member.is_leader { ", leader" } else { "" };
            format!("{endpoint} ({version}{leads}, {} MiB)", member.bytes.unwrap_or(0).div_ceil(1 << 20))
        }
        (_, error) => format!("{endpoint} ({})", error.map_or("failing", String::as_str)),
    }
}
