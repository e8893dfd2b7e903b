//! A real `forewarn serve` on a data directory, and requests to it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::http::{self, Answer};

/// Number of standalone machines `m0`…, and of machines in an availability set.
pub const MACHINES: u64 = 6;

/// Longest time until a server has started.
const START_PATIENCE: Duration = Duration::from_secs(30);

pub struct Server {
    child: Mutex<Child>,
    pub metadata: SocketAddr,
    pub management: SocketAddr,
}

impl Server {
    /// With one second of notice and instant impacts.
    pub fn start(data: &Path) -> Server {
        Server::start_with(data, &[])
    }

    /// Tries again while the directory is locked: a driver command that was being started when its server was killed has a
    /// copy of the lock until it is executed.
    pub fn start_with(data: &Path, flags: &[String]) -> Server {
        let begun = Instant::now();
        loop {
            if let Some(server) = Server::try_start(data, flags) {
                return server;
            }
            assert!(begun.elapsed() < START_PATIENCE, "forewarn did not say where it listens");
        }
    }

    fn try_start(data: &Path, flags: &[String]) -> Option<Server> {
        let mut child = Command::new(env!("CARGO_BIN_EXE_forewarn"))
            .args(["serve", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0", "--no-auth"])
            .args(["--notice-scale", "900", "--impact-freeze", "0s", "--log-level", "warn", "--data"])
            .arg(data)
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .expect("forewarn starts");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let mut address = |what: &str| -> Option<SocketAddr> {
            let line = lines.find(|line| line.as_ref().is_ok_and(|line| line.starts_with(what)));
            let line = line.and_then(Result::ok)?;
            let at = line.find("http://").expect("an address") + "http://".len();
            Some(line[at..].split(['/', ' ']).next().expect("an address").parse().expect("an address"))
        };
        let Some((metadata, management)) = address("metadata").zip(address("management")) else {
            let _ = child.kill();
            child.wait().expect("it is gone");
            return None;
        };
        std::thread::spawn(move || lines.for_each(drop));
        Some(Server { child: Mutex::new(child), metadata, management })
    }

    pub fn register_fleet(&self) {
        self.manage("POST", "/availability-sets", &json!({ "name": "set" })).expect("an answer");
        for number in 0..MACHINES {
            for body in [
                json!({ "name": format!("m{number}") }),
                json!({ "name": format!("s{number}"), "availabilitySet": "set" }),
            ] {
                let answer = self.manage("POST", "/machines", &body).expect("an answer");
                assert_eq!(answer.status, 201, "{}", answer.body);
            }
        }
    }

    /// Sends SIGKILL without a shutdown.
    pub fn kill(&self) {
        let mut child = self.child.lock().expect("no thread has panicked");
        child.kill().expect("it runs");
        child.wait().expect("it is gone");
    }

    pub fn manage(&self, method: &str, path: &str, body: &Value) -> Option<Answer> {
        http::request(self.management, method, &format!("/api/v1{path}"), &body.to_string())
    }

    pub fn read(&self, path: &str) -> Value {
        let answer = http::request(self.management, "GET", &format!("/api/v1{path}"), "").expect("an answer");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).expect("JSON")
    }

    pub fn document(&self, machine: &str) -> Option<Answer> {
        http::request(
            self.metadata,
            "GET",
            &format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"),
            "",
        )
    }

    pub fn approve(&self, machine: &str, event: &str) -> Option<Answer> {
        let body = json!({ "StartRequests": [{ "EventId": event }] }).to_string();
        http::request(
            self.metadata,
            "POST",
            &format!("/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01"),
            &body,
        )
    }

    /// Waits until every event has finished.
    pub fn wait_until_all_finished(&self, patience: Duration) {
        let begun = Instant::now();
        while self.read("/events")["value"].as_array().is_some_and(|events| !events.is_empty()) {
            assert!(begun.elapsed() < patience, "events do not end: {}", self.read("/events"));
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Ok(mut child) = self.child.lock() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
