//! Every error with its status, headers and body.

use crate::support::check_golden;
use forewarn_wire::approval::{ApprovalError, RequestedId};
use forewarn_wire::error::MetadataError;
use forewarn_wire::version::{Endpoint, InstanceVersion, Version, VersionError};
use serde_json::Value;

fn every_refusal() -> Vec<MetadataError> {
    let text = |text: &str| text.to_owned();
    let version = |endpoint, given| {
        let error = match endpoint {
            Endpoint::ScheduledEvents => Version::parse(given).unwrap_err(),
            Endpoint::Instance => InstanceVersion::parse(given).unwrap_err(),
        };
        MetadataError::api_version(endpoint, given, error)
    };
    vec![
        MetadataError::MetadataHeaderMissing,
        MetadataError::Forwarded,
        MetadataError::Browser,
        MetadataError::ForeignHost { host: "evil.example".into() },
        version(Endpoint::ScheduledEvents, None),
        version(Endpoint::ScheduledEvents, Some("{latest}")),
        version(Endpoint::ScheduledEvents, Some("2024-07-09")),
        version(Endpoint::Instance, None),
        version(Endpoint::Instance, Some("latest")),
        version(Endpoint::Instance, Some("2020-07-01")),
        MetadataError::RepeatedParameter { name: text("api-version") },
        MetadataError::TooManyParameters,
        MetadataError::BadWait { given: text("301") },
        MetadataError::BadFormat { given: text("xml") },
        MetadataError::TextFormatNeeded { path: text("/metadata/instance/compute/name") },
        MetadataError::UnknownPath { path: text("/metadata/\"schedule\"") },
        MetadataError::UnknownElement { path: text("/metadata/instance/compute/Name") },
        MetadataError::MethodNotAllowed { method: text("PUT"), allow: "GET, POST" },
        MetadataError::MethodNotAllowed { method: text("POST"), allow: "GET" },
        MetadataError::MalformedApproval(ApprovalError::Empty),
        MetadataError::MalformedApproval(ApprovalError::NotJson { line: 1, column: 14 }),
        MetadataError::MalformedApproval(ApprovalError::NotAnObject),
        MetadataError::MalformedApproval(ApprovalError::NoStartRequests),
        MetadataError::MalformedApproval(ApprovalError::StartRequestsNotAList),
        MetadataError::MalformedApproval(ApprovalError::TooManyStartRequests { count: 1025 }),
        MetadataError::MalformedApproval(ApprovalError::EntryWithoutEventId { index: 0 }),
        MetadataError::MalformedApproval(ApprovalError::EventIdNotText { index: 2 }),
        MetadataError::UnknownEvents(vec![RequestedId::Guid(1)]),
        MetadataError::UnknownEvents(vec![RequestedId::Other(text("x")), RequestedId::Other("long ".repeat(50))]),
        MetadataError::UnknownEvents((0..12).map(RequestedId::Guid).collect()),
        MetadataError::from(ApprovalError::BodyTooLarge),
        MetadataError::HeaderTooLarge,
        MetadataError::TooManyRequests { retry_after_secs: 1 },
        MetadataError::UnknownCaller { address: text("10.0.0.9") },
        MetadataError::UnknownPort,
        MetadataError::UnknownMachine { name: text("web") },
        MetadataError::AmbiguousName { name: text("web"), candidates: vec![text("shop/web"), text("test/web")] },
        MetadataError::Starting { retry_after_secs: 2 },
        MetadataError::Overloaded { retry_after_secs: 1 },
        MetadataError::ServerUnreachable { retry_after_secs: 2 },
        MetadataError::NotOnThisHost { retry_after_secs: 2 },
        MetadataError::OutcomeUnknown { retry_after_secs: 1 },
        MetadataError::Internal,
        MetadataError::Gone,
    ]
}

#[test]
fn every_error_matches_the_golden_file() {
    let lines: String = every_refusal().iter().map(line).collect();
    check_golden("refusals.txt", lines.as_bytes());
}

fn line(refusal: &MetadataError) -> String {
    let retry = refusal.retry_after_secs().map(|secs| format!(" Retry-After: {secs}"));
    let allow = refusal.allow().map(|allow| format!(" Allow: {allow}"));
    let headers = retry.or(allow).unwrap_or_default();
    format!("{}{headers} {}\n", refusal.status(), refusal.body())
}

#[test]
fn every_body_is_json_and_starts_with_the_reason_phrase() {
    for refusal in every_refusal() {
        let body: Value = serde_json::from_str(&refusal.body()).expect("a body is JSON");
        let error = body["error"].as_str().expect("an error is a string");
        let called = match refusal.status() {
            400 => "Bad request. ",
            403 => "Forbidden",
            404 => "Not found. ",
            405 => "Method not allowed. ",
            409 => "Conflict. ",
            410 => "Gone. ",
            413 => "Payload too large. ",
            429 => "Too many requests. ",
            431 => "Request header fields too large. ",
            500 => "Internal server error. ",
            503 => "Service unavailable. ",
            other => panic!("{refusal:?} has the status {other}"),
        };
        assert!(error.starts_with(called), "{error}");
        assert!(error.ends_with('.'), "{error}");
    }
}

#[test]
fn messages_start_with_the_known_words_of_azure() {
    let check = |refusal: MetadataError, status: u16, beginning: &str| {
        assert_eq!(refusal.status(), status);
        assert!(refusal.body().starts_with(beginning), "{}", refusal.body());
    };
    check(
        MetadataError::MetadataHeaderMissing,
        400,
        r#"{ "error": "Bad request. Required metadata header not specified"#,
    );
    let invalid = r#"{ "error": "Bad request. api-version is invalid or was not specified in the request. For more information refer to aka.ms/azureimds"#;
    for error in [VersionError::Missing, VersionError::NotADate] {
        check(MetadataError::api_version(Endpoint::Instance, Some("x"), error), 400, invalid);
        check(MetadataError::api_version(Endpoint::ScheduledEvents, Some("x"), error), 400, invalid);
    }
    let given = Some("2024-07-09");
    check(MetadataError::api_version(Endpoint::Instance, given, VersionError::NotServed), 400, invalid);
    check(
        MetadataError::api_version(Endpoint::ScheduledEvents, given, VersionError::NotServed),
        404,
        r#"{ "error": "Not found. Invalid version requested"#,
    );
}

#[test]
fn newest_versions_belong_to_the_path() {
    let newest = |endpoint| {
        let refusal = MetadataError::api_version(endpoint, None, VersionError::Missing);
        let body: Value = serde_json::from_str(&refusal.body()).unwrap();
        body["newest-versions"].clone()
    };
    assert_eq!(newest(Endpoint::ScheduledEvents), Value::from(vec!["2020-07-01", "2019-08-01", "2019-04-01"]));
    assert_eq!(newest(Endpoint::Instance), Value::from(vec!["2025-04-07", "2024-07-17", "2024-03-15"]));
}
