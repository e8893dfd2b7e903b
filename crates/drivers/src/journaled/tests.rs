//! Tests of the journaled driver on a machine that exists only here, for what depends on neither libvirt nor QEMU.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forewarn_core::{Guid, Timestamp};

use super::driver::JournaledDriver;
use super::job::{Hypervisor, Job, LocatedMachine, MachineState, StageRecord, StepResult};
use super::journal::Entry;
use super::step::{Step, StepHook};
use crate::clock::Clock;
use crate::order::{Action, HostAddress, MachineDriver as _, Order, OrderId, Outcome, RebootMode, Refusal};

/// A hypervisor with one machine, which shuts down when asked.
struct OneMachine {
    state: Arc<Mutex<MachineState>>,
    hook: StepHook,
}

impl OneMachine {
    fn change(&self, to: MachineState) {
        *self.state.lock().unwrap() = to;
    }
}

type Done = StepResult<(), OneMachine>;
type Ended = StepResult<Outcome, OneMachine>;

impl Hypervisor for OneMachine {
    type Error = Infallible;
    type Machine = ();

    fn hook(&self) -> &StepHook {
        &self.hook
    }

    async fn inspect(&self, _machine: Guid) -> StepResult<Option<LocatedMachine<()>>, Self> {
        Ok(Some(LocatedMachine { machine: (), state: self.state.lock().unwrap().clone() }))
    }

    async fn read_stage(&self, entry: &Entry, _machine: &()) -> StepResult<Option<StageRecord>, Self> {
        Ok(entry.reached)
    }

    async fn record(&self, _entry: &Entry, _machine: &(), _reached: StageRecord) -> Done {
        Ok(())
    }

    async fn clear(&self, _entry: &Entry) -> Result<(), Infallible> {
        Ok(())
    }

    fn forget_connection(&self, _machine: Guid, _error: &Infallible) {}

    async fn suspend(&self, _machine: &()) -> Done {
        self.change(MachineState::Paused);
        Ok(())
    }

    async fn resume(&self, _machine: &()) -> Done {
        self.change(MachineState::Running);
        Ok(())
    }

    async fn reset(&self, _machine: &()) -> Done {
        Ok(())
    }

    async fn start(job: &Job<'_, Self>, _machine: &()) -> Done {
        job.hypervisor.change(MachineState::Running);
        Ok(())
    }

    async fn shutdown(&self, _machine: &()) -> Done {
        self.change(MachineState::Off);
        Ok(())
    }

    async fn destroy(&self, _machine: &()) -> Done {
        self.change(MachineState::Off);
        Ok(())
    }

    async fn end_process(&self, _machine: &()) -> Done {
        Ok(())
    }

    async fn check_persistent(&self, _machine: &()) -> Done {
        Ok(())
    }

    async fn migrate(_job: &mut Job<'_, Self>, _to: &HostAddress) -> Ended {
        unreachable!("no test migrates")
    }

    async fn redeploy(_job: &mut Job<'_, Self>, _to: &HostAddress) -> Ended {
        unreachable!("no test redeploys")
    }

    async fn evict(_job: &mut Job<'_, Self>) -> Ended {
        unreachable!("no test evicts")
    }

    async fn terminate(_job: &mut Job<'_, Self>) -> Ended {
        unreachable!("no test terminates")
    }

    fn can_give_up(&self, _entry: &Entry) -> bool {
        true
    }
}

/// A machine with a journal, and the programs that drive it, one after the other.
struct Bench {
    dir: tempfile::TempDir,
    state: Arc<Mutex<MachineState>>,
    /// The boot of the host, and its wall clock as programs that start now find it.
    boot: &'static str,
    clock: Clock,
}

impl Bench {
    fn new() -> Bench {
        let state = Arc::new(Mutex::new(MachineState::Running));
        Bench { dir: tempfile::tempdir().unwrap(), state, boot: "a", clock: Clock::of_program() }
    }

    fn set_clock(&mut self, by_secs: i64) {
        self.clock.offset_ms += by_secs * 1000;
    }

    fn open(&self) -> Arc<JournaledDriver<OneMachine>> {
        self.open_with(Arc::new(|_| {}))
    }

