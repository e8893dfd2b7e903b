//! Drivers carry out events on machines and report how that went.
//!
//! The events in progress are read from the region (`wanted_effects`). The effects of a transition are hints that save
//! looking at everything; a lost effect costs time, not correctness.
//!
//! | module | contents |
//! |---|---|
//! | `simulated`, `command` | drivers of whole events |
//! | `order`, `book`, `message` | the contract for real machines: orders, how they follow from the region, and their JSON |
//! | `runner`, `journaled` | carries out the orders of a host, step by step, with a journal |
//! | `libvirt`, `qemu`, `simulated_machines` | hypervisors |
//! | `inventory`, `follower` | the machines that exist on a host, changes made outside Forewarn, records of unknown orders |
//! | `clock` | the clock for deadlines and pauses |

pub mod book;
mod clock;
mod command;
mod follower;
mod inventory;
mod journaled;
pub mod libvirt;
pub mod message;
mod order;
pub mod qemu;
mod runner;
mod simulated;
mod simulated_machines;

use std::pin::Pin;
use std::sync::Arc;

use forewarn_core::{Effect, EventId, Region, Report, Snapshot, Timestamp};

pub use command::{CommandDriver, CommandRunner, CommandSignal};
pub use follower::{MachineFollower, MachineObserver};
pub use inventory::{DomainDescription, FoundDomain, MachineWatch, WatchedDriver};
pub use journaled::{JournaledDriver, Step, StepHook, default_hook};
pub use order::{Action, Eviction, HostAddress, MachineDriver, Order, OrderId, Outcome, Pending, RebootMode, Refusal};
pub use runner::{OrderBook, OrderRunner, ReportResult};
pub use simulated::{Impacts, Simulated};
pub use simulated_machines::SimulatedMachines;

/// The writer's end of a driver.
pub trait Driver: Send {
    /// These events have just started or stopped.
    fn follow(&mut self, effects: &[Effect]);

    /// All events in progress.
    fn reconcile(&mut self, region: &Region);

    /// When the next report is due; None for drivers that report by themselves.
    fn next(&self) -> Option<Timestamp>;

    /// The reports due at `now`, at most `max` of them.
    fn due(&self, now: Timestamp, max: usize) -> Vec<(EventId, Report)>;

    /// The report of this event was committed or refused: nothing is left to do for it.
    fn reported(&mut self, event: EventId);
}

/// The other end, for drivers that work by themselves: where they read what to do and report what they did.
pub trait Orders: Send + Sync + 'static {
    fn snapshot(&self) -> Arc<Snapshot>;

    /// Returns once the report was committed or refused, or when the server stops.
    fn report(&self, event: EventId, report: Report) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}
