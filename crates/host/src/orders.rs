//! Receives the orders of the server, and sends reports to it.
//!
//! Orders are performed by `OrderRunner`. Without contact there are none, so nothing new starts; what has begun goes on, and is
//! reported when the link is back.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_api_types::host_link::{CommitResponse, LinkRefusal, OrderReport, paths};
use forewarn_core::{Guid, HostState};
use forewarn_drivers::libvirt::KnownPeers;
use forewarn_drivers::message::{decode_order, encode_outcome};
use forewarn_drivers::{
    Action, MachineDriver, Order, OrderBook, OrderId, Outcome, Pending, RebootMode, Refusal, ReportResult,
};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::time::sleep;

use crate::status::Status;
use crate::upstream::{Upstream, UpstreamError};

/// The pause before a report that the server could not take is sent again.
const REPORT_RETRY: Duration = Duration::from_millis(500);

pub struct ServerOrderBook {
    pub status: Arc<Status>,
    pub upstream: Arc<Upstream>,
    /// How machines are restarted.
    reboot: RebootMode,
    peers: KnownPeers,
    state: Mutex<BookState>,
    changed: Notify,
}

#[derive(Default)]
struct BookState {
    /// None: the server has sent no list since the link is up.
    orders: Option<Vec<Order>>,
    /// Orders whose report is committed, with their epochs. The server may not have sent a list without them yet.
    settled: HashSet<(OrderId, Option<u64>)>,
    /// The epoch of the host, as a server has last stated it.
    epoch: Option<u64>,
    /// The connected server knows epochs. One of an earlier version refuses reports that contain one.
    takes_epochs: bool,
}

impl ServerOrderBook {
    pub fn new(status: Arc<Status>, upstream: Arc<Upstream>, reboot: RebootMode, peers: KnownPeers) -> ServerOrderBook {
        ServerOrderBook { status, upstream, reboot, peers, state: Mutex::default(), changed: Notify::new() }
    }

    /// Takes the list that the server has sent. Orders of an unknown form are left out: the server is newer. `epoch`: the epoch
    /// of the host; None if the server is older.
    pub fn replace(&self, orders: &[Value], epoch: Option<u64>) {
        let decoded = orders.iter().filter_map(|value| {
            decode_order(value).or_else(|| {
                tracing::error!("the server sent an order of an unknown kind: upgrade the agent");
                None
            })
        });
        let localize = |order: Order| order.with_reboot(self.reboot).with_addresses(&|host| self.peers.address(host));
        let orders: Vec<Order> = decoded.map(localize).collect();
        let mut state = self.lock();
        state.settled.retain(|settled| orders.iter().any(|order| key_of(order) == *settled));
        state.takes_epochs = epoch.is_some();
        state.epoch = epoch.or(state.epoch);
        state.orders = Some(orders);
        drop(state);
        self.changed.notify_one();
    }

    /// There is no contact, so nothing new may start.
    pub fn clear(&self) {
        self.lock().orders = None;
    }

    /// Called when the server's clock is known: orders that were received earlier can begin.
    pub fn wake(&self) {
        self.changed.notify_one();
    }

    fn settle(&self, order: &Order) -> ReportResult {
        self.lock().settled.insert(key_of(order));
        ReportResult::Settled
    }

    fn lock(&self) -> MutexGuard<'_, BookState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OrderBook for ServerOrderBook {
    /// Deadlines use the server's clock, so there are no orders until that clock is known.
    fn orders(&self) -> Option<Vec<Order>> {
        let now = self.status.server_now().filter(|_| self.status.is_connected())?;
        let state = self.lock();
        let orders = state.orders.as_ref()?.iter().filter(|order| !state.settled.contains(&key_of(order)));
        Some(orders.map(|order| order.clone().with_local_deadline(now)).collect())
    }

    fn is_barred(&self) -> bool {
        self.status.peek().region.host(&self.status.host).is_some_and(|host| host.state == HostState::Failed)
    }

    fn epoch(&self) -> Option<u64> {
        self.lock().epoch
    }

    /// The term of the copy, which is at least that of every order received.
    fn term(&self) -> u64 {
        self.status.peek().region.meta().term
    }

    fn changed(&self) -> Pending<'_, ()> {
        Box::pin(self.changed.notified())
    }

    fn report(&self, order: &Order, outcome: Outcome) -> Pending<'_, ReportResult> {
        let order = order.clone();
        let mut body = OrderReport {
            event: order.id.event.to_string(),
            machine: order.id.machine.to_string(),
            outcome: encode_outcome(&outcome),
            epoch: None,
        };
        Box::pin(async move {
            loop {
                body.epoch = order.epoch.filter(|_| self.lock().takes_epochs);
                match self.upstream.post::<CommitResponse>(paths::REPORT, &body).await {
                    Ok(_) => return self.settle(&order),
                    Err(UpstreamError::Refused(
                        refusal @ (LinkRefusal::Invalid { .. }
                        | LinkRefusal::UnknownMachine
                        | LinkRefusal::UnknownEvents { .. }
                        | LinkRefusal::IdentityNotFound
                        | LinkRefusal::ResourceUnknown
                        | LinkRefusal::OtherHost { .. }),
                    )) => {
                        tracing::warn!(order = %order.id, name = order.name, %refusal, "the report was refused");
                        return self.settle(&order);
                    }
                    Err(
                        UpstreamError::Unreachable
                        | UpstreamError::Unexpected(_)
                        | UpstreamError::Refused(
                            LinkRefusal::OtherAgent { .. }
                            | LinkRefusal::Revoked { .. }
                            | LinkRefusal::Overloaded
                            | LinkRefusal::NoLeader
                            | LinkRefusal::OutcomeUnknown
                            | LinkRefusal::Internal,
                        ),
                    ) => {
                        sleep(REPORT_RETRY).await;
                        self.upstream.connected().await;
                    }
                }
            }
        })
    }

    fn observe(&self, order: &Order, outcome: &Outcome) {
        tracing::info!(order = %order.id, name = order.name, %outcome, "order ended");
        self.status.count_order(outcome.kind());
    }
}

