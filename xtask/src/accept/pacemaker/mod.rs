//! Debian's Pacemaker agents for scheduled events, unchanged, on two machines of an availability set.
//!
//! ```text
//!  sap-a = node-a ─┐                        azure-events-az: each node approves its own events
//!                  ├─ 169.254.169.254:80    azure-events:    the other node approves
//!  sap-b = node-b ─┘
//! ```
//!
//! Host names and machine names differ on purpose: the document must contain machine names.

pub mod cluster;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::cluster::Cluster;
use super::netns::{METADATA, Network, Node};
use super::server::Server;
use super::wait;
use crate::needs::Needs;
use crate::setup::Download;
use crate::sh;

const HOSTS: [&str; 2] = ["sap-a", "sap-b"];
const MACHINES: [&str; 2] = ["node-a", "node-b"];
const A: usize = 0;
const B: usize = 1;

/// How long the simulated driver takes for a Reboot or a Redeploy, on the server's clock.
const IMPACT_SECS: u64 = 600;

/// The Debian package with the agents.
pub const RESOURCE_AGENTS: Download = Download::Unpacked("resource-agents");

pub const AZ: &str = "azure-events-az";
const CLASSIC: &str = "azure-events";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("curl", "curl"),
        ("python3", "/usr/bin/python3"),
        ("util-linux", "nsenter"),
        ("hostname", "hostname"),
    ],
    downloads: &[RESOURCE_AGENTS],
};

pub fn run() -> Result<()> {
    let package = RESOURCE_AGENTS.path()?;
    check_unchanged(&package)?;
    let network = Network::new(&HOSTS)?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &["--clock", "manual"])?;
    let cluster = Cluster::new(&HOSTS, package.join("usr/lib/ocf"), cluster::stubs())?;
    let fleet = ClusterFleet { server: &server, cluster: &cluster, nodes: &network.nodes };
    fleet.register()?;
    fleet.run_all_cases().with_context(|| format!("log of the agents:\n{}", cluster.log()))?;
    server.stop()
}

/// Checks that the cached agents are unchanged: the run is about the agents as Debian ships them.
pub fn check_unchanged(package: &Path) -> Result<()> {
    let mut files = std::fs::read_dir(package)?.filter_map(|entry| Some(entry.ok()?.path()));
    let deb = files.find(|path| path.extension().is_some_and(|end| end == "deb")).context("the package is gone")?;
    let sums = sh::program("dpkg-deb").args(&["--info", deb.to_str().context("path")?, "md5sums"]).read()?;
    for agent in [AZ, CLASSIC] {
        let path = format!("usr/lib/ocf/resource.d/heartbeat/{agent}");
        let known = sums.lines().find_map(|line| line.strip_suffix(&path)).context("the package has no such agent")?;
        let file: PathBuf = package.join(&path);
        let found = sh::program("md5sum").args(&[file.to_str().context("path")?]).read()?;
        ensure!(found.starts_with(known.trim()), "{} differs from the Debian package; remove it", file.display());
    }
    Ok(())
}

struct ClusterFleet<'r> {
    server: &'r Server<'r>,
    cluster: &'r Cluster,
    nodes: &'r [Node],
}

