//! The checks of `forewarn host doctor` for the QEMU driver: the file, the socket and the commands of each machine, and the
//! journal.

use forewarn_drivers::qemu::SocketProbe;

use super::{Finding, QemuFact, QemuMachineFact, Verdict, good, problem};

pub fn check_qemu(qemu: &QemuFact) -> Vec<Finding> {
    let mut findings = vec![check_file(qemu)];
    findings
        .extend(qemu.machines.iter().flatten().flat_map(|machine| [check_socket(machine), check_commands(machine)]));
    findings.push(check_journal(qemu));
    findings
}

fn check_file(qemu: &QemuFact) -> Finding {
    let check = "machines file";
    let Some(file) = &qemu.file else {
        let fix = "set driver_machines in /etc/forewarn/host.toml, or pass --driver-machines";
        return problem(check, Verdict::Bad, "the qemu driver needs a file that names its machines", fix);
    };
    match &qemu.machines {
        Ok(machines) if machines.is_empty() => {
            let detail = format!("{} names no machines", file.display());
            problem(check, Verdict::Limited, detail, "add a table with vm_id, qmp and start for each machine")
        }
        Ok(machines) => good(check, format!("{} (machines: {})", file.display(), machines.len())),
        Err(reason) => {
            let fix = format!("correct {}; the guide to QEMU without libvirt explains its keys", file.display());
            problem(check, Verdict::Bad, reason.clone(), fix)
        }
    }
}

fn check_socket(machine: &QemuMachineFact) -> Finding {
    let (check, socket) = (format!("{}: socket", machine.name), machine.qmp.display());
    let (verdict, detail, fix) = match &machine.socket {
        SocketProbe::Answers => return good(&check, format!("QEMU answers at {socket}")),
        SocketProbe::Exposed => (
            Verdict::Limited,
            format!("every user can connect to {socket} and control the machine"),
            format!("chmod o-w {socket}, and start QEMU with umask 0077"),
        ),
        SocketProbe::Absent => (
            Verdict::Limited,
            format!("QEMU is not listening at {socket}"),
            format!("if the machine runs, start QEMU with -qmp unix:{socket},server=on,wait=off or correct qmp"),
        ),
        SocketProbe::NoDirectory => {
            let directory = machine.qmp.parent().unwrap_or(&machine.qmp).display();
            (
                Verdict::Bad,
                format!("the directory {directory} does not exist"),
                format!("mkdir -p {directory}, or correct qmp"),
            )
        }
        SocketProbe::NotSocket => {
            (Verdict::Bad, format!("{socket} is not a socket"), "remove the file, or correct qmp".to_owned())
        }
        SocketProbe::Denied => (
            Verdict::Bad,
            format!("permission denied for {socket}"),
            "run the agent as root or as the user of QEMU".to_owned(),
        ),
        SocketProbe::Silent => (
            Verdict::Limited,
            format!("QEMU at {socket} sent no greeting: another program is connected, or QEMU is hung"),
            "stop the host agent for this check; if another program is connected, add a second -qmp for it".to_owned(),
        ),
        SocketProbe::OtherMachine(uuid) => (
            Verdict::Bad,
            format!("the QEMU at {socket} has the UUID {uuid}, not {}", machine.vm_id),
            format!("start QEMU with -uuid {}, or correct vm_id or qmp", machine.vm_id),
        ),
        SocketProbe::Broken(reason) => {
            (Verdict::Bad, format!("{socket}: {reason}"), "name a QMP socket of QEMU in qmp".to_owned())
        }
    };
    problem(&check, verdict, detail, fix)
}

fn check_commands(machine: &QemuMachineFact) -> Finding {
    let check = format!("{}: commands", machine.name);
    match &machine.command_problem {
        None => good(&check, "executable"),
        Some((detail, fix)) => problem(&check, Verdict::Bad, detail, fix),
    }
}

fn check_journal(qemu: &QemuFact) -> Finding {
    let path = qemu.journal.display();
    match &qemu.journal_problem {
        None => good("journal", path.to_string()),
        Some(reason) => {
            let fix = "create the data directory, and run the agent as its owner; free disk space if it is full";
            problem("journal", Verdict::Bad, format!("{path} cannot be written: {reason}"), fix)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{check, healthy};
    use super::super::{DriverFact, Facts};
    use super::*;

    fn machine() -> QemuMachineFact {
        QemuMachineFact {
            name: "web1".into(),
            vm_id: "5c4e4f50-0000-4000-8000-000000000001".into(),
            qmp: "/run/vms/web1.qmp".into(),
            socket: SocketProbe::Answers,
            command_problem: None,
        }
    }

    fn facts(machines: Result<Vec<QemuMachineFact>, String>) -> Facts {
        let (file, journal) = (Some("/etc/forewarn/machines.toml".into()), "/var/lib/forewarn-host/journal".into());
        let qemu = QemuFact { file, machines, journal, journal_problem: None };
        Facts { driver: DriverFact::Qemu(qemu), ..healthy() }
    }

    #[test]
    fn a_prepared_host_passes_without_libvirt() {
        check(&facts(Ok(vec![machine()])), "machines file", Verdict::Good, "");
    }

    #[test]
    fn each_condition_of_a_socket_has_its_own_fix() {
        for (socket, verdict, fix) in [
            (SocketProbe::Exposed, Verdict::Limited, "chmod o-w /run/vms/web1.qmp"),
            (SocketProbe::Absent, Verdict::Limited, "-qmp unix:/run/vms/web1.qmp,server=on"),
            (SocketProbe::NoDirectory, Verdict::Bad, "mkdir -p /run/vms,"),
            (SocketProbe::NotSocket, Verdict::Bad, "remove the file"),
            (SocketProbe::Denied, Verdict::Bad, "as root"),
            (SocketProbe::Silent, Verdict::Limited, "second -qmp"),
            (SocketProbe::OtherMachine("7".into()), Verdict::Bad, "-uuid 5c4e4f50"),
            (SocketProbe::Broken("not QMP".into()), Verdict::Bad, "a QMP socket"),
        ] {
            check(&facts(Ok(vec![QemuMachineFact { socket, ..machine() }])), "web1: socket", verdict, fix);
        }
    }

    #[test]
    fn files_commands_and_journals_have_their_own_fix() {
        check(&facts(Err("key unknown".into())), "machines file", Verdict::Bad, "correct /etc/forewarn");
        check(&facts(Ok(vec![])), "machines file", Verdict::Limited, "add a table");
        let command_problem = Some(("/bin/start does not exist".into(), "correct start".into()));
        let machines = Ok(vec![QemuMachineFact { command_problem, ..machine() }]);
        check(&facts(machines), "web1: commands", Verdict::Bad, "correct start");
        let change = |edit: fn(&mut QemuFact)| {
            let mut facts = facts(Ok(vec![machine()]));
            if let DriverFact::Qemu(qemu) = &mut facts.driver {
                edit(qemu);
            }
            facts
        };
        let journal = change(|qemu| qemu.journal_problem = Some("read-only file system".into()));
        check(&journal, "journal", Verdict::Bad, "data directory");
        let no_file = change(|qemu| (qemu.file, qemu.machines) = (None, Ok(vec![])));
        check(&no_file, "machines file", Verdict::Bad, "driver_machines");
    }
}
