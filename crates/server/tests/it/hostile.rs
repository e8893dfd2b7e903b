//! Hostile guests: a guest can exhaust its own connections, held requests and rate, and nothing else.

use std::net::Ipv4Addr;

use crate::support::*;
use forewarn_core::*;
use forewarn_server::*;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};

const HOSTILE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 5);
const NEIGHBOR: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 6);

/// A server with two machines that have addresses, and small limits.
async fn world(connections_per_source: usize, held_per_source: usize) -> World {
    let world = World::with(Config { connections_per_source, held_per_source, ..config() }).await;
    for (name, ip) in [("hostile", HOSTILE), ("neighbor", NEIGHBOR)] {
        let address = Address { network: "default".into(), ip: ip.into() };
        world.register_with(name, |machine| machine.addresses = AddressRequest::Given(vec![address])).await;
        assert_eq!(world.ask_from(ip, 0, &format!("GET {EVENTS}")).await.status, 200);
    }
    world
}

async fn connect_from(world: &World, ip: Ipv4Addr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((ip, 0).into()).unwrap();
    socket.connect(world.address(0)).await.unwrap()
}

fn held_request() -> Vec<u8> {
    bytes_of(&format!("GET {EVENTS}&wait=300\nIf-None-Match: 1"))
}

/// Opens a connection and has a request held on it.
async fn hold(world: &World, ip: Ipv4Addr) -> TcpStream {
    let before = world.running.endpoint.metrics.held.get();
    let mut stream = connect_from(world, ip).await;
    stream.write_all(&held_request()).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == before + 1).await;
    stream
}

#[tokio::test]
async fn a_guest_at_its_connection_limit_does_not_affect_others() {
    let world = world(4, 8).await;
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(hold(&world, HOSTILE).await);
    }
    for _ in 0..20 {
        let mut refused = connect_from(&world, HOSTILE).await;
        let _ = refused.write_all(&bytes_of(&format!("GET {EVENTS}"))).await;
        assert!(read_reply(&mut refused).await.is_none(), "a busy source gets no more connections");
    }
    assert_eq!(world.running.endpoint.metrics.limits.connections_refused.get(), 20);
    for _ in 0..20 {
        assert_eq!(world.ask_from(NEIGHBOR, 0, &format!("GET {EVENTS}")).await.status, 200);
        assert_eq!(world.ask(&format!("GET {EVENTS}")).await.status, 200, "loopback callers too");
    }
    assert_eq!(world.running.endpoint.metrics.held.get(), 4, "the held requests go on");
}

#[tokio::test]
async fn a_new_connection_closes_the_oldest_idle_one_of_its_guest() {
    let world = world(3, 8).await;
    let mut oldest = connect_from(&world, HOSTILE).await;
    oldest.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
    assert_eq!(read_reply(&mut oldest).await.unwrap().status, 200);
    let mut younger = connect_from(&world, HOSTILE).await;
    let _held = hold(&world, HOSTILE).await;
    assert_eq!(world.ask_from(HOSTILE, 0, &format!("GET {EVENTS}")).await.status, 200, "there is room again");
    assert!(read_reply(&mut oldest).await.is_none(), "the oldest idle connection was closed");
    younger.write_all(&bytes_of(&format!("GET {EVENTS}"))).await.unwrap();
    assert_eq!(read_reply(&mut younger).await.unwrap().status, 200, "the others were not");
    assert_eq!(world.running.endpoint.metrics.limits.connections_evicted.get(), 1);
}

#[tokio::test]
async fn the_held_requests_of_a_guest_are_limited() {
    let world = world(64, 2).await;
    let _held = [hold(&world, HOSTILE).await, hold(&world, HOSTILE).await];
    let request = format!("GET {EVENTS}&wait=300\nIf-None-Match: 1");
    let refused = world.ask_from(HOSTILE, 0, &request).await;
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    let _neighbors = hold(&world, NEIGHBOR).await;
    assert_eq!(world.ask_from(HOSTILE, 0, &format!("GET {EVENTS}")).await.status, 200, "it can still poll");
}

