//! A real QEMU without a guest, and a view of its events. It has no CPU, so it starts in a moment on any computer.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forewarn_test_support::{Need, can_run, connect_qmp, execute_qmp};
use serde_json::Value;
use tempfile::TempDir;

const QEMU: &str = "/usr/bin/qemu-system-x86_64";

pub const UUID: &str = "5c4e4f50-0000-4000-8000-000000000001";

/// Time limit for a state.
const STATE_MAX: Duration = Duration::from_secs(180);

/// A machine: its file, and its process if there is one. Everything ends when dropped.
pub struct TestQemu {
    dir: TempDir,
    observer: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
}

/// Events of all processes that the machine has had.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub processes: usize,
    events: Vec<String>,
}

impl Seen {
    /// The number of such events, without the RESUME of a machine that starts, which the observer may or may not be in time for.
    pub fn count(&self, event: &str) -> usize {
        self.events.iter().skip_while(|each| *each == "RESUME").filter(|each| *each == event).count()
    }
}

/// The reaction of the guest to its power button.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guest {
    ShutsDown,
    Ignores,
}

impl TestQemu {
    /// None, and a visible skip, if QEMU is not installed. The process is not started.
    #[track_caller]
    pub fn new(guest: Guest) -> Option<TestQemu> {
        if !can_run(&[Need::Program(QEMU)]) {
            return None;
        }
        let dir = TempDir::new().unwrap();
        fs::write(dir.path().join("named.img"), "").unwrap();
        fs::write(dir.path().join("other.img"), "").unwrap();
        let (stop, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(Seen::default())));
        let socket = dir.path().join("events");
        let observer = std::thread::spawn({
            let (stop, seen) = (stop.clone(), seen.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    observe(&socket, guest, &seen);
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        let qemu = TestQemu { dir, observer: Some(observer), stop, seen };
        qemu.write_file(&qemu.start_command(), UUID);
        Some(qemu)
    }

    /// A machine that runs.
    #[track_caller]
    pub fn started(guest: Guest) -> Option<TestQemu> {
        let qemu = TestQemu::new(guest)?;
        qemu.start();
        Some(qemu)
    }

    pub fn start(&self) {
        let words = self.start_command();
        let before = self.seen().processes;
        let mut child = std::process::Command::new(&words[0]).args(&words[1..]).spawn().unwrap();
        // Collects the process when it ends.
        std::thread::spawn(move || child.wait());
        self.wait("the process", || self.seen().processes > before && self.status() == "running");
    }

    pub fn start_command(&self) -> Vec<String> {
        let mut words: Vec<String> =
            [QEMU, "-machine", "none", "-nodefaults", "-display", "none", "-uuid", UUID].map(Into::into).into();
        for name in ["qmp", "events", "status"] {
            let socket = self.dir.path().join(name);
            words.extend(["-qmp".into(), format!("unix:{},server=on,wait=off", socket.display())]);
        }
        words
    }

    /// Writes the file that names the machine.
    pub fn write_file(&self, start: &[String], vm_id: &str) {
        let dir = self.dir.path().display();
        let text = format!(
            "[web1]\nvm_id = \"{vm_id}\"\nqmp = \"{dir}/qmp\"\nstart = {start:?}\n\
             cleanup = [\"/bin/sh\", \"-c\", \"echo $LEFT >> {dir}/cleaned\"]\nenvironment = {{ LEFT = \"web1\" }}\n\
             delete_disks = [\"{dir}/named.img\"]\n"
        );
        fs::write(self.file(), text).unwrap();
    }

    pub fn file(&self) -> PathBuf {
        self.dir.path().join("machines.toml")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn seen(&self) -> Seen {
        self.seen.lock().unwrap().clone()
    }

    /// The state of the machine; `off` if it has no process.
    pub fn status(&self) -> String {
        let status = self.execute("query-status");
        let status = status.and_then(|reply| serde_json::from_str::<Value>(&reply).ok());
        status.map_or("off".into(), |reply| reply["return"]["status"].as_str().unwrap_or("?").to_owned())
    }

    pub fn execute(&self, command: &str) -> Option<String> {
        execute_qmp(&self.path("status"), &[self.path("qmp")], command)
    }

    /// Waits for a state of QEMU.
    #[track_caller]
    pub fn wait(&self, what: &str, mut condition: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !condition() {
            assert!(begun.elapsed() < STATE_MAX, "timed out waiting for {what}: {}, {:?}", self.status(), self.seen());
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for TestQemu {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A start can still be in progress, but only for a moment.
        self.execute("quit");
        let observer = self.observer.take().map(JoinHandle::join);
        assert!(std::thread::panicking() || matches!(observer, Some(Ok(()))), "the observer has failed");
    }
}

/// Follows one process until it ends.
fn observe(socket: &Path, guest: Guest, seen: &Mutex<Seen>) {
    let Some((mut stream, lines)) = connect_qmp(socket, &[]) else { return };
    if writeln!(stream, "{{\"execute\": \"qmp_capabilities\"}}").is_err() {
        return;
    }
    seen.lock().unwrap().processes += 1;
    for line in lines {
        let Ok(message) = line.map_err(drop).and_then(|line| serde_json::from_str::<Value>(&line).map_err(drop)) else {
            return;
        };
        if let Some(event) = message["event"].as_str() {
            seen.lock().unwrap().events.push(event.to_owned());
            if event == "POWERDOWN" && guest == Guest::ShutsDown {
                let _ = writeln!(stream, "{{\"execute\": \"quit\"}}");
            }
        }
    }
}
