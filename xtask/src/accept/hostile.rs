//! One hostile guest opens 18,000 connections, and a neighbor on the same bridge is served as if nothing happened. Then many
//! sources together fill the buffers of their connections, and the server's memory stays within the documented bound.
//!
//! ```text
//!   port1  web1  hostile: two processes with 9,000 connections each
//!   port2  web2  the neighbor, which polls and must learn of its event
//! ```

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::netns::{METADATA, Namespace, Network};
use super::server::Server;
use super::wait::until;
use crate::needs::Needs;
use crate::sh;

pub const HOSTS: [&str; 2] = ["web1", "web2"];

/// One of the two processes that attack. A process has at most 20,000 descriptors.
#[derive(Clone, Copy)]
pub struct HostileProcess {
    pub connections: &'static str,
    /// How long the attack may last, and how long the neighbor polls.
    pub seconds: &'static str,
}

pub const HOSTILE_PROCESS: HostileProcess = HostileProcess { connections: "9000", seconds: "40" };

/// The neighbor polls every 20 ms, if it is not delayed. A busy machine delays it, an attack that succeeds stops it.
const POLLS_MIN: f64 = 200.0;

/// The memory that the attack may cost the server at any time.
const GROWTH_KB_MAX: u64 = 64 * 1024;

/// The slowest poll of a hundred. Far above what a busy test machine needs; the attack once made polls time out after 5,000.
const P99_MS_MAX: f64 = 1_000.0;

/// Sources that fill their buffers, and the connections of each, just below its limit.
const FILLERS: u8 = 50;
const CONNECTIONS_PER_FILLER: u64 = 60;

/// The documented memory of one connection (`CONNECTION_BYTES_MAX` in the crate `metadata`, docs/operators.md).
const CONNECTION_KB_MAX: u64 = 40;

const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";

const LOG_LINE: &str = "source reached its connection limit";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("curl", "curl"),
        ("hostname", "hostname"),
        ("procps", "sysctl"),
        ("python3", "python3"),
        ("util-linux", "setpriv"),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let network = Network::new(&HOSTS)?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &[])?;
    let figures = attack_beside_neighbor(&network, &server, HOSTILE_PROCESS)?;
    ensure!(figures.failures == 0.0, "the neighbor had {} failed polls", figures.failures);
    ensure!(figures.p99_ms < P99_MS_MAX, "the neighbor's polls were slow: {} ms", figures.p99_ms);
    ensure!(figures.polls >= POLLS_MIN, "the neighbor had only {} polls", figures.polls);
    ensure!(figures.opened == 18_000, "only {} hostile connections were opened", figures.opened);
    ensure!(figures.growth_kb < GROWTH_KB_MAX, "the attack cost {} kB of memory", figures.growth_kb);
    let lines = server.log().matches(LOG_LINE).count();
    ensure!(lines == 1, "{lines} log lines instead of one:\n{}", server.log());
    let addresses = add_fillers(&server, &network.nodes[0].namespace)?;
    for content in ["head", "approval"] {
        fill_buffers(&server, &network, content, &addresses)?;
    }
    network.check_no_way_out()?;
    server.stop()
}

/// The result of an attack.
pub struct AttackFigures {
    pub opened: u64,
    /// Polls of the neighbor.
    pub polls: f64,
    pub failures: f64,
    pub p99_ms: f64,
    pub growth_kb: u64,
}

