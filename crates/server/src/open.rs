//! Opens what a server needs before it serves anyone: listeners, secrets, the store with its writer, and the driver.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::bail;
use forewarn_access::{Access, HostAccess, Tls};
use forewarn_core::Settings;
use forewarn_drivers::{CommandDriver, CommandRunner, CommandSignal, Simulated};
use forewarn_engine::{self as engine, ClockSetting, EffectSink, Engine, EngineOptions, HostClocks};
use forewarn_metadata::{BoundListener, DefaultMachine, listen_error};
use forewarn_store::{Replicated, Store};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::adapters::{DriverSink, EngineOrders};
use crate::cluster::{self, Cluster, Preparation};
use crate::config::{Config, DriverChoice, GuestsBy, ManagementTls, StoreChoice};
use crate::hosts::{HostListener, Listener};

pub enum OpenStore {
    Single(Box<dyn Store>),
    /// One server's copy of a region that several servers share.
    Copy(Box<dyn Replicated>),
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

pub fn directory(config: &Config) -> Option<&Path> {
    match &config.store {
        StoreChoice::Directory(dir) => Some(dir),
        StoreChoice::Memory => None,
    }
}

/// Fetches the secrets that the servers of a cluster share.
pub async fn share_secrets(config: &Config) -> anyhow::Result<()> {
    let (Some(place), Some(directory)) = (config.cluster.clone(), directory(config).map(Path::to_owned)) else {
        return Ok(());
    };
    tokio::task::spawn_blocking(move || cluster::share_secrets(&place, &directory)).await?
}

pub fn open_access(config: &Config) -> anyhow::Result<Access> {
    let listened: Vec<_> = [Some(config.management), config.management_tls.address()].into_iter().flatten().collect();
    let access = Access::open(config.auth, directory(config), &listened)?;
    let Some(oidc) = config.oidc.clone() else { return Ok(access) };
    oidc.check()?;
    Ok(access.with_oidc(oidc))
}

/// The https listener, bound and with its certificate.
pub struct HttpsListener {
    pub listener: TcpListener,
    pub tls: Arc<Tls>,
}

/// The listener for host agents, and which of them it admits.
pub struct Hosts {
    pub access: Arc<HostAccess>,
    pub listener: HostListener,
}

/// All listeners of a server, bound.
pub struct BoundListeners {
    pub metadata: Vec<BoundListener>,
    pub management: TcpListener,
    pub secure: Option<HttpsListener>,
    pub hosts: Option<Hosts>,
    /// The number of descriptors that the process can open.
    pub descriptors: Option<u64>,
}

impl BoundListeners {
    pub async fn open(config: &Config) -> anyhow::Result<BoundListeners> {
        Ok(BoundListeners {
            descriptors: raise_file_limit(),
            metadata: bind_metadata(config)?,
            management: bind_management(config).await?,
            secure: open_tls(config).await?,
            hosts: open_hosts(config).await?,
        })
    }
}

/// A store that is loaded, its writer, and the other end of the driver.
pub struct OpenEngine {
    pub engine: Engine,
    pub writer: JoinHandle<()>,
    pub runner: Option<CommandRunner>,
    pub cluster: Option<Arc<Cluster>>,
}

/// Binds the https listener. None: the configuration has none, or only the default one and its port is taken.
async fn open_tls(config: &Config) -> anyhow::Result<Option<HttpsListener>> {
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
    let has_nodes = config.cluster.as_ref().is_some_and(|cluster| cluster.key.is_some());
    let tls = if has_nodes { tls.accept_nodes()? } else { tls };
    Ok(Some(HttpsListener { listener, tls: Arc::new(tls) }))
}

/// Binds the listener for host agents.
async fn open_hosts(config: &Config) -> anyhow::Result<Option<Hosts>> {
    let Some(address) = config.hosts else { return Ok(None) };
    let access = Arc::new(HostAccess::open(directory(config))?);
    let listener = HostListener::bind(address, &access).await?;
    Ok(Some(Hosts { access, listener }))
}

/// Where agents reach this server of a cluster.
pub fn own_listener(config: &Config, hosts: Option<SocketAddr>) -> anyhow::Result<Option<Listener>> {
    let Some((place, bound)) = config.cluster.as_ref().zip(hosts) else { return Ok(None) };
    Listener::new(&place.node, &place.advertise, bound.port()).map(Some)
}

/// Reads the certificates of the hosts before the first of them connects.
pub async fn load_certificates(engine: &Engine, hosts: Option<&Hosts>) -> anyhow::Result<()> {
    let Some(hosts) = hosts else { return Ok(()) };
    let access = hosts.access.clone();
    Ok(engine.read(move |reader| access.load(reader)).await?)
}

/// Loads the store, starts the writer and prepares the driver.
pub async fn open_engine(config: &Config, store: OpenStore, access: &Arc<Access>) -> anyhow::Result<OpenEngine> {
    let options = EngineOptions {
        clock: config.clock,
        system_clocks: Arc::new(HostClocks::new()),
        rules: Settings {
            machine_orders: config.rules.machine_orders
                || matches!(config.driver, DriverChoice::Libvirt(_) | DriverChoice::Qemu(_) | DriverChoice::Agents),
            ..config.rules.clone()
        },
        history_kept: Duration::from_secs(u64::from(config.history_days) * 86_400),
    };
    let mut runner = None;
    let driver = |engine: &Engine| driver(config, engine, &mut runner);
    match (store, &config.cluster) {
        (OpenStore::Copy(store), Some(place)) => {
            directory(config).into_iter().for_each(cluster::remove_left_over);
            let prepared = Preparation::new(place, &*store, access, scratch_directory(config))?;
            let (engine, writer) = engine::open_in_cluster(options, store, prepared.engine_options()?, driver).await?;
            let cluster = prepared.finish(&engine)?;
            Ok(OpenEngine { engine, writer, runner: None, cluster: Some(cluster) })
        }
        (OpenStore::Copy(store), None) => {
            let (engine, writer) = engine::open(options, store, driver).await?;
            Ok(OpenEngine { engine, writer, runner, cluster: None })
        }
        (OpenStore::Single(store), _) => {
            let (engine, writer) = engine::open(options, store, driver).await?;
            Ok(OpenEngine { engine, writer, runner, cluster: None })
        }
    }
}

/// Where copies of the region are kept while they are sent or received.
fn scratch_directory(config: &Config) -> PathBuf {
    directory(config).map_or_else(std::env::temp_dir, Path::to_owned)
}

/// The writer's end of the driver; `runner` becomes the other end, for drivers that have one.
fn driver(config: &Config, engine: &Engine, runner: &mut Option<CommandRunner>) -> Box<dyn EffectSink> {
    Box::new(DriverSink(match (&config.driver, config.clock) {
        (DriverChoice::Simulated(impacts), ClockSetting::Real) => Box::new(Simulated::real_time(impacts.clone())),
        (DriverChoice::Simulated(impacts), ClockSetting::Manual { .. }) => {
            Box::new(Simulated::manual_time(impacts.clone()))
        }
        (DriverChoice::Command(command), _) => {
            let signal = Arc::new(Notify::new());
            *runner = Some(command_runner(engine, command, signal.clone()));
            Box::new(CommandSignal(signal))
        }
        // The runners of the hosts follow the revisions instead.
        (DriverChoice::Libvirt(_) | DriverChoice::Qemu(_) | DriverChoice::Agents, _) => {
            Box::new(CommandSignal(Arc::new(Notify::new())))
        }
    }))
}

fn command_runner(engine: &Engine, command: &CommandDriver, signal: Arc<Notify>) -> CommandRunner {
    let reruns: HashSet<_> = engine.snapshot().region.wanted_effects().map(|event| event.id).collect();
    CommandRunner { orders: Arc::new(EngineOrders(engine.clone())), config: Arc::new(command.clone()), signal, reruns }
}

/// Lets listeners identify guests by their bridge ports, if the configuration says so.
pub async fn identify_by_port(
    config: &Config,
    listeners: Vec<BoundListener>,
    stop: &CancellationToken,
    tasks: &TaskTracker,
) -> anyhow::Result<Vec<BoundListener>> {
    let libvirt_socket = match (config.guests_by, &config.driver) {
        (GuestsBy::Address, _) => return Ok(listeners),
        (GuestsBy::Mark, DriverChoice::Libvirt(choice)) => choice.socket.clone(),
        (
            GuestsBy::Mark,
            DriverChoice::Simulated(_) | DriverChoice::Command(_) | DriverChoice::Qemu(_) | DriverChoice::Agents,
        ) => {
            bail!("--guests-by mark needs --driver libvirt, which knows the network interfaces of machines")
        }
    };
    let settings = forewarn_taps::Settings { mask: config.mark_mask, libvirt_socket };
    forewarn_taps::start(settings, listeners, stop, tasks).await
}
