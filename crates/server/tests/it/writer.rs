//! The single writer: every acknowledged change is durable and visible, whatever the store does.

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::*;
use forewarn_core::*;
use forewarn_engine::*;
use forewarn_server::*;
use forewarn_store::faulty::{Fault, Faults, FaultyStore};
use forewarn_store::{Attachment, Batch, CommitError, MemoryStore, Owner, Store, StoreError};

async fn faulty() -> (World, Faults) {
    let (store, faults) = FaultyStore::new(MemoryStore::new());
    let running = start_with(config(), Box::new(store)).await.unwrap();
    (World { running }, faults)
}

async fn register(world: &World, name: &str) -> Result<SubmitResult, SubmitError> {
    world.engine().submit(Command::RegisterMachine(Box::new(new_machine(name))), None).await
}

fn is_there(world: &World, name: &str) -> bool {
    world.engine().snapshot().region.machine_by_name(name, None) != MachineLookup::Nothing
}

#[tokio::test]
async fn a_commit_that_is_refused_leaves_everything_as_it_was() {
    let (world, faults) = faulty().await;
    let before = world.engine().snapshot().revision;
    faults.next_commit(Fault::Refused);
    assert!(matches!(register(&world, "a").await, Err(SubmitError::Unavailable)));
    assert!(!is_there(&world, "a"));
    assert_eq!(world.engine().snapshot().revision, before);
    assert!(!world.engine().is_healthy());
    assert!(register(&world, "a").await.is_ok());
    assert!(is_there(&world, "a") && world.engine().is_healthy());
}

#[tokio::test]
async fn after_a_commit_in_doubt_the_store_decides() {
    let (world, faults) = faulty().await;
    faults.next_commit(Fault::DoneButDoubt);
    assert!(matches!(register(&world, "a").await, Err(SubmitError::Unavailable)));
    assert!(is_there(&world, "a"));
    faults.next_commit(Fault::NotDoneButDoubt);
    assert!(matches!(register(&world, "b").await, Err(SubmitError::Unavailable)));
    assert!(!is_there(&world, "b"));
    assert!(register(&world, "b").await.is_ok());
}

#[tokio::test]
async fn a_store_that_cannot_be_reloaded_accepts_nothing_until_it_can() {
    let (world, faults) = faulty().await;
    faults.next_loads(2);
    faults.next_commit(Fault::DoneButDoubt);
    assert!(register(&world, "a").await.is_err());
    assert!(matches!(register(&world, "b").await, Err(SubmitError::Unavailable)));
    assert!(!is_there(&world, "a"));
    assert!(register(&world, "c").await.is_ok());
    assert!(is_there(&world, "a") && !is_there(&world, "b") && is_there(&world, "c"));
}

#[tokio::test]
async fn a_get_that_cannot_turn_its_event_group_on_can_be_repeated() {
    let (world, faults) = faulty().await;
    faults.next_commit(Fault::Refused);
    let reply = world.check_refusal(&format!("GET {EVENTS}"), 503, &["Try again"]).await;
    assert_eq!(reply.header("retry-after"), Some("1"));
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
}

#[tokio::test]
async fn a_held_get_sees_the_result_of_a_commit_in_doubt() {
    let (world, faults) = faulty().await;
    world.ask(&format!("GET {EVENTS}")).await;
    let get = format!("GET {EVENTS}&wait=300\nIf-None-Match: 1");
    let change = async {
        while world.running.endpoint.metrics.held.get() == 0 {
            tokio::task::yield_now().await;
        }
        faults.next_commit(Fault::DoneButDoubt);
        let request = Request::Restart { machines: vec![FIRST] };
        let command = Command::Request { operation: Guid(1), by: "test".into(), request, event: Some(Guid(0xE1)) };
        assert!(world.engine().submit(command, None).await.is_err());
    };
    let (reply, ()) = tokio::join!(world.ask(&get), change);
    assert_eq!((reply.status, reply.header("etag")), (200, Some("2")));
}

#[tokio::test]
async fn a_manual_clock_stays_where_a_step_could_not_be_stored() {
    let (world, faults) = faulty().await;
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    faults.next_commit(Fault::Refused);
    let far = Advance::By(Duration::from_secs(86_400));
    assert_eq!(world.engine().advance(far).await, Err(AdvanceError::Unavailable));
    let now = world.engine().now();
    assert!(now < START + Duration::from_secs(901), "{now:?}");
    world.advance(1800).await;
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":4,\"Events\":[]}").await;
}

#[tokio::test]
async fn the_clock_moves_forward_only_and_not_for_ever() {
    let world = World::new().await;
    let engine = world.engine();
    let to = START + Duration::from_secs(60);
    assert_eq!(engine.advance(Advance::To(to)).await, Ok(to));
    assert_eq!(engine.advance(Advance::To(START)).await, Err(AdvanceError::Backwards { now: to }));
    assert_eq!(engine.advance(Advance::By(ADVANCE_MAX * 2)).await, Err(AdvanceError::TooFar));
    let real = World::with(Config { clock: ClockSetting::Real, ..config() }).await;
    let refused = real.engine().advance(Advance::By(Duration::ZERO)).await;
    assert_eq!(refused, Err(AdvanceError::RealClock));
}

