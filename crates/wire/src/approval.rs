//! The body of the POST that approves events.
//!
//! ```text
//! {"StartRequests":[{"EventId":"<guid>"},…]}
//! ```
//!
//! The content type is ignored, because half of the clients send the body as a form. Some clients add
//! `DocumentIncarnation`, as a number or as a string; it is not checked. Unknown keys are ignored. The two
//! known keys are case-sensitive, because every known client writes them exactly like this.
//!
//! An `EventId` that is not a GUID is returned as text, so that the error message can name it.

use std::fmt;

use serde_json::Value;

use crate::guid;

/// Maximum size of a body. The longest accepted list takes about 50 KiB.
pub const BODY_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of entries. More than a document ever has, and about as many as fit into [`BODY_BYTES_MAX`].
pub const START_REQUESTS_MAX: usize = 1024;

/// The ID of an event to approve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestedId {
    Guid(u128),
    /// The text that the client sent instead of a GUID.
    Other(String),
}

/// Parses a body. IDs are returned in the order in which they were sent, including duplicates.
pub fn parse(body: &[u8]) -> Result<Vec<RequestedId>, ApprovalError> {
    if body.len() > BODY_BYTES_MAX {
        return Err(ApprovalError::BodyTooLarge);
    }
    let text = body.strip_prefix(BYTE_ORDER_MARK).unwrap_or(body);
    let mut value: Value = serde_json::from_slice(text).map_err(|error| json_error(text, &error))?;
    let object = value.as_object_mut().ok_or(ApprovalError::NotAnObject)?;
    let requests = object.remove("StartRequests").ok_or(ApprovalError::NoStartRequests)?;
    let Value::Array(requests) = requests else {
        return Err(ApprovalError::StartRequestsNotAList);
    };
    if requests.len() > START_REQUESTS_MAX {
        return Err(ApprovalError::TooManyStartRequests { count: requests.len() });
    }
    requests.into_iter().enumerate().map(parse_entry).collect()
}

/// A reason to reject the body. The message says what to send instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ApprovalError {
    BodyTooLarge,
    Empty,
    NotJson { line: usize, column: usize },
    NotAnObject,
    NoStartRequests,
    StartRequestsNotAList,
    TooManyStartRequests { count: usize },
    EntryWithoutEventId { index: usize },
    EventIdNotText { index: usize },
}

impl fmt::Display for ApprovalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ApprovalError::BodyTooLarge => {
                write!(
                    f,
                    "The body is larger than {BODY_BYTES_MAX} bytes: approve the events in \
                     several requests."
                )
            }
            ApprovalError::Empty => write!(f, "The body is empty: send {EXAMPLE}."),
            ApprovalError::NotJson { line, column } => {
                write!(f, "The body is not JSON (line {line}, column {column}): send {EXAMPLE}.")
            }
            ApprovalError::NotAnObject => {
                write!(f, "The body is not a JSON object: send {EXAMPLE}.")
            }
            ApprovalError::NoStartRequests => {
                write!(f, "The body has no key StartRequests, which is case-sensitive: send {EXAMPLE}.")
            }
            ApprovalError::StartRequestsNotAList => {
                write!(f, "StartRequests is not a list: send {EXAMPLE}.")
            }
            ApprovalError::TooManyStartRequests { count } => {
                write!(
                    f,
                    "StartRequests has {count} entries: send at most {START_REQUESTS_MAX} in one \
                     request."
                )
            }
            ApprovalError::EntryWithoutEventId { index } => {
                write!(
                    f,
                    "Entry {index} of StartRequests is not an object with a key EventId: send \
                     {EXAMPLE}."
                )
            }
            ApprovalError::EventIdNotText { index } => write!(
                f,
                "The EventId of entry {index} of StartRequests is not a string: send the EventId \
                 that the document shows."
            ),
        }
    }
}

impl std::error::Error for ApprovalError {}

const EXAMPLE: &str = r#"{"StartRequests":[{"EventId":"<EventId from the document>"}]}"#;

/// Some .NET clients write it at the start of UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

fn json_error(text: &[u8], error: &serde_json::Error) -> ApprovalError {
    if text.trim_ascii().is_empty() {
        return ApprovalError::Empty;
    }
    ApprovalError::NotJson { line: error.line(), column: error.column() }
}

