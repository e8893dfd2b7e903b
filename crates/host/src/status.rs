//! State that the tasks of the agent share: the newest copy, and the state of the link.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::{ArcSwap, Guard};
use forewarn_core::{MachineId, Name, Snapshot, Timestamp};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use tokio::sync::{Notify, watch};

use crate::copy::Copy;

pub struct Status {
    pub host: Name,
    copy: Mutex<Copy>,
    snapshot: ArcSwap<Snapshot>,
    serving: AtomicBool,
    revision: watch::Sender<u64>,
    /// Changes with the content of the copy, and when a machine is about to leave.
    content: watch::Sender<u64>,
    link: LinkClock,
    problem: Mutex<Option<String>>,
    /// Whether the hypervisor does not answer.
    lacks_hypervisor: AtomicBool,
    leaving: Mutex<HashSet<MachineId>>,
    /// Orders that have ended, by outcome.
    pub orders_ended: Family<OutcomeLabel, Counter>,
    /// Machines whose requests are still to be reported.
    seen: Mutex<HashSet<MachineId>>,
    /// The copy has changed: the next heartbeat is due.
    pub heartbeat: Notify,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct OutcomeLabel {
    outcome: &'static str,
}

/// When the server was last heard from, and its time.
struct LinkClock {
    started: Instant,
    connected: AtomicBool,
    /// Milliseconds after `started`; negative if it was before.
    heard_ms: AtomicI64,
    /// The server's time at `started`.
    epoch_ms: AtomicI64,
    contacts: AtomicU64,
}

impl Status {
    /// `age`: the time since the server was last heard from.
    pub fn new(host: Name, copy: Copy, age: Duration) -> Status {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Status {
            host,
            snapshot: ArcSwap::new(copy.snapshot().clone()),
            serving: AtomicBool::new(copy.is_serving()),
            revision: watch::Sender::new(copy.revision()),
            content: watch::Sender::new(0),
            copy: Mutex::new(copy),
            link: LinkClock {
                started: Instant::now(),
                connected: AtomicBool::new(false),
                heard_ms: AtomicI64::new(-to_ms(age)),
                epoch_ms: AtomicI64::new(to_ms(wall)),
                contacts: AtomicU64::new(0),
            },
            problem: Mutex::new(None),
            lacks_hypervisor: AtomicBool::new(false),
            leaving: Mutex::default(),
            orders_ended: Family::default(),
            seen: Mutex::default(),
            heartbeat: Notify::new(),
        }
    }

    // --- the copy ----------------------------------------------------------------------------------

    pub fn copy(&self) -> Copy {
        lock(&self.copy).clone()
    }

    pub fn peek(&self) -> Guard<Arc<Snapshot>> {
        self.snapshot.load()
    }

    pub fn is_serving(&self) -> bool {
        self.serving.load(Ordering::Relaxed)
    }

    /// Makes a copy with other content visible. It is on disk already.
    pub fn publish(&self, copy: Copy) {
        self.serving.store(copy.is_serving(), Ordering::Relaxed);
        self.replace(copy);
        self.content.send_modify(|count| *count += 1);
        self.heartbeat.notify_one();
    }

    /// Makes a copy with the same content and a later revision visible.
    pub fn advance(&self, copy: Copy) {
        self.replace(copy);
    }

    fn replace(&self, copy: Copy) {
        let mut current = lock(&self.copy);
        self.snapshot.store(copy.snapshot().clone());
        self.revision.send_replace(copy.revision());
        *current = copy;
    }

    pub fn revisions(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    pub fn content(&self) -> watch::Receiver<u64> {
        self.content.subscribe()
    }

    // --- the link ----------------------------------------------------------------------------------

    /// The server was heard from; `now` is its time.
    pub fn record_contact(&self, now: Timestamp) {
        let elapsed = to_ms(self.link.started.elapsed());
        self.link.epoch_ms.store(now.0 - elapsed, Ordering::Relaxed);
        self.link.heard_ms.store(elapsed, Ordering::Relaxed);
        self.link.contacts.fetch_add(1, Ordering::Relaxed);
    }

    pub fn set_connected(&self, connected: bool) {
        if connected {
            self.link.heard_ms.store(to_ms(self.link.started.elapsed()), Ordering::Relaxed);
            *lock(&self.problem) = None;
        }
        self.link.connected.store(connected, Ordering::Relaxed);
    }

    pub fn is_connected(&self) -> bool {
        self.link.connected.load(Ordering::Relaxed)
    }

    /// Seconds since the server was last heard from.
    pub fn silence_secs(&self) -> u64 {
        let since = to_ms(self.link.started.elapsed()) - self.link.heard_ms.load(Ordering::Relaxed);
        u64::try_from(since / 1000).unwrap_or(0)
    }

    /// The number of answered heartbeats.
    pub fn contacts(&self) -> u64 {
        self.link.contacts.load(Ordering::Relaxed)
    }

    /// The server's time, as far as it is known.
    pub fn now(&self) -> Timestamp {
        Timestamp(self.link.epoch_ms.load(Ordering::Relaxed)) + self.link.started.elapsed()
    }

    /// The server's time; None before the first contact.
    pub fn server_now(&self) -> Option<Timestamp> {
        (self.contacts() > 0).then(|| self.now())
    }

    /// How far the clock of this host is ahead of the server's, in milliseconds; None before the first contact.
    pub fn clock_ahead_ms(&self) -> Option<i64> {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Some(to_ms(wall) - self.server_now()?.0)
    }

    /// Records why there is no contact.
    pub fn set_problem(&self, problem: String) {
        *lock(&self.problem) = Some(problem);
    }

    pub fn problem(&self) -> Option<String> {
        lock(&self.problem).clone()
    }

    /// Records whether the hypervisor answers. Until then it is taken to do so.
    pub fn set_hypervisor(&self, answers: bool) {
        self.lacks_hypervisor.store(!answers, Ordering::Relaxed);
    }

    pub fn lacks_hypervisor(&self) -> bool {
        self.lacks_hypervisor.load(Ordering::Relaxed)
    }

    pub fn count_order(&self, outcome: &'static str) {
        self.orders_ended.get_or_create(&OutcomeLabel { outcome }).inc();
    }

    // --- machines ----------------------------------------------------------------------------------

    /// Records that a machine has requested its document.
    pub fn note_seen(&self, machine: MachineId) {
        lock(&self.seen).insert(machine);
    }

    pub fn take_seen(&self) -> Vec<MachineId> {
        lock(&self.seen).drain().collect()
    }

    /// A machine is about to move: its held requests are answered now.
    pub fn set_leaving(&self, machine: MachineId, leaving: bool) {
        let mut machines = lock(&self.leaving);
        if leaving {
            machines.insert(machine);
        } else {
            machines.remove(&machine);
        }
        drop(machines);
        self.content.send_modify(|count| *count += 1);
    }

    pub fn is_leaving(&self, machine: MachineId) -> bool {
        lock(&self.leaving).contains(&machine)
    }
}

fn to_ms(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
