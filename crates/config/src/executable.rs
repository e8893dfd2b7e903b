//! Checks at startup that the driver command can be executed.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::{env, fs};

use crate::error::ConfigError;

/// A name without `/` is looked up in PATH.
pub fn check(program: &Path) -> Result<(), ConfigError> {
    let named_by_path = program.as_os_str().as_encoded_bytes().contains(&b'/');
    let problem = if named_by_path { find_problem(program) } else { find_problem_in_path(program) };
    problem.map_or(Ok(()), |what| {
        Err(ConfigError(format!(
            "driver.command: cannot run {:?}: {what}; set it to an executable file and pass arguments with --driver-argument",
            program.display().to_string()
        )))
    })
}

fn find_problem_in_path(name: &Path) -> Option<String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).any(|directory| find_problem(&directory.join(name)).is_none());
    (!found).then(|| "not found in PATH".into())
}

fn find_problem(file: &Path) -> Option<String> {
    match fs::metadata(file) {
        Err(error) => Some(error.to_string()),
        Ok(facts) if !facts.is_file() => Some("not a file".into()),
        Ok(facts) if facts.permissions().mode() & 0o111 == 0 => Some("not executable".into()),
        Ok(_) => None,
    }
}
