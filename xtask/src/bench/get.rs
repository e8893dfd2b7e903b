//! Reads: the document with one event, and its 304, compared with nginx and with the least that a server can do.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::bare;
use super::client::{Client, Reply};
use super::process::{BenchServer, Process, SERVER_CORE};
use super::table::{Table, Target};
use super::wrk::{self, Throughput, describe, ratio, rounds, secs};
use super::{Built, path};

const DOCUMENT: &str = "/metadata/scheduledevents?api-version=2020-07-01";
const METADATA: &str = "Metadata: true";

pub fn run(built: &Built) -> Result<Table> {
    let server = BenchServer::start(built, &built.scratch("get")?)?;
    let reply = with_one_event(&server)?;
    let etag = reply.header("etag").context("no ETag")?.to_owned();
    let nginx = nginx(&built.scratch("nginx")?, &reply.body, &etag)?;
    compare_answers(&server.metadata, &nginx.1)?;
    let bare = bare::start(&built.scratch("bare")?, &(reply.head + &reply.body))?;

    let ours = format!("http://{}{DOCUMENT}", server.metadata);
    let theirs = format!("http://{}{DOCUMENT}", nginx.1);
    let least = format!("http://{}{DOCUMENT}", bare.1);
    let condition = format!("If-None-Match: {etag}");
    let secs = secs(built);
    let runs = rounds(
        built,
        &mut [
            &mut || wrk::run(&server.process, secs, &["-H", METADATA, &ours]),
            &mut || wrk::run(&nginx.0, secs, &["-H", METADATA, &theirs]),
            &mut || wrk::run(&server.process, secs, &["-H", METADATA, "-H", &condition, &ours]),
            &mut || wrk::run(&bare.0, secs, &["-H", METADATA, &least]),
        ],
    )?;
    let [ours, theirs, unchanged, least] = [&runs[0], &runs[1], &runs[2], &runs[3]];
    let mut table = Table::new("GET of a document with one event (64 connections, one core each)");
    describe(&mut table, "forewarn", ours);
    describe(&mut table, "nginx", theirs);
    let against_nginx = |figure: fn(&Throughput) -> f64| ratio(ours, theirs, figure);
    let per_second = against_nginx(|r| r.per_second);
    table.judge("get_ratio", "requests/s, forewarn : nginx", per_second, " x", Target::AtLeast(1.2));
    let cpu = against_nginx(|r| r.cpu_us);
    table.judge("get_cpu_ratio", "CPU time per request, forewarn : nginx", cpu, " x", Target::AtMost(0.8));
    table.judge("get_p99_ratio", "p99, forewarn : nginx", against_nginx(|r| r.p99_us), " x", Target::AtMost(1.0));
    describe(&mut table, "bare epoll loop", least);
    let label = "requests/s, bare epoll loop : nginx";
    table.note("bare_ratio", label, ratio(least, theirs, |r| r.per_second), " x");
    let label = "CPU time per request, bare epoll loop : nginx";
    table.note("bare_cpu_ratio", label, ratio(least, theirs, |r| r.cpu_us), " x");
    describe(&mut table, "forewarn, 304", unchanged);
    let per_second = ratio(unchanged, ours, |r| r.per_second);
    table.judge("get_304_ratio", "requests/s, 304 : 200", per_second, " x", Target::AtLeast(1.0));
    table.note("get_304_cpu_ratio", "CPU time per request, 304 : 200", ratio(unchanged, ours, |r| r.cpu_us), " x");
    Ok(table)
}

/// Polls as the only machine of a new server, restarts it, and polls again.
fn with_one_event(server: &BenchServer) -> Result<Reply> {
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
