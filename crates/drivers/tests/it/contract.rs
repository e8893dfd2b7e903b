//! The contract of the libvirt driver, on machines of libvirt's test driver: refusals, the journal, early ends, and
//! stops of the program.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use forewarn_core::{Guid, Timestamp};
use forewarn_drivers::libvirt::{LibvirtConfig, LibvirtDriver, PeerState, Peers, UnknownRecord};
use forewarn_drivers::{
    Action, HostAddress, MachineDriver, Order, OrderBook, OrderId, OrderRunner, Outcome, Pending, RebootMode, Refusal,
    ReportResult, Step, StepHook,
};
use forewarn_libvirt::{Affect, Connection, DefineFlags, DestroyFlags, Domain, ErrorCode, State, Target, Uuid};
use forewarn_test_support::TestLibvirtd;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

pub const MACHINE: &str = "6695eb01-f6a4-8304-79aa-97f2502e193f";

pub const URI: &str = "https://forewarn.dev/libvirt";

/// Longer than any test waits.
pub const LONG: Duration = Duration::from_secs(600);

struct NoPeers;

impl Peers for NoPeers {
    fn state_of(&self, _host: &str, _machine: Guid) -> Pending<'_, PeerState> {
        Box::pin(async { PeerState::Unknown })
    }
}

/// A driver, and a connection that shows what it does.
pub struct Bench {
    pub daemon: TestLibvirtd,
    pub connection: Connection,
    pub domain: Domain,
    pub dir: TempDir,
    pub driver: Arc<LibvirtDriver>,
    pub steps: Arc<Mutex<Vec<Step>>>,
}

impl Bench {
    pub async fn start() -> Option<Bench> {
        let daemon = TestLibvirtd::start()?;
        let target = Target::new(daemon.socket(), "test:///default");
        let (connection, _events) = target.connect().await.unwrap();
        let domain = connection.domain_by_name("test").await.unwrap();
        let dir = TempDir::new().unwrap();
        let steps = Arc::new(Mutex::new(Vec::new()));
        let driver = Arc::new(open(&target, &dir.path().join("journal"), steps.clone()));
        Some(Bench { daemon, connection, domain, dir, driver, steps })
    }

    pub async fn state(&self) -> State {
        self.connection.state(&self.domain).await.unwrap().state
    }

    pub async fn element(&self) -> Option<String> {
        self.connection.metadata(&self.domain, URI, Affect::CONFIG).await.unwrap()
    }

    /// Performs an order in the background, and returns once its machine is paused.
    pub async fn begin(&self, order: Order) -> tokio::task::JoinHandle<Result<Outcome, Refusal>> {
        let driver = self.driver.clone();
        let task = tokio::spawn(async move { driver.perform(order).await });
        // The machine is paused before that is recorded. The freeze goes on after the record.
        while !self.steps.lock().unwrap().contains(&Step::Wait) {
            assert!(!task.is_finished(), "the order ended before the machine was frozen");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(self.state().await, State::Paused);
        task
    }

    /// Runs an order as the server does, and stops gracefully while its machine is held.
    async fn run_until_held_and_stop(&self, order: Order) {
        let stop = CancellationToken::new();
        let runner = OrderRunner { driver: self.driver.clone(), book: Arc::new(OneOrder(order)) };
        let task = tokio::spawn(runner.run(stop.clone()));
        while !self.steps.lock().unwrap().contains(&Step::Wait) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(self.state().await, State::Paused);
        stop.cancel();
        task.await.unwrap();
    }
}

/// One order, and a server that cannot be reached for its report.
struct OneOrder(Order);

impl OrderBook for OneOrder {
    fn orders(&self) -> Option<Vec<Order>> {
        Some(vec![self.0.clone()])
    }

    fn is_barred(&self) -> bool {
        false
    }

    fn epoch(&self) -> Option<u64> {
        self.0.epoch
    }

    fn term(&self) -> u64 {
        self.0.term
    }

    fn changed(&self) -> Pending<'_, ()> {
        Box::pin(std::future::pending())
    }

    fn report(&self, _order: &Order, _outcome: Outcome) -> Pending<'_, ReportResult> {
        Box::pin(std::future::pending())
    }

    fn observe(&self, _order: &Order, _outcome: &Outcome) {}
}

pub fn open(target: &Target, journal: &Path, steps: Arc<Mutex<Vec<Step>>>) -> LibvirtDriver {
    open_with(target, journal, Arc::new(move |step| steps.lock().unwrap().push(step)))
}

