//! A server in this process whose clock stands still, agents as processes, and waiting for what must
//! come to pass.

#![allow(dead_code)]

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use forewarn_core::{
    AddressWish, Answer, EventsPolicy, EvictionPolicy, GroupId, Guid, Home, MachineId, Name, NewGroup, NewGroupKind,
    NewMachine, Place, Priority, Request, Status, Timestamp,
};
use forewarn_engine::Advance;
use forewarn_server::{
    Auth, BoundAddress, ClockKind, Config, DriverChoice, EndpointState, Engine, FaultKeeper, Impacts, ListenAddress,
    MetadataListener, Running, StoreChoice, start,
};
use forewarn_store::{HistoryQuery, HistoryRow};

/// Whatever takes longer does not come any more, however busy the machine is.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long the events take that take no time by default.
const IMPACT: Duration = Duration::from_secs(600);

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until there is something.
#[track_caller]
pub fn until<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    until_or(|| what.to_owned(), look)
}

/// Like [`until`], with words that are found when it does not come.
#[track_caller]
pub fn until_or<T>(what: impl Fn() -> String, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        match look() {
            Some(found) => return found,
            None if begun.elapsed() > PATIENCE => panic!("{}: not within {} s", what(), PATIENCE.as_secs()),
            None => std::thread::sleep(LOOK),
        }
    }
}

/// Its clock begins at the real time, because agents compare `NotBefore` with theirs, and then stands.
pub struct World {
    /// None only while it is stopped and started again.
    running: Option<Running>,
    runtime: tokio::runtime::Runtime,
    config: Config,
}

impl World {
    pub fn new() -> World {
        World::at(None)
    }

    /// With another time than the real one.
    pub fn at(start_at: Option<Timestamp>) -> World {
        World::with(config(Ipv4Addr::LOCALHOST, start_at))
    }

    /// One that keeps everything in this directory, at an address of its own, so that it can be stopped and
    /// started again. Every kind of event takes its time.
    pub fn durable(dir: &Path) -> World {
        let [.., high, low] = std::process::id().to_be_bytes();
        let impacts = Impacts { eviction: IMPACT, deletion: IMPACT, ..Impacts::default() };
        World::with(Config {
            store: StoreChoice::Directory(dir.to_owned()),
            driver: DriverChoice::Simulated(impacts),
            ..config(Ipv4Addr::new(127, 77, high, low), None)
        })
    }

    fn with(mut config: Config) -> World {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let running = runtime.block_on(start(config.clone())).expect("the server starts");
        let BoundAddress::Tcp(address) = &running.metadata[0] else { panic!("not an address") };
        config.metadata[0].address = ListenAddress::Tcp(*address);
        World { running: Some(running), runtime, config }
    }

    /// The server stops and starts again where it was.
    pub fn restart_server(&mut self) {
        self.runtime.block_on(self.running.take().expect("it runs").stop());
        self.running = Some(self.runtime.block_on(start(self.config.clone())).expect("the server starts again"));
    }

    fn running(&self) -> &Running {
        self.running.as_ref().expect("it runs")
    }

    pub fn engine(&self) -> &Engine {
        &self.running().engine
    }

    pub fn endpoint(&self) -> &EndpointState {
        &self.running().endpoint
    }

