//! A client of the https listener that trusts one authority.

use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

type Stream = StreamOwned<ClientConnection, TcpStream>;

/// A connection to the server under this name, or the reason why there is none.
pub fn connect(address: SocketAddr, authority: &str, name: &str) -> Result<Stream, String> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut connection = ClientConnection::new(Arc::new(config), name).unwrap();
    let mut socket = TcpStream::connect(address).unwrap();
    while connection.is_handshaking() {
        connection.complete_io(&mut socket).map_err(|error| error.to_string())?;
    }
    Ok(StreamOwned::new(connection, socket))
}

/// The server's own authority.
pub fn authority_in(directory: &Path) -> String {
    std::fs::read_to_string(directory.join("ca.pem")).unwrap()
}
