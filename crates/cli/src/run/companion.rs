//! The companion process outside the namespace: it runs the server, or connects to one, and relays. It is detached, so that
//! the program has no unexpected child, and exits when the program has exited.

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

/// Messages to the program's side, one per line.
#[derive(Debug, Serialize, Deserialize)]
pub enum CompanionMessage {
    Ready(CompanionReady),
    Serving,
    Refused(String),
}

/// The information that the program's side needs.
#[derive(Debug, Serialize, Deserialize)]
pub struct CompanionReady {
    /// The machine that the program runs as.
    pub machine: String,
    /// The management address of a temporary server.
    pub temporary: Option<String>,
    /// The value of FOREWARN_SERVER for the program.
    pub server: Option<String>,
    /// Loopback ports to relay.
    pub ports: Vec<u16>,
}

pub fn run(args: CompanionArgs) -> Result<(), Failure> {
    if args.detached {
        return serve(&args.options).map_err(|error| Failure::Refused(format!("the relay failed: {error}")));
    }
    detach(&args.options).map_err(|error| Failure::Refused(format!("cannot start the companion process: {error}")))
}

/// Starts a child and exits, so that the child has no parent.
fn detach(options: &RunOptions) -> io::Result<()> {
    let mut command = Command::new("/proc/self/exe");
    command.args(["run-companion", "--detached"]).args(options.to_arguments()).stdout(Stdio::null()).spawn().map(drop)
}

fn serve(options: &RunOptions) -> io::Result<()> {
    let mut channel = UnixStream::from(fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?);
    rustix::stdio::dup2_stdin(File::open("/dev/null")?)?;
    // Terminal signals are for the program.
    setsid()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let endpoint = match upstream::find(options, &runtime) {
        Ok(endpoint) => endpoint,
        Err(failure) => {
            return send(&mut channel, &CompanionMessage::Refused(failure.message().unwrap_or_default().to_owned()));
        }
    };
    // Does not keep the working directory busy.
    std::env::set_current_dir("/")?;
    send(&mut channel, &CompanionMessage::Ready(endpoint.ready(options)))?;
    match fd_passing::receive(&channel)? {
        Some(files) => relay_until_exit(&runtime, endpoint, options, &mut channel, files),
        // The program's side failed and has reported why.
        None => Ok(()),
    }
}

fn relay_until_exit(
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
        tokio::spawn(relay::relay_metadata(TcpListener::from_std(metadata)?, endpoint.upstream.clone()));
        for (port, listener) in doors {
            tokio::spawn(relay::relay_port(TcpListener::from_std(listener)?, port));
        }
        io::Result::Ok(())
    })?;
    send(channel, &CompanionMessage::Serving)?;
    wait_for_end(&process)?;
    sweep::kill_remaining(&network)
}

/// A pidfd becomes readable when the process exits.
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
