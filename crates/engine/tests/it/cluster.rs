//! Engines that share a region over a log in memory: one decides, the others follow, and another one takes over.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forewarn_cluster::encoding::encode_position;
use forewarn_cluster::machine::{Identity, Settings as ClusterSettings};
use forewarn_cluster::{
    BootClock, Clock as _, Entry, Follower, Following, Key, Log as _, Member, MemoryLog, Position, Replica,
    random_session,
};
use forewarn_core::*;
use forewarn_engine::*;
use forewarn_store::faulty::{Faults, FaultyStore};
use forewarn_store::{
    Change, HistoryQuery, HistoryRow, MemoryStore, PAYLOAD_FORMAT_MIN, Replicated, SEALED_FORMAT, SqliteStore,
};

const WALL: i64 = 1_800_000_000;
const DEADLINE: Duration = Duration::from_secs(20);

/// Started events, as a driver was told about them.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<EventId>>>);

impl Told {
    fn events(&self) -> Vec<EventId> {
        self.0.lock().unwrap().clone()
    }
}

impl EffectSink for Told {
    fn follow(&mut self, effects: &[Effect]) {
        let begun = effects.iter().filter_map(|effect| match effect {
            Effect::Begin(event) => Some(event.id),
            Effect::Stop(_) => None,
        });
        self.0.lock().unwrap().extend(begun);
    }
    fn reconcile(&mut self, region: &Region) {
        self.0.lock().unwrap().extend(region.wanted_effects().map(|event| event.id));
    }
    fn next(&self) -> Option<Timestamp> {
        None
    }
    fn due(&self, _: Timestamp, _: usize) -> Vec<(EventId, Report)> {
        Vec::new()
    }
    fn reported(&mut self, _: EventId) {}
}

struct Server {
    engine: Engine,
    writer: JoinHandle<()>,
    told: Told,
}

/// The parts of a server besides the log.
struct ServerSetup {
    store: Box<dyn Replicated>,
    clock: ClockSetting,
    clocks: Arc<SimulatedClocks>,
    settings: ClusterSettings,
    transfer: Transfer,
    key: Option<Arc<Key>>,
}

impl ServerSetup {
    fn new(store: impl Replicated + 'static) -> ServerSetup {
        let clocks = Arc::new(SimulatedClocks::new("a", 10, WALL));
        let (clock, settings) = (ClockSetting::Real, quick());
        let transfer: Transfer = Box::new(|_| Err("no peer".into()));
        ServerSetup { store: Box::new(store), clock, clocks, settings, transfer, key: None }
    }

    async fn start(self, name: &str, log: &MemoryLog) -> Server {
        let options = EngineOptions {
            clock: self.clock,
            system_clocks: self.clocks,
            rules: Settings::default(),
            history_kept: Duration::from_secs(86_400),
        };
        let cluster = ClusterOptions {
            node: name.into(),
            address: format!("http://{name}"),
            settings: self.settings,
            log: Box::new(log.clone()),
            transfer: self.transfer,
            key: self.key,
        };
        let told = Told::default();
        let sink = Box::new(told.clone());
        let (engine, writer) = open_in_cluster(options, self.store, cluster, |_| sink).await.expect("the engine opens");
        Server { engine, writer, told }
    }
}

fn quick() -> ClusterSettings {
    ClusterSettings {
        heartbeat_every: Duration::from_millis(20),
        follow_wait: Duration::from_millis(20),
        silence_min: Duration::from_millis(300),
        act_max: Duration::from_millis(250),
        truncate_every: Duration::from_millis(50),
        truncate_records_min: 1,
        pause: Duration::from_millis(300),
        ..ClusterSettings::default()
    }
}

