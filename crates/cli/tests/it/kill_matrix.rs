//! The crash matrix of the server: every action on a real machine, with the server killed before each step of its order.
//! Only in long runs (`XTASK_LONG=1`).
//!
//! The guest has no handler, so that requests begin at once. It boots once, and then as often as the actions make it: a
//! snapshot would only save the first boot, because a new boot ID needs a boot.

use forewarn_test_support::Guest;

use crate::machine_bench::{Bench, has_no_events, wait_until};

/// The steps that pause a machine and resume it.
pub const HOLD: [&str; 7] =
    ["record-begun", "suspend", "record-held", "record-done", "resume", "record-outcome", "clear"];

/// The steps that shut a machine down.
pub const DOWN: [&str; 5] = ["record-begun", "shutdown", "record-down", "record-outcome", "clear"];

/// The effect of an action on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// It goes on in the same boot.
    Continues,
    Reboots,
    /// It is off, and gets this power state.
    Stops(&'static str),
}

/// A machine on which the actions are performed.
pub struct Matrix<'m> {
    pub bench: &'m mut Bench,
    pub guest: &'m Guest,
    pub boots: usize,
    pub cells: usize,
    /// How often the machine was started by an order.
    starts: usize,
    /// The steps of a start.
    start_steps: &'static [&'static str],
}

impl<'m> Matrix<'m> {
    pub fn new(bench: &'m mut Bench, guest: &'m Guest, start_steps: &'static [&'static str]) -> Matrix<'m> {
        Matrix { bench, guest, boots: 1, cells: 0, starts: 0, start_steps }
    }

    /// Performs an action once for each of its steps. A machine that is off afterwards is started again, with the server
    /// killed before each step of the start in turn.
    pub async fn survive(&mut self, words: &str, steps: &[&str], effect: Effect) {
        for step in steps {
            self.survive_step(words, step, effect).await;
            if matches!(effect, Effect::Stops(_)) {
                let step = self.start_steps[self.starts % self.start_steps.len()];
                self.starts += 1;
                self.survive_step(&format!("vm start {}", self.guest.name), step, Effect::Reboots).await;
            }
        }
    }

    /// Kills the server before a step of an order, and expects the effect exactly once after its restart.
    pub async fn survive_step(&mut self, words: &str, step: &str, effect: Effect) {
        let before = self.guest.wait_for_boot(self.boots).await;
        self.bench.kill_server();
        self.bench.start_server_until(step);
        // The server may end before it answers.
        self.bench.try_run(words);
        self.bench.wait_for_abort();
        self.bench.start_server();
        self.cells += 1;
        let after = self.expect(effect, &format!("{words}, server killed before {step}")).await;
        println!("{words}, server killed before {step}: boot id {before} -> {after}");
    }

    async fn expect(&mut self, effect: Effect, cell: &str) -> String {
        let name = self.guest.name.clone();
        wait_until(&format!("the end of {cell}"), || {
            let shown = self.bench.show(&format!("vm show {name}"));
            has_no_events(self.bench) && shown["powerChange"].is_null() && !self.bench.has_orders()
        });
        let power = match effect {
            Effect::Stops(power) => power,
            Effect::Continues | Effect::Reboots => "Running",
        };
        wait_until(&format!("the power state after {cell}"), || {
            self.bench.show(&format!("vm show {name}"))["power"] == power
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
