//! A scripted server: violations of the protocol, keepalive, and connections that end.

use std::time::Duration;

use forewarn_libvirt::{Connection, Error, ErrorCode, Keepalive, MESSAGE_BYTES_MAX, Reconnector, Target};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};

const REMOTE: u32 = 0x2000_8086;
const KEEPALIVE: u32 = 0x6b65_6570;

const AUTH_LIST: u32 = 66;
const OPEN: u32 = 1;
const HOSTNAME: u32 = 59;
const SUPPORTS_FEATURE: u32 = 60;

const CALL: u32 = 0;
const REPLY: u32 = 1;
const NOTICE: u32 = 2;

/// The words of a header after its length: program, version, procedure, type, serial, status.
type Header = [u32; 6];

struct Server {
    stream: UnixStream,
}

impl Server {
    /// Reads the next message and returns its header.
    async fn receive(&mut self) -> Option<Header> {
        let mut words = [0; 7];
        for word in &mut words {
            *word = self.stream.read_u32().await.ok()?;
        }
        let mut payload = vec![0; words[0] as usize - 28];
        self.stream.read_exact(&mut payload).await.ok()?;
        words[1..].try_into().ok()
    }

    async fn send(&mut self, header: Header, payload: &[u8]) {
        let mut bytes = (28 + payload.len() as u32).to_be_bytes().to_vec();
        header.iter().for_each(|word| bytes.extend_from_slice(&word.to_be_bytes()));
        bytes.extend_from_slice(payload);
        self.stream.write_all(&bytes).await.unwrap();
    }

    async fn reply(&mut self, call: Header, payload: &[u8]) {
        self.send([REMOTE, 1, call[2], REPLY, call[4], 0], payload).await;
    }

    /// Answers the calls with which a connection begins.
    async fn accept_connection(&mut self) {
        let expected: [(u32, &[u8]); 3] = [(AUTH_LIST, &[0; 4]), (OPEN, &[]), (SUPPORTS_FEATURE, &[0, 0, 0, 1])];
        for (procedure, payload) in expected {
            let call = self.receive().await.expect("a call");
            assert_eq!((call[2], call[3]), (procedure, CALL));
            self.reply(call, payload).await;
        }
    }
}

/// Runs a script with the server's end of a connection, and the client with the other.
async fn serve<T>(
    script: impl AsyncFnOnce(Server) + 'static,
    client: impl AsyncFnOnce(Connection) -> T,
    keepalive: Keepalive,
) -> T {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket");
    let listener = UnixListener::bind(&socket).unwrap();
    let server = async {
        let (stream, _) = listener.accept().await.unwrap();
        let mut server = Server { stream };
        server.accept_connection().await;
        script(server).await;
    };
    let mut target = Target::new(&socket, "test:///default");
    target.keepalive = Some(keepalive);
    let client = async { client(target.connect().await.unwrap().0).await };
    tokio::join!(server, client).1
}

fn slow() -> Keepalive {
    Keepalive { interval: Duration::from_secs(60), count: 5 }
}

async fn hostname_answered_with(script: impl AsyncFnOnce(&mut Server, Header) + 'static) -> Error {
    let server = async move |mut server: Server| {
        let call = server.receive().await.expect("a call");
        assert_eq!(call[2], HOSTNAME);
        script(&mut server, call).await;
    };
    serve(server, async |connection| connection.hostname().await.unwrap_err(), slow()).await
}

#[tokio::test]
async fn malformed_answers_are_errors_of_their_call() {
    for payload in
        [&b""[..], b"\0\0\0\x08abc\0", b"\xff\xff\xff\xff", b"\0\0\0\x01\xff\0\0\0", b"\0\0\0\x01a\0\0\0\0\0\0\0"]
    {
        let error = hostname_answered_with(async move |server, call| server.reply(call, payload).await).await;
        assert!(matches!(error, Error::Malformed { procedure: "virConnectGetHostname", .. }), "{error}");
    }
}

#[tokio::test]
async fn malformed_errors_are_errors_too() {
    let error = hostname_answered_with(async |server, call| {
        server.send([REMOTE, 1, HOSTNAME, REPLY, call[4], 1], b"\0\0\0\x01").await;
    })
    .await;
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert!(!error.is(ErrorCode::NO_DOMAIN));
}

#[tokio::test]
async fn messages_of_impossible_length_end_the_connection() {
    for length in [0, 27, MESSAGE_BYTES_MAX as u32 + 1, u32::MAX] {
        let error = hostname_answered_with(async move |server, _| server.stream.write_u32(length).await.unwrap()).await;
        assert_eq!(
            error.to_string(),
            format!("the connection to libvirtd ended: received a message of {length} bytes")
        );
    }
}

