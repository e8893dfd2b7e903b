//! The runner of orders, with a driver that works for as long as the test wants.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use forewarn_core::{Guid, Timestamp};
use forewarn_drivers::{
    Action, Eviction, MachineDriver, Order, OrderBook, OrderId, OrderRunner, Outcome, Pending, RebootMode, Refusal,
    ReportResult,
};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// Orders that are in progress at the same time.
const SLOTS: u128 = 32;

fn order(machine: u128) -> Order {
    Order {
        id: OrderId { event: Guid(machine), machine: Guid(machine) },
        name: format!("web{machine}"),
        action: Action::Reboot(RebootMode::Hard),
        term: 1,
        epoch: Some(0),
        deadline: Timestamp(i64::MAX),
    }
}

/// A driver and a book in one: an order ends once it has a permit.
struct TestHost {
    /// None: there is no contact.
    orders: Mutex<Option<Vec<Order>>>,
    is_barred: AtomicBool,
    /// The epoch of the host, and the epochs that the driver was told.
    epoch: Mutex<Option<u64>>,
    epochs: Mutex<Vec<u64>>,
    is_disk_full: AtomicBool,
    /// Orders of the journal, and whether they can continue without contact.
    unfinished: Vec<Order>,
    can_continue: bool,
    /// Orders that are refused before one is accepted.
    refusals: AtomicU32,
    begun: Mutex<Vec<Order>>,
    accepted: Mutex<Vec<OrderId>>,
    abandoned: Mutex<Vec<OrderId>>,
    reported: Mutex<Vec<OrderId>>,
    confirmed: Mutex<Vec<OrderId>>,
    permits: Semaphore,
    changed: Notify,
}

impl TestHost {
    fn new(orders: Option<Vec<Order>>) -> TestHost {
        TestHost {
            orders: Mutex::new(orders),
            is_barred: AtomicBool::new(false),
            epoch: Mutex::default(),
            epochs: Mutex::default(),
            is_disk_full: AtomicBool::new(false),
            unfinished: Vec::new(),
            can_continue: false,
            refusals: AtomicU32::new(0),
            begun: Mutex::default(),
            accepted: Mutex::default(),
            abandoned: Mutex::default(),
            reported: Mutex::default(),
            confirmed: Mutex::default(),
            permits: Semaphore::new(0),
            changed: Notify::new(),
        }
    }

    fn run(self: &Arc<TestHost>) -> (CancellationToken, JoinHandle<()>) {
        let stop = CancellationToken::new();
        let runner = OrderRunner { driver: self.clone(), book: self.clone() };
        (stop.clone(), tokio::spawn(runner.run(stop)))
    }

    fn begun(&self) -> Vec<OrderId> {
        self.begun.lock().unwrap().iter().map(|order| order.id).collect()
    }

    fn set_orders(&self, orders: Option<Vec<Order>>) {
        *self.orders.lock().unwrap() = orders;
        self.changed.notify_one();
    }

    async fn wait_until(&self, is_so: impl Fn(&TestHost) -> bool) {
        while !is_so(self) {
            tokio::task::yield_now().await;
        }
    }
}

impl MachineDriver for TestHost {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        let id = order.id;
        self.begun.lock().unwrap().push(order);
        let is_refused =
            self.refusals.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok();
        Box::pin(async move {
            if is_refused {
                return Err(Refusal::LowerTerm { term: id.event.0 as u64, highest: 9 });
            }
            self.accepted.lock().unwrap().push(id);
            self.permits.acquire().await.unwrap().forget();
            Ok(Outcome::Done)
        })
    }

    fn abort(&self, _: OrderId) {}

    fn abandon(&self, id: OrderId) {
        self.abandoned.lock().unwrap().push(id);
    }

    fn set_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        if self.is_disk_full.load(Ordering::Relaxed) {
            return Err(Refusal::Journal(std::io::ErrorKind::StorageFull.into()));
        }
        self.epochs.lock().unwrap().push(epoch);
        Ok(())
    }

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        let confirmed = self.confirmed.lock().unwrap();
        Ok(self.unfinished.iter().filter(|order| !confirmed.contains(&order.id)).cloned().collect())
    }

    fn can_continue(&self, id: OrderId) -> bool {
        let contains_id = |ids: &Mutex<Vec<OrderId>>| ids.lock().unwrap().contains(&id);
        self.can_continue || contains_id(&self.accepted) || contains_id(&self.abandoned)
    }

    fn confirm(&self, id: OrderId) -> Result<(), Refusal> {
        self.confirmed.lock().unwrap().push(id);
        Ok(())
    }
}

