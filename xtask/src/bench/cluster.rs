//! Three servers on three members of etcd: approvals by 64 clients and reads at a follower, compared with a single server on
//! SQLite in the same run; takeovers; and a follower of a large region that was away, or joins.
//!
//! Servers, etcd and clients share all cores, as in a trial on one computer; reads have one core for the server.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::approve::{approve, approve_one};
use super::client::{Client, metric};
use super::etcd::{BenchCluster, NODES};
use super::process::{BenchServer, SERVER_CORE};
use super::table::{Table, Target, median, short};
use super::{Built, wrk};
use crate::sh;

const ROUNDS: usize = 5;
const PER_ROUND: usize = 1600;
const READ_SECS: u32 = 3;

/// Kills of each kind.
const KILLS: usize = 30;

/// The large region, and how many of its machines have an event to approve.
const LARGE_MACHINES: u64 = 1_000_000;
const LARGE_EVENTS: u64 = 50_000;

/// How long a follower of the large region is away, and the clients that approve meanwhile, each with this pause.
const AWAY: Duration = Duration::from_secs(60);
const LOAD_CLIENTS: usize = 16;
const LOAD_PAUSE: Duration = Duration::from_millis(80);

/// Approvals and reads, compared with a single server.
pub fn compare_with_single(built: &Built) -> Result<Table> {
    let mut table = Table::new("Three servers on three members of etcd, compared with a single server");
    let (rounds, per_round) = built.pick((ROUNDS, PER_ROUND), (1, 128));
    let events = (rounds * per_round) as u64;
    let data = built.fleet("cluster-single", events, 10, events)?;
    let list = read_events(&data)?;
    let cluster = BenchCluster::start(built, events, events)?;
    let cores = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
    let single = BenchServer::start_on(built, &data, &cores, &["--management", "127.0.0.1:0"])?;
    let (mut ours, mut alone, mut cost) = (Vec::new(), Vec::new(), Cost::default());
    for (round, events) in list.chunks(per_round).enumerate() {
        let events: Vec<_> = events.iter().map(|(machine, event)| (machine.as_str(), event.as_str())).collect();
        let before = single.process.cpu_secs()?;
        alone.push(approve(&[&single.metadata], &events)?);
        cost.single += single.process.cpu_secs()? - before;
        let before = Cost::read(&cluster)?;
        ours.push(approve(&cluster.metadata()?, &events)?);
        cost.add(&before, &Cost::read(&cluster)?, events.len());
        eprintln!("   round {round}  cluster {:.0}/s  single {:.0}/s", ours[round].per_second, alone[round].per_second);
    }
    let ratio = median(ours.iter().zip(&alone).map(|(ours, alone)| ours.per_second / alone.per_second).collect());
    for (name, found) in [("cluster", &ours), ("single server", &alone)] {
        let rates = found.iter().map(|it| it.per_second).collect();
        table.tell(&format!("{name}, approvals/s by 64 clients"), short(median(rates)));
        table.tell(&format!("{name}, p99 ms"), short(median(found.iter().map(|it| it.p99_ms).collect())));
    }
    let label = "approvals/s, cluster : single server";
    table.judge("cluster_approve_ratio", label, ratio, " x", Target::AtLeast(0.5));
    cost.tell(&mut table);
    drop(single);
    compare_reads(built, &cluster, &list[0].0, &mut table)?;
    Ok(table)
}

/// CPU seconds of the processes of a cluster, and commits; or the sum of several differences.
#[derive(Default)]
struct Cost {
    leader: f64,
    followers: f64,
    members: f64,
    /// Of the single server.
    single: f64,
    commits: f64,
    approvals: usize,
}

impl Cost {
    fn read(cluster: &BenchCluster<'_>) -> Result<Cost> {
        let leader = cluster.leader()?;
        let mut cost = Cost { members: cluster.members_cpu_secs()?, ..Cost::default() };
        for index in 0..NODES {
            let secs = cluster.server(index)?.process.cpu_secs()?;
            *(if index == leader { &mut cost.leader } else { &mut cost.followers }) += secs;
        }
        cost.commits = metric(cluster.management(leader), "forewarn_commits_total")?;
        Ok(cost)
    }

    fn add(&mut self, before: &Cost, after: &Cost, approvals: usize) {
        self.leader += after.leader - before.leader;
        self.followers += after.followers - before.followers;
        self.members += after.members - before.members;
        self.commits += after.commits - before.commits;
        self.approvals += approvals;
    }

    fn tell(&self, table: &mut Table) {
        let approvals = self.approvals as f64;
        for (name, label, secs) in [
            ("leader", "the leader", self.leader),
            ("followers", "both followers", self.followers),
            ("etcd", "all members of etcd", self.members),
            ("single", "a single server", self.single),
        ] {
            let label = format!("CPU time of {label} per approval, µs");
            table.note(&format!("cluster_approve_{name}_cpu_us"), &label, secs * 1e6 / approvals, "");
        }
        table.note("cluster_approvals_per_commit", "cluster, approvals per commit", approvals / self.commits, "");
    }
}

