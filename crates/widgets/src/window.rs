//! The time span that a page shows at first. The window stands still while the line of the current time moves through it, and
//! moves on by a quarter when the line has reached the second half.

use forewarn_core::Timestamp;

use forewarn_api_types::Time;

/// The width of a window, unless the viewer has chosen another.
pub const SPAN_MS: i64 = 40 * 60 * 1000;

/// Distances between two ticks, in minutes.
const TICK_MINUTES: [i64; 10] = [1, 2, 5, 10, 15, 30, 60, 240, 720, 1440];

/// The largest number of ticks in a window.
const TICKS_MAX: i64 = 7;

#[derive(Clone, Copy)]
pub struct Window {
    from: i64,
    span: i64,
}

impl Window {
    /// The window for this time, with the default width.
    pub fn centered_on(now: Timestamp) -> Window {
        Window::spanning(now, SPAN_MS, 0)
    }

    /// A window of this width around this time, moved by a number of quarters of its width.
    pub fn spanning(now: Timestamp, span: i64, quarters: i64) -> Window {
        // A window starts at a multiple of a quarter, at least a quarter ago.
        let step = span / 4;
        Window { from: (now.0 - step).div_euclid(step) * step + quarters * step, span }
    }

    pub fn span_ms(self) -> i64 {
        self.span
    }

    pub fn begin(self) -> Timestamp {
        Timestamp(self.from)
    }

    /// Position in percent of the width. Times outside of the window are clamped to just outside.
    pub fn percent(self, at: i64) -> f64 {
        ((at - self.from) as f64 / self.span as f64 * 100.0).clamp(-1.0, 101.0)
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
        let is_fine = |step: &i64| self.span / step <= TICKS_MAX;
        let step = TICK_MINUTES.map(|minutes| minutes * 60_000).into_iter().find(is_fine).unwrap_or(self.span);
        let first = (self.from + step - 1).div_euclid(step) * step;
        let ticks = (0..).map(|n| first + n * step).take_while(|at| *at < self.from + self.span);
        ticks.map(|at| (format!("{:.2}%", self.percent(at)), tick_label(at, step))).collect()
    }
}

/// The time of day, or the date if ticks are half a day apart or more.
fn tick_label(at: i64, step: i64) -> String {
    let iso = Time(at).to_string();
    let text = if step >= 12 * 3_600_000 { iso.get(5..10) } else { iso.get(11..16) };
    text.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_time_is_in_the_second_quarter_and_the_window_stands_still() {
        for minute in 0..60 {
            let now = Timestamp(minute * 60_000);
            let percent = Window::centered_on(now).percent(now.0);
            assert!((25.0..50.0).contains(&percent), "{minute}: {percent}");
        }
        let windows = [0, 4, 9].map(|minute| Window::centered_on(Timestamp(minute * 60_000)).from);
        assert!(windows.iter().all(|from| *from == windows[0]), "{windows:?}");
    }

    #[test]
    fn ticks_are_at_multiples_of_ten_minutes() {
        let ticks = Window::centered_on(Timestamp::from_secs(1_772_366_700)).ticks();
        let labels: Vec<&str> = ticks.iter().map(|(_, label)| label.as_str()).collect();
        assert_eq!(labels, ["11:50", "12:00", "12:10", "12:20"]);
    }
}