fn parse_entry((index, entry): (usize, Value)) -> Result<RequestedId, ApprovalError> {
    let Value::Object(mut entry) = entry else {
        return Err(ApprovalError::EntryWithoutEventId { index });
    };
    match entry.remove("EventId") {
        None => Err(ApprovalError::EntryWithoutEventId { index }),
        Some(Value::String(text)) => Ok(guid::parse(&text).map_or(RequestedId::Other(text), RequestedId::Guid)),
        Some(_) => Err(ApprovalError::EventIdNotText { index }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: u128 = 0xf020ba2e_3bc0_4c40_a10b_86575a9eabd5;

    fn check(body: &str, expected: Result<&[RequestedId], ApprovalError>) {
        assert_eq!(parse(body.as_bytes()), expected.map(<[_]>::to_vec), "{body}");
    }

    #[test]
    fn bodies_of_known_clients_are_accepted() {
        let one = [RequestedId::Guid(ID)];
        for body in [
            r#"{"DocumentIncarnation":"5", "StartRequests": [{"EventId": "f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#,
            r#"{"StartRequests":[{"EventId":"F020BA2E-3BC0-4C40-A10B-86575A9EABD5"}],"DocumentIncarnation":5}"#,
            r#"{"StartRequests":[{"EventId":"f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#,
            r#"{"DocumentIncarnation":null,"StartRequests":[{"EventId":"f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#,
            "\u{FEFF}{\r\n  \"StartRequests\": [ { \"EventId\": \
             \"f020ba2e-3bc0-4c40-a10b-86575a9eabd5\" } ]\r\n}\r\n",
            r#"{"x":{"StartRequests":1},"StartRequests":[{"y":[],"EventId":"f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}]}"#,
        ] {
            check(body, Ok(&one));
        }
        check(r#"{"StartRequests":[]}"#, Ok(&[]));
    }

    #[test]
    fn an_id_that_is_not_a_guid_is_returned_as_text() {
        let other = |text: &str| RequestedId::Other(text.to_owned());
        check(
            r#"{"StartRequests":[{"EventId":"f020ba2e-3bc0-4c40-a10b-86575a9eabd5"},{"EventId":"no \"guid\""},{"EventId":""}]}"#,
            Ok(&[RequestedId::Guid(ID), other("no \"guid\""), other("")]),
        );
    }

    #[test]
    fn malformed_bodies_have_specific_errors() {
        use ApprovalError::*;
        check("", Err(Empty));
        check(" \r\n", Err(Empty));
        check("StartRequests=1", Err(NotJson { line: 1, column: 1 }));
        check("{\"StartRequests\":[]}\n]", Err(NotJson { line: 2, column: 1 }));
        check("[]", Err(NotAnObject));
        check("{}", Err(NoStartRequests));
        check(r#"{"startRequests":[]}"#, Err(NoStartRequests));
        check(r#"{"StartRequests":{"EventId":"x"}}"#, Err(StartRequestsNotAList));
        check(r#"{"StartRequests":null}"#, Err(StartRequestsNotAList));
        check(r#"{"StartRequests":[{"EventId":"x"},{"eventId":"x"}]}"#, Err(EntryWithoutEventId { index: 1 }));
        check(r#"{"StartRequests":["x"]}"#, Err(EntryWithoutEventId { index: 0 }));
        check(r#"{"StartRequests":[{"EventId":7}]}"#, Err(EventIdNotText { index: 0 }));
    }

    #[test]
    fn limits_are_inclusive() {
        let list = |count: usize| format!("{{\"StartRequests\":[{}]}}", vec![r#"{"EventId":"x"}"#; count].join(","));
        assert_eq!(parse(list(START_REQUESTS_MAX).as_bytes()).unwrap().len(), START_REQUESTS_MAX);
        let count = START_REQUESTS_MAX + 1;
        check(&list(count), Err(ApprovalError::TooManyStartRequests { count }));

        let mut body = r#"{"StartRequests":[]}"#.to_owned();
        body.extend(std::iter::repeat_n(' ', BODY_BYTES_MAX - body.len()));
        check(&body, Ok(&[]));
        body.push(' ');
        check(&body, Err(ApprovalError::BodyTooLarge));
    }

    #[test]
    fn the_longest_list_of_guids_fits_into_a_body() {
        let entry = r#"{"EventId":"f020ba2e-3bc0-4c40-a10b-86575a9eabd5"}"#;
        let body = format!("{{\"StartRequests\":[{}]}}", vec![entry; START_REQUESTS_MAX].join(","));
        assert_eq!(parse(body.as_bytes()).unwrap().len(), START_REQUESTS_MAX);
    }

    #[test]
    fn deep_nesting_is_rejected_without_overflow() {
        let deep = "[".repeat(BODY_BYTES_MAX);
        assert!(matches!(parse(deep.as_bytes()), Err(ApprovalError::NotJson { .. })));
        let deep = format!("{{\"StartRequests\":{}", "{\"a\":".repeat(10_000));
        assert!(matches!(parse(deep.as_bytes()), Err(ApprovalError::NotJson { .. })));
    }

    proptest! {
        #[test]
        fn parsing_any_bytes_does_not_panic(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }

        #[test]
        fn parsing_almost_valid_bodies_does_not_panic(
            body in r#"\{"StartRequests":(\[|\{|null)?(\{?"EventId":("[a-f0-9-]{0,40}"|1|\[\])\}?,?){0,3}\]?\}?"#,
        ) {
            let _ = parse(body.as_bytes());
        }
    }
}
