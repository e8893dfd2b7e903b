//! Checks before a server starts: contradictions in its configuration, warnings, and damage of its database.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::bail;
use forewarn_access::Certificate;
use forewarn_api::HealthProblems;
use forewarn_metadata::LISTENERS_MAX;
use forewarn_store::SqliteStore;

use crate::config::{Config, DriverChoice};
use crate::machines;
use crate::open::directory;

/// The longest first-call delay seen on Azure.
const FIRST_CALL_DELAY_MAX: Duration = Duration::from_secs(120);

/// Refuses configurations that contradict themselves.
pub fn check(config: &Config) -> anyhow::Result<()> {
    if config.first_call_delay > FIRST_CALL_DELAY_MAX {
        bail!("first_call_delay can be at most {} seconds", FIRST_CALL_DELAY_MAX.as_secs());
    }
    if config.metadata.len() > LISTENERS_MAX {
        bail!("there can be at most {LISTENERS_MAX} metadata listeners");
    }
    match (&config.cluster, &config.driver) {
        (Some(_), DriverChoice::Command(_)) => {
            bail!(
                "a server in a cluster cannot run a driver command, because another server may take over while it runs: let host \
                 agents drive the machines with --driver agents --hosts ADDR"
            );
        }
        (Some(_), DriverChoice::Libvirt(_)) => {
            bail!(
                "a server in a cluster cannot drive libvirt itself, because another server may lead: replace --driver libvirt by \
                 --driver agents --hosts ADDR and run a host agent on each hypervisor"
            );
        }
        (Some(_), DriverChoice::Qemu(_)) => {
            bail!(
                "a server in a cluster cannot drive QEMU itself, because another server may lead: remove --driver qemu or --cluster"
            );
        }
        (None, _) | (Some(_), DriverChoice::Simulated(_) | DriverChoice::Agents) => {}
    }
    if config.cluster.is_some() && matches!(config.certificate, Certificate::Own { .. }) {
        bail!(
            "a server in a cluster uses a certificate of the region's authority: remove management_tls_cert, and put a proxy \
             in front of the server to use your own certificate"
        );
    }
    if config.hosts.is_some() && config.cluster.as_ref().is_some_and(|place| place.key.is_none()) {
        bail!(
            "host agents in a cluster require a cluster key, because the servers share the authority of the hosts: create one \
             with `forewarn cluster key FILE` and start every server with --cluster-key FILE"
        );
    }
    if matches!(config.driver, DriverChoice::Agents) && config.hosts.is_none() {
        bail!("the driver 'agents' needs a listener for host agents: add --hosts ADDR, such as --hosts 0.0.0.0:8172");
    }
    if config.rules.notice_scale == 0 {
        bail!("the notice scale must be a whole number of at least 1");
    }
    machines::check(config)
}

/// Looks for damaged pages of the database in the background. The server continues with what it could read.
pub fn check_store(config: &Config, problems: HealthProblems) {
    let Some(directory) = directory(config).map(Path::to_owned) else { return };
    tokio::task::spawn_blocking(move || {
        let found = match SqliteStore::quick_check(&directory) {
            Ok(found) if found.is_empty() => return,
            Ok(found) => found.join("; "),
            Err(error) => error.to_string(),
        };
        let path = directory.join("forewarn.db");
        let problem = format!(
            "{} is damaged: {found}. Stop the server, save what can be read with `forewarn export FILE`, and restore the \
             file from a backup.",
            path.display()
        );
        tracing::error!("{problem}");
        problems.report(problem);
    });
}

/// The warning about a management listener that other hosts can reach without TLS.
pub fn plain_http_warning(management: SocketAddr) -> Option<String> {
    let is_exposed = !management.ip().is_loopback();
    is_exposed.then(|| {
        format!(
            "PLAIN HTTP at {management}: anyone on the network between a client and this server can read and use its token. \
             Keep --management on 127.0.0.1 and serve other hosts with --management-tls ADDR"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_work_by_themselves_are_refused_in_a_cluster() {
        let place = crate::config::ClusterConfig {
            address: "etcd://127.0.0.1:2379/north".into(),
            node: "a".into(),
            advertise: "http://127.0.0.1:8170".into(),
            etcd: crate::config::EtcdAccess::default(),
            key: None,
        };
        let driver = DriverChoice::Libvirt(crate::config::LibvirtChoice::default());
        let config = Config { cluster: Some(place), driver, ..Config::default() };
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains("--driver libvirt"), "{error}");
        check(&Config { driver: Config::default().driver, ..config }).unwrap();
    }

    #[test]
    fn plain_http_beyond_loopback_causes_a_warning() {
        let warning = |address: &str| plain_http_warning(address.parse().unwrap());
        assert_eq!(warning("127.0.0.1:8170"), None);
        assert_eq!(warning("[::1]:8170"), None);
        for exposed in ["0.0.0.0:8170", "10.0.0.1:8170", "[::]:8170"] {
            let text = warning(exposed).unwrap();
            assert!(text.contains(exposed) && text.contains("--management-tls ADDR"), "{text}");
        }
    }
}
