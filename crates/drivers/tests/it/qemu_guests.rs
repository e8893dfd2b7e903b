//! The QEMU driver on real guests: the crash matrix, every action with the driver killed before each of its steps.
//!
//! `cargo xtask accept qemu` provides kernel and network. It runs the steps that matter most; with `XTASK_LONG=1`, all of
//! them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use forewarn_drivers::Step;
use forewarn_test_support::{BootLog, QemuGuest, QemuHost, is_long};

use crate::perform::{Ended, HOLD, new_event, program, run};

/// A guest, and the program that performs orders on it.
struct Bench {
    machines: PathBuf,
    journal: PathBuf,
    qemu: QemuGuest,
    boots: usize,
    boot_id: String,
    log: BootLog,
}

impl Bench {
    async fn start(host: &QemuHost) -> Bench {
        let qemu = host.guest("matrix", 31, false);
        std::fs::write(host.path("matrix.img"), "").unwrap();
        let machines = host.write_machines("matrix.toml", &[&qemu]);
        let log = BootLog::new();
        qemu.start();
        let boot_id = qemu.guest.wait_for_boot(1).await;
        qemu.guest.wait_for_beat().await;
        log.print("qemu: first boot", "none", &boot_id);
        Bench { machines, journal: host.path("matrix-journal"), qemu, boots: 1, boot_id, log }
    }

    fn command(&self, event: &str, action: &str, options: &[&str]) -> Command {
        let mut command = Command::new(program());
        command.arg(&self.machines).arg("host1").arg(&self.journal);
        command.args([event, &self.qemu.guest.uuid, action]).args(options);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Kills the driver before a step, then performs the same order again.
    async fn survive(&self, action: &str, step: Step, outcome: &str) {
        let event = new_event();
        let killed = run(self.command(&event, action, &["--kill-before", step.as_str()])).await;
        assert_eq!(killed, Ended::Killed, "{action} has the step {step:?}");
        let again = run(self.command(&event, action, &[])).await;
        assert_eq!(again, Ended::Printed(outcome.into()), "{action}, killed before {step:?}");
    }

    /// Expects this number of new boots, and a machine that runs.
    async fn expect_boots(&mut self, cell: &str, boots: usize) {
        self.boots += boots;
        let boot_id = self.qemu.guest.wait_for_boot(self.boots).await;
        self.qemu.guest.wait_for_beat().await;
        self.log.print(&format!("qemu: {cell}"), &self.boot_id, &boot_id);
        assert_eq!(self.qemu.guest.boot_ids().len(), self.boots, "{cell}");
        assert_eq!(boot_id == self.boot_id, boots == 0, "{cell}");
        assert_eq!(self.qemu.status(), "running", "{cell}");
        self.boot_id = boot_id;
    }
}

fn select(essential: &[Step], others: &[Step]) -> Vec<Step> {
    let others = if is_long() { others } else { &[] };
    essential.iter().chain(others).copied().collect()
}

#[tokio::test]
async fn orders_happen_once_on_guests_through_kills_of_the_driver() {
    let Some(host) = QemuHost::from_environment() else { return };
    let mut bench = Bench::start(&host).await;
    let others = [Step::RecordBegun, Step::Suspend, Step::RecordDone, Step::RecordOutcome, Step::Clear];
    for step in select(&[Step::RecordHeld, Step::Wait, Step::Resume], &others) {
        bench.survive("freeze:200", step, "done").await;
        bench.expect_boots(&format!("freeze, driver killed before {}", step.as_str()), 0).await;
    }
    for step in select(&[Step::RecordHeld, Step::RecordDone], &[&HOLD[..], &[Step::Reset]].concat()) {
        bench.survive("reboot", step, "done").await;
        bench.expect_boots(&format!("reboot, driver killed before {}", step.as_str()), 1).await;
    }
    let others = [Step::RecordBegun, Step::Shutdown, Step::RecordDown, Step::Start, Step::RecordOutcome, Step::Clear];
    for step in select(&[Step::AwaitStart], &others) {
        bench.survive("reboot-graceful", step, "done").await;
        bench.expect_boots(&format!("graceful reboot, driver killed before {}", step.as_str()), 1).await;
    }
    let others = [Step::RecordBegun, Step::Shutdown, Step::RecordOutcome, Step::Clear];
    let steps = |action: &'static str| select(&[Step::RecordDown], &others).into_iter().map(move |step| (action, step));
    // Without the power state that the server records, both are the same.
    let actions = if is_long() { &["stop", "deallocate"][..] } else { &["stop"] };
    for (action, step) in actions.iter().flat_map(|action| steps(action)) {
        bench.survive(action, step, "done").await;
        assert_eq!(bench.qemu.status(), "off");
        bench.log.print(&format!("qemu: {action}, driver killed before {}", step.as_str()), &bench.boot_id, "none");
        assert_eq!(run(bench.command(&new_event(), "start", &[])).await, Ended::Printed("done".into()));
        bench.expect_boots("start", 1).await;
    }
    bench.survive("terminate", Step::Destroy, "gone").await;
    assert_eq!(bench.qemu.status(), "off");
    assert!(!host.path("matrix.img").exists(), "the named disk is deleted");
    bench.log.print("qemu: terminate, driver killed before destroy", &bench.boot_id, "none");
}
