//! `forewarn host doctor` with the QEMU driver, as users run it.

use std::fs;

use crate::support::{clean_command, text};

#[test]
fn the_doctor_checks_the_machines_of_the_qemu_driver() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("machines.toml");
    let doctor = || {
        let mut command = clean_command();
        command.args(["host", "doctor", "--driver", "qemu"]).arg("--data").arg(dir.path());
        text(&command.arg("--driver-machines").arg(&file).output().unwrap().stdout)
    };
    assert!(doctor().contains("cannot read"), "{}", doctor());
    let socket = dir.path().join("web1.qmp").display().to_string();
    let table = format!(
        "[web1]\nvm_id = \"5c4e4f50-0000-4000-8000-000000000001\"\nqmp = \"{socket}\"\nstart = [\"/no/such/program\"]\n"
    );
    fs::write(&file, table).unwrap();
    let report = doctor();
    let row = |check: &str| report.lines().find(|line| line.starts_with(check)).unwrap_or_else(|| panic!("{report}"));
    assert!(row("machines file").contains("(machines: 1)"), "{report}");
    assert!(
        row("web1: socket").contains("limited") && row("web1: socket").contains("QEMU is not listening"),
        "{report}"
    );
    assert!(row("web1: commands").contains("/no/such/program does not exist"), "{report}");
    assert!(row("journal").contains("ok"), "{report}");
    assert!(!report.contains("libvirt"), "{report}");
}
