//! The crash matrix of servers and host agents: every action on a real machine, with the process that drives it killed
//! before each step of its order. The steps of all drivers are here; the tests choose the victims. With guests, only single
//! steps except in long runs (`XTASK_LONG=1`).
//!
//! The guest has no handler, so that requests begin at once. It boots once, and then as often as the actions make it. A
//! snapshot would only save the first boot (2.3 s of processor time, 0.2 s to restore), because a new boot ID needs a boot, and
//! taking the snapshot needs a boot too.

use std::path::Path;

use forewarn_test_support::{BootLog, Guest};

use crate::machine_bench::{Bench, has_no_events, wait_until};

/// The steps that pause a machine and resume it.
const HOLD: [&str; 7] = ["record-begun", "suspend", "record-held", "record-done", "resume", "record-outcome", "clear"];

/// The steps that shut a machine down.
const DOWN: [&str; 5] = ["record-begun", "shutdown", "record-down", "record-outcome", "clear"];

/// The steps that depend on the driver.
pub struct DriverSteps {
    pub start: &'static [&'static str],
    /// The steps of a Redeploy after the machine is down.
    pub redeploy: &'static [&'static str],
    /// The steps of a drain that moves the machine.
    pub migration: &'static [&'static str],
    pub deletion: &'static [&'static str],
}

pub const LIBVIRT: DriverSteps = DriverSteps {
    start: &["start", "record-outcome", "clear"],
    redeploy: &["move-definition", "start"],
    migration: &["record-begun", "migrate", "record-outcome", "clear"],
    deletion: &["record-begun", "destroy", "undefine", "record-outcome", "clear"],
};

/// libvirt without another host: the machine restarts in place, from power off.
pub const LIBVIRT_ALONE: DriverSteps = DriverSteps { redeploy: &["start"], migration: &[], ..LIBVIRT };

pub const QEMU: DriverSteps = DriverSteps {
    start: &["start", "await-start", "record-outcome", "clear"],
    redeploy: &["start", "await-start"],
    migration: &[],
    deletion: &["record-begun", "destroy", "record-down", "cleanup", "delete-disks", "record-outcome", "clear"],
};

/// A machine whose boots are counted.
pub trait Machine {
    fn name(&self) -> &str;

    /// One for each boot.
    fn boot_ids(&self) -> Vec<String>;

    /// Waits until the machine has booted this often, and returns its boot ID.
    async fn wait_for_boot(&self, boots: usize) -> String;

    /// Waits until the machine has run on.
    async fn wait_for_beat(&self);
}

impl Machine for Guest {
    fn name(&self) -> &str {
        &self.name
    }

    fn boot_ids(&self) -> Vec<String> {
        Guest::boot_ids(self)
    }

    async fn wait_for_boot(&self, boots: usize) -> String {
        Guest::wait_for_boot(self, boots).await
    }

    async fn wait_for_beat(&self) {
        Guest::wait_for_beat(self).await;
    }
}

/// The effect of an action on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It goes on in the same boot.
    Continues,
    Reboots,
    /// It is off, and gets this power state.
    Stops(&'static str),
}

/// A process that carries out orders, and that is killed in the middle of them.
pub trait Victim {
    /// The server that gives the orders.
    fn bench(&self) -> &Bench;

    /// The name of the process in the output.
    fn name(&self) -> String;

    /// Kills the process, and starts one that ends at once, without cleanup, when it reaches a step of an order.
    fn restart_until(&mut self, step: &str);

    /// Waits until the process has ended by itself.
    fn wait_for_abort(&mut self);

    /// Starts the process again after it has ended.
    fn start_again(&mut self);

    /// Whether an order is in the journal of the process.
    fn has_orders(&self) -> bool;
}

impl Victim for Bench {
    fn bench(&self) -> &Bench {
        self
    }

    fn name(&self) -> String {
        "server".into()
    }

    fn restart_until(&mut self, step: &str) {
        self.kill_server();
        self.start_server_until(step);
    }

    fn wait_for_abort(&mut self) {
        self.wait_for_server_abort();
    }

    fn start_again(&mut self) {
        self.start_server();
    }

    fn has_orders(&self) -> bool {
        let mut journals = std::fs::read_dir(self.path("data/journal")).into_iter().flatten().flatten();
        journals.any(|journal| has_entries(&journal.path()))
    }
}

/// Whether a journal contains an order.
pub fn has_entries(journal: &Path) -> bool {
    let mut files = std::fs::read_dir(journal).into_iter().flatten().flatten();
    files.any(|file| file.path().extension().is_some_and(|end| end == "json"))
}

/// A machine on which the actions are performed.
pub struct Matrix<'m, V, M> {
    pub victim: &'m mut V,
    pub guest: &'m M,
    pub boots: usize,
    pub cells: usize,
    /// How often the machine was started by an order.
    starts: usize,
    steps: &'static DriverSteps,
    log: BootLog,
}

