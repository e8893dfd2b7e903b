//! The orders of a host, computed from the region. There is no queue: an order exists as long as its event is in
//! progress and the host has not reported on the machine.

use std::time::Duration;

use forewarn_core::{Event, EventKind, EvictionPolicy, Machine, OrderKind, PendingOrder, Power, Region, Timestamp};

use crate::order::{Action, Eviction, HostAddress, Order, OrderId, RebootMode};

/// Length of a Freeze whose event gives none. The default of host maintenance.
const FREEZE_DEFAULT: Duration = Duration::from_secs(9);

/// Time between the deadline of an order and the time at which the rules give up on its event, so that the report of
/// the host is in time. A quarter of the timeout if that is shorter.
const REPORT_RESERVE: Duration = Duration::from_secs(60);

/// The orders for the machines of one host that have not ended. `peers` knows how this host reaches other hosts; for
/// a host that it does not know, libvirt's default address is used.
pub fn orders_of(region: &Region, host: &str, term: u64, peers: &dyn Fn(&str) -> Option<HostAddress>) -> Vec<Order> {
    let epoch = region.host(host).map_or(0, |host| host.epoch);
    let pending = region.pending_orders(host);
    pending.iter().filter_map(|order| write_order(region, order, (term, epoch), peers)).collect()
}

/// The address of a host that is not configured: libvirt over TLS, at the name of the host.
pub fn default_address(host: &str) -> HostAddress {
    HostAddress { name: host.to_owned(), uri: format!("qemu+tls://{host}/system"), data_uri: None }
}

fn write_order(
    region: &Region,
    pending: &PendingOrder,
    (term, epoch): (u64, u64),
    peers: &dyn Fn(&str) -> Option<HostAddress>,
) -> Option<Order> {
    let machine = region.machine(pending.machine)?;
    let event = region.event(pending.event);
    let target = event.and_then(|event| event.target_of(pending.machine));
    let target = target.map(|host| peers(host).unwrap_or_else(|| default_address(host)));
    let action = match (pending.kind, event) {
        // A machine that moves while it is off stays off.
        (OrderKind::Start, Some(_)) if machine.power != Power::Running => Action::Withdraw,
        (OrderKind::Start, _) => Action::Start,
        (OrderKind::Stop, _) => Action::Stop,
        (OrderKind::Withdraw, _) | (OrderKind::Perform, None) => Action::Withdraw,
        (OrderKind::Perform, Some(event)) => choose_action(event, machine, target),
    };
    Some(Order {
        id: OrderId { event: pending.event, machine: machine.vm_id },
        name: machine.name.to_string(),
        deadline: deadline(region, event, &action),
        action,
        term,
        epoch: Some(epoch),
    })
}

fn choose_action(event: &Event, machine: &Machine, target: Option<HostAddress>) -> Action {
    match (event.kind, target) {
        (EventKind::Freeze, Some(to)) => Action::Migrate { to },
        (EventKind::Freeze, None) => Action::Freeze { duration: freeze_duration(event) },
        (EventKind::Reboot, _) => Action::Reboot(RebootMode::Hard),
        (EventKind::Redeploy, Some(to)) => Action::Redeploy { to },
        // There is no other host: the machine restarts in place, from power off.
        (EventKind::Redeploy, None) => Action::Reboot(RebootMode::Graceful),
        (EventKind::Preempt, _) => Action::Evict(match machine.eviction {
            EvictionPolicy::Deallocate => Eviction::Deallocate,
            EvictionPolicy::Delete => Eviction::Delete,
        }),
        (EventKind::Terminate, _) => Action::Terminate,
        // A recommendation never starts, so no host gets an order for it.
        (EventKind::SpotRebalanceRecommendation, _) => Action::Withdraw,
    }
}

fn freeze_duration(event: &Event) -> Duration {
    u64::try_from(event.duration_secs).map_or(FREEZE_DEFAULT, Duration::from_secs)
}

fn deadline(region: &Region, event: Option<&std::sync::Arc<Event>>, action: &Action) -> Timestamp {
    let timeout = region.settings().driver_timeout;
    let Some(event) = event else { return Order::DEADLINE_OPEN };
    let began = region.report_deadline(event) - timeout;
    let latest = timeout - REPORT_RESERVE.min(timeout / 4);
    began
        + match action {
            Action::Reboot(_) | Action::Redeploy { .. } | Action::Stop => latest.min(Order::SHUTDOWN_MAX),
            Action::Freeze { .. }
            | Action::Migrate { .. }
            | Action::Start
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => latest,
        }
}
