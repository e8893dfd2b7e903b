//! A minimal HTTP/1.1 client: one connection, one request at a time, bodies with Content-Length.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// Read timeout.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub struct Client {
    stream: BufReader<TcpStream>,
    host: String,
}

pub struct Reply {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Client {
    pub fn new(address: &str) -> Result<Client> {
        let stream = TcpStream::connect(address).with_context(|| format!("cannot reach {address}"))?;
        Client::over(stream, address)
    }

    /// Uses a connection that exists already.
    pub fn over(stream: TcpStream, address: &str) -> Result<Client> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(SILENCE_MAX))?;
        Ok(Client { stream: BufReader::with_capacity(4096, stream), host: address.to_owned() })
    }

    pub fn get(&mut self, path: &str, headers: &str) -> Result<Reply> {
        self.send("GET", path, headers, "")?;
        self.receive()
    }

    /// Sends JSON and expects success.
    pub fn post(&mut self, path: &str, body: &str) -> Result<Reply> {
        self.send("POST", path, "Metadata: true\r\nContent-Type: application/json\r\n", body)?;
        let reply = self.receive()?;
        ensure!(reply.status < 300, "POST {path}: {} {}", reply.status, reply.body);
        Ok(reply)
    }

    pub fn send(&mut self, method: &str, path: &str, headers: &str, body: &str) -> Result<()> {
        let length = if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let request = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}{length}\r\n{body}", self.host);
        Ok(self.stream.get_mut().write_all(request.as_bytes())?)
    }

    pub fn receive(&mut self) -> Result<Reply> {
        let mut head = String::new();
        loop {
            let before = head.len();
            ensure!(self.stream.read_line(&mut head)? > 0, "the connection was closed");
            if head[before..].trim_end().is_empty() {
                break;
            }
        }
        let status = head.split_whitespace().nth(1).context("no status")?.parse()?;
        let length = header(&head, "content-length").map_or(Ok(0), str::parse::<usize>)?;
        let has_body = status != 304;
        let mut body = vec![0; if has_body { length } else { 0 }];
        self.stream.read_exact(&mut body)?;
        Ok(Reply { status, head, body: String::from_utf8(body)? })
    }
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    let mut pairs = head.lines().filter_map(|line| line.split_once(':'));
    pairs.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
}

/// One value from the metrics of a server.
pub fn metric(management: &str, name: &str) -> Result<f64> {
    let reply = Client::new(management)?.get("/metrics", "")?;
    let line = reply.body.lines().find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    let text = line.and_then(|line| line.split_whitespace().nth(1)).with_context(|| format!("no metric {name}"))?;
    Ok(text.parse()?)
}
