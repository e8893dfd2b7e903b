//! Kills the server with SIGKILL under load, many times, and checks that no acknowledged change is lost: schedules,
//! approvals and cancellations are in the history, no event started early, no incarnation was used for two lists, and
//! every event finishes.
//!
//! Each kill happens at an acknowledgement drawn from a seed; the progress of the other workers is up to the machine.

mod drivers;
mod http;
mod ledger;
mod scaling;
mod server;
mod webhooks;
mod worker;

use std::sync::mpsc;
use std::time::Duration;

use ledger::Ledger;
use server::Server;

/// Number of kills; the tests of webhooks, scaling and drivers use a tenth each.
fn kills() -> u64 {
    /// Read from the environment for `cargo xtask kill COUNT`.
    const DEFAULT: u64 = 200;
    std::env::var("XTASK_KILLS").map_or(DEFAULT, |count| count.parse().expect("XTASK_KILLS is a number"))
}

/// Limit of acknowledgements between two kills.
const ACKNOWLEDGED_MAX: u64 = 40;

/// Time limit of each step.
const PATIENCE: Duration = Duration::from_secs(60);

#[test]
fn no_acknowledged_change_is_lost_by_sigkill() {
    let data = tempfile::tempdir().expect("a directory for the data");
    let ledger = Ledger::default();
    let mut random = Random(0x5eed);
    Server::start(data.path()).register_fleet();

    for kill in 0..kills() {
        let server = Server::start(data.path());
        let (acknowledged, acknowledgements) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..worker::COUNT {
                let (server, ledger, acknowledged) = (&server, &ledger, acknowledged.clone());
                let random = Random(random.draw());
                scope.spawn(move || worker::run(server, ledger, number, random, &acknowledged));
            }
            for _ in 0..=random.below(ACKNOWLEDGED_MAX) {
                acknowledgements
                    .recv_timeout(PATIENCE)
                    .unwrap_or_else(|_| panic!("nothing is acknowledged before kill {kill}"));
            }
            server.kill();
        });
    }

    let server = Server::start(data.path());
    server.wait_until_all_finished(PATIENCE);
    ledger.check(&server);
}

/// SplitMix64, so that the choices of the workers are reproducible.
pub struct Random(pub u64);

impl Random {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit
    }
}
