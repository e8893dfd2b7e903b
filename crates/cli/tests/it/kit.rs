//! Commands for testing handlers: faults, requests, waiting.

use std::io::BufReader;
use std::process::Stdio;

use crate::support;
use crate::support::transcript;
use crate::support::{Server, check, document, expect, read_until, text};

const ID: &str = "602D9444-D2CD-49C7-8624-8643E7171297";

fn json(server: &Server, words: &str) -> serde_json::Value {
    let output = server.run(&format!("{words} -o json"));
    assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn with_web_0() -> Server {
    let server = Server::start();
    check(&server, "vm register web_0 --no-address", 0, "Created machine web_0", "");
    server
}

#[test]
fn the_transcripts_in_faults_md_are_true() {
    let server = Server::start_with(&format!("{} --default-machine web_0", support::THROW_AWAY));
    transcript::run("docs/faults.md", &document("docs/faults.md"), &server);
}

#[test]
fn every_kind_of_fault_can_be_added() {
    let server = with_web_0();
    for (words, told) in [
        ("--status 410", "Status 410 for all machines, until cleared"),
        ("--status 503 --count 2", "Status 503, Retry-After 1s for all machines, 2 requests left"),
        ("--delay 250ms --vm web_0", "Delay 250ms for web_0, until cleared"),
        ("--reset --method post", "Reset, POST only for all machines, until cleared"),
        ("--truncated --documents-only", "Truncated, documents only for all machines, until cleared"),
        ("--malformed --percent 10 --for 1m", "Malformed, 10% of requests for all machines, until 2026-07-28 10:01:00"),
        ("--slow-first-call 20s", "SlowFirstCall 20s for all machines, until cleared"),
        ("--incarnation-restart", "IncarnationRestart for all machines, until cleared"),
        ("--events-vanish", "EventsVanish for all machines, until cleared"),
    ] {
        check(&server, &format!("fault add {words}"), 0, &format!("Added fault [..]: {told}"), "");
    }
    assert_eq!(json(&server, "fault list").as_array().unwrap().len(), 9);
    assert_eq!(json(&server, "fault show 3")["fault"]["delaySeconds"], 0.25);
    check(&server, "fault show 3", 0, "ID  MACHINE[..]\n3   web_0    Delay 250ms  until cleared  0 times", "");
    check(&server, "fault list --vm web_0", 0, "ID  MACHINE[..]\n3   web_0[..]", "");
    check(&server, "fault clear --vm web_0", 0, "Cleared fault 3: Delay 250ms, applied 0 times", "");
    check(&server, "fault clear 1", 0, "Cleared fault 1: Status 410, applied 0 times", "");
    assert_eq!(json(&server, "fault clear --all").as_array().unwrap().len(), 7);
    check(&server, "fault clear --all", 0, "There are no faults to clear.", "");
}

#[test]
fn mistyped_arguments_are_reported_with_a_suggestion() {
    let server = with_web_0();
    for (words, tip) in [
        ("fault add --truncate", "a similar argument exists: '--truncated'"),
        ("fault add --status 600", "a whole number from 200 to 599"),
        ("fault add --reset --malformed", "cannot be used with"),
        ("fault add --reset --retry-after 2s", "--status"),
        ("fault add --status 500 --retry-after 2s", "cannot be used with --status 500"),
        ("fault add", "--status <CODE>"),
        ("fault clear", "--all"),
        ("events wait --status appoved", "a similar value exists: 'approved'"),
        ("events wait --status gone --type Rebot", "a similar value exists: 'Reboot'"),
        ("events wait", "--status"),
    ] {
        let output = server.run(words);
        let complaint = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{words}: {complaint}");
        assert!(complaint.contains(tip), "{words}: {complaint}");
    }
    check(&server, "fault add --reset --vm web_9", 1, "", "forewarn: No machine is named 'web_9'[..]");
    check(&server, "fault add --events-vanish --method POST", 1, "", "forewarn: EventsVanish[..]Omit the method.");
    check(&server, "fault clear 7", 1, "", "forewarn: Fault 7 does not exist[..]");
    check(&server, "vm requests web_9", 1, "", "forewarn: No machine is named 'web_9'[..]");
    check(&server, "fault list", 0, "There are no faults.", "");
}

#[test]
fn requests_are_followed_as_they_arrive() {
    let server = with_web_0();
    check(&server, "vm requests web_0", 0, "The machine has sent no requests since the server started.", "");
    server.document("web_0");
    let mut following = server.command("vm requests web_0 --follow").stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap());
    let line = "2026-07-28 10:00:00  GET  /metadata/scheduledevents  2020-07-01  200";
    assert_eq!(read_until(&mut lines, "2026"), [line]);
    check(&server, "clock advance 7s", 0, "…", "");
    server.document("web_0");
    assert_eq!(read_until(&mut lines, "2026"), [line.replace("10:00:00", "10:00:07")]);
    following.kill().unwrap();
    following.wait().unwrap();
    let summary = &json(&server, "vm requests web_0")["summary"];
    assert_eq!((&summary["polls"], &summary["gapLongestSeconds"]), (&2.into(), &7.0.into()));
}

