//! The file that names the machines.
//!
//! ```toml
//! [web1]
//! vm_id = "5c4e4f50-0000-4000-8000-000000000001"     # QEMU has the same -uuid
//! qmp = "/run/vms/web1.qmp"                          # a QMP socket for Forewarn alone
//! start = ["/usr/local/bin/start-vm", "web1"]        # program and arguments; no shell
//! directory = "/var/lib/vms"                         # working directory; default: /
//! environment = { QEMU_AUDIO_DRV = "none" }          # added to PATH, the only inherited variable
//! cleanup = ["/usr/local/bin/remove-vm", "web1"]     # run after the machine was deleted
//! delete_disks = ["/var/lib/vms/web1.qcow2"]         # deleted with the machine; default: none
//! addresses = ["10.0.0.4"]                           # for `forewarn host import`, like the next two keys
//! mac = "52:54:00:12:34:56"
//! memory_mib = 2048
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Metadata};
use std::net::IpAddr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forewarn_core::Guid;
use serde::Deserialize;

use crate::order::parse_guid;

/// The longest file. A machine takes a few hundred bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// The longest path of a socket that the kernel accepts.
const SOCKET_BYTES_MAX: usize = 107;

/// A machine, as the file describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QemuMachine {
    pub name: String,
    pub vm_id: Guid,
    pub qmp: PathBuf,
    /// Program and arguments.
    pub start: Vec<String>,
    pub directory: Option<PathBuf>,
    pub environment: BTreeMap<String, String>,
    /// Program and arguments. Run after the machine was powered off for good; can run twice.
    pub cleanup: Option<Vec<String>>,
    pub delete_disks: Vec<PathBuf>,
    pub addresses: Vec<IpAddr>,
    /// MAC address of the first interface.
    pub mac: Option<String>,
    pub memory_mib: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    vm_id: String,
    qmp: PathBuf,
    start: Vec<String>,
    directory: Option<PathBuf>,
    #[serde(default)]
    environment: BTreeMap<String, String>,
    cleanup: Option<Vec<String>>,
    #[serde(default)]
    delete_disks: Vec<PathBuf>,
    #[serde(default)]
    addresses: Vec<IpAddr>,
    mac: Option<String>,
    #[serde(default)]
    memory_mib: u64,
}

/// Reads the file once.
///
/// # Errors
///
/// If the file cannot be read, other users can write it, or a key or value in it is invalid.
pub fn read_machines(path: &Path) -> Result<Vec<QemuMachine>, String> {
    let cannot_read = |error: std::io::Error| format!("cannot read {}: {error}", path.display());
    let metadata = fs::metadata(path).map_err(cannot_read)?;
    check_file(&metadata).map_err(|reason| format!("{}: {reason}", path.display()))?;
    let text = fs::read_to_string(path).map_err(cannot_read)?;
    parse_machines(&text).map_err(|reason| format!("invalid machines in {}: {reason}", path.display()))
}

/// The file names commands that this program runs, often as root.
fn check_file(metadata: &Metadata) -> Result<(), &'static str> {
    if metadata.mode() & 0o002 != 0 {
        return Err("every user can write this file, which names commands to run: remove that permission (chmod o-w)");
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err("the file is larger than 4 MiB");
    }
    Ok(())
}

fn parse_machines(text: &str) -> Result<Vec<QemuMachine>, String> {
    let tables: BTreeMap<String, Table> = toml::from_str(text).map_err(|error| error.to_string())?;
    let machines: Vec<QemuMachine> = tables
        .into_iter()
        .map(|(name, table)| check_table(&name, table).map_err(|reason| format!("machine '{name}': {reason}")))
        .collect::<Result<_, _>>()?;
    let (mut ids, mut sockets) = (BTreeSet::new(), BTreeSet::new());
    for machine in &machines {
        if !ids.insert(machine.vm_id) {
            return Err(format!("two machines have the vm_id {}: give each its own", machine.vm_id));
        }
        if !sockets.insert(&machine.qmp) {
            return Err(format!("two machines have the socket {}: give each its own", machine.qmp.display()));
        }
    }
    Ok(machines)
}

