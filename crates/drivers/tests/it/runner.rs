//! The runner of orders, with a driver that works for as long as the test wants.

use std::sync::{Arc, Mutex};

use forewarn_core::{Guid, Timestamp};
use forewarn_drivers::{
    Action, MachineDriver, Order, OrderBook, OrderId, OrderRunner, Outcome, Pending, RebootMode, Refusal, ReportResult,
};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;

/// Orders that are in progress at the same time.
const SLOTS: u128 = 32;

fn order(machine: u128) -> Order {
    Order {
        id: OrderId { event: Guid(machine), machine: Guid(machine) },
        name: format!("web{machine}"),
        action: Action::Reboot(RebootMode::Hard),
        term: 1,
        deadline: Timestamp(i64::MAX),
    }
}

/// A driver and a book in one: an order ends once it has a permit.
struct Desk {
    orders: Mutex<Vec<Order>>,
    begun: Mutex<Vec<Order>>,
    permits: Semaphore,
    changed: Notify,
}

impl Desk {
    async fn wait_until(&self, is_so: impl Fn(&Desk) -> bool) {
        while !is_so(self) {
            tokio::task::yield_now().await;
        }
    }
}

impl MachineDriver for Desk {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        self.begun.lock().unwrap().push(order);
        Box::pin(async {
            self.permits.acquire().await.unwrap().forget();
            Ok(Outcome::Done)
        })
    }

    fn abort(&self, _: OrderId) {}

    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        Ok(Vec::new())
    }

    fn confirm(&self, _: OrderId) -> Result<(), Refusal> {
        Ok(())
    }
}

impl OrderBook for Desk {
    fn orders(&self) -> Vec<Order> {
        self.orders.lock().unwrap().clone()
    }

    fn term(&self) -> u64 {
        1
    }

    fn changed(&self) -> Pending<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn report(&self, order: &Order, _: Outcome) -> Pending<'_, ReportResult> {
        self.orders.lock().unwrap().retain(|other| other.id != order.id);
        Box::pin(async { ReportResult::Settled })
    }

    fn observe(&self, _: &Order, _: &Outcome) {}
}

#[tokio::test]
async fn an_order_that_is_withdrawn_while_it_waits_for_its_turn_is_not_begun() {
    let orders: Vec<Order> = (0..SLOTS + 2).map(order).collect();
    let withdrawn = orders[SLOTS as usize].clone();
    let desk = Arc::new(Desk {
        orders: Mutex::new(orders),
        begun: Mutex::default(),
        permits: Semaphore::new(0),
        changed: Notify::new(),
    });
    let stop = CancellationToken::new();
    let runner = tokio::spawn(OrderRunner { driver: desk.clone(), book: desk.clone() }.run(stop.clone()));
    desk.wait_until(|desk| desk.begun.lock().unwrap().len() == SLOTS as usize).await;
    let withdraw = Order { action: Action::Withdraw, ..withdrawn.clone() };
    desk.orders.lock().unwrap()[SLOTS as usize] = withdraw.clone();
    desk.changed.notify_one();
    desk.permits.add_permits(SLOTS as usize + 2);
    desk.wait_until(|desk| desk.orders.lock().unwrap().is_empty()).await;
    stop.cancel();
    runner.await.unwrap();
    let begun = desk.begun.lock().unwrap();
    assert!(begun.contains(&withdraw) && !begun.contains(&withdrawn), "{begun:?}");
}
