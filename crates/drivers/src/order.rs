//! The contract for drivers of real machines: orders, and reports per machine.
//!
//! An order asks the host of one machine for one action. It may take minutes, and the driver may be killed in the middle:
//! an order is therefore repeatable, and recorded until its report is confirmed.
//!
//! ```text
//!  perform(order) ─▶ journal ─▶ steps ─▶ journal ─▶ Outcome ─▶ commit at the server ─▶ confirm(order)
//! ```

use std::fmt;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use forewarn_core::{EventId, Guid, Timestamp};

use crate::clock::{Clock, now as local_now};

/// Identity of an order: one event and one of its machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OrderId {
    pub event: EventId,
    /// The machine's VM ID, which is the UUID of its domain.
    pub machine: Guid,
}

impl fmt::Display for OrderId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.event, self.machine)
    }
}

/// An action for one machine, addressed to the host where the machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    pub id: OrderId,
    /// The machine's name, for messages.
    pub name: String,
    pub action: Action,
    /// Rises with every change of leadership. Orders with a lower term than the highest one seen are refused.
    pub term: u64,
    /// The epoch of the host in which it got the order. When the epoch changes, the host was fenced meanwhile, and the order is
    /// abandoned. None: the server or the version that wrote the order did not know it.
    pub epoch: Option<u64>,
    /// Afterwards, the driver ends what it does and reports a failure. See also [`Order::DEADLINE_OPEN`].
    pub deadline: Timestamp,
}

impl Order {
    /// The deadline of orders that no event limits, such as a start by an operator. Their time begins when the host accepts
    /// them: the host may have been unreachable for long.
    pub const DEADLINE_OPEN: Timestamp = Timestamp(i64::MAX);

    /// Maximum time that a guest has to shut down for a graceful restart or a stop. Azure powers it off after a similar time.
    pub const SHUTDOWN_MAX: Duration = Duration::from_secs(5 * 60);

    /// Time of other orders without a deadline of their own, so that a start command that hangs fails.
    const OPEN_MAX: Duration = Duration::from_secs(60 * 60);

    /// The same order with a deadline. `begun`: the deadline with which the host accepted it before.
    pub(crate) fn with_deadline(mut self, begun: Option<Timestamp>, now: Timestamp) -> Order {
        if self.deadline == Order::DEADLINE_OPEN {
            let time = if self.action == Action::Stop { Order::SHUTDOWN_MAX } else { Order::OPEN_MAX };
            self.deadline = begun.unwrap_or(now + time);
        }
        self
    }

    /// The same order, with its deadline on the clock of this program. `now`: the time on the clock of the deadline.
    pub fn with_local_deadline(mut self, now: Timestamp) -> Order {
        if self.deadline != Order::DEADLINE_OPEN {
            self.deadline = local_now() + self.deadline.since(now);
        }
        self
    }

    /// The same order, with its deadline on another clock of this host.
    pub(crate) fn with_clock(mut self, to: Clock, from: Clock) -> Order {
        if self.deadline != Order::DEADLINE_OPEN {
            self.deadline = to.convert(self.deadline, from);
        }
        self
    }

    /// The same order, with the target's address as this host reaches it. `peers` knows the addresses that are configured.
    pub fn with_addresses(mut self, peers: &dyn Fn(&str) -> Option<HostAddress>) -> Order {
        if let Action::Migrate { to } | Action::Redeploy { to } = &mut self.action
            && let Some(address) = peers(&to.name)
        {
            *to = address;
        }
        self
    }

    /// Whether this is an order of another epoch than the current one. Unknown epochs count as equal.
    pub(crate) fn is_of_other_epoch(&self, current: Option<u64>) -> bool {
        self.epoch.zip(current).is_some_and(|(epoch, current)| epoch != current)
    }

    pub(crate) fn is_migration(&self) -> bool {
        matches!(self.action, Action::Migrate { .. })
    }

    /// The same order, with reboots done in the way that the host is configured for.
    pub fn with_reboot(mut self, mode: RebootMode) -> Order {
        // A Redeploy without another host is a restart from power off, whatever the host is configured for.
        if let Action::Reboot(requested @ RebootMode::Hard) = &mut self.action {
            *requested = mode;
        }
        self
    }
}