async fn until(what: &str, is_true: impl Fn() -> bool) {
    let end = Instant::now() + DEADLINE;
    while !is_true() {
        assert!(Instant::now() < end, "timed out: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn plain_machine(name: &str, vm_id: u128) -> Box<NewMachine> {
    let home = ResourceGroupRef { subscription: "s".into(), resource_group: "g".into() };
    Box::new(NewMachine::plain(Guid(vm_id), name, home))
}

impl Server {
    fn status(&self) -> Arc<ClusterStatus> {
        self.engine.cluster().expect("a cluster").status()
    }

    fn leads(&self) -> bool {
        self.status().role == ClusterRole::Leader
    }

    /// Waits until this server accepts commands.
    async fn lead(&self) {
        until("a leader", || self.leads()).await;
        let end = Instant::now() + DEADLINE;
        while let Err(error) = self.engine.submit(Command::Tick, None).await {
            assert!(Instant::now() < end, "{error}");
        }
    }

    async fn register(&self, name: &str, vm_id: u128) {
        let machine = plain_machine(name, vm_id);
        self.engine.submit(Command::RegisterMachine(machine), None).await.expect("the machine is registered");
    }

    /// Registers a machine whose handler polls, and requests its restart, which is event 2.
    async fn restart_machine(&self) {
        self.register("web", 7).await;
        let machine = self.engine.snapshot().region.machines().next().unwrap().id;
        self.engine.submit(Command::Seen { machine }, None).await.unwrap();
        let request = Request::Restart { machines: vec![machine] };
        let command = Command::Request { operation: Guid(1), by: "me".into(), request, event: Some(Guid(2)) };
        self.engine.submit(command, None).await.unwrap();
    }

    async fn rows(&self) -> Vec<HistoryRow> {
        self.engine.history(HistoryQuery::default()).await.unwrap()
    }

    async fn stop(self) {
        self.engine.begin_stop();
        tokio::task::spawn_blocking(|| self.writer.join()).await.unwrap().expect("the writer ends");
    }
}

/// Waits until both show the same, then compares regions, indexes included, and history.
async fn check_equal(one: &Server, two: &Server) {
    until("equal revisions", || one.engine.snapshot().revision == two.engine.snapshot().revision).await;
    let text = |server: &Server| format!("{:?}", server.engine.snapshot().region);
    assert_eq!(text(one), text(two));
    let rows = one.rows().await;
    assert_eq!(rows, two.rows().await);
    let numbers: Vec<u64> = rows.iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=rows.len() as u64).collect::<Vec<_>>(), "history is dense");
}

