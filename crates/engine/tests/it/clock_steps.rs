//! Steps of the wall clock, while the server runs and while it is down: no notice gets shorter, no event group turns off, and
//! time does not stand still.

use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use forewarn_core::*;
use forewarn_engine::*;
use forewarn_store::{MemoryStore, SqliteStore, Store};
use prometheus_client::registry::Registry;

const WALL: i64 = 1_800_000_000;
const HOUR: i64 = 3600;
const DAY: i64 = 24 * HOUR;
const EVENT: Guid = Guid(0xE1);
/// The minimum notice of a Reboot.
const NOTICE: i64 = 15 * 60;

/// The wall clock is set by each of these seconds in turn, 10 s apart.
const STEPS: [&[i64]; 5] = [&[16 * 60], &[3 * DAY], &[-HOUR], &[HOUR, -HOUR], &[-HOUR, 3 * DAY]];

struct Server {
    engine: Engine,
    writer: JoinHandle<()>,
    clocks: Arc<SimulatedClocks>,
}

/// Carries nothing out.
struct NoDriver;

impl EffectSink for NoDriver {
    fn follow(&mut self, _: &[Effect]) {}
    fn reconcile(&mut self, _: &Region) {}
    fn next(&self) -> Option<Timestamp> {
        None
    }
    fn due(&self, _: Timestamp, _: usize) -> Vec<(EventId, Report)> {
        Vec::new()
    }
    fn reported(&mut self, _: EventId) {}
}

impl Server {
    async fn start(store: Box<dyn Store>, clocks: &Arc<SimulatedClocks>) -> Server {
        let options = EngineOptions {
            clock: ClockSetting::Real,
            system_clocks: clocks.clone(),
            rules: Settings::default(),
            history_kept: Duration::from_secs(86_400),
        };
        let (engine, writer) = open(options, store, |_| Box::new(NoDriver)).await.expect("the engine opens");
        Server { engine, writer, clocks: clocks.clone() }
    }

    /// Starts with one machine whose event group is on.
    async fn start_new(store: Box<dyn Store>, clocks: &Arc<SimulatedClocks>) -> Server {
        let server = Server::start(store, clocks).await;
        let home = ResourceGroupRef { subscription: "s".into(), resource_group: "g".into() };
        let machine = NewMachine::plain(Guid(7), "web", home);
        server.submit(Command::RegisterMachine(Box::new(machine))).await;
        server.submit(Command::Seen { machine: server.machine() }).await;
        server
    }

    async fn stop(self) {
        self.engine.begin_stop();
        tokio::task::spawn_blocking(|| self.writer.join()).await.unwrap().expect("the writer ends");
    }

    async fn submit(&self, command: Command) {
        self.engine.submit(command, None).await.expect("the command is carried out");
    }

    fn machine(&self) -> MachineId {
        self.engine.snapshot().region.machines().next().expect("there is a machine").id
    }

    /// Announces a Reboot.
    async fn announce(&self) {
        let request = Request::Restart { machines: vec![self.machine()] };
        self.submit(Command::Request { operation: Guid(1), by: "test".into(), request, event: Some(EVENT) }).await;
        assert!(self.is_scheduled());
    }

    fn is_scheduled(&self) -> bool {
        self.engine.snapshot().region.event(EVENT).expect("the event is there").status == Status::Scheduled
    }

    fn is_group_on(&self) -> bool {
        let snapshot = self.engine.snapshot();
        snapshot.region.scopes().all(|scope| matches!(scope.switch, EventsState::On { .. }))
    }

    /// Lets time pass in seconds. The writer sleeps in real time, so it is woken by commands: the first ends its sleep, and
    /// before the second it has passed everything that is due.
    async fn pass_secs(&self, secs: i64) {
        self.clocks.pass_ms(secs * 1000);
        self.wake().await;
    }

    async fn wake(&self) {
        self.submit(Command::Tick).await;
        self.submit(Command::Tick).await;
    }

    /// Lets time pass until the event starts. Returns its notice in seconds, of which `passed` are over.
    async fn measure_notice(&self, mut passed: i64) -> i64 {
        while self.is_scheduled() {
            assert!(passed <= 2 * NOTICE, "the event does not start");
            let stride = if passed + 40 < NOTICE { 30 } else { 1 };
            self.pass_secs(stride).await;
            passed += stride;
        }
        passed
    }

    fn metrics(&self) -> String {
        let mut registry = Registry::with_prefix("forewarn");
        self.engine.register_metrics(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).expect("metrics are text");
        text
    }

    fn ahead_seconds(&self) -> f64 {
        let metrics = self.metrics();
        let line = metrics.lines().find_map(|line| line.strip_prefix("forewarn_clock_ahead_seconds "));
        line.expect("the metric is there").parse().expect("the metric is a number")
    }
}

