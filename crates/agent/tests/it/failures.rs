//! Tests with failing services and invalid configurations, and of `forewarn-agent test`.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support;
use crate::support::{Guest, World};

/// Service that sends the same response to every request until it is changed.
struct Service {
    url: String,
    response: Arc<Mutex<String>>,
    count: Arc<Mutex<usize>>,
}

impl Service {
    fn new(first: &str) -> Service {
        Service::at(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), first)
    }

    fn at(listener: TcpListener, first: &str) -> Service {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (response, count) = (Arc::new(Mutex::new(first.to_owned())), Arc::new(Mutex::new(0)));
        let service = Service { url, response: response.clone(), count: count.clone() };
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                *count.lock().unwrap() += 1;
                let response = response.lock().unwrap().clone();
                if response == SILENCE {
                    silent.push(stream);
                    continue;
                }
                // An error means that the agent has closed the connection.
                let _ = stream.write_all(response.as_bytes());
            }
        });
        service
    }

    fn set_response(&self, response: &str) {
        *self.response.lock().unwrap() = response.to_owned();
    }

    /// Waits until the agent has sent this many more requests.
    fn wait_for_requests(&self, more: usize) {
        let now = *self.count.lock().unwrap();
        support::poll_until("the agent sends requests", || (*self.count.lock().unwrap() >= now + more).then_some(()));
    }
}

/// Keeps the connection open without a response.
const SILENCE: &str = "";