pub fn open_with(target: &Target, journal: &Path, hook: StepHook) -> LibvirtDriver {
    LibvirtDriver::open(LibvirtConfig {
        host: "host1".into(),
        target: target.clone(),
        journal: journal.to_owned(),
        pools: vec!["default-pool".into()],
        peers: Arc::new(NoPeers),
        hook,
    })
    .unwrap()
}

pub fn order(event: u128, action: Action) -> Order {
    let machine = Guid(u128::from_be_bytes(MACHINE.parse::<Uuid>().unwrap().0));
    let id = OrderId { event: Guid::from_random_bits(event), machine };
    Order { id, name: "test".into(), action, term: 5, epoch: Some(0), deadline: after(LONG) }
}

pub fn after(duration: Duration) -> Timestamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    Timestamp(i64::try_from((now + duration).as_millis()).unwrap())
}

pub fn freeze(event: u128, duration: Duration) -> Order {
    order(event, Action::Freeze { duration })
}

#[tokio::test]
async fn a_freeze_takes_its_steps_in_order_and_leaves_no_record() {
    let Some(bench) = Bench::start().await else { return };
    let order = freeze(1, Duration::from_secs(1));
    assert_eq!(bench.driver.perform(order.clone()).await.unwrap(), Outcome::Done);
    use Step::{Clear, RecordBegun, RecordDone, RecordHeld, RecordOutcome, Resume, Suspend, Wait};
    let expected = [RecordBegun, Suspend, RecordHeld, Wait, RecordDone, Resume, RecordOutcome, Clear];
    assert_eq!(*bench.steps.lock().unwrap(), expected);
    assert_eq!(bench.state().await, State::Running);
    assert_eq!(bench.element().await, None);

    assert_eq!(bench.driver.perform(order.clone()).await.unwrap(), Outcome::Done, "the recorded outcome");
    assert_eq!(bench.steps.lock().unwrap().len(), expected.len() + 1, "only the record is looked for again");
    assert_eq!(bench.driver.unfinished().unwrap(), std::slice::from_ref(&order));
    bench.driver.confirm(order.id).unwrap();
    assert_eq!(bench.driver.unfinished().unwrap(), []);
}

#[tokio::test]
async fn a_machine_has_one_order_at_a_time() {
    let Some(bench) = Bench::start().await else { return };
    let first = freeze(1, LONG);
    let task = bench.begin(first.clone()).await;
    let second = order(2, Action::Terminate);
    assert!(matches!(bench.driver.perform(second.clone()).await, Err(Refusal::Busy(id)) if id == first.id));
    bench.driver.confirm(first.id).unwrap();
    assert_eq!(
        bench.driver.unfinished().unwrap(),
        std::slice::from_ref(&first),
        "an order in progress cannot be confirmed"
    );
    bench.driver.abort(second.id);
    bench.driver.abort(first.id);
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Failed("aborted".into()));
    assert_eq!(bench.state().await, State::Running, "an aborted order leaves no machine paused");
    assert!(matches!(bench.driver.perform(second.clone()).await, Err(Refusal::Busy(_))), "not confirmed yet");
    bench.driver.confirm(first.id).unwrap();
    assert_eq!(bench.driver.perform(second).await.unwrap(), Outcome::Gone);
}

#[tokio::test]
async fn lower_terms_are_refused_even_after_a_restart() {
    let Some(bench) = Bench::start().await else { return };
    let newer = Order { term: 9, ..freeze(1, Duration::from_millis(1)) };
    bench.driver.perform(newer.clone()).await.unwrap();
    bench.driver.confirm(newer.id).unwrap();
    let older = Order { term: 8, ..freeze(2, Duration::from_millis(1)) };
    let target = Target::new(bench.daemon.socket(), "test:///default");
    let again = open(&target, &bench.dir.path().join("journal"), Arc::default());
    for driver in [&bench.driver, &again] {
        let refusal = driver.perform(older.clone()).await.unwrap_err();
        assert!(matches!(refusal, Refusal::LowerTerm { term: 8, highest: 9 }), "{refusal}");
    }
    assert_eq!(bench.driver.unfinished().unwrap(), []);
}

/// The host has joined again, or its copy is damaged: the term is unknown.
#[tokio::test]
async fn an_order_that_was_begun_continues_with_an_unknown_term() {
    let Some(bench) = Bench::start().await else { return };
    let frozen = freeze(1, Duration::from_secs(1));
    let task = bench.begin(frozen.clone()).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    let target = Target::new(bench.daemon.socket(), "test:///default");
    let journal = bench.dir.path().join("journal");
    let again = open(&target, &journal, Arc::default());
    assert_eq!(again.perform(Order { term: 0, ..frozen.clone() }).await.unwrap(), Outcome::Done);
    assert_eq!(bench.state().await, State::Running);
    assert_eq!(again.unfinished().unwrap()[0].term, frozen.term, "the term does not fall");
    let refusal = again.perform(Order { term: 0, ..freeze(2, LONG) }).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Busy(_)), "{refusal}");
    again.confirm(frozen.id).unwrap();
    let refusal = again.perform(Order { term: 0, ..freeze(2, LONG) }).await.unwrap_err();
    assert!(matches!(refusal, Refusal::LowerTerm { term: 0, highest: 5 }), "{refusal}");
}

