//! Carries out the orders of one host: performs each, reports its outcome, and confirms it in the journal once the
//! report is committed.
//!
//! ```text
//!  orders ─▶ perform ─▶ report ─▶ confirm ─▶ look at the orders again
//! ```
//!
//! One task per machine, so one order at a time. A machine's task is forgotten only after its report is visible in the
//! orders, so that an order that has ended is not taken for a new one.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use forewarn_core::Guid;
use tokio::sync::Semaphore;
use tokio::task::{Id, JoinSet};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

/// Orders in progress. Others are queued: more would mostly wait for the same disks and links.
pub const ORDERS_MAX: usize = 32;

/// The pause before an order that the driver refused is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// Maximum time for machines to run again when this program stops. A libvirtd that does not answer must not prevent the
/// stop. Less than the time that the server and the host agent give their tasks.
const RELEASE_MAX: Duration = Duration::from_millis(2_500);

/// Where the orders of a host come from, and where its reports go.
pub trait OrderBook: Send + Sync + 'static {
    /// The orders that have not ended.
    fn orders(&self) -> Vec<Order>;

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

/// The machines that have a task, with the order that it performs.
#[derive(Default)]
struct Busy {
    orders: HashMap<Guid, OrderId>,
    machines: HashMap<Id, Guid>,
    aborted: HashSet<OrderId>,
}

impl OrderRunner {
    /// Runs until stopped: first the orders of the journal, then those of the book. What is in progress then continues
    /// after the next start, except that no machine stays paused until then.
    pub async fn run(self, stop: CancellationToken) {
        let slots = Arc::new(Semaphore::new(ORDERS_MAX));
        let mut tasks = JoinSet::new();
        let mut busy = Busy::default();
        for order in self.unfinished() {
            self.begin(order, true, &slots, &mut tasks, &mut busy);
        }
        loop {
            for order in self.book.orders() {
                self.follow(order, &slots, &mut tasks, &mut busy);
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = self.book.changed() => {}
                Some(ended) = tasks.join_next_with_id() => busy.forget(match ended {
                    Ok((id, ())) => id,
                    Err(error) => error.id(),
                }),
            }
        }
        self.release().await;
        tasks.shutdown().await;
    }

    async fn release(&self) {
        if timeout(RELEASE_MAX, self.driver.release()).await.is_err() {
            tracing::error!("a machine may stay paused until the next start, because its hypervisor does not answer");
        }
    }

    /// The orders of the journal, with the current term: their outcome was not reported.
    fn unfinished(&self) -> Vec<Order> {
        let term = self.book.term();
        match self.driver.unfinished() {
            Ok(orders) => orders.into_iter().map(|order| Order { term, ..order }).collect(),
            Err(error) => {
                tracing::error!(%error, "cannot read the journal; orders in progress continue when they are given again");
                Vec::new()
            }
        }
    }

    /// Begins an order, or ends the one that is in its way.
    fn follow(&self, order: Order, slots: &Arc<Semaphore>, tasks: &mut JoinSet<()>, busy: &mut Busy) {
        match busy.orders.get(&order.id.machine).copied() {
            None => self.begin(order, false, slots, tasks, busy),
            Some(id) if id == order.id && order.action != Action::Withdraw => {}
            Some(id) => {
                if busy.aborted.insert(id) {
                    tracing::info!(order = %id, name = order.name, "ending an order that is no longer wanted");
                    self.driver.abort(id);
                }
            }
        }
    }

    /// `is_begun`: the order is in the journal, so it continues even if the book does not have it.
    fn begin(&self, order: Order, is_begun: bool, slots: &Arc<Semaphore>, tasks: &mut JoinSet<()>, busy: &mut Busy) {
        let (machine, id) = (order.id.machine, order.id);
        let task = perform(self.driver.clone(), self.book.clone(), slots.clone(), order, is_begun);
        busy.orders.insert(machine, id);
        busy.machines.insert(tasks.spawn(task).id(), machine);
    }
}

impl Busy {
    fn forget(&mut self, task: Id) {
        let order = self.machines.remove(&task).and_then(|machine| self.orders.remove(&machine));
        if let Some(order) = order {
            self.aborted.remove(&order);
        }
    }
}

async fn perform(
    driver: Arc<dyn MachineDriver>,
    book: Arc<dyn OrderBook>,
    slots: Arc<Semaphore>,
    order: Order,
    is_begun: bool,
) {
    let _slot = match slots.try_acquire() {
        Ok(slot) => Some(slot),
        Err(_) => {
            let slot = slots.acquire().await.ok();
            // It may have been withdrawn while it waited. One that was begun before continues.
            let is_wanted = |other: &Order| other.id == order.id && other.action == order.action;
            if !is_begun && !book.orders().iter().any(is_wanted) {
                return;
            }
            slot
        }
    };
    let outcome = match driver.perform(order.clone()).await {
        Ok(outcome) => outcome,
        Err(refusal) => {
            tracing::warn!(order = %order.id, name = order.name, %refusal, "order refused; trying again");
            if let Refusal::Busy(other) = refusal {
                driver.abort(other);
            }
            // The book decides whether the order still exists by then.
            return tokio::time::sleep(RETRY).await;
        }
    };
    book.observe(&order, &outcome);
    if book.report(&order, outcome).await == ReportResult::Stopping {
        return;
    }
    while let Err(error) = driver.confirm(order.id) {
        tracing::error!(order = %order.id, %error, "cannot remove an order from the journal; trying again");
        tokio::time::sleep(RETRY).await;
    }
}
