//! Three servers on three members of real etcd: writes at followers, kills, pauses, cuts, and a loss of quorum. `cargo xtask accept
//! cluster` provides etcd; without it, these tests are skipped.

mod agents;
pub mod checker;
mod cuts;
mod failures;
mod network;
pub mod nodes;
mod operators;
mod portal;
mod secrets;
mod streams;

use std::time::Instant;

use forewarn_test_support::{Need, can_run};

use nodes::{Cluster, forewarn, poll_until};

/// Whether etcd is installed. If not, the running test is reported as skipped.
fn has_etcd() -> bool {
    can_run(&[Need::Program("etcd"), Need::Program("setpriv")])
}

/// The same for tests that cut connections. These need root.
fn has_etcd_and_network() -> bool {
    can_run(&[Need::Program("etcd"), Need::Program("setpriv"), Need::Program("ip"), Need::Root])
}

fn machine(name: &str) -> String {
    format!(r#"{{"name":"{name}"}}"#)
}

/// Registers a machine at one of these servers, which must succeed in the end. Returns the server.
fn register_at(cluster: &Cluster, servers: &[usize], name: &str) -> usize {
    poll_until("a change", || {
        servers.iter().copied().find(|index| {
            let answer = cluster.servers.api(*index, "POST", "/api/v1/machines", &machine(name));
            // The answer to an earlier attempt may have been lost.
            answer.is_some_and(|answer| answer.status == 201 || answer.status == 409)
        })
    })
}

/// Registers a machine, turns its event group on, restarts it, and returns the event.
fn schedule(cluster: &Cluster, index: usize, name: &str) -> String {
    let servers = &cluster.servers;
    let created = servers.api(index, "POST", "/api/v1/machines", &machine(name)).expect("an answer");
    assert_eq!(created.status, 201, "{}", created.body);
    assert_eq!(servers.document(index, name).expect("an answer").status, 200);
    let operation = servers.api(index, "POST", &format!("/api/v1/machines/{name}/restart"), "").expect("an answer");
    assert_eq!(operation.status, 202, "{}", operation.body);
    let operation: serde_json::Value = serde_json::from_str(&operation.body).unwrap();
    operation["events"][0]["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_change_at_a_follower_is_read_everywhere_and_survives_the_leader() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    let event = schedule(&cluster, follower, "web");
    let own = cluster.servers.get(follower, &format!("/api/v1/events/{event}")).expect("a server reads its own writes");
    assert_eq!(own["id"], event.as_str());
    let approved = cluster.servers.approve(follower, "web", &event).expect("an answer");
    assert_eq!(approved.status, 200, "{}", approved.body);
    cluster.servers.check_equal();

    cluster.servers.kill(leader);
    let begun = Instant::now();
    let created = cluster.servers.api(follower, "POST", "/api/v1/machines", &machine("db")).expect("an answer");
    assert_eq!(created.status, 201, "a change waits for the next leader: {}", created.body);
    eprintln!("takeover until the next acknowledged change: {:.2} s", begun.elapsed().as_secs_f64());
    assert_ne!(cluster.servers.leader(), leader);
    cluster.servers.restart(leader);
    let history = cluster.servers.check_equal();
    let count = |kind: &str| history.iter().filter(|row| row["kind"] == kind && row["event"] == event.as_str()).count();
    assert_eq!((count("approved"), count("started")), (1, 1));
    for index in 0..3 {
        let machines = cluster.servers.get(index, "/api/v1/machines").expect("a list");
        let names: Vec<_> =
            machines["value"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
        assert!(names.contains(&"web") && names.contains(&"db"), "{names:?}");
    }
}

#[test]
fn a_single_servers_data_becomes_a_region_that_other_nodes_copy() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start_with(|dir, region| {
        let data = dir.join("n0");
        let archive = dir.join("archive");
        std::fs::write(&archive, ARCHIVE).unwrap();
        forewarn(&["import", "--data", data.to_str().unwrap(), archive.to_str().unwrap()]);
        let created = forewarn(&["cluster", "init", "--from", data.to_str().unwrap(), "--cluster", region]);
        assert!(created.contains("revision 5"), "{created}");
        let again = std::process::Command::new(env!("CARGO_BIN_EXE_forewarn"))
            .args(["serve", "--no-auth", "--management", "127.0.0.1:0", "--metadata", "127.0.0.1:0", "--data"])
            .arg(&data)
            .output()
            .unwrap();
        let complaint = String::from_utf8_lossy(&again.stderr);
        assert!(!again.status.success() && complaint.contains("Start with --cluster"), "{complaint}");
    });
    let leader = cluster.servers.leader();
    assert_eq!(leader, 0, "only a node with the data can lead");
    for index in 0..3 {
        poll_until("a copy of the region", || {
            cluster.servers.readiness(index).filter(|report| report["status"] == "ok")
        });
    }
    cluster.servers.check_equal();
    let dead = nodes::free_addresses(1)[0];
    let server = format!("http://{dead},http://{}", cluster.servers.management[2]);
    let status = forewarn(&["--server", &server, "cluster", "status", "-o", "json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!((&status["leader"], &status["term"]), (&"n0".into(), &1.into()));
    assert_eq!(status["nodes"].as_array().unwrap().len(), 3);
    forewarn(&["--server", &server, "cluster", "step-down"]);
    poll_until("another leader", || (cluster.servers.leader() != 0).then_some(()));
    cluster.servers.check_equal();
}

/// The data of a server without machines.
const ARCHIVE: &str = r#"{"archive":{"format":"forewarn","version":4,"revision":5,"clock":"real"}}
{"end":{"records":0,"attachments":0,"history":0}}
"#;

#[test]
fn a_leader_that_was_stopped_does_not_write_afterwards() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start();
    let old = cluster.servers.leader();
    cluster.servers.stop(old);
    let other = (old + 1) % 3;
    register_at(&cluster, &[other], "web");
    cluster.servers.resume(old);
    // The old leader must notice before it answers. The name is taken at every server.
    let taken = poll_until("an answer of the old leader", || {
        cluster.servers.api(old, "POST", "/api/v1/machines", &machine("web")).filter(|answer| answer.status != 503)
    });
    assert_eq!(taken.status, 409, "{}", taken.body);
    poll_until("the old leader to follow", || {
        cluster.servers.readiness(old).filter(|report| report["role"] == "follower")
    });
    let history = cluster.servers.check_equal();
    let added = history.iter().filter(|row| row["kind"] == "machine-added" && row["machines"][0] == "web");
    assert_eq!(added.count(), 1);
}

#[test]
fn a_change_that_a_hung_leader_has_received_gets_an_answer_after_the_takeover() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start();
    let old = cluster.servers.leader();
    // Now the follower knows the leader.
    register_at(&cluster, &[(old + 1) % 3], "first");
    cluster.servers.stop(old);
    let answer = cluster.servers.api((old + 1) % 3, "POST", "/api/v1/machines", &machine("web"));
    let answer = answer.expect("an answer in time");
    assert_eq!(answer.status, 503, "{}", answer.body);
    // It had not been carried out, and the old leader does not do so later.
    register_at(&cluster, &[(old + 2) % 3], "db");
    cluster.servers.resume(old);
    let history = cluster.servers.check_equal();
    let added = history.iter().filter(|row| row["kind"] == "machine-added" && row["machines"][0] == "web");
    assert_eq!(added.count(), 0);
}

#[test]
fn without_a_quorum_of_etcd_reads_continue_and_changes_get_503() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let follower = cluster.servers.follower();
    schedule(&cluster, follower, "web");
    cluster.servers.check_equal();
    let held: Vec<_> = (0..3).map(|index| cluster.servers.hold_document(index, "web")).collect();
    // A later document than this server has can exist only while its copy is not current.
    let ahead = || cluster.servers.document_unless(follower, "web", 1_000_000).map(|answer| answer.status);
    assert_eq!(ahead(), Some(200), "the copy is current, so the incarnation was never reached");
    for member in [0, 1] {
        cluster.etcd.kill(member);
    }
    assert_eq!(ahead(), Some(503), "the document may have been shown by another server");
    assert_eq!(cluster.servers.document(follower, "web").map(|answer| answer.status), Some(200));
    for index in 0..3 {
        let refused = poll_until("a refusal", || {
            cluster.servers.api(index, "POST", "/api/v1/machines", &machine("db")).filter(|answer| answer.status == 503)
        });
        assert!(refused.head.to_ascii_lowercase().contains("retry-after: 1"), "{}", refused.head);
        let read = cluster.servers.api(index, "GET", "/api/v1/machines/web", "").expect("reads continue");
        assert!(read.status == 200 && read.body.contains(r#""name":"web""#), "{}", read.body);
    }
    for index in 0..3 {
        poll_until("the age of a read", || {
            let read = cluster.servers.api(index, "GET", "/api/v1/machines/web", "")?;
            let head = read.head.to_ascii_lowercase();
            head.lines().find_map(|line| line.strip_prefix("age: ")?.parse().ok()).filter(|age: &u64| *age >= 3)
        });
    }
    // A copy that may miss the start of an event is not shown to guests, those that are waiting for a change included.
    for held in held {
        assert_eq!(held.join().unwrap().map(|answer| answer.status), Some(503));
    }
    for index in 0..3 {
        poll_until("guests are refused", || {
            cluster.servers.document(index, "web").filter(|answer| answer.status == 503)
        });
    }
    for member in [0, 1] {
        cluster.etcd.restart(member);
    }
    cluster.etcd.wait_until_healthy();
    let created = poll_until("changes again", || {
        cluster.servers.api(follower, "POST", "/api/v1/machines", &machine("new")).filter(|answer| answer.status == 201)
    });
    assert_eq!(created.status, 201);
    poll_until("guests again", || cluster.servers.document(follower, "web").filter(|answer| answer.status == 200));
    cluster.servers.check_equal();
}
