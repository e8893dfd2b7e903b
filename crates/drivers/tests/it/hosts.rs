//! The libvirt driver on real guests: every action, and a driver or libvirtd that is killed at every step.
//!
//! `cargo xtask accept libvirt` provides the hosts. It runs the steps that matter most; with `XTASK_LONG=1`, all of them.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use forewarn_drivers::Step;
use forewarn_libvirt::{
    Affect, Connection, CreateFlags, DefineFlags, Domain, ErrorCode, JobKind, State, Target, UndefineFlags,
};
use forewarn_test_support::{BootLog, Guest, Hosts, is_long};

use crate::perform::{Ended, new_event, program, run};

const URI: &str = "https://forewarn.dev/libvirt";

/// Time limit for libvirt to reach a state.
const STATE_MAX: Duration = Duration::from_secs(180);

/// A guest, and the program that performs orders on it.
struct Bench {
    hosts: Hosts,
    guest: Guest,
    /// How often the guest has booted.
    boots: usize,
    boot_id: String,
    log: BootLog,
}

impl Bench {
    async fn start(hosts: &Hosts, guest: Guest) -> Bench {
        let (hosts, log) = (hosts.clone(), BootLog::new());
        let connection = connect(&hosts, 1).await;
        let domain = connection.define(&guest.xml(), DefineFlags::NONE).await.unwrap();
        connection.start(&domain, CreateFlags::NONE).await.unwrap();
        let boot_id = guest.wait_for_boot(1).await;
        guest.wait_for_beat().await;
        log.print("first boot", "none", &boot_id);
        Bench { hosts, guest, boots: 1, boot_id, log }
    }

    fn journal(&self, host: usize) -> PathBuf {
        self.hosts.dir().join(format!("journal-{}-{host}", self.guest.name))
    }

