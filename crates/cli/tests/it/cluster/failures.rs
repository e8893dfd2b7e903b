//! Failures that are neither a crash, a pause nor a cut: full and slow disks, other versions, and an etcd that forgets.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use super::checker::{print_takeovers, rounds};
use super::nodes::{Cluster, Setup, forewarn, poll_until};
use super::{has_etcd, machine, register_at};

/// Rounds in which both leaders are killed; `XTASK_ROUNDS` overrides it.
const DOUBLE_KILLS: u64 = 2;

#[test]
fn changes_continue_after_the_leaders_of_both_are_killed_together() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let mut takeovers = Vec::new();
    for round in 0..rounds(DOUBLE_KILLS) {
        let (leader, member) = (cluster.servers.leader(), cluster.etcd.leader());
        let others: Vec<usize> = (0..3).filter(|index| *index != leader).collect();
        cluster.servers.kill(leader);
        cluster.etcd.kill(member);
        let begun = Instant::now();
        register_at(&cluster, &others, &format!("web{round}"));
        takeovers.push(begun.elapsed());
        cluster.etcd.restart(member);
        cluster.servers.restart(leader);
        cluster.etcd.wait_until_healthy();
        cluster.servers.check_equal();
    }
    print_takeovers(takeovers);
}

#[test]
fn a_follower_catches_up_after_etcd_was_compacted() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    cluster.servers.stop(follower);
    for number in 0..5 {
        register_at(&cluster, &[leader], &format!("web{number}"));
    }
    let range = cluster.etcd.ask(0, "/v3/kv/range", r#"{"key":"AA=="}"#);
    let revision = range["header"]["revision"].as_str().unwrap();
    cluster.etcd.ask(0, "/v3/kv/compaction", &format!(r#"{{"revision":"{revision}","physical":true}}"#));
    cluster.servers.resume(follower);
    register_at(&cluster, &[follower], "db");
    cluster.servers.check_equal();
}

#[test]
fn a_server_that_cannot_read_a_newer_record_waits_for_its_upgrade() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let (leader, old) = (cluster.servers.leader(), cluster.servers.follower());
    cluster.servers.kill(old);
    register_at(&cluster, &[leader], "web");
    // A record of a newer version: the first byte is the format.
    let (key, record) = cluster.etcd.last_record();
    let mut newer = record.clone();
    newer[0] += 1;
    cluster.etcd.put(&key, &newer);
    cluster.servers.restart(old);
    let log = cluster.dir().join(format!("n{old}.log"));
    poll_until("advice to upgrade", || {
        std::fs::read_to_string(&log).unwrap().contains("upgrade this server").then_some(())
    });
    let report = cluster.servers.readiness(old).expect("a report");
    assert_ne!(report["status"], "ok", "{report}");
    assert!(cluster.servers.get(old, "/api/v1/machines/web").is_none());

    // The upgrade.
    cluster.etcd.put(&key, &record);
    poll_until("the server to catch up", || cluster.servers.readiness(old).filter(|report| report["status"] == "ok"));
    register_at(&cluster, &[old], "db");
    cluster.check_machines(&["web", "db"].map(ToOwned::to_owned));
}

#[test]
fn a_leader_with_a_full_disk_is_replaced_and_catches_up_with_space() {
    if !has_etcd() {
        return;
    }
    let cluster = Cluster::start_as(&Setup { has_small_disks: true, ..Setup::default() }, |_, _| {});
    let full = cluster.servers.leader();
    let data = cluster.dir().join(format!("n{full}"));
    let inside = PathBuf::from(format!("/proc/{}/root", cluster.servers.process(full)));
    let filler = inside.join(data.strip_prefix("/").unwrap()).join("filler");
    let mut file = std::fs::File::create(&filler).unwrap();
    let refused = std::io::copy(&mut std::io::repeat(0), &mut file).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    let others: Vec<usize> = (0..3).filter(|index| *index != full).collect();
    // Large enough for the log of SQLite to need space.
    let named = |number: u32| format!("web{number}-{}", "x".repeat(100));
    for number in 0..30 {
        register_at(&cluster, &others, &named(number));
    }
    // The leader notices it when it stores its copy, once a second.
    poll_until("another leader", || (cluster.servers.leader() != full).then_some(()));
    // The space is free once the file is closed too.
    drop(file);
    std::fs::remove_file(&filler).unwrap();
    poll_until("the server to catch up", || cluster.servers.readiness(full).filter(|report| report["status"] == "ok"));
    cluster.check_machines(&(0..30).map(named).collect::<Vec<_>>());
}

#[test]
fn a_region_survives_an_etcd_that_was_rebuilt_from_nothing() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let mut region = String::new();
    register_at(&cluster, &[0], "web");
    let before = cluster.servers.check_equal();
    let term = |cluster: &Cluster| cluster.servers.get(0, "/api/v1/cluster").and_then(|status| status["term"].as_u64());
    let old_term = term(&cluster).unwrap();
    let dir = cluster.dir().to_owned();
    cluster.etcd.rebuild(&dir);
    region.push_str(&cluster.etcd.region());
    // Servers with data do not create the region anew: that would hide the loss.
    for index in 0..3 {
        let refused = poll_until("a refusal", || {
            cluster.servers.api(index, "POST", "/api/v1/machines", &machine("db")).filter(|answer| answer.status == 503)
        });
        assert!(refused.body.contains("NoLeader") || refused.body.contains("Unavailable"), "{}", refused.body);
        assert!(cluster.servers.get(index, "/api/v1/machines/web").is_some(), "reads continue");
    }
    (0..3).for_each(|index| cluster.servers.kill(index));
    let first = dir.join("n0");
    forewarn(&["cluster", "init", "--from", first.to_str().unwrap(), "--cluster", &region]);
    (0..3).for_each(|index| cluster.servers.restart(index));
    register_at(&cluster, &[0, 1, 2], "db");
    let after = cluster.servers.check_equal();
    assert_eq!(after[..before.len()], before[..], "the history goes on");
    poll_until("a higher term", || term(&cluster).filter(|term| *term > old_term));
}