impl<'m, V: Victim, M: Machine> Matrix<'m, V, M> {
    pub fn new(victim: &'m mut V, guest: &'m M, steps: &'static DriverSteps) -> Matrix<'m, V, M> {
        let boots = guest.boot_ids().len();
        Matrix { victim, guest, boots, cells: 0, starts: 0, steps, log: BootLog::new() }
    }

    /// The rows of actions that leave the machine where it is, or move it while it is off.
    pub async fn survive_common(&mut self) {
        let (name, redeploy) = (self.guest.name().to_owned(), self.steps.redeploy);
        let freeze = format!("maintenance start --vm {name} --type Freeze --duration 1s");
        self.survive(&freeze, &[&HOLD[..], &["wait"]].concat(), Effect::Continues).await;
        self.survive(&format!("vm restart {name}"), &[&HOLD[..], &["reset"]].concat(), Effect::Reboots).await;
        self.survive(&format!("vm stop {name}"), &DOWN, Effect::Stops("Stopped")).await;
        self.survive(&format!("vm deallocate {name}"), &DOWN, Effect::Stops("Deallocated")).await;
        self.survive(&format!("vm simulate-eviction {name}"), &DOWN, Effect::Stops("Deallocated")).await;
        self.survive(&format!("vm redeploy {name}"), &[&DOWN[..], redeploy].concat(), Effect::Reboots).await;
    }

    /// Performs an action once for each of its steps. A machine that is off afterward is started again, with the process
    /// killed before each step of the start in turn.
    pub async fn survive(&mut self, words: &str, steps: &[&str], effect: Effect) {
        for step in steps {
            self.survive_step(words, step, effect).await;
            if matches!(effect, Effect::Stops(_)) {
                let step = self.steps.start[self.starts % self.steps.start.len()];
                self.starts += 1;
                self.survive_step(&format!("vm start {}", self.guest.name()), step, Effect::Reboots).await;
            }
        }
    }

    /// Kills the process before a step of an order, and expects the effect exactly once after its restart.
    pub async fn survive_step(&mut self, words: &str, step: &str, effect: Effect) {
        let before = self.guest.wait_for_boot(self.boots).await;
        self.interrupt(words, step);
        let cell = format!("{words}, {} killed before {step}", self.victim.name());
        let after = self.expect(effect, &cell).await;
        self.log.print(&cell, &before, &after);
    }

    /// Drains the host of the machine once for each step of a migration.
    pub async fn survive_migrations(&mut self) {
        for step in self.steps.migration {
            self.survive_migration(step).await;
        }
    }

    /// Drains the host of the machine, and expects it on another host in the same boot.
    pub async fn survive_migration(&mut self, step: &str) {
        let name = self.guest.name().to_owned();
        let bench = self.victim.bench();
        let host = bench.show(&format!("vm show {name}"))["host"].as_str().unwrap().to_owned();
        self.survive_step(&format!("host drain {host}"), step, Effect::Continues).await;
        let bench = self.victim.bench();
        wait_until("the drain", || bench.show(&format!("host show {host}"))["state"] == "Drained");
        assert_ne!(bench.show(&format!("vm show {name}"))["host"], host.as_str());
        bench.run(&format!("host undrain {host}"));
    }

    /// Deletes the machine once for each step, and expects that it is gone, also for `is_gone`. Then it is to be created again.
    pub async fn survive_deletions(&mut self, is_gone: impl AsyncFn() -> bool, create: impl AsyncFn(&Bench)) {
        let name = self.guest.name().to_owned();
        for step in self.steps.deletion {
            let before = self.guest.wait_for_boot(self.boots).await;
            self.interrupt(&format!("vm delete {name} --yes"), step);
            wait_until("the end of the machine", || {
                let listed = self.victim.bench().show("vm list");
                let is_listed = listed.as_array().unwrap().iter().any(|machine| machine["name"] == name.as_str());
                !is_listed && !self.victim.has_orders()
            });
            assert!(is_gone().await, "{step}");
            self.log.print(&format!("vm delete, {} killed before {step}", self.victim.name()), &before, "none");
            create(self.victim.bench()).await;
            self.boots += 1;
            self.guest.wait_for_boot(self.boots).await;
        }
    }

    /// Kills the process before a step of an order, and starts it again.
    fn interrupt(&mut self, words: &str, step: &str) {
        self.victim.restart_until(step);
        // A server may end before it answers.
        self.victim.bench().try_run(words);
        self.victim.wait_for_abort();
        self.victim.start_again();
        self.cells += 1;
    }

    async fn expect(&mut self, effect: Effect, cell: &str) -> String {
        let name = self.guest.name().to_owned();
        let bench = self.victim.bench();
        wait_until(&format!("the end of {cell}"), || {
            let shown = bench.show(&format!("vm show {name}"));
            has_no_events(bench) && shown["powerChange"].is_null() && !self.victim.has_orders()
        });
        let power = match effect {
            Effect::Stops(power) => power,
            Effect::Continues | Effect::Reboots => "Running",
        };
        wait_until(&format!("the power state after {cell}"), || {
            bench.show(&format!("vm show {name}"))["power"] == power
        });
        match effect {
            Effect::Stops(_) => {
                assert_eq!(self.guest.boot_ids().len(), self.boots, "{cell}: no other boot");
                "none".into()
            }
            Effect::Continues | Effect::Reboots => {
                self.boots += usize::from(effect == Effect::Reboots);
                let boot_id = self.guest.wait_for_boot(self.boots).await;
                self.guest.wait_for_beat().await;
                assert_eq!(self.guest.boot_ids().len(), self.boots, "{cell}: one effect");
                boot_id
            }
        }
    }
}
