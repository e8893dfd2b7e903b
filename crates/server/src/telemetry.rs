//! What the program counts. Counters are made once; counting is an atomic addition.

use std::fmt;
use std::sync::{Arc, OnceLock};

use forewarn_core::Status;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::publish::Board;

pub struct Telemetry {
    registry: Registry,
    requests: [Counter; 5],
    pub approvals: Counter,
    pub commands: Counter,
    pub rejections: Counter,
    pub commits: Counter,
    pub commits_failed: Counter,
    pub batch_commands: Histogram,
    pub commit_seconds: Histogram,
    pub held: Gauge,
    pub waiting: Gauge,
    pub connections: Gauge,
    pub mailbox_full: Counter,
    pub webhook_deliveries: Counter,
    pub webhook_failures: Counter,
    pub webhook_given_up: Counter,
    board: Arc<OnceLock<Arc<Board>>>,
}

type Label = [(&'static str, &'static str); 1];

impl Telemetry {
    pub(crate) fn new() -> Telemetry {
        let mut registry = Registry::with_prefix("forewarn");
        let requests = Family::<Label, Counter>::default();
        registry.register("metadata_requests", "Requests at the metadata endpoint, by status", requests.clone());
        let board = Arc::new(OnceLock::new());
        registry.register_collector(Box::new(Fleet(board.clone())));
        Telemetry {
            requests: ["1xx", "2xx", "3xx", "4xx", "5xx"]
                .map(|class| requests.get_or_create(&[("status", class)]).clone()),
            approvals: counter(&mut registry, "metadata_approvals", "Approvals by machines that were taken"),
            commands: counter(&mut registry, "commands", "Commands that were carried out"),
            rejections: counter(&mut registry, "commands_rejected", "Commands that the rules refused"),
            commits: counter(&mut registry, "commits", "Commits to the store"),
            commits_failed: counter(&mut registry, "commits_failed", "Commits that failed or were left in doubt"),
            batch_commands: histogram(&mut registry, "commit_commands", "Commands in one commit", 1.0, 12),
            commit_seconds: histogram(&mut registry, "commit_seconds", "How long a commit took", 0.000_05, 18),
            held: gauge(&mut registry, "metadata_held", "GETs that are held for a change"),
            waiting: gauge(&mut registry, "api_waiting", "Requests to the management API that wait for an event"),
            connections: gauge(&mut registry, "metadata_connections", "Open connections at the metadata listeners"),
            mailbox_full: counter(&mut registry, "mailbox_full", "Commands that found the mailbox full"),
            webhook_deliveries: counter(&mut registry, "webhook_deliveries", "Deliveries that receivers took"),
            webhook_failures: counter(&mut registry, "webhook_failures", "Attempts at deliveries that failed"),
            webhook_given_up: counter(&mut registry, "webhook_given_up", "Deliveries that were given up"),
            board,
            registry,
        }
    }

    /// A request at the metadata endpoint was answered with this status.
    pub fn answered(&self, status: u16) {
        if let Some(counter) = self.requests.get(usize::from(status / 100).wrapping_sub(1)) {
            counter.inc();
        }
    }

    /// Everything, as OpenMetrics text.
    pub fn render(&self) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("a string takes all that is written");
        text
    }

    pub(crate) fn look_at(&self, board: Arc<Board>) {
        let _ = self.board.set(board);
    }
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Telemetry")
    }
}

/// One more of something, for as long as this lives.
pub(crate) struct OneMore<'a>(&'a Gauge);

impl<'a> OneMore<'a> {
    pub fn of(gauge: &'a Gauge) -> OneMore<'a> {
        gauge.inc();
        OneMore(gauge)
    }
}

impl Drop for OneMore<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Figures that are read from the newest snapshot when somebody asks.
struct Fleet(Arc<OnceLock<Arc<Board>>>);

impl fmt::Debug for Fleet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fleet")
    }
}

impl Collector for Fleet {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let Some(board) = self.0.get() else { return Ok(()) };
        let snapshot = board.newest();
        let region = &snapshot.region;
        let (mut scheduled, mut started) = (0, 0);
        for event in region.events() {
            match event.status {
                Status::Scheduled => scheduled += 1,
                Status::Started { .. } => started += 1,
                Status::Ended { .. } => {}
            }
        }
        let mut events = encoder.encode_descriptor(
            "events",
            "Events that are not over, by state",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for (state, count) in [("scheduled", scheduled), ("started", started)] {
            ConstGauge::<i64>::new(count).encode(events.encode_family(&[("state", state)])?)?;
        }
        gauge_now(&mut encoder, "machines", "Machines in the region", region.machines().len() as i64)?;
        gauge_now(&mut encoder, "revision", "The number of the newest snapshot", snapshot.revision as i64)
    }
}

fn gauge_now(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, value: i64) -> fmt::Result {
    let metric = ConstGauge::<i64>::new(value);
    let encoder = encoder.encode_descriptor(name, help, None, metric.metric_type())?;
    metric.encode(encoder)
}

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, counter.clone());
    counter
}

fn gauge(registry: &mut Registry, name: &str, help: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, help, gauge.clone());
    gauge
}

fn histogram(registry: &mut Registry, name: &str, help: &str, first: f64, count: u16) -> Histogram {
    let histogram = Histogram::new(exponential_buckets(first, 2.0, count));
    registry.register(name, help, histogram.clone());
    histogram
}
