//! Opens a store and starts the single writer on it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use forewarn_core::{LoadError, Region, Settings, Snapshot};
use forewarn_store::{ClockKind as StoredClock, Reader, Replicated, Store, StoreError, read_rules};
use tokio::sync::oneshot;

use crate::clock::{Clock, ClockSetting};
use crate::cluster::{ClusterMonitor, ClusterOptions, CopyContents, Node};
use crate::effects::EffectSink;
use crate::engine::{Engine, EngineState, Health, MAILBOX_MAX};
use crate::metrics::EngineMetrics;
use crate::publish::Publisher;
use crate::system_clocks::SystemClocks;
use crate::writer::{CommitTarget, Gathering, Housekeeping, Writer};

pub struct EngineOptions {
    pub clock: ClockSetting,
    /// The system's clocks, which a real clock follows.
    pub system_clocks: Arc<dyn SystemClocks>,
    pub rules: Settings,
    /// How long history is kept.
    pub history_kept: Duration,
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "this data directory uses the real clock. Start without --clock manual, or choose another directory with --data DIR"
    )]
    RealClock,
    #[error(
        "this data directory uses a manual clock. Start with --clock manual, or choose another directory with --data DIR"
    )]
    ManualClock,
    #[error("{0}")]
    Copy(String),
    #[error("the store can be read but not written. See the log for the reason")]
    NotWritable,
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error("cannot start the writer's thread")]
    Thread(#[from] std::io::Error),
}

/// Loads the store and starts the writer. `driver` is called with the loaded engine, before anything happens.
pub async fn open(
    options: EngineOptions,
    mut store: Box<dyn Store>,
    driver: impl FnOnce(&Engine) -> Box<dyn EffectSink>,
) -> Result<(Engine, JoinHandle<()>), OpenError> {
    check_clock(options.clock, &mut *store)?;
    let base = Base::load(&options, &mut *store)?;
    start(options, base, store.reader(), CommitTarget::Store(store), None, driver).await
}

/// Loads the local copy of a region that several servers share, and starts to follow its log.
pub async fn open_in_cluster(
    options: EngineOptions,
    mut store: Box<dyn Replicated>,
    cluster: ClusterOptions,
    driver: impl FnOnce(&Engine) -> Box<dyn EffectSink>,
) -> Result<(Engine, JoinHandle<()>), OpenError> {
    if store.clock_kind()?.is_some() {
        check_clock(options.clock, &mut *store)?;
    }
    let configured = options.rules.clone();
    let rules = read_rules(&*store.reader(), &configured)?.unwrap_or_else(|| configured.clone());
    let options = EngineOptions { rules, ..options };
    let base = Base::load(&options, &mut *store)?;
    let reader = store.reader();
    let monitor = Arc::new(ClusterMonitor::new(&cluster.node, base.newest.revision, configured.clone()));
    let contents = CopyContents {
        store,
        newest: base.newest.clone(),
        settings: options.rules.clone(),
        configured,
        publisher: base.publisher.clone(),
        clock: base.clock.clone(),
        clock_kind: options.clock,
    };
    let node = Node::new(cluster, contents, monitor.clone()).map_err(OpenError::Copy)?;
    start(options, base, reader, CommitTarget::Log(Box::new(node)), Some(monitor), driver).await
}

/// The loaded region.
struct Base {
    newest: Arc<Snapshot>,
    clock: Arc<Clock>,
    publisher: Arc<Publisher>,
}

impl Base {
    fn load(options: &EngineOptions, store: &mut dyn Store) -> Result<Base, OpenError> {
        let loaded = store.load()?;
        let region = Region::load(options.rules.clone(), loaded.entities)?;
        let newest = Arc::new(Snapshot { revision: loaded.revision, region });
        let stamp = store.clock_stamp()?;
        let clocks = options.system_clocks.clone();
        let clock = Arc::new(Clock::new(options.clock, clocks, newest.region.now(), stamp.as_ref()));
        let publisher = Arc::new(Publisher::new(newest.clone()));
        Ok(Base { newest, clock, publisher })
    }
}

async fn start(
    options: EngineOptions,
    base: Base,
    reader: Arc<dyn Reader>,
    commits: CommitTarget,
    cluster: Option<Arc<ClusterMonitor>>,
    driver: impl FnOnce(&Engine) -> Box<dyn EffectSink>,
) -> Result<(Engine, JoinHandle<()>), OpenError> {
    let Base { newest, clock, publisher } = base;
    let metrics = Arc::new(EngineMetrics::default());
    let health = Arc::new(Health::default());
    health.follows.store(cluster.is_some(), Ordering::Relaxed);
    let (mailbox, messages) = sync_channel(MAILBOX_MAX);
    let engine = Engine::new(EngineState {
        mailbox,
        publisher: publisher.clone(),
        clock: clock.clone(),
        reader,
        metrics: metrics.clone(),
        health: health.clone(),
        cluster,
    });
    let writer = Writer {
        commits,
        settings: options.rules,
        newest,
        mailbox: messages,
        publisher,
        clock,
        driver: driver(&engine),
        metrics,
        health,
        history_kept: options.history_kept,
        housekeeping: Housekeeping::default(),
        gathering: Gathering::default(),
        early: VecDeque::new(),
    };
    let (ready, taken) = oneshot::channel();
    let thread = std::thread::Builder::new().name("writer".into()).spawn(move || writer.run(ready))?;
    if !taken.await.unwrap_or(false) {
        engine.begin_stop();
        return Err(OpenError::NotWritable);
    }
    Ok((engine, thread))
}

fn check_clock(wanted: ClockSetting, store: &mut dyn Store) -> Result<(), OpenError> {
    let wanted = wanted.stored();
    match (store.clock_kind()?, wanted) {
        (None, wanted) => Ok(store.set_clock_kind(wanted)?),
        (Some(StoredClock::Real), StoredClock::Real) | (Some(StoredClock::Manual), StoredClock::Manual) => Ok(()),
        (Some(StoredClock::Real), StoredClock::Manual) => Err(OpenError::RealClock),
        (Some(StoredClock::Manual), StoredClock::Real) => Err(OpenError::ManualClock),
    }
}
