//! Updates for the live view: all data at first and after every interruption, then each change.

use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use forewarn_api_types::{Clock, EmptyBody, Event, EventId, HistoryRow, Machine};

use forewarn_api_client::decode::{decode, decode_all};
use forewarn_api_client::failure::Failure;
use forewarn_api_client::{Api, Call, Change, Changes};

/// Limit of machines fetched: a screen shows a hundred, and the filter searches these.
const MACHINES_MAX: usize = 5000;

/// Interval of clock requests: moving a manual clock does not always cause a change.
const CLOCK_INTERVAL: Duration = Duration::from_secs(1);

/// Delay after the announcement of a clock change, which is sent just before the clock moves.
const CLOCK_DELAY: Duration = Duration::from_millis(100);

/// Pause between two full refreshes, as a multiple of the duration of the last one, so that a small fleet is refreshed
/// at once and a large one does not load the server.
const REFRESH_PAUSE_FACTOR: u32 = 10;

/// Number of consecutive event changes after which a full refresh replaces single requests.
const BURST_MAX: usize = 16;

/// Interval of attempts to reconnect.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(1);

pub enum Update {
    Everything {
        events: Vec<Event>,
        machines: Vec<Machine>,
    },
    Event(Box<Event>),
    Clock(Clock, Instant),
    Unreachable(String),
    /// Result of a request by the user.
    Message(String),
}

/// Runs until the receiver is dropped, and reconnects when the server goes away.
pub fn listen(api: &Api, to: &SyncSender<Update>) {
    loop {
        let Err(failure) = follow(api, to) else { return };
        let why = failure.message().unwrap_or_default().to_owned();
        if to.send(Update::Unreachable(why)).is_err() {
            return;
        }
        thread::sleep(RECONNECT_INTERVAL);
    }
}

/// Fetches all data once; fails if the server is unreachable.
pub fn fetch_all(api: &Api) -> Result<[Update; 2], Failure> {
    Ok([fetch_clock(api)?, fetch_fleet(api)?])
}

pub fn approve(api: &Api, id: EventId) -> Update {
    message_for(api.post(&Call::api(&["events", &id.to_string(), "approve"]), &EmptyBody {}), "Approved.")
}

pub fn cancel(api: &Api, id: EventId) -> Update {
    message_for(api.post(&Call::api(&["events", &id.to_string(), "cancel"]), &EmptyBody {}), "Canceled.")
}

fn message_for(answer: Result<serde_json::Value, Failure>, done: &str) -> Update {
    Update::Message(match answer {
        Ok(_) => done.into(),
        Err(failure) => failure.message().unwrap_or_default().into(),
    })
}

/// Returns when the receiver is dropped.
fn follow(api: &Api, to: &SyncSender<Update>) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    let mut due = RefreshSchedule::now();
    loop {
        for update in due.take(api)? {
            if to.send(update).is_err() {
                return Ok(());
            }
        }
        let update = match changes.next(due.time_to_next())? {
            Change::Row(row) => handle_change(api, &decode(&row)?, &mut due)?,
            Change::Timeout => {
                due.burst_length = 0;
                None
            }
            Change::Unreachable => Some(Update::Unreachable("server unreachable".into())),
            Change::Reconnected => {
                due = RefreshSchedule::now();
                None
            }
        };
        if update.is_some_and(|update| to.send(update).is_err()) {
            return Ok(());
        }
    }
}

/// The times of the next refreshes.
struct RefreshSchedule {
    clock: Instant,
    full_refresh: Option<Instant>,
    /// Earliest time of the next full refresh.
    earliest_full: Instant,
    /// Event changes since the last pause.
    burst_length: usize,
}

impl RefreshSchedule {
    fn now() -> RefreshSchedule {
        let now = Instant::now();
        RefreshSchedule { clock: now, full_refresh: Some(now), earliest_full: now, burst_length: 0 }
    }

    fn schedule_full(&mut self) {
        self.full_refresh = Some(self.earliest_full);
    }

    fn time_to_next(&self) -> Duration {
        let first = self.full_refresh.map_or(self.clock, |at| at.min(self.clock));
        first.saturating_duration_since(Instant::now())
    }

    fn take(&mut self, api: &Api) -> Result<Vec<Update>, Failure> {
        let started_at = Instant::now();
        let mut update = Vec::new();
        if self.clock <= started_at {
            update.push(fetch_clock(api)?);
            self.clock = started_at + CLOCK_INTERVAL;
        }
        if self.full_refresh.is_some_and(|at| at <= started_at) {
            update.push(fetch_fleet(api)?);
            self.full_refresh = None;
            self.earliest_full = Instant::now() + started_at.elapsed() * REFRESH_PAUSE_FACTOR;
        }
        Ok(update)
    }
}

fn handle_change(api: &Api, row: &HistoryRow, due: &mut RefreshSchedule) -> Result<Option<Update>, Failure> {
    let Some(id) = &row.event else {
        if row.target.as_deref() == Some("clock") {
            due.clock = Instant::now() + CLOCK_DELAY;
        } else if matches!(row.kind.as_str(), "machine-added" | "machine-removed" | "group-on" | "group-off" | "audit")
        {
            due.schedule_full();
        }
        return Ok(None);
    };
    due.burst_length += 1;
    if due.burst_length > BURST_MAX {
        due.schedule_full();
        return Ok(None);
    }
    match api.get(&Call::api(&["events", &id.to_string()])) {
        Ok(value) => Ok(Some(Update::Event(Box::new(decode(&value)?)))),
        // History no longer contains the event.
        Err(Failure::Refused(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn fetch_clock(api: &Api) -> Result<Update, Failure> {
    Ok(Update::Clock(decode(&api.get(&Call::api(&["clock"]))?)?, Instant::now()))
}

fn fetch_fleet(api: &Api) -> Result<Update, Failure> {
    let events: Vec<Event> = decode_all(&api.list(Call::api(&["events"]).with("all", Some("true")))?)?;
    let machines = decode_all(&api.list_some(Call::api(&["machines"]), MACHINES_MAX)?)?;
    Ok(Update::Everything { events, machines })
}