#[test]
fn servers_that_are_ahead_of_a_restored_etcd_stop_instead_of_diverging() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let dir = cluster.dir().to_owned();
    register_at(&cluster, &[0], "web");
    cluster.etcd.back_up(&dir.join("backup"));
    register_at(&cluster, &[0], "late");
    cluster.servers.check_equal();
    // The leader must notice although it is always in the middle of a commit.
    let (is_over, management) = (AtomicBool::new(false), cluster.servers.management.clone());
    std::thread::scope(|scope| {
        for (client, address) in management.into_iter().enumerate() {
            let is_over = &is_over;
            scope.spawn(move || {
                for number in (0..).take_while(|_| !is_over.load(Ordering::Relaxed)) {
                    let name = machine(&format!("load-{client}-{number}"));
                    super::nodes::request(address, "POST", "/api/v1/machines", &name);
                }
            });
        }
        cluster.etcd.restore(&dir, &dir.join("backup"));
        for index in 0..3 {
            let log = dir.join(format!("n{index}.log"));
            poll_until("an error", || std::fs::read_to_string(&log).unwrap().contains(DIVERGED).then_some(()));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    for index in 0..3 {
        let late = cluster.servers.api(index, "POST", "/api/v1/machines", &machine("db"));
        let status = late.map(|answer| answer.status);
        assert!(status.is_none_or(|status| status == 503), "{status:?}");
    }
    // The data of every server is newer than the backup, and complete.
    (0..3).for_each(|index| cluster.servers.kill(index));
    for index in 0..3 {
        let data = dir.join(format!("n{index}"));
        let archive = forewarn(&["export", "-", "--data", data.to_str().unwrap()]);
        assert!(archive.contains(r#""late""#) && !archive.contains(r#""db""#), "n{index}");
    }
}

/// Part of the message of a server whose copy does not belong to the log.
const DIVERGED: &str = "is not part of the region's log";

#[test]
fn changes_continue_while_a_member_of_etcd_is_replaced() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let dir = cluster.dir().to_owned();
    register_at(&cluster, &[0], "web");
    let member = cluster.etcd.leader();
    cluster.etcd.replace(member, &dir);
    for index in 0..3 {
        register_at(&cluster, &[index], &format!("web{index}"));
    }
    // The new member counts.
    let other = (member + 1) % 3;
    cluster.etcd.kill(other);
    register_at(&cluster, &[0, 1, 2], "db");
    cluster.etcd.restart(other);
    cluster.etcd.wait_until_healthy();
    cluster.check_machines(&["web", "web0", "web1", "web2", "db"].map(ToOwned::to_owned));
}
