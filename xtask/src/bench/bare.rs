//! The least that a server can do: one epoll loop that sends the same bytes for every request and looks at none of them. Compared with
//! the others, it shows which part of the time is the system's.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use anyhow::{Context, Result, bail};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};

use super::client::Client;
use super::path;
use super::process::{Process, SERVER_CORE};

/// The argument of xtask that starts the loop.
pub const COMMAND: &str = "bench-bare";

/// Events taken at once, as many as tokio takes.
const EVENTS_MAX: usize = 1024;

const LISTENER: u64 = u64::MAX;

/// Starts the loop in a process of its own. Returns its address, too.
pub fn start(dir: &Path, response: &str) -> Result<(Process, String)> {
    let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
    let file = dir.join("response");
    std::fs::write(&file, response)?;
    let program = std::env::current_exe()?;
    let process = Process::start(path(&program)?, &[COMMAND, &address, path(&file)?], SERVER_CORE)?;
    for _ in 0..100 {
        if Client::new(&address).is_ok() {
            return Ok((process, address));
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    bail!("the epoll loop did not start")
}

/// Runs the loop until the process is stopped.
pub fn serve(address: &str, response: &str) -> Result<()> {
    let response = std::fs::read(response)?;
    let listener = TcpListener::bind(address).with_context(|| format!("cannot listen on {address}"))?;
    let epoll = epoll::create(CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
    let mut connections: Vec<Option<TcpStream>> = Vec::new();
    let mut events = Vec::with_capacity(EVENTS_MAX);
    let mut input = [0; 8192];
    loop {
        epoll::wait(&epoll, spare_capacity(&mut events), None)?;
        for event in events.drain(..) {
            let data = event.data.u64();
            if data == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                stream.set_nodelay(true)?;
                let number = EventData::new_u64(connections.len() as u64);
                epoll::add(&epoll, &stream, number, EventFlags::IN | EventFlags::ET)?;
                connections.push(Some(stream));
                continue;
            }
            let slot = &mut connections[data as usize];
            let Some(stream) = slot else { continue };
            match stream.read(&mut input) {
                Ok(0) => *slot = None,
                Ok(_) => stream.write_all(&response)?,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => *slot = None,
            }
        }
    }
}