impl OrderBook for TestHost {
    fn orders(&self) -> Option<Vec<Order>> {
        self.orders.lock().unwrap().clone()
    }

    fn is_barred(&self) -> bool {
        self.is_barred.load(Ordering::Relaxed)
    }

    fn epoch(&self) -> Option<u64> {
        *self.epoch.lock().unwrap()
    }

    fn term(&self) -> u64 {
        1
    }

    fn changed(&self) -> Pending<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn report(&self, order: &Order, _: Outcome) -> Pending<'_, ReportResult> {
        if let Some(orders) = self.orders.lock().unwrap().as_mut() {
            orders.retain(|other| other.id != order.id);
        }
        self.reported.lock().unwrap().push(order.id);
        Box::pin(async { ReportResult::Settled })
    }

    fn observe(&self, _: &Order, _: &Outcome) {}
}

#[tokio::test]
async fn an_order_that_is_withdrawn_while_it_waits_for_its_turn_is_not_begun() {
    let orders: Vec<Order> = (0..SLOTS + 2).map(order).collect();
    let withdrawn = orders[SLOTS as usize].clone();
    let host = Arc::new(TestHost::new(Some(orders.clone())));
    let (stop, runner) = host.run();
    host.wait_until(|host| host.begun.lock().unwrap().len() == SLOTS as usize).await;
    let withdraw = Order { action: Action::Withdraw, ..withdrawn.clone() };
    let withdrawing = orders.iter().map(|order| if *order == withdrawn { &withdraw } else { order });
    host.set_orders(Some(withdrawing.cloned().collect()));
    host.permits.add_permits(SLOTS as usize + 2);
    host.wait_until(|host| host.orders.lock().unwrap().as_ref().unwrap().is_empty()).await;
    stop.cancel();
    runner.await.unwrap();
    let begun = host.begun.lock().unwrap();
    assert!(begun.contains(&withdraw) && !begun.contains(&withdrawn), "{begun:?}");
}

