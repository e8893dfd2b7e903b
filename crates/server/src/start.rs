//! Starts a server from a configuration, and stops it.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::bail;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
use forewarn_access::{Access, HostAccess, Tls, random_guid};
use forewarn_api::webhooks::Webhooks;
use forewarn_api::{self as api, ApiMetrics, FaultKeeper, HealthProblems};
use forewarn_arm as arm;
use forewarn_core::Settings;
use forewarn_drivers::{CommandDriver, CommandRunner, CommandSignal, Simulated};
use forewarn_engine::{self as engine, ClockKind, EffectSink, Engine, EngineOptions, HostClocks};
use forewarn_metadata::{
    self as metadata, BoundAddress, BoundListener, DefaultMachine, EndpointState, LISTENERS_MAX, Limits, listen_error,
};
use forewarn_portal::{self as portal, Portal};
use forewarn_store::{MemoryStore, Replicated, SqliteStore, Store};
use forewarn_wire::document::Names;
use prometheus_client::registry::Registry;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapters::{DriverSink, EngineOrders, EngineSource};
use crate::cluster::{self, Cluster, Preparation};
use crate::config::{Config, DriverChoice, ManagementTls, StoreChoice};
use crate::first_machine::register_first;
use crate::hosts::{self, Beats, HostListener, LinkOptions, Links};
use crate::libvirt;
use crate::libvirt_metrics::LibvirtMetrics;

/// A running server.
pub struct Running {
    /// The metadata listeners, in the order of the configuration.
    pub metadata: Vec<BoundAddress>,
    pub management: SocketAddr,
    /// The https listener.
    pub management_tls: Option<SocketAddr>,
    /// The listener for host agents.
    pub hosts: Option<SocketAddr>,
    pub engine: Engine,
    pub endpoint: Arc<EndpointState>,
    pub faults: FaultKeeper,
    pub metrics: Arc<ApiMetrics>,
    registry: Arc<Registry>,
    stop: CancellationToken,
    tasks: TaskTracker,
    writer: JoinHandle<()>,
    access: Arc<Access>,
}

/// The longest first-call delay seen on Azure.
const FIRST_CALL_DELAY_MAX: Duration = Duration::from_secs(120);

/// How long connections can take to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// How long the last commit can take.
const STOP_COMMIT: Duration = Duration::from_millis(1500);

