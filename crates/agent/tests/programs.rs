//! The program of this package. It is small on purpose: it is built before all other tests, for acceptance runs.

use std::process::Command;

#[test]
fn the_program_prints_its_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_forewarn-agent")).arg("--version").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), concat!("forewarn-agent ", env!("CARGO_PKG_VERSION"), "\n"));
}
