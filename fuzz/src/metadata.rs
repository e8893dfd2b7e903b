//! The bytes that guests send: the target of a request, and the body of an approval.

use forewarn_metadata::head::{NO_HEADERS, PlainRequest};
use forewarn_metadata::route;
use forewarn_wire::approval;
use forewarn_wire::query::{Query, wait_secs};
use forewarn_wire::version::{InstanceVersion, Version};
use http::header::{CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE};
use http::{Method, Uri};

/// A request target such as `/vm/web/metadata/scheduledevents?api-version=2020-07-01`.
pub fn check_request(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let (path, query) = text.split_once('?').unwrap_or((text, ""));
    let without_prefix = route::parse(path, false);
    if let Some(target) = &without_prefix {
        assert!(target.machine.is_none(), "a prefix is read where none is allowed");
        assert_eq!(route::parse(path, true).as_ref(), Some(target), "allowing prefixes changes a path without one");
    }
    let _ = route::parse(path, true);
    if let Ok(query) = Query::parse(query) {
        let _ = Version::parse(query.api_version.as_deref());
        let _ = InstanceVersion::parse(query.api_version.as_deref());
    }
    let _ = wait_secs(text);
}

/// The bytes of a connection. Those that are answered without hyper are one request, and hyper would read it in the same way.
pub fn check_plain_request(input: &[u8]) {
    let mut room = NO_HEADERS;
    let Some(PlainRequest { head, body }) = PlainRequest::parse(input, &mut room) else { return };
    assert!(input.starts_with(format!("{} /", head.method).as_bytes()), "a method that only hyper reads");
    let before_body = &input[..input.len() - body.len()];
    let text = String::from_utf8_lossy(before_body).replace('\r', "");
    assert_eq!(text.find("\n\n"), Some(text.len() - 2), "there is more than one head");
    for name in [TRANSFER_ENCODING, EXPECT, UPGRADE] {
        assert!(!head.has(&name), "{name} is hyper's part");
    }
    let lengths: Vec<_> = head.values(&CONTENT_LENGTH).collect();
    match head.method == Method::POST {
        true => assert_eq!(lengths.len(), 1, "a POST has one length"),
        false => assert!(lengths.is_empty() && body.is_empty(), "a GET has no body"),
    }
    for length in lengths {
        let length = std::str::from_utf8(length).expect("hyper refuses this length");
        assert_eq!(length.parse(), Ok(body.len()), "a body of another length");
    }
    let target = text.split(' ').nth(1).expect("a request line");
    let uri: Uri = target.parse().expect("hyper refuses this target");
    assert_eq!((head.path, head.query), (uri.path(), uri.query().unwrap_or_default()));
}

pub fn check_approval(input: &[u8]) {
    let Ok(ids) = approval::parse(input) else { return };
    assert!(std::str::from_utf8(input).is_ok(), "an approval that is not text was accepted");
    assert!(ids.len() <= input.len(), "there are more IDs than bytes");
}
