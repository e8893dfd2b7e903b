//! How many machines are ready for an event, out of all that it affects. A machine without a handler cannot get ready, and is
//! counted as such, so that the numbers beside each other add up.

use askama::Template;
use forewarn_core::Event;

use super::html;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Readiness {
    pub ready: usize,
    /// Machines with a handler that were notified, ready or not.
    pub notified: usize,
    /// Machines without a handler.
    pub unnotified: usize,
}

#[derive(Template)]
#[template(path = "meter.html")]
struct Meter {
    readiness: Readiness,
}

impl Readiness {
    pub fn of<'e>(events: impl IntoIterator<Item = &'e Event>) -> Readiness {
        let mut found = Readiness::default();
        for event in events {
            found.add(event.resources.len(), event.is_shown(), event.approval.is_some());
        }
        found
    }

    pub fn add(&mut self, machines: usize, is_notified: bool, is_ready: bool) {
        match (is_notified, is_ready) {
            (false, _) => self.unnotified += machines,
            (true, false) => self.notified += machines,
            (true, true) => {
                self.notified += machines;
                self.ready += machines;
            }
        }
    }

    pub fn all(self) -> usize {
        self.notified + self.unnotified
    }

    pub fn missing(self) -> usize {
        self.notified - self.ready
    }

    /// `2/4 ready, 1 without a handler`. Empty without machines.
    pub fn describe(self) -> String {
        match (self.notified, self.unnotified) {
            (0, 0) => String::new(),
            (0, _) => "no handler".into(),
            (_, 0) => format!("{}/{} ready", self.ready, self.all()),
            (_, silent) => format!("{}/{} ready, {silent} without a handler", self.ready, self.all()),
        }
    }

    /// A bar with the numbers.
    pub fn render(self) -> String {
        html::render(&Meter { readiness: self })
    }
}

impl Meter {
    fn width(&self) -> usize {
        (52 * self.readiness.ready).checked_div(self.readiness.all()).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_without_a_handler_are_part_of_the_whole() {
        let mut found = Readiness::default();
        assert_eq!(found.describe(), "");
        found.add(1, false, false);
        assert_eq!((found.describe(), found.missing()), ("no handler".into(), 0));
        found.add(2, true, true);
        found.add(1, true, false);
        assert_eq!((found.describe(), found.missing()), ("2/4 ready, 1 without a handler".into(), 1));
        let html = found.render();
        assert!(html.contains(r#"width="26""#) && html.contains("2/4 <small>ready</small>"), "{html}");
    }
}