/// Starts a server on the current runtime. All listeners are bound and the store is loaded and writable before the first
/// request is accepted.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let mut store: Box<dyn Replicated> = match &config.store {
        StoreChoice::Memory => Box::new(MemoryStore::new()),
        StoreChoice::Directory(directory) => Box::new(SqliteStore::open(directory)?),
    };
    if config.cluster.is_some() {
        return start_on(config, OpenStore::Copy(store)).await;
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

enum OpenStore {
    Single(Box<dyn Store>),
    /// One server's copy of a region that several servers share.
    Copy(Box<dyn Replicated>),
}

async fn start_on(config: Config, store: OpenStore) -> anyhow::Result<Running> {
    check(&config)?;
    share_secrets(&config).await?;
    let access = Arc::new(open_access(&config)?);
    let descriptors = raise_file_limit();
    let listeners = bind_metadata(&config)?;
    let management = bind_management(&config).await?;
    let secure = open_tls(&config).await?;
    let hosts = open_hosts(&config).await?;
    let (engine, writer, runner, cluster) = open_engine(&config, store, &access).await?;
    if cluster.is_none() && !matches!(config.driver, DriverChoice::Libvirt(_)) {
        register_first(&engine, config.first_machine.clone()).await?;
    }
    load_certificates(&engine, hosts.as_ref()).await?;
    let endpoint = Arc::new(EndpointState::new(config.rate_limit));
    let metrics = Arc::new(ApiMetrics::default());
    let webhooks = Arc::new(Webhooks::open(engine.clone(), config.webhook_timeout, metrics.clone()).await?);
    let handlers = Arc::new(api::Handlers::open(engine.clone(), endpoint.clone()).await?);
    let faults = FaultKeeper::new(engine.clone(), endpoint.clone());
    let libvirt_metrics = LibvirtMetrics::default();
    let registry = Arc::new(registry(&engine, &endpoint, &metrics, &libvirt_metrics));

    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let running = Running {
        metadata: listeners.iter().map(BoundListener::address).collect::<Result<_, _>>()?,
        management: management.local_addr()?,
        management_tls: secure.as_ref().map(|secure| secure.listener.local_addr()).transpose()?,
        hosts: hosts.as_ref().map(|(_, bound)| bound.listener.local_addr()).transpose()?,
        engine: engine.clone(),
        endpoint: endpoint.clone(),
        faults: faults.clone(),
        metrics: metrics.clone(),
        registry: registry.clone(),
        stop: stop.clone(),
        tasks: tasks.clone(),
        writer,
        access: access.clone(),
    };
    let metadata_listeners = listeners.iter().map(BoundListener::describe).collect::<Result<_, _>>()?;
    let addresses = Arc::new(api::ManagementAddresses {
        http: running.management,
        https: running.management_tls.zip(secure.as_ref().map(|secure| secure.tls.clone())),
    });
    let names = if config.plain_names { Names::Plain } else { Names::Original };
    let options = metadata::Options {
        names,
        first_call_delay: config.first_call_delay,
        seed: random_guid(),
        issuer: api::token_issuer(&access, &addresses),
        limits: Limits::new(config.connections_per_source, config.held_per_source, descriptors),
    };
    let source = Arc::new(EngineSource { engine: engine.clone(), cluster: cluster.clone() });
    if let Some(cluster) = cluster.clone() {
        let _ = endpoint.staleness.set(Box::new(move || cluster.is_stale()));
    }
    metadata::serve(listeners, source, endpoint.clone(), options, stop.clone(), &tasks);
    tasks.spawn(faults.run(stop.clone()));
    match cluster.clone() {
        None => tasks.spawn(webhooks.clone().run(stop.clone())),
        Some(cluster) => {
            tasks.spawn(cluster::supervise(cluster, webhooks.clone(), config.first_machine.clone(), stop.clone()))
        }
    };
    let beats = Arc::new(Beats::new(engine.clone(), config.host_silence_max));
    let monitor = beats.clone();
    let monitor_stop = stop.clone();
    tasks.spawn(async move { monitor.run(monitor_stop).await });
    let enrollment = hosts
        .as_ref()
        .zip(running.hosts)
        .map(|((access, _), bound)| api::HostEnrollment { access: access.clone(), port: bound.port() });
    if let Some((access, bound)) = hosts {
        let gives_orders = matches!(config.driver, DriverChoice::Agents);
        let options = LinkOptions { plain_names: config.plain_names, gives_orders };
        let links = Arc::new(Links::new(engine.clone(), access, beats, options));
        tasks.spawn(hosts::serve(bound, links, stop.clone()));
    }
    tasks.spawn(handlers.clone().run(stop.clone()));
    let counters = metrics.limits.clone();
    let problems = HealthProblems::default();
    check_store(&config, problems.clone());
    if let (DriverChoice::Libvirt(choice), Some(data)) = (&config.driver, directory(&config)) {
        libvirt::start(choice, data, &engine, &problems, &libvirt_metrics, &stop, &tasks).await?;
    }
    if let Some(warning) = plain_http_warning(running.management) {
        tracing::warn!("{warning}");
    }
    let service = api::Service::new(api::ServiceParts {
        engine,
        access,
        addresses,
        metadata_listeners,
        endpoint,
        webhooks,
        handlers,
        metrics,
        problems,
        enrollment,
        registry,
        names,
        stop: stop.clone(),
    });
    let router = router(service, cluster.as_ref());
    tasks.spawn(api::serve(management, api::Transport::Plain, router.clone(), counters.clone(), stop.clone()));
    if let Some(Secure { listener, tls }) = secure {
        let transport = api::Transport::Tls(tls.acceptor());
        tasks.spawn(api::serve(listener, transport, router, counters, stop.clone()));
        tasks.spawn(tls.renew_until(stop.clone()));
    }
    if let Some(runner) = runner {
        tasks.spawn(runner.run(stop));
    }
    Ok(running)
}

/// Looks for damaged pages of the database in the background. The server goes on with what it could read.
fn check_store(config: &Config, problems: HealthProblems) {
    let Some(directory) = directory(config).map(Path::to_owned) else { return };
    tokio::task::spawn_blocking(move || {
        let found = match SqliteStore::quick_check(&directory) {
            Ok(found) if found.is_empty() => return,
            Ok(found) => found.join("; "),
            Err(error) => error.to_string(),
        };
        let path = directory.join("forewarn.db");
        let problem = format!(
            "{} is damaged: {found}. Stop the server, save what can be read with `forewarn export FILE`, and restore the \
             file from a backup.",
            path.display()
        );
        tracing::error!("{problem}");
        problems.report(problem);
    });
}

/// The warning about a management listener that other hosts can reach without TLS.
pub fn plain_http_warning(management: SocketAddr) -> Option<String> {
    let is_exposed = !management.ip().is_loopback();
    is_exposed.then(|| {
        format!(
            "PLAIN HTTP at {management}: anyone on the network between a client and this server can read and use its token. \
             Keep --management on 127.0.0.1 and serve other hosts with --management-tls ADDR"
        )
    })
}

/// Everything on the management listener: the native API and ARM behind the guard, and the portal beside them.
fn router(service: api::Service, cluster: Option<&Arc<Cluster>>) -> Router {
    let portal = Portal::new(service.clone());
    let mut routes = arm::mount(api::routes());
    if let Some(cluster) = cluster {
        let forward = middleware::from_fn_with_state(cluster.clone(), cluster::forward);
        routes = routes.merge(cluster::routes(cluster)).layer(forward);
    }
    api::guarded(routes, &service)
        .layer(middleware::from_fn_with_state(portal.clone(), portal::or_page))
        .merge(portal::routes(&portal))
        .layer(middleware::map_response(portal::with_policy))
        .layer(DefaultBodyLimit::max(api::BODY_BYTES_MAX))
        .with_state(service)
}

fn registry(engine: &Engine, endpoint: &EndpointState, metrics: &ApiMetrics, libvirt: &LibvirtMetrics) -> Registry {
    let mut registry = Registry::with_prefix("forewarn");
    endpoint.metrics.register(&mut registry);
    engine.register_metrics(&mut registry);
    metrics.register(&mut registry);
    libvirt.register(&mut registry);
    registry
}

impl Running {
    /// Everything that is counted, as OpenMetrics text.
    pub fn render_metrics(&self) -> String {
        api::render_metrics(&self.registry)
    }

    /// A single-use link that signs a browser in to the portal as the owner. It is a secret: show it only on a terminal.
    pub fn portal_link(&self) -> String {
        format!("{}{}", self.portal_address(), self.access.portal_link(&self.access.owner()))
    }

    /// The address of the portal for a browser on this host.
    pub fn portal_address(&self) -> String {
        let address = match self.management {
            address if address.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
            address => address,
        };
        format!("http://{address}")
    }

    /// Stops within five seconds: held requests are answered, connections closed, the time stored. Drivers resume their work
    /// at the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and were closed");
        }
        self.engine.begin_stop();
        let writer = tokio::task::spawn_blocking(move || self.writer.join());
        if timeout(STOP_COMMIT, writer).await.is_err() {
            tracing::warn!("the last commit did not finish in time");
        }
    }

    /// Returns when the writer has ended unexpectedly: no further change is possible.
    pub async fn failed(&self) {
        let mut revisions = self.engine.subscribe();
        while !self.writer.is_finished() {
            let _ = timeout(Duration::from_secs(1), revisions.changed()).await;
        }
    }
}

