//! How to reach etcd: endpoints, region, certificates, user.

use std::fmt;
use std::time::Duration;

/// Connection options of [`EtcdLog`](super::EtcdLog).
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `HOST:PORT` of one or more members. The first one that answers is used.
    pub endpoints: Vec<String>,
    /// Regions with different names are independent.
    pub region: String,
    pub tls: Option<EtcdTls>,
    pub user: Option<EtcdUser>,
    /// The time for one request. A leader tries twice within the silence after which others take over.
    pub request_timeout: Duration,
    pub connect_timeout: Duration,
}

/// PEM files for TLS.
#[derive(Clone, Default)]
pub struct EtcdTls {
    /// The CA of etcd's certificates. None: the system's CAs.
    pub ca: Option<Vec<u8>>,
    /// The client certificate and its key.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in etcd's certificates, if it is not the host of the endpoint.
    pub domain: Option<String>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").field("domain", &self.domain).finish_non_exhaustive()
    }
}

#[derive(Clone)]
pub struct EtcdUser {
    pub name: String,
    pub password: String,
}

impl fmt::Debug for EtcdUser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdUser").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid cluster address '{0}': {1}; use etcd://HOST[:PORT][,HOST[:PORT]…]/REGION")]
pub struct AddressError(String, &'static str);

/// etcd's port for clients.
const PORT_DEFAULT: u16 = 2379;

/// Keys contain the name of the region.
const REGION_LENGTH_MAX: usize = 64;

impl EtcdOptions {
    /// Parses `etcd://HOST[:PORT],…/REGION`.
    pub fn parse(address: &str) -> Result<EtcdOptions, AddressError> {
        let invalid = |what| AddressError(address.to_owned(), what);
        let rest = address.strip_prefix("etcd://").ok_or_else(|| invalid("it does not start with etcd://"))?;
        let (hosts, region) = rest.split_once('/').ok_or_else(|| invalid("the region is missing"))?;
        if !is_region(region) {
            return Err(invalid("a region has 1 to 64 letters, digits, '-', '_' or '.'"));
        }
        let endpoints: Vec<String> = hosts.split(',').map(with_port).collect();
        if hosts.split(',').any(|host| host.is_empty() || host.contains(['@', ' ', '?'])) {
            return Err(invalid("a host is missing or invalid"));
        }
        Ok(EtcdOptions {
            endpoints,
            region: region.to_owned(),
            tls: None,
            user: None,
            request_timeout: Duration::from_millis(500),
            connect_timeout: Duration::from_millis(500),
        })
    }
}

fn is_region(name: &str) -> bool {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=REGION_LENGTH_MAX).contains(&name.len()) && name.chars().all(is_allowed)
}

/// IPv6 addresses are in brackets, so a colon after the last bracket starts a port.
fn with_port(host: &str) -> String {
    let after_address = host.rsplit(']').next().unwrap_or(host);
    if after_address.contains(':') { host.to_owned() } else { format!("{host}:{PORT_DEFAULT}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_hosts_and_a_region() {
        let options = EtcdOptions::parse("etcd://a,b:1,[::1],[::1]:5/north").unwrap();
        assert_eq!(options.endpoints, ["a:2379", "b:1", "[::1]:2379", "[::1]:5"]);
        assert_eq!(options.region, "north");
    }

    #[test]
    fn invalid_addresses_say_what_is_wrong() {
        for (address, part) in [
            ("http://a/r", "start with etcd://"),
            ("etcd://a", "region is missing"),
            ("etcd://a/", "a region has"),
            ("etcd://a/x/y", "a region has"),
            ("etcd:///r", "host"),
            ("etcd://a,,b/r", "host"),
            ("etcd://user@a/r", "host"),
        ] {
            let message = EtcdOptions::parse(address).unwrap_err().to_string();
            assert!(message.contains(part) && message.contains(address), "{message}");
        }
    }

    #[test]
    fn secrets_are_not_printed() {
        let mut options = EtcdOptions::parse("etcd://a/r").unwrap();
        options.user = Some(EtcdUser { name: "forewarn".into(), password: "hunter2".into() });
        options.tls = Some(EtcdTls { identity: Some((b"cert".into(), b"private".into())), ..EtcdTls::default() });
        let text = format!("{options:?}");
        assert!(!text.contains("hunter2") && !text.contains("private") && text.contains("forewarn"));
    }
}
