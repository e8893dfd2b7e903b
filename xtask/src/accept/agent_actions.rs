//! The agent's built-in actions against real nginx, HAProxy, curl and OpenSSL.
//!
//! These are the tests `actions::` of the agent. `cargo test` skips those whose program is not installed; here all of
//! them must run.

use anyhow::Result;

use crate::needs::Needs;
use crate::test_programs;

pub const NEEDS: Needs = Needs {
    root: false,
    packages: &[("curl", "curl"), ("haproxy", "haproxy"), ("nginx-light", "nginx"), ("openssl", "openssl")],
    downloads: &[],
};

pub fn run() -> Result<()> {
    test_programs::run_only(test_programs::AGENT_ACTIONS, &[])
}