fn check(config: &Config) -> anyhow::Result<()> {
    if config.first_call_delay > FIRST_CALL_DELAY_MAX {
        bail!("first_call_delay can be at most {} seconds", FIRST_CALL_DELAY_MAX.as_secs());
    }
    if config.metadata.len() > LISTENERS_MAX {
        bail!("there can be at most {LISTENERS_MAX} metadata listeners");
    }
    match (&config.cluster, &config.driver) {
        (Some(_), DriverChoice::Command(_)) => {
            bail!(
                "a server in a cluster cannot run a driver command, because another server may take over while it runs"
            );
        }
        (Some(_), DriverChoice::Libvirt(_)) => {
            bail!(
                "a server in a cluster cannot drive libvirt itself, because another server may lead: remove --driver libvirt or --cluster"
            );
        }
        (None, _) | (Some(_), DriverChoice::Simulated(_) | DriverChoice::Agents) => {}
    }
    if matches!(config.driver, DriverChoice::Agents) && config.hosts.is_none() {
        bail!("the driver 'agents' needs a listener for host agents: add --hosts ADDR, such as --hosts 0.0.0.0:8172");
    }
    if config.rules.notice_scale == 0 {
        bail!("the notice scale must be a whole number of at least 1");
    }
    libvirt::check(config)
}

