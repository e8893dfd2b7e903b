//! One server per test: in memory, with a manual clock, on free ports.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use forewarn_core::*;
use forewarn_engine::*;
use forewarn_server::*;
use forewarn_testing::harness;
pub use forewarn_testing::harness::listener;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream, UnixStream};

/// Wed, 01 Jan 2020 00:00:00 GMT
pub const START: Timestamp = Timestamp::from_secs(1_577_836_800);

pub const EVENTS: &str = "/metadata/scheduledevents?api-version=2020-07-01";

/// The subscription and resource group of the first machine.
pub fn home() -> ResourceGroupRef {
    ResourceGroupRef { subscription: "00000000-0000-0000-0000-000000000000".into(), resource_group: "default".into() }
}

pub fn config() -> Config {
    harness::config(ClockSetting::Manual { start: Some(START) })
}

pub struct World {
    pub running: Running,
}

impl World {
    pub async fn new() -> World {
        World::with(config()).await
    }

    pub async fn with(config: Config) -> World {
        World { running: harness::start(config).await }
    }

    pub fn engine(&self) -> &Engine {
        &self.running.engine
    }

    pub fn address(&self, listener: usize) -> SocketAddr {
        harness::metadata_address(&self.running, listener)
    }

    /// Sends a request and compares the response. The first line of `request` is method and path, the next ones are headers,
    /// and the body follows an empty line. `Metadata: true` is sent unless the line `-Metadata` removes it.
    pub async fn check(&self, request: &str, expected: &str) {
        let reply = self.ask(request).await;
        assert_eq!(reply.render(), expected, "{request}");
    }

    /// Like `check`, for answers whose body is a sentence: the status, and words that must be in it.
    pub async fn check_refusal(&self, request: &str, status: u16, words: &[&str]) -> Reply {
        let reply = self.ask(request).await;
        assert_eq!(reply.status, status, "{request}: {}", reply.body);
        assert!(reply.body.starts_with("{ \"error\": \""), "{request}: {}", reply.body);
        for word in words {
            assert!(reply.body.contains(word), "{request}: {word:?} is not in {}", reply.body);
        }
        reply
    }

    pub async fn ask(&self, request: &str) -> Reply {
        exchange(self.connect().await, request).await
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address(0)).await.expect("the listener accepts")
    }

    pub async fn ask_from(&self, ip: Ipv4Addr, listener: usize, request: &str) -> Reply {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((ip, 0).into()).unwrap();
        exchange(socket.connect(self.address(listener)).await.unwrap(), request).await
    }

    pub async fn submit(&self, command: Command) -> SubmitResult {
        self.engine().submit(command, None).await.expect("the command is carried out")
    }

    pub async fn register(&self, name: &str) -> MachineId {
        self.register_with(name, |_| {}).await
    }

    pub async fn register_with(&self, name: &str, change: impl FnOnce(&mut NewMachine)) -> MachineId {
        let mut machine = new_machine(name);
        change(&mut machine);
        match self.submit(Command::RegisterMachine(Box::new(machine))).await.answer {
            Answer::Machine(id) => id,
            other => panic!("not a machine: {other:?}"),
        }
    }

    /// Requests a restart whose event has this ID.
    pub async fn restart(&self, machine: MachineId, event: u128) {
        let request = Request::Restart { machines: vec![machine] };
        self.request(request, event).await;
    }

    pub async fn request(&self, request: Request, event: u128) {
        let operation = Guid(event).derive(1);
        let command = Command::Request { operation, by: "test".into(), request, event: Some(Guid(event)) };
        self.submit(command).await;
    }

    pub async fn advance(&self, secs: u64) {
        let span = std::time::Duration::from_secs(secs);
        self.engine().advance(Advance::By(span)).await.expect("the clock moves");
    }

    /// Approves the event as this machine.
    pub async fn approve(&self, prefix: &str, event: u128) -> Reply {
        let body = format!("{{\"StartRequests\":[{{\"EventId\":\"{}\"}}]}}", Guid(event));
        self.ask(&format!("POST {prefix}{EVENTS}\n\n{body}")).await
    }
}

