//! The QEMU driver on real QEMU processes without a guest: every action, a crash at every step, and a QEMU that is dead,
//! busy or another one. `cargo xtask accept qemu` runs the driver on guests.

use std::panic::panic_any;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use forewarn_core::{Guid, Timestamp};
use forewarn_drivers::qemu::{QemuConfig, QemuDriver};
use forewarn_drivers::{
    Action, Eviction, HostAddress, MachineDriver as _, Order, OrderId, Outcome, RebootMode, Refusal, Step, StepHook,
    WatchedDriver as _,
};

use crate::perform::HOLD;
use crate::qemu_process::{Guest, TestQemu, UUID};

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(600);

/// A guest that ignores its power button is powered off ten seconds before the deadline.
const SOON: Duration = Duration::from_millis(10_300);

fn order(event: u128, action: Action, deadline: Duration) -> Order {
    let machine = Guid(u128::from_str_radix(&UUID.replace('-', ""), 16).unwrap());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let deadline = Timestamp(i64::try_from((now + deadline).as_millis()).unwrap());
    let id = OrderId { event: Guid::from_random_bits(event), machine };
    Order { id, name: "web1".into(), action, term: 5, epoch: Some(0), deadline }
}

fn freeze(ms: u64) -> Action {
    Action::Freeze { duration: Duration::from_millis(ms) }
}

fn open_with(qemu: &TestQemu, hook: StepHook) -> Arc<QemuDriver> {
    let config = QemuConfig { machines: qemu.file(), journal: qemu.path("journal"), hook };
    Arc::new(QemuDriver::open(config).unwrap())
}

fn open(qemu: &TestQemu) -> Arc<QemuDriver> {
    open_with(qemu, Arc::new(|_| {}))
}

/// Performs an order in a driver that crashes before a step. Fails if the order does not have the step.
async fn crash_before(qemu: &TestQemu, order: &Order, step: Step) {
    let has_crashed = Arc::new(AtomicBool::new(false));
    let crashed = has_crashed.clone();
    let hook = move |reached: Step| {
        if reached == step {
            crashed.store(true, Ordering::Relaxed);
            // Not `panic!`, which would print a message for every step.
            panic_any(());
        }
    };
    let driver = open_with(qemu, Arc::new(hook));
    let performing = order.clone();
    let task = tokio::spawn(async move { driver.perform(performing).await });
    assert!(task.await.is_err() && has_crashed.load(Ordering::Relaxed), "{:?} has the step {step:?}", order.action);
}

/// Crashes before a step, then performs the order with a new driver.
async fn survive(qemu: &TestQemu, action: &Action, deadline: Duration, step: Step) -> Outcome {
    let order = order(1, action.clone(), deadline);
    crash_before(qemu, &order, step).await;
    let driver = open(qemu);
    let unfinished = driver.unfinished().unwrap();
    assert_eq!(unfinished.iter().map(|order| order.id).collect::<Vec<_>>(), [order.id], "{step:?}");
    let outcome = driver.perform(order.clone()).await.unwrap();
    driver.confirm(order.id).unwrap();
    assert_eq!(driver.unfinished().unwrap(), []);
    outcome
}

#[tokio::test]
async fn a_freeze_survives_a_crash_at_every_step() {
    for step in HOLD.into_iter().chain([Step::Wait]) {
        let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
        // Long enough that a busy machine is still waiting.
        let freeze = freeze(if step == Step::Wait { 3000 } else { 100 });
        assert_eq!(survive(&qemu, &freeze, LONG, step).await, Outcome::Done, "{step:?}");
        assert_eq!(qemu.status(), "running", "{step:?}");
        qemu.wait("the resume", || qemu.seen().count("RESUME") == 1);
        assert_eq!((qemu.seen().processes, qemu.seen().count("RESET")), (1, 0), "{step:?}");
    }
}

