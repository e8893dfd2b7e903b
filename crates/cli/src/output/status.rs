//! A status line that is rewritten while a command waits.

use std::io::{self, IsTerminal as _, Write as _};

use super::escape;
use super::width::columns;

/// A status line on the terminal; does nothing if standard error is not a terminal.
pub struct StatusLine {
    terminal: bool,
    shown: bool,
}

impl StatusLine {
    pub fn new() -> StatusLine {
        StatusLine { terminal: io::stderr().is_terminal(), shown: false }
    }

    pub fn is_terminal(&self) -> bool {
        self.terminal
    }

    pub fn show(&mut self, text: &str) {
        if self.terminal {
            // A line that wraps could not be rewritten.
            let shown: String = escape(text).chars().take(columns(io::stderr()).saturating_sub(1)).collect();
            let _ = write!(io::stderr(), "\r\x1b[K{shown}");
            self.shown = true;
        }
    }

    pub fn show_reconnecting(&mut self) {
        self.show("Server unreachable, reconnecting (Ctrl-C: stop)");
    }

    /// Clears the line so that other output can be printed.
    pub fn clear(&mut self) {
        if std::mem::take(&mut self.shown) {
            let _ = write!(io::stderr(), "\r\x1b[K");
        }
    }
}

/// Clears whatever status line is on the terminal.
pub fn clear_status() {
    if io::stderr().is_terminal() {
        let _ = write!(io::stderr(), "\r\x1b[K");
    }
}

impl Drop for StatusLine {
    fn drop(&mut self) {
        self.clear();
    }
}
