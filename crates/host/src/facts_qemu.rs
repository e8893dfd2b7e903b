//! Gathers the facts about the QEMU driver for `forewarn host doctor`. It asks each QEMU for its UUID and changes nothing.

use std::path::{Path, PathBuf};

use forewarn_drivers::qemu::{QemuMachine, SocketProbe, probe, read_machines};
use rustix::fs::{Access, access};

use crate::doctor::{QemuFact, QemuMachineFact};

/// `file`: the file that names the machines; `journal`: the directory of the journal.
pub fn gather_qemu(file: Option<PathBuf>, journal: PathBuf) -> QemuFact {
    let machines = file.as_deref().map_or_else(|| Ok(Vec::new()), read_machines);
    let machines = machines.map(|machines| {
        let sockets = probe_all(&machines);
        machines.iter().zip(sockets).map(|(machine, socket)| describe(machine, socket)).collect()
    });
    let journal_problem = find_journal_problem(&journal);
    QemuFact { file, machines, journal, journal_problem }
}

/// All at once: a QEMU that does not answer takes seconds.
fn probe_all(machines: &[QemuMachine]) -> Vec<SocketProbe> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime.inspect_err(|error| tracing::error!(%error, "cannot query the machines")) else {
        return vec![SocketProbe::Silent; machines.len()];
    };
    runtime.block_on(async {
        let probes: Vec<_> =
            machines.iter().cloned().map(|machine| tokio::spawn(async move { probe(&machine).await })).collect();
        let mut sockets = Vec::new();
        for probe in probes {
            sockets.push(probe.await.unwrap_or_else(|error| SocketProbe::Broken(error.to_string())));
        }
        sockets
    })
}

fn describe(machine: &QemuMachine, socket: SocketProbe) -> QemuMachineFact {
    QemuMachineFact {
        name: machine.name.clone(),
        vm_id: machine.vm_id.to_string(),
        qmp: machine.qmp.clone(),
        socket,
        command_problem: find_command_problem(machine),
    }
}

fn find_command_problem(machine: &QemuMachine) -> Option<(String, String)> {
    let commands = [("start", Some(&machine.start)), ("cleanup", machine.cleanup.as_ref())];
    let programs = commands.into_iter().filter_map(|(key, words)| Some((key, words?.first()?)));
    for (key, program) in programs {
        let path = Path::new(program);
        if !path.is_file() {
            return Some((format!("{program} does not exist"), format!("install it, or correct {key}")));
        }
        if access(path, Access::EXEC_OK).is_err() {
            return Some((format!("{program} is not executable"), format!("chmod +x {program}, or correct {key}")));
        }
    }
    let directory = machine.directory.as_deref().filter(|directory| !directory.is_dir())?.display();
    Some((format!("the directory {directory} does not exist"), format!("mkdir -p {directory}, or correct directory")))
}

/// Why the journal cannot be written. The agent creates the directory, so its nearest parent counts if it does not exist.
fn find_journal_problem(journal: &Path) -> Option<String> {
    let existing = journal.ancestors().find(|path| path.exists())?;
    if !existing.is_dir() {
        return Some(format!("{} is not a directory", existing.display()));
    }
    let denied = access(existing, Access::WRITE_OK | Access::EXEC_OK).err()?;
    Some(format!("{}: {denied}", existing.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn machines_are_described_without_changing_anything() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("script"), "#!/bin/sh\n").unwrap();
        let table = |name: &str, last: u8, rest: &str| {
            let qmp = at(name).display().to_string();
            format!("[{name}]\nvm_id = \"5c4e4f50-0000-4000-8000-00000000000{last}\"\nqmp = \"{qmp}.qmp\"\n{rest}\n")
        };
        let script = at("script").display().to_string();
        let good = "start = [\"/bin/sh\"]\n";
        let tables = [
            table("a", 1, good),
            table("b", 2, &format!("start = [\"{script}\"]\n")),
            table("c", 3, &format!("{good}cleanup = [\"/no/such/program\"]\n")),
            table("d", 4, &format!("{good}directory = \"{}\"\n", at("none").display())),
        ];
        fs::write(at("machines.toml"), tables.concat()).unwrap();
        let fact = gather_qemu(Some(at("machines.toml")), at("data/journal"));
        assert_eq!(fact.journal_problem, None);
        let machines = fact.machines.unwrap();
        assert!(machines.iter().all(|machine| machine.socket == SocketProbe::Absent), "{machines:?}");
        let problems: Vec<_> = machines.into_iter().map(|machine| machine.command_problem).collect();
        let [None, Some(b), Some(c), Some(d)] = problems.as_slice() else { panic!("{problems:?}") };
        assert!(b.0.contains("is not executable") && b.1.contains("correct start"), "{b:?}");
        assert!(c.0.contains("/no/such/program does not exist") && c.1.contains("correct cleanup"), "{c:?}");
        assert!(d.0.contains("none does not exist"), "{d:?}");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn files_and_journals_that_cannot_be_used_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("machines.toml"), "[web1").unwrap();
        let fact = gather_qemu(Some(dir.path().join("machines.toml")), dir.path().join("machines.toml/journal"));
        assert!(fact.machines.unwrap_err().contains("invalid machines"));
        assert!(fact.journal_problem.unwrap().contains("is not a directory"));
        assert_eq!(gather_qemu(None, dir.path().join("journal")).machines, Ok(vec![]));
    }
}
