//! Host agents with three servers: enrollment anywhere, kills of the leader and of the agent's own server, and a loss of quorum.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::has_etcd;
use super::nodes::{Answer, Cluster, Process, Servers, approve, document, free_addresses, poll_until, request};

/// A host agent as a process.
struct Agent {
    process: Process,
    dir: PathBuf,
    metadata: SocketAddr,
    health: SocketAddr,
}

impl Agent {
    /// Runs the agent of a host that has joined. `server`: the listener to which it connects first.
    fn start(dir: &Path, server: SocketAddr) -> Agent {
        let path = dir.join("identity.json");
        let mut identity: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        identity["server"] = server.to_string().into();
        std::fs::write(&path, identity.to_string()).unwrap();
        let addresses = free_addresses(2);
        let (metadata, health) = (addresses[0], addresses[1]);
        let arguments = [
            ("data", dir.display().to_string()),
            ("metadata", metadata.to_string()),
            ("health", health.to_string()),
            ("driver", "simulated".into()),
        ];
        let program = [env!("CARGO_BIN_EXE_forewarn"), "host", "run"].map(ToOwned::to_owned);
        let arguments = arguments.into_iter().map(|(name, value)| format!("--{name}={value}"));
        let process = Process::start(program.into_iter().chain(arguments).collect(), dir.join("agent.log"));
        Agent { process, dir: dir.to_owned(), metadata, health }
    }

    fn health(&self) -> Option<Value> {
        serde_json::from_str(&request(self.health, "GET", "/healthz", "")?.body).ok()
    }

    /// Waits until the agent is in contact with a leader.
    fn wait_for_contact(&self) {
        let has_copy = |report: &Value| report["revision"].as_u64().is_some_and(|revision| revision > 0);
        poll_until("contact of the agent", || {
            self.health().filter(|report| report["problem"].is_null() && has_copy(report))
        });
    }

    /// Waits until the agent has stored the addresses of all servers.
    fn wait_for_servers(&self, servers: &Servers) {
        poll_until("the addresses of all servers", || {
            let text = std::fs::read_to_string(self.dir.join("servers.json")).ok()?;
            let known: Vec<SocketAddr> = serde_json::from_str(&text).ok()?;
            servers.hosts.iter().all(|address| known.contains(address)).then_some(())
        });
    }

    fn problem(&self) -> Option<String> {
        Some(self.health()?["problem"].as_str()?.to_owned())
    }

    /// The document, which an agent with a copy always has.
    fn document(&self, machine: &str) -> (Value, Answer) {
        let answer = document(self.metadata, machine).expect("an agent always answers");
        assert_eq!(answer.status, 200, "{}", answer.body);
        (serde_json::from_str(&answer.body).unwrap(), answer)
    }
}

fn token(servers: &Servers, index: usize, host: &str) -> String {
    let created = servers.api(index, "POST", &format!("/api/v1/hosts/{host}/token"), "").expect("an answer");
    assert_eq!(created.status, 201, "{}", created.body);
    let created: Value = serde_json::from_str(&created.body).unwrap();
    created["token"].as_str().unwrap().to_owned()
}

