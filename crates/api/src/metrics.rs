//! Metrics of the management API, and the rendering of all metrics.

use std::sync::Arc;

use forewarn_metadata::LimitCounters;
use forewarn_webhooks::WebhookMetrics;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Debug, Default)]
pub struct ApiMetrics {
    pub waiting: Gauge,
    pub webhooks: Arc<WebhookMetrics>,
    pub sign_in_failures: Counter,
    /// Failures whose answers were delayed.
    pub sign_in_delays: Counter,
    /// Of both management listeners.
    pub limits: LimitCounters,
}

impl ApiMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("api_waiting", "API requests waiting for an event", self.waiting.clone());
        self.webhooks.register(registry);
        registry.register("sign_in_failures", "Failed sign-ins", self.sign_in_failures.clone());
        registry.register("sign_in_delays", "Failed sign-ins with a delayed answer", self.sign_in_delays.clone());
        registry.register(
            "management_connections_evicted",
            "Idle management connections closed because a limit was reached",
            self.limits.connections_evicted.clone(),
        );
        registry.register(
            "management_connections_refused",
            "Management connections refused because a limit was reached",
            self.limits.connections_refused.clone(),
        );
    }
}

/// Renders all metrics of a registry as OpenMetrics text.
pub fn render_metrics(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).expect("writing to a string does not fail");
    text
}
