//! Kills the server while a scale set grows and shrinks: the last acknowledged capacity holds, and the instances match it.

use std::sync::mpsc::{self, Sender};
use std::time::Instant;

use serde_json::json;

use super::ledger::Life;
use super::server::Server;
use super::{PATIENCE, Random, kills};

/// Limit of acknowledgements between two kills.
const ACKNOWLEDGED_MAX: u64 = 6;

/// The most instances.
const CAPACITY_MAX: u64 = 6;

/// The capacities that the set may have: the last acknowledged one, and those requested since.
struct Possible(Vec<u64>);

#[test]
fn no_acknowledged_scaling_is_lost_by_sigkill() {
    let data = tempfile::tempdir().expect("a directory for the data");
    let mut random = Random(0x5ca1e);
    let model = json!({ "terminateNotification": { "notBeforeTimeout": "PT5M" } });
    let body = json!({ "name": "set", "capacity": 2, "orchestration": "Uniform", "model": model });
    let made = Server::start(data.path()).manage("POST", "/scale-sets", &body).expect("an answer");
    assert_eq!(made.status, 201, "{}", made.body);
    let mut possible = Possible(vec![2]);
    for kill in 0..kills() / 10 {
        let server = Server::start(data.path());
        let (acknowledged, acknowledgements) = mpsc::channel();
        std::thread::scope(|scope| {
            let (server, possible, chosen) = (&server, &mut possible, Random(random.draw()));
            scope.spawn(move || scale_until_gone(server, possible, chosen, &acknowledged));
            for _ in 0..=random.below(ACKNOWLEDGED_MAX) {
                acknowledgements
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|_| panic!("nothing is acknowledged before kill {kill}"));
            }
            server.kill();
        });
    }
    let server = Server::start(data.path());
    server.wait_until_all_finished(PATIENCE);
    check(&server, &possible);
    check_notice(&server);
}

/// Every announced deletion was carried out, and none before its time: no instance approved.
fn check_notice(server: &Server) {
    let rows = server.read("/history?kind=appeared&limit=1000");
    let deletions = rows["value"].as_array().expect("a list").iter().filter(|row| row["detail"]["type"] == "Terminate");
    let mut announced = 0;
    for row in deletions {
        let id = row["event"].as_str().expect("an ID");
        let life = Life::read(server, id);
        assert!(life.has("ended"), "the deletion {id} has not ended");
        assert!(life.started_when_due(), "the deletion {id} started early: {row}");
        announced += 1;
    }
    assert!(announced > 0, "no deletion was announced");
}

/// Every second request comes after an instance has read its document, so that deletions are announced.
fn scale_until_gone(server: &Server, possible: &mut Possible, mut random: Random, acknowledged: &Sender<()>) {
    loop {
        if random.below(2) == 0 && server.document(&format!("set_{}", random.below(CAPACITY_MAX))).is_none() {
            return;
        }
        let capacity = 1 + random.below(CAPACITY_MAX);
        possible.0.push(capacity);
        let Some(answer) = server.manage("PATCH", "/scale-sets/set", &json!({ "capacity": capacity })) else { return };
        assert_eq!(answer.status, 200, "{}", answer.body);
        possible.0 = vec![capacity];
        if acknowledged.send(()).is_err() {
            return;
        }
    }
}

fn check(server: &Server, possible: &Possible) {
    let set = server.read("/scale-sets/set");
    let capacity = set["capacity"].as_u64().expect("a number");
    assert!(possible.0.contains(&capacity), "the capacity is {capacity}, not one of {:?}", possible.0);
    let begun = Instant::now();
    while server.read("/scale-sets/set")["machines"].as_u64() != Some(capacity) {
        assert!(begun.elapsed() < PATIENCE, "the set has {} machines, not {capacity}", set["machines"]);
        std::thread::yield_now();
    }
}
