//! The log: one line per message on standard error.

use std::io::Write;
use std::time::SystemTime;

/// Writes the time and a line of text. Control characters, including line breaks, become spaces.
pub fn write_line(text: impl AsRef<str>) {
    let clean: String = text.as_ref().chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    let now = httpdate::fmt_http_date(SystemTime::now());
    // A closed standard error is no reason to stop.
    let _ = writeln!(std::io::stderr(), "{now} {}", clean.trim_end());
}
