//! The side that stays outside: it has the server, or knows the endpoint to one, and relays. It is nobody's child,
//! so that the program waits for none but its own, and it ends when the program has ended.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::TcpListener as StdListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use rustix::process::setsid;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use super::upstream::{self, Endpoint};
use super::{fd_passing, relay, sweep};
use crate::args::{CompanionArgs, RunOptions};
use crate::failure::Failure;

/// What it says to the other side, each on a line.
#[derive(Debug, Serialize, Deserialize)]
pub enum CompanionMessage {
    Ready(Ready),
    Serving,
    Refused(String),
}

/// What the other side needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub struct Ready {
    /// Whom the program is.
    pub machine: String,
    /// The management address of a server that was started for the program.
    pub temporary: Option<String>,
    /// What FOREWARN_SERVER is to be for the program.
    pub server: Option<String>,
    /// Ports of loopback that the program reaches.
    pub ports: Vec<u16>,
}

pub fn run(args: CompanionArgs) -> Result<(), Failure> {
    if args.detached {
        return serve(&args.options).map_err(|error| Failure::Refused(format!("the relay failed: {error}")));
    }
    detach(&args.options).map_err(|error| Failure::Refused(format!("cannot start the companion process: {error}")))
}

/// Leaves the work to a child and ends, so that the child has no parent.
fn detach(options: &RunOptions) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["run-companion", "--detached"]).args(options.words()).stdout(Stdio::null()).spawn().map(drop)
}

fn serve(options: &RunOptions) -> io::Result<()> {
    let mut channel = UnixStream::from(fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // Signals of the terminal are for the program.
    setsid()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let endpoint = match upstream::find(options, &runtime) {
        Ok(endpoint) => endpoint,
        Err(failure) => {
            return send(&mut channel, &CompanionMessage::Refused(failure.message().unwrap_or_default().to_owned()));
        }
    };
    // Nobody's directory is held busy.
    std::env::set_current_dir("/")?;
    send(&mut channel, &CompanionMessage::Ready(endpoint.ready(options)))?;
    match fd_passing::receive(&channel)? {
        Some(files) => accompany(&runtime, endpoint, options, &mut channel, files),
        // The other side could not go on, and has said why.
        None => Ok(()),
    }
}

fn accompany(
    runtime: &Runtime,
    endpoint: Endpoint,
    options: &RunOptions,
    channel: &mut UnixStream,
    files: Vec<OwnedFd>,
) -> io::Result<()> {
    let mut files = files.into_iter();
    let mut next = || files.next().ok_or_else(|| io::Error::other("missing file descriptor"));
    let (process, network, metadata) = (next()?, File::from(next()?), listener(next()?)?);
    let ports = endpoint.ready(options).ports.into_iter();
    let doors = ports.zip(files).map(|(port, file)| Ok((port, listener(file)?))).collect::<io::Result<Vec<_>>>()?;
    runtime.block_on(async {
        tokio::spawn(relay::metadata(TcpListener::from_std(metadata)?, endpoint.upstream.clone()));
        for (port, listener) in doors {
            tokio::spawn(relay::port(TcpListener::from_std(listener)?, port));
        }
        io::Result::Ok(())
    })?;
    send(channel, &CompanionMessage::Serving)?;
    wait_for_end(&process)?;
    sweep::kill_remaining(&network)
}

/// A descriptor of a process can be read when the process is gone.
fn wait_for_end(process: &OwnedFd) -> io::Result<()> {
    loop {
        match poll(&mut [PollFd::new(process, PollFlags::IN)], None) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn listener(file: OwnedFd) -> io::Result<StdListener> {
    let listener = StdListener::from(file);
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn send(channel: &mut UnixStream, what: &CompanionMessage) -> io::Result<()> {
    let line = serde_json::to_string(what).map_err(io::Error::other)?;
    channel.write_all(format!("{line}\n").as_bytes())
}
