//! The compiler of the workspace for the test command: with the lints of clippy, and with the two programs linked statically, as
//! in a release. Cargo calls this program in its place. A shell script could not do that: shells drop variables such as
//! `CARGO_BIN_EXE_forewarn-agent`.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

/// Has this program act as the compiler.
pub const VARIABLE: &str = "XTASK_COMPILER";

/// The compiler with the lints of clippy.
pub const LINTER: &str = "clippy-driver";

/// The crates of the programs.
const PROGRAMS: [&str; 2] = ["forewarn", "forewarn_agent"];

/// Becomes the compiler. Returns only if that fails. The arguments are the path of rustc and its arguments.
pub fn become_compiler(arguments: Vec<OsString>) -> std::io::Error {
    let mut compiler = Command::new(LINTER);
    if is_program(&arguments) {
        compiler.args(arguments).args(["-C", "target-feature=+crt-static"]).exec()
    } else {
        compiler.args(arguments).exec()
    }
}

/// Whether these arguments build a program, not a test of one.
fn is_program(arguments: &[OsString]) -> bool {
    let has = |name: &str, value: &str| arguments.windows(2).any(|pair| pair[0] == name && pair[1] == value);
    has("--crate-type", "bin") && PROGRAMS.iter().any(|program| has("--crate-name", program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_programs_are_linked_statically() {
        let check = |line: &str| is_program(&line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert!(check("rustc --crate-name forewarn --edition=2024 src/main.rs --crate-type bin --emit=link"));
        assert!(check("rustc --crate-name forewarn_agent src/main.rs --crate-type bin"));
        assert!(!check("rustc --crate-name forewarn src/main.rs --test"));
        assert!(!check("rustc --crate-name forewarn_api src/lib.rs --crate-type lib"));
        assert!(!check("rustc --crate-name build_script_build build.rs --crate-type bin"));
    }
}