// --- batches ---------------------------------------------------------------------------------------------

/// Commits only when the test allows it, and reports the size of each batch.
struct Gate {
    inner: MemoryStore,
    open: mpsc::Receiver<()>,
    sizes: mpsc::Sender<usize>,
}

impl Store for Gate {
    fn load(&mut self) -> Result<forewarn_store::Loaded, StoreError> {
        self.inner.load()
    }
    fn commit(&mut self, expected: u64, batch: &Batch) -> Result<u64, CommitError> {
        let _ = self.open.recv();
        let _ = self.sizes.send(batch.facts.len());
        self.inner.commit(expected, batch)
    }
    fn forget_history(&mut self, before: Timestamp, limit: u32) -> Result<u32, StoreError> {
        self.inner.forget_history(before, limit)
    }
    fn clock_kind(&mut self) -> Result<Option<forewarn_store::ClockKind>, StoreError> {
        self.inner.clock_kind()
    }
    fn set_clock_kind(&mut self, kind: forewarn_store::ClockKind) -> Result<(), StoreError> {
        self.inner.set_clock_kind(kind)
    }
    fn clock_stamp(&mut self) -> Result<Option<forewarn_store::ClockStamp>, StoreError> {
        self.inner.clock_stamp()
    }

    fn restore(
        &mut self,
        contents: &forewarn_store::Contents,
        history: &mut forewarn_store::HistoryRows<'_>,
    ) -> Result<(), StoreError> {
        self.inner.restore(contents, history)
    }
    fn reader(&self) -> Arc<dyn forewarn_store::Reader> {
        self.inner.reader()
    }
}

