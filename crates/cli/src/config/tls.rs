//! The HTTPS settings: address and certificate.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use forewarn_server::{Certificate, ManagementTls};

use super::ConfigError;
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

/// A certificate requires its key, and the other way round.
pub fn certificate(certificate: Option<&PathBuf>, key: Option<&PathBuf>) -> Result<Certificate, ConfigError> {
    match (certificate, key) {
        (None, None) => Ok(Certificate::Made),
        (Some(certificate), Some(key)) => Ok(Certificate::Own { certificate: certificate.clone(), key: key.clone() }),
        (Some(_), None) => {
            Err(ConfigError("management_tls_cert requires management_tls_key: set both, or neither".into()))
        }
        (None, Some(_)) => {
            Err(ConfigError("management_tls_key requires management_tls_cert: set both, or neither".into()))
        }
    }
}
