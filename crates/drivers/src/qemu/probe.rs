//! Looks at the socket of a machine once, for `forewarn host doctor`. Changes nothing: it only asks for the UUID.

use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::sync::Arc;

use super::file::QemuMachine;
use super::qmp::{Qmp, QmpError};
use crate::order::parse_guid;

/// The condition of a QMP socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketProbe {
    /// QEMU answers and is the machine.
    Answers,
    /// QEMU answers, but every user can connect, and so control the machine.
    Exposed,
    /// No QEMU listens: the machine does not run, or uses another socket.
    Absent,
    /// The directory of the socket does not exist, so QEMU cannot create it.
    NoDirectory,
    /// The path is not a socket.
    NotSocket,
    /// This user may not connect.
    Denied,
    /// QEMU accepts the connection, but does not greet: it serves another program, or hangs.
    Silent,
    /// The QEMU at the socket has another UUID.
    OtherMachine(String),
    /// The process at the socket does not speak QMP.
    Broken(String),
}

/// Looks at the socket of a machine.
pub async fn probe(machine: &QemuMachine) -> SocketProbe {
    match fs::metadata(&machine.qmp) {
        Ok(metadata) if !metadata.file_type().is_socket() => SocketProbe::NotSocket,
        Ok(metadata) => ask(machine, &metadata).await,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => SocketProbe::Denied,
        Err(_) if machine.qmp.parent().is_some_and(|directory| !directory.is_dir()) => SocketProbe::NoDirectory,
        Err(_) => SocketProbe::Absent,
    }
}

async fn ask(machine: &QemuMachine, metadata: &Metadata) -> SocketProbe {
    match read_uuid(machine).await {
        Ok(uuid) if parse_guid(&uuid) != Some(machine.vm_id) => SocketProbe::OtherMachine(uuid),
        Ok(_) if metadata.permissions().mode() & 0o002 != 0 => SocketProbe::Exposed,
        Ok(_) => SocketProbe::Answers,
        Err(QmpError::Absent(_)) => SocketProbe::Absent,
        Err(QmpError::Connect(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => SocketProbe::Denied,
        Err(QmpError::Silent | QmpError::Timeout(_)) => SocketProbe::Silent,
        Err(
            error @ (QmpError::Connect(_)
            | QmpError::Disconnected(_)
            | QmpError::Malformed(_)
            | QmpError::Refused { .. }),
        ) => SocketProbe::Broken(error.to_string()),
    }
}

async fn read_uuid(machine: &QemuMachine) -> Result<String, QmpError> {
    let qmp = Qmp::connect(&machine.qmp, Arc::default()).await?;
    let reply = qmp.execute("query-uuid").await?;
    Ok(reply["UUID"].as_str().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
    use tokio::net::UnixListener;

    use super::super::read_machines;
    use super::*;

    const UUID: &str = "5c4e4f50-0000-4000-8000-000000000001";

    fn machine(dir: &Path, socket: &Path) -> QemuMachine {
        let file = dir.join("machines.toml");
        let qmp = socket.display();
        fs::write(&file, format!("[web1]\nvm_id = \"{UUID}\"\nqmp = \"{qmp}\"\nstart = [\"/bin/true\"]\n")).unwrap();
        read_machines(&file).unwrap().remove(0)
    }

    /// A socket whose process sends these lines: the first at once, the others after one command each.
    fn listen(socket: &Path, mode: u32, lines: Vec<String>) {
        let listener = UnixListener::bind(socket).unwrap();
        fs::set_permissions(socket, fs::Permissions::from_mode(mode)).unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let mut stream = BufReader::new(stream);
            let mut command = String::new();
            for line in lines {
                stream.write_all(line.as_bytes()).await.unwrap();
                stream.read_line(&mut command).await.unwrap();
            }
        });
    }

    /// The lines of a QEMU with this UUID.
    fn qemu(uuid: &str) -> Vec<String> {
        vec![
            "{\"QMP\": {}}\n".into(),
            "{\"return\": {}, \"id\": 1}\n".into(),
            format!("{{\"return\": {{\"UUID\": \"{uuid}\"}}, \"id\": 2}}\n"),
        ]
    }

    #[tokio::test]
    async fn a_qemu_is_known_by_its_uuid_and_must_not_be_open_to_every_user() {
        let other = UUID.replace("0001", "0002");
        for (uuid, mode, expected) in [
            (UUID, 0o700, SocketProbe::Answers),
            (UUID, 0o777, SocketProbe::Exposed),
            (&other, 0o700, SocketProbe::OtherMachine(other.clone())),
        ] {
            let dir = tempfile::tempdir().unwrap();
            let socket = dir.path().join("qmp");
            listen(&socket, mode, qemu(uuid));
            assert_eq!(probe(&machine(dir.path(), &socket)).await, expected);
        }
    }

    #[tokio::test]
    async fn sockets_without_a_qemu_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| machine(dir.path(), &dir.path().join(path));
        assert_eq!(probe(&at("missing")).await, SocketProbe::Absent);
        assert_eq!(probe(&at("missing/qmp")).await, SocketProbe::NoDirectory);
        assert_eq!(probe(&at("machines.toml")).await, SocketProbe::NotSocket);
        drop(std::os::unix::net::UnixListener::bind(dir.path().join("left")).unwrap());
        assert_eq!(probe(&at("left")).await, SocketProbe::Absent);
        listen(&dir.path().join("web"), 0o700, vec!["HTTP/1.1 400 Bad Request\n".into()]);
        assert!(matches!(probe(&at("web")).await, SocketProbe::Broken(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_qemu_that_serves_another_program_is_silent() {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("qmp");
        let _listener = UnixListener::bind(&socket).unwrap();
        assert_eq!(probe(&machine(dir.path(), &socket)).await, SocketProbe::Silent);
    }
}
