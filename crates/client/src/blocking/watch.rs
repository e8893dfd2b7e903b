//! The blocking watch: an endless iterator over changes.

use std::time::Duration;

use super::Client;
use crate::error::Error;
use crate::event::EventId;
use crate::tracker::{Change, Tracker};
use crate::watch::{WatchState, WatchStep};

/// Endless iterator over changes, created by [`Client::watch`].
///
/// A poll that still fails after the retries of the client's policy yields one error. The next call to `next` polls
/// again.
///
/// ```no_run
/// # use std::time::Duration;
/// # use forewarn_client::{Client, Endpoint};
/// let client = Client::new(Endpoint::link_local());
/// for change in client.watch().interval(Duration::from_secs(5)).flatten() {
///     println!("{change:?}");
/// }
/// ```
#[derive(Debug)]
pub struct Watch {
    client: Client,
    state: WatchState,
}

impl Watch {
    pub(super) fn new(client: Client) -> Watch {
        Watch { client, state: WatchState::default() }
    }

    /// Sets the interval between polls. The default is [`INTERVAL_DEFAULT`](crate::INTERVAL_DEFAULT).
    pub fn interval(mut self, interval: Duration) -> Watch {
        self.state.interval = interval;
        self
    }

    /// Sets how long the service may hold a poll, where it supports long polling; `None` disables long polling. The
    /// default is [`HOLD_DEFAULT`](crate::HOLD_DEFAULT).
    pub fn hold(mut self, hold: Option<Duration>) -> Watch {
        self.state.hold = hold;
        self
    }

    /// Continues from the events that an earlier run has seen.
    pub fn resume(mut self, tracker: Tracker) -> Watch {
        self.state.tracker = tracker;
        self
    }

    /// Events that have not finished.
    pub fn tracker(&self) -> &Tracker {
        &self.state.tracker
    }

    /// Client that does the polling.
    pub fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Approves events as [`Client::approve`] does, and records that they may start before `NotBefore`.
    pub fn approve(&mut self, ids: &[EventId]) -> Result<(), Error> {
        self.client.approve(ids)?;
        ids.iter().for_each(|id| self.state.tracker.mark_approved(id));
        Ok(())
    }
}

impl Iterator for Watch {
    type Item = Result<Change, Error>;

    fn next(&mut self) -> Option<Result<Change, Error>> {
        loop {
            match self.state.next(self.client.clock.now()) {
                WatchStep::Yield(change) => return Some(Ok(change)),
                WatchStep::Poll { after, hold } => {
                    if !after.is_zero() {
                        self.client.clock.sleep(after);
                    }
                    match self.client.get_document(hold) {
                        Ok(poll) => self.state.record(&poll, self.client.clock.wall_time()),
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
    }
}