/// Two processes of the first guest attack while the second one polls. Also checks that the second one learns of its event and
/// that management can be reached.
pub fn attack_beside_neighbor(
    network: &Network,
    server: &Server<'_>,
    process: HostileProcess,
) -> Result<AttackFigures> {
    for (name, node) in HOSTS.iter().zip(&network.nodes) {
        server.post("/machines", &json!({ "name": name, "addresses": [{ "ip": node.ip }] }))?;
    }
    let [hostile, neighbor] = [&network.nodes[0].namespace, &network.nodes[1].namespace];
    hostile.read("sysctl", &["-q", "-w", "net.ipv4.ip_local_port_range=1024 65535"])?;
    let url = format!("http://{METADATA}{EVENTS}");
    for guest in [hostile, neighbor] {
        guest.read("curl", &["-q", "-sS", "--fail", "--max-time", "10", "-H", "Metadata:true", &url])?;
    }
    let before = memory_kb(server)?;
    let attackers = [attack(hostile, process)?, attack(hostile, process)?];
    let polls = python(neighbor, "neighbor.py", &[&url, process.seconds])?;

    server.post("/machines/web2/restart", &json!({}))?;
    let document: Value =
        serde_json::from_str(&neighbor.read("curl", &["-q", "-sS", "--max-time", "10", "-H", "Metadata:true", &url])?)?;
    ensure!(document["Events"][0]["EventStatus"] == "Scheduled", "the neighbor was not notified: {document}");
    server.get("/machines").context("management is not reachable during the attack")?;

    let mut opened = 0;
    for attacker in attackers {
        opened += finish(attacker)?.trim().parse::<u64>()?;
    }
    let growth_kb = peak_memory_kb(server)?.saturating_sub(before);
    let line = finish(polls)?;
    eprintln!("   {opened} hostile connections; polls, failures, p99 and longest in ms: {}", line.trim());
    eprintln!("   the server grew by {growth_kb} kB");
    let figures: Vec<f64> = line.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    let [polls, failures, p99_ms, _] = figures[..] else { bail!("neighbor.py printed: {line}") };
    Ok(AttackFigures { opened, polls, failures, p99_ms, growth_kb })
}

/// Gives the guest addresses that each belong to a machine, so that its approvals are accepted.
fn add_fillers(server: &Server<'_>, guest: &Namespace) -> Result<Vec<String>> {
    let addresses: Vec<String> = (0..FILLERS).map(|n| format!("10.99.0.{}", 100 + n)).collect();
    for address in &addresses {
        guest.read("ip", &["address", "add", &format!("{address}/24"), "dev", "eth0"])?;
        let name = format!("filler-{address}");
        server.post("/machines", &json!({ "name": name, "addresses": [{ "ip": address }] }))?;
    }
    Ok(addresses)
}

/// Opens connections from many addresses and sends almost a whole head or approval on each, so that all their buffers are in use.
fn fill_buffers(server: &Server<'_>, network: &Network, content: &str, addresses: &[String]) -> Result<()> {
    let before = memory_kb(server)?;
    let per_source = CONNECTIONS_PER_FILLER.to_string();
    let arguments =
        [&[content, METADATA, "80", &per_source][..], &addresses.iter().map(String::as_str).collect::<Vec<_>>()];
    let mut filler = python(&network.nodes[0].namespace, "fill.py", &arguments.concat())?;
    let mut line = String::new();
    BufReader::new(filler.stdout.take().context("no output")?).read_line(&mut line)?;
    let connections = u64::from(FILLERS) * CONNECTIONS_PER_FILLER;
    ensure!(line.trim() == connections.to_string(), "only {} connections were filled", line.trim());
    until("the server to read what was sent", || {
        let sockets = network.cloud.read("ss", &["-tnH", "state", "established"])?;
        let is_read = |socket: &str| socket.split_whitespace().next() == Some("0");
        Ok(sockets.lines().all(is_read).then_some(()))
    })?;
    let growth = memory_kb(server)?.saturating_sub(before);
    filler.kill()?;
    filler.wait()?;
    eprintln!("   {connections} connections with an unfinished {content}: the server grew by {growth} kB");
    let bound = connections * CONNECTION_KB_MAX;
    ensure!(growth < bound, "{connections} connections take {growth} kB, more than the documented {bound} kB");
    Ok(())
}

fn attack(guest: &Namespace, process: HostileProcess) -> Result<Child> {
    python(guest, "hostile.py", &[METADATA, "80", process.connections, process.seconds])
}

fn python(guest: &Namespace, script: &str, arguments: &[&str]) -> Result<Child> {
    let script = sh::root().join("xtask/src/accept").join(script);
    let mut command = guest.command("python3");
    command.arg(script).args(arguments).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().context("cannot run python3")
}

fn finish(child: Child) -> Result<String> {
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn memory_kb(server: &Server<'_>) -> Result<u64> {
    status_kb(server, "VmRSS:")
}

fn peak_memory_kb(server: &Server<'_>) -> Result<u64> {
    status_kb(server, "VmHWM:")
}

fn status_kb(server: &Server<'_>, field: &str) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
