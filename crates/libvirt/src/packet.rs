//! Messages on the wire: a length, a header of six words, and a payload.

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::xdr::{Decoder, Encoder, XdrResult};

/// The largest message, its length included. libvirt 11 sends up to 32 MiB.
pub const MESSAGE_BYTES_MAX: usize = 32 * 1024 * 1024 + LENGTH_BYTES;

const LENGTH_BYTES: usize = 4;
const HEADER_BYTES: usize = 24;

/// The program of all calls and events.
pub const REMOTE: u32 = 0x2000_8086;

/// The program of keepalive messages.
pub const KEEPALIVE: u32 = 0x6b65_6570;

const VERSION: u32 = 1;

pub const PING: i32 = 1;
pub const PONG: i32 = 2;

/// Direction and purpose of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    Call,
    Reply,
    /// An event or a keepalive message.
    Notice,
    /// Stream data and messages with file descriptors, which this client never asks for.
    Other(i32),
}

impl MessageKind {
    fn from_wire(word: i32) -> MessageKind {
        match word {
            0 => MessageKind::Call,
            1 => MessageKind::Reply,
            2 => MessageKind::Notice,
            other => MessageKind::Other(other),
        }
    }

    fn to_wire(self) -> i32 {
        match self {
            MessageKind::Call => 0,
            MessageKind::Reply => 1,
            MessageKind::Notice => 2,
            MessageKind::Other(word) => word,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub program: u32,
    pub procedure: i32,
    pub kind: MessageKind,
    pub serial: u32,
    /// Only set in replies.
    pub is_error: bool,
}

/// A received message.
#[derive(Debug, PartialEq, Eq)]
pub struct Message {
    pub header: Header,
    bytes: Vec<u8>,
}

impl Message {
    pub fn payload(&self) -> &[u8] {
        &self.bytes[HEADER_BYTES..]
    }

    /// Removes the header from the received bytes.
    pub fn into_payload(mut self) -> Vec<u8> {
        self.bytes.drain(..HEADER_BYTES);
        self.bytes
    }
}

/// The bytes of a message to send.
pub fn encode(header: Header, payload: &[u8]) -> Vec<u8> {
    let length = LENGTH_BYTES + HEADER_BYTES + payload.len();
    let encoder = Encoder::new().u32(u32::try_from(length).unwrap_or(u32::MAX)).u32(header.program).u32(VERSION);
    let encoder = encoder.i32(header.procedure).i32(header.kind.to_wire()).u32(header.serial);
    encoder.i32(header.is_error.into()).fixed(payload).finish()
}

/// A call; None if it is larger than a message can be.
pub fn encode_call(procedure: i32, serial: u32, payload: &[u8]) -> Option<Vec<u8>> {
    let header = Header { program: REMOTE, procedure, kind: MessageKind::Call, serial, is_error: false };
    (LENGTH_BYTES + HEADER_BYTES + payload.len() <= MESSAGE_BYTES_MAX).then(|| encode(header, payload))
}

/// A keepalive message.
pub fn encode_keepalive(procedure: i32) -> Vec<u8> {
    encode(Header { program: KEEPALIVE, procedure, kind: MessageKind::Notice, serial: 0, is_error: false }, &[])
}

/// Reads the next message; None at the end of the connection.
///
/// # Errors
///
/// The reason why the connection cannot be used any more.
pub async fn read(source: &mut (impl AsyncRead + Unpin)) -> Result<Option<Message>, String> {
    let mut length = [0; LENGTH_BYTES];
    match source.read_exact(&mut length).await {
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.to_string()),
    }
    let length = u32::from_be_bytes(length) as usize;
    if !(LENGTH_BYTES + HEADER_BYTES..=MESSAGE_BYTES_MAX).contains(&length) {
        return Err(format!("received a message of {length} bytes"));
    }
    let body = length - LENGTH_BYTES;
    let mut bytes = Vec::new();
    // Grows with the bytes that arrive, so that a false length reserves nothing.
    source.take(body as u64).read_to_end(&mut bytes).await.map_err(|error| error.to_string())?;
    if bytes.len() < body {
        return Err("the connection ended in the middle of a message".into());
    }
    let header = decode_header(&bytes).map_err(|error| error.to_string())??;
    Ok(Some(Message { header, bytes }))
}

/// The inner result is an error if the header has a meaning that this client does not know.
fn decode_header(bytes: &[u8]) -> XdrResult<Result<Header, String>> {
    let mut decoder = Decoder::new(bytes);
    let (program, version, procedure) = (decoder.u32()?, decoder.u32()?, decoder.i32()?);
    let (kind, serial, status) = (MessageKind::from_wire(decoder.i32()?), decoder.u32()?, decoder.i32()?);
    if version != VERSION {
        return Ok(Err(format!("received a message of protocol version {version}")));
    }
    Ok(Ok(Header { program, procedure, kind, serial, is_error: status == 1 }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The call `connect_open("test:///default")` as libvirtd 11.3 accepted it.
    const OPEN: &[u8] = b"\0\0\0\x38\x20\0\x80\x86\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\
        \0\0\0\x01\0\0\0\x0ftest:///default\0\0\0\0\0";

    #[test]
    fn calls_have_the_recorded_bytes() {
        let payload = Encoder::new().optional_string(Some("test:///default")).u32(0).finish();
        assert_eq!(encode_call(1, 2, &payload).unwrap(), OPEN);
    }

    #[tokio::test]
    async fn messages_are_read_whole() {
        let mut source = [OPEN, OPEN].concat();
        source.extend_from_slice(&encode_keepalive(PING));
        let mut source = &source[..];
        for _ in 0..2 {
            let message = read(&mut source).await.unwrap().unwrap();
            assert_eq!((message.header.procedure, message.header.serial), (1, 2));
            assert_eq!(message.payload().len(), 28);
        }
        let ping = read(&mut source).await.unwrap().unwrap();
        assert_eq!(
            (ping.header.program, ping.header.procedure, ping.header.kind),
            (KEEPALIVE, PING, MessageKind::Notice)
        );
        assert_eq!(read(&mut source).await, Ok(None));
    }

    #[tokio::test]
    async fn malformed_messages_are_errors() {
        let cases: [&[u8]; 4] = [b"\0\0\0\x04", b"\0\0\0\x1b", b"\xff\xff\xff\xff", &OPEN[..40]];
        for mut bytes in cases {
            assert!(read(&mut bytes).await.is_err(), "{bytes:?}");
        }
        let mut other_version = OPEN.to_vec();
        other_version[11] = 2;
        assert!(read(&mut &other_version[..]).await.is_err());
    }
}