#[tokio::test]
async fn commands_that_wait_together_are_committed_together_and_a_full_mailbox_is_refused() {
    let (opener, open) = mpsc::channel();
    let (sizes, batches) = mpsc::channel();
    // The server's own first commits: it resumes, and registers its first machine.
    opener.send(()).unwrap();
    opener.send(()).unwrap();
    let gate = Gate { inner: MemoryStore::new(), open, sizes };
    let running = start_with(config(), Box::new(gate)).await.unwrap();
    let world = World { running };
    let before: usize = batches.try_iter().count();
    assert_eq!(before, 2);

    let mut asked = tokio::task::JoinSet::new();
    let total = MAILBOX_MAX + 600;
    for number in 0..total {
        let engine = world.engine().clone();
        asked.spawn(async move {
            engine.submit(Command::RegisterHost { name: format!("h{number}").as_str().into() }, None).await.map(drop)
        });
    }
    // Some are refused while the gate is shut; no other command is answered before it opens.
    let mut busy = 0;
    while busy < total - MAILBOX_MAX - 512 {
        let first = asked.join_next().await.unwrap().unwrap();
        assert!(matches!(first, Err(SubmitError::Busy)), "{first:?}");
        busy += 1;
    }
    drop(opener);
    let mut done = 0;
    while let Some(answer) = asked.join_next().await {
        match answer.unwrap() {
            Ok(()) => done += 1,
            Err(SubmitError::Busy) => busy += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(done + busy, total);
    let commits = batches.try_iter().count();
    assert!(commits <= 2 + done / 256, "{commits} commits for {done} commands");
    assert_eq!(world.engine().snapshot().region.hosts().count(), done);
}

// --- over restarts ---------------------------------------------------------------------------------------

fn stored(directory: &Path) -> Config {
    Config { store: StoreChoice::Directory(directory.to_owned()), ..config() }
}

#[tokio::test]
async fn a_server_continues_where_it_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::with(stored(directory.path())).await;
    let name = world.engine().snapshot().region.machine(FIRST).unwrap().name.clone();
    world.ask(&format!("GET {EVENTS}")).await;
    world.restart(FIRST, 0xE1).await;
    world.advance(300).await;
    assert_eq!(world.approve("", 0xE1).await.status, 200);
    world.running.stop().await;

    let world = World::with(stored(directory.path())).await;
    assert_eq!(world.engine().now(), START + Duration::from_secs(300));
    let reply = world.ask(&format!("GET {EVENTS}")).await;
    assert!(reply.body.starts_with("{\"DocumentIncarnation\":3,"), "{}", reply.body);
    assert!(reply.body.contains("\"Started\"") && reply.body.contains(&*name), "{}", reply.body);
    world.advance(599).await;
    assert_eq!(world.ask(&format!("GET {EVENTS}")).await.header("etag"), Some("3"));
    world.advance(1).await;
    world.check(&format!("GET {EVENTS}"), "200 {\"DocumentIncarnation\":4,\"Events\":[]}").await;
    assert_eq!(world.engine().snapshot().region.machines().len(), 1);
    world.running.stop().await;
}

#[tokio::test]
async fn a_store_keeps_its_kind_of_clock() {
    let directory = tempfile::tempdir().unwrap();
    World::with(stored(directory.path())).await.running.stop().await;
    let error = start(Config { clock: ClockSetting::Real, ..stored(directory.path()) }).await;
    let sentence = error.err().unwrap().to_string();
    assert!(sentence.contains("manual clock"), "{sentence}");
}

#[tokio::test]
async fn two_servers_do_not_share_a_directory() {
    let directory = tempfile::tempdir().unwrap();
    let world = World::with(stored(directory.path())).await;
    let error = start(stored(directory.path())).await;
    assert!(error.err().unwrap().to_string().contains("another server"));
    world.running.stop().await;
    World::with(stored(directory.path())).await.running.stop().await;
}

#[tokio::test]
async fn a_stopped_engine_refuses_commands() {
    let world = World::new().await;
    let engine = world.engine().clone();
    world.running.stop().await;
    let refused = engine.submit(Command::Tick, None).await;
    assert!(matches!(refused, Err(SubmitError::Stopping)));
    assert_eq!(engine.advance(Advance::By(Duration::ZERO)).await, Err(AdvanceError::Stopping));
}

// --- the two sides ---------------------------------------------------------------------------------------

#[tokio::test]
async fn the_management_side_is_served_on_its_own_listener_only() {
    let world = World::new().await;
    let stream = tokio::net::TcpStream::connect(world.running.management).await.unwrap();
    let host = world.running.management;
    let reply = exchange(stream, &format!("GET /healthz\nHost: {host}")).await;
    assert_eq!(reply.status, 200, "{}", reply.body);
    world.check_refusal("GET /healthz", 404, &["/metadata/scheduledevents"]).await;
}

fn machines(names: &[&str]) -> Vec<Command> {
    names.iter().map(|name| Command::RegisterMachine(Box::new(new_machine(name)))).collect()
}

/// A bundle whose first machine gets an attachment.
fn with_note(commands: Vec<Command>, note: &'static str) -> Bundle {
    let attach: AttachmentBuilder = Box::new(move |answers| match answers {
        [Answer::Machine(id), ..] => vec![Attachment::put(Owner::Machine(*id), "note", note)],
        _ => Vec::new(),
    });
    Bundle { commands, audit: None, attach }
}

fn note_of(world: &World, machine: MachineId) -> Option<String> {
    world.engine().reader().attachment(Owner::Machine(machine), "note").unwrap()
}

#[tokio::test]
async fn a_bundle_and_its_attachments_are_one_commit() {
    let (world, _) = faulty().await;
    let before = world.engine().snapshot().revision;
    let done = world.engine().submit_all(with_note(machines(&["a", "b"]), "hello")).await.unwrap();
    let [Answer::Machine(a), Answer::Machine(b)] = done.answers[..] else { panic!("{:?}", done.answers) };
    assert_eq!(done.snapshot.revision, before + 1);
    assert!(is_there(&world, "a") && is_there(&world, "b"));
    assert_eq!((note_of(&world, a).as_deref(), note_of(&world, b)), (Some("hello"), None));

    let request = Request::Delete { machines: vec![a], group: None };
    let delete = Command::Request { operation: Guid(7), by: "test".into(), request, event: None };
    world.engine().submit(delete, None).await.unwrap();
    world.engine().advance(Advance::By(Duration::from_secs(3600))).await.unwrap();
    assert!(!is_there(&world, "a"));
    assert_eq!(note_of(&world, a), None, "what a machine has goes with it");
}

#[tokio::test]
async fn of_a_bundle_with_a_refused_command_nothing_happens() {
    let (world, faults) = faulty().await;
    let taken = world.engine().submit_all(Bundle::plain(machines(&["a", "b", "a"]), None)).await;
    assert!(matches!(taken, Err(SubmitError::Rejected(Rejection::NameTaken { .. }))), "{taken:?}");
    assert!(!is_there(&world, "a") && !is_there(&world, "b"));

    faults.next_commit(Fault::Refused);
    let lost = world.engine().submit_all(with_note(machines(&["a"]), "lost")).await;
    assert!(matches!(lost, Err(SubmitError::Unavailable)), "{lost:?}");
    assert_eq!(world.engine().reader().all_attachments(None).unwrap(), []);
}

#[tokio::test]
async fn attachments_need_no_command() {
    let (world, _) = faulty().await;
    let attach: AttachmentBuilder = Box::new(|_| vec![Attachment::put(Owner::Region, "group/a", "{}")]);
    world.engine().submit_all(Bundle { commands: Vec::new(), audit: None, attach }).await.unwrap();
    assert_eq!(world.engine().reader().attachment(Owner::Region, "group/a").unwrap().as_deref(), Some("{}"));
    let gone: AttachmentBuilder = Box::new(|_| vec![Attachment::put(Owner::Machine(MachineId(99)), "note", "orphan")]);
    world.engine().submit_all(Bundle { commands: Vec::new(), audit: None, attach: gone }).await.unwrap();
    assert_eq!(
        world.engine().reader().all_attachments(None).unwrap().len(),
        1,
        "nothing is kept for what is not there"
    );
}
