//! The libvirt driver on machines that another program changes during an order, and with a libvirtd that is slow or gone.
//! Machines of libvirt's test driver; `hosts.rs` kills real ones.

use std::panic::panic_any;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forewarn_drivers::{Action, Eviction, HostAddress, MachineDriver as _, Order, Outcome, RebootMode, Step};
use forewarn_libvirt::{Affect, CreateFlags, DefineFlags, DestroyFlags, ErrorCode, State, Target, UndefineFlags};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;

use crate::contract::{Bench, LONG, MACHINE, URI, after, freeze, open, open_with, order};

/// A freeze that ends soon.
const SHORT: Duration = Duration::from_millis(1);

impl Bench {
    fn target(&self) -> Target {
        Target::new(self.daemon.socket(), "test:///default")
    }

    /// Performs an order in a driver that crashes before a step.
    async fn crash_before(&self, order: &Order, step: Step) {
        let hook = move |reached: Step| {
            if reached == step {
                // Not `panic!`, which would print a message.
                panic_any(());
            }
        };
        let driver = open_with(&self.target(), &self.dir.path().join("journal"), Arc::new(hook));
        let performing = order.clone();
        let task = tokio::spawn(async move { driver.perform(performing).await });
        assert!(task.await.is_err(), "{:?} has the step {step:?}", order.action);
    }

    /// Performs an order after a crash, with a new driver, and confirms it. Returns the steps that were taken.
    async fn resume_order(&self, order: &Order) -> (Outcome, Vec<Step>) {
        let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
        let driver = open(&self.target(), &self.dir.path().join("journal"), steps.clone());
        let outcome = driver.perform(order.clone()).await.unwrap();
        driver.confirm(order.id).unwrap();
        assert_eq!(driver.unfinished().unwrap(), []);
        let steps = steps.lock().unwrap().clone();
        (outcome, steps)
    }

    fn edit_journal(&self, order: &Order, edit: impl Fn(&mut serde_json::Value)) {
        let path = self.dir.path().join("journal").join(format!("{}.json", order.id.machine));
        let mut entry = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        edit(&mut entry);
        std::fs::write(&path, entry.to_string()).unwrap();
    }

    /// Changes the journal as if the host had been restarted since.
    fn restart_host(&self, order: &Order) {
        self.edit_journal(order, |entry| {
            assert!(entry["boot"].is_string(), "{entry}");
            entry["boot"] = "an-earlier-boot".into();
        });
    }

    async fn set_element(&self, element: Option<&str>) {
        let is_active = self.state().await.is_active();
        let affect = if is_active { Affect::LIVE | Affect::CONFIG } else { Affect::CONFIG };
        self.connection.set_metadata(&self.domain, element, "forewarn", URI, affect).await.unwrap();
    }
}

fn host2() -> HostAddress {
    HostAddress { name: "host2".into(), uri: "test:///default".into(), data_uri: None }
}

fn graceful(event: u128) -> Order {
    order(event, Action::Reboot(RebootMode::Graceful))
}

#[tokio::test]
async fn a_machine_whose_domain_is_defined_again_while_it_is_down_is_started() {
    let Some(bench) = Bench::start().await else { return };
    let order = graceful(1);
    bench.crash_before(&order, Step::Start).await;
    assert_eq!(bench.state().await, State::ShutOff);
    bench.set_element(None).await;
    let (outcome, steps) = bench.resume_order(&order).await;
    assert_eq!((outcome, bench.state().await), (Outcome::Done, State::Running));
    assert_eq!(steps, [Step::Start, Step::RecordOutcome, Step::Clear], "it is not shut down again");
}

