//! Metrics of the drivers of real machines.

use forewarn_drivers::Outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
pub struct HostLabel {
    host: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct OrderLabel {
    host: String,
    outcome: &'static str,
}

#[derive(Clone, Debug, Default)]
pub struct OrderMetrics {
    connected: Family<HostLabel, Gauge>,
    orders: Family<OrderLabel, Counter>,
}

impl OrderMetrics {
    pub fn register(&self, registry: &mut Registry) {
        registry.register("libvirt_connected", "Whether libvirtd answers", self.connected.clone());
        registry.register("orders_ended", "Orders that have ended, by outcome", self.orders.clone());
    }

    pub fn set_connected(&self, host: &str, connected: bool) {
        self.connected.get_or_create(&HostLabel { host: host.into() }).set(connected.into());
    }

    pub fn count(&self, host: &str, outcome: &Outcome) {
        self.orders.get_or_create(&OrderLabel { host: host.into(), outcome: outcome.kind() }).inc();
    }
}
