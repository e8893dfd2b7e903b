//! The HTTPS settings: address and certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use forewarn_access::tls::certificate_name;
use forewarn_server::{Certificate, ManagementTls};

use crate::error::ConfigError;
use crate::parse::socket;

const OFF: &str = "off";

/// The default address, used if its port is free.
pub fn default() -> ManagementTls {
    ManagementTls::IfFree(SocketAddr::from((Ipv4Addr::LOCALHOST, 8171)))
}

pub fn parse(text: &str) -> Result<ManagementTls, String> {
    if text == OFF {
        return Ok(ManagementTls::Off);
    }
    let address = socket(text).map_err(|expected| format!("off, or {expected}"))?;
    Ok(ManagementTls::At(address))
}

pub fn show(tls: ManagementTls) -> String {
    tls.address().map_or(OFF.into(), |address| address.to_string())
}

/// Names for the certificate of the server's own authority.
pub fn parse_names(texts: &[String]) -> Result<Vec<String>, String> {
    let expected = || "a DNS name such as forewarn.example.com, or an address without a port".to_owned();
    texts.iter().map(|text| certificate_name(text).ok_or_else(expected)).collect()
}

/// A certificate requires its key, and the other way round.
pub fn certificate(
    certificate: Option<&PathBuf>,
    key: Option<&PathBuf>,
    names: &[String],
) -> Result<Certificate, ConfigError> {
    match (certificate, key) {
        (None, None) => Ok(Certificate::Made { names: names.to_vec() }),
        (Some(_), Some(_)) if !names.is_empty() => Err(ConfigError(
            "management_tls_name has no effect with management_tls_cert: remove it, and use a certificate with these names"
                .into(),
        )),
        (Some(certificate), Some(key)) => Ok(Certificate::Own { certificate: certificate.clone(), key: key.clone() }),
        (Some(_), None) => {
            Err(ConfigError("management_tls_cert requires management_tls_key: set both, or neither".into()))
        }
        (None, Some(_)) => {
            Err(ConfigError("management_tls_key requires management_tls_cert: set both, or neither".into()))
        }
    }
}
