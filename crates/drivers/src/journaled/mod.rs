//! Carries out orders through crashes: one journal, and sequences of steps that every hypervisor shares.
//!
//! Each order is a sequence of steps. The journal says what this host was asked to do and how far it got; a hypervisor
//! may keep a second record in the machine itself ([`Hypervisor::read_stage`]). Every step can be repeated, so after a
//! crash the order is performed again from the recorded stage:
//!
//! ```text
//!  Freeze            begun → suspend → held → wait → done → resume
//!  Reboot            begun → suspend → held → reset → done → resume
//!  Reboot, graceful  begun → shutdown (destroy at the deadline) → down → start → done
//!  Evict             begun → shutdown (destroy after 30 s) → down
//! ```
//!
//! If the hypervisor stops answering, the driver connects again and continues in the same way. A machine is never left
//! paused: an order that fails while it holds a machine resumes it, and so does a stop of this program.

mod driver;
mod job;
pub(crate) mod journal;
mod pause;
mod pause_tracker;
pub(crate) mod power_cycle;
mod step;
#[cfg(test)]
mod tests;

pub use driver::JournaledDriver;
pub(crate) use job::{
    Hypervisor, Job, LocatedMachine, MachineState, POLL_INTERVAL, StageRecord, StepError, StepResult, inconsistent,
    not_running,
};
pub use step::{Stage, Step, StepHook, default_hook};