#[test]
fn waiting_ends_when_the_status_is_reached_or_times_out() {
    let server = with_web_0();
    server.document("web_0");
    let wait = "events wait --vm web_0 --type Reboot --timeout 300s --since 2026-07-28T10:00:00Z --status";
    let waiting: Vec<_> = ["scheduled", "approved", "started", "gone"]
        .into_iter()
        .map(|status| (status, server.command(&format!("{wait} {status}")).stdout(Stdio::piped()).spawn().unwrap()))
        .collect();
    check(&server, &format!("vm restart web_0 --no-wait --event-id {ID}"), 0, "…", "");
    check(&server, &format!("events approve {ID}"), 0, "…", "");
    check(&server, "clock advance 10m", 0, "…", "");
    for (status, waiting) in waiting {
        let told = format!("{ID}: Reboot of web_0, Scheduled 10:00:00[..]");
        expect(&format!("{wait} {status}"), &waiting.wait_with_output().unwrap(), 0, &told, "");
    }
    for (words, complaint) in [
        (
            "--vm web_0 --status gone",
            "timed out after 0s: no event of web_0 ended. The clock is manual: run `forewarn clock advance [..]` to let time pass.",
        ),
        ("--type Freeze --status started", "timed out after 0s: no Freeze started. The clock is manual: [..]"),
        (
            "--event C7061BAC-AFDC-4513-B24B-AA5F13A16123 --status scheduled",
            "timed out after 0s: event C7061BAC-[..] did not appear",
        ),
    ] {
        check(&server, &format!("events wait --timeout 0 {words}"), 5, "", &format!("forewarn: {complaint}"));
    }
}

#[test]
fn waiting_ends_when_the_status_can_no_longer_be_reached() {
    let server = with_web_0();
    server.document("web_0");
    check(&server, &format!("vm restart web_0 --no-wait --event-id {ID}"), 0, "…", "");
    let mut waiting = server
        .command("events wait --vm web_0 --type Reboot --timeout 300s --since 2026-07-28T10:00:00Z --status approved");
    let waiting = waiting.stderr(Stdio::piped()).spawn().unwrap();
    check(&server, &format!("events cancel {ID}"), 0, "…", "");
    let life = "Reboot of web_0, Scheduled 10:00:00 · Canceled by owner 10:00:00";
    let missed = format!("forewarn: the event finished and was not approved: {ID}: {life}");
    let by_id = format!("events wait --event {ID} --timeout 300s --status");
    check(&server, &format!("{by_id} approved"), 6, "", &missed);
    check(
        &server,
        &format!("{by_id} started"),
        6,
        "",
        &format!("forewarn: the event finished and did not start: {ID}: [..]"),
    );
    check(&server, &format!("{by_id} gone"), 0, "…", "");
    assert_eq!(json_of(&server, &format!("{by_id} approved"), 6)["missed"], true);
    let done = waiting.wait_with_output().unwrap();
    expect("events wait --vm web_0", &done, 6, "", &missed);
}

fn json_of(server: &Server, words: &str, code: i32) -> serde_json::Value {
    let output = server.run(&format!("{words} -o json"));
    assert_eq!(output.status.code(), Some(code), "{words}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_handler_meets_the_fault_that_was_added() {
    let server = with_web_0();
    check(&server, "fault add --vm web_0 --status 500 --count 1", 0, "…", "");
    let url = format!("{}/vm/web_0/metadata/scheduledevents?api-version=2020-07-01", server.metadata);
    let answer = ureq::get(url).header("Metadata", "true").call();
    assert!(matches!(answer, Err(ureq::Error::StatusCode(500))), "{answer:?}");
    assert!(server.document("web_0").contains("DocumentIncarnation"));
    let requests = json(&server, "vm requests web_0");
    assert_eq!(requests["value"][0]["faults"], serde_json::json!([{"id": 1, "kind": "Status"}]));
    assert_eq!(requests["value"][1]["status"], 200);
}
