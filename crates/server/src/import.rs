//! Reads the domains of a libvirtd, or the machines of the QEMU driver, for `forewarn host import`.

use std::path::Path;

use anyhow::{Context, anyhow};
use forewarn_drivers::DomainDescription;
use forewarn_drivers::libvirt::{Target, describe_domains};
use forewarn_drivers::qemu::{QemuMachine, read_machines};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

/// Describes all domains. Blocks, and must not be called from an asynchronous task.
///
/// # Errors
///
/// If libvirtd cannot be reached.
pub fn read_domains(socket: &Path) -> anyhow::Result<Vec<DomainDescription>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let target = Target::qemu(socket);
    runtime.block_on(describe_domains(&target)).with_context(|| {
        format!(
            "cannot read the domains of libvirtd at {} (for QEMU without libvirt, add --driver-machines FILE)",
            socket.display()
        )
    })
}

/// Reads the file of the QEMU driver.
///
/// # Errors
///
/// If the file cannot be read or is invalid.
pub fn read_qemu_machines(file: &Path) -> anyhow::Result<Vec<QemuMachine>> {
    read_machines(file).map_err(|error| anyhow!(error))
}

/// Whether a QEMU listens on the QMP socket of a machine. It is not asked more, because it serves one client at a time: the
/// others wait in a queue of one, and a connection to a full queue would block.
pub fn is_listening(machine: &QemuMachine) -> bool {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let Ok(socket) = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None) else { return false };
    let Ok(address) = SocketAddrUnix::new(&machine.qmp) else { return false };
    matches!(connect(&socket, &address), Ok(()) | Err(Errno::AGAIN))
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn a_socket_with_a_full_queue_is_listening() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("machines.toml");
        let qmp = dir.path().join("qmp");
        let table = format!(
            "[web1]\nvm_id = \"5c4e4f50-0000-4000-8000-000000000001\"\nqmp = {qmp:?}\nstart = [\"/bin/true\"]\n"
        );
        std::fs::write(&file, table).unwrap();
        let machine = read_qemu_machines(&file).unwrap().remove(0);
        assert!(!is_listening(&machine));
        let listener = UnixListener::bind(&qmp).unwrap();
        rustix::net::listen(&listener, 1).unwrap();
        for _ in 0..4 {
            assert!(is_listening(&machine));
        }
        drop(listener);
        assert!(!is_listening(&machine));
    }
}
