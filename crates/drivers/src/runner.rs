//! Carries out the orders of one host: performs each, reports its outcome, and confirms it in the journal once the
//! report is committed.
//!
//! ```text
//!  orders ─▶ perform ─▶ report ─▶ confirm ─▶ look at the orders again
//! ```
//!
//! One task per machine, so one order at a time. A machine's task is forgotten only after its report is visible in the
//! orders, so that an order that has ended is not taken for a new one.
//!
//! Orders of the journal continue without a server, but not after a restart of the operating system: by then, the host may
//! have been fenced, and its machines started elsewhere. Such an order waits for the book. If the book does not have it, or the
//! host is still fenced, it is abandoned: no machine is started.
//!
//! A host that was fenced and activated again while it was disconnected is in a new epoch. Before it does anything else, it
//! abandons all orders of earlier epochs, including those in progress.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::Guid;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

/// Orders in progress. Others are queued: more would mostly wait for the same disks and links.
pub const ORDERS_MAX: usize = 32;

/// Evictions and deletions in progress, in addition to other orders: they must not wait for guests that take minutes to shut down.
pub const URGENT_ORDERS_MAX: usize = 32;

/// The pause before an order that the driver refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Maximum time for machines to run again when this program stops. A libvirtd that does not answer must not prevent the
/// stop. Less than the time that the server and the host agent give their tasks.
const RELEASE_MAX: Duration = Duration::from_millis(2_500);

/// Where the orders of a host come from, and where its reports go.
pub trait OrderBook: Send + Sync + 'static {
    /// The orders that have not ended. None: unknown, because there is no contact with a server.
    fn orders(&self) -> Option<Vec<Order>>;

    /// Whether the host was fenced and not activated since, as far as is known. It gets no orders.
    fn is_barred(&self) -> bool;

    /// The epoch of the host, as last heard. None: unknown.
    fn epoch(&self) -> Option<u64>;

    /// The current term, for orders that were begun in an earlier one.
    fn term(&self) -> u64;

    /// Waits until the orders may have changed since the last call of `orders`.
    fn changed(&self) -> Pending<'_, ()>;

    /// Returns once the report was committed and is visible in `orders`, or was refused for good.
    fn report(&self, order: &Order, outcome: Outcome) -> Pending<'_, ReportResult>;

    /// An order has ended; for metrics and logs.
    fn observe(&self, order: &Order, outcome: &Outcome);
}

/// The fate of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportResult {
    /// The order can be forgotten.
    Settled,
    /// The server is stopping. The order stays in the journal, and is reported after the next start.
    Stopping,
}

pub struct OrderRunner {
    pub driver: Arc<dyn MachineDriver>,
    pub book: Arc<dyn OrderBook>,
}

/// Orders in progress or queued, and their tasks.
#[derive(Default)]
struct Progress {
    slots: Arc<Slots>,
    tasks: JoinSet<()>,
    /// The machines that have a task, with the order that it performs.
    orders: HashMap<Guid, OrderId>,
    machines: HashMap<Id, Guid>,
    aborted: HashSet<OrderId>,
    abandoned: HashSet<OrderId>,
    /// The epoch that the driver knows.
    epoch: Option<u64>,
    /// Orders of the journal that cannot continue before the book is known, until the driver has accepted them again.
    waiting: Vec<Order>,
}

/// Limits of orders in progress.
struct Slots {
    urgent: Semaphore,
    other: Semaphore,
}

impl Default for Slots {
    fn default() -> Slots {
        Slots { urgent: Semaphore::new(URGENT_ORDERS_MAX), other: Semaphore::new(ORDERS_MAX) }
    }
}

impl Slots {
    fn of(&self, action: &Action) -> &Semaphore {
        match action {
            Action::Evict(_) | Action::Terminate => &self.urgent,
            Action::Freeze { .. }
            | Action::Migrate { .. }
            | Action::Reboot(_)
            | Action::Redeploy { .. }
            | Action::Start
            | Action::Stop
            | Action::Withdraw => &self.other,
        }
    }
}

