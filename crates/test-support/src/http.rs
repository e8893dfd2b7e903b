//! A minimal HTTP/1.1 client: one request per connection, for servers that may be killed at any time.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub struct HttpAnswer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

/// Returns None if the server is gone or did not send a whole answer in time.
pub fn request(address: SocketAddr, timeout: Duration, method: &str, path: &str, body: &str) -> Option<HttpAnswer> {
    request_with(address, timeout, method, path, "Content-Type: application/json", body)
}

/// The same with these header lines.
pub fn request_with(
    address: SocketAddr,
    timeout: Duration,
    method: &str,
    path: &str,
    headers: &str,
    body: &str,
) -> Option<HttpAnswer> {
    let mut stream = TcpStream::connect_timeout(&address, timeout).ok()?;
    stream.set_read_timeout(Some(timeout)).ok()?;
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nMetadata: true\r\n{headers}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(body.as_bytes()).ok()?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    parse(&String::from_utf8(answer).ok()?)
}

fn parse(answer: &str) -> Option<HttpAnswer> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let length =
        head.lines().find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let whole: usize = length.unwrap_or(0);
    (body.len() == whole).then(|| HttpAnswer { status, head: head.to_owned(), body: body.to_owned() })
}