    fn command(&self, host: usize, event: &str, action: &str, options: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg(self.hosts.socket(host)).arg(format!("host{host}")).arg(self.journal(host));
        command.args([event, &self.guest.uuid, action]).args(options);
        if ["migrate", "redeploy"].contains(&action) && !options.contains(&"--to") {
            let other = 3 - host;
            command.args(["--to", &format!("host{other}")]).arg(self.hosts.socket(other));
            command.arg(self.hosts.data_uri(other));
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    async fn perform(&self, host: usize, event: &str, action: &str, options: &[&str]) -> Ended {
        run(self.command(host, event, action, options)).await
    }

    /// Kills the driver before a step, then performs the same order again.
    async fn survive(&self, host: usize, action: &str, step: Step, outcome: &str) {
        self.survive_with(host, action, step, outcome, &[]).await;
    }

    async fn survive_with(&self, host: usize, action: &str, step: Step, outcome: &str, options: &[&str]) {
        let event = new_event();
        let kill = [options, &["--kill-before", step.as_str()]].concat();
        let killed = self.perform(host, &event, action, &kill).await;
        assert_eq!(killed, Ended::Killed, "{action} has the step {step:?}");
        let again = self.perform(host, &event, action, options).await;
        assert_eq!(again, Ended::Printed(outcome.into()), "{action}, killed before {step:?}");
    }

    /// Kills libvirtd before a step. The driver performs the order to its end.
    async fn survive_libvirtd(&self, host: usize, action: &str, step: Step, outcome: &str) {
        let options = ["--kill-libvirtd-before", step.as_str()];
        let ended = self.perform(host, &new_event(), action, &options).await;
        assert_eq!(ended, Ended::Printed(outcome.into()), "{action}, libvirtd killed before {step:?}");
    }

    /// Expects exactly one more boot.
    async fn expect_reboot(&mut self, what: &str) {
        self.boots += 1;
        let boot_id = self.guest.wait_for_boot(self.boots).await;
        self.log.print(what, &self.boot_id, &boot_id);
        assert_ne!(boot_id, self.boot_id, "{what}");
        self.boot_id = boot_id;
        self.guest.wait_for_beat().await;
        assert_eq!(self.guest.boot_ids().len(), self.boots, "{what}: one boot");
    }

    /// Expects that the guest goes on in the same boot.
    async fn expect_same_boot(&self, what: &str) {
        self.guest.wait_for_beat().await;
        let boot_ids = self.guest.boot_ids();
        self.log.print(what, &self.boot_id, boot_ids.last().unwrap());
        assert_eq!((boot_ids.len(), boot_ids.last()), (self.boots, Some(&self.boot_id)), "{what}");
    }

    async fn expect_state(&self, host: usize, state: State) {
        let connection = connect(&self.hosts, host).await;
        let domain = self.domain(&connection).await.expect("the domain is here");
        assert_eq!(connection.state(&domain).await.unwrap().state, state);
        assert_eq!(connection.metadata(&domain, URI, Affect::CONFIG).await.unwrap(), None, "the record is removed");
    }

    async fn expect_absent(&self, host: usize) {
        let connection = connect(&self.hosts, host).await;
        assert_eq!(self.domain(&connection).await, None);
    }

    async fn domain(&self, connection: &Connection) -> Option<Domain> {
        match connection.domain_by_uuid(self.guest.uuid.parse().unwrap()).await {
            Ok(domain) => Some(domain),
            Err(error) => {
                assert!(error.is(ErrorCode::NO_DOMAIN), "{error:?}");
                None
            }
        }
    }

    /// Removes the record that an arrived machine brought along, as the agent of its new host does.
    async fn clear_record(&self, host: usize) {
        let connection = connect(&self.hosts, host).await;
        let domain = self.domain(&connection).await.expect("the domain is here");
        let is_active = connection.state(&domain).await.unwrap().state.is_active();
        let affect = if is_active { Affect::LIVE | Affect::CONFIG } else { Affect::CONFIG };
        connection.set_metadata(&domain, None, "forewarn", URI, affect).await.unwrap();
    }
}

async fn connect(hosts: &Hosts, number: usize) -> Connection {
    let mut reconnector = forewarn_libvirt::Reconnector::new(Target::qemu(hosts.socket(number)));
    tokio::time::timeout(STATE_MAX, reconnector.connect(|_, _| {})).await.expect("libvirtd is there").0
}

#[tokio::test]
async fn orders_happen_once_through_kills_of_driver_and_libvirtd() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let (held, moved) = tokio::join!(hold_cases(&hosts), move_cases(&hosts));

    // From here on one machine at a time, because both share the libvirtd that is killed.
    libvirtd_killed_while_a_machine_is_held(&held).await;
    let mut held = libvirtd_killed_at_steps(held).await;
    started_and_undefined_by_another_program(&mut held).await;
    full_disk(&held).await;
    libvirtd_killed_during_a_migration(&moved).await;

    if is_long() {
        for victim in [Victim::Driver, Victim::Libvirtd] {
            Matrix::start(&hosts, victim).await.run().await;
        }
    }

    held.survive_with(1, "terminate", Step::DeleteDisks, "gone", &["--pool", "images"]).await;
    held.expect_absent(1).await;
    assert!(!hosts.pooled_image().exists(), "disks in the named pool are deleted");
    assert!(hosts.other_image().exists(), "other disks are kept");
    assert_eq!(held.perform(1, &new_event(), "freeze:1", &[]).await, Ended::Printed("gone".into()));
    moved.survive(2, "evict-delete", Step::Undefine, "gone").await;
    moved.expect_absent(2).await;
}

/// The process that is killed before a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Driver,
    Libvirtd,
}

/// Every step of the actions that move, shut down, start or remove a machine.
struct Matrix {
    bench: Bench,
    victim: Victim,
    /// The host where the machine is.
    host: usize,
    /// How often the machine was started by an order.
    starts: usize,
}

impl Matrix {
    async fn start(hosts: &Hosts, victim: Victim) -> Matrix {
        let (name, number) = match victim {
            Victim::Driver => ("matrix-driver", 4),
            Victim::Libvirtd => ("matrix-libvirtd", 5),
        };
        Matrix { bench: Bench::start(hosts, hosts.guest(name, number)).await, victim, host: 1, starts: 0 }
    }

