//! Decides which faults a request meets, and when faults end. Pure: time comes in with the request.
//!
//! A request meets at most one fault of each of three layers, the oldest one: how long the response takes, what happens to the
//! response, and what is in the document. A fault that a request does not meet is not used up.

use std::collections::HashMap;
use std::time::Duration;

use forewarn_core::{MachineId, Name, Region, ScopeId, Timestamp};

use super::{
    AppliedFault, FAULTS_MAX, Fault, FaultEnd, FaultError, FaultId, FaultKind, Method, NewFault, Path, Status,
};

/// Machines or event groups that one fault remembers: those whose first call was slow, or whose incarnation restarted. Later
/// ones are not affected.
const REMEMBERED_MAX: usize = 1 << 16;

/// The facts about a request that matter to faults.
#[derive(Clone, Copy, Debug)]
pub struct FaultContext {
    pub machine: MachineId,
    pub method: Method,
    /// None: the request is not for the events document.
    pub document: Option<Document>,
    /// The time on the program's clock, by which faults end.
    pub now: Timestamp,
    /// Real time since the server started, by which faults delay.
    pub real: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct Document {
    pub scope: ScopeId,
    pub incarnation: u64,
}

/// How the faults that a request met change its response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultEffects {
    pub delay: Duration,
    pub spoil: Option<ResponseFault>,
    pub alter: DocumentFault,
    pub met: Vec<AppliedFault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseFault {
    Status { status: Status, retry_after_secs: u32 },
    Reset,
    Truncated,
    Malformed,
}

/// How faults change the document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DocumentFault {
    /// The incarnation that is shown as 1.
    pub first_incarnation: Option<u64>,
    pub events_vanish: bool,
    pub unknown_type: bool,
    /// Send the document even if the machine has it: a 304 has no body to spoil.
    pub unconditional: bool,
}

impl DocumentFault {
    pub fn incarnation(&self, real: u64) -> u64 {
        self.first_incarnation.map_or(real, |first| real.saturating_sub(first) + 1)
    }
}

#[derive(Debug, Default)]
pub struct ActiveFaults {
    last_id: u64,
    faults: Vec<Active>,
    /// Ended, but not yet reported.
    ended: Vec<(Fault, FaultEnd)>,
}

#[derive(Debug)]
struct Active {
    fault: Fault,
    first_calls: HashMap<MachineId, Duration>,
    first_incarnations: HashMap<ScopeId, u64>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Time,
    Answer,
    Content,
}

impl Layer {
    fn of(kind: FaultKind) -> Layer {
        match kind {
            FaultKind::Delay(_) | FaultKind::SlowFirstCall(_) => Layer::Time,
            FaultKind::Status { .. } | FaultKind::Reset | FaultKind::Truncated | FaultKind::Malformed => Layer::Answer,
            FaultKind::IncarnationRestart | FaultKind::EventsVanish | FaultKind::UnknownType => Layer::Content,
        }
    }
}

impl ActiveFaults {
    pub fn is_full(&self) -> bool {
        self.faults.len() + self.ended.len() >= FAULTS_MAX
    }

    pub fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Reserves an ID for a fault to add.
    pub fn reserve_id(&mut self) -> FaultId {
        self.last_id += 1;
        FaultId(self.last_id)
    }

    pub fn add(&mut self, fault: Fault) -> Result<(), FaultError> {
        if self.is_full() {
            return Err(FaultError::TooMany);
        }
        let place = self.faults.partition_point(|active| active.fault.id < fault.id);
        self.faults.insert(place, Active { fault, first_calls: HashMap::new(), first_incarnations: HashMap::new() });
        Ok(())
    }

    pub fn all(&self) -> impl Iterator<Item = &Fault> {
        self.faults.iter().map(|active| &active.fault)
    }

    pub fn remove(&mut self, id: FaultId) -> Option<Fault> {
        let place = self.faults.iter().position(|active| active.fault.id == id)?;
        Some(self.faults.remove(place).fault)
    }

    /// Decides which faults the request meets.
    pub fn apply_to(&mut self, context: &FaultContext) -> Option<FaultEffects> {
        self.pass_time(context.now);
        let mut hit = FaultEffects::default();
        self.apply_layer(Layer::Time, context, &mut hit);
        self.apply_layer(Layer::Answer, context, &mut hit);
        if !matches!(hit.spoil, Some(ResponseFault::Status { .. } | ResponseFault::Reset)) {
            self.apply_layer(Layer::Content, context, &mut hit);
        }
        (!hit.met.is_empty()).then_some(hit)
    }

    /// Ends what is over by now.
    pub fn pass_time(&mut self, now: Timestamp) {
        self.end(FaultEnd::Elapsed, |fault| fault.until.is_some_and(|until| until <= now));
    }

    /// Ends the faults of machines that no longer exist.
    pub fn end_orphans(&mut self, region: &Region) {
        self.end(FaultEnd::MachineGone, |fault| {
            fault.machine.as_ref().is_some_and(|(id, _)| region.machine(*id).is_none())
        });
    }

