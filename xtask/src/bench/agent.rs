//! Host agents: the time from a request at the server until the agent's guests see its event, with 100 agents and 10,000 machines;
//! the CPU time of a GET compared with one at the server; memory and CPU time of an agent.
//!
//! Each agent is a process without a driver. Agents, server and clients share all cores, except for GETs.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::client::{Client, metric};
use super::process::{BenchServer, Process, SERVER_CORE, free_addresses};
use super::table::{Table, Target, median, short};
use super::{Built, path, wrk};
use crate::sh;

const AGENTS: usize = 100;
const MACHINES: usize = 10_000;

/// Machines of the first host, whose agent is measured.
const FIRST_MACHINES: usize = 200;

/// Clients that register machines.
const CLIENTS: usize = 16;

/// Events whose way to an agent is measured, each of another machine.
const EVENTS: usize = 500;

/// How long an idle agent is observed.
const IDLE: Duration = Duration::from_secs(30);

/// Time for all agents to connect.
const CONNECT_MAX: Duration = Duration::from_secs(120);

struct AgentProcess {
    process: Process,
    metadata: String,
    health: String,
}

/// The name of a machine, and the index of its host.
type Placed = (String, usize);

pub fn run(built: &Built) -> Result<Table> {
    let (agents, all, first) = built.pick((AGENTS, MACHINES, FIRST_MACHINES), (3, 30, 10));
    let cores = format!("0-{}", std::thread::available_parallelism()?.get() - 1);
    let listener = free_addresses(1)?.remove(0);
    let more = ["--management", "127.0.0.1:0", "--hosts", &listener, "--driver", "agents"];
    let server = BenchServer::start_on(built, &built.scratch("agent-server")?, &cores, &more)?;
    let agents: Vec<AgentProcess> = join_all(built, &server, agents, &cores)?;
    let machines = machines(agents.len(), all, first);
    register(&server, &machines)?;
    wait_for_copies(&server, &agents)?;
    let mut table = Table::new("Host agents");
    measure_visibility(built, &server, &agents, &machines, &mut table)?;
    measure_idle(built, &agents[0], first, &mut table)?;
    compare_gets(built, &server, &agents[0], &machines[0].0, &mut table)?;
    Ok(table)
}

/// Joins as many hosts, then runs their agents.
fn join_all(built: &Built, server: &BenchServer, count: usize, cores: &str) -> Result<Vec<AgentProcess>> {
    let program = path(&built.forewarn)?;
    let url = format!("http://{}", server.management);
    let mut management = Client::new(&server.management)?;
    let mut agents = Vec::new();
    let mut addresses = free_addresses(2 * count)?.into_iter();
    for index in 0..count {
        let host = name_of_host(index);
        let reply = management.post(&format!("/api/v1/hosts/{host}/token"), "{}")?;
        let token: Value = serde_json::from_str(&reply.body)?;
        let token = token["token"].as_str().context("no token")?;
        let dir = built.scratch(&format!("agent-{host}"))?;
        sh::program(program).args(&["host", "join", &url, "--token", token, "--data", path(&dir)?]).read()?;
        let (metadata, health) = addresses.next().zip(addresses.next()).context("an address")?;
        let listeners = ["--metadata", &metadata, "--health", &health, "--driver", "none"];
        let run: Vec<&str> = ["host", "run", "--data", path(&dir)?].into_iter().chain(listeners).collect();
        let process = Process::start(program, &run, cores)?;
        agents.push(AgentProcess { process, metadata, health });
    }
    Ok(agents)
}

fn name_of_host(index: usize) -> String {
    format!("host{index}")
}

/// The first host has its own number of machines; the others share the rest.
fn machines(hosts: usize, all: usize, first: usize) -> Vec<Placed> {
    let host_of = |number: usize| if number < first { 0 } else { 1 + (number - first) % (hosts - 1) };
    (0..all).map(|number| (format!("vm{number}"), host_of(number))).collect()
}