/// An order that is given again after the host was fenced is another one.
fn key_of(order: &Order) -> (OrderId, Option<u64>) {
    (order.id, order.epoch)
}

/// A driver that lets guests go before they move: their held requests are answered, because the connections stay behind.
pub struct DepartureDriver {
    pub status: Arc<Status>,
    pub driver: Arc<dyn MachineDriver>,
}

impl DepartureDriver {
    fn set_leaving(&self, machine: Guid, leaving: bool) {
        let machine = self.status.peek().region.machine_by_vm_id(machine);
        if let Some(machine) = machine {
            self.status.set_leaving(machine, leaving);
        }
    }
}

impl MachineDriver for DepartureDriver {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        Box::pin(async move {
            let is_move = matches!(order.action, Action::Migrate { .. });
            let machine = order.id.machine;
            if is_move {
                self.set_leaving(machine, true);
            }
            let outcome = self.driver.perform(order).await;
            if is_move {
                self.set_leaving(machine, false);
            }
            outcome
        })
    }

    fn abort(&self, order: OrderId) {
        self.driver.abort(order);
    }

    fn abandon(&self, order: OrderId) {
        self.driver.abandon(order);
    }

    fn set_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        self.driver.set_epoch(epoch)
    }

    fn release(&self) -> Pending<'_, ()> {
        self.driver.release()
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        self.driver.unfinished()
    }

    fn can_continue(&self, order: OrderId) -> bool {
        self.driver.can_continue(order)
    }

    fn confirm(&self, order: OrderId) -> Result<(), Refusal> {
        self.driver.confirm(order)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::SystemTime;

    use forewarn_core::{Name, Timestamp};
    use forewarn_drivers::HostAddress;
    use forewarn_drivers::libvirt::Peer;
    use forewarn_drivers::message::encode_order;

    use super::*;
    use crate::copy::Copy;

    /// An hour behind every host.
    const SERVER_NOW: Timestamp = Timestamp(1_800_000_000_000);

    fn book(peers: KnownPeers) -> ServerOrderBook {
        let host = Name::from("node1");
        let status = Status::new(host.clone(), Copy::empty(host), Duration::ZERO);
        ServerOrderBook::new(Arc::new(status), Arc::new(Upstream::default()), RebootMode::Hard, peers)
    }

    fn order(action: Action, deadline: Timestamp) -> Value {
        let id = OrderId { event: Guid(1), machine: Guid(2) };
        encode_order(&Order { id, name: "web1".into(), action, term: 1, epoch: Some(0), deadline })
    }

    #[test]
    fn orders_are_unknown_without_contact_the_servers_time_and_its_list() {
        let book = book(KnownPeers::default());
        assert_eq!(book.orders(), None);
        book.status.set_connected(true);
        book.replace(&[], Some(0));
        assert_eq!(book.orders(), None, "the deadlines are on an unknown clock");
        book.status.record_contact(SERVER_NOW);
        assert_eq!(book.orders(), Some(Vec::new()));
        book.status.set_connected(false);
        assert_eq!(book.orders(), None);
        book.clear();
        book.status.set_connected(true);
        assert_eq!(book.orders(), None, "a new connection has sent no list yet");
    }

    #[test]
    fn deadlines_are_converted_to_the_clock_of_the_host() {
        let book = book(KnownPeers::default());
        book.status.record_contact(SERVER_NOW);
        book.status.set_connected(true);
        let left = Duration::from_secs(300);
        book.replace(&[order(Action::Stop, SERVER_NOW + left), order(Action::Start, Order::DEADLINE_OPEN)], Some(0));
        let local = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        let orders = book.orders().unwrap();
        let late = orders[0].deadline.0 - i64::try_from((local + left).as_millis()).unwrap();
        assert!(late.abs() < 60_000, "{late} ms");
        assert_eq!(orders[1].deadline, Order::DEADLINE_OPEN);
    }

    #[test]
    fn machines_move_to_the_configured_address_of_a_host() {
        let peer = Peer { data_uri: Some("tcp://10.0.0.2".into()), ..Peer::default() };
        let book = book(KnownPeers(BTreeMap::from([("node2".into(), peer)])));
        book.status.record_contact(SERVER_NOW);
        book.status.set_connected(true);
        for (host, data_uri) in [("node2", Some("tcp://10.0.0.2".to_owned())), ("node3", None)] {
            let address =
                |data_uri| HostAddress { name: host.into(), uri: format!("qemu+tls://{host}/system"), data_uri };
            book.replace(&[order(Action::Migrate { to: address(None) }, SERVER_NOW)], Some(0));
            assert_eq!(book.orders().unwrap()[0].action, Action::Migrate { to: address(data_uri) });
        }
    }
}