    async fn run(mut self) {
        for step in [Step::RecordBegun, Step::Migrate, Step::RecordOutcome, Step::Clear] {
            let cell = self.survive("migrate", step, &format!("moved to host{}", 3 - self.host)).await;
            self.arrive().await;
            self.bench.expect_same_boot(&cell).await;
        }
        let down = [Step::RecordBegun, Step::Shutdown, Step::RecordDown, Step::RecordOutcome, Step::Clear];
        for step in down.into_iter().chain([Step::MoveDefinition]) {
            let cell = self.survive("redeploy", step, &format!("moved to host{}", 3 - self.host)).await;
            self.arrive().await;
            self.start_again(&cell).await;
        }
        for (action, step) in ["stop", "deallocate"].into_iter().flat_map(|action| down.map(|step| (action, step))) {
            let cell = self.survive(action, step, "done").await;
            self.bench.expect_state(self.host, State::ShutOff).await;
            self.start_again(&cell).await;
        }
        for step in down.into_iter().chain([Step::Undefine]) {
            let cell = self.survive("evict-delete", step, "gone").await;
            self.define_again(&cell).await;
        }
        for step in [Step::RecordBegun, Step::Destroy, Step::Undefine, Step::RecordOutcome, Step::Clear] {
            let cell = self.survive("terminate", step, "gone").await;
            self.define_again(&cell).await;
        }
        assert_eq!(self.bench.perform(self.host, &new_event(), "terminate", &[]).await, Ended::Printed("gone".into()));
    }

    /// Performs an order although its victim is killed before a step. Returns the name of the cell.
    async fn survive(&self, action: &str, step: Step, outcome: &str) -> String {
        match self.victim {
            Victim::Driver => self.bench.survive(self.host, action, step, outcome).await,
            Victim::Libvirtd => self.bench.survive_libvirtd(self.host, action, step, outcome).await,
        }
        format!("{action}, {:?} killed before {}", self.victim, step.as_str()).to_lowercase()
    }

    /// The machine is at the other host, and only there.
    async fn arrive(&mut self) {
        self.bench.expect_absent(self.host).await;
        self.host = 3 - self.host;
        self.bench.clear_record(self.host).await;
    }

    /// Starts the machine, with the victim killed before each step in turn.
    async fn start_again(&mut self, cell: &str) {
        let steps = [Step::Start, Step::RecordOutcome, Step::Clear];
        let start = self.survive("start", steps[self.starts % steps.len()], "done").await;
        self.starts += 1;
        self.bench.expect_reboot(&format!("{cell}; {start}")).await;
        self.bench.expect_state(self.host, State::Running).await;
    }

    async fn define_again(&mut self, cell: &str) {
        self.bench.expect_absent(self.host).await;
        self.bench.log.print(cell, &self.bench.boot_id, "none");
        let connection = connect(&self.bench.hosts, self.host).await;
        connection.define(&self.bench.guest.xml(), DefineFlags::NONE).await.unwrap();
        self.start_again(&format!("start after {cell}")).await;
    }
}

/// A freeze that has this step: long enough that a busy machine still waits.
fn freeze_for(step: Step) -> &'static str {
    if step == Step::Wait { "freeze:3000" } else { "freeze:200" }
}

