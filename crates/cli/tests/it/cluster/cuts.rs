//! Servers and members of etcd that are cut off, in one and in both directions. Nothing that was acknowledged is lost, a server
//! that no longer leads writes nothing, and everything continues without a restart when packets pass again.

use serde_json::Value;

use super::network::{End, MEMBERS, Network, SERVERS, WAYS, Way};
use super::nodes::{Cluster, poll_until};
use super::{has_etcd_and_network, machine, register_at};

impl Cluster {
    /// Waits until one of these servers leads.
    fn wait_for_leader(&self, servers: &[usize]) -> usize {
        poll_until("another leader", || {
            let leads = |index: &usize| self.servers.readiness(*index).is_some_and(|report| report["role"] == "leader");
            servers.iter().copied().find(leads)
        })
    }

    fn wait_for_follower(&self, index: usize) {
        poll_until("a follower with a current copy", || {
            self.servers.readiness(index).filter(|report| report["role"] == "follower" && report["status"] == "ok")
        });
    }

    /// Checks that all servers have each of these machines once.
    pub fn check_machines(&self, names: &[String]) {
        let history = self.servers.check_equal();
        for name in names {
            let is_added = |row: &&Value| row["kind"] == "machine-added" && row["machines"][0] == name.as_str();
            assert_eq!(history.iter().filter(is_added).count(), 1, "{name}");
        }
    }
}

fn others(index: usize) -> Vec<usize> {
    (0..3).filter(|other| *other != index).collect()
}

/// Cuts off the leader in each direction. Another server leads, and the old leader acknowledges nothing.
fn check_old_leader_writes_nothing(cut_from: &[End]) {
    Network::run(|network| {
        let cluster = Cluster::start_in(&network);
        let mut names = Vec::new();
        for (round, way) in WAYS.into_iter().enumerate() {
            let old = cluster.servers.leader();
            network.cut(End::Server(old), cut_from, way);
            cluster.wait_for_leader(&others(old));
            names.push(format!("web{round}"));
            register_at(&cluster, &others(old), &names[round]);
            let late = cluster.servers.api(old, "POST", "/api/v1/machines", &machine(&format!("late{round}")));
            let status = late.map(|answer| answer.status);
            assert!(status.is_none_or(|status| status == 503), "{way:?}: {status:?}");
            network.heal();
            cluster.wait_for_follower(old);
        }
        cluster.check_machines(&names);
    });
}

#[test]
fn a_leader_that_is_cut_off_from_everything_is_replaced_and_writes_nothing() {
    if has_etcd_and_network() {
        check_old_leader_writes_nothing(&[SERVERS, MEMBERS].concat());
    }
}

#[test]
fn a_leader_that_is_cut_off_from_etcd_is_replaced_and_writes_nothing() {
    if has_etcd_and_network() {
        check_old_leader_writes_nothing(&MEMBERS);
    }
}

/// Followers could not pass on any change, although etcd shows them a leader.
#[test]
fn a_leader_that_is_cut_off_from_its_followers_resigns() {
    if !has_etcd_and_network() {
        return;
    }
    Network::run(|network| {
        let cluster = Cluster::start_in(&network);
        let old = cluster.servers.leader();
        network.cut(End::Server(old), &SERVERS, Way::Both);
        let follower = others(old)[0];
        register_at(&cluster, &[follower], "web");
        assert_ne!(cluster.wait_for_leader(&[0, 1, 2]), old);
        // The old leader has a current copy, but reaches no leader.
        poll_until("reads at the old leader", || cluster.servers.get(old, "/api/v1/machines/web"));
        network.heal();
        register_at(&cluster, &[old], "db");
        cluster.check_machines(&["web".into(), "db".into()]);
    });
}

#[test]
fn a_follower_that_is_cut_off_from_etcd_refuses_guests_and_catches_up() {
    if !has_etcd_and_network() {
        return;
    }
    Network::run(|network| {
        let cluster = Cluster::start_in(&network);
        let mut names = vec!["first".to_owned()];
        register_at(&cluster, &[0], "first");
        cluster.servers.check_equal();
        for (round, way) in WAYS.into_iter().enumerate() {
            let follower = cluster.servers.follower();
            network.cut(End::Server(follower), &MEMBERS, way);
            names.push(format!("web{round}"));
            register_at(&cluster, &others(follower), names.last().unwrap());
            poll_until("guests are refused", || {
                cluster.servers.document(follower, "first").filter(|answer| answer.status == 503)
            });
            assert!(cluster.servers.get(follower, "/api/v1/machines/first").is_some(), "management reads continue");
            assert_ne!(cluster.wait_for_leader(&others(follower)), follower);
            network.heal();
            cluster.wait_for_follower(follower);
            poll_until("guests again", || {
                cluster.servers.document(follower, "first").filter(|answer| answer.status == 200)
            });
        }
        cluster.check_machines(&names);
    });
}

#[test]
fn changes_continue_at_every_server_while_a_member_of_etcd_is_cut_off() {
    if !has_etcd_and_network() {
        return;
    }
    Network::run(|network| {
        let cluster = Cluster::start_in(&network);
        let mut names = Vec::new();
        for (round, way) in WAYS.into_iter().enumerate() {
            let member = cluster.etcd.leader();
            network.cut(End::Member(member), &[SERVERS, MEMBERS].concat(), way);
            for index in 0..3 {
                names.push(format!("web{round}-{index}"));
                register_at(&cluster, &[index], names.last().unwrap());
            }
            network.heal();
            cluster.etcd.wait_until_healthy();
        }
        cluster.check_machines(&names);
    });
}
