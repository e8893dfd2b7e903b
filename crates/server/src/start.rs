//! Starts a server from a configuration: everything is opened before anything is served.

use std::sync::Arc;

use anyhow::bail;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use forewarn_access::{Tls, TokenIssuer, random_guid};
use forewarn_api::{self as api, AgentContacts, ApiMetrics, ClusterReporter, HealthProblems, RecordedFaults};
use forewarn_arm as arm;
use forewarn_drivers::CommandRunner;
use forewarn_engine::Engine;
use forewarn_metadata::{self as metadata, BoundListener, EndpointState, Limits, ListenerInfo};
use forewarn_portal::{self as portal, Portal};
use forewarn_store::{BufferedStore, MemoryStore, Replicated, SqliteStore, Store};
use forewarn_webhooks::Webhooks;
use forewarn_wire::document::NameStyle;
use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapters::EngineSource;
use crate::cluster::{self, Cluster};
use crate::config::{Config, DriverChoice, StoreChoice};
use crate::first_machine::register_first;
use crate::hosts::{self, AgentMonitor, GuestServices, LinkTable, Links, ServerList};
use crate::machines::{self, DriverContext};
use crate::open::{self, BoundListeners, Hosts, HttpsListener, OpenEngine, OpenStore};
use crate::order_metrics::OrderMetrics;
use crate::preflight::{self, plain_http_warning};
use crate::running::Running;

/// Starts a server on the current runtime. All listeners are bound and the store is loaded and writable before the first
/// request is accepted.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let mut store: Box<dyn Replicated> = match &config.store {
        StoreChoice::Memory => Box::new(MemoryStore::new()),
        StoreChoice::Directory(directory) => Box::new(SqliteStore::open(directory)?),
    };
    if config.cluster.is_some() {
        return start_on(config, OpenStore::Copy(Box::new(BufferedStore::new(store)?))).await;
    }
    if store.position()?.is_some() {
        bail!(
            "this data directory is a copy of a cluster's region. Start with --cluster, or export it with `forewarn export` \
             and import it into another directory"
        );
    }
    start_with(config, store).await
}

/// Starts a single server on an open store.
pub async fn start_with(config: Config, store: Box<dyn Store>) -> anyhow::Result<Running> {
    start_on(config, OpenStore::Single(store)).await
}

async fn start_on(config: Config, store: OpenStore) -> anyhow::Result<Running> {
    preflight::check(&config)?;
    open::share_secrets(&config).await?;
    let access = Arc::new(open::open_access(&config)?);
    let bound = BoundListeners::open(&config).await?;
    let OpenEngine { engine, writer, runner, cluster } = open::open_engine(&config, store, &access).await?;
    if cluster.is_none() && !matches!(config.driver, DriverChoice::Libvirt(_) | DriverChoice::Qemu(_)) {
        register_first(&engine, config.first_machine.clone()).await?;
    }
    open::load_certificates(&engine, bound.hosts.as_ref()).await?;
    let endpoint = Arc::new(EndpointState::new(config.rate_limit).with_preview(config.preview_version));
    let metrics = Arc::new(ApiMetrics::default());
    let order_metrics = OrderMetrics::default();
    let running = Running {
        metadata: bound.metadata.iter().map(BoundListener::address).collect::<Result<_, _>>()?,
        management: bound.management.local_addr()?,
        management_tls: bound.secure.as_ref().map(|secure| secure.listener.local_addr()).transpose()?,
        hosts: bound.hosts.as_ref().map(|hosts| hosts.listener.listener.local_addr()).transpose()?,
        faults: RecordedFaults::new(engine.clone(), endpoint.clone()),
        registry: Arc::new(registry(&engine, &endpoint, &metrics, &order_metrics)),
        engine,
        endpoint,
        metrics,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
        writer,
        access,
    };
    let startup = Startup::new(&config, &running, cluster, bound.secure.as_ref());
    startup.serve(bound).await?;
    startup.start_drivers(runner, &order_metrics).await?;
    Ok(running)
}

/// State that the parts of a server share while they are started.
struct Startup<'s> {
    config: &'s Config,
    running: &'s Running,
    cluster: Option<Arc<Cluster>>,
    addresses: Arc<api::ManagementAddresses>,
    names: NameStyle,
    issuer: TokenIssuer,
    /// Domains that host agents have reported.
    domains: Arc<api::HostDomains>,
    agents: AgentContacts,
    problems: HealthProblems,
}

