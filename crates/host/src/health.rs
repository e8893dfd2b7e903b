//! The listener for health checks and metrics: `/healthz` and `/metrics`, for programs on the host.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forewarn_api_types::AgentHealth;
use forewarn_metadata::{EndpointState, listen_error};
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::status::Status;

/// A monitoring system and an administrator.
const CONNECTIONS_MAX: usize = 16;

const HEADER_TIMEOUT: Duration = Duration::from_secs(5);

/// Without contact for this long, the host counts as unreachable at the server.
const SILENCE_SECS_MAX: u64 = 10;

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

pub struct Health {
    status: Arc<Status>,
    registry: Registry,
    gauges: Gauges,
}

#[derive(Default)]
struct Gauges {
    connected: Gauge,
    silence_seconds: Gauge,
    copy_revision: Gauge,
    machines: Gauge,
    hypervisor_connected: Gauge,
}

impl Health {
    pub fn new(status: Arc<Status>, endpoint: &EndpointState) -> Health {
        let mut registry = Registry::with_prefix("forewarn_host");
        endpoint.metrics.register(&mut registry);
        let gauges = Gauges::default();
        registry.register("connected", "Whether the agent is in contact with the server", gauges.connected.clone());
        registry.register("silence_seconds", "Seconds since the last contact", gauges.silence_seconds.clone());
        registry.register("copy_revision", "Revision of the copy", gauges.copy_revision.clone());
        registry.register("machines", "Machines of this host", gauges.machines.clone());
        let help = "Whether the hypervisor answers";
        registry.register("hypervisor_connected", help, gauges.hypervisor_connected.clone());
        registry.register("orders_ended", "Orders that have ended, by outcome", status.orders_ended.clone());
        Health { status, registry, gauges }
    }

    /// Metrics as OpenMetrics text.
    pub fn metrics(&self) -> String {
        let snapshot = self.status.peek();
        self.gauges.connected.set(self.status.is_connected().into());
        self.gauges.silence_seconds.set(i64::try_from(self.silence_secs()).unwrap_or(i64::MAX));
        self.gauges.copy_revision.set(i64::try_from(snapshot.revision).unwrap_or(i64::MAX));
        self.gauges.machines.set(i64::try_from(snapshot.region.machines().len()).unwrap_or(i64::MAX));
        self.gauges.hypervisor_connected.set((!self.status.lacks_hypervisor()).into());
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        text
    }

    /// Whether the host is in contact and can carry out orders, and why not.
    pub fn check(&self) -> (StatusCode, AgentHealth) {
        let is_in_contact = self.status.is_connected() || self.silence_secs() < SILENCE_SECS_MAX;
        let (status, word) = match (is_in_contact, self.status.lacks_hypervisor()) {
            (true, false) => (StatusCode::OK, "ok"),
            (true, true) => (StatusCode::OK, "degraded"),
            (false, _) => (StatusCode::SERVICE_UNAVAILABLE, "no contact"),
        };
        let no_contact = (!self.status.is_connected()).then(|| self.status.problem()).flatten();
        let waits = || "the hypervisor does not answer; orders wait".to_owned();
        let problem = no_contact.or_else(|| self.status.lacks_hypervisor().then(waits));
        let health = AgentHealth {
            status: word.into(),
            host: self.status.host.to_string(),
            silence_seconds: self.silence_secs(),
            clock_ahead_ms: self.status.clock_ahead_ms(),
            revision: self.status.peek().revision,
            problem,
        };
        (status, health)
    }

    fn silence_secs(&self) -> u64 {
        if self.status.is_connected() { 0 } else { self.status.silence_secs() }
    }

    fn respond(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        let (status, media, body) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, "/healthz") => {
                let (status, health) = self.check();
                (status, "application/json", serde_json::to_string(&health).unwrap_or_default())
            }
            (&Method::GET, "/metrics") => {
                (StatusCode::OK, "application/openmetrics-text; version=1.0.0; charset=utf-8", self.metrics())
            }
            _ => (StatusCode::NOT_FOUND, "text/plain", "Use /healthz or /metrics.\n".to_owned()),
        };
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static(media));
        response
    }
}

pub async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address).await.map_err(|error| listen_error("health", "--health", address, &error))
}

pub async fn serve(listener: TcpListener, health: Arc<Health>, stop: CancellationToken) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Some(accepted) = stop.run_until_cancelled(listener.accept()).await {
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(slot) = slots.clone().try_acquire_owned() else { continue };
        let (health, stop) = (health.clone(), stop.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| {
                let response = health.respond(&request);
                async move { Ok::<_, Infallible>(response) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            let _ = stop.run_until_cancelled(connection).await;
            drop(slot);
        });
    }
}

#[cfg(test)]
mod tests {
    use forewarn_core::{Name, Timestamp};

    use super::*;
    use crate::copy::Copy;

    #[test]
    fn orders_are_counted_and_the_clock_is_compared() {
        let host = Name::from("node1");
        let status = Arc::new(Status::new(host.clone(), Copy::empty(host), Duration::ZERO));
        let health = Health::new(status.clone(), &EndpointState::new(None));
        for outcome in ["done", "failed", "done"] {
            status.count_order(outcome);
        }
        let metrics = health.metrics();
        for line in ["orders_ended_total{outcome=\"done\"} 2", "orders_ended_total{outcome=\"failed\"} 1"] {
            assert!(metrics.contains(&format!("forewarn_host_{line}\n")), "{metrics}");
        }
        assert_eq!(health.check().1.clock_ahead_ms, None, "no contact yet");
        status.record_contact(Timestamp(0));
        assert!(health.check().1.clock_ahead_ms.unwrap() > 0);
    }
}
