//! A process that answers on a QMP socket like the QEMU of a machine, and counts how often the machine boots. A test can hold its
//! answer to a command, or end it there. A real QEMU takes seconds to boot a guest; this one shows the effects of orders at once.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::kill_matrix::Machine;
use crate::machine_bench::wait_until;

pub const UUID: &str = "5c4e4f50-0000-4000-8000-000000000051";

/// How often a machine that is off looks whether it was started, and a test whether it was.
const POLL: Duration = Duration::from_millis(2);

/// A machine and its process, if there is one.
pub struct FakeQemu {
    dir: TempDir,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_on: bool,
    is_paused: bool,
    /// A reset of a paused machine takes effect when it is resumed.
    is_reset: bool,
    boots: usize,
    /// The command that is not carried out until this is None, and whether it has been received.
    hold: Option<String>,
    is_held: bool,
    /// The client, to be disconnected when the process ends.
    client: Option<UnixStream>,
    is_dropped: bool,
}

/// The process goes on, or has ended.
#[derive(PartialEq, Eq)]
enum Process {
    Runs,
    Ended,
}

impl FakeQemu {
    /// A machine that is on.
    pub fn start() -> FakeQemu {
        let dir = TempDir::new().unwrap();
        let shared = Arc::new(Shared::default());
        fs::write(dir.path().join("start"), "").unwrap();
        let thread = std::thread::spawn({
            let (shared, dir) = (shared.clone(), dir.path().to_owned());
            move || run(&shared, &dir)
        });
        let qemu = FakeQemu { dir, shared, thread: Some(thread) };
        wait_until("the process", || qemu.is_on());
        qemu.create_disk();
        qemu
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Starts the process without an order.
    pub fn boot(&self) {
        fs::write(self.path("start"), "").unwrap();
        wait_until("the process", || !self.path("start").exists());
    }

    /// The disk that is deleted with the machine.
    pub fn create_disk(&self) {
        fs::write(self.path("disk.img"), "").unwrap();
    }

    pub fn has_disk(&self) -> bool {
        self.path("disk.img").exists()
    }

    /// Writes the file that names the machine.
    pub fn write_machines(&self, name: &str) -> PathBuf {
        let (dir, file) = (self.dir.path().display(), self.path("machines.toml"));
        // Like that of QEMU, the command ends once the machine listens.
        let start = format!("touch {dir}/start; while [ -e {dir}/start ]; do sleep 0.01; done");
        let text = format!(
            "[{name}]\nvm_id = \"{UUID}\"\nqmp = \"{dir}/qmp\"\nstart = [\"/bin/sh\", \"-c\", \"{start}\"]\n\
             cleanup = [\"/bin/true\"]\ndelete_disks = [\"{dir}/disk.img\"]\n"
        );
        fs::write(&file, text).unwrap();
        file
    }

    pub fn is_on(&self) -> bool {
        self.lock().is_on
    }

    pub fn is_paused(&self) -> bool {
        self.lock().is_paused
    }

    /// Does not carry out the next such command before it is released.
    pub fn hold(&self, command: &str) {
        let mut state = self.lock();
        (state.hold, state.is_held) = (Some(command.to_owned()), false);
    }

    pub fn wait_for_hold(&self) {
        wait_until("the command", || self.lock().is_held);
    }

    pub fn release(&self) {
        self.lock().hold = None;
        self.shared.changed.notify_all();
    }

    /// Ends the process at once, also while a command is held.
    pub fn kill(&self) {
        let mut state = self.lock();
        end(&mut state, self.dir.path());
        state.hold = None;
        drop(state);
        self.shared.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock().unwrap()
    }
}

impl Drop for FakeQemu {
    fn drop(&mut self) {
        self.lock().is_dropped = true;
        self.kill();
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Machine for FakeQemu {
    fn name(&self) -> &str {
        "web1"
    }

    fn boot_ids(&self) -> Vec<String> {
        (1..=self.lock().boots).map(|boot| boot.to_string()).collect()
    }

    async fn wait_for_boot(&self, boots: usize) -> String {
        wait_until("the boot", || self.lock().boots >= boots);
        assert_eq!(self.lock().boots, boots, "the machine has booted too often");
        boots.to_string()
    }

    async fn wait_for_beat(&self) {
        wait_until("the machine to run", || self.is_on() && !self.is_paused());
    }
}

/// Starts a process whenever the start command was run.
fn run(shared: &Shared, dir: &Path) {
    let (start, socket) = (dir.join("start"), dir.join("qmp"));
    while !shared.state.lock().unwrap().is_dropped {
        if !start.exists() {
            std::thread::sleep(POLL);
            continue;
        }
        let listener = UnixListener::bind(&socket).unwrap();
        {
            let mut state = shared.state.lock().unwrap();
            (state.is_on, state.is_paused, state.is_reset) = (true, false, false);
            state.boots += 1;
        }
        fs::remove_file(&start).unwrap();
        serve(shared, dir, &listener);
    }
}

/// Serves one client after the other until the process ends.
fn serve(shared: &Shared, dir: &Path, listener: &UnixListener) {
    listener.set_nonblocking(true).unwrap();
    while shared.state.lock().unwrap().is_on {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false).unwrap();
                shared.state.lock().unwrap().client = stream.try_clone().ok();
                // A client that was killed does not read its answers.
                let _ = talk(shared, dir, &stream);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => std::thread::sleep(POLL),
            Err(error) => panic!("{error}"),
        }
    }
}

fn talk(shared: &Shared, dir: &Path, mut stream: &UnixStream) -> io::Result<()> {
    writeln!(stream, "{}", json!({ "QMP": {} }))?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let request: Value = serde_json::from_str(&line?)?;
        let command = request["execute"].as_str().unwrap_or_default();
        let mut state = shared.state.lock().unwrap();
        if state.hold.as_deref() == Some(command) {
            state.is_held = true;
            state = shared.changed.wait_while(state, |state| state.hold.is_some()).unwrap();
        }
        if !state.is_on {
            return Ok(());
        }
        let status = if state.is_paused { "paused" } else { "running" };
        let process = carry_out(&mut state, command);
        let reply = json!({ "return": { "UUID": UUID, "status": status }, "id": request["id"] });
        let written = writeln!(stream, "{reply}");
        if process == Process::Ended {
            end(&mut state, dir);
            return Ok(());
        }
        drop(state);
        written?;
    }
    Ok(())
}

fn carry_out(state: &mut State, command: &str) -> Process {
    match command {
        "stop" => state.is_paused = true,
        "cont" => {
            state.is_paused = false;
            state.boots += usize::from(std::mem::take(&mut state.is_reset));
        }
        "system_reset" if state.is_paused => state.is_reset = true,
        "system_reset" => state.boots += 1,
        // The guest shuts down at once.
        "system_powerdown" | "quit" => return Process::Ended,
        "qmp_capabilities" | "query-uuid" | "query-status" => {}
        other => panic!("unknown command {other}"),
    }
    Process::Runs
}

/// Ends the process: nothing listens any more, and its client is disconnected.
fn end(state: &mut State, dir: &Path) {
    if std::mem::take(&mut state.is_on) {
        let _ = fs::remove_file(dir.join("qmp"));
    }
    if let Some(client) = state.client.take() {
        let _ = client.shutdown(Shutdown::Both);
    }
}