#[tokio::test]
async fn callers_of_a_machines_own_listener_are_one_source_whatever_their_address() {
    let own = MetadataListener { machine: Some(hostname()), ..listener() };
    let world = World::with(Config { metadata: vec![own], held_per_source: 2, ..config() }).await;
    assert_eq!(world.ask(&format!("GET {EVENTS}")).await.status, 200);
    let _held = [hold(&world, HOSTILE).await, hold(&world, NEIGHBOR).await];
    let request = format!("GET {EVENTS}&wait=300\nIf-None-Match: 1");
    assert_eq!(world.ask_from(Ipv4Addr::new(127, 0, 0, 7), 0, &request).await.status, 429);
}

#[tokio::test]
async fn callers_by_path_prefix_share_no_limit_of_connections_and_hold_per_machine() {
    let world = world(2, 2).await;
    let mut held = Vec::new();
    for name in ["a", "b", "c"] {
        world.register(name).await;
        assert_eq!(world.ask(&format!("GET /vm/{name}{EVENTS}")).await.status, 200);
        for _ in 0..2 {
            let before = world.running.endpoint.metrics.held.get();
            let mut stream = world.connect().await;
            let request = format!("GET /vm/{name}{EVENTS}&wait=300\nIf-None-Match: 1");
            stream.write_all(&bytes_of(&request)).await.unwrap();
            until(|| world.running.endpoint.metrics.held.get() == before + 1).await;
            held.push(stream);
        }
        let one_more = world.ask(&format!("GET /vm/{name}{EVENTS}&wait=300\nIf-None-Match: 1")).await;
        assert_eq!(one_more.status, 429, "{name}");
    }
}

#[tokio::test]
async fn a_request_is_not_held_while_its_client_has_sent_more() {
    let world = world(64, 8).await;
    for more in [b"GET".to_vec(), held_request(), b"\r\n".to_vec()] {
        let mut stream = connect_from(&world, HOSTILE).await;
        stream.write_all(&[held_request(), more].concat()).await.unwrap();
        assert_eq!(read_reply(&mut stream).await.unwrap().status, 304);
    }
    let mut stream = hold(&world, HOSTILE).await;
    stream.write_all(b"G").await.unwrap();
    assert_eq!(read_reply(&mut stream).await.unwrap().status, 304, "also when it sends more later");
}

