//! Counts and health on a local port: `GET /metrics` for Prometheus, `GET /healthz` for everybody else.
//!
//! A web server of this size is written here: one thread, one connection at a time, answers of a kilobyte
//! that are made from memory. Whoever is slow is hung up on, and the agent's own work never waits for it.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::log;
use crate::tally::{OUTCOMES, Tally, event_words};

/// A scraper's request has some 300 bytes.
const REQUEST_BYTES_MAX: usize = 4096;

/// The next one waits meanwhile.
const REQUEST_MAX: Duration = Duration::from_secs(2);

/// What the agent last told; read by whoever asks.
#[derive(Debug, Default)]
pub struct Board(Mutex<Shown>);

#[derive(Debug, Default)]
struct Shown {
    tally: Tally,
    answered_at: Option<Instant>,
    /// Since the last answer.
    problem: Option<String>,
}

impl Board {
    pub fn answered(&self) {
        let mut shown = self.lock();
        shown.answered_at = Some(Instant::now());
        shown.problem = None;
    }

    pub fn trouble(&self, problem: &str) {
        self.lock().problem = Some(problem.to_owned());
    }

    pub fn count(&self, tally: &Tally) {
        let mut shown = self.lock();
        if shown.tally != *tally {
            shown.tally = tally.clone();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shown> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Answers from now on. An address that cannot be had is a line in the log: events are more important.
pub fn serve(address: SocketAddr, board: Arc<Board>) {
    match TcpListener::bind(address) {
        Ok(listener) => {
            let bound = listener.local_addr().unwrap_or(address);
            log::line(format!("metrics on http://{bound}/metrics"));
            thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &board)));
        }
        Err(error) => log::line(format!("warning: no metrics, because {address} cannot be had: {error}")),
    }
}

fn answer(mut stream: TcpStream, board: &Board) {
    let Some(line) = request_line(&mut stream) else { return };
    let (status, body) = route(&line, &board.lock());
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    let body = if line.starts_with("HEAD ") { "" } else { &body };
    // Whoever has hung up does not want it any more.
    let _ = stream.write_all(format!("{head}{body}").as_bytes()).and_then(|()| stream.shutdown(Shutdown::Write));
}

/// The first line of a request, once all of its head is there.
fn request_line(stream: &mut TcpStream) -> Option<String> {
    let until = Instant::now() + REQUEST_MAX;
    stream.set_write_timeout(Some(REQUEST_MAX)).ok()?;
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

fn route(line: &str, shown: &Shown) -> (&'static str, String) {
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = target.split('?').next().unwrap_or_default();
    match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", metrics(shown)),
        ("GET" | "HEAD", "/healthz") => health(shown),
        ("GET" | "HEAD", _) => ("404 Not Found", "there are /metrics and /healthz\n".into()),
        _ => ("405 Method Not Allowed", "only GET\n".into()),
    }
}

fn health(shown: &Shown) -> (&'static str, String) {
    match (&shown.problem, shown.answered_at) {
        (None, Some(_)) => ("200 OK", "ok\n".into()),
        (None, None) => ("503 Service Unavailable", "the service has not answered yet\n".into()),
        (Some(problem), _) => ("503 Service Unavailable", format!("the service does not answer: {problem}\n")),
    }
}

fn metrics(shown: &Shown) -> String {
    let tally = &shown.tally;
    let events = event_words().map(|word| (format!("{{type=\"{word}\"}}"), count_of(tally.events.get(word))));
    let steps = OUTCOMES.into_iter().map(|word| (format!("{{outcome=\"{word}\"}}"), count_of(tally.steps.get(word))));
    let approvals = [("taken", tally.approvals), ("failed", tally.approvals_failed)]
        .map(|(word, count)| (format!("{{result=\"{word}\"}}"), count.to_string()));
    let is_up = shown.problem.is_none() && shown.answered_at.is_some();
    let age = shown.answered_at.map(|at| format!("{:.3}", at.elapsed().as_secs_f64()));
    let mut out = String::new();
    let plain = |value: String| (String::new(), value);
    family(&mut out, "events_total", "counter", "Events of this machine that were seen, by type.", events);
    family(&mut out, "steps_total", "counter", "Hooks and actions that ran, by how they ended.", steps);
    family(&mut out, "approvals_total", "counter", "Approvals that were sent, by what the service said.", approvals);
    family(&mut out, "endpoint_up", "gauge", "Whether the service answers.", [plain(u8::from(is_up).to_string())]);
    let help = "Time since the last good answer; up to 30 where the service holds requests.";
    family(&mut out, "last_poll_age_seconds", "gauge", help, age.map(plain));
    out
}

fn count_of(count: Option<&u64>) -> String {
    count.copied().unwrap_or(0).to_string()
}

fn family(out: &mut String, name: &str, kind: &str, help: &str, samples: impl IntoIterator<Item = (String, String)>) {
    let name = format!("forewarn_agent_{name}");
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
    for (labels, value) in samples {
        let _ = writeln!(out, "{name}{labels} {value}");
    }
}