/// Raises the limit on open files as far as allowed, and returns it. Most systems start programs with 1,024.
fn raise_file_limit() -> Option<u64> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "cannot raise the limit on open files");
            return limit.current;
        }
    }
    limit.maximum
}

fn bind_metadata(config: &Config) -> anyhow::Result<Vec<BoundListener>> {
    let default = match &config.default_machine {
        Some(name) => DefaultMachine::Named(name.clone()),
        None => DefaultMachine::First,
    };
    config.metadata.iter().map(|listener| BoundListener::new(listener, &default)).collect()
}

async fn bind_management(config: &Config) -> anyhow::Result<TcpListener> {
    let address = config.management;
    let opened = TcpListener::bind(address).await;
    opened.map_err(|error| listen_error("management", "--management", address, &error))
}

fn directory(config: &Config) -> Option<&Path> {
    match &config.store {
        StoreChoice::Directory(dir) => Some(dir),
        StoreChoice::Memory => None,
    }
}

/// Fetches the secrets that the servers of a cluster share.
async fn share_secrets(config: &Config) -> anyhow::Result<()> {
    let (Some(place), Some(directory)) = (config.cluster.clone(), directory(config).map(Path::to_owned)) else {
        return Ok(());
    };
    tokio::task::spawn_blocking(move || cluster::share_secrets(&place, &directory)).await?
}

fn open_access(config: &Config) -> anyhow::Result<Access> {
    let listened: Vec<_> = [Some(config.management), config.management_tls.address()].into_iter().flatten().collect();
    let access = Access::open(config.auth, directory(config), &listened)?;
    let Some(oidc) = config.oidc.clone() else { return Ok(access) };
    oidc.check()?;
    Ok(access.with_oidc(oidc))
}

/// The https listener, bound and with its certificate.
struct Secure {
    listener: TcpListener,
    tls: Arc<Tls>,
}

/// Binds the https listener. None: the configuration has none, or only the default one and its port is taken.
async fn open_tls(config: &Config) -> anyhow::Result<Option<Secure>> {
    let (address, must) = match config.management_tls {
        ManagementTls::Off => return Ok(None),
        ManagementTls::IfFree(address) => (address, false),
        ManagementTls::At(address) => (address, true),
    };
    let listener = match TcpListener::bind(address).await {
        Ok(listener) => listener,
        Err(error) if must => {
            return Err(listen_error("management https", "--management-tls", address, &error));
        }
        Err(error) => {
            tracing::warn!(%address, %error, "https is off because its address is not available; choose another with --management-tls ADDR, or use --management-tls off");
            return Ok(None);
        }
    };
    let tls = Tls::new(&config.certificate, directory(config), listener.local_addr()?.ip())?;
    Ok(Some(Secure { listener, tls: Arc::new(tls) }))
}

/// Binds the listener for host agents.
async fn open_hosts(config: &Config) -> anyhow::Result<Option<(Arc<HostAccess>, HostListener)>> {
    let Some(address) = config.hosts else { return Ok(None) };
    let access = Arc::new(HostAccess::open(directory(config))?);
    let listener = HostListener::bind(address, &access).await?;
    Ok(Some((access, listener)))
}

/// Reads the certificates of the hosts before the first of them connects.
async fn load_certificates(engine: &Engine, hosts: Option<&(Arc<HostAccess>, HostListener)>) -> anyhow::Result<()> {
    let Some((access, _)) = hosts else { return Ok(()) };
    let access = access.clone();
    Ok(engine.read(move |reader| access.load(reader)).await?)
}