#[tokio::test]
async fn urgent_orders_do_not_wait_for_slow_ones() {
    let mut orders: Vec<Order> = (0..SLOTS).map(order).collect();
    orders.push(Order { action: Action::Terminate, ..order(SLOTS) });
    orders.push(Order { action: Action::Evict(Eviction::Deallocate), ..order(SLOTS + 1) });
    let urgent: Vec<OrderId> = orders[SLOTS as usize..].iter().map(|order| order.id).collect();
    let host = Arc::new(TestHost::new(Some(orders)));
    let (stop, runner) = host.run();
    host.wait_until(|host| urgent.iter().all(|id| host.begun().contains(id))).await;
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test]
async fn after_a_restart_of_the_host_an_order_waits_for_the_server_and_is_abandoned_if_it_is_not_wanted() {
    let (kept, lost, withdrawn) = (order(1), order(2), order(3));
    let unfinished = vec![kept.clone(), lost.clone(), withdrawn.clone()];
    let host = Arc::new(TestHost { unfinished, ..TestHost::new(None) });
    host.permits.add_permits(3);
    let (stop, runner) = host.run();
    host.changed.notify_one();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(host.begun(), [], "without contact nothing begins");
    let withdraw = Order { action: Action::Withdraw, ..withdrawn.clone() };
    host.set_orders(Some(vec![kept.clone(), withdraw]));
    host.wait_until(|host| host.reported.lock().unwrap().len() == 3).await;
    assert_eq!(*host.abandoned.lock().unwrap(), [lost.id, withdrawn.id]);
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_host_an_order_that_was_refused_still_ends_if_the_host_is_fenced_meanwhile() {
    for is_barred in [false, true] {
        let refusals = AtomicU32::new(1);
        let host = Arc::new(TestHost { unfinished: vec![order(1)], refusals, ..TestHost::new(Some(vec![order(1)])) });
        host.permits.add_permits(1);
        let (stop, runner) = host.run();
        host.wait_until(|host| !host.begun().is_empty()).await;
        host.is_barred.store(is_barred, Ordering::Relaxed);
        host.set_orders(Some(Vec::new()));
        while host.reported.lock().unwrap().is_empty() {
            tokio::time::advance(std::time::Duration::from_millis(100)).await;
            tokio::task::yield_now().await;
        }
        assert!(host.abandoned.lock().unwrap().contains(&order(1).id));
        assert_eq!(host.begun(), [order(1).id; 2]);
        stop.cancel();
        runner.await.unwrap();
    }
}

#[tokio::test]
async fn orders_of_the_same_boot_continue_without_contact() {
    let host = Arc::new(TestHost { unfinished: vec![order(1)], can_continue: true, ..TestHost::new(None) });
    host.permits.add_permits(1);
    let (stop, runner) = host.run();
    host.wait_until(|host| !host.reported.lock().unwrap().is_empty()).await;
    assert_eq!(*host.abandoned.lock().unwrap(), []);
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test]
async fn a_host_that_is_fenced_abandons_its_orders() {
    let host = Arc::new(TestHost::new(Some(vec![order(1)])));
    let (stop, runner) = host.run();
    host.wait_until(|host| !host.begun().is_empty()).await;
    host.is_barred.store(true, Ordering::Relaxed);
    host.set_orders(Some(Vec::new()));
    host.wait_until(|host| *host.abandoned.lock().unwrap() == [order(1).id]).await;
    stop.cancel();
    runner.await.unwrap();

    let unfinished = vec![order(1)];
    let host =
        Arc::new(TestHost { unfinished, can_continue: true, is_barred: AtomicBool::new(true), ..TestHost::new(None) });
    let (stop, runner) = host.run();
    host.wait_until(|host| !host.begun().is_empty()).await;
    assert_eq!(*host.abandoned.lock().unwrap(), [order(1).id], "before it begins again");
    stop.cancel();
    runner.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_order_that_was_begun_is_tried_until_it_is_accepted() {
    let refusals = AtomicU32::new(3);
    let host = Arc::new(TestHost { unfinished: vec![order(1)], can_continue: true, refusals, ..TestHost::new(None) });
    host.permits.add_permits(1);
    let (stop, runner) = host.run();
    while host.reported.lock().unwrap().is_empty() {
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(host.begun(), [order(1).id; 4]);
    stop.cancel();
    runner.await.unwrap();
}

/// An order of the next epoch.
fn later(machine: u128) -> Order {
    Order { epoch: Some(1), ..order(machine) }
}

#[tokio::test(start_paused = true)]
async fn a_host_that_was_fenced_and_activated_without_contact_abandons_its_orders_before_it_takes_others() {
    // The server has given the same order again, and another one.
    let book = vec![later(1), later(2)];
    let host = Arc::new(TestHost { unfinished: vec![order(1)], can_continue: true, ..TestHost::new(None) });
    let (stop, runner) = host.run();
    host.wait_until(|host| host.begun() == [order(1).id]).await;
    assert!(host.epochs.lock().unwrap().is_empty(), "nothing is known without contact");
    host.is_disk_full.store(true, Ordering::Relaxed);
    *host.epoch.lock().unwrap() = Some(1);
    host.set_orders(Some(book));
    tokio::time::sleep(std::time::Duration::from_secs(5)).await;
    assert_eq!(host.begun().len(), 1, "no order begins before the epoch is recorded");
    host.is_disk_full.store(false, Ordering::Relaxed);
    host.wait_until(|host| host.begun().contains(&order(2).id)).await;
    assert_eq!(*host.epochs.lock().unwrap(), [1], "once");
    stop.cancel();
    runner.await.unwrap();

    // The host was also restarted, so the order of the journal waits.
    let host = Arc::new(TestHost { unfinished: vec![order(1)], ..TestHost::new(None) });
    let (stop, runner) = host.run();
    *host.epoch.lock().unwrap() = Some(1);
    host.set_orders(Some(vec![later(1)]));
    host.wait_until(|host| !host.begun().is_empty()).await;
    assert_eq!(*host.abandoned.lock().unwrap(), [order(1).id], "although the book has an order with its ID");
    assert_eq!(host.begun.lock().unwrap()[0].epoch, Some(0));
    stop.cancel();
    runner.await.unwrap();
}
