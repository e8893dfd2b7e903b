//! Test support: an in-process server with a manual clock, agents as child processes, and waiting for conditions.

use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use forewarn_core::{
    AddressRequest, Answer, EventsPolicy, EvictionPolicy, GroupId, Guid, MachineId, Name, NewGroup, NewGroupKind,
    NewMachine, NewMembership, Priority, Request, ResourceGroupRef, Status, Timestamp,
};
use forewarn_engine::Advance;
use forewarn_server::{
    ClockSetting, Config, DriverChoice, EndpointState, Engine, Impacts, ListenAddress, MetadataListener,
    RecordedFaults, Running, StoreChoice,
};
use forewarn_store::{HistoryQuery, HistoryRow};
pub use forewarn_test_support::{poll_until, poll_until_or};
use forewarn_testing::harness::{self, TestServer};

/// Expires only if a test fails, however busy the machine is.
pub const TIMEOUT: Duration = forewarn_test_support::PATIENCE;

/// Duration of events that take no time by default.
const IMPACT: Duration = Duration::from_secs(600);

/// Interval between two checks of a condition.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Server whose manual clock starts at the real time, because agents compare `NotBefore` with the system time.
pub struct World {
    server: TestServer,
}

impl World {
    pub fn new() -> World {
        World::at(None)
    }

    /// Starts a server whose clock starts at this time.
    pub fn at(start_at: Option<Timestamp>) -> World {
        World::with(config(Ipv4Addr::LOCALHOST, start_at))
    }

    /// Starts a server with durable state and its own address, so that it can be restarted. Evictions and deletions
    /// take time.
    pub fn durable(dir: &Path) -> World {
        let [.., high, low] = std::process::id().to_be_bytes();
        let impacts = Impacts { eviction: IMPACT, deletion: IMPACT, ..Impacts::default() };
        World::with(Config {
            store: StoreChoice::Directory(dir.to_owned()),
            driver: DriverChoice::Simulated(impacts),
            ..config(Ipv4Addr::new(127, 77, high, low), None)
        })
    }

    fn with(config: Config) -> World {
        World { server: TestServer::start(config) }
    }

    /// Restarts the server with the same state.
    pub fn restart_server(&mut self) {
        self.server.restart();
    }

    fn running(&self) -> &Running {
        self.server.running()
    }

    pub fn engine(&self) -> &Engine {
        &self.running().engine
    }

    pub fn endpoint(&self) -> &EndpointState {
        &self.running().endpoint
    }

    pub fn faults(&self) -> &RecordedFaults {
        &self.running().faults
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.server.block_on(future)
    }

    /// Replaces the addresses in a command of the documentation with those of this server.
    pub fn localize(&self, text: &str) -> String {
        let metadata = harness::metadata_address(self.running(), 0);
        let management = self.running().management;
        text.replace("127.0.0.1:8169", &metadata.to_string()).replace("127.0.0.1:8170", &management.to_string())
    }

    pub fn submit(&self, command: forewarn_core::Command) -> Answer {
        self.server.block_on(self.engine().submit(command, None)).expect("the command is accepted").answer
    }

    /// Registers a machine. Returns its ID and its endpoint.
    pub fn machine(&self, name: &str, change: impl FnOnce(&mut NewMachine)) -> (MachineId, String) {
        let mut machine = NewMachine {
            vm_id: name.bytes().fold(Guid(7), |id, byte| id.derive(u64::from(byte))),
            name: name.into(),
            home: home(),
            place: NewMembership::Standalone,
            host: None,
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            addresses: AddressRequest::None,
            terminate: None,
            policy: None,
            memory_mib: 0,
            live_migratable: true,
            details: Default::default(),
        };
        change(&mut machine);
        let address = harness::metadata_address(self.running(), 0);
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
        self.server.block_on(self.engine().advance(how)).expect("the clock moves");
    }

    /// Advances the clock to `NotBefore` of this event, which then starts.
    pub fn advance_to_start(&self, event: u128) {
        let snapshot = self.engine().snapshot();
        let not_before = snapshot.region.event(Guid(event)).expect("the event exists").not_before;
        self.server.block_on(self.engine().advance(Advance::To(not_before))).expect("the clock moves");
    }