#[tokio::test]
async fn a_reboot_survives_a_crash_at_every_step() {
    for step in HOLD.into_iter().chain([Step::Reset]) {
        let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
        let outcome = survive(&qemu, &Action::Reboot(RebootMode::Hard), LONG, step).await;
        assert_eq!((outcome, &*qemu.status()), (Outcome::Done, "running"), "{step:?}");
        qemu.wait("the resume", || qemu.seen().count("RESUME") >= 1);
        let seen = qemu.seen();
        // A reset of a paused machine can be repeated: it boots when it is resumed, once.
        assert!(seen.count("RESET") >= 1 && seen.count("RESUME") == 1 && seen.processes == 1, "{step:?}: {seen:?}");
    }
}

#[tokio::test]
async fn a_graceful_reboot_survives_a_crash_at_every_step() {
    let steps = [
        (Guest::ShutsDown, LONG, Step::RecordBegun),
        (Guest::ShutsDown, LONG, Step::Shutdown),
        (Guest::Ignores, SOON, Step::Destroy),
        (Guest::ShutsDown, LONG, Step::RecordDown),
        (Guest::ShutsDown, LONG, Step::Start),
        (Guest::ShutsDown, LONG, Step::AwaitStart),
        (Guest::ShutsDown, LONG, Step::RecordOutcome),
        (Guest::ShutsDown, LONG, Step::Clear),
    ];
    for (guest, deadline, step) in steps {
        let Some(qemu) = TestQemu::started(guest) else { return };
        let outcome = survive(&qemu, &Action::Reboot(RebootMode::Graceful), deadline, step).await;
        assert_eq!((outcome, &*qemu.status()), (Outcome::Done, "running"), "{step:?}");
        qemu.wait("the second process", || qemu.seen().processes == 2);
    }
}

#[tokio::test]
async fn a_stop_survives_a_crash_at_every_step_and_powers_off_a_guest_that_does_not_shut_down() {
    let steps = [
        (Guest::ShutsDown, LONG, Step::RecordBegun),
        (Guest::ShutsDown, LONG, Step::Shutdown),
        (Guest::Ignores, SOON, Step::Destroy),
        (Guest::ShutsDown, LONG, Step::RecordDown),
        (Guest::ShutsDown, LONG, Step::RecordOutcome),
        (Guest::ShutsDown, LONG, Step::Clear),
    ];
    for (guest, deadline, step) in steps {
        let Some(qemu) = TestQemu::started(guest) else { return };
        let outcome = survive(&qemu, &Action::Stop, deadline, step).await;
        assert_eq!((outcome, &*qemu.status()), (Outcome::Done, "off"), "{step:?}");
        assert_eq!(qemu.seen().processes, 1, "{step:?}");
        let again = open(&qemu).perform(order(2, Action::Stop, LONG)).await.unwrap();
        assert_eq!(again, Outcome::Done, "a machine that is off is stopped");
        assert!(qemu.path("named.img").exists() && !qemu.path("cleaned").exists(), "nothing is deleted");
    }
}

#[tokio::test]
async fn a_stop_that_has_begun_ends_before_its_withdrawal_is_reported() {
    let Some(qemu) = TestQemu::started(Guest::ShutsDown) else { return };
    let begun = Order { deadline: Order::DEADLINE_OPEN, ..order(1, Action::Stop, LONG) };
    crash_before(&qemu, &begun, Step::Shutdown).await;
    let driver = open(&qemu);
    let [unfinished] = &driver.unfinished().unwrap()[..] else { panic!("the order is in the journal") };
    assert!(unfinished.deadline < Order::DEADLINE_OPEN, "its time began when it was accepted");
    let withdrawn = Order { action: Action::Withdraw, ..begun.clone() };
    assert_eq!(driver.perform(withdrawn).await.unwrap(), Outcome::Done);
    assert_eq!(qemu.status(), "off", "the guest was asked to shut down, so the next order finds it off");
    driver.confirm(begun.id).unwrap();

    let waiting = order(2, Action::Withdraw, LONG);
    let outcome = driver.perform(waiting).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("withdrawn before it began".into()));
}

