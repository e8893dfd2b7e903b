//! The stream of changes, read on a thread of its own so that the receiver can time out. An interrupted stream continues
//! where it stopped.

use std::io::{BufRead, BufReader, Read};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use forewarn_api_types::{HistoryRow, Page};
use serde_json::Value;

use super::{Api, Call};
use crate::decode::decode;
use crate::failure::Failure;

/// The server sends a comment every 15 s; a stream that is silent for three of them is dead.
const SILENCE_MAX: Duration = Duration::from_secs(45);

/// How long to wait for a server to return, and how often to try.
const RECONNECT_MAX: Duration = Duration::from_secs(30);
const RECONNECT_INTERVAL: Duration = Duration::from_millis(500);

/// Capacity of the queue of rows.
const QUEUE_MAX: usize = 64;

/// Limit of a line, which holds one history row.
const LINE_BYTES_MAX: u64 = 1024 * 1024;

pub struct Changes<'a> {
    api: &'a Api,
    items: Receiver<StreamItem>,
    last: Option<u64>,
    last_activity: Instant,
    unreachable_since: Option<Instant>,
}

enum StreamItem {
    Row { number: Option<u64>, row: Value },
    Alive,
}

pub enum Change {
    Row(Value),
    /// Nothing arrived in time.
    Timeout,
    /// The server is unreachable; the next call tries again.
    Unreachable,
    /// Reconnected: fetch everything again.
    Reconnected,
}

impl<'a> Changes<'a> {
    /// Opens the stream after the newest row, so that nothing is lost if the connection breaks before the first one
    /// arrives.
    pub fn open(api: &'a Api) -> Result<Changes<'a>, Failure> {
        let newest = api.get(&Call::api(&["history"]).with("newest", Some(true)).with("limit", Some(1)))?;
        let last = decode::<Page<HistoryRow>>(&newest)?.value.first().map(|row| row.number);
        Ok(Changes { api, items: listen(api, last)?, last, last_activity: Instant::now(), unreachable_since: None })
    }

    pub fn next(&mut self, within: Duration) -> Result<Change, Failure> {
        if self.unreachable_since.is_some() {
            thread::sleep(RECONNECT_INTERVAL);
            return self.reconnect();
        }
        let until = Instant::now() + within;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            match self.items.recv_timeout(left) {
                Ok(StreamItem::Row { number, row }) => {
                    self.last_activity = Instant::now();
                    self.last = number.or(self.last);
                    return Ok(Change::Row(row));
                }
                Ok(StreamItem::Alive) => self.last_activity = Instant::now(),
                Err(RecvTimeoutError::Timeout) if self.last_activity.elapsed() < SILENCE_MAX => {
                    return Ok(Change::Timeout);
                }
                Err(_) => return self.reconnect(),
            }
        }
    }

    fn reconnect(&mut self) -> Result<Change, Failure> {
        let since = *self.unreachable_since.get_or_insert_with(Instant::now);
        match listen(self.api, self.last) {
            Ok(items) => {
                self.items = items;
                self.last_activity = Instant::now();
                self.unreachable_since = None;
                Ok(Change::Reconnected)
            }
            Err(Failure::Unreachable(_)) if since.elapsed() <= RECONNECT_MAX => Ok(Change::Unreachable),
            Err(failure) => Err(failure),
        }
    }
}

fn listen(api: &Api, after: Option<u64>) -> Result<Receiver<StreamItem>, Failure> {
    let stream = api.changes(after)?;
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    thread::spawn(move || forward(BufReader::new(stream), &sender));
    Ok(receiver)
}

/// Runs until the stream ends or the receiver is dropped.
fn forward(mut stream: impl BufRead, to: &SyncSender<StreamItem>) {
    let mut number = None;
    let mut data = String::new();
    while let Some(line) = next_line(&mut stream) {
        let item = match line.split_once(':').map(|(field, value)| (field, value.trim_start())) {
            Some(("id", value)) => {
                number = value.parse().ok();
                continue;
            }
            Some(("data", value)) => {
                data.push_str(value);
                continue;
            }
            Some(("", _)) => StreamItem::Alive,
            None if line.is_empty() && !data.is_empty() => {
                let Ok(row) = serde_json::from_str(&std::mem::take(&mut data)) else { return };
                StreamItem::Row { number, row }
            }
            _ => continue,
        };
        if to.send(item).is_err() {
            return;
        }
    }
}

fn next_line(stream: &mut impl BufRead) -> Option<String> {
    let mut line = String::new();
    let bytes = stream.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).ok()?;
    let whole = bytes > 0 && line.ends_with('\n');
    whole.then(|| line.trim_end_matches(['\r', '\n']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_comments_and_incomplete_ends_are_distinguished() {
        let text = ": hello\n\nid: 7\nevent: started\ndata: {\"number\":7}\n\nid: 8\ndata: {\"num";
        let (sender, receiver) = sync_channel(QUEUE_MAX);
        forward(text.as_bytes(), &sender);
        drop(sender);
        let items: Vec<String> = receiver
            .iter()
            .map(|item| match item {
                StreamItem::Alive => "alive".into(),
                StreamItem::Row { number, row } => format!("{number:?} {row}"),
            })
            .collect();
        assert_eq!(items, ["alive", "Some(7) {\"number\":7}"]);
    }
}
