//! Wakes a follower up when the head or the leader changes. A hint: events can be lost, and everything is read again.

use std::time::Duration;

use tokio::sync::watch;
use tokio_stream::StreamExt as _;

use super::client::Connection;
use super::keys::KeyRange;
use super::messages::{WatchCreateRequest, WatchRequest, WatchResponse};

/// A running watch. It ends when it is dropped, or when the connection fails.
pub struct Watch {
    changes: watch::Receiver<u64>,
    task: tokio::task::JoinHandle<()>,
}

impl Watch {
    /// Starts a watch and waits until etcd has confirmed it: every later change is noticed.
    pub async fn start(connection: &Connection, (key, range_end): KeyRange, timeout: Duration) -> Option<Watch> {
        let request = WatchRequest { create_request: Some(WatchCreateRequest { key, range_end }) };
        let create = async {
            let mut answers = connection.watch(request).await.ok()?;
            let first = answers.next().await?.ok()?;
            (first.created && !first.canceled).then_some(answers)
        };
        let mut answers = tokio::time::timeout(timeout, create).await.ok()??;
        let (sender, changes) = watch::channel(0);
        let task = tokio::spawn(async move {
            while let Some(Ok(WatchResponse { canceled: false, .. })) = answers.next().await {
                sender.send_modify(|number| *number += 1);
            }
        });
        Some(Watch { changes, task })
    }

    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }

    /// The number of changes so far.
    pub fn changes(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Waits until there are more changes than these, or the watch ends, or the time is up.
    pub async fn wait(&mut self, seen: u64, wait: Duration) {
        let more = self.changes.wait_for(|number| *number != seen);
        let _ = tokio::time::timeout(wait, more).await;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}
