//! Hosts as the API shows them.

use forewarn_api_types::Host;
use forewarn_core::{Name, Region};

/// Machines listed for one host; use `/machines?host=` for all of them.
pub const MACHINES_LISTED_MAX: usize = 1000;

pub fn render_host(region: &Region, name: &Name) -> Host {
    let machines = region.machines_on(name).take(MACHINES_LISTED_MAX).map(|machine| machine.name.to_string()).collect();
    Host { name: name.to_string(), machines }
}
