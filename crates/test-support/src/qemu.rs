//! Guests on QEMU without libvirt, for acceptance runs.
//!
//! `cargo xtask accept qemu` provides a directory with `kernel` and `initrd`, and a network in which the interface `tapN`
//! exists for each guest with the address `10.99.0.N`. Without it, tests are skipped.

use std::io::{BufRead as _, BufReader, ErrorKind, Lines, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::hosts::{Guest, cloud_command};
use crate::needs::{Need, can_run};

/// Names the directory with the kernel.
const QEMU: &str = "XTASK_QEMU";

const PROGRAM: &str = "/usr/bin/qemu-system-x86_64";

/// A host that runs QEMU without libvirt.
#[derive(Clone, Debug)]
pub struct QemuHost {
    dir: PathBuf,
}

impl QemuHost {
    /// None, and a visible skip, if this is not an acceptance run.
    #[track_caller]
    pub fn from_environment() -> Option<QemuHost> {
        can_run(&[Need::Variable(QEMU)]).then(|| QemuHost { dir: std::env::var_os(QEMU).unwrap_or_default().into() })
    }

    /// A guest that is not started yet. The number makes its UUID and, with `networked`, its address and interface.
    pub fn guest(&self, name: &str, number: u32, networked: bool) -> QemuGuest {
        let mut guest = Guest::new(&self.dir, name, number);
        guest.address = networked.then(|| format!("10.99.0.{number}"));
        QemuGuest { guest, number, dir: self.dir.clone() }
    }

    /// A file or directory of a test.
    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    /// Writes the file that names the guests for the driver.
    ///
    /// # Panics
    ///
    /// If the file cannot be written.
    pub fn write_machines(&self, name: &str, guests: &[&QemuGuest]) -> PathBuf {
        let file = self.path(name);
        let tables: String = guests.iter().map(|guest| guest.table()).collect();
        std::fs::write(&file, tables).expect("the file can be written");
        file
    }
}

/// How long a client of QMP waits for a message before it connects again.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often it connects. QEMU overlooks a client that arrives while another one leaves, but not several in a row.
const CONNECTIONS_MAX: usize = 12;

/// A guest, and its QEMU if it runs. The process ends when the value is dropped.
pub struct QemuGuest {
    pub guest: Guest,
    number: u32,
    dir: PathBuf,
}

impl QemuGuest {
    /// Program and arguments. Never with KVM, which hangs on machines that only seem to have it.
    pub fn start_command(&self) -> Vec<String> {
        let (dir, name, number) = (self.dir.display(), &self.guest.name, self.number);
        let mut words: Vec<String> =
            [PROGRAM, "-machine", "q35,accel=tcg", "-m", "128", "-nodefaults", "-no-user-config", "-display", "none"]
                .map(Into::into)
                .into();
        let mut add = |option: &str, value: String| words.extend([option.to_owned(), value]);
        add("-name", name.clone());
        add("-uuid", self.guest.uuid.clone());
        add("-kernel", format!("{dir}/kernel"));
        add("-initrd", format!("{dir}/initrd"));
        add("-append", self.guest.kernel_options());
        add("-chardev", format!("file,id=serial,path={},append=on", self.guest.console().display()));
        add("-serial", "chardev:serial".into());
        for socket in ["qmp", "tests"] {
            add("-qmp", format!("unix:{dir}/{name}.{socket},server=on,wait=off"));
        }
        if self.guest.address.is_some() {
            add("-netdev", format!("tap,id=net,ifname=tap{number},script=no,downscript=no"));
            add("-device", format!("virtio-net-pci,netdev=net,mac=52:54:00:00:01:{number:02x},romfile="));
        }
        words
    }

    /// Starts the guest in its network.
    ///
    /// # Panics
    ///
    /// If the process cannot be started.
    pub fn start(&self) {
        let words = self.start_command();
        let mut child = cloud_command(&words[0]).args(&words[1..]).spawn().expect("QEMU can be started");
        // Collects the process when it ends.
        std::thread::spawn(move || child.wait());
    }

    /// The state of the machine; `off` if it has no process.
    pub fn status(&self) -> String {
        self.execute("query-status").map_or("off".into(), |reply| {
            let status = reply.split_once("\"status\": \"").and_then(|(_, rest)| rest.split_once('"'));
            status.map_or(reply.clone(), |(status, _)| status.to_owned())
        })
    }

    /// Executes a command on a QMP socket of the tests; None if there is no process.
    pub fn execute(&self, command: &str) -> Option<String> {
        let socket = |end: &str| self.dir.join(format!("{}.{end}", self.guest.name));
        execute_qmp(&socket("tests"), &[socket("qmp")], command)
    }

    fn table(&self) -> String {
        let Guest { name, uuid, address, .. } = &self.guest;
        let (dir, start) = (self.dir.display(), self.start_command());
        let addresses: Vec<&String> = address.iter().collect();
        format!(
            "[{name}]\nvm_id = \"{uuid}\"\nqmp = \"{dir}/{name}.qmp\"\nstart = {start:?}\naddresses = {addresses:?}\n\
             memory_mib = 128\ndelete_disks = [\"{dir}/{name}.img\"]\n"
        )
    }
}

/// Executes a command on a QMP socket and returns the reply; None if there is no process. The command can be repeated.
///
/// QEMU stops answering on all its sockets when a client of one of them leaves before it is accepted, until another client comes.
/// `others` are the sockets where that can have happened.
pub fn execute_qmp(socket: &Path, others: &[PathBuf], command: &str) -> Option<String> {
    for _ in 0..CONNECTIONS_MAX {
        let (mut stream, lines) = connect_qmp(socket, others)?;
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT)).ok()?;
        writeln!(stream, "{{\"execute\": \"qmp_capabilities\"}}\n{{\"execute\": \"{command}\", \"id\": 1}}").ok()?;
        for line in lines {
            match line {
                Ok(line) if line.contains("\"id\": 1") => return Some(line),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    others.iter().for_each(|other| drop(UnixStream::connect(other)));
                    break;
                }
                Err(_) => return None,
            }
        }
    }
    panic!("QEMU did not answer {command} on {}", socket.display());
}

/// A connection to a QMP socket on which QEMU has sent its greeting; None if there is no process. QEMU overlooks a client that
/// connects while the one before it leaves, so a client without a greeting connects again.
pub fn connect_qmp(socket: &Path, others: &[PathBuf]) -> Option<(UnixStream, Lines<BufReader<UnixStream>>)> {
    for _ in 0..CONNECTIONS_MAX {
        let stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT)).ok()?;
        let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
        match lines.next()? {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                others.iter().for_each(|other| drop(UnixStream::connect(other)));
            }
            Err(_) => return None,
            Ok(_greeting) => {
                stream.set_read_timeout(None).ok()?;
                return Some((stream, lines));
            }
        }
    }
    panic!("QEMU sent no greeting on {} to {CONNECTIONS_MAX} connections", socket.display());
}

impl Drop for QemuGuest {
    fn drop(&mut self) {
        self.execute("quit");
    }
}
