//! Support for tests of the API: a server, a client that sends requests byte for byte, and `check`, which sends a request and
//! compares the response.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Mutex;

use forewarn_core::Timestamp;
use forewarn_server::{Auth, ClockSetting, Config, ManagementTls, StoreChoice};
use forewarn_testing::harness::{self, TestServer};
use serde_json::{Value, json};

/// Start of the manual clock.
pub const START: &str = "2026-03-01T12:00:00Z";
const START_SECS: i64 = 1_772_366_400;

pub struct Server {
    pub management: SocketAddr,
    pub metadata: SocketAddr,
    /// The https listener, if there is one.
    pub https: Option<SocketAddr>,
    token: Option<String>,
    server: Mutex<TestServer>,
}

impl Server {
    pub fn start() -> Server {
        Server::new(Config { clock: ClockSetting::Manual { start: Some(Timestamp::from_secs(START_SECS)) }, ..open() })
    }

    /// A server that serves the api-version that Azure has not released.
    pub fn with_preview_version() -> Server {
        let clock = ClockSetting::Manual { start: Some(Timestamp::from_secs(START_SECS)) };
        Server::new(Config { clock, preview_version: true, ..open() })
    }

    pub fn on_the_real_clock() -> Server {
        Server::new(open())
    }

    /// A server with its data in this directory, without authentication, on a manual clock.
    pub fn kept_in(directory: &Path) -> Server {
        let clock = ClockSetting::Manual { start: Some(Timestamp::from_secs(START_SECS)) };
        Server::new(Config { store: StoreChoice::Directory(directory.to_owned()), clock, ..open() })
    }

    /// A server that requires the token in this directory.
    pub fn guarded(directory: &Path) -> Server {
        let config = Config { store: StoreChoice::Directory(directory.to_owned()), auth: Auth::Token, ..open() };
        let server = Server::new(config);
        Server { token: Some(token_in(directory)), ..server }
    }

    /// The same on a given port.
    pub fn guarded_at(directory: &Path, port: u16) -> Server {
        let management = SocketAddr::from(([127, 0, 0, 1], port));
        let store = StoreChoice::Directory(directory.to_owned());
        let server = Server::new(Config { store, auth: Auth::Token, management, ..open() });
        Server { token: Some(token_in(directory)), ..server }
    }

    pub fn with_machines(names: &[&str]) -> Server {
        let server = Server::start();
        for name in names {
            assert_eq!(server.call("POST /machines", &json!({ "name": name })).status, 201);
        }
        server
    }

    /// A server that requires a token and also has an https listener.
    pub fn secured(directory: &Path) -> Server {
        Server::secured_with(directory, open())
    }

    /// The same with another configuration.
    pub fn secured_with(directory: &Path, config: Config) -> Server {
        let server = Server::new(Config {
            store: StoreChoice::Directory(directory.to_owned()),
            auth: Auth::Token,
            management_tls: ManagementTls::At("127.0.0.1:0".parse().unwrap()),
            ..config
        });
        Server { token: Some(token_in(directory)), ..server }
    }

    pub fn new(config: Config) -> Server {
        let server = TestServer::start(config);
        let (management, https) = (server.running().management, server.running().management_tls);
        let metadata = harness::metadata_address(server.running(), 0);
        Server { management, metadata, https, token: None, server: Mutex::new(server) }
    }

    pub fn client(&self) -> Client {
        let client = Client::to(self.management);
        match &self.token {
            Some(token) => client.header("Authorization", &format!("Bearer {token}")),
            None => client,
        }
    }

    /// Null sends no body.
    pub fn call(&self, line: &str, body: &Value) -> Answer {
        match body {
            Value::Null => self.send(line, ""),
            body => self.send(line, &body.to_string()),
        }
    }

    pub fn send(&self, line: &str, body: &str) -> Answer {
        let (method, path) = line.split_once(' ').unwrap();
        let client = self.client().header("Content-Type", "application/json; charset=utf-8");
        client.send(self.management, &format!("{method} /api/v1{path}"), body.as_bytes())
    }

