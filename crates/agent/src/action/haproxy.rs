//! Drains servers of HAProxy through its admin socket: no new sessions, the old ones go on. Waits
//! for these, if asked to.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::Turn;
use super::order::Order;
use crate::config::Span;

/// It answers from memory.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Between two looks at the number of sessions.
const LOOK: Duration = Duration::from_millis(200);

/// The statistics of ten thousand servers.
const ANSWER_BYTES_MAX: u64 = 8 * 1024 * 1024;

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Haproxy {
    #[serde(default = "default_socket")]
    socket: PathBuf,
    /// As `backend/server`.
    servers: Vec<String>,
    /// For sessions to end, at most.
    #[serde(default)]
    wait: Span,
}

fn default_socket() -> PathBuf {
    "/run/haproxy/admin.sock".into()
}

impl Haproxy {
    pub fn check(&self) -> Result<()> {
        ensure!(!self.servers.is_empty(), "it has no servers; give them as [\"backend/server\"]");
        for server in &self.servers {
            let parts: Vec<&str> = server.split('/').collect();
            let is_word =
                |part: &&str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';');
            ensure!(parts.len() == 2 && parts.iter().all(is_word), "'{server}' is not of the form backend/server");
        }
        let dir = self.socket.parent().unwrap_or(Path::new(""));
        ensure!(dir.is_dir(), "the directory {} of its socket is not there", dir.display());
        // HAProxy may start after us.
        let Ok(statistics) = self.ask("show stat") else { return Ok(()) };
        for server in &self.servers {
            ensure!(sessions(&statistics, server).is_some(), "HAProxy has no server {server}");
        }
        Ok(())
    }

    pub fn turn(&self, order: &Order) -> Result<()> {
        let (state, wait) = match Turn::of(order.phase)? {
            Turn::Out => ("drain", self.wait.0),
            Turn::Back => ("ready", Duration::ZERO),
        };
        for server in &self.servers {
            let answer = self.ask(&format!("set server {server} state {state}"))?;
            if !answer.trim().is_empty() {
                bail!("HAProxy does not set {server} to {state}: {}", answer.trim());
            }
        }
        self.wait_for_sessions(order, wait)
    }

    fn wait_for_sessions(&self, order: &Order, wait: Duration) -> Result<()> {
        loop {
            let statistics = self.ask("show stat")?;
            let open: u64 = self.servers.iter().filter_map(|server| sessions(&statistics, server)).sum();
            let left = order.left(wait.saturating_sub(order.begun.elapsed()));
            if open == 0 || left.is_zero() {
                if open > 0 && !wait.is_zero() {
                    println!("{open} sessions are still open after {} s", order.begun.elapsed().as_secs());
                }
                return Ok(());
            }
            sleep(LOOK.min(left));
        }
    }

    fn ask(&self, command: &str) -> Result<String> {
        let at = || format!("HAProxy's socket {}", self.socket.display());
        let mut stream = UnixStream::connect(&self.socket).with_context(at)?;
        stream.set_read_timeout(Some(ANSWER_MAX)).with_context(at)?;
        stream.set_write_timeout(Some(ANSWER_MAX)).with_context(at)?;
        stream.write_all(format!("{command}\n").as_bytes()).with_context(at)?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer).with_context(at)?;
        Ok(answer)
    }
}

/// The open sessions of a server; `None` when there is no such server.
fn sessions(statistics: &str, server: &str) -> Option<u64> {
    let (backend, name) = server.split_once('/')?;
    let mut lines = statistics.lines();
    let place = lines.next()?.trim_start_matches("# ").split(',').position(|field| field == "scur")?;
    let fields = lines.map(|line| line.split(',').collect::<Vec<_>>());
    let mut ours = fields.filter(|fields| fields.first() == Some(&backend) && fields.get(1) == Some(&name));
    ours.next().map(|fields| fields.get(place).and_then(|field| field.parse().ok()).unwrap_or(0))
}
