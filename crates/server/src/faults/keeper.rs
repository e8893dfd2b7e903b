//! Faults, shared by requests and the management side: the lock around the shelf, the flag that spares
//! everybody the lock, and the task that writes into history what became of them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forewarn_core::{MachineId, Name};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::shelf::{Facts, Hit, Shelf};
use super::{Fault, FaultError, FaultId, Given, Method, NewFault, Over, Path};
use crate::clock;
use crate::engine::{Asked, Engine, SubmitError};

/// The longest sleep of the keeper: the system's clock may be set meanwhile.
const SLEEP_MAX: Duration = Duration::from_secs(5);

/// Who ends a fault that nobody cleared, in history.
const KEEPER: &str = "forewarn";

/// Whom a fault concerns that is for no machine in particular, in history.
const EVERYBODY: &str = "all machines";

pub(crate) struct Faults {
    /// Whether there are any. Those who find it unset have looked at nothing else.
    any: AtomicBool,
    shelf: Mutex<Shelf>,
    changed: Notify,
    begun: Instant,
}

impl Faults {
    pub fn new() -> Faults {
        Faults { any: AtomicBool::new(false), shelf: Mutex::default(), changed: Notify::new(), begun: Instant::now() }
    }

    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    pub fn meet(&self, facts: Facts) -> Option<Hit> {
        self.change(|shelf| shelf.meet(&facts))
    }

    /// Real time, for [`Facts`].
    pub fn real(&self) -> Duration {
        self.begun.elapsed()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Shelf) -> T) -> T {
        let mut shelf = self.shelf();
        let result = change(&mut shelf);
        self.any.store(!shelf.is_empty(), Ordering::Relaxed);
        if shelf.has_over() {
            self.changed.notify_one();
        }
        result
    }

    fn shelf(&self) -> MutexGuard<'_, Shelf> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Lets requests meet a fault. It is in history before the first one does.
    pub async fn add_fault(&self, new: &NewFault, by: &str) -> Result<Fault, FaultError> {
        new.check()?;
        let name = match new.machine {
            Some(id) => Some(self.name_of(id).ok_or(FaultError::UnknownMachine)?),
            None => None,
        };
        let id = {
            let mut shelf = self.faults_kept().shelf();
            if shelf.is_full() {
                return Err(FaultError::TooMany);
            }
            shelf.number()
        };
        let fault = new.begin(id, name, self.now());
        self.note(asked(&fault, "fault.add", by, detail(&fault))).await?;
        self.faults_kept().change(|shelf| shelf.add(fault.clone()))?;
        self.faults_kept().changed.notify_one();
        Ok(fault)
    }

    /// Those that are there, oldest first.
    pub fn faults(&self) -> Vec<Fault> {
        let now = self.now();
        self.faults_kept().change(|shelf| {
            shelf.pass_time(now);
            shelf.all().cloned().collect()
        })
    }

    pub fn fault(&self, id: FaultId) -> Option<Fault> {
        self.faults().into_iter().find(|fault| fault.id == id)
    }

    /// Ends a fault; None when there is none with this number.
    pub async fn clear_fault(&self, id: FaultId, by: &str) -> Result<Option<Fault>, SubmitError> {
        let Some(fault) = self.fault(id) else { return Ok(None) };
        self.note(asked(&fault, "fault.clear", by, detail(&fault))).await?;
        Ok(self.faults_kept().change(|shelf| shelf.remove(id)).or(Some(fault)))
    }

    /// Ends all faults, or all that are for this machine alone.
    pub async fn clear_faults(&self, machine: Option<MachineId>, by: &str) -> Result<Vec<Fault>, SubmitError> {
        let is_meant = |fault: &Fault| machine.is_none() || fault.machine.as_ref().map(|(id, _)| *id) == machine;
        let mut cleared = Vec::new();
        for fault in self.faults().into_iter().filter(is_meant) {
            cleared.extend(self.clear_fault(fault.id, by).await?);
        }
        Ok(cleared)
    }

    fn name_of(&self, machine: MachineId) -> Option<Name> {
        self.snapshot().region.machine(machine).map(|machine| machine.name.clone())
    }
}

/// Ends faults whose time is over or whose machine is gone, and writes down those that ran out.
pub(crate) async fn keep(engine: Engine, stop: CancellationToken) {
    let _ = stop.run_until_cancelled(keep_on(&engine)).await;
}

async fn keep_on(engine: &Engine) {
    let faults = engine.faults_kept();
    let mut commits = engine.subscribe();
    loop {
        let now = engine.now();
        let over = faults.change(|shelf| {
            shelf.pass_time(now);
            shelf.look_at(&engine.snapshot().region);
            shelf.take_over()
        });
        for (fault, how) in over {
            write_over(engine, &fault, how).await;
        }
        let next_end = faults.shelf().next_end();
        let nap = match engine.clock_kind() {
            clock::Kind::Manual => SLEEP_MAX,
            clock::Kind::Real => next_end.map_or(SLEEP_MAX, |end| end.since(engine.now()).min(SLEEP_MAX)),
        };
        tokio::select! {
            () = faults.changed.notified() => {}
            _ = commits.changed(), if faults.any() => {}
            () = tokio::time::sleep(nap), if next_end.is_some() => {}
        }
    }
}

async fn write_over(engine: &Engine, fault: &Fault, how: Over) {
    let because = match how {
        Over::Counted => "counted",
        Over::Elapsed => "elapsed",
        Over::MachineGone => "machine-gone",
    };
    let mut detail = detail(fault);
    detail["because"] = json!(because);
    if let Err(error) = engine.note(asked(fault, "fault.over", KEEPER, detail)).await {
        tracing::warn!(fault = fault.id.0, %error, "the end of a fault is not in history");
    }
}

fn asked(fault: &Fault, action: &str, by: &str, detail: Value) -> Asked {
    let target = fault.machine.as_ref().map_or(EVERYBODY, |(_, name)| &**name);
    Asked { actor: by.to_owned(), action: action.to_owned(), target: target.to_owned(), detail: detail.to_string() }
}

/// What history says of a fault.
fn detail(fault: &Fault) -> Value {
    let mut detail = json!({ "fault": fault.id.0, "kind": fault.kind.word(), "met": fault.met });
    match fault.kind.given() {
        Given::Status { status, retry_after_secs } => {
            detail["status"] = json!(status.code());
            if let Some(secs) = retry_after_secs {
                detail["retry_after_secs"] = json!(secs);
            }
        }
        Given::Delay(delay) => detail["delay_secs"] = json!(delay.as_secs_f64()),
        Given::Nothing => {}
    }
    if let Some(method) = fault.only.method {
        detail["method"] = json!(match method {
            Method::Get => "GET",
            Method::Post => "POST",
        });
    }
    if fault.only.path == Path::Events {
        detail["documents_only"] = json!(true);
    }
    for (key, value) in [
        ("count", fault.life.count),
        ("secs", fault.life.span.map(|span| span.as_secs())),
        ("percent", fault.life.percent.map(u64::from)),
    ] {
        if let Some(value) = value {
            detail[key] = json!(value);
        }
    }
    detail
}