/// The action of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Pause the machine for a time.
    Freeze {
        duration: Duration,
    },
    /// Move the running machine to another host.
    Migrate {
        to: HostAddress,
    },
    Reboot(RebootMode),
    /// Shut the machine down and move its definition to another host. The report is `Moved`; once it is committed, the
    /// other host gets the order `Start`.
    Redeploy {
        to: HostAddress,
    },
    /// Start a machine, if it does not run.
    Start,
    /// Shut the machine down, if it runs. A guest that does not is powered off before the deadline. The machine stays defined.
    Stop,
    Evict(Eviction),
    /// Destroy the machine and remove its definition.
    Terminate,
    /// End the order with this ID, if it was begun, and return its outcome. It is no longer wanted.
    Withdraw,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebootMode {
    /// Press the reset button.
    Hard,
    /// Ask the guest to shut down, then start the machine. A guest that does not is powered off at the deadline.
    Graceful,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The machine stays defined.
    Deallocate,
    Delete,
}

/// Another host, as this host reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostAddress {
    pub name: String,
    /// The libvirtd, such as `qemu+tls://host2/system`.
    pub uri: String,
    /// Address for memory and disks, such as `tcp://10.0.0.2`. None lets the other host choose.
    pub data_uri: Option<String>,
}

/// The end of an order on one machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// Nothing is in progress any more. The text is the hypervisor's own where it has one.
    Failed(String),
    /// The machine does not exist on this host. For a deletion, this is success.
    Gone,
    /// The machine is on another host.
    Moved {
        to: String,
    },
}

impl Outcome {
    /// The kind of outcome, for metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed(_) => "failed",
            Outcome::Gone => "gone",
            Outcome::Moved { .. } => "moved",
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => f.write_str("done"),
            Outcome::Failed(reason) => write!(f, "failed: {reason}"),
            Outcome::Gone => f.write_str("gone"),
            Outcome::Moved { to } => write!(f, "moved to {to}"),
        }
    }
}

/// The reason why a driver does not accept an order.
#[derive(Debug)]
pub enum Refusal {
    /// A newer leader has given orders already.
    LowerTerm { term: u64, highest: u64 },
    /// The host was fenced since it got the order.
    OtherEpoch { epoch: u64, current: u64 },
    /// Another order for the machine has not ended, or its report is not confirmed.
    Busy(OrderId),
    /// The journal cannot be written, so nothing was started.
    Journal(io::Error),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::LowerTerm { term, highest } => {
                write!(
                    f,
                    "the order has term {term}, but term {highest} has begun: send it again with the current term"
                )
            }
            Refusal::OtherEpoch { epoch, current } => {
                write!(
                    f,
                    "the order belongs to epoch {epoch}, but this host is now in epoch {current}: the host was fenced in the meantime"
                )
            }
            Refusal::Busy(id) => write!(f, "order {id} has not ended: abort it or wait"),
            Refusal::Journal(error) => write!(f, "cannot write the journal: {error}"),
        }
    }
}

impl std::error::Error for Refusal {}

/// A future that a driver returns.
pub type Pending<'d, T> = Pin<Box<dyn Future<Output = T> + Send + 'd>>;

/// A driver of the machines of one host.
pub trait MachineDriver: Send + Sync {
    /// Carries out an order, from where it stopped if it was begun before. Returns the recorded outcome if it has ended.
    /// [`Action::Withdraw`] ends the order with that ID; while `perform` works on that order, call `abort` instead.
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>>;

    /// Ends an order early; `perform` then returns. Orders that cannot be undone go on to their end.
    fn abort(&self, order: OrderId);

    /// Ends an order whose machine may run on another host by now, from where it stopped. A machine that the order has paused
    /// is resumed, but none is started. `perform` returns the outcome.
    fn abandon(&self, order: OrderId);

    /// Abandons the orders of every other epoch, in progress or in the journal, and refuses new ones, also after a restart.
    fn set_epoch(&self, epoch: u64) -> Result<(), Refusal>;

    /// Prepares for the end of this program. Returns once no order keeps a machine paused: short pauses end by
    /// themselves, longer ones are cut short. Orders that would pause a machine do not begin any more.
    fn release(&self) -> Pending<'_, ()>;

    /// Orders in the journal whose report is not confirmed: perform them again after a restart.
    fn unfinished(&self) -> Result<Vec<Order>, Refusal>;

    /// Whether an order of the journal can go on without a server. Not after a restart of the operating system: the host
    /// may have been fenced meanwhile, and the machine started elsewhere.
    fn can_continue(&self, order: OrderId) -> bool;

    /// The report of this order was committed: forget it.
    fn confirm(&self, order: OrderId) -> Result<(), Refusal>;
}

/// Reads a GUID with or without hyphens.
pub(crate) fn parse_guid(text: &str) -> Option<Guid> {
    let digits = text.replace('-', "");
    let is_guid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_guid.then(|| u128::from_str_radix(&digits, 16).ok().map(Guid)).flatten()
}
