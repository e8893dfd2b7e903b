//! Polls of a guest while its neighbor attacks with 18,000 connections, as in `cargo xtask accept hostile`.

use anyhow::Result;

use super::Built;
use super::table::{Table, Target};
use crate::accept::hostile::{HOSTILE_PROCESS, HOSTS, HostileProcess, NEEDS, attack_beside_neighbor};
use crate::accept::netns::{METADATA, Network};
use crate::accept::server::Server;

const SMOKE: HostileProcess = HostileProcess { connections: "200", seconds: "2" };

pub fn run(built: &Built) -> Result<Table> {
    NEEDS.meet()?;
    let network = Network::new(&HOSTS)?;
    let server = Server::start_program_in(&built.forewarn, &network.cloud, &format!("{METADATA}:80"))?;
    let figures = attack_beside_neighbor(&network, &server, built.pick(HOSTILE_PROCESS, SMOKE))?;
    server.stop()?;
    let mut table = Table::new("A guest that polls while its neighbor attacks with 18,000 connections");
    table.tell("polls", figures.polls.to_string());
    table.judge("hostile_failed_polls", "failed polls", figures.failures, "", Target::AtMost(0.0));
    table.judge("hostile_p99_ms", "p99 of a poll, ms", figures.p99_ms, "", Target::AtMost(100.0));
    table.judge(
        "hostile_growth_kb",
        "memory that the attack costs, kB",
        figures.growth_kb as f64,
        "",
        Target::AtMost(65_536.0),
    );
    Ok(table)
}
