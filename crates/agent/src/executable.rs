//! Finds programs and checks that they are executable, without running them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Access, access};

pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// Finds a program by absolute path, or by name in `PATH`.
pub fn find(program: &str) -> Result<PathBuf> {
    if program.contains('/') {
        let path = PathBuf::from(program);
        ensure!(path.is_absolute(), "{program} is a relative path; use an absolute path or a name in PATH");
        ensure!(path.is_file(), "{program} does not exist");
        ensure!(is_executable(&path), "{program} is not executable");
        return Ok(path);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| is_executable(path));
    found.with_context(|| format!("{program} is not in PATH; install it or use its absolute path"))
}