#[tokio::test]
async fn followers_show_what_the_leader_decides_and_refuse_commands() {
    let log = MemoryLog::new();
    let first = ServerSetup::new(MemoryStore::new()).start("a", &log).await;
    first.lead().await;
    let second = ServerSetup::new(MemoryStore::new()).start("b", &log).await;
    let mut changes = second.engine.subscribe();
    first.register("web", 7).await;
    until("a copy", || second.engine.snapshot().region.machines().len() == 1).await;
    assert!(changes.has_changed().unwrap());
    changes.mark_unchanged();
    check_equal(&first, &second).await;
    until("a follower", || second.status().role == ClusterRole::Follower).await;
    assert_eq!(second.status().leader, Some(LeaderAddress { node: "a".into(), address: "http://a".into() }));
    let refused = second.engine.submit(Command::Tick, None).await;
    assert!(matches!(refused, Err(SubmitError::NoLeader)), "{refused:?}");
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_follower_takes_over_with_a_higher_term_and_everything_that_was_answered() {
    let log = MemoryLog::new();
    let directory = tempfile::tempdir().unwrap();
    let first = ServerSetup::new(MemoryStore::new()).start("a", &log).await;
    first.lead().await;
    let second = ServerSetup::new(SqliteStore::open(directory.path()).unwrap()).start("b", &log).await;
    first.restart_machine().await;
    let by = Approver::Management("me".into());
    let approve = Command::Approve { by, within: ApprovalScope::Region, events: vec![Guid(2)] };
    first.engine.submit(approve, None).await.unwrap();
    assert_eq!(first.told.events(), [Guid(2)]);
    assert!(second.told.events().is_empty(), "a follower's driver does nothing");
    until("a copy", || second.engine.snapshot().region.wanted_effects().count() == 1).await;
    check_equal(&first, &second).await;
    let term = first.status().term;
    first.stop().await;
    second.lead().await;
    assert!(second.status().term > term);
    assert!(second.told.events().contains(&Guid(2)), "the new leader's driver continues");
    second.register("db", 8).await;
    let third = ServerSetup::new(MemoryStore::new()).start("c", &log).await;
    until("a copy", || third.engine.snapshot().region.machines().len() == 2).await;
    check_equal(&second, &third).await;
    second.stop().await;
    third.stop().await;
}

#[tokio::test]
async fn time_continues_from_the_leader_whatever_the_wall_clock_says() {
    let log = MemoryLog::new();
    let setup = ServerSetup::new(MemoryStore::new());
    let clocks = setup.clocks.clone();
    let first = setup.start("a", &log).await;
    first.lead().await;
    let ahead = ServerSetup::new(MemoryStore::new());
    ahead.clocks.step_wall_secs(86_400);
    let second = ahead.start("b", &log).await;
    let is_followed = || {
        clocks.pass_ms(5);
        second.engine.now() < Timestamp::from_secs(WALL + 600)
    };
    until("the region's time", is_followed).await;
    first.stop().await;
    second.lead().await;
    assert!(second.engine.snapshot().region.now() < Timestamp::from_secs(WALL + 600));
    second.stop().await;
}

#[tokio::test]
async fn a_server_that_is_too_far_behind_copies_a_peer() {
    let log = MemoryLog::new();
    let store = MemoryStore::new();
    let first = ServerSetup::new(store.clone()).start("a", &log).await;
    first.lead().await;
    first.register("web", 7).await;
    first.register("db", 8).await;
    until("truncation", || {
        let tail = log.clone().read(1).expect("memory answers");
        tail.entries.first().is_none_or(|entry| entry.revision > 2)
    })
    .await;
    let directory = tempfile::tempdir().unwrap();
    let file: PathBuf = directory.path().join("copy");
    let mut late = ServerSetup::new(MemoryStore::new());
    late.transfer = Box::new(move |_| match store.copier().copy_to(&file) {
        Ok(()) => Ok(file.clone()),
        Err(error) => Err(error.to_string()),
    });
    let second = late.start("b", &log).await;
    until("a copy", || second.engine.snapshot().region.machines().len() == 2).await;
    check_equal(&first, &second).await;
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn old_history_is_deleted_everywhere_and_a_step_down_moves_the_leadership() {
    let log = MemoryLog::new();
    let setup = ServerSetup::new(MemoryStore::new());
    let clocks = setup.clocks.clone();
    let first = setup.start("a", &log).await;
    first.lead().await;
    first.register("web", 7).await;
    let second = ServerSetup::new(MemoryStore::new()).start("b", &log).await;
    until("a copy", || second.engine.snapshot().region.machines().len() == 1).await;
    clocks.pass_ms(2 * 86_400_000);
    first.register("db", 8).await;
    let end = Instant::now() + DEADLINE;
    while second.rows().await.iter().any(|row| row.machines == ["web"]) {
        assert!(Instant::now() < end, "history was not deleted");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    first.engine.step_down().unwrap();
    second.lead().await;
    assert_eq!(first.rows().await, second.rows().await);
    assert!(!first.leads());
    first.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn a_copy_that_a_single_server_has_changed_is_refused() {
    let log = MemoryLog::new();
    let mut store = MemoryStore::new();
    let text = forewarn_cluster::encoding::encode_position(&Position { revision: 5, ..Position::START });
    store.set_position(&text).unwrap();
    let options = EngineOptions {
        clock: ClockSetting::Real,
        system_clocks: Arc::new(SimulatedClocks::new("a", 10, WALL)),
        rules: Settings::default(),
        history_kept: Duration::from_secs(86_400),
    };
    let cluster = ClusterOptions {
        node: "a".into(),
        address: String::new(),
        settings: quick(),
        log: Box::new(log),
        transfer: Box::new(|_| Err("no peer".into())),
        key: None,
    };
    let opened = open_in_cluster(options, Box::new(store), cluster, |_| Box::new(Told::default())).await;
    assert!(opened.err().is_some_and(|error| error.to_string().contains("without --cluster has changed it")));
}

#[tokio::test]
async fn a_leader_whose_disk_does_not_answer_is_replaced_and_catches_up() {
    let log = MemoryLog::new();
    let (store, faults) = FaultyStore::new(MemoryStore::new());
    let first = ServerSetup::new(store).start("a", &log).await;
    first.lead().await;
    let second = ServerSetup::new(MemoryStore::new()).start("b", &log).await;
    until("a follower", || second.status().role == ClusterRole::Follower).await;
    let is_current_since = |moment: Instant| {
        let age = first.engine.cluster().expect("a cluster").current_age();
        age.is_some_and(|age| age < moment.elapsed())
    };
    let moment = Instant::now();
    until("a heartbeat of the leader", || is_current_since(moment)).await;
    faults.stall();
    let (engine, machine) = (first.engine.clone(), plain_machine("slow", 7));
    let change = tokio::spawn(async move { engine.submit(Command::RegisterMachine(machine), None).await });
    second.lead().await;
    let moment = Instant::now();
    second.register("web", 8).await;
    assert!(first.engine.accepts_commands() && !is_current_since(moment), "it does not know that it is deposed");
    assert!(!change.is_finished(), "nothing is answered before it is in the copy");
    faults.resume();
    assert!(change.await.unwrap().is_ok(), "the change is in the log");
    until("the old leader to follow", || first.status().role == ClusterRole::Follower).await;
    check_equal(&first, &second).await;
    let mut names: Vec<String> =
        first.engine.snapshot().region.machines().map(|machine| machine.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["slow", "web"]);
    first.stop().await;
    second.stop().await;
}

/// A server of the version before: it reads payloads of the first format only, and tells the others so.
struct OldServer {
    store: MemoryStore,
    stops: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct OldCopy(MemoryStore);

impl Replica for OldCopy {
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            let format = entry.record.payload.first().copied().unwrap_or(PAYLOAD_FORMAT_MIN);
            assert_eq!(format, PAYLOAD_FORMAT_MIN, "the older version cannot read record {}", entry.revision);
            let change = Change::decode(&entry.record.payload).map_err(|error| error.to_string())?;
            let position = encode_position(&entry.position());
            self.0.apply(entry.revision, &position, &[change]).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<u64, String> {
        Ok(u64::MAX)
    }

    fn transfer(&mut self, _: u64) -> Result<Position, String> {
        Err("no peer".into())
    }
}

impl OldServer {
    fn start(name: &str, log: &MemoryLog) -> OldServer {
        let identity = Identity {
            name: name.into(),
            address: format!("http://{name}"),
            format: u32::from(PAYLOAD_FORMAT_MIN),
            content_format: u32::from(PAYLOAD_FORMAT_MIN),
            session: random_session(),
        };
        // It never takes over.
        let settings = ClusterSettings { silence_min: DEADLINE, silence_max: DEADLINE, ..quick() };
        let mut follower =
            Follower::start(identity, settings, Position::START, Box::new(log.clone()), Box::new(BootClock));
        let (store, stops) = (MemoryStore::new(), Arc::new(AtomicBool::new(false)));
        let (mut copy, is_stopping) = (OldCopy(store.clone()), stops.clone());
        let thread = std::thread::spawn(move || {
            while !is_stopping.load(Ordering::Relaxed) {
                let next = BootClock.now() + Duration::from_millis(20);
                let outcome = follower.follow(&mut copy, next);
                assert!(matches!(outcome, Following::Idle), "{outcome:?}");
            }
        });
        OldServer { store, stops, thread }
    }

    /// Stops the process; its data is left.
    async fn stop(self) -> MemoryStore {
        self.stops.store(true, Ordering::Relaxed);
        tokio::task::spawn_blocking(|| self.thread.join())
            .await
            .unwrap()
            .expect("the old server has read every record");
        self.store
    }
}

/// A rollout over single machines, which only the new version knows.
fn rollout_over(machine: MachineId) -> Command {
    let plan = RolloutPlan {
        action: RolloutAction::Reboot,
        at: None,
        parallel: 1,
        pause: Duration::ZERO,
        windows: Vec::new(),
        unavailable_max: None,
        failures_max: 0,
        notice: None,
        duration_secs: None,
        description: None,
    };
    let targets = RolloutTargets::Machines(vec![machine]);
    Command::StartRollout(Box::new(NewRollout { id: Guid(9), by: "me".into(), targets, plan }))
}

#[tokio::test]
async fn a_rolling_upgrade_loses_nothing_and_new_formats_wait_for_its_end() {
    let log = MemoryLog::new();
    // Servers without a key do not read sealed payloads.
    let [oldest, newest] = [PAYLOAD_FORMAT_MIN, SEALED_FORMAT - 1].map(u32::from);
    // The leader looks for older versions from time to time. This one is known before it begins.
    let member =
        Member { name: "b".into(), applied: 0, format: oldest, content_format: oldest, address: "http://b".into() };
    log.clone().report(&member).unwrap();
    let first = ServerSetup::new(MemoryStore::new()).start("a", &log).await;
    first.lead().await;
    let old = OldServer::start("b", &log);
    let formats = |log: &MemoryLog| -> Vec<u32> {
        log.clone().roster().unwrap().members.iter().map(|member| member.format).collect()
    };
    until("both servers", || formats(&log) == [newest, oldest]).await;
    first.register("web", 7).await;
    let machine = first.engine.snapshot().region.machines().next().unwrap().id;
    first.engine.submit(Command::Seen { machine }, None).await.unwrap();

    let refused = first.engine.submit(rollout_over(machine), None).await;
    assert!(matches!(refused, Err(SubmitError::ServersOutdated)), "{refused:?}");
    assert!(first.engine.snapshot().region.rollouts().next().is_none(), "a refused change leaves nothing");
    let host: forewarn_core::Name = "rack".into();
    let register = || Command::RegisterHost { name: host.clone() };
    let refused = first.engine.submit(register(), None).await;
    assert!(matches!(refused, Err(SubmitError::ServersOutdated)), "{refused:?}");
    first.register("db", 8).await;
    let revision = first.engine.snapshot().revision;
    let applied = |log: &MemoryLog| log.clone().roster().unwrap().members[1].applied;
    until("the old server to follow", || applied(&log) >= revision).await;

    let upgraded = ServerSetup::new(old.stop().await).start("b", &log).await;
    until("the new version", || formats(&log) == [newest, newest]).await;
    let end = Instant::now() + DEADLINE;
    while let Err(error) = first.engine.submit(rollout_over(machine), None).await {
        assert!(matches!(error, SubmitError::ServersOutdated) && Instant::now() < end, "{error}");
    }
    let registered = first.engine.submit(register(), None).await.unwrap().snapshot;
    let lose = Command::LoseHost { name: host.clone() };
    first.engine.submit(lose, None).await.expect("a later change of the host");
    assert!(registered.region.host("rack").unwrap().epoch > 0);
    check_equal(&first, &upgraded).await;
    first.stop().await;
    upgraded.lead().await;
    assert_eq!(upgraded.engine.snapshot().region.rollouts().count(), 1);
    upgraded.stop().await;
}

/// Lets the disk of a server stall while something is done, until another server could lead.
async fn stall_during<T: Send + 'static>(faults: &Faults, done: impl Future<Output = T> + Send + 'static) -> T {
    faults.stall();
    let done = tokio::spawn(done);
    let begun = Instant::now();
    until("a stalled disk", || begun.elapsed() > 2 * quick().act_max && faults.waiting() > 0).await;
    faults.resume();
    done.await.unwrap()
}

#[tokio::test]
async fn a_driver_learns_at_once_what_was_withheld_while_another_server_could_have_led() {
    let (store, faults) = FaultyStore::new(MemoryStore::new());
    let server = ServerSetup::new(store).start("a", &MemoryLog::new()).await;
    server.lead().await;
    server.restart_machine().await;
    let by = Approver::Management("me".into());
    let approve = Command::Approve { by, within: ApprovalScope::Region, events: vec![Guid(2)] };
    let engine = server.engine.clone();
    stall_during(&faults, async move { engine.submit(approve, None).await }).await.unwrap();
    assert!(server.told.events().contains(&Guid(2)), "before the answer");
    server.stop().await;
}

#[tokio::test]
async fn records_are_sealed_once_all_servers_read_sealed_ones() {
    let log = MemoryLog::new();
    let directory = tempfile::tempdir().unwrap();
    let key = Arc::new(Key::create(&directory.path().join("key")).unwrap());
    let format = u32::from(SEALED_FORMAT - 1);
    let mut older =
        Member { name: "old".into(), applied: 0, format, content_format: format, address: "http://old".into() };
    log.clone().report(&older).unwrap();
    let setup = |key: Option<&Arc<Key>>| ServerSetup { key: key.cloned(), ..ServerSetup::new(MemoryStore::new()) };
    let first = setup(Some(&key)).start("a", &log).await;
    first.lead().await;
    let has = |name: &str| {
        let is_there = |entry: Entry| entry.record.payload.windows(name.len()).any(|window| window == name.as_bytes());
        log.back_up().entries().any(is_there)
    };
    first.register("clear", 7).await;
    assert!(has("clear"), "the older server could not read it");

    older.format = u32::from(SEALED_FORMAT);
    log.clone().report(&older).unwrap();
    let newest = || log.back_up().entries().last().map(|entry| entry.record.payload);
    let end = Instant::now() + DEADLINE;
    while newest().is_some_and(|payload| payload.first() != Some(&SEALED_FORMAT)) {
        first.engine.submit(Command::Tick, None).await.unwrap();
        assert!(Instant::now() < end, "the leader does not seal");
    }
    first.register("hidden", 8).await;
    assert!(!has("hidden"));
    let second = setup(Some(&key)).start("b", &log).await;
    check_equal(&first, &second).await;
    let keyless = setup(None).start("c", &log).await;
    let problem = || keyless.status().problem.clone().unwrap_or_default();
    until("advice", || problem().contains("--cluster-key")).await;
    for server in [first, second, keyless] {
        server.stop().await;
    }
}

#[tokio::test]
async fn two_servers_with_one_name_are_reported_but_a_restart_is_not() {
    let log = MemoryLog::new();
    let setup = ServerSetup::new(MemoryStore::new());
    let clocks = setup.clocks.clone();
    let first = setup.start("a", &log).await;
    first.lead().await;
    let other = ServerSetup::new(MemoryStore::new()).start("a", &log).await;
    let problem = |server: &Server| server.status().problem.clone();
    let is_reported = || {
        clocks.pass_ms(5);
        problem(&other).is_some_and(|text| text.contains("another server uses the name 'a'"))
    };
    until("an error", is_reported).await;
    other.stop().await;
    // The leadership of the earlier process is still in the log.
    let backup = log.back_up();
    first.stop().await;
    log.restore(backup);
    let again = ServerSetup::new(MemoryStore::new()).start("a", &log).await;
    again.lead().await;
    assert_eq!(problem(&again), None);
    again.stop().await;
}

/// Orders to agents depend on this age.
#[tokio::test]
async fn the_age_of_a_leaders_heartbeat_counts_from_the_heartbeat_and_not_from_the_last_command() {
    let mut setup = ServerSetup::new(MemoryStore::new());
    let rare = Duration::from_secs(3600);
    setup.settings = ClusterSettings { heartbeat_every: rare, act_max: 2 * rare, ..quick() };
    let server = setup.start("a", &MemoryLog::new()).await;
    server.lead().await;
    let age = || server.engine.cluster().expect("a cluster").heartbeat_age().expect("a heartbeat");
    let old = Duration::from_millis(100);
    until("an old heartbeat", || age() >= old).await;
    server.register("web", 7).await;
    assert!(age() >= old, "{:?}", age());
    server.stop().await;
}

#[tokio::test]
async fn a_manual_clock_does_not_pass_events_that_the_driver_does_not_know() {
    let (store, faults) = FaultyStore::new(MemoryStore::new());
    let mut setup = ServerSetup::new(store);
    setup.clock = ClockSetting::Manual { start: None };
    let server = setup.start("a", &MemoryLog::new()).await;
    server.lead().await;
    server.restart_machine().await;
    let engine = server.engine.clone();
    let advance = Advance::By(Duration::from_secs(3600));
    stall_during(&faults, async move { engine.advance(advance).await }).await.unwrap();
    assert!(server.told.events().contains(&Guid(2)), "before the answer");
    server.stop().await;
}
