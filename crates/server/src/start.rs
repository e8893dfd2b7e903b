//! From a configuration to a server that runs, and from there to one that has stopped.

use std::collections::HashSet;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use forewarn_core::{Answer, Command, Guid, Home, NewMachine, Region};
use forewarn_store::{MemoryStore, SqliteStore, Store};
use forewarn_wire::document::Names;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::sync::{Notify, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::api;
use crate::clock::{self, Clock};
use crate::config::{ClockKind, Config, DriverChoice, StoreChoice};
use crate::driver::{CommandRunner, CommandSignal, Driver, Simulated};
use crate::engine::{Engine, Health, Inner, MAILBOX_MAX, Snapshot};
use crate::faults::{self, Faults};
use crate::metadata::{self, Bound, DefaultMachine, FIRST_MACHINE, LISTENERS_MAX};
use crate::publish::Board;
use crate::random::random_guid;
use crate::requests::Requests;
use crate::telemetry::Telemetry;
use crate::tls::{self, Secure};
use crate::webhooks::{self, Webhooks};
use crate::writer::{Rest, Writer};

/// Where a listener came to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BoundAddress {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl fmt::Display for BoundAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BoundAddress::Tcp(address) => write!(f, "{address}"),
            BoundAddress::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A server that serves.
pub struct Running {
    /// In the order of the configuration.
    pub metadata: Vec<BoundAddress>,
    pub management: SocketAddr,
    /// The same over https.
    pub management_tls: Option<SocketAddr>,
    pub engine: Engine,
    stop: CancellationToken,
    tasks: TaskTracker,
    writer: JoinHandle<()>,
    access: Arc<api::Access>,
}

/// The longest delay of the original's first call.
const FIRST_CALL_DELAY_MAX: Duration = Duration::from_secs(120);

/// What connections have to finish when the server stops.
const STOP_GRACE: Duration = Duration::from_secs(3);

/// What the writer has for its last commit.
const STOP_COMMIT: Duration = Duration::from_millis(1500);

/// Starts a server on the current runtime. Every listener is bound, and the store is loaded and writable,
/// before the first request is taken.
pub async fn start(config: Config) -> anyhow::Result<Running> {
    let store: Box<dyn Store> = match &config.store {
        StoreChoice::Memory => Box::new(MemoryStore::new()),
        StoreChoice::Directory(directory) => Box::new(SqliteStore::open(directory)?),
    };
    start_with(config, store).await
}

/// The same with a store that is open already.
pub async fn start_with(config: Config, store: Box<dyn Store>) -> anyhow::Result<Running> {
    check(&config)?;
    let access = Arc::new(api::access(&config)?);
    raise_file_limit();
    let listeners = bind_metadata(&config)?;
    let management = bind_management(&config).await?;
    let secure = tls::open(&config).await?;
    let (engine, writer, runner) = open(&config, store).await?;
    register_first(&engine, config.first_machine.clone()).await?;
    webhooks::open(&engine).await?;

    let stop = CancellationToken::new();
    let tasks = TaskTracker::new();
    let running = Running {
        metadata: listeners.iter().map(Bound::address).collect::<Result<_, _>>()?,
        management: management.local_addr()?,
        management_tls: secure.as_ref().map(|secure| secure.listener.local_addr()).transpose()?,
        engine: engine.clone(),
        stop: stop.clone(),
        tasks: tasks.clone(),
        writer,
        access: access.clone(),
    };
    let machine_doors = listeners.iter().map(Bound::describe).collect::<Result<_, _>>()?;
    let doors = Arc::new(api::Doors {
        http: running.management,
        https: running.management_tls.zip(secure.as_ref().map(|secure| secure.tls.clone())),
    });
    let names = if config.plain_names { Names::Plain } else { Names::Original };
    let options = metadata::Options {
        names,
        first_call_delay: config.first_call_delay,
        seed: random_guid(),
        desk: api::desk(&access, &doors),
    };
    metadata::serve(listeners, engine.clone(), options, stop.clone(), &tasks);
    tasks.spawn(faults::keep(engine.clone(), stop.clone()));
    tasks.spawn(webhooks::run(engine.clone(), stop.clone()));
    let router = api::router(api::Service::new(engine, access, doors, machine_doors, stop.clone(), names));
    tasks.spawn(api::serve(management, api::Transport::Plain, router.clone(), stop.clone()));
    if let Some(Secure { listener, tls }) = secure {
        let transport = api::Transport::Tls(tls.acceptor());
        tasks.spawn(api::serve(listener, transport, router, stop.clone()));
        tasks.spawn(tls.keep_fresh(stop.clone()));
    }
    if let Some(runner) = runner {
        tasks.spawn(runner.run(stop));
    }
    Ok(running)
}

impl Running {
    /// A link that signs one browser in at the portal as the owner, once and soon.
    pub fn portal_link(&self) -> String {
        let address = match self.management {
            address if address.ip().is_unspecified() => SocketAddr::from(([127, 0, 0, 1], address.port())),
            address => address,
        };
        format!("http://{address}{}", self.access.portal_link(&self.access.owner()))
    }

    /// Stops within five seconds: held requests are answered, connections closed, time written down.
    /// What drivers were about is taken up at the next start.
    pub async fn stop(self) {
        self.stop.cancel();
        self.tasks.close();
        if timeout(STOP_GRACE, self.tasks.wait()).await.is_err() {
            tracing::warn!("some connections did not end in time and are cut off");
        }
        self.engine.begin_stop();
        let writer = tokio::task::spawn_blocking(move || self.writer.join());
        if timeout(STOP_COMMIT, writer).await.is_err() {
            tracing::warn!("the last commit did not end in time");
        }
    }

    /// Returns when the writer has ended without being asked to: nothing can be changed any more.
    pub async fn failed(&self) {
        let mut revisions = self.engine.subscribe();
        while !self.writer.is_finished() {
            let _ = timeout(Duration::from_secs(1), revisions.changed()).await;
        }
    }
}

fn check(config: &Config) -> anyhow::Result<()> {
    if config.first_call_delay > FIRST_CALL_DELAY_MAX {
        bail!("first_call_delay is at most {} seconds.", FIRST_CALL_DELAY_MAX.as_secs());
    }
    if config.metadata.len() > LISTENERS_MAX {
        bail!("There may be {LISTENERS_MAX} metadata listeners.");
    }
    if config.rules.notice_scale == 0 {
        bail!("The notice scale is a whole number from 1: notice is divided by it.");
    }
    Ok(())
}

/// Ten thousand connections need as many descriptors; most systems start programs with 1024.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit { current: limit.maximum, maximum: limit.maximum };
        if let Err(error) = setrlimit(Resource::Nofile, raised) {
            tracing::warn!(%error, "the limit on open files could not be raised");
        }
    }
}

