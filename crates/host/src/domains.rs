//! Follows the domains of this host, or the machines of the QEMU driver, and reports them to the server: which run, which exist, and which carry the record of an
//! unknown order. The server decides what that means for machines.

use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::HostDomain;
use forewarn_api_types::host_link::{DomainReport, DomainReportAnswer, paths};
use forewarn_drivers::{DomainDescription, MachineWatch, WatchedDriver};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::status::Status;
use crate::upstream::Upstream;

/// The pause before the hypervisor is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The interval between two reports without a change: an order that has just ended may have hidden one.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The interval at which records of unknown orders are looked for: a domain can be cloned or reverted at any time.
const UNKNOWN_RECORDS_EVERY: Duration = Duration::from_secs(60);

/// The interval at which addresses are read again. That takes several calls per domain.
const DESCRIBE_EVERY: Duration = Duration::from_secs(60);

/// The longest wait for the copy with which the server wants to compare.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

pub struct DomainFollower {
    pub status: Arc<Status>,
    pub upstream: Arc<Upstream>,
    pub driver: Arc<dyn WatchedDriver>,
}

impl DomainFollower {
    /// Runs until stopped, through restarts of the hypervisor and of the server.
    pub async fn run(self, stop: CancellationToken) {
        while !stop.is_cancelled() {
            match stop.run_until_cancelled(self.driver.watch_machines()).await {
                None => return,
                Some(Ok(watch)) => drop(stop.run_until_cancelled(self.follow(watch)).await),
                Some(Err(error)) => tracing::warn!(%error, "cannot watch the machines"),
            }
            stop.run_until_cancelled(sleep(RETRY)).await;
        }
    }

    /// Reports after every change, until the connection ends.
    async fn follow(&self, mut watch: Box<dyn MachineWatch>) {
        let (mut unknown_at, mut describe_at) = (Instant::now(), Instant::now());
        let (mut unknown, mut listed, mut domains) = (Vec::new(), Vec::new(), Vec::new());
        let mut is_again = false;
        loop {
            if unknown_at <= Instant::now() {
                let removed = self.remove_unknown_records().await;
                unknown.extend(removed.into_iter().inspect(|domain| {
                    tracing::warn!(domain, "removed the record of an unknown order");
                }));
                unknown_at = Instant::now() + UNKNOWN_RECORDS_EVERY;
            }
            self.upstream.connected().await;
            let revision = self.status.copy().revision();
            let Ok(found) = watch.list().await else { return };
            if found != listed || describe_at <= Instant::now() {
                let Ok(described) = watch.describe().await else { return };
                domains = described.iter().map(to_host_domain).collect();
                (listed, describe_at) = (found, Instant::now() + DESCRIBE_EVERY);
            }
            let report = DomainReport { revision, domains: domains.clone(), strays: unknown.clone() };
            match self.upstream.post::<DomainReportAnswer>(paths::DOMAINS, &report).await {
                Ok(DomainReportAnswer { again_at }) => {
                    unknown.clear();
                    if let Some(revision) = again_at.filter(|_| !is_again) {
                        is_again = true;
                        let mut revisions = self.status.revisions();
                        let _ = timeout(COPY_TIMEOUT, revisions.wait_for(|have| *have >= revision)).await;
                        continue;
                    }
                }
                Err(error) => tracing::debug!(%error, "the domains were not reported"),
            }
            is_again = false;
            tokio::select! {
                exists = watch.changed() => if !exists { return },
                () = sleep(REPORT_EVERY) => {}
            }
        }
    }

    async fn remove_unknown_records(&self) -> Vec<String> {
        self.driver.remove_unknown_records().await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot look for records of unknown orders");
            Vec::new()
        })
    }
}

/// A domain as it is reported, and listed for import.
pub fn to_host_domain(domain: &DomainDescription) -> HostDomain {
    HostDomain {
        name: domain.name.clone(),
        vm_id: domain.vm_id.to_string(),
        active: domain.is_active,
        memory_mib: domain.memory_mib,
        macs: domain.macs.clone(),
        addresses: domain.addresses.iter().map(ToString::to_string).collect(),
        labels: domain.labels.clone(),
    }
}
