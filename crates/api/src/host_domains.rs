//! The domains that host agents have reported. In memory: an agent reports them again within seconds after a restart.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use forewarn_api_types::HostDomain;
use forewarn_core::Name;

#[derive(Default)]
pub struct HostDomains(Mutex<HashMap<Name, Vec<HostDomain>>>);

impl HostDomains {
    pub fn replace(&self, host: &Name, domains: Vec<HostDomain>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(host.clone(), domains);
    }

    /// None if its agent has not reported to this server.
    pub fn of(&self, host: &Name) -> Option<Vec<HostDomain>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(host).cloned()
    }
}
