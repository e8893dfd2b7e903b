//! `forewarn cluster`: shows and manages the servers that share a region.

use forewarn_server::EtcdAccess;
use serde::Deserialize;
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
            let done = api()?.post(&Call::api(&["cluster", "step-down"]), &serde_json::json!({}))?;
            output::print_stderr(&output::escape(&format!(
                "Node {} no longer leads",
                done["node"].as_str().unwrap_or("?")
            )));
            Ok(())
        }
        ClusterCommand::Remove { node } => {
            api()?.delete(&Call::api(&["cluster", "nodes", node]))?;
            output::print_stderr(&output::escape(&format!("Removed node {node}")));
            Ok(())
        }
        ClusterCommand::ApplyRules => {
            let done = api()?.post(&Call::api(&["cluster", "apply-rules"]), &serde_json::json!({}))?;
            let changed: Vec<String> = decode(&done["changed"])?;
            let node = done["node"].as_str().unwrap_or("?");
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    name: String,
    address: String,
    is_leader: bool,
    /// Absent if the node does not answer.
    role: Option<String>,
    revision: u64,
    behind: u64,
    clock_difference_ms: Option<i64>,
    version: Option<String>,
}

impl TableRow for Node {
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
    output::print_list::<Node>(&nodes, output)?;
    if output == Output::Tsv {
        return Ok(());
    }
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let etcd: Vec<Value> = decode(&status["etcd"])?;
    let facts = [
        ("Region", text(&status["region"])),
        ("Leader", text(&status["leader"])),
        ("Term", status["term"].to_string()),
        ("etcd", etcd.iter().map(describe_member).collect::<Vec<_>>().join(", ")),
    ];
    let mut lines = single_line(String::new());
    lines.extend(output::format_fields(&facts));
    lines.extend(list_problems(status, &nodes).iter().map(|problem| output::escape(&format!("Problem: {problem}"))));
    lines.iter().try_for_each(|line| output::print_line(line))
}

fn list_problems(status: &Value, nodes: &[Value]) -> Vec<String> {
    let mut problems: Vec<String> = status["problem"].as_str().map(str::to_owned).into_iter().collect();
    for node in nodes {
        let name = node["name"].as_str().unwrap_or("?");
        problems.extend(node["problem"].as_str().map(|problem| format!("{name}: {problem}")));
        let ahead_ms = node["clockDifferenceMs"].as_i64().filter(|ms| ms.abs() > CLOCK_DIFFERENCE_MS_MAX);
        problems.extend(ahead_ms.map(|ms| format!("the clock of {name} differs by {ms:+} ms")));
        let rules = node["ruleDifferences"].as_array().into_iter().flatten().filter_map(Value::as_str);
        problems.extend(rules.map(|rule| format!("{name}: the rule {rule}")));
    }
    problems
}

fn describe_member(member: &Value) -> String {
    let endpoint = member["endpoint"].as_str().unwrap_or("?");
    match (member["version"].as_str(), member["errors"].as_array().is_some_and(Vec::is_empty)) {
        (Some(version), true) => {
            let leads = if member["isLeader"] == true { ", leader" } else { "" };
            format!("{endpoint} ({version}{leads}, {} MiB)", member["bytes"].as_u64().unwrap_or(0).div_ceil(1 << 20))
        }
        _ => format!("{endpoint} ({})", member["errors"][0].as_str().unwrap_or("failing")),
    }
}
