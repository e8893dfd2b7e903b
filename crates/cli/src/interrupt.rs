//! Ctrl-C while a command waits: says what continues without it, and exits with 130.

use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use tokio::signal::unix::{SignalKind, signal};

use crate::failure::INTERRUPTED;
use crate::output;

/// The explanation of the command that waits, if one does.
static EXPLANATION: OnceLock<Mutex<Option<String>>> = OnceLock::new();

/// Explains an interruption until dropped.
pub struct InterruptGuard;

/// Returns once Ctrl-C has the explanation.
pub fn explain(text: impl Into<String>) -> InterruptGuard {
    let first = EXPLANATION.get().is_none();
    *explanation() = Some(text.into());
    if first {
        let (listening, is_listening) = channel();
        thread::spawn(move || listen(listening));
        let _ = is_listening.recv();
    }
    InterruptGuard
}

impl Drop for InterruptGuard {
    fn drop(&mut self) {
        *explanation() = None;
    }
}

fn explanation() -> MutexGuard<'static, Option<String>> {
    EXPLANATION.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// Without a runtime, the signal keeps its default action, and only the explanation is missing.
fn listen(listening: Sender<()>) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return };
    runtime.block_on(async {
        let Ok(mut interrupt) = signal(SignalKind::interrupt()) else { return };
        drop(listening);
        interrupt.recv().await;
        if let Some(text) = explanation().take() {
            output::clear_status();
            output::print_stderr(&text);
        }
        std::process::exit(INTERRUPTED.into());
    });
}