/// GETs of one document at a follower and at a single server with the same data.
fn compare_reads(built: &Built, cluster: &BenchCluster<'_>, machine: &str, table: &mut Table) -> Result<()> {
    let single = BenchServer::start(built, &built.scratch.join("cluster-single"))?;
    let follower = cluster.server(cluster.follower()?)?;
    let pid = follower.process.id().to_string();
    sh::program("taskset").args(&["-a", "-p", "-c", SERVER_CORE, &pid]).read().context("taskset")?;
    let read = |server: &BenchServer| {
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

/// The time from a kill until the next acknowledged change at another server.
pub fn measure_takeovers(built: &Built) -> Result<Table> {
    let mut table = Table::new("Takeovers with three servers on three members of etcd");
    let mut cluster = BenchCluster::start(built, 1000, 0)?;
    for (name, label, has_etcd, median_max, worst_max) in [
        ("takeover", "leader killed", false, 1.5, 2.5),
        ("double_takeover", "leader and leader of etcd killed", true, 3.0, 5.0),
    ] {
        let rounds = built.pick(KILLS, 1);
        let times: Vec<f64> = (0..rounds)
            .map(|round| take_over(&mut cluster, &format!("{name}-{round}"), has_etcd))
            .collect::<Result<_>>()?;
        let worst = times.iter().copied().fold(0.0, f64::max);
        let (medium, longest) = (format!("{label}, median, s"), format!("{label}, worst of {rounds}, s"));
        table.judge(&format!("{name}_median_secs"), &medium, median(times), "", Target::AtMost(median_max));
        table.judge(&format!("{name}_worst_secs"), &longest, worst, "", Target::AtMost(worst_max));
    }
    Ok(table)
}

fn take_over(cluster: &mut BenchCluster<'_>, machine: &str, has_etcd: bool) -> Result<f64> {
    let leader = cluster.leader()?;
    let member = if has_etcd { Some(cluster.etcd_leader()?) } else { None };
    let other = (leader + 1) % NODES;
    cluster.kill_server(leader)?;
    member.map_or(Ok(()), |member| cluster.kill_member(member))?;
    let begun = Instant::now();
    while !create_machine(cluster.management(other), machine)? {}
    let took = begun.elapsed().as_secs_f64();
    member.map_or(Ok(()), |member| cluster.start_member(member))?;
    cluster.start_server(leader)?;
    (0..NODES).try_for_each(|index| cluster.wait_until_ready(index))?;
    Ok(took)
}

/// Whether the machine exists now. An earlier attempt without an answer may have created it.
fn create_machine(server: &str, name: &str) -> Result<bool> {
    let mut client = Client::new(server)?;
    client.send(
        "POST",
        "/api/v1/machines",
        "Content-Type: application/json\r\n",
        &format!(r#"{{"name":"{name}"}}"#),
    )?;
    let reply = client.receive()?;
    ensure!([201, 409, 503].contains(&reply.status), "{} {}", reply.status, reply.body);
    Ok(reply.status != 503)
}

/// A follower of a large region is stopped under load, and continues; then it joins with an empty directory.
pub fn measure_large_region(built: &Built) -> Result<Table> {
    let mut table = Table::new("A follower of a large region that was away");
    let (machines, events) = built.pick((LARGE_MACHINES, LARGE_EVENTS), (1000, 1000));
    let mut cluster = BenchCluster::start(built, machines, events)?;
    let list = read_events(&built.scratch.join("cluster-n0"))?;
    let (leader, away) = (cluster.leader()?, cluster.follower()?);
    let is_over = AtomicBool::new(false);
    let (records, secs) = std::thread::scope(|scope| {
        let metadata = cluster.server(leader)?.metadata.clone();
        for share in list.chunks(list.len().div_ceil(LOAD_CLIENTS)) {
            let (metadata, is_over) = (metadata.clone(), &is_over);
            scope.spawn(move || approve_until(&metadata, share, is_over));
        }
        let measured = stop_for(&cluster, leader, away, built.pick(AWAY, Duration::from_secs(1)));
        is_over.store(true, Ordering::Relaxed);
        measured
    })?;
    ensure!(records > 0.0, "there was no load");
    table.tell(&format!("records that a follower missed, {machines} machines"), short(records));
    let label = "until that follower is current, s";
    table.judge("cluster_catch_up_secs", label, secs, "", Target::AtMost(5.0));
    cluster.kill_server(away)?;
    cluster.forget_data(away)?;
    let begun = Instant::now();
    cluster.start_server(away)?;
    cluster.wait_until_ready(away)?;
    let label = format!("joining a region of {machines} machines afresh, s");
    table.note("cluster_join_secs", &label, begun.elapsed().as_secs_f64(), "");
    Ok(table)
}

/// Stops a server for a while. Returns how many records it missed, and how long it took to apply them.
fn stop_for(cluster: &BenchCluster<'_>, leader: usize, away: usize, span: Duration) -> Result<(f64, f64)> {
    let process = &cluster.server(away)?.process;
    let before = cluster.revision(away)?;
    process.signal("STOP")?;
    std::thread::sleep(span);
    let revision = cluster.revision(leader);
    process.signal("CONT")?;
    let begun = Instant::now();
    let revision = revision?;
    cluster.wait_for_revision(away, revision)?;
    Ok((revision.saturating_sub(before) as f64, begun.elapsed().as_secs_f64()))
}

/// Approves events until all are approved or the load is over.
fn approve_until(server: &str, events: &[(String, String)], is_over: &AtomicBool) -> Result<()> {
    let mut client = Client::new(server)?;
    for (machine, event) in events {
        if is_over.load(Ordering::Relaxed) {
            break;
        }
        approve_one(&mut client, machine, event)?;
        std::thread::sleep(LOAD_PAUSE);
    }
    Ok(())
}

/// Machines and their events in a generated fleet.
fn read_events(data: &std::path::Path) -> Result<Vec<(String, String)>> {
    let list = std::fs::read_to_string(data.join("events"))?;
    let pairs = list.lines().filter_map(|line| line.split_once(' '));
    Ok(pairs.map(|(machine, event)| (machine.to_owned(), event.to_owned())).collect())
}
