//! Events of domains, and the stream in which they arrive.

use std::sync::Arc;

use tokio::sync::mpsc;

use crate::domain::Domain;
use crate::params::{self, Parameter};
use crate::tasks::Tasks;
use crate::xdr::{Decoder, XdrResult};

/// Statistics in one event about a completed job.
const JOB_STATS_MAX: usize = 64;

/// Kinds of events to register for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A domain was defined, started, suspended, stopped and so on.
    Lifecycle = 0,
    /// The guest rebooted.
    Reboot = 1,
    /// The watchdog device of a domain expired.
    Watchdog = 3,
    /// libvirt has lost control over a QEMU process.
    ControlError = 7,
    /// A device was unplugged.
    DeviceRemoved = 15,
    /// The agent in the guest connected or disconnected.
    AgentLifecycle = 18,
    /// A device was plugged in.
    DeviceAdded = 19,
    /// A migration copies the memory once more.
    MigrationIteration = 20,
    /// A job, such as a migration, has ended.
    JobCompleted = 21,
    /// Metadata of a domain has changed.
    MetadataChange = 23,
}

/// A registration. Events carry it, and it ends with the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CallbackId(pub i32);

/// A change of the lifecycle of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifecycle {
    /// A persistent configuration was added or changed.
    Defined,
    /// The persistent configuration was removed.
    Undefined,
    /// The domain runs, or was migrated here.
    Started,
    /// The domain is paused.
    Suspended,
    /// The domain runs again.
    Resumed,
    /// The domain does not run any more, or was migrated away.
    Stopped,
    /// The guest has powered off and QEMU is about to end.
    Shutdown,
    /// The guest has suspended itself.
    PmSuspended,
    /// The guest has crashed.
    Crashed,
    /// A change that this version of the crate does not know.
    Other(i32),
}

/// An event of a domain.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Event {
    /// See [`EventKind::Lifecycle`].
    Lifecycle {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// The change.
        change: Lifecycle,
        /// The reason, whose meaning depends on the change (`virDomainEvent…DetailType`).
        detail: i32,
    },
    /// See [`EventKind::Reboot`].
    Reboot {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
    },
    /// See [`EventKind::Watchdog`].
    Watchdog {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// The action that QEMU takes (`virDomainEventWatchdogAction`).
        action: i32,
    },
    /// See [`EventKind::ControlError`].
    ControlError {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
    },
    /// See [`EventKind::DeviceAdded`].
    DeviceAdded {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// The alias of the device, such as `net0`.
        alias: String,
    },
    /// See [`EventKind::DeviceRemoved`].
    DeviceRemoved {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// The alias of the device, such as `net0`.
        alias: String,
    },
    /// See [`EventKind::AgentLifecycle`].
    AgentLifecycle {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// Whether the agent is connected.
        connected: bool,
    },
    /// See [`EventKind::MigrationIteration`].
    MigrationIteration {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// Number of the pass over the memory, starting with 1.
        iteration: i32,
    },
    /// See [`EventKind::JobCompleted`].
    JobCompleted {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// Statistics, as in [`JobStats`](crate::JobStats).
        parameters: Vec<Parameter>,
    },
    /// See [`EventKind::MetadataChange`].
    MetadataChange {
        /// The registration.
        callback: CallbackId,
        /// The domain.
        domain: Domain,
        /// The namespace of the changed element; None for title and description.
        uri: Option<String>,
    },
    /// Events were dropped because the program read them too slowly: list the domains again.
    Missed,
}

/// The events of a connection, in the order in which they happened.
pub struct Events {
    receiver: mpsc::Receiver<Event>,
    _tasks: Arc<Tasks>,
}

impl Events {
    pub(crate) fn new(receiver: mpsc::Receiver<Event>, tasks: Arc<Tasks>) -> Events {
        Events { receiver, _tasks: tasks }
    }

    /// The next event; None when the connection has ended. Cancel-safe.
    pub async fn next(&mut self) -> Option<Event> {
        self.receiver.recv().await
    }
}

/// Numbers of the messages that carry events.
mod message {
    pub const LIFECYCLE: i32 = 318;
    pub const REBOOT: i32 = 319;
    pub const WATCHDOG: i32 = 321;
    pub const CONTROL_ERROR: i32 = 325;
    pub const DEVICE_REMOVED: i32 = 333;
    pub const AGENT_LIFECYCLE: i32 = 348;
    pub const DEVICE_ADDED: i32 = 354;
    pub const MIGRATION_ITERATION: i32 = 359;
    pub const JOB_COMPLETED: i32 = 363;
    pub const METADATA_CHANGE: i32 = 379;
}

/// State of a connected agent (`virConnectDomainEventAgentLifecycleState`).
const AGENT_CONNECTED: i32 = 1;

impl Event {
    /// Reads the message of an event; None if the event is unknown or malformed.
    pub(crate) fn decode(procedure: i32, payload: &[u8]) -> Option<Event> {
        let mut decoder = Decoder::new(payload);
        let event = Event::read(procedure, &mut decoder).ok()??;
        decoder.end().ok()?;
        Some(event)
    }

    fn read(procedure: i32, decoder: &mut Decoder<'_>) -> XdrResult<Option<Event>> {
        let callback = CallbackId(decoder.i32()?);
        let domain = Domain::decode(decoder)?;
        Ok(Some(match procedure {
            message::LIFECYCLE => {
                let change = Lifecycle::from_wire(decoder.i32()?);
                Event::Lifecycle { callback, domain, change, detail: decoder.i32()? }
            }
            message::REBOOT => Event::Reboot { callback, domain },
            message::WATCHDOG => Event::Watchdog { callback, domain, action: decoder.i32()? },
            message::CONTROL_ERROR => Event::ControlError { callback, domain },
            message::DEVICE_ADDED => Event::DeviceAdded { callback, domain, alias: decoder.string()? },
            message::DEVICE_REMOVED => Event::DeviceRemoved { callback, domain, alias: decoder.string()? },
            message::AGENT_LIFECYCLE => {
                let connected = decoder.i32()? == AGENT_CONNECTED;
                decoder.i32()?;
                Event::AgentLifecycle { callback, domain, connected }
            }
            message::MIGRATION_ITERATION => Event::MigrationIteration { callback, domain, iteration: decoder.i32()? },
            message::JOB_COMPLETED => {
                let parameters = params::decode_list(decoder, JOB_STATS_MAX)?;
                Event::JobCompleted { callback, domain, parameters }
            }
            message::METADATA_CHANGE => {
                decoder.i32()?;
                Event::MetadataChange { callback, domain, uri: decoder.optional_string()? }
            }
            _ => return Ok(None),
        }))
    }
}

impl Lifecycle {
    fn from_wire(word: i32) -> Lifecycle {
        match word {
            0 => Lifecycle::Defined,
            1 => Lifecycle::Undefined,
            2 => Lifecycle::Started,
            3 => Lifecycle::Suspended,
            4 => Lifecycle::Resumed,
            5 => Lifecycle::Stopped,
            6 => Lifecycle::Shutdown,
            7 => Lifecycle::PmSuspended,
            8 => Lifecycle::Crashed,
            other => Lifecycle::Other(other),
        }
    }
}
