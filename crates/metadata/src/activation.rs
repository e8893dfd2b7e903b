//! Turns event groups on and keeps them on. Polls are not commands: only the GET that turns a group on is one, and about twice
//! an hour one of those that keep it on. Requests that arrive meanwhile join the command in progress.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::{MachineId, Region, ScopeId};
use tokio::sync::watch;
use tokio::time::Instant;

use super::source::{Source, SourceError};

/// None until the command is answered.
type PendingActivation = watch::Receiver<Option<Result<(), SourceError>>>;

#[derive(Clone)]
pub struct Activation(Arc<Inner>);

struct Inner {
    source: Arc<dyn Source>,
    first_call_delay: Duration,
    in_progress: Mutex<HashMap<ScopeId, PendingActivation>>,
    /// When event groups were turned on, for as long as the first-call delay lasts.
    turned_on: Mutex<HashMap<ScopeId, Instant>>,
}

impl Activation {
    pub fn new(source: Arc<dyn Source>, first_call_delay: Duration) -> Activation {
        Activation(Arc::new(Inner {
            source,
            first_call_delay,
            in_progress: Mutex::default(),
            turned_on: Mutex::default(),
        }))
    }

    /// Keeps an event group on, without waiting for the commit.
    pub fn refresh(&self, region: &Region, machine: MachineId, scope: ScopeId) {
        self.submit(region.events_state_owner(scope), machine);
    }

    /// Turns an event group on; durable when this returns.
    pub async fn turn_on(&self, region: &Region, machine: MachineId, scope: ScopeId) -> Result<(), SourceError> {
        let switch = region.events_state_owner(scope);
        self.start_delay(switch);
        let mut outcome = self.submit(switch, machine);
        let outcome = match outcome.wait_for(Option::is_some).await {
            Ok(outcome) => outcome.clone().unwrap_or(Err(SourceError::OutcomeUnknown)),
            Err(_) => Err(SourceError::OutcomeUnknown),
        };
        if outcome.is_err() {
            lock(&self.0.turned_on).remove(&switch);
        }
        outcome
    }

    /// Starts the first-call delay, before other requests can see that the group is on.
    fn start_delay(&self, switch: ScopeId) {
        let delay = self.0.first_call_delay;
        if !delay.is_zero() {
            let mut turned_on = lock(&self.0.turned_on);
            turned_on.retain(|_, at| at.elapsed() < delay);
            turned_on.entry(switch).or_insert_with(Instant::now);
        }
    }

    /// The end of the first-call delay, while it lasts.
    pub fn held_until(&self, region: &Region, scope: ScopeId) -> Option<Instant> {
        if self.0.first_call_delay.is_zero() {
            return None;
        }
        let turned_on = lock(&self.0.turned_on).get(&region.events_state_owner(scope)).copied()?;
        Some(turned_on + self.0.first_call_delay).filter(|until| *until > Instant::now())
    }

    fn submit(&self, switch: ScopeId, machine: MachineId) -> PendingActivation {
        let mut in_progress = lock(&self.0.in_progress);
        if let Some(outcome) = in_progress.get(&switch) {
            return outcome.clone();
        }
        let (sender, outcome) = watch::channel(None);
        in_progress.insert(switch, outcome.clone());
        let activation = self.clone();
        // A separate task, because the request that started it can go away while others have joined.
        tokio::spawn(async move {
            let done = activation.0.source.record_seen(machine).await;
            lock(&activation.0.in_progress).remove(&switch);
            let _ = sender.send(Some(done));
        });
        outcome
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