fn join(servers: &str, token: &str, dir: &Path) -> Result<(), String> {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_forewarn"))
        .args(["host", "join", servers, "--token", token, "--data"])
        .arg(dir)
        .output()
        .unwrap();
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Joins as a host at one server, and runs its agent at another.
fn start_host(cluster: &Cluster, host: &str, join_at: usize, connect_to: usize) -> Agent {
    let servers = &cluster.servers;
    let dir = cluster.dir().join(host);
    let url = format!("http://{}", servers.management[join_at]);
    join(&url, &token(servers, connect_to, host), &dir).unwrap();
    Agent::start(&dir, servers.hosts[connect_to])
}

fn add_machine(servers: &Servers, index: usize, name: &str, host: &str) {
    let body = format!(r#"{{"name":"{name}","host":"{host}"}}"#);
    let created = poll_until("an answer", || {
        servers.api(index, "POST", "/api/v1/machines", &body).filter(|answer| answer.status != 503)
    });
    assert_eq!(created.status, 201, "{}", created.body);
}

/// Requests a restart and returns the event.
fn restart(servers: &Servers, index: usize, name: &str) -> String {
    let path = format!("/api/v1/machines/{name}/restart");
    let operation =
        poll_until("an accepted restart", || servers.api(index, "POST", &path, "").filter(|it| it.status != 503));
    assert_eq!(operation.status, 202, "{}", operation.body);
    let operation: Value = serde_json::from_str(&operation.body).unwrap();
    operation["events"][0]["id"].as_str().unwrap().to_owned()
}

/// A guest that reads its document, which must never go backward.
#[derive(Default)]
struct Guest {
    incarnation: u64,
}

impl Guest {
    /// Reads the document, and returns the event in it.
    fn read(&mut self, agent: &Agent, machine: &str, event: &str) -> Option<Value> {
        let (document, _) = agent.document(machine);
        let incarnation = document["DocumentIncarnation"].as_u64().unwrap();
        assert!(incarnation >= self.incarnation, "{incarnation} after {}", self.incarnation);
        self.incarnation = incarnation;
        let is_it = |shown: &&Value| shown["EventId"].as_str().is_some_and(|id| id.eq_ignore_ascii_case(event));
        document["Events"].as_array().unwrap().iter().find(is_it).cloned()
    }

    fn wait_for_status(&mut self, agent: &Agent, machine: &str, event: &str, status: &str) -> Value {
        poll_until(status, || self.read(agent, machine, event).filter(|shown| shown["EventStatus"] == status))
    }
}

fn count(history: &[Value], kind: &str, event: &str) -> usize {
    history.iter().filter(|row| row["kind"] == kind && row["event"] == event).count()
}

/// Kills the leader, and returns its index.
fn kill_leader(cluster: &mut Cluster) -> usize {
    let leader = cluster.servers.leader();
    cluster.servers.kill(leader);
    leader
}

#[test]
fn a_kill_of_the_leader_loses_no_notice_order_or_approval_of_an_agent() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start_for_agents();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    let agent = start_host(&cluster, "node1", leader, follower);
    add_machine(&cluster.servers, follower, "web", "node1");
    poll_until("the machine at its host", || document(agent.metadata, "web").filter(|answer| answer.status == 200));
    let mut guest = Guest::default();

    // In notice: the notice goes on, and the event starts by itself.
    let event = restart(&cluster.servers, follower, "web");
    let before = guest.wait_for_status(&agent, "web", &event, "Scheduled");
    let killed = kill_leader(&mut cluster);
    let after = poll_until("the next leader", || {
        let shown = guest.read(&agent, "web", &event).expect("the event stays in the document");
        let leads = |index: &usize| cluster.servers.readiness(*index).is_some_and(|report| report["role"] == "leader");
        (0..3).find(leads).map(|_| shown)
    });
    assert_eq!(after["NotBefore"], before["NotBefore"]);
    cluster.servers.restart(killed);
    guest.wait_for_status(&agent, "web", &event, "Started");

    // In progress: the order ends once.
    let killed = kill_leader(&mut cluster);
    poll_until("the end of the event", || guest.read(&agent, "web", &event).is_none().then_some(()));
    cluster.servers.restart(killed);
    let history = cluster.servers.check_equal();
    assert_eq!((count(&history, "started", &event), count(&history, "ended", &event)), (1, 1));
    let ended = history.iter().find(|row| row["kind"] == "ended" && row["event"] == event.as_str()).unwrap();
    assert_eq!(ended["outcome"], "completed", "{ended}");

    // An approval during the takeover gets 503 or 200, and a 200 is kept.
    let event = restart(&cluster.servers, follower, "web");
    guest.wait_for_status(&agent, "web", &event, "Scheduled");
    let killed = kill_leader(&mut cluster);
    poll_until("an approval", || {
        let answer = approve(agent.metadata, "web", &event)?;
        assert!(matches!(answer.status, 200 | 503), "{} {}", answer.status, answer.body);
        (answer.status == 200).then_some(())
    });
    let shown = guest.read(&agent, "web", &event);
    assert!(shown.is_none_or(|shown| shown["EventStatus"] == "Started"), "an approved event has started");
    cluster.servers.restart(killed);
    poll_until("the end of the event", || guest.read(&agent, "web", &event).is_none().then_some(()));
    let history = cluster.servers.check_equal();
    assert!(count(&history, "approved", &event) >= 1, "an acknowledged approval was lost");
    assert_eq!((count(&history, "started", &event), count(&history, "ended", &event)), (1, 1));
}

#[test]
fn hosts_join_and_connect_at_any_server_and_a_second_agent_is_refused_at_all() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start_for_agents();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    let other = 3 - leader - follower;
    let management = cluster.servers.management.clone();
    let url = |index: usize| format!("http://{}", management[index]);

    // A token of one server is used at another, and refused everywhere afterward.
    let secret = token(&cluster.servers, follower, "node1");
    let dead = format!("http://{}", free_addresses(1)[0]);
    let dir = cluster.dir().join("node1");
    join(&format!("{dead},{}", url(other)), &secret, &dir).unwrap();
    for index in 0..3 {
        let refused = join(&url(index), &secret, &cluster.dir().join("again")).unwrap_err();
        assert!(refused.contains("was used"), "{refused}");
    }
    let mut agent = Agent::start(&dir, cluster.servers.hosts[follower]);
    agent.wait_for_contact();
    agent.wait_for_servers(&cluster.servers);

    // A copy of the identity is refused at every server, also by the next leader.
    let clone = cluster.dir().join("clone");
    std::fs::create_dir(&clone).unwrap();
    std::fs::copy(dir.join("identity.json"), clone.join("identity.json")).unwrap();
    let twin = Agent::start(&clone, cluster.servers.hosts[other]);
    poll_until("a refusal", || twin.problem().filter(|problem| problem.contains("another agent is connected")));
    let killed = kill_leader(&mut cluster);
    add_machine(&cluster.servers, other, "web", "node1");
    poll_until("news from the next leader", || document(agent.metadata, "web").filter(|answer| answer.status == 200));
    let report = poll_until("an answer", || twin.health());
    assert_eq!(report["revision"], 0, "the second agent never got a copy: {report}");
    cluster.servers.restart(killed);
    agent.process.kill();
    twin.wait_for_contact();

    // Joining again revokes the certificate at every server.
    let secret = token(&cluster.servers, follower, "node1");
    join(&url(leader), &secret, &cluster.dir().join("new")).unwrap();
    poll_until("a revoked certificate", || twin.problem().filter(|problem| problem.contains("revoked")));
    let new = Agent::start(&cluster.dir().join("new"), cluster.servers.hosts[other]);
    new.wait_for_contact();
    assert!(new.dir.join("copy.jsonl").exists());
}

