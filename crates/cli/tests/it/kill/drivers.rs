//! Kills the server while a driver command carries out events: every started event is carried out, and a command that runs
//! again knows it.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::json;

use super::server::{MACHINES, Server};
use super::{PATIENCE, Random, kills};

/// Appends a line per run: the event, the machine, and `1` for a repeated run.
fn write_driver(directory: &Path) -> String {
    let (program, log) = (directory.join("driver"), directory.join("log"));
    let script = format!("#!/bin/sh\necho \"$EVENT_ID $MACHINE_NAME ${{FOREWARN_RERUN:-0}}\" >> '{}'\n", log.display());
    std::fs::write(&program, script).expect("a script");
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("an executable");
    program.to_string_lossy().into_owned()
}

#[test]
fn no_started_event_is_forgotten_by_the_driver_after_sigkill() {
    let directory = tempfile::tempdir().expect("a directory");
    let data = directory.path().join("data");
    let flags = ["--driver-command".to_owned(), write_driver(directory.path())];
    let start = || Server::start_with(&data, &flags);
    start().register_fleet();
    let mut random = Random(0xd21);
    let mut approved = Vec::new();
    for _ in 0..kills() / 10 {
        let server = start();
        for _ in 0..=random.below(3) {
            let machine = format!("m{}", random.below(MACHINES));
            server.document(&machine).expect("a document");
            let event =
                format!("{:08X}-0000-4000-8000-{:012X}", random.draw() as u32, random.draw() & 0xffff_ffff_ffff);
            let body = json!({ "target": { "machine": machine }, "type": "Freeze", "eventId": event });
            let answer = server.manage("POST", "/maintenance", &body).expect("an answer");
            assert_eq!(answer.status, 202, "{}", answer.body);
            assert_eq!(server.approve(&machine, &event).expect("an answer").status, 200);
            approved.push((event, machine));
        }
        server.kill();
    }
    let server = start();
    server.wait_until_all_finished(PATIENCE);
    check(&server, &std::fs::read_to_string(directory.path().join("log")).expect("the log"), &approved);
}

fn check(server: &Server, log: &str, approved: &[(String, String)]) {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for line in log.lines() {
        let (run, repeated) = line.rsplit_once(' ').expect("a line of the driver");
        runs.entry(run).or_default().push(repeated);
    }
    for (event, machine) in approved {
        let found =
            runs.get(format!("{event} {machine}").as_str()).unwrap_or_else(|| panic!("{event} was never carried out"));
        let first = found.iter().filter(|repeated| **repeated == "0").count();
        assert!(first <= 1, "{event} was carried out again without notice: {found:?}");
        let rows = server.read(&format!("/history?event={event}&kind=ended"));
        assert_eq!(rows["value"][0]["outcome"], "completed", "{rows}");
    }
}
