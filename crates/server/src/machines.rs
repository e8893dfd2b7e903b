//! Runs the drivers of real machines: libvirt for the hosts whose libvirtd this server can open, or the QEMU processes of
//! this host.
//!
//! Each host has a journal, a runner for its orders, and a watch on its machines. Orders follow from the region, so
//! nothing is lost if a host or this server is restarted.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use forewarn_api::HealthProblems;
use forewarn_core::{Command, HostState, MachineReport, Name};
use forewarn_drivers::book::orders_of;
use forewarn_drivers::libvirt::{LibvirtConfig, LibvirtDriver, Target};
use forewarn_drivers::qemu::{QemuConfig, QemuDriver};
use forewarn_drivers::{
    MachineFollower, Order, OrderBook, OrderRunner, Outcome, Pending, RebootMode, ReportResult, WatchedDriver,
    default_hook,
};
use forewarn_engine::{ClockSetting, Engine, SubmitError};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapters::REPORT_RETRY;
use crate::config::{Config, DriverChoice, KnownPeers, LibvirtChoice, QemuChoice, StoreChoice};
use crate::drift::DriftObserver;
use crate::order_metrics::OrderMetrics;

/// The directory of the journals in the data directory, one for each host.
const JOURNAL: &str = "journal";

/// The longest reason of a failure that is stored. libvirt's own are shorter, QEMU's can be pages.
const REASON_CHARS_MAX: usize = 500;

/// Refuses configurations that the drivers of real machines cannot work with.
pub fn check(config: &Config) -> anyhow::Result<()> {
    let name = match &config.driver {
        DriverChoice::Libvirt(_) => "libvirt",
        DriverChoice::Qemu(_) => "qemu",
        DriverChoice::Simulated(_) | DriverChoice::Command(_) | DriverChoice::Agents => return Ok(()),
    };
    if matches!(config.clock, ClockSetting::Manual { .. }) {
        bail!("the {name} driver needs the real clock: remove --clock manual");
    }
    if matches!(config.store, StoreChoice::Memory) {
        bail!("the {name} driver needs a data directory for its journal: remove --memory");
    }
    if let DriverChoice::Libvirt(choice) = &config.driver
        && !choice.socket.exists()
    {
        tracing::warn!(socket = %choice.socket.display(), "libvirtd has no socket yet; orders wait for it");
    }
    Ok(())
}

/// Parts of the server that the runners of all hosts use.
pub struct DriverContext<'s> {
    pub engine: &'s Engine,
    pub problems: &'s HealthProblems,
    pub metrics: &'s OrderMetrics,
    pub stop: &'s CancellationToken,
    pub tasks: &'s TaskTracker,
}

/// Starts the runners of the driver, if it is one of real machines. `data`: the data directory.
pub async fn start(driver: &DriverChoice, data: &Path, surroundings: &DriverContext<'_>) -> anyhow::Result<()> {
    match driver {
        DriverChoice::Libvirt(choice) => start_libvirt(choice, data, surroundings).await,
        DriverChoice::Qemu(choice) => start_qemu(choice, data, surroundings).await,
        DriverChoice::Simulated(_) | DriverChoice::Command(_) | DriverChoice::Agents => Ok(()),
    }
}

async fn start_libvirt(choice: &LibvirtChoice, data: &Path, surroundings: &DriverContext<'_>) -> anyhow::Result<()> {
    for (host, socket) in choice.hosts() {
        let journal = data.join(JOURNAL).join(&host);
        let config = LibvirtConfig {
            host: host.clone(),
            target: Target::qemu(socket),
            journal: journal.clone(),
            pools: choice.pools.clone(),
            peers: Arc::new(choice.peers.clone()),
            hook: default_hook(),
        };
        let driver = LibvirtDriver::open(config);
        let driver = driver.with_context(|| format!("cannot open the journal in {}", journal.display()))?;
        let problem = format!("libvirtd of host '{host}' does not answer; its orders wait");
        let machines = HostMachines {
            driver: Arc::new(driver),
            problem,
            peers: choice.peers.clone(),
            reboot: choice.reboot,
            host,
        };
        machines.start(surroundings).await?;
    }
    Ok(())
}

async fn start_qemu(choice: &QemuChoice, data: &Path, surroundings: &DriverContext<'_>) -> anyhow::Result<()> {
    let config = QemuConfig {
        machines: choice.machines.clone(),
        journal: data.join(JOURNAL).join(&choice.host),
        hook: default_hook(),
    };
    let machines = HostMachines {
        host: choice.host.clone(),
        driver: Arc::new(QemuDriver::open(config).map_err(|error| anyhow!(error))?),
        problem: format!("QMP sockets of host '{}' cannot be opened; their orders wait", choice.host),
        peers: KnownPeers::default(),
        reboot: choice.reboot,
    };
    machines.start(surroundings).await
}

