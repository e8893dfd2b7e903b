//! Machines of the QEMU driver whose power changes outside Forewarn: the agent reports them.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use forewarn_core::Power;
use forewarn_host::{DriverOptions, HostDriver};
use serde_json::{Value, json};

use crate::fleet::{Fleet, config, eventually};

/// A process that answers on a QMP socket like a running QEMU, until it is dropped.
struct FakeQemu {
    socket: PathBuf,
    connections: Arc<Mutex<Vec<UnixStream>>>,
}

impl FakeQemu {
    fn start(socket: &Path, uuid: &str) -> FakeQemu {
        let listener = UnixListener::bind(socket).unwrap();
        let connections: Arc<Mutex<Vec<UnixStream>>> = Arc::default();
        let (accepted, uuid) = (connections.clone(), uuid.to_owned());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                accepted.lock().unwrap().push(stream.try_clone().unwrap());
                let _ = answer(&stream, &uuid);
            }
        });
        FakeQemu { socket: socket.to_owned(), connections }
    }
}

impl Drop for FakeQemu {
    fn drop(&mut self) {
        fs::remove_file(&self.socket).unwrap();
        for connection in self.connections.lock().unwrap().drain(..) {
            let _ = connection.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn answer(mut stream: &UnixStream, uuid: &str) -> std::io::Result<()> {
    writeln!(stream, "{}", json!({ "QMP": {} }))?;
    for line in BufReader::new(stream.try_clone()?).lines() {
        let command: Value = serde_json::from_str(&line?)?;
        let reply = json!({ "UUID": uuid, "status": "running" });
        writeln!(stream, "{}", json!({ "return": reply, "id": command["id"] }))?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_power_of_a_machine_follows_its_qemu_through_the_agent() {
    let fleet = Fleet::start().await;
    let dir = tempfile::tempdir().unwrap();
    fleet.join("node1", dir.path()).await.unwrap();
    let machine = fleet.machine("web1", "node1").await;
    let power = || fleet.region().machine(machine).unwrap().power;
    let uuid = fleet.region().machine(machine).unwrap().vm_id.to_string();
    let (socket, machines) = (dir.path().join("qmp"), dir.path().join("machines.toml"));
    let table = format!("[web1]\nvm_id = \"{uuid}\"\nqmp = \"{}\"\nstart = [\"/bin/true\"]\n", socket.display());
    fs::write(&machines, table).unwrap();
    let options = DriverOptions { machines: Some(machines), ..DriverOptions::default() };
    let driver = HostDriver::Qemu.open("node1", dir.path(), options).unwrap();

    let agent = forewarn_host::start(config(dir.path()), driver).await.unwrap();
    eventually("a machine without a process is off", || power() == Power::Stopped).await;
    let qemu = FakeQemu::start(&socket, &uuid);
    eventually("a machine with a process runs", || power() == Power::Running).await;
    drop(qemu);
    eventually("the end of the process is seen", || power() == Power::Stopped).await;
    assert_eq!(fleet.region().events().count(), 0, "drift creates no events");
    agent.stop().await;
}
