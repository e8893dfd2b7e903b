//! One hostile guest opens 18,000 connections, and a neighbor on the same bridge is served as if nothing happened.
//!
//! ```text
//!   port1  web1  hostile: two processes with 9,000 connections each
//!   port2  web2  the neighbor, which polls and must learn of its event
//! ```

use std::process::{Child, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::netns::{METADATA, Namespace, Network};
use super::server::Server;
use crate::needs::Needs;
use crate::sh;

const HOSTS: [&str; 2] = ["web1", "web2"];

/// Connections of each of the two hostile processes; a process has at most 20,000 descriptors.
const CONNECTIONS: &str = "9000";

/// How long the attack may last, and how long the neighbor polls.
const SECONDS: &str = "40";

/// The memory that the attack may cost the server.
const GROWTH_KB_MAX: u64 = 64 * 1024;

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
    for (name, node) in HOSTS.iter().zip(&network.nodes) {
        server.post("/machines", &json!({ "name": name, "addresses": [{ "ip": node.ip }] }))?;
    }
    let [hostile, neighbor] = [&network.nodes[0].namespace, &network.nodes[1].namespace];
    hostile.read("sysctl", &["-q", "-w", "net.ipv4.ip_local_port_range=1024 65535"])?;
    let url = format!("http://{METADATA}{EVENTS}");
    for guest in [hostile, neighbor] {
        guest.read("curl", &["-q", "-sS", "--fail", "--max-time", "10", "-H", "Metadata:true", &url])?;
    }
    let before = memory_kb(&server)?;
    let attackers = [attack(hostile)?, attack(hostile)?];
    let polls = python(neighbor, "neighbor.py", &[&url, SECONDS])?;

    server.post("/machines/web2/restart", &json!({}))?;
    let document: Value =
        serde_json::from_str(&neighbor.read("curl", &["-q", "-sS", "--max-time", "10", "-H", "Metadata:true", &url])?)?;
    ensure!(document["Events"][0]["EventStatus"] == "Scheduled", "the neighbor was not notified: {document}");
    server.get("/machines").context("management is not reachable during the attack")?;

    let mut opened = 0;
    for attacker in attackers {
        opened += finish(attacker)?.trim().parse::<u64>()?;
    }
    let growth = memory_kb(&server)?.saturating_sub(before);
    let polls = finish(polls)?;
    eprintln!("   {opened} hostile connections; polls, failures, p99 and longest in ms: {}", polls.trim());
    eprintln!("   the server grew by {growth} kB");
    ensure!(polls.split(' ').nth(1) == Some("0"), "the neighbor had failed polls: {polls}");
    ensure!(opened == 18_000, "only {opened} hostile connections were opened");
    ensure!(growth < GROWTH_KB_MAX, "the attack cost {growth} kB of memory");
    let lines = server.log().matches(LOG_LINE).count();
    ensure!(lines == 1, "{lines} log lines instead of one:\n{}", server.log());
    network.check_no_way_out()?;
    server.stop()
}

fn attack(guest: &Namespace) -> Result<Child> {
    python(guest, "hostile.py", &[METADATA, "80", CONNECTIONS, SECONDS])
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
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid()))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("no VmRSS")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