/// The side of host agents, for the management API.
struct AgentSide {
    enrollment: Option<api::HostEnrollment>,
    links: Option<Arc<Links>>,
}

impl<'s> Startup<'s> {
    fn new(
        config: &'s Config,
        running: &'s Running,
        cluster: Option<Arc<Cluster>>,
        secure: Option<&HttpsListener>,
    ) -> Startup<'s> {
        let addresses = Arc::new(api::ManagementAddresses {
            http: running.management,
            https: running.management_tls.zip(secure.map(|secure| secure.tls.clone())),
        });
        Startup {
            config,
            running,
            cluster,
            names: if config.plain_names { NameStyle::Plain } else { NameStyle::Underscored },
            issuer: api::token_issuer(&running.access, &addresses),
            addresses,
            domains: Arc::default(),
            agents: AgentContacts::default(),
            problems: HealthProblems::default(),
        }
    }

    /// Serves guests, host agents and the management side.
    async fn serve(&self, bound: BoundListeners) -> anyhow::Result<()> {
        let BoundListeners { metadata, management, secure, hosts, descriptors } = bound;
        let listeners = metadata.iter().map(BoundListener::describe).collect::<Result<_, _>>()?;
        let tls = secure.as_ref().map(|secure| secure.tls.clone());
        self.serve_metadata(metadata, tls, descriptors).await?;
        let agents = self.serve_agents(hosts)?;
        self.serve_management(management, secure, listeners, agents).await
    }

    /// Starts the drivers of machines.
    async fn start_drivers(&self, runner: Option<CommandRunner>, metrics: &OrderMetrics) -> anyhow::Result<()> {
        let Running { engine, stop, tasks, .. } = self.running;
        if let Some(runner) = runner {
            tasks.spawn(runner.run(stop.clone()));
        }
        let Some(data) = open::directory(self.config) else { return Ok(()) };
        let surroundings = DriverContext { engine, problems: &self.problems, metrics, stop, tasks };
        machines::start(&self.config.driver, data, &surroundings).await
    }

    async fn serve_metadata(
        &self,
        listeners: Vec<BoundListener>,
        tls: Option<Arc<Tls>>,
        descriptors: Option<u64>,
    ) -> anyhow::Result<()> {
        let Running { engine, endpoint, stop, tasks, .. } = self.running;
        let config = self.config;
        let options = metadata::Options {
            names: self.names,
            first_call_delay: config.first_call_delay,
            seed: random_guid(),
            issuer: self.issuer.clone(),
            tls,
            limits: Limits::new(config.connections_per_source, config.held_per_source, descriptors),
        };
        let source = Arc::new(EngineSource { engine: engine.clone(), cluster: self.cluster.clone() });
        if let Some(cluster) = self.cluster.clone() {
            let _ = endpoint.staleness.set(Box::new(move || cluster.is_stale()));
        }
        let listeners = open::identify_by_port(config, listeners, stop, tasks).await?;
        metadata::serve(listeners, source, endpoint.clone(), options, stop.clone(), tasks);
        tasks.spawn(self.running.faults.clone().run(stop.clone()));
        Ok(())
    }

    /// Serves host agents, and gives up those that are silent.
    fn serve_agents(&self, hosts: Option<Hosts>) -> anyhow::Result<AgentSide> {
        let Running { engine, stop, tasks, .. } = self.running;
        let agents = Arc::new(AgentMonitor::new(engine.clone(), self.config.host_silence_max));
        let (monitor, monitor_stop) = (agents.clone(), stop.clone());
        tasks.spawn(async move { monitor.run(monitor_stop).await });
        let Some((Hosts { access, listener }, bound)) = hosts.zip(self.running.hosts) else {
            return Ok(AgentSide { enrollment: None, links: None });
        };
        let servers = Arc::new(ServerList::new(open::own_listener(self.config, Some(bound))?));
        let known = servers.clone();
        let enrollment = api::HostEnrollment {
            access: access.clone(),
            port: bound.port(),
            servers: Box::new(move || known.addresses()),
        };
        let links = Arc::new(Links {
            engine: engine.clone(),
            access,
            agents,
            contacts: self.agents.clone(),
            servers,
            cluster: self.cluster.clone(),
            plain_names: self.config.plain_names,
            gives_orders: matches!(self.config.driver, DriverChoice::Agents),
            guests: GuestServices::new(engine.clone(), self.issuer.clone(), self.domains.clone()),
            table: LinkTable::default(),
        });
        if self.cluster.is_some() {
            tasks.spawn(hosts::follow_region(links.clone(), stop.clone()));
        }
        tasks.spawn(hosts::serve(listener, links.clone(), stop.clone()));
        Ok(AgentSide { enrollment: Some(enrollment), links: Some(links) })
    }

    async fn serve_management(
        &self,
        management: TcpListener,
        secure: Option<HttpsListener>,
        metadata_listeners: Vec<ListenerInfo>,
        AgentSide { enrollment, links }: AgentSide,
    ) -> anyhow::Result<()> {
        let Running { engine, endpoint, metrics, stop, tasks, .. } = self.running;
        let (webhooks, handlers) = self.start_followers().await?;
        preflight::check_store(self.config, self.problems.clone());
        if let Some(warning) = plain_http_warning(self.running.management) {
            tracing::warn!("{warning}");
        }
        let service = api::Service::new(api::ServiceParts {
            engine: engine.clone(),
            access: self.running.access.clone(),
            addresses: self.addresses.clone(),
            metadata_listeners,
            endpoint: endpoint.clone(),
            webhooks,
            handlers,
            metrics: metrics.clone(),
            problems: self.problems.clone(),
            agents: self.agents.clone(),
            cluster: self.cluster.clone().map(|cluster| cluster as Arc<dyn ClusterReporter>),
            enrollment,
            region_sessions: self.cluster.clone().map(|cluster| cluster as Arc<dyn api::RegionSessions>),
            domains: self.domains.clone(),
            registry: self.running.registry.clone(),
            names: self.names,
            stop: stop.clone(),
        });
        let (router, counters) = (router(service, self.cluster.as_ref(), links), metrics.limits.clone());
        tasks.spawn(api::serve(management, api::Transport::Plain, router.clone(), counters.clone(), stop.clone()));
        if let Some(HttpsListener { listener, tls }) = secure {
            let transport = api::Transport::Tls(tls.acceptor());
            tasks.spawn(api::serve(listener, transport, router, counters, stop.clone()));
            tasks.spawn(tls.renew_until(stop.clone()));
        }
        Ok(())
    }

    /// Starts what follows the history: webhooks, which only a leader delivers, and the record of handlers.
    async fn start_followers(&self) -> anyhow::Result<(Arc<Webhooks>, Arc<api::Handlers>)> {
        let Running { engine, endpoint, metrics, stop, tasks, .. } = self.running;
        let timeout = self.config.webhook_timeout;
        let webhooks = Arc::new(Webhooks::open(engine.clone(), timeout, metrics.webhooks.clone()).await?);
        let handlers = Arc::new(api::Handlers::open(engine.clone(), endpoint.clone()).await?);
        match self.cluster.clone() {
            None => tasks.spawn(webhooks.clone().run(stop.clone())),
            Some(cluster) => {
                let first_machine = self.config.first_machine.clone();
                tasks.spawn(cluster::supervise(cluster, webhooks.clone(), first_machine, stop.clone()))
            }
        };
        tasks.spawn(handlers.clone().run(stop.clone()));
        Ok((webhooks, handlers))
    }
}

