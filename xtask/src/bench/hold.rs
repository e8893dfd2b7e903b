//! Ten thousand held requests in one scope: one event answers all of them, and changes in other scopes wake none.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::Built;
use super::approve::pin_ourselves;
use super::client::{Client, metric};
use super::process::Server;
use super::table::{Table, Target, median, short};

const HELD: u64 = 10_000;

/// Commits in other scopes, with and without held requests.
const ELSEWHERE: u64 = 300;

const ROUNDS: u64 = 5;

pub fn run(built: &Built) -> Result<()> {
    let data = built.fleet("hold", 3 * HELD, HELD, 0)?;
    let server = Server::start(built, &data)?;
    pin_ourselves()?;
    let mut management = Client::new(&server.management)?;
    let none_held = elsewhere(&server, &mut management, 0)?;
    let mut held = hold(&server.metadata)?;
    ensure!(metric(&server.management, "forewarn_metadata_held")? as u64 == HELD, "some requests are not held");
    let all_held = elsewhere(&server, &mut management, 1)?;
    ensure!(
        metric(&server.management, "forewarn_metadata_held")? as u64 == HELD,
        "some held requests were answered too early"
    );

    let (mut asked, mut answered) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let begun = Instant::now();
        maintain(&mut management, round)?;
        asked.push(begun.elapsed().as_secs_f64() * 1e3);
        for client in &mut held {
            let reply = client.receive()?;
            ensure!(reply.status == 200, "a held request was answered with {}", reply.status);
        }
        answered.push(begun.elapsed().as_secs_f64() * 1e3);
        eprintln!(
            "   round {round}  {:.1} ms to the asker, {:.1} ms to the last",
            asked[round as usize], answered[round as usize]
        );
        ask_again(&mut held, round + 2)?;
        wait_for_held(&server)?;
    }
    let mut table = Table::new("10,000 requests held in one scope");
    table.tell("answered after one event", format!("{} of {HELD}", held.len()));
    table.tell("from the request for the event to its response, ms", short(median(asked)));
    table.tell("from the request for the event to the last held response, ms", short(median(answered)));
    table.tell("CPU time of a commit in another scope, no held requests, ms", short(none_held));
    table.tell("CPU time of a commit in another scope, 10,000 held requests, ms", short(all_held));
    table.judge("10,000 held requests : none", all_held / none_held, " x", Target::AtMost(1.5));
    table.print();
    Ok(())
}

/// One request from each of the first ten thousand machines, which are one scope.
fn hold(address: &str) -> Result<Vec<Client>> {
    let mut held = Vec::new();
    for _ in 0..HELD {
        held.push(Client::new(address)?);
    }
    ask_again(&mut held, 1)?;
    std::thread::sleep(Duration::from_secs(1));
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

fn wait_for_held(server: &Server) -> Result<()> {
    for _ in 0..200 {
        if metric(&server.management, "forewarn_metadata_held")? as u64 == HELD {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("some requests are not held")
}

/// CPU milliseconds of the server per commit in another scope. Each turn uses another scope.
fn elsewhere(server: &Server, management: &mut Client, turn: u64) -> Result<f64> {
    let before = server.process.cpu_secs()?;
    for n in 0..ELSEWHERE {
        maintain(management, HELD * (1 + turn) + n).context("an event in another scope")?;
    }
    Ok((server.process.cpu_secs()? - before) * 1e3 / ELSEWHERE as f64)
}

/// Creates an event in the scope of the `n`th machine.
fn maintain(management: &mut Client, n: u64) -> Result<()> {
    let body = format!("{{\"target\":{{\"machine\":\"web-{n:07}\"}},\"type\":\"Freeze\"}}");
    management.post("/api/v1/maintenance", &body).map(drop)
}
