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
struct Node {
    name: String,
    address: String,
    #[serde(rename = "isLeader")]
    is_leader: bool,
    revision: u64,
    behind: u64,
}

impl TableRow for Node {
    const HEADER: &'static [&'static str] = &["NODE", "ROLE", "REVISION", "BEHIND", "ADDRESS"];
    const EMPTY: &'static str = "There are no nodes.";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.name),
            Cell::new(if self.is_leader { "leader" } else { "follower" }),
            Cell::new(self.revision.to_string()),
            Cell::new(self.behind.to_string()),
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
    lines.extend(status["problem"].as_str().map(|problem| output::escape(&format!("Problem: {problem}"))));
    lines.iter().try_for_each(|line| output::print_line(line))
}

fn describe_member(member: &Value) -> String {
    let endpoint = member["endpoint"].as_str().unwrap_or("?");
    match (member["version"].as_str(), member["errors"].as_array().is_some_and(Vec::is_empty)) {
        (Some(version), true) => format!("{endpoint} ({version})"),
        _ => format!("{endpoint} ({})", member["errors"][0].as_str().unwrap_or("failing")),
    }
}
