//! Domains: identity, state and resources.

use crate::uuid::Uuid;
use crate::xdr::{Decoder, Encoder, XdrResult};

/// Domains in one list.
pub const DOMAINS_MAX: usize = 16_384;

/// A domain, as libvirt names it: a virtual machine, running or only defined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// The name, unique on its host. Can be changed.
    pub name: String,
    /// The identity. Stays the same when the domain moves to another host.
    pub uuid: Uuid,
    /// The number of the running instance; None if the domain did not run when this value was read.
    pub id: Option<i32>,
}

impl Domain {
    pub(crate) fn encode(&self, encoder: Encoder) -> Encoder {
        encoder.string(&self.name).fixed(&self.uuid.0).i32(self.id.unwrap_or(-1))
    }

    pub(crate) fn decode(decoder: &mut Decoder<'_>) -> XdrResult<Domain> {
        let (name, uuid) = (decoder.string()?, Uuid(decoder.fixed()?));
        let id = decoder.i32()?;
        Ok(Domain { name, uuid, id: (id >= 0).then_some(id) })
    }

    pub(crate) fn arguments(&self) -> Encoder {
        self.encode(Encoder::new())
    }
}

/// The power state of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Runs.
    Running,
    /// Waits for a resource. Counts as running.
    Blocked,
    /// Paused: by a user, by a migration, or because of an I/O error.
    Paused,
    /// The guest is shutting down.
    ShuttingDown,
    /// Defined, but does not run.
    ShutOff,
    /// Crashed.
    Crashed,
    /// Suspended by the guest itself.
    PmSuspended,
    /// A state that this version of the crate does not know, or none.
    Other(i32),
}

/// A state with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateInfo {
    /// The state.
    pub state: State,
    /// The reason, whose meaning depends on the state (`virDomain…Reason`). [`PausedReason`] names some.
    pub reason: i32,
}

/// Reasons for [`State::Paused`] (`virDomainPausedReason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PausedReason(pub i32);

impl PausedReason {
    /// Suspended by a call.
    pub const USER: PausedReason = PausedReason(1);
    /// Its migration is being finished, or it is the incoming side of one.
    pub const MIGRATION: PausedReason = PausedReason(2);
    /// A disk reported an error.
    pub const IO_ERROR: PausedReason = PausedReason(5);
    /// It is starting.
    pub const STARTING_UP: PausedReason = PausedReason(11);
}

impl StateInfo {
    /// Whether the domain is paused for this reason.
    pub fn is_paused_by(&self, reason: PausedReason) -> bool {
        self.state == State::Paused && self.reason == reason.0
    }
}

/// Resources of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DomainInfo {
    /// The state.
    pub state: State,
    /// Largest memory in KiB.
    pub memory_max_kib: u64,
    /// Current memory in KiB.
    pub memory_kib: u64,
    /// Number of virtual CPUs.
    pub vcpus: u32,
    /// CPU time used, in nanoseconds.
    pub cpu_time_ns: u64,
}

impl State {
    pub(crate) fn from_wire(word: i32) -> State {
        match word {
            1 => State::Running,
            2 => State::Blocked,
            3 => State::Paused,
            4 => State::ShuttingDown,
            5 => State::ShutOff,
            6 => State::Crashed,
            7 => State::PmSuspended,
            other => State::Other(other),
        }
    }

    /// Whether there is a QEMU process, paused or not.
    pub fn is_active(self) -> bool {
        match self {
            State::Running | State::Blocked | State::Paused | State::ShuttingDown | State::PmSuspended => true,
            State::ShutOff | State::Crashed | State::Other(_) => false,
        }
    }
}
