//! One line per thing that happened, on standard error.

use std::io::Write;
use std::time::SystemTime;

/// The time and the line; line breaks and other control characters become spaces.
pub fn line(text: impl AsRef<str>) {
    let clean: String = text.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let now = httpdate::fmt_http_date(SystemTime::now());
    // A log that nobody takes any more is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{now} {}", clean.trim_end());
}