fn bind_metadata(config: &Config) -> anyhow::Result<Vec<Bound>> {
    let default = match &config.default_machine {
        Some(name) => DefaultMachine::Named(name.clone()),
        None => DefaultMachine::First,
    };
    config.metadata.iter().map(|listener| Bound::new(listener, &default)).collect()
}

async fn bind_management(config: &Config) -> anyhow::Result<tokio::net::TcpListener> {
    let address = config.management;
    let opened = tokio::net::TcpListener::bind(address).await;
    opened.map_err(|error| metadata::cannot_open("management", "--management", address, &error))
}

/// Loads the store and sets the writer to work.
async fn open(
    config: &Config,
    mut store: Box<dyn Store>,
) -> anyhow::Result<(Engine, JoinHandle<()>, Option<CommandRunner>)> {
    check_clock(config, &mut *store)?;
    let loaded = store.load()?;
    let region = Region::load(config.rules.clone(), loaded.entities)?;
    let newest = Arc::new(Snapshot { revision: loaded.revision, region, roster: 0 });
    let reruns: HashSet<_> = newest.region.wanted_effects().map(|event| event.id).collect();

    let clock = Arc::new(Clock::new(config.clock, newest.region.now()));
    let board = Arc::new(Board::new(newest.clone()));
    let telemetry = Arc::new(Telemetry::new());
    telemetry.look_at(board.clone());
    let health = Arc::new(Health::default());
    let (mailbox, letters) = sync_channel(MAILBOX_MAX);
    let engine = Engine::new(Inner {
        mailbox,
        board: board.clone(),
        clock: clock.clone(),
        reader: store.reader(),
        telemetry: telemetry.clone(),
        requests: Requests::new(config.rate_limit),
        faults: Faults::new(),
        webhooks: Webhooks::new(config.webhook_timeout),
        health: health.clone(),
    });
    let (driver, runner) = driver(config, &engine, clock.kind(), health.clone(), reruns);
    let writer = Writer {
        store,
        settings: config.rules.clone(),
        newest,
        mailbox: letters,
        board,
        clock,
        driver,
        telemetry,
        health,
        history_kept: Duration::from_secs(u64::from(config.history_days) * 86_400),
        rest: Rest::default(),
    };
    let (ready, taken) = oneshot::channel();
    let thread = std::thread::Builder::new().name("writer".into()).spawn(move || writer.run(ready))?;
    if !taken.await.unwrap_or(false) {
        engine.begin_stop();
        bail!("The store could be read but not written, so nothing could be promised. The log says why.");
    }
    Ok((engine, thread, runner))
}