fn check_table(name: &str, table: Table) -> Result<QemuMachine, String> {
    let vm_id = parse_guid(&table.vm_id).ok_or_else(|| format!("vm_id '{}' is not a UUID", table.vm_id))?;
    let paths = [Some(&table.qmp), table.directory.as_ref()].into_iter().flatten().chain(&table.delete_disks);
    if let Some(path) = paths.into_iter().find(|path| !path.is_absolute()) {
        return Err(format!("'{}' is not an absolute path", path.display()));
    }
    if table.qmp.as_os_str().as_bytes().len() > SOCKET_BYTES_MAX {
        return Err(format!("the path of qmp is longer than {SOCKET_BYTES_MAX} bytes: use a shorter one"));
    }
    for (key, command) in [("start", Some(&table.start)), ("cleanup", table.cleanup.as_ref())] {
        if command.is_some_and(|command| !command.first().is_some_and(|program| program.starts_with('/'))) {
            return Err(format!("{key} does not begin with the absolute path of a program"));
        }
    }
    if let Some(mac) = table.mac.as_ref().filter(|mac| !is_mac(mac)) {
        return Err(format!("mac '{mac}' is not a MAC address such as 52:54:00:12:34:56"));
    }
    let Table { qmp, start, directory, environment, cleanup, delete_disks, addresses, mac, memory_mib, .. } = table;
    let name = name.to_owned();
    Ok(QemuMachine {
        name,
        vm_id,
        qmp,
        start,
        directory,
        environment,
        cleanup,
        delete_disks,
        addresses,
        mac,
        memory_mib,
    })
}

/// Whether a text is a MAC address in the form that QEMU accepts.
fn is_mac(text: &str) -> bool {
    let is_byte = |part: &str| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit());
    text.split(':').count() == 6 && text.split(':').all(is_byte)
}

/// The file, read again when it changes. A file that has become invalid is reported, and the last valid one stays in use.
pub struct MachinesFile {
    path: PathBuf,
    current: Mutex<(Stamp, Arc<Vec<QemuMachine>>)>,
}

/// Identifies a version of the file.
type Stamp = Option<(u64, u64, i64, i64)>;

impl MachinesFile {
    pub fn open(path: &Path) -> Result<MachinesFile, String> {
        let stamp = stamp(path);
        let machines = Arc::new(read_machines(path)?);
        Ok(MachinesFile { path: path.to_owned(), current: Mutex::new((stamp, machines)) })
    }

    pub fn machines(&self) -> Arc<Vec<QemuMachine>> {
        let mut current = self.current.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let stamp = stamp(&self.path);
        if stamp != current.0 {
            current.0 = stamp;
            match read_machines(&self.path) {
                Ok(machines) => current.1 = Arc::new(machines),
                Err(error) => tracing::error!(%error, "keeping the machines of the last valid file"),
            }
        }
        current.1.clone()
    }

    pub fn machine(&self, vm_id: Guid) -> Option<QemuMachine> {
        self.machines().iter().find(|machine| machine.vm_id == vm_id).cloned()
    }
}

fn stamp(path: &Path) -> Stamp {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.ino(), metadata.len(), metadata.mtime(), metadata.mtime_nsec()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const WEB1: &str = "[web1]\nvm_id = \"5C4E4F50-0000-4000-8000-000000000001\"\nqmp = \"/run/web1\"\n\
                        start = [\"/bin/start\", \"web1\"]\n";

    #[test]
    fn optional_keys_have_defaults() {
        let machines = parse_machines(WEB1).unwrap();
        let [machine] = machines.as_slice() else { panic!("{machines:?}") };
        assert_eq!(machine.vm_id.to_string(), "5c4e4f50-0000-4000-8000-000000000001");
        assert_eq!((machine.start.len(), machine.delete_disks.len(), &machine.cleanup), (2, 0, &None));
        assert_eq!(machine.mac, None);
    }

    #[test]
    fn invalid_files_are_refused_with_the_reason() {
        let other = WEB1.replace("web1", "web2");
        for (text, expected) in [
            (WEB1.replace("vm_id", "uuid"), "unknown field `uuid`"),
            (WEB1.replace("5C4E4F50", "x"), "is not a UUID"),
            (WEB1.replace("/run", "run"), "is not an absolute path"),
            (WEB1.replace("/bin/start", "start"), "start does not begin with the absolute path"),
            (WEB1.replace("[\"/bin/start\", \"web1\"]", "[]"), "start does not begin with the absolute path"),
            (WEB1.replace("/run/web1", &"/x".repeat(60)), "longer than 107 bytes"),
            (format!("{WEB1}delete_disks = [\"disk\"]\n"), "'disk' is not an absolute path"),
            (format!("{WEB1}mac = \"52:54:00:12:34\"\n"), "mac '52:54:00:12:34' is not a MAC address"),
            (format!("{WEB1}{other}"), "two machines have the vm_id"),
            (format!("{WEB1}{}", other.replace("0001", "0002").replace("/run/web2", "/run/web1")), "the socket"),
        ] {
            let error = parse_machines(&text).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn a_changed_file_is_read_again_and_an_invalid_one_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("machines.toml");
        fs::write(&path, WEB1).unwrap();
        let file = MachinesFile::open(&path).unwrap();
        fs::write(&path, format!("{WEB1}{}", WEB1.replace("web1", "web2").replace("0001", "0002"))).unwrap();
        assert_eq!(file.machines().len(), 2);
        fs::write(&path, "[web1").unwrap();
        assert_eq!(file.machines().len(), 2);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(read_machines(&path).unwrap_err().contains("chmod o-w"));
    }
}
