//! Tests of the document parser: golden files of every version, captured documents, and invalid ones.

use std::time::{Duration, UNIX_EPOCH};

use forewarn_client::{Document, Event, EventId, EventKind, EventSource, EventStatus, Version};

/// Parses a document of the newest version. The expected text is a summary, or the error.
fn check(body: &str, expected: &str) {
    let found = match Document::parse(Version::V2020_07_01, body.as_bytes()) {
        Ok(document) => {
            format!("{} {:?}", document.incarnation, document.events.iter().map(summarize).collect::<Vec<_>>())
        }
        Err(error) => error.to_string(),
    };
    assert_eq!(found, expected, "{body}");
}

fn summarize(event: &Event) -> String {
    let names: Vec<_> = event.resources.iter().map(|resource| resource.name()).collect();
    let status = event.status.as_str();
    format!("{} {status} {} of {} at {}", event.id, event.kind, names.join("+"), event.not_before_text())
}

/// Checks a document with one event, some keys of which are overridden; `null` removes a key.
fn check_event(changes: &str, expected: &str) {
    let event = r#""EventId":"A-1","EventStatus":"Scheduled","EventType":"Reboot","Resources":["web"],"NotBefore":"""#;
    let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{{{event}{changes}}}]}}"#);
    check(&body, expected);
}

const INVALID_EVENT: &str = "invalid document: Events[0].";

