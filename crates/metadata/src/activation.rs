//! Telling the region that a scope asks. Polls are not commands: only the GET that turns a scope on is,
//! and about twice an hour one of those that keep it on. Requests that come meanwhile join it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::{MachineId, Region, ScopeId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::source::{Source, SourceError};

/// None until the region has answered.
type Outcome = watch::Receiver<Option<Result<(), SourceError>>>;

#[derive(Clone)]
pub struct Seen(Arc<Inner>);

struct Inner {
    source: Arc<dyn Source>,
    first_call_delay: Duration,
    under_way: Mutex<HashMap<ScopeId, Outcome>>,
    /// When scopes were turned on, for as long as that holds requests up.
    turned_on: Mutex<HashMap<ScopeId, Instant>>,
}

impl Seen {
    pub fn new(source: Arc<dyn Source>, first_call_delay: Duration) -> Seen {
        Seen(Arc::new(Inner { source, first_call_delay, under_way: Mutex::default(), turned_on: Mutex::default() }))
    }

    /// Tells the region without waiting for it.
    pub fn refresh(&self, region: &Region, machine: MachineId, scope: ScopeId) {
        self.begin(region.switch_of(scope), machine);
    }

    /// Turns the scope on; durable when this returns.
    pub async fn turn_on(&self, region: &Region, machine: MachineId, scope: ScopeId) -> Result<(), SourceError> {
        let switch = region.switch_of(scope);
        self.hold_from_now(switch);
        let mut outcome = self.begin(switch, machine);
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(SourceError::OutcomeUnknown)),
            Err(_) => Err(SourceError::OutcomeUnknown),
        };
        if outcome.is_err() {
            lock(&self.0.turned_on).remove(&switch);
        }
        outcome
    }

    /// Before the scope is seen to be on: others may ask as soon as it is.
    fn hold_from_now(&self, switch: ScopeId) {
        let delay = self.0.first_call_delay;
        if !delay.is_zero() {
            let mut turned_on = lock(&self.0.turned_on);
            turned_on.retain(|_, at| at.elapsed() < delay);
            turned_on.entry(switch).or_insert_with(Instant::now);
        }
    }

    /// Until when requests of this scope are held because it was turned on only just now.
    pub fn held_until(&self, region: &Region, scope: ScopeId) -> Option<Instant> {
        if self.0.first_call_delay.is_zero() {
            return None;
        }
        let turned_on = lock(&self.0.turned_on).get(&region.switch_of(scope)).copied()?;
        Some(turned_on + self.0.first_call_delay).filter(|until| *until > Instant::now())
    }

    fn begin(&self, switch: ScopeId, machine: MachineId) -> Outcome {
        let mut under_way = lock(&self.0.under_way);
        if let Some(outcome) = under_way.get(&switch) {
            return outcome.clone();
        }
        let (tell, outcome) = watch::channel(None);
        under_way.insert(switch, outcome.clone());
        let seen = self.clone();
        // A task of its own: the request that began it may go away, others may have joined.
        tokio::spawn(async move {
            let done = seen.0.source.record_seen(machine).await;
            lock(&seen.0.under_way).remove(&switch);
            let _ = tell.send(Some(done));
        });
        outcome
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
