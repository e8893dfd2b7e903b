//! A webhook receiver for tests: a small HTTP server with scripted responses that records deliveries.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Time limit for a delivery.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Receiver {
    pub address: SocketAddr,
    deliveries: mpsc::Receiver<Delivery>,
    /// Statuses of the next responses; 204 if empty.
    answers: Arc<Mutex<VecDeque<u16>>>,
    /// Locked while responses must wait.
    gate: Arc<Mutex<()>>,
}

pub struct Delivery {
    pub line: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub answered: u16,
}

impl Receiver {
    pub fn start() -> Receiver {
        Receiver::at("127.0.0.1:0".parse().unwrap())
    }

    pub fn at(address: SocketAddr) -> Receiver {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, deliveries) = mpsc::channel();
        let (answers, gate) = (Arc::new(Mutex::new(VecDeque::new())), Arc::new(Mutex::new(())));
        let (to_give, door) = (answers.clone(), gate.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Some(mut delivery) = stream.as_ref().ok().and_then(read) else { continue };
                drop(door.lock());
                delivery.answered = to_give.lock().unwrap().pop_front().unwrap_or(204);
                answer(stream.unwrap(), delivery.answered);
                if sender.send(delivery).is_err() {
                    return;
                }
            }
        });
        Receiver { address, deliveries, answers, gate }
    }

    pub fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub fn answer_next(&self, statuses: &[u16]) {
        self.answers.lock().unwrap().extend(statuses);
    }

    /// Answers all further attempts with this status. Their number depends on the speed of the machine.
    pub fn answer_always(&self, status: u16) {
        self.answer_next(&[status; 10_000]);
    }

    pub fn answer_ok(&self) {
        self.answers.lock().unwrap().clear();
    }

    /// Holds all responses while this guard lives.
    pub fn hold(&self) -> std::sync::MutexGuard<'_, ()> {
        self.gate.lock().unwrap()
    }

    #[track_caller]
    pub fn next(&self) -> Delivery {
        match self.deliveries.recv_timeout(PATIENCE) {
            Ok(delivery) => delivery,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("nothing was delivered"),
        }
    }

    /// Deliveries that the test has not read yet.
    pub fn drain(&self) -> Vec<Delivery> {
        self.deliveries.try_iter().collect()
    }
}

impl Delivery {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    pub fn header(&self, name: &str) -> &str {
        let found = self.headers.iter().find(|(found, _)| found == name);
        found.map_or_else(|| panic!("no header {name}: {:?}", self.headers), |(_, value)| value)
    }

    /// `Reboot Scheduled`.
    pub fn summarize(&self) -> String {
        let json = self.json();
        let properties = &json["data"]["resourceInfo"]["properties"];
        let word = |key: &str| properties[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", word("EventType"), word("EventStatus"))
    }

    /// Verifies the signature as the libraries of the Standard Webhooks specification do.
    #[track_caller]
    pub fn verify(&self, secret: &str) {
        let key = STANDARD.decode(secret.strip_prefix("whsec_").unwrap()).unwrap();
        let mut content = format!("{}.{}.", self.header("webhook-id"), self.header("webhook-timestamp")).into_bytes();
        content.extend_from_slice(&self.body);
        let code = STANDARD.decode(self.header("webhook-signature").strip_prefix("v1,").unwrap()).unwrap();
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &key);
        assert!(ring::hmac::verify(&key, &content, &code).is_ok(), "the signature is wrong");
        assert_eq!(self.json()["id"], self.header("webhook-id"));
    }
}

fn read(stream: &TcpStream) -> Option<Delivery> {
    let mut reader = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    let headers: Vec<_> = lines[1..].iter().filter_map(header).collect();
    let length = headers.iter().find(|(name, _)| name == "content-length")?.1.parse().ok()?;
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Delivery { line: lines[0].clone(), headers, body, answered: 0 })
}

fn answer(mut stream: TcpStream, status: u16) {
    let location = if status / 100 == 3 { "Location: http://127.0.0.1:1/\r\n" } else { "" };
    let _ = write!(stream, "HTTP/1.1 {status} Answer\r\n{location}Content-Length: 0\r\nConnection: close\r\n\r\n");
}
