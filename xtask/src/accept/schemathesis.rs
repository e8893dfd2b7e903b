//! Schemathesis against the management API: whatever the OpenAPI document promises, it asks for.

use anyhow::{Context, Result};
use serde_json::json;

use super::server::Server;
use crate::{setup, sh};

/// Exact, so that a run today asks what a run asked yesterday.
const VERSION: &str = "4.32.5";
const SEED: &str = "20170301";

/// Test cases for each of its phases and each operation.
const EXAMPLES_MAX: &str = "12";

/// A whole run, in seconds.
const RUN_SECS_MAX: &str = "90";

/// One request, in seconds.
const REQUEST_SECS_MAX: &str = "5";

pub fn run() -> Result<()> {
    setup::debian(&[("curl", "curl"), ("python3", "python3"), ("util-linux", "setpriv")])?;
    let venv = setup::python("schemathesis", VERSION)?;
    let server = Server::start(&["--clock", "manual"])?;
    furnish(&server)?;
    let program = venv.join("bin/schemathesis");
    let authorization = format!("Authorization: Bearer {}", server.token);
    let document = format!("{}/openapi.json", server.management);
    let mut command = sh::program("timeout").args(&[RUN_SECS_MAX, program.to_str().context("path")?]).args(&[
        "run",
        &document,
        "--header",
        &authorization,
        "--seed",
        SEED,
        "--max-examples",
        EXAMPLES_MAX,
        "--request-timeout",
        REQUEST_SECS_MAX,
        "--generation-database",
        "none",
        "--no-color",
        "--exclude-path",
        "/api/v1/changes",
    ]);
    command.env("NO_PROXY", "*").run().with_context(|| format!("the end of the log:\n{}", server.log()))?;
    server.stop()
}

/// Something to find: a machine of each kind.
fn furnish(server: &Server<'_>) -> Result<()> {
    server.post("/availability-sets", &json!({ "name": "web" }))?;
    server.post("/machines", &json!({ "name": "web-1", "availabilitySet": "web" }))?;
    server.post("/scale-sets", &json!({ "name": "pool", "capacity": 2 }))?;
    Ok(())
}
