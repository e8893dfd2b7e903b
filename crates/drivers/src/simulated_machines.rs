//! A driver of machines that do not exist, for tests and trials of host agents. Every order takes a fixed time and succeeds.
//!
//! Its journal is in memory: a driver that outlives its user is like a host whose agent restarts. After a crash of the whole
//! process nothing is left, and orders in progress are performed again.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_core::Guid;
use tokio_util::sync::CancellationToken;

use crate::order::{Action, MachineDriver, Order, OrderId, Outcome, Pending, Refusal};

pub struct SimulatedMachines {
    takes: Duration,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    term: u64,
    epoch: Option<u64>,
    journal: HashMap<Guid, SimulatedEntry>,
    /// The orders that took effect, in order.
    effects: Vec<OrderId>,
}

struct SimulatedEntry {
    order: Order,
    outcome: Option<Outcome>,
    abort: CancellationToken,
}

impl SimulatedMachines {
    /// `takes`: the length of every order.
    pub fn new(takes: Duration) -> SimulatedMachines {
        SimulatedMachines { takes, state: Mutex::default() }
    }

    /// The orders that took effect, in order. Each should be there once.
    pub fn effects(&self) -> Vec<OrderId> {
        self.lock().effects.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn accept(&self, order: &Order) -> Result<Accepted, Refusal> {
        let mut state = self.lock();
        if order.term < state.term {
            return Err(Refusal::LowerTerm { term: order.term, highest: state.term });
        }
        state.term = order.term;
        match state.journal.get(&order.id.machine) {
            Some(entry) if entry.order.id != order.id || entry.order.is_of_other_epoch(order.epoch) => {
                Err(Refusal::Busy(entry.order.id))
            }
            Some(SimulatedEntry { outcome: Some(outcome), .. }) => Ok(Accepted::Ended(outcome.clone())),
            Some(entry) => Ok(Accepted::Begun(entry.abort.clone())),
            None if order.action == Action::Withdraw => Ok(Accepted::Ended(Outcome::Failed("never begun".into()))),
            None => {
                if let Some((epoch, current)) = order.epoch.zip(state.epoch).filter(|(own, current)| own != current) {
                    return Err(Refusal::OtherEpoch { epoch, current });
                }
                let abort = CancellationToken::new();
                let entry = SimulatedEntry { order: order.clone(), outcome: None, abort: abort.clone() };
                state.journal.insert(order.id.machine, entry);
                Ok(Accepted::Begun(abort))
            }
        }
    }

    fn record(&self, order: &Order, outcome: &Outcome) {
        let mut state = self.lock();
        if !matches!(outcome, Outcome::Failed(_)) {
            state.effects.push(order.id);
        }
        if let Some(entry) = state.journal.get_mut(&order.id.machine) {
            entry.outcome = Some(outcome.clone());
        }
    }
}

enum Accepted {
    Ended(Outcome),
    Begun(CancellationToken),
}

impl MachineDriver for SimulatedMachines {
    fn perform(&self, order: Order) -> Pending<'_, Result<Outcome, Refusal>> {
        Box::pin(async move {
            let abort = match self.accept(&order)? {
                Accepted::Ended(outcome) => return Ok(outcome),
                Accepted::Begun(abort) => abort,
            };
            if order.action == Action::Withdraw {
                abort.cancel();
            }
            let is_aborted = tokio::select! {
                () = abort.cancelled() => true,
                () = tokio::time::sleep(self.takes) => false,
            };
            let outcome = match &order.action {
                _ if is_aborted => Outcome::Failed("aborted".into()),
                Action::Migrate { to } | Action::Redeploy { to } => Outcome::Moved { to: to.name.clone() },
                Action::Freeze { .. }
                | Action::Reboot(_)
                | Action::Start
                | Action::Stop
                | Action::Evict(_)
                | Action::Terminate
                | Action::Withdraw => Outcome::Done,
            };
            self.record(&order, &outcome);
            Ok(outcome)
        })
    }

    fn abort(&self, order: OrderId) {
        if let Some(entry) = self.lock().journal.get(&order.machine).filter(|entry| entry.order.id == order) {
            entry.abort.cancel();
        }
    }

    fn abandon(&self, order: OrderId) {
        self.abort(order);
    }

    fn set_epoch(&self, epoch: u64) -> Result<(), Refusal> {
        let mut state = self.lock();
        state.epoch = Some(epoch);
        let stale = state.journal.values().filter(|entry| entry.order.is_of_other_epoch(Some(epoch)));
        stale.for_each(|entry| entry.abort.cancel());
        Ok(())
    }

    /// There is nothing to pause.
    fn release(&self) -> Pending<'_, ()> {
        Box::pin(async {})
    }

    fn unfinished(&self) -> Result<Vec<Order>, Refusal> {
        Ok(self.lock().journal.values().map(|entry| entry.order.clone()).collect())
    }

    fn can_continue(&self, _order: OrderId) -> bool {
        true
    }

    fn confirm(&self, order: OrderId) -> Result<(), Refusal> {
        let mut state = self.lock();
        if state.journal.get(&order.machine).is_some_and(|entry| entry.order.id == order) {
            state.journal.remove(&order.machine);
        }
        Ok(())
    }
}
