//! The shapes of a lane: notices that fill as machines get ready, impacts, and labels. They carry times; positions are computed for
//! whole pages only, because the script computes them on an open page.

use super::window::Window;

/// Steps of the readiness in one bar.
const STEPS_MAX: usize = 16;

/// Events that look the same.
pub struct Bar {
    pub from: i64,
    /// End of the notice.
    pub to: i64,
    /// The impact; the end is `None` while it lasts.
    pub impact: Option<(i64, Option<i64>)>,
    pub severity: &'static str,
    pub is_finished: bool,
    pub has_notice: bool,
    /// Steps of the readiness: from, to (`None`: now), share in percent.
    pub steps: Vec<(i64, Option<i64>, u32)>,
    pub y: u32,
    pub height: u32,
    pub now: i64,
    pub window: Option<Window>,
}

pub struct Label {
    pub text: String,
    pub at: i64,
    pub x: String,
    pub is_left: bool,
}

impl Bar {
    pub fn bar(&self, begin: &i64, end: &i64) -> String {
        self.window.map_or_else(String::new, |window| window.bar(*begin, *end))
    }

    /// Like `bar`, up to now if there is no end.
    pub fn open_bar(&self, begin: &i64, end: &Option<i64>) -> String {
        self.bar(begin, &end.unwrap_or(self.now))
    }

    /// The vertical position and the height of a share of the bar.
    pub fn filled(&self, share: &u32) -> (u32, u32) {
        let filled = (self.height * share).div_ceil(100);
        (self.y + self.height - filled, filled)
    }
}

/// The share of ready machines over time, as a staircase. `approvals` has a time and a number of machines each, out of `all`.
pub fn build_readiness_steps(all: usize, mut approvals: Vec<(i64, usize)>) -> Vec<(i64, Option<i64>, u32)> {
    approvals.sort_unstable();
    let mut steps: Vec<(i64, Option<i64>, u32)> = Vec::new();
    let mut ready = 0;
    for (at, machines) in approvals {
        ready += machines;
        let share = (ready * 100 / all.max(1)) as u32;
        let is_full = steps.len() == STEPS_MAX;
        match steps.last_mut() {
            Some(last) if last.0 == at || is_full => last.2 = share,
            Some(last) => {
                last.1 = Some(at);
                steps.push((at, None, share));
            }
            None => steps.push((at, None, share)),
        }
    }
    steps
}

/// A span such as `4:50` or `1:04:50`.
pub fn clock_span(secs: u64) -> String {
    let (hours, minutes, secs) = (secs / 3600, secs / 60 % 60, secs % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{secs:02}") } else { format!("{minutes}:{secs:02}") }
}