    /// When the next fault ends by itself.
    pub fn next_end(&self) -> Option<Timestamp> {
        self.all().filter_map(|fault| fault.until).min()
    }

    pub fn take_ended(&mut self) -> Vec<(Fault, FaultEnd)> {
        std::mem::take(&mut self.ended)
    }

    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }

    fn apply_layer(&mut self, layer: Layer, context: &FaultContext, hit: &mut FaultEffects) {
        let of_layer = self.faults.iter_mut().filter(|active| Layer::of(active.fault.kind) == layer);
        for active in of_layer {
            if active.concerns(context) && active.try_apply(context, hit) {
                hit.met.push(AppliedFault { fault: active.fault.id, kind: active.fault.kind.as_str() });
                break;
            }
        }
        self.end(FaultEnd::Counted, |fault| fault.limit.count.is_some_and(|count| fault.affected >= count));
    }

    fn end(&mut self, how: FaultEnd, is_over: impl Fn(&Fault) -> bool) {
        let ended = self.faults.extract_if(.., |active| is_over(&active.fault));
        self.ended.extend(ended.map(|active| (active.fault, how)));
    }
}

impl Active {
    fn concerns(&self, context: &FaultContext) -> bool {
        let Fault { machine, kind, only, .. } = &self.fault;
        let method = context.method;
        let is_poll = context.document.is_some() && method == Method::Get;
        machine.as_ref().is_none_or(|(machine, _)| *machine == context.machine)
            && only.method.is_none_or(|only| only == method)
            && (only.path == Path::Any || context.document.is_some())
            && (!kind.concerns_polls_only() || is_poll)
    }

    /// Counts the request and applies the fault if the request falls within its percentage.
    fn try_apply(&mut self, context: &FaultContext, hit: &mut FaultEffects) -> bool {
        let percent = u64::from(self.fault.limit.percent.unwrap_or(100));
        let before = self.fault.matched;
        self.fault.matched += 1;
        let is_selected = (before + 1) * percent / 100 > before * percent / 100;
        let applied = is_selected && self.apply(context, hit);
        self.fault.affected += u64::from(applied);
        applied
    }

    /// Applies the fault. False: it does not concern this request after all.
    fn apply(&mut self, context: &FaultContext, hit: &mut FaultEffects) -> bool {
        match self.fault.kind {
            FaultKind::Status { status, retry_after_secs } => {
                hit.spoil = Some(ResponseFault::Status { status, retry_after_secs });
            }
            FaultKind::Reset => hit.spoil = Some(ResponseFault::Reset),
            FaultKind::Truncated => (hit.spoil, hit.alter.unconditional) = (Some(ResponseFault::Truncated), true),
            FaultKind::Malformed => (hit.spoil, hit.alter.unconditional) = (Some(ResponseFault::Malformed), true),
            FaultKind::Delay(delay) => hit.delay = delay,
            FaultKind::SlowFirstCall(delay) => match self.held_until(delay, context) {
                Some(until) if until > context.real => hit.delay = until - context.real,
                Some(_) | None => return false,
            },
            FaultKind::IncarnationRestart => match self.first_incarnation(context) {
                Some(first) => {
                    hit.alter.first_incarnation = Some(first);
                    // The machine still has a tag from before, which may now stand for a different document.
                    hit.alter.unconditional |= self.is_first_call(context);
                }
                None => return false,
            },
            FaultKind::EventsVanish => (hit.alter.events_vanish, hit.alter.unconditional) = (true, true),
            FaultKind::UnknownType => hit.alter.unknown_type = true,
        }
        true
    }

    fn held_until(&mut self, delay: Duration, context: &FaultContext) -> Option<Duration> {
        let first = remember(&mut self.first_calls, context.machine, context.real)?;
        Some(first + delay)
    }

    fn is_first_call(&mut self, context: &FaultContext) -> bool {
        let is_first = !self.first_calls.contains_key(&context.machine);
        remember(&mut self.first_calls, context.machine, context.real);
        is_first
    }

    fn first_incarnation(&mut self, context: &FaultContext) -> Option<u64> {
        let document = context.document?;
        remember(&mut self.first_incarnations, document.scope, document.incarnation.max(1))
    }
}

/// The value remembered for `key`, which becomes `value` if there was none; None if there is no room.
fn remember<K: std::hash::Hash + Eq, V: Copy>(memory: &mut HashMap<K, V>, key: K, value: V) -> Option<V> {
    if memory.len() >= REMEMBERED_MAX && !memory.contains_key(&key) {
        return None;
    }
    Some(*memory.entry(key).or_insert(value))
}

impl NewFault {
    /// The fault, starting now.
    pub(super) fn begin(&self, id: FaultId, machine: Option<(MachineId, Name)>, now: Timestamp) -> Fault {
        Fault {
            id,
            machine,
            kind: self.kind,
            only: self.only,
            limit: self.limit,
            since: now,
            until: self.limit.span.map(|span| now + span),
            matched: 0,
            affected: 0,
        }
    }
}

#[cfg(test)]
#[path = "active_tests.rs"]
mod tests;
