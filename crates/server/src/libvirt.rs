//! Runs the libvirt driver for the hosts whose libvirtd this server can open.
//!
//! Each host has a journal, a runner for its orders, and a watch on its domains. Orders follow from the region, so
//! nothing is lost if a host or this server is restarted.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use forewarn_api::HealthProblems;
use forewarn_core::{Command, MachineReport, Name};
use forewarn_drivers::book::orders_of;
use forewarn_drivers::libvirt::{LibvirtConfig, LibvirtDriver, Target};
use forewarn_drivers::{Action, Order, OrderBook, OrderRunner, Outcome, Pending, RebootMode, Reported};
use forewarn_engine::{ClockKind, Engine, SubmitError};
use tokio::sync::{Mutex, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapters::REPORT_RETRY;
use crate::config::{Config, DriverChoice, LibvirtChoice, StoreChoice};
use crate::drift::DomainFollower;
use crate::libvirt_metrics::LibvirtMetrics;

/// The directory of the journals in the data directory, one for each host.
const JOURNAL: &str = "journal";

/// The longest reason of a failure that is stored. libvirt's own are shorter, QEMU's can be pages.
const REASON_CHARS_MAX: usize = 500;

/// Refuses configurations that the libvirt driver cannot work with.
pub fn check(config: &Config) -> anyhow::Result<()> {
    let DriverChoice::Libvirt(choice) = &config.driver else { return Ok(()) };
    if matches!(config.clock, ClockKind::Manual { .. }) {
        bail!("the libvirt driver needs the real clock: remove --clock manual");
    }
    if matches!(config.store, StoreChoice::Memory) {
        bail!("the libvirt driver needs a data directory for its journal: remove --memory");
    }
    if !choice.socket.exists() {
        tracing::warn!(socket = %choice.socket.display(), "libvirtd has no socket yet; orders wait for it");
    }
    Ok(())
}

/// Registers the hosts and starts their runners.
pub async fn start(
    choice: &LibvirtChoice,
    data: &Path,
    engine: &Engine,
    problems: &HealthProblems,
    metrics: &LibvirtMetrics,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<()> {
    for (host, socket) in choice.hosts() {
        let register = Command::RegisterHost { name: host.as_str().into() };
        engine.submit(register, None).await.with_context(|| format!("cannot register the host '{host}'"))?;
        let journal = data.join(JOURNAL).join(&host);
        let driver = Arc::new(
            LibvirtDriver::open(LibvirtConfig {
                host: host.clone(),
                target: Target::qemu(socket),
                journal: journal.clone(),
                pools: choice.pools.clone(),
                peers: Arc::new(choice.peers.clone()),
                hook: Arc::new(|_| {}),
            })
            .with_context(|| format!("cannot open the journal in {}", journal.display()))?,
        );
        let book = EngineBook {
            engine: engine.clone(),
            host: host.as_str().into(),
            choice: choice.clone(),
            metrics: metrics.clone(),
            revisions: Mutex::new(engine.subscribe()),
        };
        tasks.spawn(OrderRunner { driver: driver.clone(), book: Arc::new(book) }.run(stop.clone()));
        let follower = DomainFollower {
            engine: engine.clone(),
            host: host.as_str().into(),
            driver,
            problems: problems.clone(),
            metrics: metrics.clone(),
        };
        tasks.spawn(follower.run(stop.clone()));
    }
    Ok(())
}

/// The orders of one host, from the region. Reports become commands of the engine.
struct EngineBook {
    engine: Engine,
    host: Name,
    choice: LibvirtChoice,
    metrics: LibvirtMetrics,
    revisions: Mutex<watch::Receiver<u64>>,
}

impl OrderBook for EngineBook {
    fn orders(&self) -> Vec<Order> {
        let region = &self.engine.snapshot().region;
        let peers = |host: &str| self.choice.peers.address(host);
        let mut orders = orders_of(region, &self.host, region.meta().term, &peers);
        for order in &mut orders {
            if order.action == Action::Reboot(RebootMode::Hard) {
                order.action = Action::Reboot(self.choice.reboot);
            }
        }
        orders
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

    fn report(&self, order: &Order, outcome: Outcome) -> Pending<'_, Reported> {
        let order = order.clone();
        Box::pin(async move {
            let Some(machine) = self.engine.snapshot().region.machine_by_vm_id(order.id.machine) else {
                return Reported::Settled;
            };
            let report = machine_report(outcome);
            let command = Command::ReportMachine { event: order.id.event, machine, host: self.host.clone(), report };
            loop {
                match self.engine.submit(command.clone(), None).await {
                    Ok(_) => return Reported::Settled,
                    Err(SubmitError::Rejected(rejection)) => {
                        tracing::warn!(order = %order.id, name = order.name, %rejection, "the report was refused");
                        return Reported::Settled;
                    }
                    Err(SubmitError::Stopping) => return Reported::Stopping,
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