/// The machines of one host.
struct HostMachines {
    host: String,
    driver: Arc<dyn WatchedDriver>,
    problem: String,
    peers: KnownPeers,
    reboot: RebootMode,
}

impl HostMachines {
    /// Registers the host and starts its runner.
    async fn start(self, surroundings: &DriverContext<'_>) -> anyhow::Result<()> {
        let HostMachines { host, driver, problem, peers, reboot } = self;
        let DriverContext { engine, problems, metrics, stop, tasks } = surroundings;
        let register = Command::RegisterHost { name: host.as_str().into() };
        engine.submit(register, None).await.with_context(|| format!("cannot register the host '{host}'"))?;
        let host: Name = host.as_str().into();
        let book = EngineBook {
            engine: (*engine).clone(),
            host: host.clone(),
            peers,
            reboot,
            metrics: (*metrics).clone(),
            revisions: Mutex::new(engine.subscribe()),
        };
        tasks.spawn(OrderRunner { driver: driver.clone(), book: Arc::new(book) }.run((*stop).clone()));
        let observer = DriftObserver {
            engine: (*engine).clone(),
            host: host.clone(),
            problem,
            problems: (*problems).clone(),
            metrics: (*metrics).clone(),
            awaiting: HashSet::new(),
        };
        tasks.spawn(MachineFollower { host, driver, observer }.run((*stop).clone()));
        Ok(())
    }
}

/// The orders of one host, from the region. Reports become commands of the engine.
struct EngineBook {
    engine: Engine,
    host: Name,
    peers: KnownPeers,
    reboot: RebootMode,
    metrics: OrderMetrics,
    revisions: Mutex<watch::Receiver<u64>>,
}

impl OrderBook for EngineBook {
    fn orders(&self) -> Option<Vec<Order>> {
        let region = &self.engine.snapshot().region;
        let peers = |host: &str| self.peers.address(host);
        let orders = orders_of(region, &self.host, region.meta().term, &peers).into_iter();
        let now = self.engine.now();
        Some(orders.map(|order| order.with_reboot(self.reboot).with_local_deadline(now)).collect())
    }

    fn is_barred(&self) -> bool {
        self.engine.snapshot().region.host(&self.host).is_some_and(|host| host.state == HostState::Failed)
    }

    fn epoch(&self) -> Option<u64> {
        self.engine.snapshot().region.host(&self.host).map(|host| host.epoch)
    }

    fn term(&self) -> u64 {
        self.engine.snapshot().region.meta().term
    }

    fn changed(&self) -> Pending<'_, ()> {
        Box::pin(async move {
            if self.revisions.lock().await.changed().await.is_err() {
                // The writer has ended, and with it every change.
                std::future::pending::<()>().await;
            }
        })
    }

    fn report(&self, order: &Order, outcome: Outcome) -> Pending<'_, ReportResult> {
        let order = order.clone();
        Box::pin(async move {
            let Some(machine) = self.engine.snapshot().region.machine_by_vm_id(order.id.machine) else {
                return ReportResult::Settled;
            };
            let report = machine_report(outcome);
            let (event, host, epoch) = (order.id.event, self.host.clone(), order.epoch);
            let command = Command::ReportMachine { event, machine, host, epoch, report };
            loop {
                match self.engine.submit(command.clone(), None).await {
                    Ok(_) => return ReportResult::Settled,
                    Err(refusal @ (SubmitError::Rejected(_) | SubmitError::ServersOutdated)) => {
                        tracing::warn!(order = %order.id, name = order.name, %refusal, "the report was refused");
                        return ReportResult::Settled;
                    }
                    Err(SubmitError::Stopping) => return ReportResult::Stopping,
                    Err(SubmitError::Busy | SubmitError::Unavailable | SubmitError::NoLeader) => {
                        tokio::time::sleep(REPORT_RETRY).await
                    }
                }
            }
        })
    }

    fn observe(&self, order: &Order, outcome: &Outcome) {
        tracing::info!(host = %self.host, order = %order.id, name = order.name, %outcome, "order ended");
        self.metrics.count(&self.host, outcome);
    }
}

pub fn machine_report(outcome: Outcome) -> MachineReport {
    match outcome {
        Outcome::Done => MachineReport::Done,
        Outcome::Failed(reason) => {
            MachineReport::Failed(reason.chars().take(REASON_CHARS_MAX).collect::<String>().into())
        }
        Outcome::Gone => MachineReport::Gone,
        Outcome::Moved { to } => MachineReport::Moved { to: to.into() },
    }
}
