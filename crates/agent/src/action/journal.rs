//! Writes an entry to the systemd journal, with the event as fields. Uses journald's native protocol: one datagram with
//! `FIELD=value` lines; values with line breaks are preceded by their length.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::record::Phase;

/// Finds all entries: `journalctl MESSAGE_ID=…`.
const MESSAGE_ID: &str = "5b7f0e6d1c2a4f0f9c3e8d4a6b1f2e70";

/// Enough for the names of a thousand machines; keeps the datagram far below the limit of the socket.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Syslog priority: notice.
const PRIORITY: &str = "5";

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    #[serde(default = "default_socket")]
    socket: PathBuf,
}

fn default_socket() -> PathBuf {
    "/run/systemd/journal/socket".into()
}

impl Journal {
    pub fn check(&self) -> Result<()> {
        let path = self.socket.display();
        let metadata =
            std::fs::metadata(&self.socket).with_context(|| format!("cannot use the journal socket {path}"))?;
        ensure!(metadata.file_type().is_socket(), "{path} is not a socket");
        Ok(())
    }

    pub fn write(&self, phase: Phase) -> Result<()> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let datagram = build_datagram(phase, variable);
        let at = || format!("cannot write to the journal socket {}", self.socket.display());
        UnixDatagram::unbound().and_then(|socket| socket.send_to(&datagram, &self.socket)).with_context(at)?;
        Ok(())
    }
}

fn build_datagram(phase: Phase, variable: impl Fn(&str) -> String) -> Vec<u8> {
    let (kind, names) = (variable("EVENT_TYPE"), variable("EVENT_RESOURCES"));
    let message = match phase {
        Phase::Prepare => format!("{kind} of {names} not before {}", variable("EVENT_NOT_BEFORE")),
        Phase::Started => format!("{kind} of {names} has started"),
        Phase::Restore => format!("{kind} of {names} has finished"),
    };
    let mut out = Vec::new();
    append_field(&mut out, "MESSAGE", &message);
    append_field(&mut out, "MESSAGE_ID", MESSAGE_ID);
    append_field(&mut out, "PRIORITY", PRIORITY);
    append_field(&mut out, "SYSLOG_IDENTIFIER", "forewarn-agent");
    append_field(&mut out, "FOREWARN_PHASE", phase.as_str());
    for name in crate::environment::VARIABLES {
        append_field(&mut out, &format!("FOREWARN_{name}"), &variable(name));
    }
    out
}

fn append_field(out: &mut Vec<u8>, name: &str, value: &str) {
    let max = value.len().min(VALUE_BYTES_MAX);
    let end = (0..=max).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
    let value = &value.as_bytes()[..end];
    out.extend_from_slice(name.as_bytes());
    if value.contains(&b'\n') {
        out.push(b'\n');
        out.extend_from_slice(&(value.len() as u64).to_le_bytes());
    } else {
        out.push(b'=');
    }
    out.extend_from_slice(value);
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_line_breaks_have_a_length_and_long_ones_are_truncated() {
        let mut out = Vec::new();
        append_field(&mut out, "A", "x=y");
        append_field(&mut out, "B", "x\nC=z");
        assert_eq!(out, b"A=x=y\nB\n\x05\0\0\0\0\0\0\0x\nC=z\n");
        out.clear();
        append_field(&mut out, "A", &format!("a{}", "é".repeat(VALUE_BYTES_MAX)));
        assert_eq!(out.len(), "A=\n".len() + VALUE_BYTES_MAX - 1);
    }
}
