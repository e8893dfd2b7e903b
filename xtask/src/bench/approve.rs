//! Approvals by many concurrent clients, each durable before its response, compared with one commit per approval.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Context, Result};

use super::client::{Client, metric};
use super::process::{BenchServer, CLIENT_CORE, SERVER_CORE};
use super::table::{Table, Target, median, short};
use super::{Built, path, value};
use crate::sh;

const CLIENTS: usize = 64;
const ROUNDS: usize = 7;
const PER_ROUND: usize = 3200;
const ONE_BY_ONE: usize = 500;

pub fn run(built: &Built) -> Result<Table> {
    let (rounds, per_round) = built.pick((ROUNDS, PER_ROUND), (1, 320));
    let one_by_one = built.pick(ONE_BY_ONE, 20);
    let events = (rounds * per_round) as u64;
    let data = built.fleet("approve", events, 10, events)?;
    let alone_events = built.pick(10_000, 100);
    let alone = built.fleet("approve-alone", alone_events, 10, alone_events)?;
    let plain = built.scratch("approve-sqlite")?;
    let list = std::fs::read_to_string(data.join("events"))?;
    let list: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let server = BenchServer::start(built, &data)?;
    pin_ourselves()?;
    let (mut rates, mut singles, mut rows, mut shared) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let cpu_before = server.process.cpu_secs()?;
    let mut cpu_us = 0.0;
    for (round, events) in list.chunks(per_round).enumerate() {
        let commits = metric(&server.management, "forewarn_commits_total")?;
        rates.push(approve(&[&server.metadata], events)?.per_second);
        shared.push(per_round as f64 / (metric(&server.management, "forewarn_commits_total")? - commits));
        cpu_us = (server.process.cpu_secs()? - cpu_before) * 1e6 / ((round + 1) * per_round) as f64;
        let (skip, count) = ((round * one_by_one).to_string(), one_by_one.to_string());
        singles.push(pinned(built, &["approve", path(&alone)?, &skip, &count])?);
        rows.push(pinned(built, &["sqlite", path(&plain)?, &count])?);
        eprintln!(
            "   round {round}  {:.0}/s  {:.1} a commit  alone {:.0}/s  SQLite {:.0}/s",
            rates[round], shared[round], singles[round], rows[round]
        );
    }
    let against = |yardstick: &[f64]| median(rates.iter().zip(yardstick).map(|(ours, theirs)| ours / theirs).collect());
    let mut table = Table::new("Approvals by 64 clients, each durable when it is answered");
    table.tell("approvals/s", short(median(rates.clone())));
    table.judge("approve_cpu_us", "CPU time of the server per approval, µs", cpu_us, "", Target::AtMost(100.0));
    table.tell("the same with one commit per approval, no network, approvals/s", short(median(singles.clone())));
    table.tell("SQLite alone, one 300-byte row per commit, commits/s", short(median(rows.clone())));
    let label = "64 clients : one commit per approval";
    table.judge("approve_alone_ratio", label, against(&singles), " x", Target::AtLeast(2.0));
    table.judge("approve_sqlite_ratio", "64 clients : SQLite alone", against(&rows), " x", Target::AtLeast(2.5));
    table.judge("approvals_per_commit", "approvals per commit", median(shared), "", Target::AtLeast(8.0));
    Ok(table)
}

/// The result of many approvals.
pub struct Approvals {
    pub per_second: f64,
    pub p99_ms: f64,
}

/// Approves each event once, split evenly among the clients, which use these servers in turn.
pub fn approve(servers: &[&str], events: &[(&str, &str)]) -> Result<Approvals> {
    let shares: Vec<_> = events.chunks(events.len().div_ceil(CLIENTS)).zip(servers.iter().cycle()).collect();
    let start = Barrier::new(shares.len() + 1);
    std::thread::scope(|scope| {
        let start = &start;
        let clients: Vec<_> = shares
            .into_iter()
            .map(|(share, server)| scope.spawn(move || approve_share(server, share, start)))
            .collect();
        start.wait();
        let begun = Instant::now();
        let mut times_ms = Vec::with_capacity(events.len());
        for client in clients {
            times_ms.extend(client.join().expect("no client panics")?);
        }
        let per_second = events.len() as f64 / begun.elapsed().as_secs_f64();
        times_ms.sort_by(f64::total_cmp);
        Ok(Approvals { per_second, p99_ms: times_ms[times_ms.len() * 99 / 100] })
    })
}

/// Returns how long each approval took, in milliseconds.
fn approve_share(address: &str, share: &[(&str, &str)], start: &Barrier) -> Result<Vec<f64>> {
    let client = Client::new(address);
    start.wait();
    let mut client = client?;
    let mut times_ms = Vec::with_capacity(share.len());
    for (machine, event) in share {
        let begun = Instant::now();
        approve_one(&mut client, machine, event)?;
        times_ms.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times_ms)
}

pub fn approve_one(client: &mut Client, machine: &str, event: &str) -> Result<()> {
    let path = format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01");
    client.post(&path, &format!("{{\"StartRequests\":[{{\"EventId\":\"{event}\"}}]}}")).map(drop)
}

fn pinned(built: &Built, arguments: &[&str]) -> Result<f64> {
    let program = path(&built.fleet_cost)?;
    let line = sh::program("taskset").args(&["-c", SERVER_CORE, program]).args(arguments).read()?;
    value(&line, "per_second")
}

/// Pins this program, the client, to its core.
pub fn pin_ourselves() -> Result<()> {
    let pid = std::process::id().to_string();
    sh::program("taskset").args(&["-a", "-p", "-c", CLIENT_CORE, &pid]).read().context("taskset")?;
    Ok(())
}
