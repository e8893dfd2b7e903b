//! The side of `forewarn run` that becomes the program.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, PidfdFlags, Signal, getpid, getppid, pidfd_open, set_parent_process_death_signal};

use super::companion::{CompanionMessage, CompanionReady};
use super::namespace::{self, NamespaceListeners};
use super::{fd_passing, upstream};
use crate::args::{RunArgs, Verbosity};
use crate::failure::{CANNOT_RUN, Failure, NOT_FOUND, NOT_RUN};
use crate::output;

/// The running binary, even if its file has been replaced.
const OURSELVES: &str = "/proc/self/exe";

pub fn run(args: RunArgs) -> Result<(), Failure> {
    upstream::check(&args.options)?;
    let companion = Companion::start(&args)?;
    let ready = companion.wait_until_ready()?;
    // This process must stay single-threaded until here, so the companion resolves names and sends requests.
    let listeners =
        namespace::enter(name_of(&ready.machine), &ready.ports).map_err(|error| not_run(error.message()))?;
    companion.hand_over(&listeners).map_err(|error| companion_error(&error))?;
    companion.wait_until_serving()?;
    drop(listeners);
    announce(&args, &ready);
    args.parent.map_or(Ok(()), follow_to_death)?;
    Err(become_program(&args, &ready))
}

/// The name of a machine that can be given as GROUP/NAME.
fn name_of(machine: &str) -> &str {
    machine.rsplit('/').next().unwrap_or(machine)
}

struct Companion(UnixStream);

impl Companion {
    fn start(args: &RunArgs) -> Result<Companion, Failure> {
        let (near, far) = UnixStream::pair().map_err(|error| companion_error(&error))?;
        let mut command = Command::new(OURSELVES);
        command.arg0("forewarn").arg("run-companion").args(args.options.to_arguments());
        // An argument would show the token in the process list.
        command.envs(args.options.token.iter().map(|token| ("FOREWARN_TOKEN", token)));
        let status = command.stdin(Stdio::from(OwnedFd::from(far))).stdout(Stdio::null()).status();
        match status {
            Ok(status) if status.success() => Ok(Companion(near)),
            Ok(status) => Err(not_run(format!("the companion process failed to start: {status}"))),
            Err(error) => Err(companion_error(&error)),
        }
    }

    fn wait_until_ready(&self) -> Result<CompanionReady, Failure> {
        match self.receive()? {
            CompanionMessage::Ready(ready) => Ok(ready),
            CompanionMessage::Refused(message) => Err(not_run(message)),
            CompanionMessage::Serving => Err(companion_error(&io::Error::other("unexpected message"))),
        }
    }

    /// Passes the process, its namespace and its listeners to the companion.
    fn hand_over(&self, listeners: &NamespaceListeners) -> io::Result<()> {
        let process = pidfd_open(getpid(), PidfdFlags::empty())?;
        let network = File::open("/proc/self/ns/net")?;
        let mut files: Vec<BorrowedFd<'_>> = vec![process.as_fd(), network.as_fd(), listeners.metadata.as_fd()];
        files.extend(listeners.loopback.iter().map(AsFd::as_fd));
        fd_passing::send(&self.0, &files)
    }

    fn wait_until_serving(&self) -> Result<(), Failure> {
        match self.receive()? {
            CompanionMessage::Serving => Ok(()),
            CompanionMessage::Refused(message) => Err(not_run(message)),
            CompanionMessage::Ready(_) => Err(companion_error(&io::Error::other("unexpected message"))),
        }
    }

    fn receive(&self) -> Result<CompanionMessage, Failure> {
        let mut line = String::new();
        // The companion sends one message at a time, so the buffer does not swallow the next one.
        BufReader::new(&self.0).read_line(&mut line).map_err(|error| companion_error(&error))?;
        serde_json::from_str(&line).map_err(|_| companion_error(&io::Error::other("it has exited")))
    }
}

fn announce(args: &RunArgs, ready: &CompanionReady) {
    if let (Verbosity::Normal, Some(management)) = (args.verbosity(), &ready.temporary) {
        output::print_stderr(&format!(
            "forewarn: management {management} (try: forewarn vm restart {} --server {management})",
            ready.machine
        ));
    }
}

/// Kills the program, and with it the companion, when the parent dies. Entering a namespace would clear the setting;
/// becoming the program keeps it, except for programs that change the user.
fn follow_to_death(parent: i32) -> Result<(), Failure> {
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| not_run(error.to_string()))?;
    // The parent may have died before the setting took effect.
    if getppid().map(Pid::as_raw_pid) == Some(parent) { Ok(()) } else { Err(Failure::Interrupted) }
}

/// Returns only on failure.
fn become_program(args: &RunArgs, ready: &CompanionReady) -> Failure {
    let (program, arguments) = args.command.split_first().expect("clap wants at least one word");
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(server) = &ready.server {
        command.env("FOREWARN_SERVER", server);
    }
    for (name, _) in std::env::vars_os().filter(|(name, _)| is_secret(name)) {
        command.env_remove(name);
    }
    exec_error(&program.to_string_lossy(), &command.exec())
}

/// Whether this is a file without permission to execute it.
fn lacks_permission(program: &str) -> bool {
    fs::metadata(program).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 == 0)
}

fn exec_error(program: &str, error: &io::Error) -> Failure {
    let (code, hint) = match error.kind() {
        io::ErrorKind::NotFound => (NOT_FOUND, String::new()),
        io::ErrorKind::PermissionDenied if lacks_permission(program) => {
            (CANNOT_RUN, format!("; make it executable with: chmod +x '{program}'"))
        }
        _ => (CANNOT_RUN, String::new()),
    };
    Failure::NotRun(code, format!("cannot run '{program}': {error}{hint}"))
}

/// Whether a variable of ours holds a secret. The program is a handler under test, and a guest has none.
fn is_secret(name: &OsStr) -> bool {
    let words = ["TOKEN", "SECRET", "PASSWORD", "KEY"];
    let name = name.to_string_lossy();
    name.strip_prefix("FOREWARN_").is_some_and(|rest| rest.split('_').any(|word| words.contains(&word)))
}

fn not_run(message: String) -> Failure {
    Failure::NotRun(NOT_RUN, message)
}

fn companion_error(error: &io::Error) -> Failure {
    not_run(format!("cannot reach the companion process: {error}"))
}