/// Everything on the management listener: the native API and ARM behind the guard, and the portal beside them.
fn router(service: api::Service, cluster: Option<&Arc<Cluster>>, links: Option<Arc<Links>>) -> Router {
    let portal = Portal::new(service.clone());
    let (mut routes, mut pages) = (arm::mount(api::routes()), portal::routes(&portal));
    if let Some(cluster) = cluster {
        let forward = middleware::from_fn_with_state(cluster.clone(), cluster::forward);
        let forward_form = middleware::from_fn_with_state((cluster.clone(), portal.clone()), cluster::forward_form);
        routes = routes.merge(cluster::routes(cluster));
        if let Some(links) = links {
            routes = routes.merge(hosts::peer_routes(links));
        }
        routes = routes.layer(forward);
        pages = pages.layer(forward_form);
    }
    api::add_guard(routes, &service)
        .layer(middleware::from_fn_with_state(portal.clone(), portal::or_page))
        .merge(pages)
        .layer(middleware::map_response(portal::with_policy))
        .layer(DefaultBodyLimit::max(api::BODY_BYTES_MAX))
        .with_state(service)
}

fn registry(engine: &Engine, endpoint: &EndpointState, metrics: &ApiMetrics, orders: &OrderMetrics) -> Registry {
    let mut registry = Registry::with_prefix("forewarn");
    endpoint.metrics.register(&mut registry);
    engine.register_metrics(&mut registry);
    metrics.register(&mut registry);
    orders.register(&mut registry);
    registry
}