#[test]
fn an_agent_leaves_a_dead_server_and_outlives_a_loss_of_quorum() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start_for_agents();
    let (leader, follower) = (cluster.servers.leader(), cluster.servers.follower());
    let agent = start_host(&cluster, "node1", follower, follower);
    add_machine(&cluster.servers, leader, "web", "node1");
    poll_until("the machine at its host", || document(agent.metadata, "web").filter(|answer| answer.status == 200));
    agent.wait_for_servers(&cluster.servers);
    let mut guest = Guest::default();

    // The agent's own server dies.
    let event = restart(&cluster.servers, leader, "web");
    guest.wait_for_status(&agent, "web", &event, "Scheduled");
    cluster.servers.kill(follower);
    poll_until("an approval through another server", || {
        let answer = approve(agent.metadata, "web", &event)?;
        assert!(matches!(answer.status, 200 | 503), "{} {}", answer.status, answer.body);
        guest.read(&agent, "web", &event);
        (answer.status == 200).then_some(())
    });
    poll_until("the end of the event", || guest.read(&agent, "web", &event).is_none().then_some(()));
    cluster.servers.restart(follower);

    // Without a quorum of etcd, guests keep their copy.
    let event = restart(&cluster.servers, leader, "web");
    guest.wait_for_status(&agent, "web", &event, "Scheduled");
    [0, 1].into_iter().for_each(|member| cluster.etcd.kill(member));
    poll_until("a copy that says its age", || {
        guest.read(&agent, "web", &event).expect("the event stays in the document");
        let (_, answer) = agent.document("web");
        answer.head.to_ascii_lowercase().contains("\r\nage: ").then_some(())
    });
    let refused = approve(agent.metadata, "web", &event).expect("an answer");
    assert_eq!(refused.status, 503, "{}", refused.body);
    assert!(refused.head.to_ascii_lowercase().contains("retry-after: "), "{}", refused.head);
    [0, 1].into_iter().for_each(|member| cluster.etcd.restart(member));
    cluster.etcd.wait_until_healthy();
    poll_until("the start of the event", || {
        approve(agent.metadata, "web", &event)?;
        let shown = guest.read(&agent, "web", &event);
        shown.is_none_or(|shown| shown["EventStatus"] == "Started").then_some(())
    });
    poll_until("the end of the event", || guest.read(&agent, "web", &event).is_none().then_some(()));
    agent.wait_for_contact();
    let (_, answer) = agent.document("web");
    assert!(!answer.head.to_ascii_lowercase().contains("\r\nage: "), "{}", answer.head);
    let history = cluster.servers.check_equal();
    assert_eq!((count(&history, "started", &event), count(&history, "ended", &event)), (1, 1));
}

#[test]
fn a_cluster_without_a_key_refuses_a_listener_for_hosts() {
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_forewarn"))
        .args(["serve", "--no-auth", "--memory", "--management", "127.0.0.1:8170", "--hosts", "127.0.0.1:0"])
        .args(["--cluster", "etcd://127.0.0.1:1/north"])
        .output()
        .unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && complaint.contains("--cluster-key FILE"), "{complaint}");
}
