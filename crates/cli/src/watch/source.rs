//! What the live view is told: everything at first and after every interruption, then each change.

use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{self, Api, Call, Changes, Clock, Event, HistoryRow, Machine, Next, past};
use crate::failure::Failure;

/// Machines that are looked at: a screen shows a hundred, and a filter finds the rest of these.
const MACHINES_MAX: usize = 5000;

/// How often the clock is looked at: a manual one may have been moved past nothing.
const CLOCK_EVERY: Duration = Duration::from_secs(1);

/// That a manual clock is moved is said just before it is.
const CLOCK_SOON: Duration = Duration::from_millis(100);

/// A change of the fleet is a look at all of it. The next one comes after so many times what the last one took, so that
/// a small fleet is shown at once and a large one is not asked for all the time.
const LOOK_REST: u32 = 10;

/// More changes of events than this without a pause are told by one look at everything.
const BURST: usize = 16;

/// A server that is away is asked so often.
const AGAIN: Duration = Duration::from_secs(1);

pub enum News {
    Everything {
        events: Vec<Event>,
        machines: Vec<Machine>,
    },
    Event(Box<Event>),
    Clock(Clock, Instant),
    Away(String),
    /// What came of something that was asked for.
    Said(String),
}

/// Never ends: a server that went away may come back.
pub fn listen(api: &Api, to: &SyncSender<News>) {
    loop {
        let Err(failure) = follow(api, to) else { return };
        let why = failure.message().unwrap_or_default().to_owned();
        if to.send(News::Away(why)).is_err() {
            return;
        }
        thread::sleep(AGAIN);
    }
}

/// Whether there is a server at all.
pub fn first_look(api: &Api) -> Result<[News; 2], Failure> {
    Ok([clock(api)?, everything(api)?])
}

pub fn approve(api: &Api, id: &str) -> News {
    said(api.post(&Call::to(&["events", id, "approve"]), &json!({})), "Approved.")
}

pub fn cancel(api: &Api, id: &str) -> News {
    said(api.post(&Call::to(&["events", id, "cancel"]), &json!({})), "Cancelled.")
}

fn said(answer: Result<serde_json::Value, Failure>, done: &str) -> News {
    News::Said(match answer {
        Ok(_) => done.into(),
        Err(failure) => failure.message().unwrap_or_default().into(),
    })
}

/// Ends well when nobody listens any more.
fn follow(api: &Api, to: &SyncSender<News>) -> Result<(), Failure> {
    let mut changes = Changes::open(api)?;
    let mut due = Due::now();
    loop {
        for news in due.take(api)? {
            if to.send(news).is_err() {
                return Ok(());
            }
        }
        let news = match changes.next(due.patience())? {
            Next::Row(row) => change(api, &client::read(&row)?, &mut due)?,
            Next::Nothing => {
                due.in_a_row = 0;
                None
            }
            Next::Gone => Some(News::Away("the server cannot be reached".into())),
            Next::Again => {
                due = Due::now();
                None
            }
        };
        if news.is_some_and(|news| to.send(news).is_err()) {
            return Ok(());
        }
    }
}

/// What must be looked at again, and when.
struct Due {
    clock: Instant,
    everything: Option<Instant>,
    /// When the server may be asked for everything again.
    rested: Instant,
    /// Changes of events that came without a pause.
    in_a_row: usize,
}

impl Due {
    fn now() -> Due {
        let now = Instant::now();
        Due { clock: now, everything: Some(now), rested: now, in_a_row: 0 }
    }

    fn everything(&mut self) {
        self.everything = Some(self.rested);
    }

    fn patience(&self) -> Duration {
        let first = self.everything.map_or(self.clock, |at| at.min(self.clock));
        first.saturating_duration_since(Instant::now())
    }

    fn take(&mut self, api: &Api) -> Result<Vec<News>, Failure> {
        let begun = Instant::now();
        let mut news = Vec::new();
        if self.clock <= begun {
            news.push(clock(api)?);
            self.clock = begun + CLOCK_EVERY;
        }
        if self.everything.is_some_and(|at| at <= begun) {
            news.push(everything(api)?);
            self.everything = None;
            self.rested = Instant::now() + begun.elapsed() * LOOK_REST;
        }
        Ok(news)
    }
}

fn change(api: &Api, row: &HistoryRow, due: &mut Due) -> Result<Option<News>, Failure> {
    let Some(id) = &row.event else {
        if row.target.as_deref() == Some("clock") {
            due.clock = Instant::now() + CLOCK_SOON;
        } else if matches!(row.kind.as_str(), "machine-added" | "machine-removed" | "scope-on" | "scope-off" | "audit")
        {
            due.everything();
        }
        return Ok(None);
    };
    due.in_a_row += 1;
    if due.in_a_row > BURST {
        due.everything();
        return Ok(None);
    }
    match api.get(&Call::to(&["events", id])) {
        Ok(value) => {
            let event = past::with_start(api, client::read(&value)?)?;
            Ok(Some(News::Event(Box::new(event))))
        }
        // It is over for long.
        Err(Failure::Refused(_)) => Ok(None),
        Err(failure) => Err(failure),
    }
}

fn clock(api: &Api) -> Result<News, Failure> {
    Ok(News::Clock(client::read(&api.get(&Call::to(&["clock"]))?)?, Instant::now()))
}

fn everything(api: &Api) -> Result<News, Failure> {
    let events: Vec<Event> = client::read_all(&api.list(Call::to(&["events"]).with("all", Some("true")))?)?;
    let machines = client::read_all(&api.list_some(Call::to(&["machines"]), MACHINES_MAX)?)?;
    Ok(News::Everything { events, machines })
}