#[tokio::test]
async fn an_eviction_survives_a_crash_at_every_step() {
    for step in [Step::RecordBegun, Step::Shutdown, Step::RecordDown, Step::RecordOutcome, Step::Clear] {
        let Some(qemu) = TestQemu::started(Guest::ShutsDown) else { return };
        let outcome = survive(&qemu, &Action::Evict(Eviction::Deallocate), LONG, step).await;
        assert_eq!((outcome, &*qemu.status()), (Outcome::Done, "off"), "{step:?}");
        assert_eq!(qemu.seen().processes, 1, "{step:?}");
        assert!(qemu.path("named.img").exists() && !qemu.path("cleaned").exists(), "nothing is deleted");
    }
}

#[tokio::test]
async fn deletions_survive_a_crash_at_every_step_and_delete_only_named_disks() {
    let common = [Step::RecordBegun, Step::RecordDown, Step::Cleanup, Step::DeleteDisks, Step::RecordOutcome];
    let evict = common.into_iter().chain([Step::Shutdown]).map(|step| (Action::Evict(Eviction::Delete), step));
    let terminate = common.into_iter().chain([Step::Destroy]).map(|step| (Action::Terminate, step));
    for (action, step) in evict.chain(terminate) {
        let Some(qemu) = TestQemu::started(Guest::ShutsDown) else { return };
        assert_eq!(survive(&qemu, &action, LONG, step).await, Outcome::Gone, "{action:?} {step:?}");
        assert_eq!((&*qemu.status(), qemu.seen().processes), ("off", 1), "{action:?} {step:?}");
        assert!(!qemu.path("named.img").exists() && qemu.path("other.img").exists(), "{action:?} {step:?}");
        assert!(std::fs::read_to_string(qemu.path("cleaned")).unwrap().starts_with("web1\n"), "{action:?} {step:?}");
    }
}

#[tokio::test]
async fn a_machine_that_another_program_starts_is_powered_off_before_its_disks_are_deleted() {
    for action in [Action::Evict(Eviction::Delete), Action::Terminate] {
        let Some(qemu) = TestQemu::started(Guest::ShutsDown) else { return };
        let order = order(1, action.clone(), LONG);
        crash_before(&qemu, &order, Step::Cleanup).await;
        assert_eq!(qemu.status(), "off", "{action:?}");
        qemu.start();
        assert_eq!(open(&qemu).perform(order).await.unwrap(), Outcome::Gone, "{action:?}");
        assert_eq!((&*qemu.status(), qemu.seen().processes), ("off", 2), "{action:?}");
        assert!(!qemu.path("named.img").exists(), "{action:?}");
    }
}

#[tokio::test]
async fn a_machine_is_started_once_and_only_if_it_does_not_run() {
    for step in [Step::Start, Step::AwaitStart, Step::RecordOutcome] {
        let Some(qemu) = TestQemu::new(Guest::Ignores) else { return };
        assert_eq!(survive(&qemu, &Action::Start, LONG, step).await, Outcome::Done, "{step:?}");
        qemu.wait("the process", || qemu.seen().processes == 1);
        assert_eq!(open(&qemu).perform(order(2, Action::Start, LONG)).await.unwrap(), Outcome::Done);
        assert_eq!((&*qemu.status(), qemu.seen().processes), ("running", 1), "{step:?}");
    }
}

/// Performs an order in the background, and returns once its machine is paused.
async fn begin(
    qemu: &TestQemu,
    driver: &Arc<QemuDriver>,
    order: Order,
) -> tokio::task::JoinHandle<Result<Outcome, Refusal>> {
    let driver = driver.clone();
    let task = tokio::spawn(async move { driver.perform(order).await });
    while qemu.status() != "paused" {
        assert!(!task.is_finished(), "the order ended before the machine was paused");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    task
}

#[tokio::test]
async fn a_machine_that_another_program_resumes_fails_the_order() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let order = order(1, Action::Reboot(RebootMode::Hard), LONG);
    crash_before(&qemu, &order, Step::Reset).await;
    qemu.execute("cont");
    let outcome = open(&qemu).perform(order).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the machine was resumed by another program".into()));
    assert_eq!((&*qemu.status(), qemu.seen().count("RESET")), ("running", 0));
}