#[test]
fn documents_of_every_version_round_trip() {
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/../wire/tests/golden");
    for version in Version::ALL {
        let text = std::fs::read_to_string(format!("{golden}/events-{version}.json")).unwrap();
        let document = Document::parse(version, text.as_bytes()).unwrap();
        let events: Vec<_> = document.events.iter().map(Event::to_json).collect();
        let again = format!(r#"{{"DocumentIncarnation":{},"Events":[{}]}}"#, document.incarnation, events.join(","));
        assert_eq!(again, text.trim_end(), "{version}");
        for event in &document.events {
            assert_eq!(&Event::parse(version, &event.to_json()).unwrap(), event);
        }
    }
}

#[test]
fn every_field_of_the_newest_version_is_parsed() {
    let captured = r#"{"DocumentIncarnation":7,"Events":[{"EventId":"A9A902A0-0000-45AC-81AE-8BDA818F5958","EventStatus":"Scheduled","EventType":"Redeploy","ResourceType":"VirtualMachine","Resources":["web_3"],"NotBefore":"Wed, 21 Feb 2024 03:08:47 GMT","Description":"Virtual machine is going to be redeployed as requested by authorized user.","EventSource":"User","DurationInSeconds":-1}]}"#;
    let document = Document::parse(Version::V2020_07_01, captured.as_bytes()).unwrap();
    let event = &document.events[0];
    assert_eq!(event.id, EventId::parse("a9a902a0-0000-45ac-81ae-8bda818f5958").unwrap());
    assert_eq!((event.status, &event.kind), (EventStatus::Scheduled, &EventKind::Redeploy));
    assert_eq!(event.not_before, Some(UNIX_EPOCH + Duration::from_secs(1_708_484_927)));
    assert_eq!(event.source, Some(EventSource::User));
    assert_eq!((event.duration_secs, event.duration()), (Some(-1), None));
    assert!(event.description.as_ref().unwrap().starts_with("Virtual machine"));
    assert!(event.affects("web_3") && event.affects("WEB_3") && !event.affects("web"));
}

#[test]
fn captured_documents_of_older_versions_are_parsed() {
    check(r#"{"DocumentIncarnation":1,"Events":[]}"#, "1 []");
    check(
        r#"{"DocumentIncarnation":192,"Events":[{"EventId":"28512AF7-C957-4500-9BC4-842D6FB531E4","EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["sample_4"],"NotBefore":"Wed, 24 Jan 2018 21:20:44 GMT"}]}"#,
        r#"192 ["28512AF7-C957-4500-9BC4-842D6FB531E4 Scheduled Reboot of sample_4 at Wed, 24 Jan 2018 21:20:44 GMT"]"#,
    );
}

#[test]
fn unknown_values_and_keys_are_tolerated() {
    check_event(
        r#","EventType":"SpotRebalanceRecommendation","EventSource":"Moon","New":[{}]"#,
        r#"1 ["A-1 Scheduled SpotRebalanceRecommendation of web at "]"#,
    );
    check_event(r#","EventStatus":"started","EventType":"FREEZE""#, r#"1 ["A-1 Started Freeze of web at "]"#);
    check_event(
        r#","NotBefore":"2016-09-19T18:29:47Z""#,
        r#"1 ["A-1 Scheduled Reboot of web at Mon, 19 Sep 2016 18:29:47 GMT"]"#,
    );
    check_event(r#","NotBefore":null,"Description":null"#, r#"1 ["A-1 Scheduled Reboot of web at "]"#);
    check_event(r#","Resources":[]"#, r#"1 ["A-1 Scheduled Reboot of  at "]"#);
    check("\u{FEFF}{\"DocumentIncarnation\":1,\"Events\":[],\"x\":1}", "1 []");
}

#[test]
fn invalid_documents_are_errors_that_name_the_problem() {
    let wrong = |problem: &str| format!("invalid document: {problem}");
    check("", r#"not JSON (line 1, column 0): """#);
    check("<html>sign in", r#"not JSON (line 1, column 1): "<html>sign in""#);
    check("[]", &wrong("the top level is not an object"));
    check("{}", &wrong("DocumentIncarnation is missing"));
    check(r#"{"error":"x"}"#, &wrong("DocumentIncarnation is missing"));
    check(r#"{"DocumentIncarnation":"1","Events":[]}"#, &wrong("DocumentIncarnation is not a whole number"));
    check(r#"{"DocumentIncarnation":-1,"Events":[]}"#, &wrong("DocumentIncarnation is not a whole number"));
    check(r#"{"DocumentIncarnation":1}"#, &wrong("Events is missing"));
    check(r#"{"DocumentIncarnation":1,"Events":{}}"#, &wrong("Events is not a list"));
    check(r#"{"DocumentIncarnation":1,"Events":[7]}"#, &wrong("Events[0] is not an object"));
    let check_problem = |changes: &str, problem: &str| check_event(changes, &format!("{INVALID_EVENT}{problem}"));
    check_problem(r#","EventId":null"#, "EventId is missing");
    check_problem(r#","EventId":"../etc/passwd""#, r#"EventId "../etc/passwd" is not a valid ID"#);
    check_problem(r#","EventId":"""#, r#"EventId "" is not a valid ID"#);
    check_problem(r#","EventId":7"#, "EventId is not a string");
    check_problem(r#","EventStatus":"Completed""#, r#"EventStatus "Completed" is neither Scheduled nor Started"#);
    check_problem(r#","EventType":null"#, "EventType is missing");
    check_problem(r#","Resources":"web""#, "Resources is not a list");
    check_problem(r#","Resources":["web",1]"#, "Resources has an entry that is not a string");
    check_problem(r#","NotBefore":"soon""#, r#"NotBefore "soon" is neither an RFC 1123 nor an ISO 8601 time"#);
    check_problem(r#","DurationInSeconds":"5""#, "DurationInSeconds is not a whole number");
    let twice = r#"{"EventId":"a","EventStatus":"Started","EventType":"Reboot","Resources":[]}"#;
    let body = format!(r#"{{"DocumentIncarnation":1,"Events":[{twice},{}]}}"#, twice.replace("\"a\"", "\"A\""));
    check(&body, "invalid document: Events[1].EventId 'A' occurs twice");
}

#[test]
fn the_underscore_of_the_first_version_is_removed_from_names() {
    let event = |version, name: &str| {
        let text = format!(r#"{{"EventId":"a","EventStatus":"Started","EventType":"Reboot","Resources":["{name}"]}}"#);
        Event::parse(version, &text).unwrap()
    };
    let old = event(Version::V2017_03_01, "_web");
    assert_eq!((old.resources[0].name(), old.resources[0].raw()), ("web", "_web"));
    assert!(old.affects("web") && old.affects("_web") && !old.affects("eb"));
    assert_eq!(event(Version::V2017_03_01, "__web").resources[0].name(), "_web");
    assert_eq!(event(Version::V2017_03_01, "FrontEnd_IN_0").resources[0].name(), "FrontEnd_IN_0");
    assert!(!event(Version::V2017_08_01, "_web").affects("web"));
}