    pub fn faults(&self) -> &FaultKeeper {
        &self.running().faults
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// A command of the documentation with the addresses that this server has.
    pub fn localise(&self, text: &str) -> String {
        let BoundAddress::Tcp(metadata) = &self.running().metadata[0] else { panic!("not an address") };
        let management = self.running().management;
        text.replace("127.0.0.1:8169", &metadata.to_string()).replace("127.0.0.1:8170", &management.to_string())
    }

    pub fn submit(&self, command: forewarn_core::Command) -> Answer {
        self.runtime.block_on(self.engine().submit(command, None)).expect("it is carried out").answer
    }

    /// A machine, and the base URL that is its own.
    pub fn machine(&self, name: &str, change: impl FnOnce(&mut NewMachine)) -> (MachineId, String) {
        let mut machine = NewMachine {
            vm_id: name.bytes().fold(Guid(7), |id, byte| id.derive(u64::from(byte))),
            name: name.into(),
            home: home(),
            place: Place::Standalone,
            host: None,
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            addresses: AddressWish::None,
            terminate: None,
            policy: None,
            details: Default::default(),
        };
        change(&mut machine);
        let BoundAddress::Tcp(address) = &self.running().metadata[0] else { panic!("not an address") };
        match self.submit(forewarn_core::Command::RegisterMachine(Box::new(machine))) {
            Answer::Machine(id) => (id, format!("http://{address}/vm/{name}")),
            other => panic!("not a machine: {other:?}"),
        }
    }

    pub fn availability_set(&self, name: &str) -> GroupId {
        let group = NewGroup {
            name: name.into(),
            home: home(),
            kind: NewGroupKind::AvailabilitySet,
            policy: EventsPolicy::default(),
            update_domains: None,
            fault_domains: None,
            salt: Guid(5),
        };
        match self.submit(forewarn_core::Command::CreateGroup(Box::new(group))) {
            Answer::Group { group, .. } => group,
            other => panic!("not a group: {other:?}"),
        }
    }

    pub fn request(&self, request: Request, event: u128) {
        let (operation, event) = (Guid(event).derive(1), Some(Guid(event)));
        self.submit(forewarn_core::Command::Request { operation, by: "test".into(), request, event });
    }

    pub fn restart(&self, machine: MachineId, event: u128) {
        self.request(Request::Restart { machines: vec![machine] }, event);
    }

    pub fn cancel(&self, event: u128) {
        self.submit(forewarn_core::Command::CancelEvent { event: Guid(event), by: "test".into() });
    }

    pub fn advance(&self, secs: u64) {
        let how = Advance::By(Duration::from_secs(secs));
        self.runtime.block_on(self.engine().advance(how)).expect("the clock moves");
    }

    /// The time when this event may start, and it does.
    pub fn advance_to_start(&self, event: u128) {
        let snapshot = self.engine().snapshot();
        let not_before = snapshot.region.event(Guid(event)).expect("the event is there").not_before;
        self.runtime.block_on(self.engine().advance(Advance::To(not_before))).expect("the clock moves");
    }

    pub fn status(&self, event: u128) -> Option<Status> {
        let snapshot = self.engine().snapshot();
        snapshot.region.event(Guid(event)).map(|event| event.status.clone())
    }

    /// All of it, oldest first.
    pub fn history(&self) -> Vec<HistoryRow> {
        let mut rows: Vec<HistoryRow> = Vec::new();
        loop {
            let query = HistoryQuery { after: rows.last().map(|row| row.number), ..HistoryQuery::default() };
            let page = self.runtime.block_on(self.engine().history(query)).expect("history can be read");
            if page.is_empty() {
                return rows;
            }
            rows.extend(page);
        }
    }

    /// How many approvals came from this machine.
    pub fn posts(&self, machine: MachineId) -> u64 {
        self.endpoint().requests.counts_of(machine).map_or(0, |record| record.posts)
    }

    /// Somebody in the scope of this machine looked, so that its events appear.
    pub fn wait_until_on(&self, machine: MachineId) {
        until("the scope is on", || {
            let snapshot = self.engine().snapshot();
            let scope = snapshot.region.machine(machine).expect("the machine is there").scope;
            snapshot.region.is_on(scope).then_some(())
        });
    }

    #[track_caller]
    pub fn wait_until_started(&self, event: u128) {
        until("the event starts", || matches!(self.status(event), Some(Status::Started { .. })).then_some(()));
    }
}

fn config(address: Ipv4Addr, start_at: Option<Timestamp>) -> Config {
    let listener = MetadataListener {
        address: ListenAddress::Tcp((address, 0).into()),
        machine: None,
        network: "default".into(),
        prefix: None,
    };
    Config {
        metadata: vec![listener],
        management: (Ipv4Addr::LOCALHOST, 0).into(),
        auth: Auth::Off,
        clock: ClockKind::Manual { start: start_at },
        ..Config::default()
    }
}

fn home() -> Home {
    Home { subscription: "00000000-0000-0000-0000-000000000000".into(), resource_group: "default".into() }
}

/// As agents are told it.
pub fn event_id(event: Guid) -> String {
    event.to_string().to_ascii_uppercase()
}

pub fn name(text: &str) -> Name {
    text.into()
}

/// One machine's side: hooks, state, log, marks that hooks leave.
pub struct Guest {
    dir: tempfile::TempDir,
    endpoint: String,
    agent: Option<Child>,
}

impl Guest {
    pub fn new(endpoint: &str) -> Guest {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("hooks")).unwrap();
        Guest { dir, endpoint: endpoint.to_owned(), agent: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A shell script; `$MARKS` is the file that [`Guest::marks`] reads.
    pub fn hook(&self, name: &str, script: &str) {
        let path = self.path("hooks").join(name);
        let marks = self.path("marks");
        fs::write(&path, format!("#!/bin/sh\nMARKS={}\n{script}\n", marks.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Hooks for all three phases that only leave their mark.
    pub fn mark_all_phases(&self) {
        for phase in ["prepare", "started", "restore"] {
            self.hook(phase, &format!("echo {phase} $EVENT_TYPE $EVENT_STATUS >> $MARKS"));
        }
    }

    pub fn config(&self, text: &str) {
        fs::write(self.path("agent.toml"), text).unwrap();
    }

    pub fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_forewarn-agent"));
        command.arg(verb).args(["--endpoint", &self.endpoint, "--interval", "100ms"]);
        command.arg("--hooks").arg(self.path("hooks")).arg("--state").arg(self.path("state"));
        if !self.path("agent.toml").exists() {
            self.config("");
        }
        command.arg("--config").arg(self.path("agent.toml"));
        command
    }

    /// Starts the agent; its log goes on in the same file.
    pub fn start(&mut self) {
        assert!(self.agent.is_none(), "it runs");
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let child = self.command("run").stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.agent = Some(child);
    }

    pub fn output(&self, verb: &str) -> Output {
        self.command(verb).output().unwrap()
    }

    /// As `kill -9` does.
    pub fn kill(&mut self) {
        let mut agent = self.agent.take().expect("it runs");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// As systemd does.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().expect("it runs");
        let status = Command::new("kill").args(["-TERM", &agent.id().to_string()]).status().unwrap();
        assert!(status.success());
        until("the agent stops", || agent.try_wait().unwrap())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        let begun = Instant::now();
        while !self.log().contains(text) {
            assert!(begun.elapsed() < PATIENCE, "{text:?} is not in\n{}", self.log());
            std::thread::sleep(LOOK);
        }
    }

    pub fn log_count(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    pub fn marks(&self) -> Vec<String> {
        let text = fs::read_to_string(self.path("marks")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    #[track_caller]
    pub fn wait_for_marks(&self, expected: &[&str]) {
        let begun = Instant::now();
        while self.marks() != expected {
            assert!(begun.elapsed() < PATIENCE, "{:?}, not {expected:?}\n{}", self.marks(), self.log());
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // Of a test that failed, or that needs it no more.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

pub fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}