#[tokio::test]
async fn a_machine_that_dies_while_it_is_held_is_started() {
    let reboot = Action::Reboot(RebootMode::Hard);
    let failed = Outcome::Failed("the machine was shut off while it was frozen".into());
    for (action, step, expected) in [(reboot, Step::Reset, Outcome::Done), (freeze(60_000), Step::Wait, failed)] {
        let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
        let order = order(1, action, LONG);
        crash_before(&qemu, &order, step).await;
        qemu.execute("quit");
        qemu.wait("the end of the process", || qemu.status() == "off");
        assert_eq!(open(&qemu).perform(order).await.unwrap(), expected);
        assert_eq!(qemu.status(), "running");
    }
}

#[tokio::test]
async fn a_stop_resumes_a_frozen_machine_and_the_order_ends_after_the_next_start() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let driver = open(&qemu);
    let order = order(1, freeze(60_000), LONG);
    let task = begin(&qemu, &driver, order.clone()).await;
    driver.release().await;
    assert_eq!(qemu.status(), "running");
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Done);
    drop(driver);
    assert_eq!(open(&qemu).perform(order).await.unwrap(), Outcome::Done);
}

#[tokio::test]
async fn the_deadline_ends_a_freeze_and_resumes_the_machine() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let outcome = open(&qemu).perform(order(1, freeze(60_000), Duration::from_millis(300))).await.unwrap();
    assert_eq!(outcome, Outcome::Failed("the deadline has passed".into()));
    assert_eq!(qemu.status(), "running");
}

#[tokio::test]
async fn a_full_disk_leaves_no_machine_paused_even_after_a_crash() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let order = order(1, freeze(50), LONG);
    crash_before(&qemu, &order, Step::RecordHeld).await;
    assert_eq!(qemu.status(), "paused");
    // A directory with the name of the temporary file, so that no entry can be written.
    let obstacle = qemu.path("journal").join(format!("{UUID}.new"));
    std::fs::create_dir(&obstacle).unwrap();
    let driver = open(&qemu);
    let performing = order.clone();
    let task = tokio::spawn(async move { driver.perform(performing).await });
    while qemu.status() != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::remove_dir(&obstacle).unwrap();
    let outcome = task.await.unwrap().unwrap();
    assert!(matches!(&outcome, Outcome::Failed(reason) if reason.starts_with("cannot write the journal")), "{outcome}");

    std::fs::create_dir(&obstacle).unwrap();
    let driver = open(&qemu);
    driver.confirm(order.id).unwrap();
    let refusal = driver.perform(self::order(2, Action::Terminate, LONG)).await.unwrap_err();
    assert!(matches!(refusal, Refusal::Journal(_)), "{refusal}");
    assert_eq!(qemu.status(), "running", "nothing was begun");
}

async fn expect_failure(driver: &QemuDriver, order: Order, expected: &str) {
    let outcome = driver.perform(order.clone()).await.unwrap();
    assert!(matches!(&outcome, Outcome::Failed(reason) if reason.contains(expected)), "{outcome}");
    driver.confirm(order.id).unwrap();
}

#[tokio::test]
async fn failures_name_their_reason() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let driver = open(&qemu);
    let to = HostAddress { name: "host2".into(), uri: String::new(), data_uri: None };
    for action in [Action::Migrate { to: to.clone() }, Action::Redeploy { to }] {
        expect_failure(&driver, order(1, action, LONG), "cannot move to host 'host2'").await;
    }
    qemu.execute("stop");
    expect_failure(&driver, order(2, freeze(1), LONG), "paused, and not by this order").await;
    qemu.execute("cont");

    let other = UUID.replace("0001", "0002");
    qemu.write_file(&qemu.start_command(), &other);
    let unknown = driver.perform(order(3, freeze(1), LONG)).await.unwrap();
    assert_eq!(unknown, Outcome::Gone, "the file does not name the machine any more");
    driver.confirm(order(3, freeze(1), LONG).id).unwrap();
    let mut wrong = order(4, freeze(1), LONG);
    wrong.id.machine = Guid(wrong.id.machine.0 + 1);
    expect_failure(&driver, wrong, &format!("has the UUID {UUID}, not {other}")).await;
    assert_eq!(qemu.status(), "running");

    qemu.execute("quit");
    qemu.wait("the end of the process", || qemu.status() == "off");
    let broken = ["/bin/sh", "-c", "echo no disk >&2; exit 3"].map(String::from);
    qemu.write_file(&broken, UUID);
    expect_failure(&driver, order(5, freeze(1), LONG), "the machine is not running").await;
    expect_failure(&driver, order(6, Action::Start, LONG), "/bin/sh failed: exit status: 3: no disk").await;
}

