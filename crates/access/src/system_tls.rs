//! TLS to servers that the certificate authorities of this host vouch for: identity providers and receivers of webhooks.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring::default_provider;
use tokio::sync::OnceCell;

#[derive(Debug, thiserror::Error)]
#[error("the certificate authorities of this host cannot be used: {0}")]
pub struct AuthoritiesError(String);

/// Reads the authorities when they are first needed.
#[derive(Default)]
pub struct SystemTls(OnceCell<Arc<ClientConfig>>);

impl SystemTls {
    pub async fn config(&self) -> Result<Arc<ClientConfig>, AuthoritiesError> {
        let config = self.0.get_or_try_init(|| async {
            let config = tokio::task::spawn_blocking(client_config).await;
            config.unwrap_or_else(|_| Err(AuthoritiesError("they cannot be read".into())))
        });
        config.await.cloned()
    }
}

/// Uses the authorities of the system, or those in `SSL_CERT_FILE`.
fn client_config() -> Result<Arc<ClientConfig>, AuthoritiesError> {
    let mut roots = rustls::RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    roots.add_parsable_certificates(found.certs);
    if roots.is_empty() {
        let reason = found.errors.first().map_or_else(|| "there are none".to_owned(), ToString::to_string);
        return Err(AuthoritiesError(reason));
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| AuthoritiesError(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
