//! Posts `{"phase":…,"event":…}` to a URL with `curl`.
//!
//! Most webhooks need TLS, and a TLS stack with certificates and proxies would be the larger part of this small
//! program. `curl` gets its configuration on standard input, because webhook URLs are secrets.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::programs;
use super::request::ActionRequest;
use crate::executable;
use crate::values::Span;

/// Short, because the machine is not drained while the agent waits for a webhook.
const TIMEOUT: Span = Span(Duration::from_secs(10));

const RETRY_DELAY_FIRST: Duration = Duration::from_millis(500);
const RETRY_DELAY_MAX: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Webhook {
    url: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    /// Time limit for all attempts together.
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

/// Result of an attempt.
enum Attempt {
    Delivered,
    /// Failed, but may succeed later.
    Retry(String),
    Refused(String),
}

impl Webhook {
    pub fn check(&self) -> Result<()> {
        let is_web = self.url.starts_with("http://") || self.url.starts_with("https://");
        ensure!(is_web, "url must start with http:// or https://");
        let texts = self.headers.iter().flat_map(|(name, value)| [name, value]).chain([&self.url]);
        for text in texts {
            ensure!(!text.contains(char::is_control), "url and headers must not contain control characters");
        }
        executable::find(&self.curl).map(drop)
    }

    pub fn post(&self, request: &ActionRequest, event: &str) -> Result<()> {
        let body = format!(r#"{{"phase":"{}","event":{event}}}"#, request.phase);
        let mut delay = RETRY_DELAY_FIRST;
        loop {
            let left = request.remaining(self.timeout.0.saturating_sub(request.started_at.elapsed()));
            let problem = match self.attempt(&body, left.max(RETRY_DELAY_FIRST))? {
                Attempt::Delivered => return Ok(()),
                Attempt::Retry(problem) => problem,
                Attempt::Refused(problem) => bail!(problem),
            };
            if left <= delay {
                bail!("{problem}; gave up after {} s", request.started_at.elapsed().as_secs());
            }
            sleep(delay);
            delay = (delay * 2).min(RETRY_DELAY_MAX);
        }
    }

    fn attempt(&self, body: &str, time: Duration) -> Result<Attempt> {
        let mut command = programs::build_command(std::slice::from_ref(&self.curl))?;
        let curl = command.args(ARGUMENTS).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = curl.spawn().context("cannot run curl")?;
        let mut stdin = child.stdin.take().context("cannot write to curl")?;
        stdin.write_all(self.curl_config(body, time).as_bytes()).context("cannot write to curl")?;
        drop(stdin);
        let output = child.wait_with_output().context("cannot read the output of curl")?;
        let code = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if !output.status.success() {
            let message = String::from_utf8_lossy(&output.stderr);
            return Ok(Attempt::Retry(message.trim().to_owned()));
        }
        Ok(match code.parse().unwrap_or(0) {
            200..=299 => Attempt::Delivered,
            408 | 425 | 429 | 500..=599 => Attempt::Retry(format!("the webhook returned {code}")),
            _ => Attempt::Refused(format!("the webhook returned {code}")),
        })
    }

    fn curl_config(&self, body: &str, time: Duration) -> String {
        let mut lines = vec![("url", self.url.clone()), ("header", "Content-Type: application/json".into())];
        lines.extend(self.headers.iter().map(|(name, value)| ("header", format!("{name}: {value}"))));
        lines.push(("max-time", format!("{:.1}", time.as_secs_f32())));
        lines.push(("data-raw", body.to_owned()));
        lines.iter().map(|(key, value)| format!("{key} = \"{}\"\n", escape(value))).collect()
    }
}

const ARGUMENTS: [&str; 11] = [
    // Ignores ~/.curlrc. Must be the first argument.
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

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
}