#[tokio::test]
async fn calls_fail_when_the_connection_ends() {
    let error = hostname_answered_with(async |server, _| server.stream.shutdown().await.unwrap()).await;
    assert_eq!(error.to_string(), "the connection to libvirtd ended: libvirtd closed it");
}

#[tokio::test]
async fn answers_without_a_call_and_unknown_programs_are_ignored() {
    let server = async |mut server: Server| {
        let call = server.receive().await.expect("a call");
        server.send([REMOTE, 1, HOSTNAME, REPLY, call[4] + 7, 0], b"\0\0\0\x01x\0\0\0").await;
        server.send([0x1234, 1, 1, NOTICE, 0, 0], b"").await;
        server.send([REMOTE, 1, 9999, NOTICE, 0, 0], b"\0\0\0\0").await;
        server.reply(call, b"\0\0\0\x05host1\0\0\0").await;
    };
    let name = serve(server, async |connection| connection.hostname().await, slow()).await;
    assert_eq!(name.unwrap(), "host1");
}

#[tokio::test]
async fn pings_are_answered_while_a_call_lasts() {
    let server = async |mut server: Server| {
        let call = server.receive().await.expect("a call");
        server.send([KEEPALIVE, 1, 1, NOTICE, 0, 0], b"").await;
        let pong = server.receive().await.expect("a pong");
        assert_eq!(pong, [KEEPALIVE, 1, 2, NOTICE, 0, 0]);
        server.reply(call, b"\0\0\0\x05host1\0\0\0").await;
    };
    let name = serve(server, async |connection| connection.hostname().await, slow()).await;
    assert_eq!(name.unwrap(), "host1");
}

#[tokio::test]
async fn a_server_that_answers_no_pings_is_given_up() {
    let server = async |mut server: Server| {
        let mut pings = 0;
        while let Some(message) = server.receive().await {
            pings += u32::from(message == [KEEPALIVE, 1, 1, NOTICE, 0, 0]);
        }
        assert_eq!(pings, 2);
    };
    let fast = Keepalive { interval: Duration::from_millis(20), count: 2 };
    let reason = serve(server, async |connection| connection.closed().await, fast).await;
    assert_eq!(reason, "libvirtd does not answer keepalive messages");
}

#[tokio::test]
async fn answered_pings_keep_a_silent_connection_open() {
    // On a busy machine several pings can be due before the first answer is read, but not this many.
    const COUNT: u32 = 5;
    let server = async |mut server: Server| {
        for _ in 0..3 * COUNT {
            let message = server.receive().await.expect("a ping");
            assert_eq!(message, [KEEPALIVE, 1, 1, NOTICE, 0, 0]);
            server.send([KEEPALIVE, 1, 2, NOTICE, 0, 0], b"").await;
        }
        server.stream.shutdown().await.unwrap();
        // A ping that is not read when the socket is closed would reset the connection.
        while server.receive().await.is_some() {}
    };
    let fast = Keepalive { interval: Duration::from_millis(20), count: COUNT };
    let reason = serve(server, async |connection| connection.closed().await, fast).await;
    assert_eq!(reason, "libvirtd closed it");
}

#[tokio::test]
async fn calls_have_a_time_limit() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket");
    let _listener = UnixListener::bind(&socket).unwrap();
    let mut target = Target::new(&socket, "test:///default");
    target.call_timeout = Duration::from_millis(20);
    let error = target.connect().await.err().expect("nothing answers");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn a_missing_socket_is_named_and_tried_again() {
    let dir = TempDir::new().unwrap();
    let socket = dir.path().join("socket");
    let target = Target::new(&socket, "test:///default");
    let error = target.connect().await.err().expect("there is no socket");
    assert!(error.to_string().starts_with(&format!("cannot connect to {}: ", socket.display())), "{error}");

    let mut errors = Vec::new();
    let mut listener = None;
    let mut reconnector = Reconnector::new(target);
    let client = reconnector.connect(|error, delay| {
        errors.push((error.to_string(), delay));
        // The second attempt succeeds.
        listener = Some(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        let listener = listener.as_ref().unwrap().try_clone().unwrap();
        listener.set_nonblocking(true).unwrap();
        tokio::spawn(async move {
            let (stream, _) = UnixListener::from_std(listener).unwrap().accept().await.unwrap();
            Server { stream }.accept_connection().await;
        });
    });
    let _connected = client.await;
    assert_eq!(errors.len(), 1);
}
