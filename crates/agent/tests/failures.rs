//! Services that are gone, busy or talk nonsense; set-ups that cannot work; the dry run.

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::thread;

use support::{Guest, World};

/// Gives the same answer to everybody until it is told another one. The agent's own name is `web`.
struct Service {
    url: String,
    answer: Arc<Mutex<String>>,
    count: Arc<Mutex<usize>>,
}

impl Service {
    fn new(first: &str) -> Service {
        Service::at(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap(), first)
    }

    fn at(listener: TcpListener, first: &str) -> Service {
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (answer, count) = (Arc::new(Mutex::new(first.to_owned())), Arc::new(Mutex::new(0)));
        let service = Service { url, answer: answer.clone(), count: count.clone() };
        thread::spawn(move || {
            let mut silent = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while lines.next().is_some_and(|line| line.is_ok_and(|line| !line.is_empty())) {}
                *count.lock().unwrap() += 1;
                let answer = answer.lock().unwrap().clone();
                if answer == SILENCE {
                    silent.push(stream);
                    continue;
                }
                // One that hangs up first is the agent's to deal with.
                let _ = stream.write_all(answer.as_bytes());
            }
        });
        service
    }

    fn says(&self, answer: &str) {
        *self.answer.lock().unwrap() = answer.to_owned();
    }

    /// The agent was answered so many times more.
    fn wait_for(&self, more: usize) {
        let now = *self.count.lock().unwrap();
        support::until("the agent asks", || (*self.count.lock().unwrap() >= now + more).then_some(()));
    }
}

/// The connection stays open, and nothing comes.
const SILENCE: &str = "";

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn document(incarnation: u32, events: &str) -> String {
    answer("200 OK", &format!(r#"{{"DocumentIncarnation":{incarnation},"Events":[{events}]}}"#))
}

const EVENT: &str = r#"{"EventId":"E1","EventStatus":"Started","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["web"],"NotBefore":"","Description":"","EventSource":"Platform","DurationInSeconds":-1}"#;

/// Trouble from the start, in the middle of an event and at its end: each is complained of once, however
/// often the agent asks, and what happens to the event meanwhile is not lost.
#[track_caller]
fn check_trouble(trouble: &str, words: &str) {
    let service = Service::new(trouble);
    let mut guest = Guest::new(&service.url);
    guest.mark_all_phases();
    guest.config("name = 'web'");
    guest.start();
    guest.wait_for_log(words);
    service.wait_for(6);
    assert_eq!(guest.log_count("no news"), 1, "{}", guest.log());

    service.says(&document(1, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service answers again");

    // It is not the end of the event.
    service.says(trouble);
    service.wait_for(6);
    service.says(&document(2, EVENT));
    service.wait_for(4);
    assert_eq!(guest.marks(), ["started Reboot Started"]);
    service.says(&document(3, ""));
    guest.wait_for_marks(&["started Reboot Started", "restore Reboot Started"]);
    assert!(guest.log_count("no news") <= 2, "{}", guest.log());
    assert_eq!(guest.log_count("no news"), guest.log_count("the service answers again"), "{}", guest.log());
}

#[test]
fn web_pages_are_complained_of_once_and_no_event_is_lost() {
    check_trouble(&answer("200 OK", "<html>no"), "the service answers nonsense: the answer is not JSON");
}

#[test]
fn errors_of_the_service_are_complained_of_once_and_no_event_is_lost() {
    check_trouble(&answer("500 Oops", "no"), "no news, trying again until there are: ");
}

#[test]
fn pages_of_another_server_are_complained_of_once_and_no_event_is_lost() {
    check_trouble(&answer("404 Not Found", "<html><h1>404"), "no news, trying again until there are: ");
}

#[test]
fn half_documents_are_complained_of_once_and_no_event_is_lost() {
    check_trouble(&answer("200 OK", r#"{"DocumentIncarnation":1,"Eve"#), "the service answers nonsense: ");
}

#[test]
fn answers_that_break_off_are_complained_of_once_and_no_event_is_lost() {
    let half = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"DocumentIncarnation\":1,";
    check_trouble(half, "no news, trying again until there are: ");
}

#[test]
fn other_protocols_are_complained_of_once_and_no_event_is_lost() {
    check_trouble("SSH-2.0-OpenSSH_9.2\r\n", "no news, trying again until there are: ");
}

#[test]
fn a_service_that_hangs_is_complained_of_once_and_asked_again() {
    let service = Service::new(&document(1, ""));
    let mut guest = Guest::new(&service.url);
    guest.mark_all_phases();
    guest.config("name = 'web'\nwait = false\ntimeout = '500ms'");
    guest.start();
    guest.wait_for_log("watching");
    service.says(SILENCE);
    guest.wait_for_log(" did not answer within ");
    service.wait_for(4);
    assert_eq!(guest.log_count("no news"), guest.log_count("the service answers again") + 1, "{}", guest.log());
    service.says(&document(2, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service answers again");
}

#[test]
fn a_service_that_is_gone_is_complained_of_once_and_waited_for() {
    // A port that was free a moment ago.
    let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut guest = Guest::new(&format!("http://{address}"));
    guest.mark_all_phases();
    guest.config("name = 'web'");
    guest.start();
    guest.wait_for_log("no news, trying again until there are: ");
    let service = Service::at(TcpListener::bind(address).unwrap(), &document(1, EVENT));
    guest.wait_for_marks(&["started Reboot Started"]);
    guest.wait_for_log("the service answers again");
    assert_eq!(guest.log_count("no news"), 1, "{}", guest.log());
    drop(service);
    assert!(guest.terminate().success());
}

#[track_caller]
fn check_refused(guest: &Guest, words: &[&str]) {
    let output = guest.output("run");
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success());
    for word in words {
        assert!(text.contains(word), "{word:?} is not in {text}");
    }
    assert_eq!(text.lines().count(), 1, "{text}");
}

#[test]
fn a_set_up_that_cannot_work_is_an_error_at_the_start() {
    let guest = Guest::new("http://127.0.0.1:1");
    guest.config("\n[approve]\nreboot = 'later'\n");
    check_refused(&guest, &["agent.toml:3: unknown variant `later`, expected one of `after-hooks`, `at-once`"]);
    guest.config("\nhoks = '/x'");
    check_refused(&guest, &["agent.toml:2: unknown field `hoks`, expected one of `endpoint`, "]);
    guest.config("");
    fs::write(guest.path("hooks").join("prepare"), "#!/bin/sh\n").unwrap();
    check_refused(&guest, &["hooks/prepare cannot run: it is not executable"]);
    guest.hook("prepare", "true");
    guest.hook("rebot.prepare", "true");
    check_refused(&guest, &["rebot.prepare is not named as a hook; there are prepare, ", "reboot.prepare"]);
}

#[test]
fn one_state_directory_is_for_one_agent() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.start();
    world.wait_until_on(machine);
    check_refused(&guest, &["another agent uses the state directory"]);
}

#[test]
fn a_dry_run_runs_every_hook_of_the_type_and_records_nothing() {
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
    assert!(!output.status.success());
    assert!(String::from_utf8(output.stdout).unwrap().contains("preempt.prepare failed, exit status: 2\n"));
    let status = guest.output("status");
    assert_eq!(String::from_utf8(status.stdout).unwrap(), "no events so far\n");
}
