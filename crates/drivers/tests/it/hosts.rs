//! The libvirt driver on real guests: every action, and a driver or libvirtd that is killed at every step.
//!
//! `cargo xtask accept libvirt` provides the hosts. It runs the steps that matter most; with `XTASK_LONG=1`, all of them.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use forewarn_drivers::libvirt::Step;
use forewarn_libvirt::{Affect, Connection, CreateFlags, DefineFlags, Domain, ErrorCode, JobKind, State, Target};
use forewarn_test_support::{Guest, Hosts};

const URI: &str = "https://forewarn.dev/libvirt";

/// Time limit for libvirt to reach a state.
const STATE_MAX: Duration = Duration::from_secs(60);

/// Runs all cases, not only a selection.
fn is_long() -> bool {
    std::env::var("XTASK_LONG").is_ok_and(|value| value == "1")
}

/// A guest, and the program that performs orders on it.
struct Bench {
    hosts: Hosts,
    guest: Guest,
    /// How often the guest has booted.
    boots: usize,
    boot_id: String,
}

/// A killed program, or its output.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    Killed,
    Printed(String),
}

impl Bench {
    async fn start(hosts: &Hosts, guest: Guest) -> Bench {
        let hosts = hosts.clone();
        let connection = connect(&hosts, 1).await;
        let domain = connection.define(&guest.xml(), DefineFlags::NONE).await.unwrap();
        connection.start(&domain, CreateFlags::NONE).await.unwrap();
        let boot_id = guest.wait_for_boot(1).await;
        guest.wait_for_beat().await;
        Bench { hosts, guest, boots: 1, boot_id }
    }

    fn command(&self, host: usize, event: &str, action: &str, options: &[&str]) -> Command {
        let mut command = Command::new(program());
        let journal = self.hosts.dir().join(format!("journal-{}-{host}", self.guest.name));
        command.arg(self.hosts.socket(host)).arg(format!("host{host}")).arg(journal);
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
        let mut command = self.command(host, event, action, options);
        let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        if output.status.success() {
            return Ended::Printed(text);
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), None, "{action}: {errors}");
        Ended::Killed
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

    /// Expects exactly one more boot.
    async fn expect_reboot(&mut self, what: &str) {
        self.boots += 1;
        let boot_id = self.guest.wait_for_boot(self.boots).await;
        println!("{what}: boot id {} -> {boot_id}", self.boot_id);
        assert_ne!(boot_id, self.boot_id, "{what}");
        self.boot_id = boot_id;
        self.guest.wait_for_beat().await;
        assert_eq!(self.guest.boot_ids().len(), self.boots, "{what}: one boot");
    }

    /// Expects that the guest goes on in the same boot.
    async fn expect_same_boot(&self, what: &str) {
        self.guest.wait_for_beat().await;
        let boot_ids = self.guest.boot_ids();
        println!("{what}: boot id {} -> {}", self.boot_id, boot_ids.last().unwrap());
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

/// The example that performs orders, built beside this program.
fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples/perform_order");
    assert!(path.exists(), "{} is not built: run `cargo build --examples`", path.display());
    path
}

fn new_event() -> String {
    static EVENTS: AtomicU32 = AtomicU32::new(1);
    format!("602d9444-d2cd-49c7-8624-{:012}", EVENTS.fetch_add(1, Ordering::Relaxed))
}

#[tokio::test]
async fn orders_happen_once_through_kills_of_driver_and_libvirtd() {
    let Some(hosts) = Hosts::from_environment() else { return };
    let (held, moved) = tokio::join!(hold_cases(&hosts), move_cases(&hosts));

    // From here on one machine at a time, because both share the libvirtd that is killed.
    libvirtd_killed_while_a_machine_is_held(&held).await;
    libvirtd_killed_during_a_migration(&moved).await;

    held.survive_with(1, "terminate", Step::DeleteDisks, "gone", &["--pool", "images"]).await;
    held.expect_absent(1).await;
    assert!(!hosts.pooled_image().exists(), "disks in the named pool are deleted");
    assert!(hosts.other_image().exists(), "other disks are kept");
    assert_eq!(held.perform(1, &new_event(), "freeze:1", &[]).await, Ended::Printed("gone".into()));
    moved.survive(2, "evict-delete", Step::Undefine, "gone").await;
    moved.expect_absent(2).await;
}

/// Freeze and Reboot, with the driver killed at each step.
async fn hold_cases(hosts: &Hosts) -> Bench {
    let mut guest = hosts.guest("hold", 2);
    guest.disks = vec![hosts.pooled_image(), hosts.other_image()];
    let mut bench = Bench::start(hosts, guest).await;
    let common = [Step::RecordBegun, Step::Suspend, Step::RecordHeld, Step::RecordDone, Step::Resume, Step::Clear];
    for step in common.into_iter().chain([Step::Wait, Step::RecordOutcome]) {
        bench.survive(1, "freeze:200", step, "done").await;
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
    let mut child = bench.command(1, &new_event(), "freeze:3000", &[]).spawn().unwrap();
    let connection = connect(&bench.hosts, 1).await;
    let domain = bench.domain(&connection).await.expect("the domain is here");
    wait_until(async || connection.state(&domain).await.unwrap().state == State::Paused).await;
    bench.hosts.kill_libvirtd(1);
    let status = tokio::task::spawn_blocking(move || child.wait().unwrap()).await.unwrap();
    assert!(status.success(), "{status}");
    bench.expect_same_boot("freeze, libvirtd killed").await;
    bench.expect_state(1, State::Running).await;
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

    let graceful = [Step::RecordDown, Step::Shutdown, Step::Start];
    for step in &graceful[..if is_long() { 3 } else { 1 }] {
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
