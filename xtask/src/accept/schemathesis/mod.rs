//! Schemathesis against the management API: checks every operation of the OpenAPI document.
//!
//! All checks are on: no server errors; no undocumented status, type, header or body; valid requests are accepted, invalid
//! ones are refused, and nothing works without a token.

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::server::Server;
use crate::needs::Needs;
use crate::setup::Download;
use crate::sh;

/// Pinned, so that every run sends the same requests.
const SCHEMATHESIS: Download = Download::Python(&["schemathesis==4.32.5"]);
const SEED: &str = "20170301";

/// Test cases per operation and phase.
const EXAMPLES_MAX: &str = "12";

/// Time limit for all cases. They take a minute on two idle cores.
const RUN_SECS_MAX: &str = "400";

/// Time limit for one request.
const REQUEST_SECS_MAX: &str = "5";

/// Streams and long polls do not end in time, and webhooks would call generated host names.
const EXCLUDED: &str = "/api/v1/changes$|/api/v1/events/wait$|/api/v1/webhooks";

/// Tested last: advancing the clock finishes all events.
const CLOCK: &str = "/api/v1/clock";

/// History rows that must exist at the end, to prove that requests had effects.
const KINDS: &[&str] =
    &["appeared", "approved", "audit", "ended", "machine-added", "machine-removed", "operation-ended", "started"];

pub const NEEDS: Needs = Needs {
    root: false,
    packages: &[("curl", "curl"), ("python3", "python3"), ("util-linux", "setpriv")],
    downloads: &[SCHEMATHESIS],
};

pub fn run() -> Result<()> {
    let program = SCHEMATHESIS.path()?.join("bin/schemathesis");
    let server = Server::start(&["--clock", "manual"])?;
    furnish(&server)?;
    let program = program.to_str().context("path")?;
    ask(program, &server, "--exclude-path-regex", &format!("{EXCLUDED}|{CLOCK}"))?;
    ask(program, &server, "--include-path-regex", CLOCK)?;
    for kind in KINDS {
        let happened = server.history(&format!("kind={kind}"))?.len();
        ensure!(happened > 0, "the history has no row of kind '{kind}'");
        eprintln!("   {kind}: {happened} rows or more");
    }
    server.stop()
}

fn ask(program: &str, server: &Server<'_>, filter: &str, paths: &str) -> Result<()> {
    let ours = sh::root().join("xtask/src/accept/schemathesis");
    let ours = ours.to_str().context("path")?;
    let document = format!("{}/openapi.json", server.management);
    let mut command = sh::program("timeout")
        .within(server.dir())
        .args(&[RUN_SECS_MAX, program, "--config-file", &format!("{ours}/schemathesis.toml"), "run", &document])
        .args(&[filter, paths, "--request-timeout", REQUEST_SECS_MAX])
        .args(&["--seed", SEED, "--max-examples", EXAMPLES_MAX, "--generation-database", "none"])
        .args(&["--warnings", "off", "--no-color"]);
    command.env("SCHEMATHESIS_HOOKS", "hooks").env("PYTHONPATH", ours).env("PYTHONDONTWRITEBYTECODE", "1");
    command.env("TOKEN", &server.token).env("NO_PROXY", "*");
    command.run().with_context(|| format!("log of the server:\n{}", server.log()))
}

/// Creates the resources that schemathesis.toml names.
fn furnish(server: &Server<'_>) -> Result<()> {
    for host in ["host-1", "host-2"] {
        server.put(&format!("/hosts/{host}"))?;
    }
    for end in ["", "-b", "-c"] {
        server.post("/availability-sets", &json!({ "name": format!("web{end}") }))?;
        server.post("/cloud-services", &json!({ "name": format!("shop{end}") }))?;
        server.post("/scale-sets", &json!({ "name": format!("pool{end}"), "capacity": 3 }))?;
    }
    server.post("/machines", &json!({ "name": "worker_IN_0", "cloudService": "shop" }))?;
    for number in 1..=6 {
        let host = format!("host-{}", 1 + number % 2);
        server
            .post("/machines", &json!({ "name": format!("web-{number}"), "availabilitySet": "web", "host": host }))?;
    }
    for number in 1..=4 {
        server.post("/machines", &json!({ "name": format!("spot-{number}"), "priority": "Spot" }))?;
        server.document(&format!("spot-{number}"))?;
    }
    server.document("web-1")?;
    for number in 1..=4 {
        let id = format!("00000000-0000-4000-8000-{number:012}");
        let target = json!({ "machine": format!("web-{number}") });
        server.post(
            "/maintenance",
            &json!({ "target": target, "type": "Freeze", "noticeSeconds": 86400, "eventId": id }),
        )?;
    }
    Ok(())
}