#[tokio::test]
async fn a_second_client_on_the_socket_fails_the_order_at_its_deadline() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let client = std::os::unix::net::UnixStream::connect(qemu.path("qmp")).unwrap();
    let driver = open(&qemu);
    let outcome = driver.perform(order(1, freeze(1), Duration::from_secs(2))).await.unwrap();
    let Outcome::Failed(reason) = &outcome else { panic!("{outcome}") };
    assert!(reason.contains("no greeting") && reason.contains("another program is connected"), "{reason}");
    driver.confirm(order(1, freeze(1), LONG).id).unwrap();
    drop(client);
    assert_eq!(driver.perform(order(2, freeze(1), LONG)).await.unwrap(), Outcome::Done);
}

#[tokio::test]
async fn a_watch_learns_of_the_end_of_a_process() {
    let Some(qemu) = TestQemu::started(Guest::Ignores) else { return };
    let driver = open(&qemu);
    let mut watch = driver.watch_machines().await.unwrap();
    let found = watch.list().await.unwrap();
    assert_eq!((found.len(), &*found[0].name, found[0].is_active), (1, "web1", true));
    qemu.execute("quit");
    while watch.list().await.unwrap()[0].is_active {
        assert!(watch.changed().await);
    }
}

#[tokio::test]
async fn a_start_in_progress_is_not_repeated_by_another_driver() {
    let Some(qemu) = TestQemu::new(Guest::Ignores) else { return };
    // A start command that waits for a file before it runs QEMU.
    let words: Vec<String> = qemu.start_command();
    let gate = qemu.path("gate");
    let script = format!(
        "echo started >> {}; read line < {}; exec \"$@\"",
        gate.with_extension("count").display(),
        gate.display()
    );
    rustix::fs::mknodat(rustix::fs::CWD, &gate, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    qemu.write_file(&[["/bin/sh", "-c", &script, "sh"].map(String::from).to_vec(), words].concat(), UUID);
    let begun = order(1, Action::Start, LONG);
    crash_before(&qemu, &begun, Step::AwaitStart).await;
    let waits = Arc::new(Mutex::new(false));
    let reached = waits.clone();
    let driver = open_with(&qemu, Arc::new(move |step| *reached.lock().unwrap() |= step == Step::AwaitStart));
    let task = tokio::spawn(async move { driver.perform(begun).await });
    while !*waits.lock().unwrap() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    std::fs::write(&gate, "go\n").unwrap();
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Done);
    assert_eq!(std::fs::read_to_string(gate.with_extension("count")).unwrap(), "started\n");
    qemu.wait("the process", || qemu.seen().processes == 1);
}

#[tokio::test]
async fn a_start_waits_for_the_end_of_the_previous_command() {
    let Some(qemu) = TestQemu::new(Guest::ShutsDown) else { return };
    let script = ["/bin/sh", "-c", "\"$@\"; sleep 0.5", "sh"].map(String::from).to_vec();
    qemu.write_file(&[script, qemu.start_command()].concat(), UUID);
    let driver = open(&qemu);
    for (event, action) in [(1, Action::Start), (2, Action::Reboot(RebootMode::Graceful))] {
        let order = order(event, action, LONG);
        assert_eq!(driver.perform(order.clone()).await.unwrap(), Outcome::Done);
        driver.confirm(order.id).unwrap();
        assert_eq!(qemu.status(), "running");
    }
    qemu.wait("the second process", || qemu.seen().processes == 2);
}