fn clocks() -> Arc<SimulatedClocks> {
    Arc::new(SimulatedClocks::new("boot-a", 1000, WALL))
}

fn sqlite(directory: &Path) -> Box<dyn Store> {
    Box::new(SqliteStore::open(directory).expect("the store opens"))
}

#[tokio::test]
async fn a_step_while_running_changes_no_notice() {
    for steps in STEPS {
        let clocks = clocks();
        let server = Server::start_new(Box::new(MemoryStore::new()), &clocks).await;
        server.announce().await;
        for step in steps {
            clocks.step_wall_secs(*step);
            server.pass_secs(10).await;
        }
        let notice = server.measure_notice(10 * steps.len() as i64).await;
        // Slewing changes 15 minutes by less than half a second.
        assert!((NOTICE..=NOTICE + 1).contains(&notice), "{steps:?}: {notice} s");
        assert!(server.is_group_on(), "{steps:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_step_during_downtime_in_the_same_boot_changes_no_notice() {
    for steps in STEPS {
        let directory = tempfile::tempdir().unwrap();
        let clocks = clocks();
        let server = Server::start_new(sqlite(directory.path()), &clocks).await;
        server.announce().await;
        server.pass_secs(60).await;
        let before = server.engine.now();
        server.stop().await;
        steps.iter().for_each(|step| clocks.step_wall_secs(*step));
        clocks.pass_ms(20_000);

        let server = Server::start(sqlite(directory.path()), &clocks).await;
        assert_eq!(server.engine.now(), before + Duration::from_secs(20), "{steps:?}: time continues by boot time");
        // The downtime does not count as notice.
        let notice = server.measure_notice(60).await;
        assert!((NOTICE..=NOTICE + 1).contains(&notice), "{steps:?}: {notice} s");
        assert!(server.is_group_on(), "{steps:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn time_continues_through_restarts_and_steps_in_any_order() {
    let store = MemoryStore::new();
    let clocks = clocks();
    Server::start_new(Box::new(store.clone()), &clocks).await.stop().await;
    let mut boot_secs = 0;
    for step in [16 * 60, -HOUR, 3 * DAY, -3 * DAY, HOUR, 1, -1] {
        clocks.step_wall_secs(step);
        clocks.pass_ms(5000);
        let server = Server::start(Box::new(store.clone()), &clocks).await;
        clocks.step_wall_secs(-step / 2);
        server.pass_secs(5).await;
        boot_secs += 10;
        let error_ms = server.engine.now().0 - (WALL + boot_secs) * 1000;
        assert!(error_ms.abs() <= boot_secs, "{step}: {error_ms} ms after {boot_secs} s");
        server.stop().await;
    }
}

#[tokio::test]
async fn steps_with_restarts_between_them_change_no_notice() {
    for steps in STEPS {
        let store = MemoryStore::new();
        let clocks = clocks();
        let mut server = Server::start_new(Box::new(store.clone()), &clocks).await;
        server.announce().await;
        for step in steps {
            clocks.step_wall_secs(*step);
            server.pass_secs(10).await;
            server.stop().await;
            clocks.pass_ms(5000);
            server = Server::start(Box::new(store.clone()), &clocks).await;
        }
        let notice = server.measure_notice(10 * steps.len() as i64).await;
        assert!((NOTICE..=NOTICE + 1).contains(&notice), "{steps:?}: {notice} s");
        assert!(server.is_group_on(), "{steps:?}");
        server.stop().await;
    }
}

#[tokio::test]
async fn a_step_across_a_reboot_changes_no_notice() {
    for step in [16 * 60, 3 * DAY, -HOUR] {
        let store = MemoryStore::new();
        let server = Server::start_new(Box::new(store.clone()), &clocks()).await;
        server.announce().await;
        server.pass_secs(60).await;
        server.stop().await;
        let rebooted = Arc::new(SimulatedClocks::new("boot-b", 20, WALL + 60 + step));
        let server = Server::start(Box::new(store), &rebooted).await;
        let notice = server.measure_notice(60).await;
        assert!((NOTICE..=NOTICE + 1).contains(&notice), "{step}: {notice} s");
        assert!(server.is_group_on(), "{step}");
        server.stop().await;
    }
}

#[tokio::test]
async fn after_a_reboot_the_wall_clock_is_trusted_but_time_does_not_go_back() {
    let store = MemoryStore::new();
    let server = Server::start_new(Box::new(store.clone()), &clocks()).await;
    server.announce().await;
    server.pass_secs(60).await;
    let stored = server.engine.now();
    server.stop().await;

    let behind = Arc::new(SimulatedClocks::new("boot-b", 20, WALL - HOUR));
    let server = Server::start(Box::new(store.clone()), &behind).await;
    assert_eq!(server.engine.now(), stored);
    assert_eq!(server.engine.problems().len(), 1);
    // Time advances although the wall clock will not reach it for an hour.
    let notice = server.measure_notice(60).await;
    assert!((NOTICE..=NOTICE + 1).contains(&notice), "{notice} s");
    server.stop().await;

    let ahead = Arc::new(SimulatedClocks::new("boot-c", 20, WALL + DAY));
    let server = Server::start(Box::new(store), &ahead).await;
    assert_eq!(server.engine.now(), Timestamp::from_secs(WALL + DAY));
    assert!(server.engine.problems().is_empty());
    assert!(server.is_group_on(), "time in which no server ran is not idle time");
    server.stop().await;
}

#[tokio::test]
async fn a_store_without_a_stamp_trusts_the_wall_clock() {
    let clocks = clocks();
    let server = Server::start(Box::new(MemoryStore::new()), &clocks).await;
    assert_eq!(server.engine.now(), Timestamp::from_secs(WALL));
    server.stop().await;
}

#[tokio::test]
async fn every_commit_stores_the_clocks() {
    let mut store = MemoryStore::new();
    let clocks = clocks();
    let server = Server::start_new(Box::new(store.clone()), &clocks).await;
    clocks.step_wall_secs(HOUR);
    server.pass_secs(70).await;
    server.announce().await;
    let stamp = store.clock_stamp().unwrap().expect("there is a stamp");
    assert_eq!((stamp.boot_id.as_str(), stamp.boot_ms), ("boot-a", 1_070_000));
    assert_eq!(stamp.time, server.engine.now());
    server.stop().await;
}

#[tokio::test]
async fn health_and_metrics_show_a_difference_of_more_than_5_seconds() {
    let clocks = clocks();
    let server = Server::start_new(Box::new(MemoryStore::new()), &clocks).await;
    assert!(server.engine.problems().is_empty());
    assert_eq!(server.ahead_seconds(), 0.0);

    clocks.step_wall_secs(5);
    assert!(server.engine.problems().is_empty());
    clocks.step_wall_secs(955);
    assert_eq!(server.ahead_seconds(), -960.0);
    let problems = server.engine.problems();
    assert!(problems.len() == 1 && problems[0].contains("960 s behind"), "{problems:?}");
    assert!(server.engine.is_healthy(), "a difference of the clocks does not prevent changes");

    clocks.step_wall_secs(-960 - HOUR);
    assert_eq!(server.ahead_seconds(), 3600.0);
    assert!(server.engine.problems()[0].contains("3600 s ahead"));
    clocks.step_wall_secs(HOUR);
    assert!(server.engine.problems().is_empty());
    server.stop().await;
}

#[tokio::test]
async fn time_converges_to_the_wall_clock() {
    let clocks = clocks();
    let server = Server::start_new(Box::new(MemoryStore::new()), &clocks).await;
    clocks.step_wall_secs(10);
    server.pass_secs(10).await;
    // 10 s at 500 ppm take 20,000 s.
    for _ in 0..999 {
        server.pass_secs(20).await;
    }
    let almost = server.ahead_seconds();
    assert!((-0.02..0.0).contains(&almost), "{almost}");
    for _ in 0..10 {
        server.pass_secs(20).await;
        assert!(server.ahead_seconds() <= 0.0);
    }
    assert_eq!(server.ahead_seconds(), 0.0);
    assert_eq!(server.engine.now().0, WALL * 1000 + 10_000 + (10 + 1009 * 20) * 1000);
    server.stop().await;
}

#[tokio::test]
async fn an_idle_event_group_turns_off_after_a_day_and_not_by_a_step() {
    let clocks = clocks();
    let server = Server::start_new(Box::new(MemoryStore::new()), &clocks).await;
    clocks.step_wall_secs(3 * DAY);
    server.pass_secs(60).await;
    assert!(server.is_group_on());
    clocks.step_wall_secs(-3 * DAY);
    server.pass_secs(DAY - 120).await;
    assert!(server.is_group_on());
    server.pass_secs(HOUR).await;
    assert!(!server.is_group_on());
    server.stop().await;
}

#[tokio::test]
async fn a_manual_clock_stores_no_stamp_and_reports_no_difference() {
    let mut store = MemoryStore::new();
    let clocks = clocks();
    let options = EngineOptions {
        clock: ClockSetting::Manual { start: Some(Timestamp::from_secs(1)) },
        system_clocks: clocks.clone(),
        rules: Settings::default(),
        history_kept: Duration::from_secs(86_400),
    };
    let (engine, writer) = open(options, Box::new(store.clone()), |_| Box::new(NoDriver)).await.unwrap();
    let server = Server { engine, writer, clocks };
    server.wake().await;
    assert_eq!(store.clock_stamp().unwrap(), None);
    assert_eq!((server.ahead_seconds(), server.engine.problems().len()), (0.0, 0));
    server.stop().await;
}
