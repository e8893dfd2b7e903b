//! The progress of a check on a terminal: how many cases have finished, and which are still running.

use std::time::Instant;

use forewarn_judge::secs;

use crate::output::StatusLine;

pub struct Progress {
    status: StatusLine,
    started_at: Instant,
}

impl Progress {
    pub fn new() -> Progress {
        Progress { status: StatusLine::new(), started_at: Instant::now() }
    }

    pub fn show(&mut self, all: usize, running: &[&str]) {
        let elapsed = secs(self.started_at.elapsed());
        self.status.show(&describe(all, running, &elapsed));
    }
}

fn describe(all: usize, running: &[&str], elapsed: &str) -> String {
    let finished = all - running.len();
    format!("{finished} of {all} cases finished · {elapsed} · running: {}", running.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_names_the_cases_that_run() {
        let text = describe(3, &["idle", "eviction"], "2.0 s");
        assert_eq!(text, "1 of 3 cases finished · 2.0 s · running: idle, eviction");
    }
}