    fn open_with(&self, hook: StepHook) -> Arc<JournaledDriver<OneMachine>> {
        let machine = OneMachine { state: self.state.clone(), hook };
        Arc::new(JournaledDriver::with_clock(machine, self.dir.path(), Some(self.boot.into()), self.clock).unwrap())
    }

    fn state(&self) -> MachineState {
        self.state.lock().unwrap().clone()
    }

    /// Performs an order with a program that ends before a step.
    async fn crash_before(&self, order: &Order, step: Step) {
        let hook = move |reached: Step| {
            if reached == step {
                std::panic::panic_any(());
            }
        };
        let driver = self.open_with(Arc::new(hook));
        let order = order.clone();
        assert!(tokio::spawn(async move { driver.perform(order).await }).await.is_err(), "the order has no {step:?}");
    }
}

fn order(event: u128, action: Action, epoch: u64) -> Order {
    let id = OrderId { event: Guid(event), machine: Guid(1) };
    let deadline = Timestamp(i64::MAX / 2);
    Order { id, name: "web1".into(), action, term: 1, epoch: Some(epoch), deadline }
}

const LONG_FREEZE: Action = Action::Freeze { duration: Duration::from_secs(3600) };

fn is_abandoned(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(reason) if reason.contains("fenced"))
}

#[tokio::test(start_paused = true)]
async fn orders_in_progress_end_when_the_host_learns_of_another_epoch() {
    let bench = Bench::new();
    let driver = bench.open();
    driver.set_epoch(0).unwrap();
    let freeze = order(1, LONG_FREEZE, 0);
    let task = tokio::spawn({
        let (driver, freeze) = (driver.clone(), freeze.clone());
        async move { driver.perform(freeze).await }
    });
    while bench.state() != MachineState::Paused {
        tokio::task::yield_now().await;
    }
    driver.set_epoch(0).unwrap();
    tokio::task::yield_now().await;
    assert!(!task.is_finished() && bench.state() == MachineState::Paused, "the epoch is the same");
    driver.set_epoch(1).unwrap();
    assert!(is_abandoned(&task.await.unwrap().unwrap()));
    assert_eq!(bench.state(), MachineState::Running);

    // The server gives the same order again, for example a deletion.
    let again = Order { epoch: Some(1), ..order(1, Action::Reboot(RebootMode::Hard), 0) };
    let refusal = driver.perform(again.clone()).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Busy(id) if id == again.id), "the first one is not reported yet: {refusal}");
    driver.confirm(again.id).unwrap();
    assert_eq!(driver.perform(again.clone()).await.unwrap(), Outcome::Done);
    driver.confirm(again.id).unwrap();
    let refusal = driver.perform(order(2, LONG_FREEZE, 0)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::OtherEpoch { epoch: 0, current: 1 }), "{refusal}");
}

#[tokio::test(start_paused = true)]
async fn an_order_of_another_epoch_starts_no_machine_after_a_restart() {
    let bench = Bench::new();
    let begun = order(1, Action::Reboot(RebootMode::Graceful), 0);
    bench.crash_before(&begun, Step::Start).await;
    assert_eq!(bench.state(), MachineState::Off);
    // This program ends before it performs the order.
    bench.open().set_epoch(1).unwrap();
    let driver = bench.open();
    let [unfinished] = &driver.unfinished().unwrap()[..] else { panic!("the order is in the journal") };
    assert!(driver.can_continue(unfinished.id));
    assert!(is_abandoned(&driver.perform(unfinished.clone()).await.unwrap()));
    assert_eq!(bench.state(), MachineState::Off, "it may run on another host");
}

#[tokio::test(start_paused = true)]
async fn orders_of_an_earlier_version_count_as_current() {
    let bench = Bench::new();
    let begun = Order { epoch: None, ..order(1, Action::Reboot(RebootMode::Graceful), 0) };
    bench.crash_before(&begun, Step::Start).await;
    let driver = bench.open();
    driver.set_epoch(3).unwrap();
    let sent = Order { epoch: Some(3), ..begun };
    assert_eq!(driver.perform(sent).await.unwrap(), Outcome::Done);
    assert_eq!(bench.state(), MachineState::Running);
}