    pub fn status(&self, event: u128) -> Option<Status> {
        let snapshot = self.engine().snapshot();
        snapshot.region.event(Guid(event)).map(|event| event.status.clone())
    }

    /// Whole history, oldest first.
    pub fn history(&self) -> Vec<HistoryRow> {
        let mut rows: Vec<HistoryRow> = Vec::new();
        loop {
            let query = HistoryQuery { after: rows.last().map(|row| row.number), ..HistoryQuery::default() };
            let page = self.server.block_on(self.engine().history(query)).expect("history can be read");
            if page.is_empty() {
                return rows;
            }
            rows.extend(page);
        }
    }

    /// Number of approvals that this machine has sent.
    pub fn posts(&self, machine: MachineId) -> u64 {
        self.endpoint().requests.counts_of(machine).map_or(0, |record| record.posts)
    }

    /// Waits until a machine in the event group has polled, so that events are shown.
    pub fn wait_until_on(&self, machine: MachineId) {
        poll_until("events are enabled", || {
            let snapshot = self.engine().snapshot();
            let scope = snapshot.region.machine(machine).expect("the machine exists").scope;
            snapshot.region.is_on(scope).then_some(())
        });
    }

    #[track_caller]
    pub fn wait_until_started(&self, event: u128) {
        poll_until("the event starts", || matches!(self.status(event), Some(Status::Started { .. })).then_some(()));
    }
}

fn config(address: Ipv4Addr, start_at: Option<Timestamp>) -> Config {
    let listener = MetadataListener::new(ListenAddress::Tcp((address, 0).into()));
    Config { metadata: vec![listener], ..harness::config(ClockSetting::Manual { start: start_at }) }
}

fn home() -> ResourceGroupRef {
    ResourceGroupRef { subscription: "00000000-0000-0000-0000-000000000000".into(), resource_group: "default".into() }
}

/// Event ID in the spelling of the document.
pub fn event_id(event: Guid) -> String {
    event.to_string().to_ascii_uppercase()
}

pub fn name(text: &str) -> Name {
    text.into()
}

/// Files and agent process of one machine: hooks, state, log, and the file in which hooks leave marks.
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

    /// Writes a hook as a shell script; `$MARKS` is the file that [`Guest::marks`] reads.
    pub fn hook(&self, name: &str, script: &str) {
        let path = self.path("hooks").join(name);
        let marks = self.path("marks");
        fs::write(&path, format!("#!/bin/sh\nMARKS={}\n{script}\n", marks.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Writes hooks for all three phases that leave a mark.
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

    /// Starts the agent, which need not have hooks. It appends to the log of the previous run.
    pub fn start(&mut self) {
        self.start_with(&["--approve-without-hooks"]);
    }

    pub fn start_with(&mut self, flags: &[&str]) {
        assert!(self.agent.is_none(), "the agent is running");
        let log = File::options().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = self.command("run");
        let child = command.args(flags).stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.agent = Some(child);
    }

    pub fn output(&self, verb: &str) -> Output {
        self.command(verb).output().unwrap()
    }

    /// Sends SIGKILL.
    pub fn kill(&mut self) {
        let mut agent = self.agent.take().expect("it is running");
        agent.kill().unwrap();
        agent.wait().unwrap();
    }

    /// Sends SIGTERM and waits, like systemd.
    pub fn terminate(&mut self) -> ExitStatus {
        let mut agent = self.agent.take().expect("it is running");
        let status = Command::new("kill").args(["-TERM", &agent.id().to_string()]).status().unwrap();
        assert!(status.success());
        poll_until("the agent stops", || agent.try_wait().unwrap())
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    #[track_caller]
    pub fn wait_for_log(&self, text: &str) {
        let started = Instant::now();
        while !self.log().contains(text) {
            assert!(started.elapsed() < TIMEOUT, "{text:?} is not in\n{}", self.log());
            std::thread::sleep(CHECK_INTERVAL);
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
        let started = Instant::now();
        while self.marks() != expected {
            assert!(started.elapsed() < TIMEOUT, "{:?}, not {expected:?}\n{}", self.marks(), self.log());
            std::thread::sleep(CHECK_INTERVAL);
        }
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        if let Some(mut agent) = self.agent.take() {
            // The agent may have exited already.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

pub fn exists(path: &Path) -> Option<()> {
    path.exists().then_some(())
}
