//! Runs the commands of a machine: its start, and the cleanup after its end.
//!
//! A start must not happen twice: the second QEMU would take the socket of the first one. The log of the start command is
//! therefore locked, and the command inherits the lock. The kernel releases it when the last process that inherited it
//! ends, so that a start survives a crash of this program and is known to its successor.

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use tokio::process::{Child, Command};

use super::file::QemuMachine;

/// The part of a log that is shown when a command fails.
const LOG_BYTES_SHOWN: u64 = 400;

/// Time limit for a cleanup command.
const CLEANUP_MAX: Duration = Duration::from_secs(5 * 60);

/// Locks the log of the start command. None while an earlier start of the machine, or its process, still has the lock.
pub fn lock(log: &Path) -> Result<Option<File>, String> {
    let failed = |error: io::Error| format!("cannot write {}: {error}", log.display());
    let file = File::options().create(true).truncate(false).append(true).open(log).map_err(failed)?;
    match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => file.set_len(0).map(|()| Some(file)).map_err(failed),
        Err(Errno::WOULDBLOCK) => Ok(None),
        Err(error) => Err(failed(error.into())),
    }
}

/// Runs the start command, which inherits the lock.
pub fn start(machine: &QemuMachine, lock: File) -> Result<Child, String> {
    spawn(machine, &machine.start, lock)
}

fn spawn(machine: &QemuMachine, words: &[String], log: File) -> Result<Child, String> {
    let [program, arguments @ ..] = words else { return Err("the command is empty".into()) };
    let failed = |error: io::Error| format!("cannot run {program}: {error}");
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(&machine.environment);
    // Secrets of this program stay in its own environment.
    if let Some(path) = std::env::var_os("PATH") {
        command.env("PATH", path);
    }
    command.current_dir(machine.directory.as_deref().unwrap_or(Path::new("/")));
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(failed)?).stderr(log);
    // Ctrl-C at the terminal of this program does not end the machine.
    command.process_group(0).spawn().map_err(failed)
}

/// Runs the cleanup command to its end.
pub async fn clean_up(machine: &QemuMachine, words: &[String], log: &Path) -> Result<(), String> {
    let file = File::create(log).map_err(|error| format!("cannot write {}: {error}", log.display()))?;
    let mut child = spawn(machine, words, file)?;
    match tokio::time::timeout(CLEANUP_MAX, child.wait()).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(describe_failure(&words[0], status, log)),
        Ok(Err(error)) => Err(format!("cannot wait for {}: {error}", words[0])),
        Err(_) => {
            let _ = child.kill().await;
            Err(format!("{} did not end within {} s", words[0], CLEANUP_MAX.as_secs()))
        }
    }
}

/// A command that failed, with the end of its log.
pub fn describe_failure(program: &str, status: ExitStatus, log: &Path) -> String {
    let text = read_end(log).unwrap_or_default();
    let text = text.trim();
    if text.is_empty() { format!("{program} failed: {status}") } else { format!("{program} failed: {status}: {text}") }
}

fn read_end(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_BYTES_SHOWN)))?;
    let mut bytes = Vec::new();
    file.take(LOG_BYTES_SHOWN).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Deletes a disk. Succeeds if the disk does not exist.
pub fn delete_disk(path: &str) -> Result<(), String> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(format!("cannot delete {path}: {error}")),
        Ok(()) | Err(_) => Ok(()),
    }
}
