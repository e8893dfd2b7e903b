//! Prints what each action did to a guest.

use std::cell::Cell;
use std::time::Instant;

/// Prints the boot IDs of a guest before and after each action, and the seconds since the action before.
#[derive(Debug)]
pub struct BootLog {
    printed: Cell<Instant>,
}

impl BootLog {
    /// The time of the first action counts from here.
    #[expect(clippy::new_without_default, reason = "it starts a clock")]
    pub fn new() -> BootLog {
        BootLog { printed: Cell::new(Instant::now()) }
    }

    /// `after` is `none` if the guest is off.
    pub fn print(&self, action: &str, before: &str, after: &str) {
        let elapsed = self.printed.replace(Instant::now()).elapsed();
        println!("{action}: boot id {before} -> {after} ({:.1} s)", elapsed.as_secs_f32());
    }
}
