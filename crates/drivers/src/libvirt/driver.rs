//! libvirt as the shared sequences of steps see it, and the records in domains that no order explains.

use std::io;

use forewarn_core::Guid;
use forewarn_libvirt::{CreateFlags, DestroyFlags, Domain, Error, ErrorCode, ShutdownFlags, State, StateInfo, Uuid};

use super::config::LibvirtConfig;
use super::host::{Host, is_connection_lost};
use super::inventory::DomainWatch;
use super::mark::Mark;
use super::{migrate, redeploy, remove};
use crate::inventory::{MachineWatch, WatchedDriver};
use crate::journaled::journal::Entry;
use crate::journaled::{
    Hypervisor, Job, JournaledDriver, LocatedMachine, MachineState, StageRecord, StepError, StepHook, StepResult,
};
use crate::order::{Action, HostAddress, OrderId, Outcome, Pending};

/// The domains of one libvirtd.
pub struct LibvirtMachines {
    pub host: Host,
    pub config: LibvirtConfig,
}

pub type LibvirtDriver = JournaledDriver<LibvirtMachines>;

/// A record in a domain for which there is no order in the journal. It was removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownRecord {
    pub domain: String,
    /// The order that the record names; None if it could not be read.
    pub order: Option<OrderId>,
    /// The host that the machine was to move to.
    pub target: Option<String>,
}

impl JournaledDriver<LibvirtMachines> {
    /// Opens the journal. Connects to libvirtd only when needed.
    ///
    /// # Errors
    ///
    /// If the directory of the journal cannot be created.
    pub fn open(config: LibvirtConfig) -> io::Result<LibvirtDriver> {
        let host = Host::new(config.host.clone(), config.target.clone());
        let journal = config.journal.clone();
        JournaledDriver::new(LibvirtMachines { host, config }, &journal)
    }

    /// Removes records that are not about an unfinished order of this host: in clones, in reverted snapshots, and in
    /// machines that have arrived from another host.
    ///
    /// # Errors
    ///
    /// If libvirtd or the journal cannot be read. Records may have been removed by then.
    pub async fn clear_unknown_records(&self) -> Result<Vec<UnknownRecord>, Error> {
        let host = &self.hypervisor.host;
        let mut unknown = Vec::new();
        for domain in host.connection().await.domains().await? {
            match self.clear_unknown_record(&domain).await {
                Ok(record) => unknown.extend(record),
                Err(error) if is_connection_lost(&error) => return Err(error),
                // It has disappeared.
                Err(error) if error.is(ErrorCode::NO_DOMAIN) => {}
                // Another program has locked it, for example. The next pass comes soon.
                Err(error) => {
                    tracing::warn!(domain = domain.name, %error, "cannot look for the record of an unknown order")
                }
            }
        }
        Ok(unknown)
    }

    async fn clear_unknown_record(&self, domain: &Domain) -> Result<Option<UnknownRecord>, Error> {
        let host = &self.hypervisor.host;
        if !host.has_element(domain).await? {
            return Ok(None);
        }
        let mark = host.mark(domain).await?;
        if mark.as_ref().is_some_and(|mark| self.is_expected(mark, domain.uuid)) {
            return Ok(None);
        }
        host.set_mark(domain, None).await?;
        let (order, target) = (mark.as_ref().map(|mark| mark.id), mark.and_then(|mark| mark.target));
        Ok(Some(UnknownRecord { domain: domain.name.clone(), order, target }))
    }

    fn is_expected(&self, mark: &Mark, domain: Uuid) -> bool {
        let entry = self.journal.read(mark.id.machine).ok().flatten();
        mark.id.machine.0.to_be_bytes() == domain.0 && entry.is_some_and(|entry| entry.order.id == mark.id)
    }
}

impl WatchedDriver for JournaledDriver<LibvirtMachines> {
    fn watch_machines(&self) -> Pending<'_, Result<Box<dyn MachineWatch>, String>> {
        Box::pin(async move {
            let watch = DomainWatch::open(&self.hypervisor.config.target).await;
            watch.map(|watch| Box::new(watch) as Box<dyn MachineWatch>).map_err(|error| error.to_string())
        })
    }

    fn remove_unknown_records(&self) -> Pending<'_, Result<Vec<String>, String>> {
        Box::pin(async move {
            let unknown = self.clear_unknown_records().await.map_err(|error| error.to_string())?;
            Ok(unknown.into_iter().map(|record| record.domain).collect())
        })
    }
}

impl From<Error> for StepError<Error> {
    fn from(error: Error) -> StepError<Error> {
        if is_connection_lost(&error) { StepError::Unreachable(error) } else { StepError::Failed(error.to_string()) }
    }
}

impl Hypervisor for LibvirtMachines {
    type Error = Error;
    type Machine = Domain;

    fn hook(&self) -> &StepHook {
        &self.config.hook
    }

