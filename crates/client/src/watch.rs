//! One change after the other, for as long as somebody wants to know.
//!
//! [`Pump`] decides when to ask and what to give; [`Watch`], and its async twin, ask and wait.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime};

use crate::blocking::Client;
use crate::calls::Poll;
use crate::error::Error;
use crate::event::EventId;
use crate::tracker::{Change, Tracker};

/// What the service recommends.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Short enough to notice soon that the service is gone, long enough to spare both sides the work.
pub const HOLD: Duration = Duration::from_secs(30);

/// An endless iterator of changes. An error is given once for each poll that failed, after the
/// retries of the client's policy, and the next call asks again.
#[derive(Debug)]
pub struct Watch {
    client: Client,
    pump: Pump,
}

impl Watch {
    pub(crate) fn new(client: Client) -> Watch {
        Watch { client, pump: Pump::default() }
    }

    /// The pause from one poll to the next, [`INTERVAL`] unless this says otherwise.
    pub fn every(mut self, interval: Duration) -> Watch {
        self.pump.interval = interval;
        self
    }

    /// How long a service that can hold requests may do so, [`HOLD`] unless this says otherwise; `None`
    /// to poll like everywhere else.
    pub fn hold(mut self, hold: Option<Duration>) -> Watch {
        self.pump.hold = hold;
        self
    }

    /// Goes on with what an earlier program had seen.
    pub fn resume(mut self, tracker: Tracker) -> Watch {
        self.pump.tracker = tracker;
        self
    }

    /// The events that are not over.
    pub fn tracker(&self) -> &Tracker {
        &self.pump.tracker
    }

    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// [`Client::approve`], and remembers that these may start before their time.
    pub fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        self.client.approve(ids)?;
        ids.iter().for_each(|id| self.pump.tracker.approved(id));
        Ok(())
    }
}

impl Iterator for Watch {
    type Item = Result<Change, Error>;

    fn next(&mut self) -> Option<Result<Change, Error>> {
        loop {
            match self.pump.next(self.client.clock().now()) {
                Next::Give(change) => return Some(Ok(change)),
                Next::Poll { after, hold } => {
                    if !after.is_zero() {
                        self.client.clock().sleep(after);
                    }
                    match self.client.ask(hold) {
                        Ok(poll) => self.pump.polled(&poll, self.client.clock().wall()),
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}

/// When to ask and what to give.
#[derive(Debug)]
pub(crate) struct Pump {
    pub interval: Duration,
    pub hold: Option<Duration>,
    pub tracker: Tracker,
    queue: VecDeque<Change>,
    /// When the next poll may begin.
    due: Duration,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Give(Change),
    Poll { after: Duration, hold: Option<Duration> },
}

impl Default for Pump {
    fn default() -> Pump {
        Pump {
            interval: INTERVAL,
            hold: Some(HOLD),
            tracker: Tracker::new(),
            queue: VecDeque::new(),
            due: Duration::ZERO,
        }
    }
}

impl Pump {
    /// Polls begin at least an interval apart, also those that a service holds: one that holds nothing,
    /// because it is about to stop or something between does not understand, is not flooded.
    pub fn next(&mut self, now: Duration) -> Next {
        if let Some(change) = self.queue.pop_front() {
            return Next::Give(change);
        }
        let after = self.due.saturating_sub(now);
        self.due = now + after + self.interval;
        Next::Poll { after, hold: self.hold }
    }

    pub fn polled(&mut self, poll: &Poll, wall: SystemTime) {
        if let Poll::Changed(document) = poll {
            self.queue.extend(self.tracker.feed(document, wall));
        }
    }
}
