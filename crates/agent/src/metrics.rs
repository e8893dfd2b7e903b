//! Metrics and health on a local port: `GET /metrics` for Prometheus, `GET /healthz` for other monitoring.
//!
//! A minimal web server: one thread, one connection at a time, small responses from memory. Slow clients are
//! disconnected, and the agent never waits for this server.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::counters::{Counters, OUTCOME_LABELS, event_type_labels};
use crate::log;

/// A scraper's request has about 300 bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// Time limit for a request. The next client waits in the meantime.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Latest values, shared between the agent and the web server.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Snapshot>);

#[derive(Debug, Default)]
struct Snapshot {
    counters: Counters,
    responded_at: Option<Instant>,
    /// Problem since the last response of the service.
    problem: Option<String>,
}

impl Metrics {
    pub fn record_response(&self) {
        let mut snapshot = self.lock();
        snapshot.responded_at = Some(Instant::now());
        snapshot.problem = None;
    }

    pub fn record_failure(&self, problem: &str) {
        self.lock().problem = Some(problem.to_owned());
    }

    pub fn set_counters(&self, counters: &Counters) {
        let mut snapshot = self.lock();
        if snapshot.counters != *counters {
            snapshot.counters = counters.clone();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Snapshot> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the web server. An address that is in use is only logged, because handling events is more important.
pub fn serve(address: SocketAddr, metrics: Arc<Metrics>) {
    match TcpListener::bind(address) {
        Ok(listener) => {
            let bound = listener.local_addr().unwrap_or(address);
            log::write_line(format!("metrics on http://{bound}/metrics"));
            thread::spawn(move || listener.incoming().flatten().for_each(|stream| handle_connection(stream, &metrics)));
        }
        Err(error) => log::write_line(format!("warning: metrics disabled: cannot listen on {address}: {error}")),
    }
}

fn handle_connection(mut stream: TcpStream, metrics: &Metrics) {
    let Some(line) = read_request_line(&mut stream) else { return };
    let (status, body) = route(&line, &metrics.lock());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if line.starts_with("HEAD ") { "" } else { &body };
    // An error means that the client has disconnected.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
}

/// Reads the headers of a request and returns the request line.
fn read_request_line(stream: &mut TcpStream) -> Option<String> {
    let until = Instant::now() + REQUEST_TIMEOUT;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT)).ok()?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || head.len() > REQUEST_BYTES_MAX {
            return None;
        }
        stream.set_read_timeout(Some(left)).ok()?;
        match stream.read(&mut buffer) {
            Ok(count @ 1..) => head.extend_from_slice(&buffer[..count]),
            Ok(0) | Err(_) => return None,
        }
    }
    Some(String::from_utf8_lossy(&head).lines().next()?.to_owned())
}

fn route(line: &str, snapshot: &Snapshot) -> (&'static str, String) {
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", render_metrics(snapshot)),
        ("GET" | "HEAD", "/healthz") => render_health(snapshot),
        ("GET" | "HEAD", _) => ("404 Not Found", "not found; use /metrics or /healthz\n".into()),
        _ => ("405 Method Not Allowed", "use GET\n".into()),
    }
}

fn render_health(snapshot: &Snapshot) -> (&'static str, String) {
    match (&snapshot.problem, snapshot.responded_at) {
        (None, Some(_)) => ("200 OK", "ok\n".into()),
        (None, None) => ("503 Service Unavailable", "the service has not responded yet\n".into()),
        (Some(problem), _) => ("503 Service Unavailable", format!("the service does not respond: {problem}\n")),
    }
}

fn render_metrics(snapshot: &Snapshot) -> String {
    let counters = &snapshot.counters;
    let events =
        event_type_labels().map(|word| (format!("{{type=\"{word}\"}}"), render_count(counters.events.get(word))));
    let steps = OUTCOME_LABELS
        .into_iter()
        .map(|word| (format!("{{outcome=\"{word}\"}}"), render_count(counters.steps.get(word))));
    let approvals = [("taken", counters.approvals), ("failed", counters.approvals_failed)]
        .map(|(word, count)| (format!("{{result=\"{word}\"}}"), count.to_string()));
    let is_up = snapshot.problem.is_none() && snapshot.responded_at.is_some();
    let age = snapshot.responded_at.map(|at| format!("{:.3}", at.elapsed().as_secs_f64()));
    let mut out = String::new();
    let plain = |value: String| (String::new(), value);
    write_family(&mut out, "events_total", "counter", "Events that affect this machine, by type.", events);
    write_family(&mut out, "steps_total", "counter", "Hooks and actions that ran, by outcome.", steps);
    write_family(&mut out, "approvals_total", "counter", "Approvals sent, by result.", approvals);
    write_family(
        &mut out,
        "endpoint_up",
        "gauge",
        "Whether the service responds.",
        [plain(u8::from(is_up).to_string())],
    );
    let help = "Time since the last successful response; up to 30 with long polling.";
    write_family(&mut out, "last_poll_age_seconds", "gauge", help, age.map(plain));
    out
}

fn render_count(count: Option<&u64>) -> String {
    count.copied().unwrap_or(0).to_string()
}

fn write_family(
    out: &mut String,
    name: &str,
    kind: &str,
    help: &str,
    samples: impl IntoIterator<Item = (String, String)>,
) {
    let name = format!("forewarn_agent_{name}");
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}
