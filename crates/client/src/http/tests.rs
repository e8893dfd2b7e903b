//! Tests of encoding and decoding, with responses that arrive at once and byte by byte.

use proptest::prelude::*;

use super::*;

/// Decodes a response at once and byte by byte, then closes the connection. The expected text is the status, whether
/// the connection can be reused, and the body; or the error.
fn check(bytes: &str, expected: &str) {
    assert_eq!(decode(bytes.as_bytes(), usize::MAX), expected, "{bytes:?}");
    assert_eq!(decode(bytes.as_bytes(), 1), expected, "byte by byte: {bytes:?}");
}

fn decode(bytes: &[u8], step: usize) -> String {
    let mut decoder = Decoder::new();
    for piece in bytes.chunks(step.min(bytes.len().max(1))) {
        match decoder.feed(piece) {
            Ok(None) => {}
            other => return render_result(other),
        }
    }
    render_result(decoder.feed(&[]))
}

fn render_result(result: Result<Option<Response>, HttpError>) -> String {
    match result {
        Ok(Some(response)) => {
            let kept = if response.reusable { "keep" } else { "close" };
            format!("{} {kept} {}", response.status, String::from_utf8_lossy(&response.body)).trim_end().to_owned()
        }
        Ok(None) => "incomplete".into(),
        Err(error) => error.to_string(),
    }
}

#[test]
fn every_way_to_delimit_a_body_is_supported() {
    check("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 keep hi");
    check("HTTP/1.1 200 OK\r\ncontent-length:0\r\n\r\n", "200 keep");
    check("HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nhi", "200 keep hi");
    check("HTTP/1.1 200 OK\nContent-Length: 2\n\nhi", "200 keep hi");
    check("HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", "304 keep");
    check("HTTP/1.1 204 No Content\r\n\r\n", "204 keep");
    check("HTTP/1.1 200 OK\r\n\r\nuntil closed", "200 close until closed");
    check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 close hi");
    check("HTTP/1.1 200 OK\r\nConnection: foo, Close\r\nContent-Length: 2\r\n\r\nhi", "200 close hi");
    check(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\nA;x=y\r\ni, you all\r\n0\r\n\r\n",
        "200 keep hi, you all",
    );
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n0\r\nX: y\r\n\r\n", "200 keep h");
    check("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", "200 keep hi");
}

#[test]
fn invalid_responses_are_errors_that_name_the_problem() {
    let truncated = "the connection was closed before the end of the response";
    check("", truncated);
    check("HTTP/1.1 200 OK\r\n", truncated);
    check("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nhi", truncated);
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n", truncated);
    let not_http = |start: &str| format!("the response is not HTTP: it starts with {start:?}");
    check("SSH-2.0-OpenSSH_9\r\n", &not_http("SSH-2.0-OpenSSH_9"));
    check("HTTP/2 200 OK\r\n\r\n", &not_http("HTTP/2 200 OK"));
    check("HTTP/1.1 999 Odd\r\n\r\n", &not_http("HTTP/1.1 999 Odd"));
    check("HTTP/1.1 é00\r\n\r\n", &not_http("HTTP/1.1 é00"));
    check("HTTP/1.1 200 OK\r\nnonsense\r\n\r\n", &not_http("nonsense"));
    let length = |text: &str| format!("invalid length in the response: {text:?}");
    check("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", &length("-1"));
    check("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", &length("1"));
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\nh\r\n", &length("+1"));
    check("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nhx\r\n", &length("x"));
}

#[test]
fn large_responses_are_rejected() {
    let too_large = format!("the response body exceeds {BODY_BYTES_MAX} bytes");
    let head = "HTTP/1.1 200 OK\r\n";
    let announced = format!("{head}Content-Length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
    check(&announced, &too_large);
    check(&format!("{head}Content-Length: 99999999999999999999999\r\n\r\n"), &too_large);
    check(&format!("{head}Transfer-Encoding: chunked\r\n\r\n{:x}\r\n", BODY_BYTES_MAX + 1), &too_large);
    let endless = format!("{head}\r\n{}", "x".repeat(BODY_BYTES_MAX + 1));
    assert_eq!(decode(endless.as_bytes(), 4096), too_large);
    let headers = format!("{head}{}", "X: y\r\n".repeat(HEAD_BYTES_MAX));
    check(&headers, &format!("the response headers exceed {HEAD_BYTES_MAX} bytes"));
    check(&"x".repeat(HEAD_BYTES_MAX + 1), &format!("the response headers exceed {HEAD_BYTES_MAX} bytes"));
}

#[test]
fn a_connection_with_surplus_bytes_is_not_reused() {
    assert_eq!(decode(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhim", usize::MAX), "200 close hi");
}

#[test]
fn a_request_has_the_headers_that_the_service_requires() {
    let endpoint: Endpoint = "http://127.0.0.1:8080/vm/web".parse().unwrap();
    let mut request = Request {
        method: Method::Get,
        path: "/metadata/scheduledevents?api-version=2020-07-01".into(),
        if_none_match: Some("7".into()),
        timeout: Duration::ZERO,
    };
    let text = |request: &Request| String::from_utf8(request.to_bytes(&endpoint)).unwrap().replace(USER_AGENT, "us");
    assert_eq!(
        text(&request),
        "GET /vm/web/metadata/scheduledevents?api-version=2020-07-01 HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\
         Metadata: true\r\nAccept: application/json\r\nUser-Agent: us\r\nIf-None-Match: 7\r\n\r\n"
    );
    request.method = Method::Post { body: "{}".into() };
    request.if_none_match = None;
    assert!(text(&request).ends_with("Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"));
}

proptest! {
    #[test]
    fn no_input_causes_a_panic_and_chunk_boundaries_do_not_matter(
        bytes: Vec<u8>,
        head in "HTTP/1\\.[01] [0-9]{3} [a-z]{0,3}\r\n(Content-Length: [0-9]{1,2}\r\n)?(Transfer-Encoding: chunked\r\n)?\r\n",
        step in 1..9usize,
    ) {
        let nearly = [head.as_bytes(), &bytes].concat();
        decode(&bytes, step);
        // Whether surplus bytes arrive together with the response depends on the step.
        let without_reuse = |step| decode(&nearly, step).replace("keep", "").replace("close", "");
        prop_assert_eq!(without_reuse(step), without_reuse(usize::MAX));
    }
}
