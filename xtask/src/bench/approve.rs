//! Approvals by many concurrent clients, each durable before its response, compared with one commit per approval.

use std::sync::Barrier;
use std::time::Instant;

use anyhow::{Context, Result};

use super::client::{Client, metric};
use super::process::{CLIENT_CORE, SERVER_CORE, Server};
use super::table::{Table, Target, median, short};
use super::{Built, path, value};
use crate::sh;

const CLIENTS: usize = 64;
const ROUNDS: usize = 7;
const PER_ROUND: usize = 3200;
const ONE_BY_ONE: usize = 500;

pub fn run(built: &Built) -> Result<()> {
    let events = (ROUNDS * PER_ROUND) as u64;
    let data = built.fleet("approve", events, 10, events)?;
    let alone = built.fleet("approve-alone", 10_000, 10, 10_000)?;
    let plain = built.scratch("approve-sqlite")?;
    let list = std::fs::read_to_string(data.join("events"))?;
    let list: Vec<(&str, &str)> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let server = Server::start(built, &data)?;
    pin_ourselves()?;
    let (mut rates, mut singles, mut rows, mut shared) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let cpu_before = server.process.cpu_secs()?;
    let mut cpu_us = 0.0;
    for (round, events) in list.chunks(PER_ROUND).enumerate() {
        let commits = metric(&server.management, "forewarn_commits_total")?;
        rates.push(approve(&server.metadata, events)?);
        shared.push(PER_ROUND as f64 / (metric(&server.management, "forewarn_commits_total")? - commits));
        cpu_us = (server.process.cpu_secs()? - cpu_before) * 1e6 / ((round + 1) * PER_ROUND) as f64;
        let (skip, count) = ((round * ONE_BY_ONE).to_string(), ONE_BY_ONE.to_string());
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
    table.tell("CPU time of the server per approval, µs", short(cpu_us));
    table.tell("one commit per approval, without network, approvals/s", short(median(singles.clone())));
    table.tell("SQLite alone, one row of 300 bytes per commit, commits/s", short(median(rows.clone())));
    table.judge("64 clients : one commit per approval", against(&singles), " x", Target::AtLeast(2.0));
    table.tell("64 clients : SQLite alone", format!("{} x", short(against(&rows))));
    table.judge("approvals per commit", median(shared), "", Target::AtLeast(8.0));
    table.print();
    Ok(())
}

/// Approves each event once, split evenly among the clients; returns approvals per second.
fn approve(address: &str, events: &[(&str, &str)]) -> Result<f64> {
    let start = Barrier::new(CLIENTS + 1);
    std::thread::scope(|scope| {
        let shares = events.chunks(events.len().div_ceil(CLIENTS));
        let clients: Vec<_> = shares.map(|share| scope.spawn(|| approve_share(address, share, &start))).collect();
        start.wait();
        let begun = Instant::now();
        for client in clients {
            client.join().expect("no client panics")?;
        }
        Ok(events.len() as f64 / begun.elapsed().as_secs_f64())
    })
}

fn approve_share(address: &str, share: &[(&str, &str)], start: &Barrier) -> Result<()> {
    let client = Client::new(address);
    start.wait();
    let mut client = client?;
    for (machine, event) in share {
        let path = format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01");
        client.post(&path, &format!("{{\"StartRequests\":[{{\"EventId\":\"{event}\"}}]}}"))?;
    }
    Ok(())
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
