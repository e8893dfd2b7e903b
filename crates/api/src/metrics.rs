//! Metrics of the management API.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub struct ApiMetrics {
    pub waiting: Gauge,
    pub webhook_deliveries: Counter,
    pub webhook_failures: Counter,
    pub webhook_given_up: Counter,
}

impl ApiMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("api_waiting", "API requests waiting for an event", self.waiting.clone());
        registry.register("webhook_deliveries", "Accepted webhook deliveries", self.webhook_deliveries.clone());
        registry.register("webhook_failures", "Failed webhook delivery attempts", self.webhook_failures.clone());
        registry.register("webhook_given_up", "Webhook deliveries given up", self.webhook_given_up.clone());
    }
}
