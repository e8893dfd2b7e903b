//! The stream to one agent: its part of the region first, then every change of it.
//!
//! An agent that reconnects with the last copy that it was sent gets only the changes since.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forewarn_api_types::host_link::StreamLine;
use forewarn_core::{Name, Region};
use forewarn_drivers::book::orders_of;
use forewarn_drivers::message::encode_order;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::links::{SentCopy, Session};
use super::part::{difference, encode_full_copy, select_entities};

/// Lines that are queued for the connection.
pub const LINES_QUEUED_MAX: usize = 4;

/// An agent that reads nothing for this long is disconnected. It can reconnect and continue.
const STALLED_AFTER: Duration = Duration::from_secs(10);

/// How often a server that may not give orders looks whether it may again.
const ORDERS_RETRY: Duration = Duration::from_millis(200);

/// How often an agent learns of a revision that changes nothing for it, unless it waits for one.
const UNCHANGED_EVERY: Duration = Duration::from_secs(1);

pub struct Stream {
    pub session: Session,
    /// The certificate with which the agent connected.
    pub fingerprint: String,
    pub lines: mpsc::Sender<Bytes>,
}

fn list_orders(region: &Region, host: &Name) -> Vec<Value> {
    orders_of(region, host, region.meta().term, &|_| None).iter().map(encode_order).collect()
}

/// The agent is gone, or another stream has taken over.
struct StreamEnded;

impl Stream {
    /// Serves until the agent is gone. `sent`: what the agent has.
    pub async fn run(self, sent: Option<SentCopy>) {
        let _ = self.serve(sent).await;
    }

    async fn serve(&self, mut sent: Option<SentCopy>) -> Result<(), StreamEnded> {
        let links = self.session.links().clone();
        let mut revisions = links.engine.subscribe();
        let mut certificates = links.access.changes();
        let mut is_first = true;
        let mut last_line = Instant::now();
        let mut last_orders = None;
        loop {
            revisions.mark_unchanged();
            self.check(&links)?;
            let snapshot = links.engine.snapshot();
            let revision = snapshot.region.meta().revision;
            let part = Arc::new(select_entities(&snapshot.region, &self.session.host));
            let may_order = links.may_give_orders();
            let orders = if may_order { list_orders(&snapshot.region, &self.session.host) } else { Vec::new() };
            let epoch = snapshot.region.host(&self.session.host).map(|host| host.epoch);
            drop(snapshot);
            let line = match &sent {
                None => Some(encode_full_copy(revision, &part)),
                Some(SentCopy { part: before, .. }) => difference(revision, before, &part),
            };
            let is_due = last_line + UNCHANGED_EVERY <= Instant::now();
            let behind = sent.as_ref().is_some_and(|sent| sent.revision < revision);
            let is_wanted = sent.as_ref().is_some_and(|sent| sent.revision < self.session.requested_revision());
            let unchanged = (is_first || behind && (is_due || is_wanted)).then_some(StreamLine::Unchanged { revision });
            if let Some(line) = line.or(unchanged) {
                self.send(&line).await?;
                let now_sent = SentCopy { revision, part };
                self.session.remember(now_sent.clone());
                sent = Some(now_sent);
                last_line = Instant::now();
                is_first = false;
            }
            // After the copy, so that the agent knows the machine and the term of each order.
            let orders = StreamLine::Orders { orders, epoch };
            if may_order && last_orders.as_ref() != Some(&orders) {
                self.send(&orders).await?;
                last_orders = Some(orders);
            }
            let is_behind = sent.as_ref().is_some_and(|sent| sent.revision < revision);
            tokio::select! {
                _ = revisions.changed() => {}
                () = self.session.wake.notified() => {}
                _ = certificates.changed() => {}
                () = sleep_until(last_line + UNCHANGED_EVERY), if is_behind => {}
                () = sleep(ORDERS_RETRY), if links.withholds_orders(may_order) => {}
                () = self.lines.closed() => return Err(StreamEnded),
            }
        }
    }

    fn check(&self, links: &super::Links) -> Result<(), StreamEnded> {
        let is_valid = links.access.host_of(&self.fingerprint).as_deref() == Some(&*self.session.host);
        if self.session.is_current() && is_valid { Ok(()) } else { Err(StreamEnded) }
    }

    async fn send(&self, line: &StreamLine) -> Result<(), StreamEnded> {
        let mut bytes = serde_json::to_vec(line).map_err(|_| StreamEnded)?;
        bytes.push(b'\n');
        match timeout(STALLED_AFTER, self.lines.send(bytes.into())).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(StreamEnded),
        }
    }
}
