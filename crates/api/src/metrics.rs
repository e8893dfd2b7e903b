//! Metrics of the management API, and the rendering of all metrics.

use prometheus_client::encoding::text::encode;
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

/// Renders all metrics of a registry as OpenMetrics text.
pub fn render_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string does not fail");
    text
}
