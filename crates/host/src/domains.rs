//! Reports the domains of this host, or the machines of the QEMU driver, to the server: which run, which exist, and from which
//! the record of an unknown order was removed. The server decides what that means for machines.

use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::HostDomain;
use forewarn_api_types::host_link::{DomainReport, DomainReportAnswer, paths};
use forewarn_drivers::{DomainDescription, FoundDomain, MachineObserver, MachineWatch, Pending};
use tokio::time::{Instant, timeout};

use crate::status::Status;
use crate::upstream::Upstream;

/// The interval at which addresses are read again. That takes several calls per domain.
const DESCRIBE_EVERY: Duration = Duration::from_secs(60);

/// The interval at which the hypervisor is checked while there is no connection to a server.
const CHECK_EVERY: Duration = Duration::from_secs(10);

/// The longest wait for the copy with which the server wants to compare.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);

pub struct DomainReporter {
    status: Arc<Status>,
    upstream: Arc<Upstream>,
    /// Domains whose records were removed since the last report.
    strays: Vec<String>,
    listed: Vec<FoundDomain>,
    /// The listed domains as they are reported.
    domains: Vec<HostDomain>,
    describe_at: Instant,
}

impl DomainReporter {
    pub fn new(status: Arc<Status>, upstream: Arc<Upstream>) -> DomainReporter {
        let (strays, listed, domains) = (Vec::new(), Vec::new(), Vec::new());
        DomainReporter { status, upstream, strays, listed, domains, describe_at: Instant::now() }
    }

    /// Returns the revision of the copy with which the server wants to compare, if it is a newer one.
    async fn report(&mut self, watch: &mut dyn MachineWatch) -> Result<Option<u64>, String> {
        // Without a server, the hypervisor is still checked, so that health reports when it is gone.
        while timeout(CHECK_EVERY, self.upstream.connected()).await.is_err() {
            watch.list().await?;
        }
        let revision = self.status.copy().revision();
        let found = watch.list().await?;
        if found != self.listed || self.describe_at <= Instant::now() {
            self.domains = watch.describe().await?.iter().map(to_host_domain).collect();
            (self.listed, self.describe_at) = (found, Instant::now() + DESCRIBE_EVERY);
        }
        let report = DomainReport { revision, domains: self.domains.clone(), strays: self.strays.clone() };
        match self.upstream.post::<DomainReportAnswer>(paths::DOMAINS, &report).await {
            Ok(DomainReportAnswer { again_at }) => {
                self.strays.clear();
                Ok(again_at)
            }
            Err(error) => {
                tracing::debug!(%error, "the domains were not reported");
                Ok(None)
            }
        }
    }
}

impl MachineObserver for DomainReporter {
    fn set_connected(&mut self, is_connected: bool) {
        self.status.set_hypervisor(is_connected);
        self.describe_at = Instant::now();
    }

    fn note_removed_record(&mut self, machine: String) {
        self.strays.push(machine);
    }

    fn observe<'o>(&'o mut self, watch: &'o mut dyn MachineWatch) -> Pending<'o, Result<(), String>> {
        Box::pin(async move {
            if let Some(revision) = self.report(watch).await? {
                let mut revisions = self.status.revisions();
                let _ = timeout(COPY_TIMEOUT, revisions.wait_for(|have| *have >= revision)).await;
                // Once: the next look follows soon.
                self.report(watch).await?;
            }
            Ok(())
        })
    }

    /// The server compares the last report.
    fn wait_for_interest(&mut self) -> Pending<'_, ()> {
        Box::pin(std::future::pending())
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
