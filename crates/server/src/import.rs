//! Reads the domains of a libvirtd for `forewarn host import`.

use std::path::Path;

use anyhow::Context;
use forewarn_drivers::libvirt::{DomainDescription, Target, describe_domains};

/// Describes all domains. Blocks, and must not be called from an asynchronous task.
///
/// # Errors
///
/// If libvirtd cannot be reached.
pub fn read_domains(socket: &Path) -> anyhow::Result<Vec<DomainDescription>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let target = Target::qemu(socket);
    runtime
        .block_on(describe_domains(&target))
        .with_context(|| format!("cannot read the domains of libvirtd at {}", socket.display()))
}
