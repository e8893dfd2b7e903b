//! Adapts the engine to the traits of the metadata endpoint and the drivers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::Guard;
use forewarn_core::{
    ApprovalScope, Approver, Command, Effect, EventId, Machine, MachineId, Region, Rejection, Report, ScopeId,
    Snapshot, Timestamp,
};

use forewarn_access::MachineIdentity;
use forewarn_drivers::{Driver, Orders};
use forewarn_engine::EffectSink;
use forewarn_engine::ScopeWatch;
use forewarn_engine::{Engine, SubmitError};
use serde_json::Value;

use forewarn_metadata::{BoxFuture, DocumentWatch, Source, SourceError};

use crate::cluster::{Cluster, GuestAction, GuestCommand};

/// The pause before a report that the writer could not take is sent again.
pub const REPORT_RETRY: Duration = Duration::from_secs(1);

/// The metadata endpoint's view of the engine.
pub struct EngineSource {
    pub engine: Engine,
    /// Carries out commands of guests while another server leads.
    pub cluster: Option<Arc<Cluster>>,
}

impl EngineSource {
    async fn submit(&self, command: Command, forwarded: impl FnOnce() -> GuestCommand) -> Result<(), SourceError> {
        match (self.engine.submit(command, None).await, &self.cluster) {
            (Err(SubmitError::NoLeader), Some(cluster)) => cluster.forward_guest(forwarded()).await,
            (result, _) => result.map(drop).map_err(source_error),
        }
    }
}

impl Source for EngineSource {
    fn peek(&self) -> Guard<Arc<Snapshot>> {
        self.engine.publisher().peek()
    }

    fn now(&self) -> Timestamp {
        self.engine.now()
    }

    fn watch(&self, scope: ScopeId) -> Box<dyn DocumentWatch> {
        Box::new(EngineWatch(self.engine.publisher().watch(scope)))
    }

    fn catch_up(&self, limit: Duration) -> Option<BoxFuture<'_, bool>> {
        // A leader may have been deposed without knowing it yet, so it waits too.
        let cluster = self.cluster.as_ref()?;
        Some(Box::pin(cluster.catch_up(limit)))
    }

    fn approve<'a>(&'a self, machine: &'a Machine, events: Vec<EventId>) -> BoxFuture<'a, Result<(), SourceError>> {
        Box::pin(async move {
            let by = Approver::Guest { machine: machine.id, name: machine.name.clone() };
            let approve = Command::Approve { by, within: ApprovalScope::ScopeOf(machine.id), events: events.clone() };
            let forwarded = || GuestCommand { machine: machine.id, act: GuestAction::Approve(events) };
            self.submit(approve, forwarded).await
        })
    }

    fn record_seen(&self, machine: MachineId) -> BoxFuture<'_, Result<(), SourceError>> {
        Box::pin(self.submit(Command::Seen { machine }, move || GuestCommand { machine, act: GuestAction::Seen }))
    }

    fn properties(&self, machine: MachineId) -> BoxFuture<'_, Result<Option<Value>, SourceError>> {
        let found = self.engine.snapshot().region.machine(machine).cloned();
        Box::pin(async move {
            let Some(machine) = found else { return Ok(None) };
            self.engine.read(move |reader| forewarn_arm::machine_properties(reader, &machine)).await.map_err(|error| {
                tracing::error!(%error, "cannot read the properties of a machine");
                SourceError::Internal
            })
        })
    }

    fn identity(&self, machine: MachineId) -> BoxFuture<'_, Result<Option<MachineIdentity>, SourceError>> {
        Box::pin(async move {
            self.engine.read(move |reader| MachineIdentity::read(reader, machine)).await.map_err(|error| {
                tracing::error!(%error, "cannot read the identity of a machine");
                SourceError::Internal
            })
        })
    }
}

fn source_error(error: SubmitError) -> SourceError {
    match error {
        SubmitError::Rejected(Rejection::UnknownEvents(ids)) => SourceError::UnknownEvents(ids),
        SubmitError::Rejected(Rejection::UnknownMachine(_)) => SourceError::UnknownMachine,
        refusal @ (SubmitError::Rejected(_) | SubmitError::ServersOutdated) => {
            tracing::error!(%refusal, "unexpected refusal of a guest's request");
            SourceError::Internal
        }
        SubmitError::Busy | SubmitError::Stopping | SubmitError::NoLeader => SourceError::Overloaded,
        SubmitError::Unavailable => SourceError::OutcomeUnknown,
    }
}

struct EngineWatch(ScopeWatch);

impl DocumentWatch for EngineWatch {
    fn changed(&mut self) -> BoxFuture<'_, ()> {
        Box::pin(self.0.changed())
    }
}

/// A driver that works by itself reads its orders from the engine and reports to it.
pub struct EngineOrders(pub Engine);

impl Orders for EngineOrders {
    fn snapshot(&self) -> Arc<Snapshot> {
        self.0.snapshot()
    }

    fn report(&self, event: EventId, report: Report) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        let command = Command::Report { event, report };
        Box::pin(async move {
            loop {
                match self.0.submit(command.clone(), None).await {
                    Ok(_) | Err(SubmitError::Rejected(_) | SubmitError::ServersOutdated | SubmitError::Stopping) => {
                        return;
                    }
                    Err(SubmitError::Busy | SubmitError::Unavailable | SubmitError::NoLeader) => {
                        tokio::time::sleep(REPORT_RETRY).await
                    }
                }
            }
        })
    }
}

/// The writer's end of a driver, as the engine sees it.
pub struct DriverSink(pub Box<dyn Driver>);

impl EffectSink for DriverSink {
    fn follow(&mut self, effects: &[Effect]) {
        self.0.follow(effects);
    }

    fn reconcile(&mut self, region: &Region) {
        self.0.reconcile(region);
    }

    fn next(&self) -> Option<Timestamp> {
        self.0.next()
    }

    fn due(&self, now: Timestamp, max: usize) -> Vec<(EventId, Report)> {
        self.0.due(now, max)
    }

    fn reported(&mut self, event: EventId) {
        self.0.reported(event);
    }
}