fn response(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn document(incarnation: u32, events: &str) -> String {
    response("200 OK", &format!(r#"{{"DocumentIncarnation":{incarnation},"Events":[{events}]}}"#))
}

const EVENT: &str = r#"{"EventId":"E1","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["web"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":-1}"#;

/// Checks a failure at the start, during an event and at its end: each outage is logged once, however often the agent
/// polls, and no change of the event is lost.
#[track_caller]
fn check_outage(failure: &str, message: &str) {
    let service = Service::new(failure);
    let mut guest = Guest::new(&service.url);
    guest.mark_all_phases();
    guest.config("name = 'web'");
    guest.start();
    guest.wait_for_log(message);
    service.wait_for_requests(6);
    assert_eq!(guest.log_count("polling failed"), 1, "{}", guest.log());

    service.set_response(&document(1, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service responds again");

    // An outage does not finish the event.
    service.set_response(failure);
    service.wait_for_requests(6);
    service.set_response(&document(2, EVENT));
    service.wait_for_requests(4);
    assert_eq!(guest.marks(), ["started Reboot Started"]);
    service.set_response(&document(3, ""));
    guest.wait_for_marks(&["started Reboot Started", "restore Reboot Started"]);
    assert!(guest.log_count("polling failed") <= 2, "{}", guest.log());
    assert_eq!(guest.log_count("polling failed"), guest.log_count("the service responds again"), "{}", guest.log());
}

#[test]
fn web_pages_are_logged_once_and_no_event_is_lost() {
    check_outage(&response("200 OK", "<html>no"), "invalid response: not JSON");
}

#[test]
fn status_500_is_logged_once_and_no_event_is_lost() {
    check_outage(&response("500 Oops", "no"), "polling failed, retrying: ");
}

#[test]
fn status_404_is_logged_once_and_no_event_is_lost() {
    check_outage(&response("404 Not Found", "<html><h1>404"), "polling failed, retrying: ");
}

#[test]
fn truncated_documents_are_logged_once_and_no_event_is_lost() {
    check_outage(&response("200 OK", r#"{"DocumentIncarnation":1,"Eve"#), "invalid response: ");
}

#[test]
fn truncated_responses_are_logged_once_and_no_event_is_lost() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"DocumentIncarnation\":1,";
    check_outage(half, "polling failed, retrying: ");
}

#[test]
fn other_protocols_are_logged_once_and_no_event_is_lost() {
    check_outage("SSH-2.0-OpenSSH_9.2\r\n", "polling failed, retrying: ");
}

#[test]
fn a_service_that_hangs_is_logged_once_and_retried() {
    let service = Service::new(&document(1, ""));
    let mut guest = Guest::new(&service.url);
    guest.mark_all_phases();
    guest.config("name = 'web'\nwait = false\ntimeout = '500ms'");
    guest.start();
    guest.wait_for_log("watching");
    service.set_response(SILENCE);
    guest.wait_for_log(" did not respond within ");
    service.wait_for_requests(4);
    assert_eq!(guest.log_count("polling failed"), guest.log_count("the service responds again") + 1, "{}", guest.log());
    service.set_response(&document(2, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service responds again");
}

#[test]
fn an_unreachable_service_is_logged_once_and_retried() {
    // This port was free a moment ago.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut guest = Guest::new(&format!("http://{address}"));
    guest.mark_all_phases();
    guest.config("name = 'web'");
    guest.start();
    guest.wait_for_log("polling failed, retrying: ");
    let service = Service::at(TcpListener::bind(address).unwrap(), &document(1, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service responds again");
    assert_eq!(guest.log_count("polling failed"), 1, "{}", guest.log());
    drop(service);
    assert!(guest.terminate().success());
}

#[track_caller]
fn check_rejected(guest: &Guest, fragments: &[&str]) {
    let output = guest.output("run");
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    for fragment in fragments {
        assert!(text.contains(fragment), "{fragment:?} is not in {text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn an_invalid_configuration_is_an_error_at_startup() {
    let guest = Guest::new("http://127.0.0.1:1");
    guest.config("\n[approve]\nreboot = 'later'\n");
    check_rejected(&guest, &["agent.toml:3: unknown variant `later`, expected one of `after-hooks`, `at-once`"]);
    guest.config("\nhoks = '/x'");
    check_rejected(&guest, &["agent.toml:2: unknown field `hoks`, expected one of `endpoint`, "]);
    guest.config("");
    fs::write(guest.path("hooks").join("prepare"), "#!/bin/sh\n").unwrap();
    check_rejected(&guest, &["cannot run the hook ", "hooks/prepare: not executable"]);
    guest.hook("prepare", "true");
    guest.hook("rebot.prepare", "true");
    check_rejected(&guest, &["rebot.prepare is not a valid hook name; use one of prepare, ", "reboot.prepare"]);
}

#[test]
fn a_state_directory_can_be_used_by_one_agent_only() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.hook("prepare", "");
    guest.start();
    world.wait_until_on(machine);
    check_rejected(&guest, &["is in use by another agent"]);
}

#[test]
fn the_test_command_runs_every_hook_of_the_type_and_records_nothing() {
    let guest = Guest::new("http://127.0.0.1:1");
    guest.mark_all_phases();
    guest.hook("preempt.prepare", "exit 2");
    guest.hook("reboot.restore", "echo special >> $MARKS");
    let output = guest.command("test").args(["--type", "Reboot"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text, "prepare succeeded\nstarted succeeded\nreboot.restore succeeded\nrestore succeeded\n");
    let marks = ["prepare Reboot Scheduled", "started Reboot Started", "special", "restore Reboot Started"];
    assert_eq!(guest.marks(), marks);
    assert!(!guest.path("state").exists());

    let output = guest.command("test").args(["--type", "preempt"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8(output.stdout).unwrap().contains("preempt.prepare failed: exit status: 2\n"));
    let status = guest.output("status");
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "no events so far\n");
}

#[test]
fn the_exit_code_tells_a_broken_installation_from_a_failed_hook() {
    let guest = Guest::new("http://127.0.0.1:1");
    fs::write(guest.path("hooks").join("prepare"), "#!/bin/sh\n").unwrap();
    fs::create_dir_all(guest.path("state")).unwrap();
    fs::write(guest.path("state").join("state.json"), "{").unwrap();
    for (command, fragment) in [("test", "hooks/prepare: not executable"), ("status", "invalid state file ")] {
        let output = guest.output(command);
        let text = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        assert!(text.contains(fragment), "{text}");
    }
}

#[test]
fn an_agent_without_hooks_and_actions_does_not_start() {
    let guest = Guest::new("http://127.0.0.1:9");
    let output = guest.output("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("no hooks or actions are configured") && said.contains("--approve-without-hooks"), "{said}");
}

#[test]
fn an_agent_that_never_approves_needs_no_hooks() {
    let mut guest = Guest::new("http://127.0.0.1:9");
    guest.config("[approve]\ndefault = 'never'\n");
    guest.start_with(&[]);
    guest.wait_for_log("hooks and actions: none");
}
