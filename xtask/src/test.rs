//! Everything that must hold, cheapest first.

use anyhow::Result;

use crate::{accept, setup, sh, tidy};

pub fn run() -> Result<()> {
    sh::cargo(&["fmt", "--all", "--check"]).run()?;
    tidy::run()?;
    sh::cargo(&["clippy", "--workspace", "--all-targets", "--", "--deny", "warnings"]).run()?;
    setup::debian(&[("curl", "curl"), ("haproxy", "haproxy"), ("nginx-light", "nginx"), ("openssl", "openssl")])?;
    sh::cargo(&["test", "--workspace"]).run()?;
    sh::cargo(&["build", "--release", "--workspace", "--bins"]).run()?;
    accept::run(&[])
}