    /// A request to the metadata endpoint.
    pub fn metadata(&self, line: &str, body: &str) -> Answer {
        Client::to(self.metadata).header("Metadata", "true").send(self.metadata, line, body.as_bytes())
    }

    /// The machine requests its document, which activates its event group.
    pub fn listen_as(&self, machine: &str) {
        self.document(machine);
    }

    /// The document that a machine sees.
    pub fn document(&self, machine: &str) -> Value {
        let line = format!("GET /vm/{machine}/metadata/scheduledevents?api-version=2020-07-01");
        let answer = self.metadata(&line, "");
        assert_eq!(answer.status, 200, "{machine}: {}", answer.text());
        answer.json()
    }

    /// A part of the instance metadata that a machine sees.
    pub fn instance(&self, machine: &str, path: &str) -> Value {
        let answer = self.metadata(&format!("GET /vm/{machine}/metadata/instance{path}?api-version=2021-02-01"), "");
        assert_eq!(answer.status, 200, "{machine}: {}", answer.text());
        answer.json()
    }

    /// The machine approves this event.
    pub fn approve_as(&self, machine: &str, event: &str) {
        let line = format!("POST /vm/{machine}/metadata/scheduledevents?api-version=2020-07-01");
        let body = json!({ "StartRequests": [{ "EventId": event }] }).to_string();
        let answer = Client::to(self.metadata).header("Metadata", "true").send(self.metadata, &line, body.as_bytes());
        assert_eq!(answer.status, 200, "{machine}: {}", answer.text());
    }

    pub fn changes(&self, after: Option<u64>) -> Changes {
        let mut client = self.client();
        if let Some(after) = after {
            client = client.header("Last-Event-ID", &after.to_string());
        }
        let mut reader = BufReader::new(client.open(self.management, "GET /api/v1/changes", b""));
        let (status, _) = read_head(&mut reader);
        assert_eq!(status, 200);
        let mut changes = Changes { body: BufReader::new(Chunks { inner: reader, left: 0 }) };
        // After the first comment, no change is missed.
        assert!(changes.line().unwrap().starts_with(':'));
        changes
    }

    pub fn until_a_request_waits(&self) {
        let metrics = self.server.lock().unwrap().running().metrics.clone();
        while metrics.waiting.get() == 0 {
            std::thread::yield_now();
        }
    }

    /// The number of the newest commit.
    pub fn revision(&self) -> u64 {
        self.server.lock().unwrap().running().engine.snapshot().revision
    }

    pub fn stop(&self) {
        self.server.lock().unwrap().stop();
    }
}

pub fn token_in(directory: &Path) -> String {
    std::fs::read_to_string(directory.join(forewarn_access::TOKEN_FILE)).unwrap_or_default().trim().to_owned()
}

/// In memory, on free ports, without authentication.
pub fn open() -> Config {
    harness::config(ClockSetting::Real)
}

/// Sends `line` (method and path under `/api/v1`) with `body` and expects `status` and an answer that
/// has at least what `expected` has. Returns the whole answer.
#[track_caller]
pub fn check(server: &Server, line: &str, body: Value, status: u16, expected: Value) -> Value {
    let answer = server.call(line, &body);
    assert_eq!(answer.status, status, "{line} {body}: {}", answer.text());
    let found = answer.json();
    if let Err(difference) = contains(&found, &expected) {
        panic!("{line} {body}: {difference}\n{found:#}");
    }
    found
}

