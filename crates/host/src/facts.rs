//! Gathers the facts for `forewarn host doctor` from this computer. It changes nothing, and contacts only libvirtd or QEMU.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::Path;

use forewarn_access::tls::now;
use forewarn_api_types::AgentHealth;
use forewarn_connect::Trust;
use forewarn_taps::bridges::list_addresses;
use forewarn_taps::kernel::{FWMARK_ACCEPT, find_nft};
use rustix::process::geteuid;

use crate::doctor::{DriverFact, EnrollmentFact, Facts, LibvirtFact};
use crate::enroll::Identity;
use crate::facts_qemu::gather_qemu;
use crate::host_driver::{DriverOptions, HostDriver, JOURNAL};

/// Gathers everything. `data`: the data directory.
pub fn gather(data: &Path, driver: HostDriver, options: DriverOptions) -> Facts {
    let interfaces = interfaces();
    Facts {
        is_root: geteuid().is_root(),
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        driver: match driver {
            HostDriver::Libvirt => DriverFact::Libvirt(libvirt(&options.socket)),
            HostDriver::Qemu => DriverFact::Qemu(gather_qemu(options.machines, data.join(JOURNAL))),
            HostDriver::Simulated | HostDriver::None => DriverFact::Nothing,
        },
        bridges: interfaces
            .iter()
            .filter(|name| Path::new(SYSTEM).join(name).join("bridge").exists())
            .cloned()
            .collect(),
        metadata_interfaces: metadata_interfaces(&interfaces),
        fwmark_accept: fs::read_to_string(FWMARK_ACCEPT).ok().map(|text| text.trim() == "1"),
        has_nft: find_nft().is_some(),
        needs_marks: false,
        enrollment: enrollment(data),
        clock_ahead_ms: None,
    }
}

/// The difference between the clocks of this host and the server, as the agent with this health listener knows it.
pub fn read_clock_ahead(health: SocketAddr) -> Option<i64> {
    let agent = forewarn_connect::agent(&Trust::System(None)).ok()?;
    let mut answer = agent.get(format!("http://{health}/healthz")).call().ok()?;
    answer.body_mut().read_json::<AgentHealth>().ok()?.clock_ahead_ms
}

const SYSTEM: &str = "/sys/class/net";

/// The address of the metadata service.
const METADATA: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 169, 254));

fn interfaces() -> Vec<String> {
    let names = fs::read_dir(SYSTEM).into_iter().flatten().flatten();
    let mut names: Vec<String> = names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn libvirt(socket: &Path) -> LibvirtFact {
    match UnixStream::connect(socket) {
        Ok(_) => LibvirtFact::Works,
        Err(error) if error.kind() == io::ErrorKind::NotFound => LibvirtFact::Missing,
        Err(error) => LibvirtFact::Refused(error.to_string()),
    }
}

/// The interfaces with the metadata address.
fn metadata_interfaces(interfaces: &[String]) -> Vec<String> {
    let addresses = list_addresses().unwrap_or_default();
    let has_address = |name: &&String| {
        let index = fs::read_to_string(Path::new(SYSTEM).join(name).join("ifindex")).unwrap_or_default();
        addresses.iter().any(|address| address.ip == METADATA && address.index.to_string() == index.trim())
    };
    interfaces.iter().filter(has_address).cloned().collect()
}

fn enrollment(data: &Path) -> EnrollmentFact {
    if fs::read_dir(data).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        return EnrollmentFact::Missing;
    }
    match Identity::read(data) {
        Ok(identity) => {
            let secs_left = identity.expires_at() - now();
            EnrollmentFact::Joined { host: identity.host, days_left: secs_left.div_euclid(86_400) }
        }
        Err(error) => EnrollmentFact::Broken(format!("{error:#}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gathering_changes_nothing_and_always_ends() {
        let dir = tempfile::tempdir().unwrap();
        let options = DriverOptions { socket: dir.path().join("socket"), ..DriverOptions::default() };
        let facts = gather(&dir.path().join("none"), HostDriver::Libvirt, options);
        let driver = DriverFact::Libvirt(LibvirtFact::Missing);
        assert_eq!((facts.driver, facts.enrollment), (driver, EnrollmentFact::Missing));
        assert!(!facts.kernel.is_empty());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
