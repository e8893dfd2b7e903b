//! Handler health: when each machine first and last polled, how often, and its last approval. Kept across restarts.
//!
//! ```text
//!  request record (memory, metadata) ─▶ records (memory) ─▶ API, portal
//!                                          │ every minute, and when the server stops
//!                                          └─▶ attachments of the region, one for each range of machines
//! ```
//!
//! Polls are too many to be commands, so a crash loses up to a minute of them. Nothing here decides about events: whether an
//! event group is on is a rule.

mod record;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_api_types::{GroupHandlers, HandlerHealth};
use forewarn_core::{Group, MachineId, Region, Timestamp};
use forewarn_engine::{Bundle, Engine};
use forewarn_metadata::EndpointState;
use forewarn_render::Convert;
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader, StoreError};
use tokio_util::sync::CancellationToken;

pub use record::HandlerRecord;
use record::HandlerState;

/// Prefix of attachment names.
const PREFIX: &str = "handlers/";

/// Machines whose records are stored together, by ID.
const RANGE: u64 = 256;

/// Ranges in one commit: the machines that the request record has room for, about 1 MB. The rest follows in the next commit.
const RANGES_PER_COMMIT_MAX: usize = 64;

/// Time between saves. A crash loses this much.
const SAVE_INTERVAL: Duration = Duration::from_secs(60);

/// The health of all handlers.
pub struct Handlers {
    engine: Engine,
    endpoint: Arc<EndpointState>,
    /// When the server started, on its own clock.
    started: Timestamp,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    tracked: BTreeMap<MachineId, HandlerState>,
    /// Ranges that differ from what is stored.
    unsaved: BTreeSet<u64>,
}

impl Handlers {
    /// Loads the stored records.
    pub async fn open(engine: Engine, endpoint: Arc<EndpointState>) -> Result<Handlers, StoreError> {
        let stored = engine.read(load).await?;
        let region = &engine.snapshot().region;
        let mut state = State::default();
        for (machine, record) in stored {
            if region.machine(machine).is_some() {
                state.tracked.insert(machine, HandlerState::restored(record));
            } else {
                state.unsaved.insert(range_of(machine));
            }
        }
        let started = engine.now();
        Ok(Handlers { engine, endpoint, started, state: Mutex::new(state) })
    }

    /// Saves records until the server stops, and once more then.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        while stop.run_until_cancelled(tokio::time::sleep(SAVE_INTERVAL)).await.is_some() {
            self.save().await;
        }
        self.save().await;
    }

    /// How a machine polls. None: it never has.
    pub fn find(&self, machine: MachineId) -> Option<HandlerRecord> {
        let seen = self.endpoint.requests.log_of(machine, u64::MAX).summary;
        let before = self.state().tracked.get(&machine).copied();
        HandlerState::advance(before, &seen).map(|tracked| tracked.record)
    }

    pub fn is_polling(&self, record: &HandlerRecord) -> bool {
        record.is_polling(self.engine.now(), self.started)
    }

    pub fn render(&self, machine: MachineId) -> Option<HandlerHealth> {
        let record = self.find(machine)?;
        Some(HandlerHealth {
            polling: self.is_polling(&record),
            polls: record.polls,
            since: record.since.convert(),
            last_poll: record.last_poll.convert(),
            interval_milliseconds: record.interval.map(|interval| interval.as_millis() as u64),
            last_approval: record.last_approval.map(Convert::convert),
        })
    }

    /// The handlers of a group together.
    pub fn render_group(&self, region: &Region, group: &Group) -> GroupHandlers {
        let records: Vec<HandlerRecord> =
            region.group_members(group).filter_map(|machine| self.find(machine.id)).collect();
        let polling = records.iter().filter(|record| self.is_polling(record)).count();
        GroupHandlers {
            polling: u32::try_from(polling).unwrap_or(u32::MAX),
            polls: records.iter().map(|record| record.polls).sum(),
            since: records.iter().map(|record| record.since).min().map(Convert::convert),
            last_poll: records.iter().map(|record| record.last_poll).max().map(Convert::convert),
            last_approval: records.iter().filter_map(|record| record.last_approval).max().map(Convert::convert),
        }
    }

    /// Takes over the request record and stores the ranges that changed.
    pub async fn save(&self) {
        let region = self.engine.snapshot().region.clone();
        self.collect(&region);
        let ranges: Vec<u64> = self.state().unsaved.iter().copied().take(RANGES_PER_COMMIT_MAX).collect();
        if ranges.is_empty() {
            return;
        }
        let attachments: Vec<Attachment> = ranges.iter().map(|range| self.write_range(*range)).collect();
        let attach = Box::new(move |_: &[forewarn_core::Answer]| attachments);
        match self.engine.submit_all(Bundle { commands: Vec::new(), audit: None, attach }).await {
            Ok(_) => self.state().unsaved.retain(|range| !ranges.contains(range)),
            Err(error) => tracing::warn!(%error, "cannot store the polls of handlers; trying again later"),
        }
    }

    fn collect(&self, region: &Region) {
        for machine in region.machines() {
            let seen = self.endpoint.requests.log_of(machine.id, u64::MAX).summary;
            let mut state = self.state();
            let before = state.tracked.get(&machine.id).copied();
            let after = HandlerState::advance(before, &seen);
            if let Some(after) = after.filter(|after| before.map(|it| it.record) != Some(after.record)) {
                state.tracked.insert(machine.id, after);
                state.unsaved.insert(range_of(machine.id));
            }
        }
        let mut state = self.state();
        let gone: Vec<MachineId> =
            state.tracked.keys().copied().filter(|machine| region.machine(*machine).is_none()).collect();
        for machine in gone {
            state.tracked.remove(&machine);
            state.unsaved.insert(range_of(machine));
        }
    }

    fn write_range(&self, range: u64) -> Attachment {
        let state = self.state();
        let machines = MachineId(range * RANGE)..MachineId((range + 1) * RANGE);
        let records: Vec<(MachineId, HandlerRecord)> =
            state.tracked.range(machines).map(|(machine, tracked)| (*machine, tracked.record)).collect();
        // Zero-padded, so that pages of names come in a fixed order.
        let name = format!("{PREFIX}{range:016}");
        match records.is_empty() {
            true => Attachment::remove(Owner::Region, name),
            false => Attachment::put(Owner::Region, name, record::encode(&records)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn range_of(machine: MachineId) -> u64 {
    machine.0 / RANGE
}

fn load(reader: &dyn Reader) -> Result<Vec<(MachineId, HandlerRecord)>, StoreError> {
    let (mut records, mut after) = (Vec::new(), None);
    loop {
        let page = reader.attachments(Owner::Region, PREFIX, after.as_deref(), ATTACHMENTS_PAGE_MAX)?;
        for (_, text) in &page {
            records.extend(record::decode(text)?);
        }
        match page.into_iter().next_back() {
            Some((name, _)) => after = Some(name),
            None => return Ok(records),
        }
    }
}