#[tokio::test]
async fn a_machine_that_is_reverted_during_an_order_gets_no_step_twice() {
    let Some(bench) = Bench::start().await else { return };
    // To a snapshot without a record, which runs.
    let reverted = freeze(1, LONG);
    bench.crash_before(&reverted, Step::Wait).await;
    bench.set_element(None).await;
    bench.connection.resume(&bench.domain).await.unwrap();
    let (outcome, steps) = bench.resume_order(&reverted).await;
    assert_eq!(outcome, Outcome::Failed("the machine was resumed by another program".into()));
    assert!(!steps.contains(&Step::Suspend), "{steps:?}");
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));

    // To a snapshot with an earlier record of the same order.
    let rewound = freeze(2, SHORT);
    bench.crash_before(&rewound, Step::Resume).await;
    let element = bench.element().await.unwrap();
    assert!(element.contains("step=\"done\""), "{element}");
    bench.set_element(Some(&element.replace("step=\"done\"", "step=\"begun\""))).await;
    let (outcome, steps) = bench.resume_order(&rewound).await;
    assert_eq!((outcome, steps), (Outcome::Done, vec![Step::Resume, Step::RecordOutcome, Step::Clear]));
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));

    // To a snapshot with the record of an order that has ended.
    bench.set_element(Some(&element)).await;
    let unknown = bench.driver.clear_unknown_records().await.unwrap();
    assert_eq!(unknown.iter().map(|record| record.order).collect::<Vec<_>>(), [Some(rewound.id)]);
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

#[tokio::test]
async fn a_machine_whose_domain_is_renamed_is_found_by_its_uuid() {
    let Some(bench) = Bench::start().await else { return };
    let order = graceful(1);
    bench.crash_before(&order, Step::Start).await;
    bench.connection.undefine(&bench.domain, UndefineFlags::NONE).await.unwrap();
    let xml = format!(
        "<domain type='test'><name>renamed</name><uuid>{MACHINE}</uuid><memory>1024</memory><os><type>hvm</type></os></domain>"
    );
    bench.connection.define(&xml, DefineFlags::NONE).await.unwrap();
    assert_eq!(bench.resume_order(&order).await.0, Outcome::Done);
    let domain = bench.connection.domain_by_uuid(MACHINE.parse().unwrap()).await.unwrap();
    let state = bench.connection.state(&domain).await.unwrap().state;
    assert_eq!((domain.name.as_str(), state), ("renamed", State::Running));
}

