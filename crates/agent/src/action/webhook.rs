//! A POST of `{"phase":…,"event":…}` to a URL, by way of `curl`.
//!
//! `curl`, because most web hooks want TLS, and TLS with its certificates, proxies and updates would be the
//! larger part of this small program. What it is told goes through its standard input: URLs of
//! web hooks are secrets.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::order::Order;
use super::programs;
use crate::config::Span;
use crate::executable;

/// Whoever waits for a web hook does not drain meanwhile.
const TIMEOUT: Span = Span(Duration::from_secs(10));

const AGAIN_FIRST: Duration = Duration::from_millis(500);
const AGAIN_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// For all attempts together.
    #[serde(default = "default_timeout")]
    timeout: Span,
    #[serde(default = "default_curl")]
    curl: String,
}

fn default_timeout() -> Span {
    TIMEOUT
}

fn default_curl() -> String {
    "curl".into()
}

/// How an attempt ended.
enum Attempt {
    Taken,
    /// It may be better in a moment.
    Again(String),
    Refused(String),
}

impl Webhook {
    pub fn check(&self) -> Result<()> {
        let is_web = self.url.starts_with("http://") || self.url.starts_with("https://");
        ensure!(is_web, "its url must begin with http:// or https://");
        let texts = self.headers.iter().flat_map(|(name, value)| [name, value]).chain([&self.url]);
        for text in texts {
            ensure!(!text.contains(char::is_control), "its url and headers must be without control characters");
        }
        executable::find(&self.curl).map(drop)
    }

    pub fn post(&self, order: &Order, event: &str) -> Result<()> {
        let body = format!(r#"{{"phase":"{}","event":{event}}}"#, order.phase);
        let mut pause = AGAIN_FIRST;
        loop {
            let left = order.left(self.timeout.0.saturating_sub(order.begun.elapsed()));
            let problem = match self.attempt(&body, left.max(AGAIN_FIRST))? {
                Attempt::Taken => return Ok(()),
                Attempt::Again(problem) => problem,
                Attempt::Refused(problem) => bail!(problem),
            };
            if left <= pause {
                bail!("{problem}; tried for {} s", order.begun.elapsed().as_secs());
            }
            sleep(pause);
            pause = (pause * 2).min(AGAIN_MAX);
        }
    }

    fn attempt(&self, body: &str, time: Duration) -> Result<Attempt> {
        let mut command = programs::command(std::slice::from_ref(&self.curl))?;
        let curl = command.args(ARGUMENTS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = curl.spawn().context("curl cannot be run")?;
        let mut stdin = child.stdin.take().context("curl takes no settings")?;
        stdin.write_all(self.settings(body, time).as_bytes()).context("curl takes no settings")?;
        drop(stdin);
        let output = child.wait_with_output().context("curl")?;
        let code = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            return Ok(Attempt::Again(said.trim().to_owned()));
        }
        Ok(match code.parse().unwrap_or(0) {
            200..=299 => Attempt::Taken,
            408 | 425 | 429 | 500..=599 => Attempt::Again(format!("the web hook answered {code}")),
            _ => Attempt::Refused(format!("the web hook answered {code}")),
        })
    }

    fn settings(&self, body: &str, time: Duration) -> String {
        let mut lines = vec![("url", self.url.clone()), ("header", "Content-Type: application/json".into())];
        lines.extend(self.headers.iter().map(|(name, value)| ("header", format!("{name}: {value}"))));
        lines.push(("max-time", format!("{:.1}", time.as_secs_f32())));
        lines.push(("data-raw", body.to_owned()));
        lines.iter().map(|(key, value)| format!("{key} = \"{}\"\n", quoted(value))).collect()
    }
}

const ARGUMENTS: [&str; 11] = [
    // Must be the first: no settings of whoever runs us.
    "--disable",
    "--silent",
    "--show-error",
    "--proto",
    "=http,https",
    "--output",
    "/dev/null",
    "--write-out",
    "%{http_code}",
    "--config",
    "-",
];

fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
