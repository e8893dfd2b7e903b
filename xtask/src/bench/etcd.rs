//! Three servers on three members of etcd, as processes that can be killed and started again.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::client::Client;
use super::process::{BenchServer, Process, free_addresses};
use super::{Built, path};
use crate::accept::cluster::ETCD;
use crate::sh;

pub const NODES: usize = 3;

/// Time for a server to copy the region, also a large one.
const START_MAX: Duration = Duration::from_secs(600);

pub struct BenchCluster<'a> {
    built: &'a Built,
    cores: String,
    region: String,
    // End before etcd does.
    nodes: Vec<BenchNode>,
    members: Vec<Member>,
}

struct BenchNode {
    data: PathBuf,
    management: String,
    server: Option<BenchServer>,
}

struct Member {
    arguments: Vec<String>,
    client: String,
    process: Option<Process>,
}

/// The answer of a server about its role.
struct NodeReadiness {
    status: u16,
    role: String,
    revision: u64,
}

impl<'a> BenchCluster<'a> {
    /// Starts a region with a generated fleet on all cores.
    pub fn start(built: &'a Built, machines: u64, events: u64) -> Result<BenchCluster<'a>> {
        let cores = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
        let members = members(built)?;
        let clients: Vec<&str> = members.iter().map(|member| member.client.as_str()).collect();
        let region = format!("etcd://{}/bench", clients.join(","));
        let mut nodes = Vec::new();
        for (index, management) in free_addresses(NODES)?.into_iter().enumerate() {
            let name = format!("cluster-n{index}");
            let data = if index == 0 { built.fleet(&name, machines, 10, events)? } else { built.scratch(&name)? };
            nodes.push(BenchNode { data, management, server: None });
        }
        let mut cluster = BenchCluster { built, cores, region, nodes, members };
        (0..NODES).try_for_each(|index| cluster.start_member(index))?;
        let init = ["cluster", "init", "--from", path(&cluster.nodes[0].data)?, "--cluster", &cluster.region];
        wait("etcd", || sh::program(path(&built.forewarn)?).args(&init).read().map(drop))?;
        (0..NODES).try_for_each(|index| cluster.start_server(index))?;
        (0..NODES).try_for_each(|index| cluster.wait_until_ready(index))?;
        Ok(cluster)
    }

    pub fn start_server(&mut self, index: usize) -> Result<()> {
        let node = format!("n{index}");
        let BenchNode { data, management, .. } = &self.nodes[index];
        let more = ["--management", management, "--cluster", &self.region, "--node", &node, "--management-tls", "off"];
        self.nodes[index].server = Some(BenchServer::start_on(self.built, data, &self.cores, &more)?);
        Ok(())
    }

    pub fn kill_server(&mut self, index: usize) -> Result<()> {
        self.nodes[index].server.take().map_or(Ok(()), |server| server.process.kill())
    }

    /// Removes the data of a server that is not running.
    pub fn forget_data(&self, index: usize) -> Result<()> {
        Ok(std::fs::remove_dir_all(&self.nodes[index].data)?)
    }

    pub fn start_member(&mut self, index: usize) -> Result<()> {
        let program = ETCD.path()?.join("usr/bin/etcd");
        let member = &mut self.members[index];
        let arguments: Vec<&str> = member.arguments.iter().map(String::as_str).collect();
        member.process = Some(Process::start(path(&program)?, &arguments, &self.cores)?);
        Ok(())
    }

    pub fn kill_member(&mut self, index: usize) -> Result<()> {
        self.members[index].process.take().map_or(Ok(()), Process::kill)
    }

    /// CPU time of all members of etcd, in seconds.
    pub fn members_cpu_secs(&self) -> Result<f64> {
        self.members.iter().filter_map(|member| member.process.as_ref()).map(Process::cpu_secs).sum()
    }

    pub fn server(&self, index: usize) -> Result<&BenchServer> {
        self.nodes[index].server.as_ref().context("the server is not running")
    }

    pub fn management(&self, index: usize) -> &str {
        &self.nodes[index].management
    }

    /// The metadata addresses of all servers.
    pub fn metadata(&self) -> Result<Vec<&str>> {
        (0..NODES).map(|index| Ok(self.server(index)?.metadata.as_str())).collect()
    }

    pub fn leader(&self) -> Result<usize> {
        self.find("leader")
    }

    pub fn follower(&self) -> Result<usize> {
        self.find("follower")
    }

    fn find(&self, role: &str) -> Result<usize> {
        let has_role = |index: &usize| self.readiness(*index).is_ok_and(|ready| ready.role == role);
        let mut found = None;
        wait(role, || {
            found = (0..NODES).find(has_role);
            found.map(drop).with_context(|| format!("there is no {role}"))
        })?;
        found.context("a server has this role")
    }

    /// The member that leads etcd.
    pub fn etcd_leader(&self) -> Result<usize> {
        let leads = |index: &usize| -> Result<()> {
            let status = Client::new(&self.members[*index].client)?.post("/v3/maintenance/status", "{}")?;
            let status: Value = serde_json::from_str(&status.body)?;
            ensure!(status["leader"].is_string() && status["leader"] == status["header"]["member_id"], "not a leader");
            Ok(())
        };
        (0..NODES).find(|index| leads(index).is_ok()).context("etcd has no leader")
    }

    pub fn revision(&self, index: usize) -> Result<u64> {
        Ok(self.readiness(index)?.revision)
    }

    pub fn wait_until_ready(&self, index: usize) -> Result<()> {
        self.wait_for_revision(index, 0)
    }

    /// Waits until a server has a current copy with at least this revision.
    pub fn wait_for_revision(&self, index: usize, revision: u64) -> Result<()> {
        wait("a copy of the region", || {
            let ready = self.readiness(index)?;
            ensure!(ready.status == 200 && ready.revision >= revision, "not ready: revision {}", ready.revision);
            Ok(())
        })
    }

    fn readiness(&self, index: usize) -> Result<NodeReadiness> {
        let reply = Client::new(self.management(index))?.get("/healthz/ready", "")?;
        let report: Value = serde_json::from_str(&reply.body)?;
        let role = report["role"].as_str().context("no role")?.to_owned();
        Ok(NodeReadiness { status: reply.status, role, revision: report["revision"].as_u64().context("no revision")? })
    }
}

/// The members of etcd, with the intervals that the documentation recommends for one site.
fn members(built: &Built) -> Result<Vec<Member>> {
    let (clients, peers) = (free_addresses(NODES)?, free_addresses(NODES)?);
    let all: Vec<String> = (0..NODES).map(|index| format!("m{index}=http://{}", peers[index])).collect();
    let member = |(index, client): (usize, String)| -> Result<Member> {
        let arguments = vec![
            format!("--name=m{index}"),
            format!("--data-dir={}", path(&built.scratch(&format!("cluster-m{index}"))?)?),
            format!("--listen-client-urls=http://{client}"),
            format!("--advertise-client-urls=http://{client}"),
            format!("--listen-peer-urls=http://{}", peers[index]),
            format!("--initial-advertise-peer-urls=http://{}", peers[index]),
            format!("--initial-cluster={}", all.join(",")),
            "--heartbeat-interval=50".to_owned(),
            "--election-timeout=500".to_owned(),
            "--log-level=error".to_owned(),
        ];
        Ok(Member { arguments, client, process: None })
    };
    clients.into_iter().enumerate().map(member).collect()
}

/// Tries until it succeeds.
fn wait(what: &str, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if begun.elapsed() > START_MAX => return Err(error.context(format!("waited for {what}"))),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
            Ok(()) => return Ok(()),
        }
    }
}