/// Freeze and Reboot, with the driver killed at each step.
async fn hold_cases(hosts: &Hosts) -> Bench {
    let mut guest = hosts.guest("hold", 2);
    guest.disks = vec![hosts.pooled_image(), hosts.other_image()];
    let mut bench = Bench::start(hosts, guest).await;
    let common = [Step::RecordBegun, Step::Suspend, Step::RecordHeld, Step::RecordDone, Step::Resume, Step::Clear];
    let essential = [Step::RecordHeld, Step::Wait, Step::Resume];
    let all = common.into_iter().chain([Step::Wait, Step::RecordOutcome]);
    for step in if is_long() { all.collect::<Vec<_>>() } else { essential.to_vec() } {
        bench.survive(1, freeze_for(step), step, "done").await;
        bench.expect_same_boot(&format!("freeze, killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    let essential = [Step::RecordHeld, Step::Reset, Step::RecordDone];
    let all = common.into_iter().chain([Step::Reset, Step::RecordOutcome]);
    let steps = if is_long() { all.collect::<Vec<_>>() } else { essential.to_vec() };
    for step in steps {
        bench.survive(1, "reboot", step, "done").await;
        bench.expect_reboot(&format!("reboot, killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    resumed_by_another_program(&bench).await;
    bench
}

/// Held but running: the order fails, and the machine is not touched again.
async fn resumed_by_another_program(bench: &Bench) {
    let event = new_event();
    assert_eq!(bench.perform(1, &event, "reboot", &["--kill-before", "reset"]).await, Ended::Killed);
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    connection.resume(&domain).await.unwrap();
    let again = bench.perform(1, &event, "reboot", &[]).await;
    assert_eq!(again, Ended::Printed("failed: the machine was resumed by another program".into()));
    bench.expect_same_boot("reboot, resumed by another program").await;
    bench.expect_state(1, State::Running).await;
}

async fn libvirtd_killed_while_a_machine_is_held(bench: &Bench) {
    let mut child = bench.command(1, &new_event(), "freeze:6000", &[]).spawn().unwrap();
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    wait_until(async || connection.state(&domain).await.unwrap().state == State::Paused).await;
    bench.hosts.kill_libvirtd(1);
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status.success(), "{status}");
    bench.expect_same_boot("freeze, libvirtd killed").await;
    bench.expect_state(1, State::Running).await;
}

/// The matrix with libvirtd as the victim.
async fn libvirtd_killed_at_steps(mut bench: Bench) -> Bench {
    let hold = [Step::RecordBegun, Step::Suspend, Step::RecordHeld, Step::RecordDone, Step::Resume, Step::Clear];
    let essential = [Step::RecordHeld, Step::Resume];
    let freeze = if is_long() { [&hold[..], &[Step::Wait]].concat() } else { essential.to_vec() };
    for step in freeze {
        bench.survive_libvirtd(1, freeze_for(step), step, "done").await;
        bench.expect_same_boot(&format!("freeze, libvirtd killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    let reboot = if is_long() { [&hold[..], &[Step::Reset]].concat() } else { vec![Step::RecordDone] };
    for step in reboot {
        bench.survive_libvirtd(1, "reboot", step, "done").await;
        bench.expect_reboot(&format!("reboot, libvirtd killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    let graceful = [Step::RecordBegun, Step::Shutdown, Step::RecordDown, Step::Start, Step::Clear];
    for step in &graceful[..if is_long() { graceful.len() } else { 0 }] {
        bench.survive_libvirtd(1, "reboot-graceful", *step, "done").await;
        bench.expect_reboot(&format!("graceful reboot, libvirtd killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    bench
}

/// Another program starts the machine that an order has shut down, and undefines one that an order holds.
async fn started_and_undefined_by_another_program(bench: &mut Bench) {
    let event = new_event();
    assert_eq!(bench.perform(1, &event, "reboot-graceful", &["--kill-before", "start"]).await, Ended::Killed);
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    connection.start(&domain, CreateFlags::NONE).await.unwrap();
    assert_eq!(bench.perform(1, &event, "reboot-graceful", &[]).await, Ended::Printed("done".into()));
    bench.expect_reboot("graceful reboot, started by another program").await;

    let event = new_event();
    let freeze = freeze_for(Step::Wait);
    assert_eq!(bench.perform(1, &event, freeze, &["--kill-before", "wait"]).await, Ended::Killed);
    connection.undefine(&domain, UndefineFlags::NONE).await.unwrap();
    assert_eq!(bench.perform(1, &event, freeze, &[]).await, Ended::Printed("done".into()));
    bench.expect_same_boot("freeze, undefined by another program").await;
    let graceful = bench.perform(1, &new_event(), "reboot-graceful", &[]).await;
    assert_eq!(graceful, Ended::Printed("failed: the domain is transient: it would be lost when it shuts down".into()));
    connection.define(&bench.guest.xml(), DefineFlags::NONE).await.unwrap();
    bench.expect_state(1, State::Running).await;
}

/// The disk of the journal is full when the driver is started after a crash: the machine runs, and the order fails.
async fn full_disk(bench: &Bench) {
    let journal = bench.journal(1);
    let disk = SmallDisk::mount(&journal);
    let event = new_event();
    assert_eq!(bench.perform(1, &event, "freeze:60000", &["--kill-before", "record-held"]).await, Ended::Killed);
    disk.fill();
    let child = bench.command(1, &event, "freeze:60000", &[]).spawn().unwrap();
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    wait_until(async || connection.state(&domain).await.unwrap().state == State::Running).await;
    bench.expect_same_boot("freeze, disk of the journal full").await;
    disk.clear();
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("failed: cannot write the journal: No space left"), "{text}");
    bench.expect_state(1, State::Running).await;
}

/// A file system of a few pages, mounted until dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(dir: &Path) -> SmallDisk {
        std::fs::create_dir_all(dir).unwrap();
        let mut command = Command::new("mount");
        command.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(dir);
        assert!(command.status().unwrap().success(), "mount needs root");
        SmallDisk(dir.to_owned())
    }

    fn fill(&self) {
        std::fs::write(self.0.join("fill"), vec![0; 1 << 20]).expect_err("the disk is small");
    }

    fn clear(&self) {
        std::fs::remove_file(self.0.join("fill")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// Actions that move the machine or shut it down, with the driver killed at the steps that matter. Ends on host 1.
async fn move_cases(hosts: &Hosts) -> Bench {
    let mut bench = Bench::start(hosts, hosts.guest("move", 3)).await;
    refused_and_late_migrations_fail(&bench).await;
    bench.survive(1, "migrate", Step::Migrate, "moved to host2").await;
    bench.expect_same_boot("live migration, killed before migrate").await;
    bench.expect_absent(1).await;
    bench.clear_record(2).await;
    bench.expect_state(2, State::Running).await;
    killed_during_a_migration(&bench).await;

    let graceful = [Step::RecordDown, Step::Shutdown, Step::Start, Step::RecordBegun, Step::RecordOutcome, Step::Clear];
    for step in &graceful[..if is_long() { graceful.len() } else { 1 }] {
        bench.survive(1, "reboot-graceful", *step, "done").await;
        bench.expect_reboot(&format!("graceful reboot, killed before {}", step.as_str())).await;
        bench.expect_state(1, State::Running).await;
    }
    bench.survive(1, "redeploy", Step::MoveDefinition, "moved to host2").await;
    bench.expect_absent(1).await;
    bench.clear_record(2).await;
    bench.survive(2, "start", Step::Start, "done").await;
    bench.expect_reboot("redeploy, killed before move-definition").await;
    assert_eq!(bench.perform(2, &new_event(), "migrate", &[]).await, Ended::Printed("moved to host1".into()));
    bench.clear_record(1).await;
    bench
}

/// The machine runs on where it is.
async fn refused_and_late_migrations_fail(bench: &Bench) {
    let nowhere = ["--to", "host9", "/no/such/socket", "tcp://10.99.0.9"];
    let refused = bench.perform(1, &new_event(), "migrate", &nowhere).await;
    assert!(matches!(&refused, Ended::Printed(text) if text.starts_with("failed: ")), "{refused:?}");
    println!("migration to a host that is not there: {refused:?}");
    let late = bench.perform(1, &new_event(), "migrate", &["--deadline", "400"]).await;
    assert_eq!(late, Ended::Printed("failed: the deadline has passed".into()));
    bench.expect_same_boot("live migration, refused and late").await;
    bench.expect_state(1, State::Running).await;
}

/// libvirt cancels the migration or has completed it. The driver finishes the order in both cases.
async fn libvirtd_killed_during_a_migration(bench: &Bench) {
    let child = bench.command(1, &new_event(), "migrate", &[]).spawn().unwrap();
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    wait_until(async || match connection.job_info(&domain).await {
        Ok(info) => info.kind == JobKind::Unbounded,
        Err(_) => true,
    })
    .await;
    bench.hosts.kill_libvirtd(1);
    let output = tokio::task::spawn_blocking(move || child.wait_with_output().unwrap()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), "moved to host2");
    bench.expect_same_boot("live migration, libvirtd killed").await;
    bench.expect_absent(1).await;
    bench.clear_record(2).await;
    bench.expect_state(2, State::Running).await;
}

/// The migration goes on without the driver. Performing the order again waits for its end.
async fn killed_during_a_migration(bench: &Bench) {
    let event = new_event();
    let mut child = bench.command(2, &event, "migrate", &[]).spawn().unwrap();
    let connection = connect(&bench.hosts, 2).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    wait_until(async || match connection.job_info(&domain).await {
        Ok(info) => info.kind == JobKind::Unbounded,
        Err(_) => true,
    })
    .await;
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(bench.perform(2, &event, "migrate", &[]).await, Ended::Printed("moved to host1".into()));
    bench.expect_same_boot("live migration, killed in the middle").await;
    bench.expect_absent(2).await;
    bench.clear_record(1).await;
    bench.expect_state(1, State::Running).await;
}

async fn wait_until(mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(STATE_MAX, wait).await.expect("the state is reached in time");
}