#[tokio::test]
async fn the_deadline_ends_a_freeze_and_resumes_the_machine() {
    let Some(bench) = Bench::start().await else { return };
    let short = Order { deadline: after(Duration::from_millis(300)), ..freeze(1, LONG) };
    let outcome = bench.driver.perform(short).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the deadline has passed".into()));
    assert_eq!(bench.state().await, State::Running);
    let late = Order { deadline: after(Duration::ZERO), ..order(1, Action::Reboot(RebootMode::Hard)) };
    bench.driver.confirm(late.id).unwrap();
    bench.steps.lock().unwrap().clear();
    let outcome = bench.driver.perform(late).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the deadline has passed".into()));
    assert_eq!(*bench.steps.lock().unwrap(), [Step::RecordOutcome, Step::Clear], "nothing was begun");
}

#[tokio::test]
async fn a_journal_that_cannot_be_written_leaves_no_machine_paused() {
    let Some(bench) = Bench::start().await else { return };
    let journal = bench.dir.path().join("journal");
    let frozen = freeze(1, Duration::from_secs(3));
    let task = bench.begin(frozen.clone()).await;
    std::fs::remove_dir_all(&journal).unwrap();
    while bench.state().await == State::Paused {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let refusal = bench.driver.perform(order(2, Action::Terminate)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Busy(_)), "{refusal}");
    std::fs::create_dir(&journal).unwrap();
    let outcome = task.await.unwrap().unwrap();
    assert!(matches!(&outcome, Outcome::Failed(reason) if reason.starts_with("cannot write the journal")), "{outcome}");
    assert_eq!(bench.element().await, None);

    bench.driver.confirm(frozen.id).unwrap();
    std::fs::remove_dir_all(&journal).unwrap();
    let refusal = bench.driver.perform(order(2, Action::Terminate)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Journal(_)), "{refusal}");
    assert_eq!(bench.state().await, State::Running, "nothing was begun");
}

#[tokio::test]
async fn machines_that_do_not_run_are_not_frozen() {
    let Some(bench) = Bench::start().await else { return };
    bench.connection.suspend(&bench.domain).await.unwrap();
    let outcome = bench.driver.perform(freeze(1, Duration::from_millis(1))).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the machine is paused, and not by this order".into()));
    assert_eq!(bench.state().await, State::Paused, "paused by its owner, and still so");
    let id = freeze(1, LONG).id;
    bench.driver.confirm(id).unwrap();
    bench.connection.destroy(&bench.domain, DestroyFlags::NONE).await.unwrap();
    let outcome = bench.driver.perform(freeze(2, Duration::from_millis(1))).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the machine is not running".into()));
}

