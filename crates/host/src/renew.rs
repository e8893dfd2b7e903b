//! Renews the certificate halfway through its life.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use forewarn_access::HostKey;
use forewarn_access::tls::now;
use forewarn_api_types::host_link::{RenewResponse, Renewal, paths};
use tokio::sync::watch;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::enroll::Identity;
use crate::upstream::Upstream;

/// How often the age of the certificate is checked. It is valid for another fifteen days then.
const CHECK_EVERY: Duration = Duration::from_secs(3600);

pub struct Renewer {
    pub dir: PathBuf,
    pub upstream: Arc<Upstream>,
    pub identity: watch::Sender<Arc<Identity>>,
}

impl Renewer {
    /// Renews the certificate in time, until the agent stops. If that fails, it is tried again an hour later.
    pub async fn run(self, stop: CancellationToken) {
        loop {
            let Some(()) = stop.run_until_cancelled(self.upstream.connected()).await else { return };
            let current = self.identity.borrow().clone();
            if current.wants_renewal(now()) {
                match self.renew(&current).await {
                    Ok(renewed) => {
                        self.identity.send_replace(Arc::new(renewed));
                        tracing::info!("renewed the certificate of this host");
                    }
                    Err(error) => {
                        tracing::warn!(error = %format!("{error:#}"), "cannot renew the certificate of this host");
                    }
                }
            }
            if stop.run_until_cancelled(sleep(CHECK_EVERY)).await.is_none() {
                return;
            }
        }
    }

    async fn renew(&self, current: &Identity) -> anyhow::Result<Identity> {
        let key = HostKey::generate()?;
        let body = Renewal { request: key.request()? };
        let renewed = self.upstream.post::<RenewResponse>(paths::RENEW, &body).await;
        let RenewResponse { certificate } = renewed.map_err(|error| anyhow::anyhow!("{error}"))?;
        let identity = Identity { certificate, key: key.secret(), issued: now(), ..current.clone() };
        identity.write(&self.dir)?;
        Ok(identity)
    }
}
