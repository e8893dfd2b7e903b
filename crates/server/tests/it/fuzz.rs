//! Whatever bytes arrive at the metadata listener: an HTTP answer or a closed connection, no panic, and
//! the next caller is served.

use crate::support::*;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Sends the bytes, closes the sending side, and reads until the connection is closed.
async fn check(world: &World, bytes: &[u8]) {
    let mut stream = world.connect().await;
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    let _ = stream.shutdown().await;
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer).await;
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
    let panicked = answer.starts_with(b"HTTP/1.1 500");
    assert!(!panicked, "{}", String::from_utf8_lossy(&answer));
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
}

/// Pieces of requests, right and wrong, and noise between them.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let known = prop::sample::select(vec![
        "GET ",
        "POST ",
        "PUT ",
        "/metadata/scheduledevents",
        "/vm/",
        "%",
        "/metadata/instance/compute",
        "?api-version=",
        "2020-07-01",
        "2017-03-01",
        "&wait=",
        "300",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        " HTTP/9.9\r\n",
        "Host: 127.0.0.1\r\n",
        "Metadata: true\r\n",
        "If-None-Match: ",
        "*",
        "\"1\"",
        "W/",
        "Content-Length: ",
        "5",
        "-1",
        "99999999999999999999",
        "Transfer-Encoding: chunked\r\n",
        "0\r\n\r\n",
        "ffffffff\r\n",
        "\r\n",
        "\r\n\r\n",
        "{\"StartRequests\":[",
        "]}",
        "{\"EventId\":\"",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "Expect: 100-continue\r\n",
        "Upgrade: h2c\r\n",
        "\0",
    ]);
    let piece = prop_oneof![
        8 => known.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..40),
    ];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

fn run(cases: u32, strategy: impl Strategy<Value = Vec<u8>>) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let world = runtime.block_on(World::new());
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig { cases, ..Default::default() });
    runner
        .run(&strategy, |bytes| {
            runtime.block_on(check(&world, &bytes));
            Ok(())
        })
        .unwrap();
    runtime.block_on(world.running.stop());
}

#[test]
fn any_bytes() {
    run(200, prop::collection::vec(any::<u8>(), 0..2000));
}

#[test]
fn bytes_that_look_like_requests() {
    run(1000, pieces());
}

#[test]
fn a_request_with_something_wrong_in_it() {
    let body = "{\"StartRequests\":[{\"EventId\":\"11111111-2222-3333-4444-555555555555\"}]}";
    let request = bytes_of(&format!("POST {EVENTS}\nConnection: close\n\n{body}"));
    let length = request.len();
    let strategy = prop::collection::vec((0..length, any::<u8>()), 1..4).prop_map(move |changes| {
        let mut request = request.clone();
        for (place, byte) in changes {
            request[place] = byte;
        }
        request
    });
    run(500, strategy);
}
