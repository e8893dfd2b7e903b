//! Compares the events that the service showed with the hooks that the agents ran.

use std::collections::BTreeMap;
use std::fmt::Write;

use forewarn_core::Timestamp;

use crate::support::{Guest, World, event_id};

/// Event in the history of the server.
struct PastEvent {
    kind: String,
    machines: Vec<String>,
    appeared: Timestamp,
    approvals: usize,
    ended: Option<(Timestamp, String)>,
}

/// Marks and log of one agent.
struct AgentTrace {
    marks: Vec<String>,
    log: String,
}

pub struct Ledger {
    /// By ID, in the spelling of the document.
    events: BTreeMap<String, PastEvent>,
    agents: BTreeMap<String, AgentTrace>,
    /// Number of requests that each kind of fault affected.
    faults: BTreeMap<String, u64>,
}

impl Ledger {
    pub fn read<'g>(world: &World, guests: impl Iterator<Item = (&'static str, &'g Guest)>) -> Ledger {
        let trace = |guest: &Guest| AgentTrace { marks: guest.marks(), log: guest.log() };
        let agents = guests.map(|(name, guest)| (name.to_owned(), trace(guest))).collect();
        let mut ledger = Ledger { events: BTreeMap::new(), agents, faults: BTreeMap::new() };
        for row in world.history() {
            let id = row.event.map(event_id).unwrap_or_default();
            match (row.kind.as_str(), ledger.events.get_mut(&id)) {
                ("appeared", _) => {
                    let kind = row.outcome.unwrap_or_default();
                    let event = PastEvent { kind, machines: row.machines, appeared: row.at, approvals: 0, ended: None };
                    ledger.events.insert(id, event);
                }
                ("approved", Some(event)) => event.approvals += 1,
                ("ended", Some(event)) => event.ended = Some((row.at, row.outcome.unwrap_or_default())),
                ("audit", _) => ledger.add_fault(&row.detail),
                _ => {}
            }
        }
        ledger
    }

    fn add_fault(&mut self, detail: &str) {
        let detail: serde_json::Value = serde_json::from_str(detail).unwrap_or_default();
        if let (Some(kind), Some(met)) = (detail["kind"].as_str(), detail["met"].as_u64()) {
            *self.faults.entry(kind.to_owned()).or_default() += met;
        }
    }

    pub fn check(&self) {
        let (table, mut wrong) = (self.render_table(), Vec::new());
        println!("{table}");
        for (id, event) in &self.events {
            for (name, agent) in &self.agents {
                let is_its_own = event.machines.contains(name);
                let [prepare, started, restore] = agent.counts(id);
                let is_right = match is_its_own {
                    true => prepare <= 1 && started <= 1 && prepare + started >= 1 && restore == 1,
                    false => prepare + started + restore == 0,
                };
                let approvals = agent.count(&format!("event {id}: approved"));
                if !is_right || approvals > usize::from(is_its_own) || event.approvals > 1 || event.ended.is_none() {
                    wrong.push(format!("{name} and event {id}: {}", agent.describe(id)));
                }
            }
        }
        for (name, agent) in &self.agents {
            let (outages, ends) = (agent.count("polling failed"), agent.count("the service responds again"));
            if outages.abs_diff(ends) > agent.count("forewarn-agent 0") {
                wrong.push(format!("{name} logged {outages} outages and {ends} recoveries"));
            }
        }
        assert!(wrong.is_empty(), "{}\n{table}", wrong.join("\n"));
        assert!(self.faults.values().all(|met| *met > 0), "some faults affected no request: {:?}", self.faults);
    }

    fn render_table(&self) -> String {
        let mut table = String::from("event, seconds visible, outcome, machines; hooks of each agent\n");
        for (id, event) in &self.events {
            let (until, outcome) = event.ended.as_ref().map_or((event.appeared, "-"), |(at, how)| (*at, how));
            let (secs, machines) = (until.since(event.appeared).as_secs(), event.machines.join(","));
            let _ = write!(table, "{id} {:9} {secs:5} {outcome:10} {machines:13}", event.kind);
            for (name, agent) in &self.agents {
                let _ = write!(table, "  {name} {:?}", agent.counts(id));
            }
            table.push('\n');
        }
        let _ = write!(table, "requests affected by faults: {:?}", self.faults);
        table
    }
}

impl AgentTrace {
    /// Number of runs of each phase.
    fn counts(&self, id: &str) -> [usize; 3] {
        ["prepare", "started", "restore"].map(|phase| {
            let mark = format!("{phase} {id}");
            self.marks.iter().filter(|each| **each == mark).count()
        })
    }

    fn count(&self, text: &str) -> usize {
        self.log.lines().filter(|line| line.contains(text)).count()
    }

    /// Log lines about an event.
    fn describe(&self, id: &str) -> String {
        let lines: Vec<&str> = self.log.lines().filter(|line| line.contains(id)).collect();
        format!("{:?}\n{}", self.counts(id), lines.join("\n"))
    }
}
