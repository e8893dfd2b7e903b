//! Kills the processes that a program left behind in its network namespace.

use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// Time limit. Killed processes exit within milliseconds, unless they wait for a device.
const PATIENCE: Duration = Duration::from_secs(5);

const PAUSE: Duration = Duration::from_millis(5);

/// Kills every process in the namespace until there are none.
pub fn kill_remaining(namespace: &File) -> io::Result<()> {
    let namespace = namespace.metadata()?;
    let started_at = Instant::now();
    while kill_all(&namespace)? > 0 && started_at.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

fn kill_all(namespace: &Metadata) -> io::Result<usize> {
    let pids = fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter(|pid| kill(*pid, namespace).is_some()).count())
}

/// Opens the pidfd first, so that the checked and the killed process are the same.
fn kill(pid: i32, namespace: &Metadata) -> Option<()> {
    let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
    let found = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    ((found.dev(), found.ino()) == (namespace.dev(), namespace.ino())).then_some(())?;
    pidfd_send_signal(process, Signal::KILL).ok()
}
