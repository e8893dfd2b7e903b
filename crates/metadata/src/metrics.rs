//! Metrics of the metadata endpoint.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

use crate::limits::LimitCounters;

/// Counters are created once; counting is one atomic addition.
#[derive(Debug)]
pub struct MetadataMetrics {
    by_status: Family<StatusLabel, Counter>,
    /// The counters of the five status classes, so that counting needs no lookup.
    by_class: [Counter; 5],
    pub approvals: Counter,
    pub held: Gauge,
    pub connections: Gauge,
    pub limits: LimitCounters,
}

type StatusLabel = [(&'static str, &'static str); 1];

impl Default for MetadataMetrics {
    fn default() -> Self {
        let by_status = Family::<StatusLabel, Counter>::default();
        let by_class =
            ["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| by_status.get_or_create(&[("status", class)]).clone());
        MetadataMetrics {
            by_status,
            by_class,
            approvals: Counter::default(),
            held: Gauge::default(),
            connections: Gauge::default(),
            limits: LimitCounters::default(),
        }
    }
}

impl MetadataMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("metadata_requests", "Metadata requests, by status", self.by_status.clone());
        registry.register("metadata_approvals", "Accepted approvals by machines", self.approvals.clone());
        registry.register("metadata_held", "GET requests held until a change", self.held.clone());
        registry.register("metadata_connections", "Open connections to metadata listeners", self.connections.clone());
        registry.register(
            "metadata_connections_evicted",
            "Idle connections closed because their source reached its limit",
            self.limits.connections_evicted.clone(),
        );
        registry.register(
            "metadata_connections_refused",
            "Connections refused because a limit was reached",
            self.limits.connections_refused.clone(),
        );
        registry.register(
            "metadata_held_refused",
            "Requests not held because their source reached its limit",
            self.limits.held_refused.clone(),
        );
    }

    pub fn count_response(&self, status: u16) {
        if let Some(counter) = self.by_class.get(usize::from(status / 100).wrapping_sub(1)) {
            counter.inc();
        }
    }
}

/// Raises a gauge by one for as long as it lives.
pub struct GaugeGuard(Gauge);

impl GaugeGuard {
    pub fn new(gauge: &Gauge) -> GaugeGuard {
        gauge.inc();
        GaugeGuard(gauge.clone())
    }
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