#[tokio::test]
async fn a_client_that_disconnects_while_its_request_is_held_is_noticed() {
    let world = world(64, 8).await;
    for is_reset in [true, false] {
        let stream = hold(&world, HOSTILE).await;
        if is_reset {
            stream.set_zero_linger().unwrap();
        }
        drop(stream);
        until(|| world.running.endpoint.metrics.held.get() == 0).await;
        until(|| world.running.endpoint.metrics.connections.get() == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_disconnects_is_noticed_whatever_it_has_sent() {
    let world = world(64, 8).await;
    for more in [b"GET / HTTP/1.1\r\n", &b"\r\n\r\n\r\n"[..]] {
        let mut stream = connect_from(&world, HOSTILE).await;
        until(|| world.running.endpoint.metrics.connections.get() == 1).await;
        stream.write_all(&[&held_request(), more].concat()).await.unwrap();
        stream.set_zero_linger().unwrap();
        drop(stream);
        until(|| world.running.endpoint.metrics.held.get() == 0).await;
        until(|| world.running.endpoint.metrics.connections.get() == 0).await;
    }
}

/// The beginning of an approval with a body of `length` bytes, of which `sent` are sent.
fn unfinished_approval(length: usize, sent: usize) -> Vec<u8> {
    let head =
        format!("POST {EVENTS} HTTP/1.1\r\nHost: 127.0.0.1\r\nMetadata: true\r\nContent-Length: {length}\r\n\r\n");
    [head.as_bytes(), &vec![b' '; sent]].concat()
}

#[tokio::test]
async fn long_approvals_of_one_guest_are_limited_while_they_arrive() {
    let world = world(64, 2).await;
    let [mut first, mut second, mut third] =
        [connect_from(&world, HOSTILE).await, connect_from(&world, HOSTILE).await, connect_from(&world, HOSTILE).await];
    for stream in [&mut first, &mut second, &mut third] {
        stream.write_all(&unfinished_approval(60_000, 50_000)).await.unwrap();
    }
    // Which one is refused depends on the order in which they are read.
    let refused = tokio::select! {
        reply = read_reply(&mut first) => reply,
        reply = read_reply(&mut second) => reply,
        reply = read_reply(&mut third) => reply,
    };
    let refused = refused.expect("a response");
    assert_eq!((refused.status, refused.header("retry-after")), (429, Some("1")));
    assert_eq!(world.running.endpoint.metrics.limits.held_refused.get(), 1);
    let body = r#"{"StartRequests":[]}"#;
    assert_eq!(world.ask_from(HOSTILE, 0, &format!("POST {EVENTS}\n\n{body}")).await.status, 200, "short ones are not");
    let long = format!("{body}{}", " ".repeat(50_000));
    assert_eq!(
        world.ask_from(NEIGHBOR, 0, &format!("POST {EVENTS}\n\n{long}")).await.status,
        200,
        "nor its neighbor's"
    );
}

#[tokio::test]
async fn requests_are_held_after_an_approval_whatever_its_body_looks_like() {
    let world = world(64, 8).await;
    let body = "{\r\n\r\n\"StartRequests\":\n\n[]}\n";
    let mut stream = connect_from(&world, HOSTILE).await;
    stream.write_all(&bytes_of(&format!("POST {EVENTS}\n\n{body}"))).await.unwrap();
    assert_eq!(read_reply(&mut stream).await.unwrap().status, 200);
    stream.write_all(&held_request()).await.unwrap();
    until(|| world.running.endpoint.metrics.held.get() == 1).await;
}

#[tokio::test]
async fn refused_requests_count_for_the_rate_limit() {
    let world = World::with(Config { rate_limit: Some(3), ..config() }).await;
    let mut statuses = Vec::new();
    for _ in 0..6 {
        statuses.push(world.ask("GET /metadata/nothing").await.status);
    }
    assert_eq!(statuses[..3], [404; 3]);
    assert!(statuses[3..].contains(&429), "{statuses:?}");
}

#[tokio::test]
async fn web_pages_cannot_read_loopback_listeners() {
    let world = World::new().await;
    world.check_refusal(&format!("GET {EVENTS}\nHost: evil.example"), 403, &["evil.example", "host=NAME"]).await;
    world.check_refusal(&format!("GET {EVENTS}\nOrigin: http://127.0.0.1"), 403, &["Origin"]).await;
    for host in ["127.0.0.1:8169", "localhost", "[::1]:80"] {
        assert_eq!(world.ask(&format!("GET {EVENTS}\nHost: {host}")).await.status, 200, "{host}");
    }
    let named = MetadataListener { hosts: vec!["imds".into()], ..listener() };
    let world = World::with(Config { metadata: vec![named], ..config() }).await;
    assert_eq!(world.ask(&format!("GET {EVENTS}\nHost: imds:80")).await.status, 200);
}

#[tokio::test]
async fn a_socket_gets_the_permissions_that_its_listener_names() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("guest.sock");
    let group = std::fs::metadata(directory.path()).unwrap().gid();
    let guest = MetadataListener {
        machine: Some(hostname()),
        group: Some(group.to_string()),
        mode: Some(0o660),
        ..MetadataListener::new(ListenAddress::Unix(path.clone()))
    };
    let _world = World::with(Config { metadata: vec![guest], ..config() }).await;
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.permissions().mode() & 0o777, found.gid()), (0o660, group));
    let unknown = MetadataListener {
        group: Some("no-such-group".into()),
        ..MetadataListener::new(ListenAddress::Unix(directory.path().join("other.sock")))
    };
    let error = start(Config { metadata: vec![unknown], ..config() }).await.err().unwrap().to_string();
    assert!(error.contains("no-such-group"), "{error}");
}
