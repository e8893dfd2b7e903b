//! The time span that a page shows at first. The window stands still while the line of the current time moves through it, and
//! moves on by a quarter when the line has reached the second half.

use forewarn_core::Timestamp;

use forewarn_api_types::Time;

/// The width of the window.
const SPAN_MS: i64 = 40 * 60 * 1000;

/// A window starts at a multiple of this, at least this long ago.
const STEP_MS: i64 = SPAN_MS / 4;

const TICK_MS: i64 = 10 * 60 * 1000;

#[derive(Clone, Copy)]
pub struct Window {
    from: i64,
}

impl Window {
    /// The window for this time.
    pub fn around(now: Timestamp) -> Window {
        Window { from: (now.0 - STEP_MS).div_euclid(STEP_MS) * STEP_MS }
    }

    pub fn span_ms(self) -> i64 {
        SPAN_MS
    }

    /// Position in percent of the width. Times outside of the window are clamped to just outside.
    fn percent(self, at: i64) -> f64 {
        ((at - self.from) as f64 / SPAN_MS as f64 * 100.0).clamp(-1.0, 101.0)
    }

    pub fn bar(self, begin: i64, end: i64) -> String {
        let (begin, end) = (self.percent(begin), self.percent(end));
        format!(r#"x="{begin:.2}%" width="{:.2}%""#, (end - begin).max(0.25))
    }

    pub fn line(self, at: i64) -> String {
        let x = self.percent(at);
        format!(r#"x1="{x:.2}%" x2="{x:.2}%""#)
    }

    pub fn mark(self, at: i64) -> String {
        format!(r#"cx="{:.2}%""#, self.percent(at))
    }

    /// Positions and labels, in UTC.
    pub fn ticks(self) -> Vec<(String, String)> {
        let first = (self.from + TICK_MS - 1).div_euclid(TICK_MS) * TICK_MS;
        let ticks = (0..).map(|n| first + n * TICK_MS).take_while(|at| *at < self.from + SPAN_MS);
        ticks.map(|at| (format!("{:.2}%", self.percent(at)), clock_time(at))).collect()
    }
}

fn clock_time(at: i64) -> String {
    let iso = Time(at).to_string();
    iso.get(11..16).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_time_is_in_the_second_quarter_and_the_window_stands_still() {
        for minute in 0..60 {
            let now = Timestamp(minute * 60_000);
            let percent = Window::around(now).percent(now.0);
            assert!((25.0..50.0).contains(&percent), "{minute}: {percent}");
        }
        let windows = [0, 4, 9].map(|minute| Window::around(Timestamp(minute * 60_000)).from);
        assert!(windows.iter().all(|from| *from == windows[0]), "{windows:?}");
    }

    #[test]
    fn ticks_are_at_multiples_of_ten_minutes() {
        let ticks = Window::around(Timestamp::from_secs(1_772_366_700)).ticks();
        let labels: Vec<&str> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["11:50", "12:00", "12:10", "12:20"]);
    }
}
