//! The program `perform_order`, which tests kill, and helpers of tests with guests.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use forewarn_drivers::Step;

/// The steps of a hard reboot and of a freeze, without the one in the middle.
pub const HOLD: [Step; 7] = [
    Step::RecordBegun,
    Step::Suspend,
    Step::RecordHeld,
    Step::RecordDone,
    Step::Resume,
    Step::RecordOutcome,
    Step::Clear,
];

/// A killed program, or its output.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    Killed,
    Printed(String),
}

/// Runs the program to its end.
pub async fn run(mut command: Command) -> Ended {
    let output = tokio::task::spawn_blocking(move || command.output().unwrap()).await.unwrap();
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    if output.status.success() {
        return Ended::Printed(text);
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), None, "{errors}");
    Ended::Killed
}

/// The example that performs orders, built beside this program.
pub fn program() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let path = tests.parent().and_then(|deps| deps.parent()).unwrap().join("examples/perform_order");
    assert!(path.exists(), "{} is not built: run `cargo build --examples`", path.display());
    path
}

pub fn new_event() -> String {
    static EVENTS: AtomicU32 = AtomicU32::new(1);
    format!("602d9444-d2cd-49c7-8624-{:012}", EVENTS.fetch_add(1, Ordering::Relaxed))
}
