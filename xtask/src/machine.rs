//! Facts about this machine: installed programs, privileges.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A Debian package, and a program or an absolute path that it provides.
pub type Package = (&'static str, &'static str);

/// The packages among these whose file does not exist.
pub fn missing(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().filter(|(_, file)| !is_installed(file)).map(|(name, _)| *name).collect()
}

/// Whether there is a program of this name in `PATH`, or a file with this absolute path.
pub fn is_installed(file: &str) -> bool {
    if file.starts_with('/') {
        return Path::new(file).exists();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(file).is_file())
}

pub fn can_install_packages() -> bool {
    is_root() && is_installed("apt-get")
}

pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Whether root can create network namespaces here; not every container allows that.
pub fn has_network_namespaces() -> bool {
    succeeds("unshare", &["--net", "true"])
}

/// Whether Python can create virtual environments.
pub fn has_python_venv() -> bool {
    succeeds("python3", &["-c", "import ensurepip"])
}

fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_missing_when_their_file_is() {
        let packages =
            [("dash", "sh"), ("base-files", "/etc/passwd"), ("x", "no-such-program"), ("y", "/no/such/file")];
        assert_eq!(missing(&packages), ["x", "y"]);
    }
}
