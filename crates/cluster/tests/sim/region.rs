//! The region that the simulated servers share. A leader carries out commands with the real rules; all copies apply the writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use forewarn_core::{
    ApprovalScope, Approver, Command, Entity, Event, EventId, FactKind, Guid, Key, MachineId, NewMachine, Region,
    Report, Request, ResourceGroupRef, Settings, Status, Timestamp, Transition, Write,
};

use crate::rng::Rng;

const MACHINES: usize = 3;
/// A restart has five seconds of notice.
const NOTICE_SCALE: u32 = 180;
const NOTICE_MS: u64 = 5_000;

/// A record of the log, as the application sees it. The log itself only contains its number.
#[derive(Clone)]
pub struct Content {
    pub command: Command,
    pub transition: Transition,
    /// The true time of the commit.
    pub true_ms: u64,
}

/// The entities that a server has stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RegionCopy(BTreeMap<Key, Entity>);

impl RegionCopy {
    pub fn apply(&mut self, writes: &[Write]) {
        for write in writes {
            match write {
                Write::Put(entity) => self.0.insert(entity.key(), entity.clone()),
                Write::Delete(key) => self.0.remove(key),
            };
        }
    }

    pub fn load(&self) -> Result<Region, String> {
        Region::load(settings(), self.0.values().cloned())
            .map_err(|error| format!("invariant \"copies load\": {error:?}"))
    }
}

fn settings() -> Settings {
    Settings { notice_scale: NOTICE_SCALE, ..Settings::default() }
}

/// Carries out a random command.
pub fn change(region: &Region, time_ms: i64, rng: &mut Rng) -> Result<(Command, Transition), String> {
    let command = choose(region, rng);
    match carry_out(region, &command, time_ms) {
        Ok(transition) => Ok((command, transition)),
        Err(_) => Ok((Command::Tick, carry_out(region, &Command::Tick, time_ms)?)),
    }
}

/// Carries out a command at a time of the region.
pub fn carry_out(region: &Region, command: &Command, time_ms: i64) -> Result<Transition, String> {
    region.apply(command, Timestamp(time_ms)).map_err(|rejection| format!("{command:?} was refused: {rejection:?}"))
}

fn choose(region: &Region, rng: &mut Rng) -> Command {
    let machines: Vec<MachineId> = region.machines().map(|machine| machine.id).collect();
    if machines.len() < MACHINES {
        let name = format!("machine-{}", machines.len());
        let home = ResourceGroupRef { subscription: "subscription".into(), resource_group: "group".into() };
        return Command::RegisterMachine(Box::new(NewMachine::plain(guid(rng), &name, home)));
    }
    let machine = rng.one(&machines);
    let find = |status: fn(&Status) -> bool| -> Option<Arc<Event>> {
        region.events_of(machine).find(|event| status(&event.status)).cloned()
    };
    let command = match rng.below(10) {
        0..=1 => Some(Command::Request {
            operation: guid(rng),
            by: "operator".into(),
            request: Request::Restart { machines: vec![machine] },
            event: Some(guid(rng)),
        }),
        2..=3 => Some(Command::Seen { machine }),
        4 => find(|status| *status == Status::Scheduled).map(|event| Command::Approve {
            by: Approver::Guest { machine, name: "guest".into() },
            within: ApprovalScope::ScopeOf(machine),
            events: vec![event.id],
        }),
        5..=6 => find(|status| matches!(status, Status::Started { .. }))
            .map(|event| Command::Report { event: event.id, report: Report::Done }),
        _ => None,
    };
    command.unwrap_or(Command::Tick)
}

fn guid(rng: &mut Rng) -> Guid {
    Guid(u128::from(rng.next()) << 64 | u128::from(rng.next()))
}

/// Each event has its notice, unless it is approved, and nothing happens to it twice, also when the leader changes.
#[derive(Default)]
pub struct Notices {
    appeared_ms: BTreeMap<EventId, u64>,
    approved: Vec<EventId>,
    started: Vec<EventId>,
    ended: Vec<EventId>,
}

impl Notices {
    /// The contents of the log, in order.
    pub fn check(&mut self, content: &Content) -> Result<(), String> {
        let once = |list: &mut Vec<EventId>, id: EventId| match list.contains(&id) {
            true => Err(format!("invariant \"nothing happens twice to an event\": {id}")),
            false => {
                list.push(id);
                Ok(())
            }
        };
        for fact in &content.transition.facts {
            match &fact.what {
                FactKind::Appeared(event) if self.appeared_ms.insert(event.id, content.true_ms).is_some() => {
                    return Err(format!("invariant \"nothing happens twice to an event\": {}", event.id));
                }
                FactKind::Approved { event, .. } => self.approved.push(event.id),
                FactKind::Started(event) => {
                    once(&mut self.started, event.id)?;
                    self.check_notice(event, content.true_ms)?;
                }
                FactKind::Ended(event) => once(&mut self.ended, event.id)?,
                _ => {}
            }
        }
        Ok(())
    }

    pub fn started(&self) -> u64 {
        self.started.len() as u64
    }

    fn check_notice(&self, event: &Event, started_ms: u64) -> Result<(), String> {
        if !event.is_shown() || self.approved.contains(&event.id) {
            return Ok(());
        }
        let Some(appeared_ms) = self.appeared_ms.get(&event.id) else {
            return Err(format!("invariant \"no event starts before it appears\": {}", event.id));
        };
        // The fastest clock gains 3 %.
        let notice_ms = (started_ms - appeared_ms) * 103 / 100 + 10;
        match notice_ms < NOTICE_MS {
            true => Err(format!("invariant \"no event starts early\": {} after {notice_ms} ms", event.id)),
            false => Ok(()),
        }
    }
}
