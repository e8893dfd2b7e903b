//! Drains HAProxy servers through the admin socket: they get no new sessions, and open sessions continue. Optionally
//! waits for open sessions to end.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::Direction;
use super::request::ActionRequest;
use crate::values::Span;

/// HAProxy responds from memory.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Interval between two checks of the open sessions.
const SESSION_CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Enough for the statistics of ten thousand servers.
const RESPONSE_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Haproxy {
    #[serde(default = "default_socket")]
    socket: PathBuf,
    /// Servers as `backend/server`.
    servers: Vec<String>,
    /// Longest time to wait for sessions to end.
    #[serde(default)]
    wait: Span,
}

fn default_socket() -> PathBuf {
    "/run/haproxy/admin.sock".into()
}

impl Haproxy {
    pub fn check(&self) -> Result<()> {
        ensure!(!self.servers.is_empty(), "servers is empty; use [\"backend/server\"]");
        for server in &self.servers {
            let parts: Vec<&str> = server.split('/').collect();
            let is_word =
                |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
            ensure!(parts.len() == 2 && parts.iter().all(is_word), "invalid server '{server}': use backend/server");
        }
        let dir = self.socket.parent().unwrap_or(Path::new(""));
        ensure!(dir.is_dir(), "the directory {} of the socket does not exist", dir.display());
        // HAProxy may start later than the agent.
        let Ok(statistics) = self.send_command("show stat") else { return Ok(()) };
        for server in &self.servers {
            ensure!(parse_sessions(&statistics, server).is_some(), "HAProxy has no server {server}");
        }
        Ok(())
    }

    pub fn apply(&self, request: &ActionRequest) -> Result<()> {
        let (state, wait) = match Direction::of(request.phase)? {
            Direction::Drain => ("drain", self.wait.0),
            Direction::Restore => ("ready", Duration::ZERO),
        };
        for server in &self.servers {
            let response = self.send_command(&format!("set server {server} state {state}"))?;
            if !response.trim().is_empty() {
                bail!("HAProxy cannot set {server} to {state}: {}", response.trim());
            }
        }
        self.wait_for_sessions(request, wait)
    }

    fn wait_for_sessions(&self, request: &ActionRequest, wait: Duration) -> Result<()> {
        loop {
            let statistics = self.send_command("show stat")?;
            let open: u64 = self.servers.iter().filter_map(|server| parse_sessions(&statistics, server)).sum();
            let left = request.remaining(wait.saturating_sub(request.started_at.elapsed()));
            if open == 0 || left.is_zero() {
                if open > 0 && !wait.is_zero() {
                    println!("{open} sessions are still open after {} s", request.started_at.elapsed().as_secs());
                }
                return Ok(());
            }
            sleep(SESSION_CHECK_INTERVAL.min(left));
        }
    }

    fn send_command(&self, command: &str) -> Result<String> {
        let at = || format!("HAProxy's socket {}", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).with_context(at)?;
        stream.set_read_timeout(Some(RESPONSE_TIMEOUT)).with_context(at)?;
        stream.set_write_timeout(Some(RESPONSE_TIMEOUT)).with_context(at)?;
        stream.write_all(format!("{command}\n").as_bytes()).with_context(at)?;
        let mut response = String::new();
        stream.take(RESPONSE_BYTES_MAX).read_to_string(&mut response).with_context(at)?;
        Ok(response)
    }
}

/// Number of open sessions of a server; `None` if there is no such server.
fn parse_sessions(statistics: &str, server: &str) -> Option<u64> {
    let (backend, name) = server.split_once('/')?;
    let mut lines = statistics.lines();
    let column = lines.next()?.trim_start_matches("# ").split(',').position(|field| field == "scur")?;
    let fields = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let mut matching = fields.filter(|fields| fields.first() == Some(&backend) && fields.get(1) == Some(&name));
    matching.next().map(|fields| fields.get(column).and_then(|field| field.parse().ok()).unwrap_or(0))
}