#[tokio::test]
async fn records_without_an_order_are_removed_and_named() {
    let Some(bench) = Bench::start().await else { return };
    let held = freeze(1, LONG);
    let task = bench.begin(held.clone()).await;
    // The record is written after the machine is paused.
    let mut element = None;
    while !element.as_deref().is_some_and(|element: &str| element.contains("step=\"held\"")) {
        element = bench.element().await;
    }
    let xml = "<domain type='test'><name>clone</name><memory>1024</memory><os><type>hvm</type></os></domain>";
    let clone = bench.connection.define(xml, DefineFlags::NONE).await.unwrap();
    let copy = element.as_deref();
    bench.connection.set_metadata(&clone, copy, "forewarn", URI, Affect::CONFIG).await.unwrap();

    let unknown = bench.driver.clear_unknown_records().await.unwrap();
    assert_eq!(unknown, [UnknownRecord { domain: "clone".into(), order: Some(held.id), target: None }]);
    assert_eq!(bench.connection.metadata(&clone, URI, Affect::CONFIG).await.unwrap(), None);
    assert_eq!(bench.element().await, element, "the record of an order in progress stays");
    bench.driver.abort(held.id);
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_graceful_reboot_shuts_down_and_starts() {
    let Some(bench) = Bench::start().await else { return };
    let outcome = bench.driver.perform(order(1, Action::Reboot(RebootMode::Graceful))).await.unwrap();
    assert_eq!(outcome, Outcome::Done);
    use Step::{Clear, RecordBegun, RecordDown, RecordOutcome, Shutdown, Start};
    assert_eq!(*bench.steps.lock().unwrap(), [RecordBegun, Shutdown, RecordDown, Start, RecordOutcome, Clear]);
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

#[tokio::test]
async fn a_machine_whose_redeploy_is_refused_runs_on_at_its_host() {
    let Some(bench) = Bench::start().await else { return };
    // The test driver cannot migrate.
    let to = HostAddress { name: "host2".into(), uri: "test:///default".into(), data_uri: None };
    let outcome = bench.driver.perform(order(1, Action::Redeploy { to })).await.unwrap();
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome}");
    assert!(bench.steps.lock().unwrap().contains(&Step::MoveDefinition));
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

#[tokio::test]
async fn the_redeploy_of_a_stopped_machine_moves_its_definition_and_starts_nothing() {
    let Some(bench) = Bench::start().await else { return };
    bench.connection.destroy(&bench.domain, DestroyFlags::NONE).await.unwrap();
    let to = HostAddress { name: "host2".into(), uri: "test:///default".into(), data_uri: None };
    let outcome = bench.driver.perform(order(1, Action::Redeploy { to })).await.unwrap();
    use Step::{Clear, MoveDefinition, RecordBegun, RecordDown, RecordOutcome};
    let expected = [RecordBegun, RecordDown, MoveDefinition, RecordOutcome, Clear];
    assert_eq!(*bench.steps.lock().unwrap(), expected, "{outcome}");
    // The test driver cannot migrate, so the machine is still here.
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome}");
    assert_eq!((bench.state().await, bench.element().await), (State::ShutOff, None), "it stays as it was");
}

#[tokio::test]
async fn a_terminated_machine_is_gone_from_its_host() {
    let Some(bench) = Bench::start().await else { return };
    assert_eq!(bench.driver.perform(order(1, Action::Terminate)).await.unwrap(), Outcome::Gone);
    let error = bench.connection.domain_by_name("test").await.unwrap_err();
    assert!(error.is(ErrorCode::NO_DOMAIN));
    let again =
        open(&Target::new(bench.daemon.socket(), "test:///default"), &bench.dir.path().join("journal"), Arc::default());
    assert_eq!(again.perform(order(1, Action::Terminate)).await.unwrap(), Outcome::Gone, "also after a restart");
}

#[tokio::test]
async fn a_stop_resumes_a_frozen_machine_and_the_order_ends_after_the_next_start() {
    let Some(bench) = Bench::start().await else { return };
    let frozen = freeze(1, LONG);
    bench.run_until_held_and_stop(frozen.clone()).await;
    assert_eq!(bench.state().await, State::Running, "no machine stays paused");
    assert_eq!(bench.driver.unfinished().unwrap(), std::slice::from_ref(&frozen), "the report is still due");

    let target = Target::new(bench.daemon.socket(), "test:///default");
    let steps = Arc::new(Mutex::new(Vec::new()));
    let again = open(&target, &bench.dir.path().join("journal"), steps.clone());
    assert_eq!(again.perform(frozen).await.unwrap(), Outcome::Done);
    assert_eq!(*steps.lock().unwrap(), [Step::Clear], "the machine is not paused again");
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

#[tokio::test]
async fn a_stop_waits_for_the_end_of_a_short_freeze() {
    let Some(bench) = Bench::start().await else { return };
    let begun = std::time::Instant::now();
    let duration = Duration::from_millis(1_000);
    bench.run_until_held_and_stop(freeze(1, duration)).await;
    assert!(begun.elapsed() >= duration, "stopped after {:?}", begun.elapsed());
    assert_eq!(bench.state().await, State::Running);
}

#[tokio::test]
async fn an_order_that_begins_during_a_stop_pauses_nothing() {
    let Some(bench) = Bench::start().await else { return };
    bench.driver.release().await;
    let (driver, late) = (bench.driver.clone(), freeze(1, Duration::from_millis(1)));
    let task = tokio::spawn(async move { driver.perform(late).await });
    while bench.steps.lock().unwrap().is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    bench.driver.release().await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert!(!bench.steps.lock().unwrap().contains(&Step::Suspend));
    let target = Target::new(bench.daemon.socket(), "test:///default");
    let again = open(&target, &bench.dir.path().join("journal"), bench.steps.clone());
    assert_eq!(again.perform(freeze(1, Duration::from_millis(1))).await.unwrap(), Outcome::Done);
    assert!(bench.steps.lock().unwrap().contains(&Step::Suspend), "the order is carried out after the next start");
}