/// Longer than anything here takes; only a failing test waits for it.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Lets the server's tasks run until the condition holds.
#[track_caller]
pub fn until(reached: impl FnMut() -> bool) -> impl Future<Output = ()> {
    until_at(std::panic::Location::caller(), reached)
}

async fn until_at(caller: &std::panic::Location<'_>, mut reached: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !reached() {
        assert!(begun.elapsed() < PATIENCE, "{caller}: it does not come so far");
        tokio::task::yield_now().await;
    }
}

/// The machine that an empty store starts with.
pub const FIRST: MachineId = MachineId(1);

pub fn new_machine(name: &str) -> NewMachine {
    let vm_id = name.bytes().fold(Guid(7), |id, byte| id.derive(u64::from(byte)));
    NewMachine::plain(vm_id, name, home())
}

#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn render(&self) -> String {
        format!("{} {}", self.status, self.body).trim_end().to_owned()
    }
}

pub async fn exchange(mut stream: impl AsyncRead + AsyncWrite + Unpin, request: &str) -> Reply {
    stream.write_all(&bytes_of(request)).await.unwrap();
    read_reply(&mut stream).await.expect("there is an answer")
}

pub async fn exchange_unix(path: &Path, request: &str) -> Reply {
    exchange(UnixStream::connect(path).await.expect("the socket accepts"), request).await
}

pub fn bytes_of(request: &str) -> Vec<u8> {
    let (head, body) = request.split_once("\n\n").unwrap_or((request, ""));
    let mut lines = head.lines();
    let mut raw = format!("{} HTTP/1.1\r\n", lines.next().unwrap());
    if !head.contains("\nHost: ") {
        raw.push_str("Host: 127.0.0.1\r\n");
    }
    let mut metadata = true;
    for line in lines {
        match line.strip_prefix('-') {
            Some(_) => metadata = false,
            None => raw.push_str(&format!("{line}\r\n")),
        }
    }
    if metadata {
        raw.push_str("Metadata: true\r\n");
    }
    let has_length = raw.to_ascii_lowercase().contains("content-length") || raw.contains("chunked");
    if head.starts_with("POST") && !has_length {
        raw.push_str(&format!("Content-Length: {}\r\n", body.len()));
    }
    format!("{raw}\r\n{body}").into_bytes()
}

/// One response; None if the connection is closed instead.
pub async fn read_reply(stream: &mut (impl AsyncRead + Unpin)) -> Option<Reply> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return None,
        }
    }
    let head = String::from_utf8(head).expect("a head is text");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    let reply = Reply { status, head, body: String::new() };
    let length = reply.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.expect("the body is as long as announced");
    Some(Reply { body: String::from_utf8(body).expect("a body is text"), ..reply })
}

// --- documents -------------------------------------------------------------------------------------------

const RESTART: &str = "Virtual machine is going to be restarted as requested by authorized user.";

pub fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

pub fn scheduled(incarnation: u64, event: u128, name: &str) -> String {
    format!(
        "200 {{\"DocumentIncarnation\":{incarnation},\"Events\":[{{\"EventId\":\"{}\",\"EventStatus\":\"Scheduled\",\
         \"EventType\":\"Reboot\",\"ResourceType\":\"VirtualMachine\",\"Resources\":[\"{name}\"],\
         \"NotBefore\":\"Wed, 01 Jan 2020 00:15:00 GMT\",\"Description\":\"{RESTART}\",\"EventSource\":\"User\",\
         \"DurationInSeconds\":-1}}]}}",
        Guid(event).to_string().to_uppercase()
    )
}

pub fn started(incarnation: u64, event: u128, name: &str) -> String {
    scheduled(incarnation, event, name)
        .replace("\"Scheduled\"", "\"Started\"")
        .replace("Wed, 01 Jan 2020 00:15:00 GMT", "")
}