#[tokio::test]
async fn a_machine_that_dies_while_it_is_held_is_started() {
    let failed = || Outcome::Failed("the machine was shut off while it was frozen".into());
    let reset = order(1, Action::Reboot(RebootMode::Hard));
    for (order, step, expected) in [(reset, Step::Reset, Outcome::Done), (freeze(1, LONG), Step::Wait, failed())] {
        let Some(bench) = Bench::start().await else { return };
        bench.crash_before(&order, step).await;
        bench.connection.destroy(&bench.domain, DestroyFlags::NONE).await.unwrap();
        assert_eq!(bench.resume_order(&order).await.0, expected, "{step:?}");
        assert_eq!((bench.state().await, bench.element().await), (State::Running, None), "{step:?}");
    }
    let Some(bench) = Bench::start().await else { return };
    let task = bench.begin(freeze(1, Duration::from_secs(2))).await;
    bench.connection.destroy(&bench.domain, DestroyFlags::NONE).await.unwrap();
    assert_eq!(task.await.unwrap().unwrap(), failed(), "without a crash of the driver");
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

/// The host lost power during an order; it was fenced, and its machines may run elsewhere.
#[tokio::test]
async fn after_a_restart_of_the_host_an_abandoned_order_starts_no_machine() {
    let reset = order(1, Action::Reboot(RebootMode::Hard));
    let redeploy = order(1, Action::Redeploy { to: host2() });
    let cases = [
        (reset, Step::Reset),
        (freeze(1, LONG), Step::Wait),
        (graceful(1), Step::Start),
        (graceful(1), Step::Shutdown),
        (redeploy, Step::MoveDefinition),
    ];
    for (order, step) in cases {
        let Some(bench) = Bench::start().await else { return };
        bench.crash_before(&order, step).await;
        if bench.state().await.is_active() {
            bench.connection.destroy(&bench.domain, DestroyFlags::NONE).await.unwrap();
        }
        let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
        let reopen = || open(&bench.target(), &bench.dir.path().join("journal"), steps.clone());
        assert!(reopen().can_continue(order.id), "an agent that crashed finishes what it began");
        bench.restart_host(&order);
        assert!(!reopen().can_continue(order.id), "{step:?}");
        reopen().abandon(order.id);
        let driver = reopen();
        assert!(driver.can_continue(order.id), "{step:?}");
        let outcome = driver.perform(order.clone()).await.unwrap();
        let reason = "the host was restarted or fenced, and the order is no longer wanted";
        assert_eq!(outcome, Outcome::Failed(reason.into()), "{step:?}");
        assert_eq!(*steps.lock().unwrap(), [Step::RecordOutcome, Step::Clear], "{step:?}");
        assert_eq!((bench.state().await, bench.element().await), (State::ShutOff, None), "{step:?}");
    }
}

#[tokio::test]
async fn an_abandoned_order_resumes_its_machine() {
    let Some(bench) = Bench::start().await else { return };
    let frozen = freeze(1, LONG);
    let task = bench.begin(frozen.clone()).await;
    bench.driver.abandon(frozen.id);
    assert!(matches!(task.await.unwrap().unwrap(), Outcome::Failed(_)));
    assert_eq!((bench.state().await, bench.element().await), (State::Running, None));
}

/// The server waits for the libvirtd of a host that was fenced meanwhile.
#[tokio::test]
async fn an_order_that_is_abandoned_while_libvirtd_is_gone_starts_no_machine() {
    let Some(bench) = Bench::start().await else { return };
    let front = Front::open(bench.dir.path(), bench.daemon.socket());
    let states = front.daemon.clone();
    let hook = move |step| {
        if step == Step::Start {
            states.send_replace(Daemon::Gone);
        }
    };
    let driver = Arc::new(open_with(&front.target(), &bench.dir.path().join("journal"), Arc::new(hook)));
    let (order, performer) = (graceful(1), driver.clone());
    let performing = order.clone();
    let task = tokio::spawn(async move { performer.perform(performing).await });
    let mut states = front.daemon.subscribe();
    states.wait_for(|state| *state == Daemon::Gone).await.unwrap();
    driver.abandon(order.id);
    front.set(Daemon::Answers);
    assert!(matches!(task.await.unwrap().unwrap(), Outcome::Failed(_)));
    assert_eq!((bench.state().await, bench.element().await), (State::ShutOff, None));
}

#[tokio::test]
async fn a_machine_that_another_program_starts_is_not_moved_and_stays_on() {
    let deallocate = Action::Evict(Eviction::Deallocate);
    let redeploy = Action::Redeploy { to: host2() };
    for (action, step) in
        [(redeploy, Step::MoveDefinition), (Action::Stop, Step::RecordOutcome), (deallocate, Step::RecordOutcome)]
    {
        let Some(bench) = Bench::start().await else { return };
        let order = order(1, action);
        bench.crash_before(&order, step).await;
        bench.connection.start(&bench.domain, CreateFlags::NONE).await.unwrap();
        let (outcome, steps) = bench.resume_order(&order).await;
        let reason = "the machine runs again after it had shut down";
        assert_eq!(outcome, Outcome::Failed(reason.into()), "{step:?}");
        assert_eq!(steps, [Step::RecordOutcome, Step::Clear], "{step:?}");
        assert_eq!((bench.state().await, bench.element().await), (State::Running, None), "{step:?}");
    }
}

#[tokio::test]
async fn a_machine_that_another_program_starts_is_powered_off_before_it_is_removed() {
    for action in [Action::Evict(Eviction::Delete), Action::Terminate] {
        let Some(bench) = Bench::start().await else { return };
        let order = order(1, action);
        bench.crash_before(&order, Step::Undefine).await;
        bench.connection.start(&bench.domain, CreateFlags::NONE).await.unwrap();
        let (outcome, steps) = bench.resume_order(&order).await;
        assert_eq!(outcome, Outcome::Gone, "{steps:?}");
        assert!(steps.contains(&Step::Destroy), "{steps:?}");
        assert!(bench.connection.domain_by_name("test").await.unwrap_err().is(ErrorCode::NO_DOMAIN), "{steps:?}");
    }
}

#[tokio::test]
async fn a_crash_does_not_extend_the_time_that_an_evicted_guest_has_to_shut_down() {
    let Some(bench) = Bench::start().await else { return };
    let evicted = order(1, Action::Evict(Eviction::Deallocate));
    bench.crash_before(&evicted, Step::Shutdown).await;
    bench.edit_journal(&evicted, |entry| entry["since"] = (entry["since"].as_i64().unwrap() - 30_000).into());
    let (outcome, steps) = bench.resume_order(&evicted).await;
    assert_eq!((outcome, bench.state().await), (Outcome::Done, State::ShutOff));
    assert!(steps.contains(&Step::Destroy) && !steps.contains(&Step::Shutdown), "{steps:?}");
}

/// A freeze ends in time even if the clock was set back while the agent was down.
#[tokio::test]
async fn a_freeze_that_seems_to_have_begun_in_the_future_is_not_prolonged() {
    let Some(bench) = Bench::start().await else { return };
    let frozen = freeze(1, Duration::from_millis(100));
    bench.crash_before(&frozen, Step::Wait).await;
    let ahead = i64::try_from(LONG.as_millis()).unwrap();
    bench.edit_journal(&frozen, |entry| entry["since"] = (entry["since"].as_i64().unwrap() + ahead).into());
    let begun = std::time::Instant::now();
    assert_eq!(bench.resume_order(&frozen).await.0, Outcome::Done);
    assert!(begun.elapsed() < LONG / 2, "it took {:?}", begun.elapsed());
    assert_eq!(bench.state().await, State::Running);
}

/// The time that libvirtd takes before the freeze does not count.
#[tokio::test]
async fn a_freeze_lasts_its_whole_time_although_libvirtd_hangs_before_it() {
    let Some(bench) = Bench::start().await else { return };
    let front = Front::open(bench.dir.path(), bench.daemon.socket());
    let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
    let (taken, states) = (steps.clone(), front.daemon.clone());
    let hook = move |step| {
        if step == Step::RecordBegun && !taken.lock().unwrap().contains(&step) {
            states.send_replace(Daemon::Hangs);
        }
        taken.lock().unwrap().push(step);
    };
    let driver = open_with(&front.target(), &bench.dir.path().join("journal"), Arc::new(hook));
    let duration = Duration::from_secs(1);
    let task = tokio::spawn(async move { driver.perform(freeze(1, duration)).await });
    front.daemon.subscribe().wait_for(|state| *state == Daemon::Hangs).await.unwrap();
    let (accepted, until) = (front.accepted.load(Ordering::Relaxed), after(duration));
    while after(Duration::ZERO) <= until || front.accepted.load(Ordering::Relaxed) == accepted {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    front.set(Daemon::Answers);
    assert_eq!(task.await.unwrap().unwrap(), Outcome::Done);
    assert!(steps.lock().unwrap().contains(&Step::Wait), "{steps:?}");
}

/// A state of libvirtd, as a client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Answers,
    /// Takes calls and does what they ask, but its answers do not arrive.
    Hangs,
    /// There is no socket.
    Gone,
}

/// A socket in front of the one of libvirtd.
struct Front {
    path: PathBuf,
    daemon: Arc<watch::Sender<Daemon>>,
    /// Connections that were accepted.
    accepted: Arc<AtomicUsize>,
}

impl Front {
    fn open(dir: &Path, to: PathBuf) -> Front {
        let front = Front {
            path: dir.join("front"),
            daemon: Arc::new(watch::Sender::new(Daemon::Answers)),
            accepted: Arc::default(),
        };
        front.listen(to);
        front
    }

    fn listen(&self, to: PathBuf) {
        let (path, daemon, accepted) = (self.path.clone(), self.daemon.clone(), self.accepted.clone());
        tokio::spawn(async move {
            let mut states = daemon.subscribe();
            loop {
                let _ = states.wait_for(|state| *state != Daemon::Gone).await;
                let listener = UnixListener::bind(&path).unwrap();
                loop {
                    tokio::select! {
                        near = listener.accept() => {
                            accepted.fetch_add(1, Ordering::Relaxed);
                            tokio::spawn(carry(near.unwrap().0, to.clone(), daemon.subscribe()));
                        }
                        _ = states.wait_for(|state| *state == Daemon::Gone) => break,
                    }
                }
                std::fs::remove_file(&path).unwrap();
            }
        });
    }

    fn set(&self, state: Daemon) {
        self.daemon.send_replace(state);
    }

    /// A target whose calls fail soon.
    fn target(&self) -> Target {
        Target {
            call_timeout: Duration::from_millis(500),
            keepalive: None,
            ..Target::new(&self.path, "test:///default")
        }
    }
}

async fn carry(near: UnixStream, to: PathBuf, mut states: watch::Receiver<Daemon>) {
    let Ok(far) = UnixStream::connect(to).await else { return };
    let ((near_in, near_out), (far_in, far_out)) = (near.into_split(), far.into_split());
    let held = states.clone();
    tokio::select! {
        () = pass(near_in, far_out, None) => {}
        () = pass(far_in, near_out, Some(held)) => {}
        _ = states.wait_for(|state| *state == Daemon::Gone) => {}
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, mut states: Option<watch::Receiver<Daemon>>) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        if let Some(states) = &mut states {
            let _ = states.wait_for(|state| *state != Daemon::Hangs).await;
        }
        if to.write_all(&buffer[..length]).await.is_err() {
            return;
        }
    }
}