const HOUR: i64 = 3600;

/// An order with ten minutes left.
fn due_soon(bench: &Bench, action: Action) -> Order {
    Order { deadline: bench.clock.now() + TEN_MINUTES, ..order(1, action, 0) }
}

const TEN_MINUTES: Duration = Duration::from_secs(600);

/// The time left of the only order in the journal, as a program that starts now finds it.
fn time_left(bench: &Bench) -> Duration {
    let [unfinished] = &bench.open().unfinished().unwrap()[..] else { panic!("the order is in the journal") };
    unfinished.deadline.since(bench.clock.now())
}

#[tokio::test(start_paused = true)]
async fn setting_the_clock_between_two_runs_changes_no_deadline() {
    for by_secs in [HOUR, -HOUR] {
        let mut bench = Bench::new();
        let reboot = due_soon(&bench, Action::Reboot(RebootMode::Hard));
        bench.crash_before(&reboot, Step::Reset).await;
        bench.set_clock(by_secs);
        let left = time_left(&bench);
        assert!(left <= TEN_MINUTES && left > TEN_MINUTES / 2, "{left:?}");
        // Then it is set again: the journal still has the clock of the first program.
        bench.set_clock(by_secs);
        assert!(time_left(&bench) <= left);
        let [unfinished] = &bench.open().unfinished().unwrap()[..] else { panic!("the order is in the journal") };
        let outcome = bench.open().perform(unfinished.clone()).await.unwrap();
        assert_eq!((outcome, bench.state()), (Outcome::Done, MachineState::Running), "by {by_secs} s");
    }
}

#[tokio::test(start_paused = true)]
async fn setting_the_clock_between_two_runs_ends_no_pause() {
    let mut bench = Bench::new();
    bench.crash_before(&order(1, LONG_FREEZE, 0), Step::Wait).await;
    bench.set_clock(2 * HOUR);
    let waiting = Arc::new(tokio::sync::Notify::new());
    let notify = waiting.clone();
    let hook = move |step| {
        if step == Step::Wait {
            notify.notify_one();
        }
    };
    let driver = bench.open_with(Arc::new(hook));
    let [unfinished] = &driver.unfinished().unwrap()[..] else { panic!("the order is in the journal") };
    let (performing, task) = (driver.clone(), unfinished.clone());
    let task = tokio::spawn(async move { performing.perform(task).await });
    tokio::select! {
        () = waiting.notified() => {}
        () = tokio::time::sleep(TEN_MINUTES) => panic!("the pause has ended"),
    }
    driver.abort(unfinished.id);
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Failed("aborted".into()));
    assert_eq!(bench.state(), MachineState::Running);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_of_the_host_deadlines_are_on_its_wall_clock() {
    let mut bench = Bench::new();
    let reboot = due_soon(&bench, Action::Reboot(RebootMode::Hard));
    bench.crash_before(&reboot, Step::Reset).await;
    (bench.boot, bench.clock) = ("b", Clock { offset_ms: bench.clock.offset_ms + 1000 * HOUR });
    let [unfinished] = &bench.open().unfinished().unwrap()[..] else { panic!("the order is in the journal") };
    assert!(!bench.open().can_continue(unfinished.id), "it waits for the server, which states its deadline again");
    assert_eq!(unfinished.deadline, reboot.deadline);
    let sent = due_soon(&bench, Action::Reboot(RebootMode::Hard));
    assert_eq!(bench.open().perform(sent).await.unwrap(), Outcome::Done);
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_order_keeps_its_deadline_when_the_clock_is_set() {
    let mut bench = Bench::new();
    let stop = due_soon(&bench, Action::Stop);
    bench.crash_before(&stop, Step::Shutdown).await;
    bench.set_clock(HOUR);
    let withdrawn = Order { action: Action::Withdraw, deadline: bench.clock.now() + 3 * TEN_MINUTES, ..stop };
    assert_eq!(bench.open().perform(withdrawn).await.unwrap(), Outcome::Done);
    let left = time_left(&bench);
    assert!(left <= TEN_MINUTES && left > TEN_MINUTES / 2, "{left:?}");
}