fn check_clock(config: &Config, store: &mut dyn Store) -> anyhow::Result<()> {
    use forewarn_store::ClockKind as Stored;
    let asked = match config.clock {
        ClockKind::Real => Stored::Real,
        ClockKind::Manual { .. } => Stored::Manual,
    };
    match (store.clock_kind()?, asked) {
        (None, _) => Ok(store.set_clock_kind(asked)?),
        (Some(stored), asked) if stored == asked => Ok(()),
        (Some(Stored::Real), _) => {
            bail!(
                "This store was made with the real clock. Start without --clock manual, or choose another data directory with --data DIR."
            )
        }
        (Some(Stored::Manual), _) => {
            bail!(
                "This store was made with a manual clock. Start with --clock manual, or choose another data directory with --data DIR."
            )
        }
    }
}

fn driver(
    config: &Config,
    engine: &Engine,
    clock: clock::Kind,
    health: Arc<Health>,
    reruns: HashSet<Guid>,
) -> (Box<dyn Driver>, Option<CommandRunner>) {
    match &config.driver {
        DriverChoice::Simulated(impacts) => (Box::new(Simulated::new(impacts.clone(), clock, health)), None),
        DriverChoice::Command(command) => {
            let signal = Arc::new(Notify::new());
            let runner = CommandRunner {
                engine: engine.clone(),
                config: Arc::new(command.clone()),
                signal: signal.clone(),
                reruns,
            };
            (Box::new(CommandSignal(signal)), Some(runner))
        }
    }
}

/// A store that never had a machine gets this one, so that the first curl works.
async fn register_first(engine: &Engine, name: Option<String>) -> anyhow::Result<()> {
    if engine.snapshot().region.meta().next_id != 0 {
        return Ok(());
    }
    let name = name.unwrap_or_else(hostname);
    let home =
        Home { subscription: api::SUBSCRIPTION_DEFAULT.into(), resource_group: api::RESOURCE_GROUP_DEFAULT.into() };
    let machine = NewMachine::plain(random_guid(), &name, home);
    let done = engine
        .submit(Command::RegisterMachine(Box::new(machine)), None)
        .await
        .with_context(|| format!("The machine '{name}' could not be registered as the first machine"))?;
    match done.answer {
        Answer::Machine(FIRST_MACHINE) => Ok(()),
        other => Err(anyhow!("The first machine has an unexpected number: {other:?}")),
    }
}

pub(crate) fn hostname() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}
