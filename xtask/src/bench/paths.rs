//! Many callers compared with one: by path, as tests on the host ask, and by source address, as guests do.

use anyhow::Result;

use super::addresses::Ring;
use super::approve::pin_ourselves;
use super::process::BenchServer;
use super::table::{Table, Target};
use super::wrk::{self, Throughput, describe, ratio, rounds, secs};
use super::{Built, path};

const MACHINES: u64 = 1_000_000;
const MACHINES_SMOKE: u64 = 1000;
const SET: u64 = 100;

/// Connections from different addresses. A process has at most 20,000 descriptors on the test machine.
const CONNECTIONS: u64 = 8000;

const DOCUMENT: &str = "/metadata/scheduledevents?api-version=2020-07-01";

/// A wrk script that requests the documents of this many machines in turn, far apart from each other.
const SCRIPT: &str = r#"
local requests = {}
local n = 0
function init(args)
  for i = 0, COUNT - 1 do
    local path = string.format("/vm/web-%07d/metadata/scheduledevents?api-version=2020-07-01", i * 7919 % ALL)
    requests[i + 1] = wrk.format("GET", path, { ["Metadata"] = "true" })
  end
end
function request()
  n = n % COUNT + 1
  return requests[n]
end
"#;

pub fn run(built: &Built) -> Result<Table> {
    let machines = built.pick(MACHINES, MACHINES_SMOKE);
    let data = built.fleet("paths", machines, SET, machines / SET)?;
    let server = BenchServer::start(built, &data)?;
    let mut table = Table::new("One caller against many, of 1,000,000 machines in 10,000 event groups");
    by_path(built, &server, machines, &mut table)?;
    by_address(built, &server, machines, &mut table)?;
    Ok(table)
}

fn by_path(built: &Built, server: &BenchServer, machines: u64, table: &mut Table) -> Result<()> {
    let dir = built.scratch("paths-scripts")?;
    let script = |count: u64| -> Result<String> {
        let file = dir.join(format!("{count}.lua"));
        let text = SCRIPT.replace("COUNT", &count.to_string()).replace("ALL", &machines.to_string());
        std::fs::write(&file, text)?;
        Ok(path(&file)?.to_owned())
    };
    let scripts = [script(1)?, script(machines / 10)?, script(machines)?];
    let (url, secs) = (format!("http://{}", server.metadata), secs(built));
    let run = |script: &str| wrk::run(&server.process, secs, &["-s", script, &url]);
    let mut turns = scripts.each_ref().map(|script| || run(script));
    let [one, many, all] = &mut turns;
    let runs = rounds(built, &mut [one, many, all])?;
    describe(table, "one path", &runs[0]);
    describe(table, "100,000 paths", &runs[1]);
    describe(table, "1,000,000 paths", &runs[2]);
    compare(table, "paths", "100,000 paths : one", &runs[1], &runs[0], 0.9);
    compare(table, "paths_million", "1,000,000 paths : one", &runs[2], &runs[0], 0.85);
    Ok(())
}

fn by_address(built: &Built, server: &BenchServer, machines: u64, table: &mut Table) -> Result<()> {
    pin_ourselves()?;
    let connections = built.pick(CONNECTIONS, 100);
    let mut one = Ring::of_one(&server.metadata, connections, DOCUMENT)?;
    let mut many = Ring::of_many(&server.metadata, connections, machines, DOCUMENT)?;
    let secs = secs(built);
    let runs = rounds(built, &mut [&mut || one.run(&server.process, secs), &mut || many.run(&server.process, secs)])?;
    describe(table, "8,000 connections, one caller", &runs[0]);
    describe(table, "8,000 connections, 8,000 source addresses", &runs[1]);
    compare(table, "addresses", "8,000 source addresses : one caller", &runs[1], &runs[0], 0.9);
    Ok(())
}

fn compare(table: &mut Table, name: &str, what: &str, many: &[Throughput], one: &[Throughput], at_least: f64) {
    let per_second = ratio(many, one, |run| run.per_second);
    table.judge(&format!("{name}_ratio"), &format!("requests/s, {what}"), per_second, " x", Target::AtLeast(at_least));
    let cpu = ratio(many, one, |run| run.cpu_us);
    table.note(&format!("{name}_cpu_ratio"), &format!("CPU time per request, {what}"), cpu, " x");
}
