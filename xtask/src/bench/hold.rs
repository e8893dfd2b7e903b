//! Held requests: ten thousand in one event group, all answered by one event; fifteen thousand in 150 groups, of which an event
//! answers one group's and wakes no others.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Built;
use super::approve::pin_ourselves;
use super::client::{Client, metric};
use super::process::BenchServer;
use super::table::{Table, Target, median, short};

const HELD: u64 = 10_000;
const HELD_SMOKE: u64 = 100;

const GROUPS: u64 = 150;
const GROUP: u64 = 100;

/// Commits in other event groups, with and without held requests.
const ELSEWHERE: u64 = 300;

const ROUNDS: u64 = 5;

pub fn run(built: &Built) -> Result<Table> {
    pin_ourselves()?;
    let mut table = Table::new("Held requests");
    one_group(built, &mut table)?;
    many_groups(built, &mut table)?;
    Ok(table)
}

fn one_group(built: &Built, table: &mut Table) -> Result<()> {
    let (count, commits) = built.pick((HELD, ELSEWHERE), (HELD_SMOKE, 10));
    let server = BenchServer::start(built, &built.fleet("hold", 3 * count, count, 0)?)?;
    let mut management = Client::new(&server.management)?;
    let none_held = elsewhere(&server, &mut management, count, commits)?;
    let mut held = hold(&server, count)?;
    let all_held = elsewhere(&server, &mut management, 2 * count, commits)?;
    ensure!(held_requests(&server)? == count, "some held requests were answered too early");

    let (mut responded, mut answered) = (Vec::new(), Vec::new());
    for round in 0..built.pick(ROUNDS, 1) {
        let (response_ms, last_ms) = answer(&mut management, &mut held, round)?;
        eprintln!("   round {round}  {response_ms:.1} ms to the response, {last_ms:.1} ms to the last held one");
        responded.push(response_ms);
        answered.push(last_ms);
        ask_again(&mut held, round + 2)?;
        wait_for_held(&server, count)?;
    }
    table.tell("answered after one event", format!("{} of {count}", held.len()));
    let label = "from the request for the event to its response, ms";
    table.judge("hold_response_ms", label, median(responded), "", Target::AtMost(10.0));
    let label = "from the request for the event to the last held response, ms";
    table.note("hold_last_ms", label, median(answered), "");
    table.tell("CPU time of a commit in another event group, no held requests, ms", short(none_held));
    table.tell("CPU time of a commit in another event group, 10,000 held, ms", short(all_held));
    table.judge("hold_commit_ratio", "10,000 held : none", all_held / none_held, " x", Target::AtMost(1.5));
    Ok(())
}

fn many_groups(built: &Built, table: &mut Table) -> Result<()> {
    let (groups, size) = built.pick((GROUPS, GROUP), (3, 10));
    let server = BenchServer::start(built, &built.fleet("hold-groups", groups * size, size, 0)?)?;
    let before = server.process.resident_bytes()?;
    let mut held = hold(&server, groups * size)?;
    let bytes = (server.process.resident_bytes()? - before) / (groups * size) as f64;
    let mut management = Client::new(&server.management)?;
    let (mut responded, mut answered) = (Vec::new(), Vec::new());
    for group in 0..built.pick(ROUNDS, 1) {
        let members = &mut held[(group * size) as usize..][..size as usize];
        let (response_ms, last_ms) = answer(&mut management, members, group * size)?;
        responded.push(response_ms);
        answered.push(last_ms);
    }
    let label = "15,000 held in 150 event groups: to the response, ms";
    table.judge("hold_groups_response_ms", label, median(responded), "", Target::AtMost(10.0));
    let label = "15,000 held in 150 event groups: to the last of 100 held responses, ms";
    table.judge("hold_groups_last_ms", label, median(answered), "", Target::AtMost(20.0));
    table.judge("hold_bytes", "resident bytes per held request", bytes, "", Target::AtMost(8192.0));
    Ok(())
}

/// Creates an event for the group of the `n`th machine. Milliseconds until its response, and until the last held response.
fn answer(management: &mut Client, held: &mut [Client], n: u64) -> Result<(f64, f64)> {
    let begun = Instant::now();
    let millis = || begun.elapsed().as_secs_f64() * 1e3;
    maintain(management, n)?;
    let responded = millis();
    for client in held {
        let reply = client.receive()?;
        ensure!(reply.status == 200, "a held request was answered with {}", reply.status);
    }
    Ok((responded, millis()))
}

/// One held request from each of the first machines.
fn hold(server: &BenchServer, count: u64) -> Result<Vec<Client>> {
    let mut held = (0..count).map(|_| Client::new(&server.metadata)).collect::<Result<Vec<_>>>()?;
    ask_again(&mut held, 1)?;
    wait_for_held(server, count)?;
    Ok(held)
}

fn ask_again(held: &mut [Client], incarnation: u64) -> Result<()> {
    for (n, client) in held.iter_mut().enumerate() {
        let path = format!("/vm/web-{n:07}/metadata/scheduledevents?api-version=2020-07-01&wait=300");
        let condition = format!("Metadata: true\r\nIf-None-Match: {incarnation}\r\n");
        client.send("GET", &path, &condition, "")?;
    }
    Ok(())
}

fn wait_for_held(server: &BenchServer, count: u64) -> Result<()> {
    for _ in 0..200 {
        if held_requests(server)? == count {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("some requests are not held")
}

fn held_requests(server: &BenchServer) -> Result<u64> {
    Ok(metric(&server.management, "forewarn_metadata_held")? as u64)
}

/// CPU milliseconds of the server per commit in the event group of the `first` machine, which has no held requests.
fn elsewhere(server: &BenchServer, management: &mut Client, first: u64, commits: u64) -> Result<f64> {
    let before = server.process.cpu_secs()?;
    for n in 0..commits {
        maintain(management, first + n).context("an event in another event group")?;
    }
    Ok((server.process.cpu_secs()? - before) * 1e3 / commits as f64)
}

/// Creates an event in the event group of the `n`th machine.
fn maintain(management: &mut Client, n: u64) -> Result<()> {
    let body = format!("{{\"target\":{{\"machine\":\"web-{n:07}\"}},\"type\":\"Freeze\"}}");
    management.post("/api/v1/maintenance", &body).map(drop)
}
