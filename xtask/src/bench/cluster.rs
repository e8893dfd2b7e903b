//! Three servers on three members of etcd, compared with a single server on SQLite in the same run: approvals by 64 clients, and
//! reads at a follower.
//!
//! For approvals, servers, etcd and clients share all cores, as in a trial on one computer.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::approve::approve;
use super::client::Client;
use super::process::{Process, SERVER_CORE, Server};
use super::table::{Table, Target, median, short};
use super::wrk;
use super::{Built, path};
use crate::accept::cluster::ETCD;
use crate::sh;

const NODES: usize = 3;
const ROUNDS: usize = 5;
const PER_ROUND: usize = 1600;
const READ_SECS: u32 = 3;

/// Time for the servers to copy the region.
const START_MAX: Duration = Duration::from_secs(60);

pub fn run(built: &Built) -> Result<Table> {
    let (rounds, per_round) = built.pick((ROUNDS, PER_ROUND), (1, 128));
    let events = (rounds * per_round) as u64;
    let data = built.fleet("cluster-single", events, 10, events)?;
    let list = std::fs::read_to_string(data.join("events"))?;
    let list: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let cores = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
    let cluster = Cluster::start(built, events, &cores)?;
    let single = Server::start_on(built, &data, &cores, &["--management", "127.0.0.1:0"])?;
    let servers: Vec<&str> = cluster.servers.iter().map(|server| server.metadata.as_str()).collect();
    let (mut ours, mut alone) = (Vec::new(), Vec::new());
    for (round, events) in list.chunks(per_round).enumerate() {
        alone.push(approve(&[&single.metadata], events)?);
        ours.push(approve(&servers, events)?);
        eprintln!("   round {round}  cluster {:.0}/s  single {:.0}/s", ours[round].per_second, alone[round].per_second);
    }
    let ratio = median(ours.iter().zip(&alone).map(|(ours, alone)| ours.per_second / alone.per_second).collect());
    let mut table = Table::new("Approvals by 64 clients at three servers on three members of etcd");
    for (name, found) in [("cluster", &ours), ("single server", &alone)] {
        table.tell(&format!("{name}, approvals/s"), short(median(found.iter().map(|it| it.per_second).collect())));
        table.tell(&format!("{name}, p99 ms"), short(median(found.iter().map(|it| it.p99_ms).collect())));
    }
    table.judge("cluster_approve_ratio", "cluster : single server", ratio, " x", Target::AtLeast(0.5));
    drop(single);
    compare_reads(built, &cluster, list[0].0, &mut table)?;
    Ok(table)
}

/// GETs of one document at a follower and at a single server with the same data.
fn compare_reads(built: &Built, cluster: &Cluster, machine: &str, table: &mut Table) -> Result<()> {
    let single = Server::start(built, &built.scratch.join("cluster-single"))?;
    let follower = cluster.find_follower()?;
    let pid = follower.process.id().to_string();
    sh::program("taskset").args(&["-a", "-p", "-c", SERVER_CORE, &pid]).read().context("taskset")?;
    let read = |server: &Server| {
        let url = format!("http://{}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01", server.metadata);
        wrk::run(&server.process, built.pick(READ_SECS, 1), &["-H", "Metadata: true", &url])
    };
    let mut ratios = Vec::new();
    for _ in 0..built.pick(ROUNDS, 1) {
        ratios.push(read(follower)?.per_second / read(&single)?.per_second);
    }
    let label = "reads/s, follower : single server";
    table.judge("cluster_read_ratio", label, median(ratios), " x", Target::AtLeast(0.95));
    Ok(())
}

struct Cluster {
    // Ends before etcd does.
    servers: Vec<Server>,
    _members: Vec<Process>,
}

impl Cluster {
    fn start(built: &Built, events: u64, cores: &str) -> Result<Cluster> {
        let (clients, peers) = (free_addresses()?, free_addresses()?);
        let program = ETCD.path()?.join("usr/bin/etcd");
        let all: Vec<String> = (0..NODES).map(|index| format!("m{index}=http://{}", peers[index])).collect();
        let mut members = Vec::new();
        for index in 0..NODES {
            let arguments = [
                format!("--name=m{index}"),
                format!("--data-dir={}", path(&built.scratch(&format!("cluster-m{index}"))?)?),
                format!("--listen-client-urls=http://{}", clients[index]),
                format!("--advertise-client-urls=http://{}", clients[index]),
                format!("--listen-peer-urls=http://{}", peers[index]),
                format!("--initial-advertise-peer-urls=http://{}", peers[index]),
                format!("--initial-cluster={}", all.join(",")),
                "--log-level=error".to_owned(),
            ];
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            members.push(Process::start(path(&program)?, &arguments, cores)?);
        }
        let region = format!("etcd://{}/bench", clients.join(","));
        let first = built.fleet("cluster-n0", events, 10, events)?;
        let init = ["cluster", "init", "--from", path(&first)?, "--cluster", &region];
        wait("etcd", || sh::program(path(&built.forewarn)?).args(&init).read().map(drop))?;
        let management = free_addresses()?;
        let mut servers = Vec::new();
        for (index, management) in management.iter().enumerate() {
            let data = if index == 0 { first.clone() } else { built.scratch(&format!("cluster-n{index}"))? };
            let node = format!("n{index}");
            let place = ["--cluster", &region, "--node", &node, "--management-tls", "off"];
            let more: Vec<&str> = ["--management", management.as_str()].into_iter().chain(place).collect();
            servers.push(Server::start_on(built, &data, cores, &more)?);
        }
        for server in &servers {
            wait("a copy of the region", || {
                let ready = Client::new(&server.management)?.get("/healthz/ready", "")?;
                ensure!(ready.status == 200, "not ready: {}", ready.body);
                Ok(())
            })?;
        }
        Ok(Cluster { servers, _members: members })
    }

    fn find_follower(&self) -> Result<&Server> {
        let is_follower = |server: &&Server| {
            let ready = Client::new(&server.management).and_then(|mut client| client.get("/healthz/ready", ""));
            ready.is_ok_and(|ready| ready.body.contains(r#""role":"follower""#))
        };
        self.servers.iter().find(is_follower).context("there is no follower")
    }
}

/// Tries until it succeeds.
fn wait(what: &str, mut attempt: impl FnMut() -> Result<()>) -> Result<()> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if begun.elapsed() > START_MAX => return Err(error.context(format!("waited for {what}"))),
            Err(_) => std::thread::sleep(Duration::from_millis(100)),
            Ok(()) => return Ok(()),
        }
    }
}

/// Addresses that are free now.
fn free_addresses() -> Result<Vec<String>> {
    let listeners: Vec<_> =
        (0..NODES).map(|_| std::net::TcpListener::bind("127.0.0.1:0")).collect::<std::io::Result<_>>()?;
    Ok(listeners
        .iter()
        .map(|listener| listener.local_addr().map(|it| it.to_string()))
        .collect::<std::io::Result<_>>()?)
}
