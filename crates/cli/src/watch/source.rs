//! What the live view is told: everything at first and after every interruption, then each change.

use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::client::{self, Api, Call, Changes, Clock, Event, HistoryRow, Machine, Next, past};
use crate::failure::Failure;

/// Machines that are looked at: a screen shows a hundred, and a filter finds the rest of these.
const MACHINES_MAX: usize = 5000;

/// How long the stream is waited for before the clock is looked at.
const LOOK: Duration = Duration::from_secs(1);

/// A change of the fleet is a look at all of it, which costs the server something.
const EVERYTHING_EVERY: Duration = Duration::from_secs(2);

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
    let mut stale = true;
    let mut looked: Option<Instant> = None;
    loop {
        if stale && looked.is_none_or(|at| at.elapsed() >= EVERYTHING_EVERY) {
            let [clock, everything] = first_look(api)?;
            if to.send(clock).and_then(|()| to.send(everything)).is_err() {
                return Ok(());
            }
            (stale, looked) = (false, Some(Instant::now()));
        }
        let news = match changes.next(LOOK)? {
            Next::Row(row) => change(api, &client::read(&row)?, &mut stale)?,
            // A manual clock may have been moved past nothing.
            Next::Nothing => Some(clock(api)?),
            Next::Gone => Some(News::Away("the server cannot be reached".into())),
            Next::Again => {
                (stale, looked) = (true, None);
                None
            }
        };
        if news.is_some_and(|news| to.send(news).is_err()) {
            return Ok(());
        }
    }
}

fn change(api: &Api, row: &HistoryRow, stale: &mut bool) -> Result<Option<News>, Failure> {
    let Some(id) = &row.event else {
        *stale |= matches!(row.kind.as_str(), "machine-added" | "machine-removed" | "scope-on" | "scope-off" | "audit");
        return Ok(None);
    };
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
