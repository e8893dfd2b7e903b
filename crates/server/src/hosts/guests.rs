//! Requests that agents make for their guests, and reports about their domains.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use forewarn_access::{MachineIdentity, TokenIssuer, is_known_audience};
use forewarn_api::HostDomains;
use forewarn_api_types::host_link::{
    DomainReport, DomainReportAnswer, FoundProperties, GuestToken, IssuedToken, LinkRefusal,
};
use forewarn_core::{Guid, Machine, MachineId, Name, Region};
use forewarn_drivers::FoundDomain;
use forewarn_engine::Engine;
use forewarn_metadata::{TokenRequest, issue_token};
use forewarn_wire::error::MetadataError;
use forewarn_wire::{guid, instance};

use crate::drift::{find_drift, record_drift};

pub struct GuestServices {
    pub engine: Engine,
    pub issuer: TokenIssuer,
    /// The last reports, for the management API.
    pub domains: Arc<HostDomains>,
    /// The machines of each host as they were when its domains were last compared.
    compared: Mutex<HashMap<Name, Compared>>,
}

/// Machines, and the revision at which each was first seen like this.
type Compared = HashMap<MachineId, (Arc<Machine>, u64)>;

impl GuestServices {
    pub fn new(engine: Engine, issuer: TokenIssuer, domains: Arc<HostDomains>) -> GuestServices {
        GuestServices { engine, issuer, domains, compared: Mutex::default() }
    }

    /// Issues a token to a machine of the agent's host.
    pub async fn issue(&self, machine: Arc<Machine>, request: GuestToken) -> Result<IssuedToken, LinkRefusal> {
        let GuestToken { resource, client_id, .. } = request;
        if !is_known_audience(&resource) && !(self.issuer.is_audience)(&resource) {
            return Err(LinkRefusal::ResourceUnknown);
        }
        let id = machine.id;
        let identity = self.engine.read(move |reader| MachineIdentity::read(reader, id)).await.map_err(|error| {
            tracing::error!(%error, "cannot read the identity of a machine");
            LinkRefusal::Internal
        })?;
        match issue_token(&self.issuer, &TokenRequest { machine, resource, client_id }, identity) {
            Ok(body) => Ok(IssuedToken { body }),
            Err(MetadataError::IdentityNotFound) => Err(LinkRefusal::IdentityNotFound),
            Err(_) => Err(LinkRefusal::Internal),
        }
    }

    /// The properties of a machine of the agent's host that instance metadata shows.
    pub async fn find_properties(&self, machine: Arc<Machine>) -> Result<FoundProperties, LinkRefusal> {
        let found = self.engine.read(move |reader| forewarn_arm::machine_properties(reader, &machine)).await;
        let found = found.map_err(|error| {
            tracing::error!(%error, "cannot read the properties of a machine");
            LinkRefusal::Internal
        })?;
        Ok(FoundProperties { properties: found.as_ref().map(instance::select_properties) })
    }

    /// Compares the domains of a host with its machines. A machine that has changed since the agent's copy is left for the
    /// next report, because the domains may be older than the change.
    pub async fn compare(&self, host: &Name, report: DomainReport) -> Result<DomainReportAnswer, LinkRefusal> {
        for domain in &report.strays {
            tracing::warn!(%host, domain, "the agent has removed the record of an unknown order from a domain");
        }
        let found = report.domains.iter().map(|domain| {
            let invalid = || LinkRefusal::Invalid { message: format!("'{}' is not a UUID", domain.vm_id) };
            let vm_id = guid::parse(&domain.vm_id).map(Guid).ok_or_else(invalid)?;
            let (name, is_active) = (domain.name.clone(), domain.active);
            Ok(FoundDomain { vm_id, name, is_active, memory_mib: domain.memory_mib })
        });
        let found = found.collect::<Result<Vec<_>, LinkRefusal>>()?;
        self.domains.replace(host, report.domains);
        let snapshot = self.engine.snapshot();
        let (drift, is_complete) = self.find_drift(&snapshot.region, host, &found, report.revision);
        let revision = snapshot.region.meta().revision;
        record_drift(&self.engine, host, drift).await;
        Ok(DomainReportAnswer { again_at: (!is_complete).then_some(revision) })
    }

    /// The drift, and whether all machines could be compared.
    fn find_drift(
        &self,
        region: &Region,
        host: &Name,
        found: &[FoundDomain],
        copy: u64,
    ) -> (Vec<forewarn_core::Command>, bool) {
        let mut compared = self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        let before = compared.remove(host).unwrap_or_default();
        let now = compared.entry(host.clone()).or_default();
        let mut is_complete = true;
        let drift = find_drift(region, host, found, |machine| {
            let known = before.get(&machine.id).filter(|(old, _)| Arc::ptr_eq(old, machine));
            let since = known.map_or(region.meta().revision, |(_, since)| *since);
            now.insert(machine.id, (machine.clone(), since));
            is_complete &= copy >= since;
            copy >= since
        });
        (drift, is_complete)
    }
}