#[tokio::test]
async fn an_order_waits_for_a_libvirtd_that_hangs_or_is_gone() {
    use Daemon::{Gone, Hangs};
    let late = || Outcome::Failed("the deadline has passed".into());
    for (daemon, step, deadline, expected) in [
        (Hangs, Step::Wait, LONG, Outcome::Done),
        // The call takes effect, but its answer is lost.
        (Hangs, Step::Resume, LONG, Outcome::Done),
        (Gone, Step::Wait, LONG, Outcome::Done),
        (Gone, Step::Wait, Duration::from_secs(1), late()),
    ] {
        let Some(bench) = Bench::start().await else { return };
        let front = Front::open(bench.dir.path(), bench.daemon.socket());
        let steps: Arc<Mutex<Vec<Step>>> = Arc::default();
        let (taken, states) = (steps.clone(), front.daemon.clone());
        let hook = move |reached| {
            let is_first = !taken.lock().unwrap().contains(&reached);
            taken.lock().unwrap().push(reached);
            if reached == step && is_first {
                states.send_replace(daemon);
            }
        };
        let driver = Arc::new(open_with(&front.target(), &bench.dir.path().join("journal"), Arc::new(hook)));
        let held = Order { deadline: after(deadline), ..freeze(1, Duration::from_millis(200)) };
        let (performing, performer) = (held.clone(), driver.clone());
        let task = tokio::spawn(async move { performer.perform(performing).await });
        while !steps.lock().unwrap().contains(&step) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // Until the driver has tried to connect again, and past the end of the freeze and the short deadline.
        let (before, until) = (front.accepted.load(Ordering::Relaxed), after(Duration::from_secs(1)));
        while after(Duration::ZERO) <= until || daemon == Hangs && front.accepted.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!task.is_finished(), "{daemon:?} before {step:?}");
        assert_eq!(driver.unfinished().unwrap().len(), 1);
        front.set(Daemon::Answers);
        assert_eq!(task.await.unwrap().unwrap(), expected, "{daemon:?} before {step:?}");
        assert_eq!((bench.state().await, bench.element().await), (State::Running, None), "{daemon:?} before {step:?}");
        let suspended = steps.lock().unwrap().iter().filter(|taken| **taken == Step::Suspend).count();
        assert_eq!(suspended, 1, "{daemon:?} before {step:?}");
    }
}
