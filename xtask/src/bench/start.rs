//! A server with a million machines: the time from its start to the first response, and its resident memory.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Built;
use super::client::Client;
use super::process::{BenchServer, CLIENT_CORE, SERVER_CORE};
use super::table::{Table, Target};

const MACHINES: u64 = 1_000_000;
const MACHINES_SMOKE: u64 = 1000;
const SET: u64 = 100;

const POLL: &str = "/vm/web-0000007/metadata/scheduledevents?api-version=2020-07-01";

pub fn run(built: &Built) -> Result<Table> {
    let machines = built.pick(MACHINES, MACHINES_SMOKE);
    let (secs, in_sets) = start(built, machines, SET)?;
    let (_, alone) = start(built, machines, 0)?;
    let mut table = Table::new("A server with 1,000,000 machines");
    table.judge("start_secs", "from start to the first response, s", secs, "", Target::AtMost(3.0));
    table.judge("memory_sets_bytes", "resident bytes per machine, sets of 100", in_sets, "", Target::AtMost(400.0));
    let label = "resident bytes per machine, own event group and details";
    table.judge("memory_alone_bytes", label, alone, "", Target::AtMost(700.0));
    Ok(table)
}

/// Seconds until the first response, and resident bytes per machine after it.
fn start(built: &Built, machines: u64, set: u64) -> Result<(f64, f64)> {
    let data = built.fleet("start", machines, set, 0)?;
    // Nothing else runs meanwhile, so the server can load on both cores.
    let cores = format!("{SERVER_CORE},{CLIENT_CORE}");
    let begun = Instant::now();
    let server = BenchServer::start_on(built, &data, &cores, &["--management", "127.0.0.1:0"])?;
    let reply = Client::new(&server.metadata)?.get(POLL, "Metadata: true\r\n")?;
    let took: Duration = begun.elapsed();
    ensure!(reply.status == 200, "the first request was answered with {}", reply.status);
    let bytes = server.process.resident_bytes()? / machines as f64;
    eprintln!("   sets of {set}: {:.2} s, {bytes:.0} bytes per machine", took.as_secs_f64());
    Ok((took.as_secs_f64(), bytes))
}