fn register(server: &BenchServer, machines: &[Placed]) -> Result<()> {
    let create = |share: &[Placed]| -> Result<()> {
        let mut client = Client::new(&server.management)?;
        for (name, host) in share {
            let body = format!(r#"{{"name":"{name}","host":"{}"}}"#, name_of_host(*host));
            client.post("/api/v1/machines", &body)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let shares = machines.chunks(machines.len().div_ceil(CLIENTS));
        let clients: Vec<_> = shares.map(|share| scope.spawn(move || create(share))).collect();
        clients.into_iter().try_for_each(|client| client.join().expect("no client panics"))
    })
}

/// Waits until every agent has the server's revision.
fn wait_for_copies(server: &BenchServer, agents: &[AgentProcess]) -> Result<()> {
    let begun = Instant::now();
    let newest = metric(&server.management, "forewarn_revision")?;
    for agent in agents {
        while revision(agent).is_none_or(|revision| revision < newest) {
            ensure!(begun.elapsed() < CONNECT_MAX, "the agent at {} has no current copy", agent.health);
            std::thread::sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

fn revision(agent: &AgentProcess) -> Option<f64> {
    let reply = Client::new(&agent.health).ok()?.get("/healthz", "").ok()?;
    serde_json::from_str::<Value>(&reply.body).ok()?["revision"].as_f64()
}

fn document_path(machine: &str) -> String {
    format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01")
}

/// A guest waits for the next document at its agent while an operator requests a restart at the server.
fn measure_visibility(
    built: &Built,
    server: &BenchServer,
    agents: &[AgentProcess],
    machines: &[Placed],
    table: &mut Table,
) -> Result<()> {
    let count = built.pick(EVENTS, 10).min(machines.len());
    let mut management = Client::new(&server.management)?;
    let mut times_ms = Vec::new();
    for (machine, host) in machines.iter().step_by(machines.len() / count).take(count) {
        let mut guest = Client::new(&agents[*host].metadata)?;
        let document = guest.get(&document_path(machine), "Metadata: true\r\n")?;
        ensure!(document.status == 200, "{} {}", document.status, document.body);
        let known = document.header("etag").context("no ETag")?.to_owned();
        let headers = format!("Metadata: true\r\nIf-None-Match: {known}\r\n");
        guest.send("GET", &format!("{}&wait=30", document_path(machine)), &headers, "")?;
        let begun = Instant::now();
        let restart = format!("/api/v1/machines/{machine}/restart");
        std::thread::scope(|scope| -> Result<()> {
            let seen = scope.spawn(|| guest.receive().map(|document| (document, begun.elapsed())));
            management.post(&restart, "{}")?;
            let (document, took) = seen.join().expect("the guest does not panic")?;
            ensure!(document.body.contains("Reboot"), "{} {}", document.status, document.body);
            times_ms.push(took.as_secs_f64() * 1e3);
            Ok(())
        })?;
    }
    times_ms.sort_by(f64::total_cmp);
    let p99 = times_ms[times_ms.len() * 99 / 100];
    table.tell("agents, machines, events", format!("{}, {}, {count}", agents.len(), machines.len()));
    table.tell(
        "from the request at the server until its event is visible at the agent, median ms",
        short(median(times_ms)),
    );
    table.judge("agent_visible_p99_ms", "the same, p99 ms", p99, "", Target::AtMost(50.0));
    Ok(())
}

fn measure_idle(built: &Built, agent: &AgentProcess, machines: usize, table: &mut Table) -> Result<()> {
    let megabytes = agent.process.resident_bytes()? / 1e6;
    let label = format!("resident memory of an agent with {machines} machines, MB");
    table.judge("agent_resident_mb", &label, megabytes, "", Target::AtMost(20.0));
    let of_file = agent.process.program_file_bytes()? / 1e6;
    table.note("agent_program_file_mb", "of that, pages of the program file, MB", of_file, "");
    let before = agent.process.cpu_secs()?;
    let idle = built.pick(IDLE, Duration::from_secs(1));
    std::thread::sleep(idle);
    let percent = (agent.process.cpu_secs()? - before) * 100.0 / idle.as_secs_f64();
    table.judge("agent_idle_percent", "an idle agent, % of a core", percent, "", Target::AtMost(0.5));
    Ok(())
}

/// GETs of one document, at the agent and at the server.
fn compare_gets(
    built: &Built,
    server: &BenchServer,
    agent: &AgentProcess,
    machine: &str,
    table: &mut Table,
) -> Result<()> {
    for process in [&server.process, &agent.process] {
        let pid = process.id().to_string();
        sh::program("taskset").args(&["-a", "-p", "-c", SERVER_CORE, &pid]).read().context("taskset")?;
    }
    let get = |process: &Process, metadata: &str| {
        let url = format!("http://{metadata}{}", document_path(machine));
        wrk::run(process, wrk::secs(built), &["-H", "Metadata: true", &url])
    };
    let mut at_agent = || get(&agent.process, &agent.metadata);
    let mut at_server = || get(&server.process, &server.metadata);
    let runs = wrk::rounds(built, &mut [&mut at_agent, &mut at_server])?;
    wrk::describe(table, "GET at the agent", &runs[0]);
    wrk::describe(table, "GET at the server", &runs[1]);
    let ratio = wrk::ratio(&runs[0], &runs[1], |run| run.cpu_us);
    table.judge("agent_get_ratio", "CPU time, agent : server", ratio, " x", Target::AtMost(1.1));
    Ok(())
}