impl ClusterFleet<'_> {
    fn register(&self) -> Result<()> {
        self.server.post("/availability-sets", &json!({ "name": "sap" }))?;
        for (domain, (machine, node)) in MACHINES.iter().zip(self.nodes).enumerate() {
            let addresses = json!([{ "ip": node.ip }]);
            let body =
                json!({ "name": machine, "availabilitySet": "sap", "updateDomain": domain, "addresses": addresses });
            self.server.post("/machines", &body)?;
        }
        self.cluster.place("rsc_hana", HOSTS[A])?;
        self.cluster.place("rsc_ip", HOSTS[B])
    }

    fn run_all_cases(&self) -> Result<()> {
        self.agents_introduce_themselves()?;
        self.nothing_happens_for_a_freeze()?;
        self.own_approval(A, "Reboot")?;
        self.own_approval(B, "Redeploy")?;
        self.two_at_once()?;
        self.cross_approval(A, B, "Reboot")?;
        self.cross_approval(B, A, "Redeploy")?;
        self.agents_had_nothing_to_complain_about()
    }

    /// The first poll turns Scheduled Events on for both machines.
    fn agents_introduce_themselves(&self) -> Result<()> {
        for agent in [AZ, CLASSIC] {
            for node in [A, B] {
                for action in ["validate-all", "start", "monitor"] {
                    // The older agent has no validate action.
                    if agent == AZ || action != "validate-all" {
                        self.act(agent, action, node)?;
                    }
                }
                self.check(node, "azName", Some(MACHINES[node]))?;
                ensure!(
                    self.cluster.attribute("crm_config", &format!("hostName_{}", MACHINES[node])).as_deref()
                        == Some(HOSTS[node])
                );
            }
        }
        Ok(())
    }

    fn nothing_happens_for_a_freeze(&self) -> Result<()> {
        let event = self.schedule(A, "Freeze")?;
        self.monitor(AZ, A)?;
        self.monitor(AZ, B)?;
        self.check(A, "azure-events-az_curNodeState", None)?;
        self.check_life(&event, &["appeared"])?;
        self.server.post(&format!("/events/{event}/cancel"), &json!({}))?;
        Ok(())
    }

    /// `azure-events-az`: the node goes into standby, drains, approves, waits and returns, all by itself.
    fn own_approval(&self, node: usize, kind: &str) -> Result<()> {
        let event = self.schedule(node, kind)?;
        self.monitor(AZ, other(node))?;
        self.check_life(&event, &["appeared"])?;
        self.leave(node, &event)?;
        self.approve_own(node, &event)?;
        for _again in 0..2 {
            self.monitor(AZ, node)?;
            self.monitor(AZ, other(node))?;
        }
        self.check(node, "azure-events-az_curNodeState", Some("IN_EVENT"))?;
        self.end(&event)?;
        self.come_back(node)
    }

    fn leave(&self, node: usize, event: &str) -> Result<()> {
        self.monitor(AZ, node)?;
        self.check(node, "azure-events-az_curNodeState", Some("STOPPING"))?;
        self.check(node, "azure-events-az_pendingEventIDs", Some(event))?;
        self.check(node, "#health-azure", Some("-1000000"))
    }

    /// The node must not approve before its resources have moved.
    fn approve_own(&self, node: usize, event: &str) -> Result<()> {
        self.monitor(AZ, node)?;
        self.check_life(event, &["appeared"])?;
        self.cluster.settle()?;
        self.monitor(AZ, node)?;
        self.check(node, "azure-events-az_curNodeState", Some("IN_EVENT"))?;
        self.check_started(event, node)
    }

    fn come_back(&self, node: usize) -> Result<()> {
        self.monitor(AZ, node)?;
        self.check(node, "azure-events-az_curNodeState", Some("AVAILABLE"))?;
        self.check(node, "azure-events-az_pendingEventIDs", None)?;
        self.check(node, "#health-azure", Some("0"))
    }

    /// With an event for each node, the second node waits until the first is back.
    fn two_at_once(&self) -> Result<()> {
        let (first, second) = (self.schedule(A, "Redeploy")?, self.schedule(B, "Reboot")?);
        self.leave(A, &first)?;
        self.monitor(AZ, B)?;
        self.check(B, "azure-events-az_curNodeState", Some("ON_HOLD"))?;
        self.approve_own(A, &first)?;
        self.monitor(AZ, B)?;
        self.check(B, "azure-events-az_curNodeState", Some("ON_HOLD"))?;
        self.end(&first)?;
        self.come_back(A)?;
        self.check_life(&second, &["appeared"])?;
        self.leave(B, &second)?;
        self.approve_own(B, &second)?;
        self.end(&second)?;
        self.come_back(B)
    }

    /// `azure-events`: the node drains, and the other node approves the event and ends the standby.
    fn cross_approval(&self, node: usize, by: usize, kind: &str) -> Result<()> {
        let event = self.schedule(node, kind)?;
        self.monitor(CLASSIC, by)?;
        self.check_life(&event, &["appeared"])?;
        self.monitor(CLASSIC, node)?;
        self.check(node, "azure-events_curNodeState", Some("STOPPING"))?;
        self.check(node, "standby", Some("on"))?;
        self.monitor(CLASSIC, by)?;
        self.check_life(&event, &["appeared"])?;
        self.cluster.settle()?;
        self.monitor(CLASSIC, node)?;
        self.check_life(&event, &["appeared"])?;
        self.monitor(CLASSIC, by)?;
        self.check(node, "azure-events_curNodeState", Some("IN_EVENT"))?;
        self.check_started(&event, by)?;
        self.monitor(CLASSIC, node)?;
        self.check(node, "standby", Some("on"))?;
        self.end(&event)?;
        self.monitor(CLASSIC, by)?;
        self.check(node, "standby", Some("off"))?;
        self.monitor(CLASSIC, node)?;
        self.check(node, "azure-events_curNodeState", Some("AVAILABLE"))?;
        self.check(node, "azure-events_pendingEventIDs", None)
    }

    /// The agents hide refusals from Pacemaker and only log them.
    fn agents_had_nothing_to_complain_about(&self) -> Result<()> {
        let log = self.cluster.log();
        ensure!(log.contains("forceEvents: postData"), "the log has no approvals");
        let complaint = log.lines().find(|line| line.contains("WARNING:") || line.contains("ERROR:"));
        ensure!(complaint.is_none(), "an agent complained: {complaint:?}");
        Ok(())
    }

    fn schedule(&self, node: usize, kind: &str) -> Result<String> {
        eprintln!("   {kind} for {}", MACHINES[node]);
        self.server.schedule(&json!({ "machine": MACHINES[node] }), kind, None)
    }

    /// Advances the clock until the driver is done. Both nodes see the end of the event.
    fn end(&self, event: &str) -> Result<()> {
        self.server.advance(IMPACT_SECS)?;
        wait::until("the end of the event", || Ok((self.event(event)?["status"] == "Ended").then_some(())))?;
        self.check_life(event, &["appeared", "approved", "started", "ended"])?;
        let outcome = self.event(event)?["outcome"].clone();
        ensure!(outcome == "Completed", "the event ended {outcome}");
        Ok(())
    }

    fn check_started(&self, event: &str, by: usize) -> Result<()> {
        let approved_by = self.server.approved_by(event)?;
        ensure!(approved_by == [format!("guest:{}", MACHINES[by])], "approved by {approved_by:?}");
        let now = self.event(event)?;
        ensure!(now["status"] == "Started", "{now}");
        eprintln!("   approved by {}, started", MACHINES[by]);
        Ok(())
    }

    fn check_life(&self, event: &str, expected: &[&str]) -> Result<()> {
        let life = self.server.life_of(event)?;
        ensure!(life == expected, "event {event}: expected {expected:?}, the history has {life:?}");
        Ok(())
    }

    fn event(&self, event: &str) -> Result<Value> {
        self.server.get(&format!("/events/{event}"))
    }

    #[track_caller]
    fn check(&self, node: usize, attribute: &str, expected: Option<&str>) -> Result<()> {
        let found = self.cluster.attribute(HOSTS[node], attribute);
        let line = std::panic::Location::caller().line();
        ensure!(
            found.as_deref() == expected,
            "line {line}: {} has {attribute} = {found:?}, not {expected:?}",
            HOSTS[node]
        );
        Ok(())
    }

    fn monitor(&self, agent: &str, node: usize) -> Result<()> {
        self.act(agent, "monitor", node)
    }

    fn act(&self, agent: &str, action: &str, node: usize) -> Result<()> {
        let mut command = self.nodes[node].namespace.command("env");
        command.env_clear();
        self.cluster.agent(agent, action, command)?;
        let state = self.cluster.attribute(HOSTS[node], &format!("{agent}_curNodeState"));
        eprintln!("   {} {agent} {action}: {}", HOSTS[node], state.as_deref().unwrap_or("-"));
        Ok(())
    }
}

fn other(node: usize) -> usize {
    1 - node
}