    async fn inspect(&self, machine: Guid) -> StepResult<Option<LocatedMachine<Domain>>, Self> {
        let found = self.host.inspect(machine).await?;
        Ok(found.map(|(machine, info)| LocatedMachine { machine, state: machine_state(info) }))
    }

    /// The later of both records. The one in the domain is written first, so it can be ahead; the journal is ahead only if
    /// the domain was reverted or defined again, which must not repeat a step.
    async fn read_stage(&self, entry: &Entry, domain: &Domain) -> StepResult<Option<StageRecord>, Self> {
        let mark = self.host.mark(domain).await?.filter(|mark| mark.id == entry.order.id);
        let marked = mark.map(|mark| StageRecord { stage: mark.stage, since: mark.since });
        Ok(marked.into_iter().chain(entry.reached).max_by_key(|record| record.stage))
    }

    async fn record(&self, entry: &Entry, domain: &Domain, reached: StageRecord) -> StepResult<(), Self> {
        let order = &entry.order;
        let target = match &order.action {
            Action::Migrate { to } | Action::Redeploy { to } => Some(to.name.clone()),
            Action::Freeze { .. }
            | Action::Reboot(_)
            | Action::Start
            | Action::Stop
            | Action::Evict(_)
            | Action::Terminate
            | Action::Withdraw => None,
        };
        let StageRecord { stage, since } = reached;
        let mark = Mark { id: order.id, term: order.term, stage, since, source: self.host.name.clone(), target };
        Ok(self.host.set_mark(domain, Some(&mark)).await?)
    }

    async fn clear(&self, entry: &Entry) -> Result<(), Error> {
        let Some(domain) = self.host.find(entry.order.id.machine).await? else { return Ok(()) };
        match self.host.mark(&domain).await? {
            Some(mark) if mark.id == entry.order.id => self.host.set_mark(&domain, None).await,
            Some(_) | None => Ok(()),
        }
    }

    fn forget_connection(&self, _machine: Guid, error: &Error) {
        if is_connection_lost(error) {
            self.host.forget_connection();
        }
    }

    async fn suspend(&self, domain: &Domain) -> StepResult<(), Self> {
        Ok(self.host.connection().await.suspend(domain).await?)
    }

    async fn resume(&self, domain: &Domain) -> StepResult<(), Self> {
        Ok(self.host.connection().await.resume(domain).await?)
    }

    async fn reset(&self, domain: &Domain) -> StepResult<(), Self> {
        Ok(self.host.connection().await.reset(domain).await?)
    }

    async fn start(job: &Job<'_, Self>, domain: &Domain) -> StepResult<(), Self> {
        job.hypervisor.host.connection().await.start(domain, CreateFlags::NONE).await?;
        Ok(())
    }

    async fn shutdown(&self, domain: &Domain) -> StepResult<(), Self> {
        ignore_inactive(self.host.connection().await.shutdown(domain, ShutdownFlags::NONE).await)
    }

    async fn destroy(&self, domain: &Domain) -> StepResult<(), Self> {
        ignore_inactive(self.host.connection().await.destroy(domain, DestroyFlags::NONE).await)
    }

    /// libvirtd has done that.
    async fn end_process(&self, _domain: &Domain) -> StepResult<(), Self> {
        Ok(())
    }

    async fn check_persistent(&self, domain: &Domain) -> StepResult<(), Self> {
        if self.host.connection().await.is_persistent(domain).await? {
            return Ok(());
        }
        Err(StepError::Failed("the domain is transient: it would be lost when it shuts down".into()))
    }

    async fn migrate(job: &mut Job<'_, Self>, to: &HostAddress) -> StepResult<Outcome, Self> {
        migrate::migrate(job, to).await
    }

    async fn redeploy(job: &mut Job<'_, Self>, to: &HostAddress) -> StepResult<Outcome, Self> {
        redeploy::redeploy(job, to).await
    }

    async fn evict(job: &mut Job<'_, Self>) -> StepResult<Outcome, Self> {
        remove::evict(job).await
    }

    async fn terminate(job: &mut Job<'_, Self>) -> StepResult<Outcome, Self> {
        remove::terminate(job).await
    }

    /// libvirtd comes back, and knows then what has become of the machine.
    fn can_give_up(&self, _entry: &Entry) -> bool {
        false
    }
}

fn machine_state(info: StateInfo) -> MachineState {
    match info.state {
        State::Running => MachineState::Running,
        State::Paused => MachineState::Paused,
        State::ShutOff | State::Crashed => MachineState::Off,
        State::Blocked | State::ShuttingDown | State::PmSuspended => MachineState::Busy(format!("{:?}", info.state)),
        State::Other(_) => MachineState::Unknown(format!("{:?}", info.state)),
    }
}

/// A machine that has just shut down by itself is as wanted.
fn ignore_inactive(result: forewarn_libvirt::Result<()>) -> StepResult<(), LibvirtMachines> {
    match result {
        Err(error) if error.is(ErrorCode::OPERATION_INVALID) || error.is(ErrorCode::NO_DOMAIN) => Ok(()),
        other => Ok(other?),
    }
}