/// Loads the store, starts the writer and prepares the driver.
async fn open_engine(
    config: &Config,
    store: OpenStore,
    access: &Arc<Access>,
) -> anyhow::Result<(Engine, JoinHandle<()>, Option<CommandRunner>, Option<Arc<Cluster>>)> {
    let options = EngineOptions {
        clock: config.clock,
        system_clocks: Arc::new(HostClocks::new()),
        rules: Settings {
            machine_orders: config.rules.machine_orders
                || matches!(config.driver, DriverChoice::Libvirt(_) | DriverChoice::Agents),
            ..config.rules.clone()
        },
        history_kept: Duration::from_secs(u64::from(config.history_days) * 86_400),
    };
    let mut runner = None;
    let driver = |engine: &Engine| driver(config, engine, &mut runner);
    match (store, &config.cluster) {
        (OpenStore::Copy(store), Some(place)) => {
            let prepared = Preparation::new(place, &*store, access, scratch(config))?;
            let (engine, writer) = engine::open_in_cluster(options, store, prepared.engine_options()?, driver).await?;
            let cluster = prepared.finish(&engine)?;
            Ok((engine, writer, None, Some(cluster)))
        }
        (OpenStore::Copy(store), None) => {
            let (engine, writer) = engine::open(options, store, driver).await?;
            Ok((engine, writer, runner, None))
        }
        (OpenStore::Single(store), _) => {
            let (engine, writer) = engine::open(options, store, driver).await?;
            Ok((engine, writer, runner, None))
        }
    }
}

/// Where copies of the region are kept while they are sent or received.
fn scratch(config: &Config) -> PathBuf {
    directory(config).map_or_else(std::env::temp_dir, Path::to_owned)
}

/// The writer's end of the driver; `runner` becomes the other end, for drivers that have one.
fn driver(config: &Config, engine: &Engine, runner: &mut Option<CommandRunner>) -> Box<dyn EffectSink> {
    Box::new(DriverSink(match (&config.driver, config.clock) {
        (DriverChoice::Simulated(impacts), ClockKind::Real) => Box::new(Simulated::real_time(impacts.clone())),
        (DriverChoice::Simulated(impacts), ClockKind::Manual { .. }) => {
            Box::new(Simulated::manual_time(impacts.clone()))
        }
        (DriverChoice::Command(command), _) => {
            let signal = Arc::new(Notify::new());
            *runner = Some(command_runner(engine, command, signal.clone()));
            Box::new(CommandSignal(signal))
        }
        // The runners of the hosts follow the revisions instead.
        (DriverChoice::Libvirt(_) | DriverChoice::Agents, _) => Box::new(CommandSignal(Arc::new(Notify::new()))),
    }))
}

fn command_runner(engine: &Engine, command: &CommandDriver, signal: Arc<Notify>) -> CommandRunner {
    let reruns: HashSet<_> = engine.snapshot().region.wanted_effects().map(|event| event.id).collect();
    CommandRunner { orders: Arc::new(EngineOrders(engine.clone())), config: Arc::new(command.clone()), signal, reruns }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_work_by_themselves_are_refused_in_a_cluster() {
        let place = crate::config::ClusterConfig {
            address: "etcd://127.0.0.1:2379/north".into(),
            node: "a".into(),
            advertise: "http://127.0.0.1:8170".into(),
            etcd: crate::config::EtcdAccess::default(),
            key: None,
        };
        let driver = DriverChoice::Libvirt(crate::config::LibvirtChoice::default());
        let config = Config { cluster: Some(place), driver, ..Config::default() };
        let error = check(&config).unwrap_err().to_string();
        assert!(error.contains("--driver libvirt"), "{error}");
        check(&Config { driver: Config::default().driver, ..config }).unwrap();
    }

    #[test]
    fn plain_http_beyond_loopback_causes_a_warning() {
        let warning = |address: &str| plain_http_warning(address.parse().unwrap());
        assert_eq!(warning("127.0.0.1:8170"), None);
        assert_eq!(warning("[::1]:8170"), None);
        for exposed in ["0.0.0.0:8170", "10.0.0.1:8170", "[::]:8170"] {
            let text = warning(exposed).unwrap();
            assert!(text.contains(exposed) && text.contains("--management-tls ADDR"), "{text}");
        }
    }
}
