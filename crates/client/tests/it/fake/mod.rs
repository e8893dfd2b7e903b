//! A scripted service, and a clock that advances only when a client sleeps.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forewarn_client::{Clock, Endpoint};

/// Closes the connection without a response.
pub const HANG_UP: &str = "";

/// At the end of a response: closes the connection there.
pub const CUT: char = '✂';

pub struct Service {
    pub endpoint: Endpoint,
    thread: JoinHandle<Vec<String>>,
}

impl Service {
    /// Starts a service that sends these responses, one per request, and then stops listening.
    pub fn new(responses: &[&str]) -> Service {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let endpoint = listener.local_addr().unwrap().into();
        let responses: Vec<String> = responses.iter().map(|response| response.to_string()).collect();
        Service { endpoint, thread: std::thread::spawn(move || serve(&listener, &responses)) }
    }

    /// Returns the requests, each as request line, ETag and body, with `*` before those on a new connection. Every
    /// response must have been used.
    pub fn requests(self) -> Vec<String> {
        self.thread.join().unwrap()
    }
}

fn serve(listener: &TcpListener, responses: &[String]) -> Vec<String> {
    let mut requests = Vec::new();
    while requests.len() < responses.len() {
        let (mut stream, _) = listener.accept().unwrap();
        let mut is_new = "*";
        while let Some(request) = responses.get(requests.len()).and_then(|_| read_request(&mut stream)) {
            let response = &responses[requests.len()];
            requests.push(format!("{is_new}{request}"));
            is_new = "";
            stream.write_all(response.trim_end_matches(CUT).as_bytes()).unwrap();
            if response == HANG_UP || response.ends_with(CUT) {
                break;
            }
        }
    }
    requests
}

fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains("\r\nMetadata: true\r\n"), "{head}");
    let header = |name: &str| head.lines().find_map(|line| line.strip_prefix(name));
    let mut body = vec![0; header("Content-Length: ").map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).unwrap();
    let line = head.lines().next().unwrap().trim_end_matches(" HTTP/1.1");
    let line = line.replace("/metadata/scheduledevents?api-version=", "");
    let etag = header("If-None-Match: ").map(|etag| format!(" [{etag}]")).unwrap_or_default();
    Some(format!("{line}{etag} {}", String::from_utf8(body).unwrap()).trim_end().to_owned())
}

pub fn response(status: u16, headers: &str, body: &str) -> String {
    let headers: String =
        headers.split(", ").filter(|header| !header.is_empty()).map(|header| format!("{header}\r\n")).collect();
    format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Response with a document that has one event (`a Scheduled`) or none.
pub fn document(incarnation: u64, event: &str) -> String {
    let events = match event.split_once(' ') {
        Some((id, status)) => format!(
            r#"{{"EventId":"{id}","EventStatus":"{status}","EventType":"Reboot","Resources":["web"],"NotBefore":""}}"#
        ),
        None => String::new(),
    };
    let body = format!(r#"{{"DocumentIncarnation":{incarnation},"Events":[{events}]}}"#);
    response(200, &format!("ETag: {incarnation}"), &body)
}

/// Clock that advances only when a client sleeps.
#[derive(Debug, Default)]
pub struct FakeClock {
    slept: Mutex<Vec<Duration>>,
}

impl FakeClock {
    pub fn slept(&self) -> Vec<Duration> {
        self.slept.lock().unwrap().clone()
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Duration {
        self.slept().iter().sum()
    }

    fn wall_time(&self) -> SystemTime {
        UNIX_EPOCH + self.now()
    }

    fn sleep(&self, time: Duration) {
        self.slept.lock().unwrap().push(time);
    }
}
