//! Reads: the document with one event, and its 304, compared with nginx; many paths compared with one.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::client::{Client, Reply};
use super::process::{Process, SERVER_CORE, Server};
use super::table::{Table, Target, median, short};
use super::wrk::{self, Run};
use super::{Built, path};

/// Rounds. Each round measures every candidate once.
const ROUNDS: usize = 7;
const SECS: u32 = 3;

const DOCUMENT: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const METADATA: &str = "Metadata: true";

pub fn get(built: &Built) -> Result<()> {
    let server = Server::start(built, &built.scratch("get")?)?;
    let reply = with_one_event(&server)?;
    let etag = reply.header("etag").context("no ETag")?.to_owned();
    let nginx = nginx(&built.scratch("nginx")?, &reply.body, &etag)?;
    compare_answers(&server.metadata, &nginx.1)?;

    let ours = format!("http://{}{DOCUMENT}", server.metadata);
    let theirs = format!("http://{}{DOCUMENT}", nginx.1);
    let condition = format!("If-None-Match: {etag}");
    let runs = rounds(&[
        &|| wrk::run(&server.process, SECS, &["-H", METADATA, &ours]),
        &|| wrk::run(&nginx.0, SECS, &["-H", METADATA, &theirs]),
        &|| wrk::run(&server.process, SECS, &["-H", METADATA, "-H", &condition, &ours]),
    ])?;
    let [ours, theirs, unchanged] = [&runs[0], &runs[1], &runs[2]];
    let mut table = Table::new("GET of a document with one event (64 connections, one core each)");
    describe(&mut table, "forewarn", ours);
    describe(&mut table, "nginx", theirs);
    table.judge("requests/s, forewarn : nginx", ratio(ours, theirs, |r| r.per_second), " x", Target::AtLeast(1.0));
    table.judge("CPU time per request, forewarn : nginx", ratio(ours, theirs, |r| r.cpu_us), " x", Target::AtMost(1.0));
    table.tell("p99, forewarn : nginx", format!("{} x", short(ratio(ours, theirs, |r| r.p99_us))));
    describe(&mut table, "forewarn, 304", unchanged);
    table.judge("requests/s, 304 : 200", ratio(unchanged, ours, |r| r.per_second), " x", Target::AtLeast(1.0));
    table.tell("CPU time per request, 304 : 200", format!("{} x", short(ratio(unchanged, ours, |r| r.cpu_us))));
    table.print();
    Ok(())
}

/// Polls as the only machine of a new server, restarts it, and polls again.
fn with_one_event(server: &Server) -> Result<Reply> {
    let (mut machine, mut management) = (Client::new(&server.metadata)?, Client::new(&server.management)?);
    machine.get(DOCUMENT, "Metadata: true\r\n")?;
    let machines: serde_json::Value = serde_json::from_str(&management.get("/api/v1/machines", "")?.body)?;
    let vm_id = machines["value"][0]["vmId"].as_str().context("a fresh server has no machine")?;
    management.post(&format!("/api/v1/machines/{vm_id}/restart"), "{}")?;
    let reply = machine.get(DOCUMENT, "Metadata: true\r\n")?;
    ensure!(reply.body.matches("EventId").count() == 1, "not one event: {}", reply.body);
    Ok(reply)
}

/// Checks that nginx sends the same body and the same headers, apart from those that identify the server.
fn compare_answers(ours: &str, theirs: &str) -> Result<()> {
    let ours = Client::new(ours)?.get(DOCUMENT, "Metadata: true\r\n")?;
    let theirs = Client::new(theirs)?.get(DOCUMENT, "Metadata: true\r\n")?;
    ensure!(ours.body == theirs.body, "the bodies differ");
    for name in ["content-type", "etag", "content-length"] {
        ensure!(ours.header(name) == theirs.header(name), "{name} differs:\n{}\n{}", ours.head, theirs.head);
    }
    for name in ["x-ms-request-id", "date", "server"] {
        ensure!(ours.header(name).is_some() && theirs.header(name).is_some(), "{name} is missing");
    }
    Ok(())
}