/// The same for a refusal, whose message must be a sentence.
#[track_caller]
pub fn refused(server: &Server, line: &str, body: Value, status: u16, code: &str) -> String {
    let answer = check(server, line, body, status, json!({ "error": { "code": code } }));
    let message = answer["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.ends_with('.') && message.len() > 15, "not a sentence: {message}");
    message
}

/// No body.
pub const NONE: Value = Value::Null;

#[derive(Clone)]
pub struct Client {
    headers: Vec<(String, String)>,
}

impl Client {
    pub fn to(address: SocketAddr) -> Client {
        Client::with_host(&address.to_string())
    }

    pub fn with_host(host: &str) -> Client {
        Client { headers: vec![("Host".into(), host.into())] }
    }

    pub fn header(mut self, name: &str, value: &str) -> Client {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub fn send(&self, address: SocketAddr, line: &str, body: &[u8]) -> Answer {
        self.send_over(TcpStream::connect(address).unwrap(), line, body)
    }

    /// The same over an existing connection.
    pub fn send_over(&self, mut stream: impl Read + Write, line: &str, body: &[u8]) -> Answer {
        self.write(&mut stream, line, body);
        let mut reader = BufReader::new(stream);
        let (status, headers) = read_head(&mut reader);
        let mut body = Vec::new();
        // A server that refuses a body may close before it has read all of it.
        let _ = reader.read_to_end(&mut body);
        Answer { status, headers, body }
    }

    fn open(&self, address: SocketAddr, line: &str, body: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(address).unwrap();
        self.write(&mut stream, line, body);
        stream
    }

    /// A request without a body, as it is sent.
    pub fn head(&self, line: &str) -> String {
        self.head_of(line, 0)
    }

    fn head_of(&self, line: &str, length: usize) -> String {
        let mut head = format!("{line} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n");
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head + "\r\n"
    }

    fn write(&self, stream: &mut impl Write, line: &str, body: &[u8]) {
        stream.write_all(self.head_of(line, body.len()).as_bytes()).unwrap();
        let _ = stream.write_all(body);
        let _ = stream.flush();
    }
}

pub struct Answer {
    pub status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {}", self.text()))
    }

    pub fn code(&self) -> String {
        self.json()["error"]["code"].as_str().unwrap_or_default().to_owned()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }
}

fn read_head(reader: &mut impl BufRead) -> (u16, Vec<(String, String)>) {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let header = |line: &String| line.split_once(": ").map(|(name, value)| (name.to_lowercase(), value.to_owned()));
    (status, lines[1..].iter().filter_map(header).collect())
}

/// One message of the stream.
pub struct Message {
    pub id: u64,
    pub kind: String,
    pub data: Value,
}

pub struct Changes {
    body: BufReader<Chunks>,
}

impl Changes {
    pub fn next(&mut self) -> Message {
        let mut message = Message { id: 0, kind: String::new(), data: Value::Null };
        loop {
            let line = self.line().expect("the stream goes on");
            match line.split_once(": ") {
                Some(("id", id)) => message.id = id.parse().unwrap(),
                Some(("event", kind)) => message.kind = kind.to_owned(),
                Some(("data", data)) => message.data = serde_json::from_str(data).unwrap(),
                _ if line.is_empty() && message.id > 0 => return message,
                _ => {}
            }
        }
    }

    pub fn ended(mut self) -> bool {
        while let Some(line) = self.line() {
            assert!(line.is_empty(), "{line}");
        }
        true
    }

    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        match self.body.read_line(&mut line) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(line.trim_end().to_owned()),
        }
    }
}

/// A chunked body.
struct Chunks {
    inner: BufReader<TcpStream>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut size = String::new();
            while size.trim().is_empty() {
                size.clear();
                if self.inner.read_line(&mut size)? == 0 {
                    return Ok(0);
                }
            }
            self.left = usize::from_str_radix(size.trim(), 16).unwrap();
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = into.len().min(self.left);
        let read = self.inner.read(&mut into[..most])?;
        self.left -= read;
        Ok(read)
    }
}

/// Whether `found` has everything that `expected` has: keys of objects may be more, arrays are as long.
pub fn contains(found: &Value, expected: &Value) -> Result<(), String> {
    match (found, expected) {
        (Value::Object(found), Value::Object(expected)) => {
            expected.iter().try_for_each(|(key, expected)| match found.get(key) {
                Some(found) => contains(found, expected).map_err(|difference| format!("{key}.{difference}")),
                None => Err(format!("{key} is missing")),
            })
        }
        (Value::Array(found), Value::Array(expected)) if found.len() == expected.len() => {
            found.iter().zip(expected).try_for_each(|(found, expected)| contains(found, expected))
        }
        (found, expected) if found == expected => Ok(()),
        (found, expected) => Err(format!(" is {found}, not {expected}")),
    }
}
