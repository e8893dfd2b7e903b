//! Metrics of the engine: commands, commits, the size of the newest snapshot, and the clock.

use std::fmt;
use std::sync::Arc;

use forewarn_core::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::clock::Clock;
use crate::publish::Publisher;

#[derive(Debug)]
pub struct EngineMetrics {
    pub commands: Counter,
    pub rejections: Counter,
    pub commits: Counter,
    pub commits_failed: Counter,
    pub batch_commands: Histogram,
    pub commit_seconds: Histogram,
    pub mailbox_full: Counter,
}

impl Default for EngineMetrics {
    fn default() -> Self {
        EngineMetrics {
            commands: Counter::default(),
            rejections: Counter::default(),
            commits: Counter::default(),
            commits_failed: Counter::default(),
            batch_commands: Histogram::new(exponential_buckets(1.0, 2.0, 12)),
            commit_seconds: Histogram::new(exponential_buckets(0.000_05, 2.0, 18)),
            mailbox_full: Counter::default(),
        }
    }
}

impl EngineMetrics {
    /// Registers the counters, and figures that are read from the newest snapshot and the clock at each scrape.
    pub fn register(&self, registry: &mut Registry, publisher: Arc<Publisher>, clock: Arc<Clock>) {
        registry.register("commands", "Commands carried out", self.commands.clone());
        registry.register("commands_rejected", "Commands refused by the rules", self.rejections.clone());
        registry.register("commits", "Commits to the store", self.commits.clone());
        registry.register("commits_failed", "Commits that failed or are in doubt", self.commits_failed.clone());
        registry.register("commit_commands", "Commands per commit", self.batch_commands.clone());
        registry.register("commit_seconds", "Duration of a commit", self.commit_seconds.clone());
        registry.register("mailbox_full", "Commands refused because the mailbox was full", self.mailbox_full.clone());
        registry.register_collector(Box::new(SnapshotCollector(publisher)));
        registry.register_collector(Box::new(ClockCollector(clock)));
    }
}

struct ClockCollector(Arc<Clock>);

impl fmt::Debug for ClockCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClockCollector")
    }
}

impl Collector for ClockCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let metric = ConstGauge::<f64>::new(self.0.ahead_ms() as f64 / 1000.0);
        let help = "Server's time minus the system's wall clock; negative if the server is behind";
        metric.encode(encoder.encode_descriptor("clock_ahead_seconds", help, None, metric.metric_type())?)
    }
}

struct SnapshotCollector(Arc<Publisher>);

impl fmt::Debug for SnapshotCollector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SnapshotCollector")
    }
}

impl Collector for SnapshotCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let snapshot = self.0.newest();
        let region = &snapshot.region;
        let (mut scheduled, mut started) = (0, 0);
        for event in region.events() {
            match event.status {
                Status::Scheduled => scheduled += 1,
                Status::Started { .. } => started += 1,
                Status::Ended { .. } => {}
            }
        }
        let mut events = encoder.encode_descriptor("events", "Unfinished events, by state", None, MetricType::Gauge)?;
        for (state, count) in [("scheduled", scheduled), ("started", started)] {
            ConstGauge::<i64>::new(count).encode(events.encode_family(&[("state", state)])?)?;
        }
        encode_gauge(&mut encoder, "machines", "Machines in the region", region.machines().len() as i64)?;
        encode_gauge(&mut encoder, "revision", "Revision of the newest snapshot", snapshot.revision as i64)
    }
}

fn encode_gauge(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    let metric = ConstGauge::<i64>::new(value);
    let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    metric.encode(encoder)
}
