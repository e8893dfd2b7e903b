//! Follows the machines of a host through restarts of its hypervisor. What the machines mean for Forewarn is left to an
//! observer: a server compares them with the region, a host agent reports them.

use std::sync::Arc;
use std::time::Duration;

use forewarn_core::Name;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use crate::inventory::{MachineWatch, WatchedDriver};
use crate::order::Pending;

/// The pause before the hypervisor is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The interval between two looks without a change: an order that has just ended may have hidden one.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// The interval at which records of unknown orders are looked for: a domain can be cloned or reverted at any time.
const UNKNOWN_RECORDS_EVERY: Duration = Duration::from_secs(60);

/// Learns about the machines of a host.
pub trait MachineObserver: Send {
    /// The hypervisor can be watched, or no longer.
    fn set_connected(&mut self, is_connected: bool);

    /// The record of an unknown order was removed from this machine.
    fn note_removed_record(&mut self, machine: String);

    /// Looks at the machines: once the hypervisor can be watched, after every change, regularly, and when the observer asks for it.
    ///
    /// # Errors
    ///
    /// If the hypervisor cannot be asked.
    fn observe<'o>(&'o mut self, watch: &'o mut dyn MachineWatch) -> Pending<'o, Result<(), String>>;

    /// Waits until the machines should be looked at although none of them has changed.
    fn wait_for_interest(&mut self) -> Pending<'_, ()>;
}

pub struct MachineFollower<O> {
    pub host: Name,
    pub driver: Arc<dyn WatchedDriver>,
    pub observer: O,
}

impl<O: MachineObserver> MachineFollower<O> {
    /// Runs until stopped.
    pub async fn run(mut self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let watch = stop.run_until_cancelled(self.driver.watch_machines()).await;
            match watch {
                None => return,
                Some(Ok(watch)) => {
                    self.observer.set_connected(true);
                    if stop.run_until_cancelled(self.follow(watch)).await.is_none() {
                        return;
                    }
                }
                Some(Err(error)) => tracing::warn!(host = %self.host, %error, "cannot watch the machines"),
            }
            self.observer.set_connected(false);
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Observes after every change, until the watch ends.
    async fn follow(&mut self, mut watch: Box<dyn MachineWatch>) {
        let mut records_at = Instant::now();
        loop {
            if records_at <= Instant::now() {
                self.remove_unknown_records().await;
                records_at = Instant::now() + UNKNOWN_RECORDS_EVERY;
            }
            if let Err(error) = self.observer.observe(&mut *watch).await {
                return tracing::warn!(host = %self.host, error, "cannot list the machines");
            }
            tokio::select! {
                // In order, so that runs with the same inputs are the same.
                biased;
                exists = watch.changed() => if !exists { return },
                () = self.observer.wait_for_interest() => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    }

    async fn remove_unknown_records(&mut self) {
        match self.driver.remove_unknown_records().await {
            Ok(machines) => {
                for name in machines {
                    tracing::warn!(host = %self.host, name, "removed the record of an unknown order");
                    self.observer.note_removed_record(name);
                }
            }
            Err(error) => tracing::warn!(host = %self.host, error, "cannot look for records of unknown orders"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use super::*;
    use crate::inventory::{DomainDescription, FoundDomain};
    use crate::order::{MachineDriver, Order, OrderId, Outcome, Refusal};

    /// A hypervisor that answers at the second attempt, then for two changes.
    #[derive(Default)]
    struct Restarted {
        attempts: Mutex<u32>,
    }

    struct TwoChanges(u32);

    impl MachineDriver for Restarted {
        fn perform(&self, _order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
            unreachable!("there are no orders")
        }

        fn abort(&self, _order: OrderId) {}

        fn abandon(&self, _order: OrderId) {}

        fn set_epoch(&self, _epoch: u64) -> Result<(), Refusal> {
            Ok(())
        }

        fn release(&self) -> Pending<'_, ()> {
            Box::pin(async {})
        }

        fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
            Ok(Vec::new())
        }

        fn can_continue(&self, _order: OrderId) -> bool {
            true
        }

        fn confirm(&self, _order: OrderId) -> Result<(), Refusal> {
            Ok(())
        }
    }

    impl WatchedDriver for Restarted {
        fn watch_machines(&self) -> Pending<'_, Result<Box<dyn MachineWatch>, String>> {
            let mut attempts = self.attempts.lock().unwrap();
            *attempts += 1;
            let is_there = *attempts == 2;
            Box::pin(async move {
                let watch = is_there.then(|| Box::new(TwoChanges(0)) as Box<dyn MachineWatch>);
                watch.ok_or_else(|| "connection refused".to_owned())
            })
        }

        fn remove_unknown_records(&self) -> Pending<'_, Result<Vec<String>, String>> {
            Box::pin(async { Ok(vec!["clone".to_owned()]) })
        }
    }

    impl MachineWatch for TwoChanges {
        fn list(&self) -> Pending<'_, Result<Vec<FoundDomain>, String>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn describe(&self) -> Pending<'_, Result<Vec<DomainDescription>, String>> {
            Box::pin(async { Ok(Vec::new()) })
        }

        fn changed(&mut self) -> Pending<'_, bool> {
            Box::pin(async move {
                self.0 += 1;
                match self.0 {
                    1 => true,
                    // Nothing changes for more than a minute; then the hypervisor ends.
                    2..=10 => std::future::pending().await,
                    _ => false,
                }
            })
        }
    }

    /// Asks for one look.
    struct Recorder {
        seen: Sender<String>,
        is_interested: bool,
    }

    impl MachineObserver for Recorder {
        fn set_connected(&mut self, is_connected: bool) {
            let _ = self.seen.send(format!("connected {is_connected}"));
        }

        fn note_removed_record(&mut self, machine: String) {
            let _ = self.seen.send(format!("removed from {machine}"));
        }

        fn observe<'o>(&'o mut self, _watch: &'o mut dyn MachineWatch) -> Pending<'o, Result<(), String>> {
            let _ = self.seen.send("observed".into());
            Box::pin(async { Ok(()) })
        }

        fn wait_for_interest(&mut self) -> Pending<'_, ()> {
            Box::pin(async {
                if !std::mem::take(&mut self.is_interested) {
                    std::future::pending::<()>().await;
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_hypervisor_is_followed_through_its_restarts() {
        let (sender, seen) = channel();
        let driver = Arc::new(Restarted::default());
        let follower =
            MachineFollower { host: "host1".into(), driver, observer: Recorder { seen: sender, is_interested: true } };
        let stop = CancellationToken::new();
        let task = tokio::spawn(follower.run(stop.clone()));
        sleep(Duration::from_secs(90)).await;
        stop.cancel();
        task.await.unwrap();
        let seen: Vec<String> = seen.iter().collect();
        let runs: Vec<(&str, usize)> =
            seen.chunk_by(|one, next| one == next).map(|run| (run[0].as_str(), run.len())).collect();
        let (gone, removed) = (("connected false", 1), ("removed from clone", 1));
        assert_eq!(runs[..4], [gone, ("connected true", 1), removed, ("observed", 8)], "{runs:?}");
        assert_eq!(runs[4..6], [removed, ("observed", 3)], "after a minute; {runs:?}");
        assert_eq!(runs[6].0, "connected false", "the watch has ended; {runs:?}");
    }
}
