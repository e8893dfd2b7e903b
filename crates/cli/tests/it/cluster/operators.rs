//! Commands of operators: status, rules, removing nodes, and the drill of backup and restore.

use std::process::{Command, Stdio};

use serde_json::Value;

use super::has_etcd;
use super::nodes::{Cluster, forewarn, free_addresses, poll_until, request};

#[test]
fn operators_see_clocks_and_etcd_and_cannot_remove_a_leader() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    let status = |cluster: &Cluster| -> Value {
        let server = format!("http://{}", cluster.servers.management[follower]);
        serde_json::from_str(&forewarn(&["--server", &server, "cluster", "status", "-o", "json"])).unwrap()
    };
    let found = poll_until("all nodes", || {
        let has_all =
            |found: &Value| found["leader"].is_string() && found["nodes"].as_array().is_some_and(|it| it.len() == 3);
        Some(status(&cluster)).filter(has_all)
    });
    assert_eq!(found["leader"], format!("n{leader}"));
    for node in found["nodes"].as_array().unwrap() {
        assert!(node["clockDifferenceMs"].as_i64().is_some_and(|ms| ms.abs() < 1000), "{node}");
        assert!(
            node["behind"].is_u64() && node["version"].is_string() && node["ruleDifferences"] == serde_json::json!([]),
            "{node}"
        );
    }
    let members = found["etcd"].as_array().unwrap();
    assert_eq!(members.iter().filter(|member| member["isHealthy"] == true).count(), 3, "{members:?}");
    assert_eq!(members.iter().filter(|member| member["isLeader"] == true).count(), 1, "{members:?}");

    let remove = |node: &str| {
        let answer = cluster.servers.api(follower, "DELETE", &format!("/api/v1/cluster/nodes/{node}"), "").unwrap();
        let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        (answer.status, body["error"]["code"].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(remove(&format!("n{leader}")), (409, "NodeLeads".into()));
    assert_eq!(remove("n9"), (404, "NodeNotFound".into()));

    let third = (follower + 1) % 3;
    let third = if third == leader { (third + 1) % 3 } else { third };
    cluster.servers.kill(third);
    cluster.etcd.kill(2);
    // The lost member may have been the leader of etcd. Until the others elect one, the status names the nodes all the same.
    let found = status(&cluster);
    let node = found["nodes"].as_array().unwrap().iter().find(|node| node["name"] == format!("n{third}")).unwrap();
    assert!(node["problem"].is_string() && node["clockDifferenceMs"].is_null(), "{node}");
    poll_until("two healthy members of etcd", || {
        let found = status(&cluster);
        let healthy = found["etcd"].as_array()?.iter().filter(|member| member["isHealthy"] == true).count();
        (healthy == 2 && found["problem"].is_null()).then_some(())
    });
    let server = format!("http://{}", cluster.servers.management[follower]);
    cluster.servers.leader();
    forewarn(&["--server", &server, "cluster", "remove", &format!("n{third}")]);
    assert_eq!(status(&cluster)["nodes"].as_array().unwrap().len(), 2);
}

/// The notice of a new Reboot event of a machine, in seconds.
fn notice_secs(cluster: &Cluster, index: usize, name: &str) -> i64 {
    let event = super::schedule(cluster, index, name);
    let event = cluster.servers.get(index, &format!("/api/v1/events/{event}")).expect("an event");
    let seconds = |name: &str| {
        let text = event[name].as_str().unwrap_or_else(|| panic!("{name} in {event}"));
        text.parse::<jiff::Timestamp>().unwrap().as_second()
    };
    // Times are shown in whole seconds.
    (seconds("notBefore") - seconds("appeared") + 2) / 5 * 5
}

#[test]
fn a_takeover_by_a_server_with_other_rules_changes_nothing_until_they_are_applied() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let leader = cluster.servers.leader();
    let (other, third) = ((leader + 1) % 3, (leader + 2) % 3);
    assert_eq!(notice_secs(&cluster, leader, "a"), 900);
    cluster.servers.restart_with(other, &["--notice-scale=60"]);
    let health = poll_until("a warning", || {
        let health = cluster.servers.get(other, "/healthz")?;
        health["problems"][0].as_str().map(str::to_owned)
    });
    assert!(health.contains("notice_scale is 1 in the region and 60 in the configuration"), "{health}");
    poll_until("the server to catch up", || cluster.servers.readiness(other).filter(|report| report["status"] == "ok"));
    cluster.servers.stop(third);
    cluster.servers.kill(leader);
    poll_until("the takeover", || cluster.servers.readiness(other).filter(|report| report["role"] == "leader"));
    assert_eq!(notice_secs(&cluster, other, "b"), 900, "the rules of the region apply");

    let server = format!("http://{}", cluster.servers.management[other]);
    forewarn(&["--server", &server, "cluster", "apply-rules"]);
    assert_eq!(notice_secs(&cluster, other, "c"), 15);
    assert_eq!(cluster.servers.get(other, "/healthz").unwrap()["status"], "ok");
    cluster.servers.resume(third);
    cluster.servers.restart(leader);
    poll_until("the differences at the others", || {
        let health = cluster.servers.get(third, "/healthz")?;
        health["problems"][0].as_str().filter(|problem| problem.contains("notice_scale is 60 in the region")).map(drop)
    });
    cluster.servers.check_equal();
}

#[test]
fn a_running_node_is_exported_and_becomes_a_single_server_or_another_region() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start();
    let follower = cluster.servers.follower();
    super::schedule(&cluster, follower, "web");
    let history = cluster.servers.check_equal();
    let path = |name: &str| cluster.dir().join(name).display().to_string();
    let (node, archive, single, first) =
        (path(&format!("n{follower}")), path("archive"), path("single"), path("first"));
    // A server writes its database once a second, so an export can lack the last changes.
    poll_until("an export with all changes", || {
        let _ = std::fs::remove_file(&archive);
        forewarn(&["export", &archive, "--data", &node]);
        let archive = std::fs::read_to_string(&archive).unwrap();
        let rows = archive.lines().filter(|line| line.starts_with(r#"{"history""#)).count();
        (rows >= history.len()).then_some(())
    });
    for data in [&single, &first] {
        forewarn(&["import", &archive, "--data", data]);
    }
    let region = cluster.etcd.region().replace("/north", "/south");
    forewarn(&["cluster", "init", "--from", &first, "--cluster", &region]);
    let in_region = ["--cluster".to_owned(), region, "--node".to_owned(), "s0".to_owned()];
    for (data, more) in [(&single, &[][..]), (&first, &in_region[..])] {
        let addresses = free_addresses(2);
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", env!("CARGO_BIN_EXE_forewarn"), "serve", "--no-auth", "--data", data])
            .args(["--management", &addresses[0].to_string(), "--metadata", &addresses[1].to_string()])
            .args(["--management-tls", "off"])
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let restored = poll_until("the restored history", || {
            let answer = request(addresses[0], "GET", "/api/v1/history?limit=500", "")?;
            let page: Value = serde_json::from_str(&answer.body).ok()?;
            page["value"].as_array().cloned().filter(|rows| rows.len() >= history.len())
        });
        assert_eq!(restored[..history.len()], history[..]);
        let created = poll_until("a change", || {
            request(addresses[0], "POST", "/api/v1/machines", &super::machine("db"))
                .filter(|answer| answer.status != 503)
        });
        assert_eq!(created.status, 201, "{}", created.body);
        child.kill().unwrap();
        child.wait().unwrap();
    }
    // The other region on the same etcd has not changed this one.
    assert!(cluster.servers.get(follower, "/api/v1/machines/db").is_none());
    cluster.servers.check_equal();
}
