//! A line in the systemd journal with the event as fields, in journald's native protocol: one datagram,
//! `FIELD=value` lines, and a length before values that have line breaks.

use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::record::Phase;

/// `journalctl MESSAGE_ID=…` finds all of them.
const MESSAGE_ID: &str = "5b7f0e6d1c2a4f0f9c3e8d4a6b1f2e70";

/// Names of a thousand machines; with it the datagram stays far below what the socket takes.
const VALUE_BYTES_MAX: usize = 16 * 1024;

/// Of syslog: notice.
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
        let metadata = std::fs::metadata(&self.socket).with_context(|| format!("the journal's socket {path}"))?;
        ensure!(metadata.file_type().is_socket(), "{path} is not a socket");
        Ok(())
    }

    pub fn write(&self, phase: Phase) -> Result<()> {
        let variable = |name: &str| std::env::var(name).unwrap_or_default();
        let datagram = datagram(phase, variable);
        let at = || format!("the journal's socket {}", self.socket.display());
        UnixDatagram::unbound().and_then(|socket| socket.send_to(&datagram, &self.socket)).with_context(at)?;
        Ok(())
    }
}

fn datagram(phase: Phase, variable: impl Fn(&str) -> String) -> Vec<u8> {
    let (kind, names) = (variable("EVENT_TYPE"), variable("EVENT_RESOURCES"));
    let message = match phase {
        Phase::Prepare => format!("{kind} of {names} not before {}", variable("EVENT_NOT_BEFORE")),
        Phase::Started => format!("{kind} of {names} has started"),
        Phase::Restore => format!("{kind} of {names} is over"),
    };
    let mut out = Vec::new();
    put(&mut out, "MESSAGE", &message);
    put(&mut out, "MESSAGE_ID", MESSAGE_ID);
    put(&mut out, "PRIORITY", PRIORITY);
    put(&mut out, "SYSLOG_IDENTIFIER", "forewarn-agent");
    put(&mut out, "FOREWARN_PHASE", phase.as_str());
    for name in crate::process::VARIABLES {
        put(&mut out, &format!("FOREWARN_{name}"), &variable(name));
    }
    out
}

fn put(out: &mut Vec<u8>, name: &str, value: &str) {
    let most = value.len().min(VALUE_BYTES_MAX);
    let end = (0..=most).rev().find(|end| value.is_char_boundary(*end)).unwrap_or(0);
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
    fn values_with_line_breaks_have_a_length_and_long_ones_are_cut() {
        let mut out = Vec::new();
        put(&mut out, "A", "x=y");
        put(&mut out, "B", "x\nC=z");
        assert_eq!(out, b"A=x=y\nB\n\x05\0\0\0\0\0\0\0x\nC=z\n");
        out.clear();
        put(&mut out, "A", &format!("a{}", "é".repeat(VALUE_BYTES_MAX)));
        assert_eq!(out.len(), "A=\n".len() + VALUE_BYTES_MAX - 1);
    }
}