/// nginx with the same response, the same headers and the same check of the Metadata header.
fn nginx(dir: &Path, body: &str, etag: &str) -> Result<(Process, String)> {
    // A port that is free now, because nginx cannot report the port it bound.
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let dir = path(dir)?;
    let config = format!(
        "daemon off; worker_processes 1; pid {dir}/pid; error_log {dir}/error.log;
         events {{ worker_connections 1024; }}
         http {{
           access_log off; keepalive_requests 1000000000; server_tokens off; client_body_temp_path {dir};
           proxy_temp_path {dir}; fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir};
           server {{
             listen {address};
             location = /metadata/scheduledevents {{
               if ($http_metadata != true) {{ return 400; }}
               default_type application/json; charset utf-8; charset_types application/json;
               add_header x-ms-request-id $request_id; add_header ETag '{etag}';
               return 200 '{body}';
             }}
           }}
         }}"
    );
    let file = format!("{dir}/nginx.conf");
    std::fs::write(&file, config)?;
    let process = Process::start("nginx", &["-c", &file], SERVER_CORE)?;
    for _ in 0..100 {
        if Client::new(&address).is_ok() {
            return Ok((process, address));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    anyhow::bail!("nginx did not start; see {dir}/error.log")
}

const PATHS: u64 = 100_000;

/// A wrk script that requests the documents of this many machines in turn, far apart from each other.
const SCRIPT: &str = r#"
local requests = {}
local n = 0
function init(args)
  for i = 0, COUNT - 1 do
    local path = string.format("/vm/web-%07d/metadata/scheduledevents?api-version=2020-07-01", i * 7919 % COUNT)
    requests[i + 1] = wrk.format("GET", path, { ["Metadata"] = "true" })
  end
end
function request()
  n = n % COUNT + 1
  return requests[n]
end
"#;

pub fn paths(built: &Built) -> Result<()> {
    let data = built.fleet("paths", PATHS, 100, 1000)?;
    let server = Server::start(built, &data)?;
    let dir = built.scratch("paths-scripts")?;
    let script = |count: u64| -> Result<String> {
        let file = dir.join(format!("{count}.lua"));
        std::fs::write(&file, SCRIPT.replace("COUNT", &count.to_string()))?;
        Ok(path(&file)?.to_owned())
    };
    let (one, many) = (script(1)?, script(PATHS)?);
    let url = format!("http://{}", server.metadata);
    let runs = rounds(&[&|| wrk::run(&server.process, SECS, &["-s", &one, &url]), &|| {
        wrk::run(&server.process, SECS, &["-s", &many, &url])
    }])?;
    let mut table = Table::new("One machine's path against those of 100,000 machines in 1,000 scopes");
    describe(&mut table, "one path", &runs[0]);
    describe(&mut table, "100,000 paths", &runs[1]);
    table.judge("requests/s, many : one", ratio(&runs[1], &runs[0], |r| r.per_second), " x", Target::AtLeast(0.85));
    table.tell("CPU time per request, many : one", format!("{} x", short(ratio(&runs[1], &runs[0], |r| r.cpu_us))));
    table.print();
    Ok(())
}

/// Measures all candidates in turn. The first round is a warm-up.
fn rounds(turns: &[&dyn Fn() -> Result<Run>]) -> Result<Vec<Vec<Run>>> {
    let mut runs = vec![Vec::new(); turns.len()];
    for round in 0..=ROUNDS {
        let mut line = String::new();
        for n in 0..turns.len() {
            // The order rotates from round to round.
            let n = (n + round) % turns.len();
            let run = turns[n]()?;
            write!(line, "  [{n}] {:.0}/s {:.2} us", run.per_second, run.cpu_us)?;
            if round > 0 {
                runs[n].push(run);
            }
        }
        eprintln!("   round {round}{line}");
    }
    Ok(runs)
}

fn describe(table: &mut Table, who: &str, runs: &[Run]) {
    let middle = |figure: fn(&Run) -> f64| short(median(runs.iter().map(figure).collect()));
    let figures = [middle(|r| r.per_second), middle(|r| r.cpu_us), middle(|r| r.p99_us)];
    table.tell(who, format!("{}/s, {} µs CPU, p99 {} µs", figures[0], figures[1], figures[2]));
}

/// The median of the ratios of all rounds.
fn ratio(ours: &[Run], theirs: &[Run], figure: fn(&Run) -> f64) -> f64 {
    median(ours.iter().zip(theirs).map(|(ours, theirs)| figure(ours) / figure(theirs)).collect())
}