impl OrderRunner {
    /// Runs until stopped: first the orders of the journal, then those of the book. What is in progress then continues
    /// after the next start, except that no machine stays paused until then.
    pub async fn run(self, stop: CancellationToken) {
        let mut progress = Progress::default();
        self.learn_epoch(&mut progress);
        self.begin_unfinished(&mut progress);
        loop {
            self.follow_book(&mut progress);
            let is_behind = progress.epoch != self.book.epoch();
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.book.changed() => {}
                () = sleep(RETRY), if is_behind => {}
                Some(ended) = progress.tasks.join_next_with_id() => progress.forget(match ended {
                    Ok((id, ())) => id,
                    Err(error) => error.id(),
                }),
            }
        }
        self.release().await;
        progress.tasks.shutdown().await;
    }

    async fn release(&self) {
        if timeout(RELEASE_MAX, self.driver.release()).await.is_err() {
            tracing::error!("a machine may stay paused until the next start, because its hypervisor does not answer");
        }
    }

    /// Continues the orders of the journal, with the current term: their outcome was not reported.
    fn begin_unfinished(&self, progress: &mut Progress) {
        let term = self.book.term();
        let unfinished = self.driver.unfinished().unwrap_or_else(|error| {
            tracing::error!(%error, "cannot read the journal; orders in progress continue when the server sends them again");
            Vec::new()
        });
        let unfinished = unfinished.into_iter().map(|order| Order { term, ..order });
        let (ready, waiting) = unfinished.partition(|order| self.driver.can_continue(order.id));
        progress.waiting = waiting;
        if self.book.is_barred() {
            progress.waiting.extend(ready);
            return self.abandon_waiting(progress, |_| true);
        }
        for order in ready {
            self.begin(order, true, progress);
        }
        for order in &progress.waiting {
            tracing::warn!(order = %order.id, name = order.name, "this host was restarted during the order: waiting for a server");
        }
    }

    /// Abandons the orders of other epochs, for good.
    fn learn_epoch(&self, progress: &mut Progress) {
        let Some(epoch) = self.book.epoch() else { return };
        if progress.epoch != Some(epoch) {
            match self.driver.set_epoch(epoch) {
                Ok(()) => progress.epoch = Some(epoch),
                Err(error) => {
                    tracing::error!(epoch, %error, "cannot record the epoch of this host; trying again");
                }
            }
        }
        self.abandon_waiting(progress, |order| order.is_of_other_epoch(Some(epoch)));
    }

    fn follow_book(&self, progress: &mut Progress) {
        self.forget_finished(progress);
        self.learn_epoch(progress);
        if self.book.is_barred() {
            self.abandon_waiting(progress, |_| true);
            self.abandon_begun(progress);
        }
        let Some(orders) = self.book.orders().filter(|_| progress.epoch == self.book.epoch()) else { return };
        let wanted = |order: &Order| order.action != Action::Withdraw;
        let wanted: HashSet<OrderId> = orders.iter().filter(|order| wanted(order)).map(|order| order.id).collect();
        self.abandon_waiting(progress, |order| !wanted.contains(&order.id));
        // The others are in the book, so they begin like every order.
        for order in orders {
            self.follow(order, progress);
        }
    }

    /// Stops waiting for orders that have left the journal. Until then, the book or a fence decides about them.
    fn forget_finished(&self, progress: &mut Progress) {
        if progress.waiting.is_empty() {
            return;
        }
        let Ok(unfinished) = self.driver.unfinished() else { return };
        let Progress { waiting, orders, .. } = progress;
        let is_unfinished = |order: &Order| unfinished.iter().any(|other| other.id == order.id);
        waiting.retain(|order| orders.contains_key(&order.id.machine) || is_unfinished(order));
    }

    /// Ends orders that wait for the book, without starting their machines.
    fn abandon_waiting(&self, progress: &mut Progress, is_abandoned: impl Fn(&Order) -> bool) {
        let Progress { waiting, orders, .. } = progress;
        // An order that has a task is not abandoned before the task ends, or the driver has accepted the order.
        let is_abandoned = |order: &mut Order| is_abandoned(order) && !orders.contains_key(&order.id.machine);
        for order in waiting.extract_if(.., is_abandoned).collect::<Vec<_>>() {
            tracing::warn!(order = %order.id, name = order.name, "abandoning an order: this host was restarted or fenced");
            self.driver.abandon(order.id);
            progress.abandoned.insert(order.id);
            self.begin(order, true, progress);
        }
    }

    /// Ends the orders in progress of a host that was fenced: their machines may run elsewhere by now.
    fn abandon_begun(&self, progress: &mut Progress) {
        for id in progress.orders.values() {
            if progress.abandoned.insert(*id) {
                tracing::warn!(order = %id, "abandoning an order: this host was fenced");
                self.driver.abandon(*id);
            }
        }
    }

    /// Begins an order, or ends the one that is in its way.
    fn follow(&self, order: Order, progress: &mut Progress) {
        match progress.orders.get(&order.id.machine).copied() {
            None => self.begin(order, false, progress),
            Some(id) if id == order.id && order.action != Action::Withdraw => {}
            Some(id) => {
                if progress.aborted.insert(id) {
                    tracing::info!(order = %id, name = order.name, "ending an order that is no longer wanted");
                    self.driver.abort(id);
                }
            }
        }
    }

    /// `is_begun`: the order is in the journal, so it continues even if the book does not have it.
    fn begin(&self, order: Order, is_begun: bool, progress: &mut Progress) {
        let (machine, id) = (order.id.machine, order.id);
        let task = perform(self.driver.clone(), self.book.clone(), progress.slots.clone(), order, is_begun);
        progress.orders.insert(machine, id);
        progress.machines.insert(progress.tasks.spawn(task).id(), machine);
    }
}

impl Progress {
    fn forget(&mut self, task: Id) {
        let order = self.machines.remove(&task).and_then(|machine| self.orders.remove(&machine));
        if let Some(order) = order {
            self.aborted.remove(&order);
            self.abandoned.remove(&order);
        }
    }
}

async fn perform(
    driver: Arc<dyn MachineDriver>,
    book: Arc<dyn OrderBook>,
    slots: Arc<Slots>,
    order: Order,
    is_begun: bool,
) {
    let slots = slots.of(&order.action);
    let _slot = match slots.try_acquire() {
        Ok(slot) => Some(slot),
        Err(_) => {
            let slot = slots.acquire().await.ok();
            // It may have been withdrawn while it waited. One that was begun before continues.
            let is_wanted = |other: &Order| other.id == order.id && other.action == order.action;
            if !is_begun && !book.orders().is_some_and(|orders| orders.iter().any(is_wanted)) {
                return;
            }
            slot
        }
    };
    let outcome = loop {
        match driver.perform(order.clone()).await {
            Ok(outcome) => break outcome,
            Err(refusal) => {
                tracing::warn!(order = %order.id, name = order.name, %refusal, "order refused; trying again");
                if let Refusal::Busy(other) = refusal {
                    driver.abort(other);
                }
                sleep(RETRY).await;
                // The book decides whether the order still exists by then. One that was begun has to end.
                if !is_begun {
                    return;
                }
            }
        }
    };
    book.observe(&order, &outcome);
    if book.report(&order, outcome).await == ReportResult::Stopping {
        return;
    }
    while let Err(error) = driver.confirm(order.id) {
        tracing::error!(order = %order.id, %error, "cannot remove an order from the journal; trying again");
        sleep(RETRY).await;
    }
}
