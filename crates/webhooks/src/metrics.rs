//! Counters of deliveries.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub struct WebhookMetrics {
    pub(crate) deliveries: Counter,
    pub(crate) failures: Counter,
    pub(crate) undelivered: Counter,
}

impl WebhookMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("webhook_deliveries", "Accepted webhook deliveries", self.deliveries.clone());
        registry.register("webhook_failures", "Failed webhook delivery attempts", self.failures.clone());
        registry.register("webhook_undelivered", "Webhook messages that were not delivered", self.undelivered.clone());
    }
}
