//! Installs QEMU and libvirt.
//!
//! On a plain Debian, both come from the suites that the machine uses already. On a machine with QEMU tools from
//! backports, QEMU and libvirt must come from backports too, because the versions conflict. That suite is then used for
//! these packages only, from the mirror of the machine's own sources, and without changing the configuration of apt.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::{apt_install, apt_update};
use crate::sh;

/// Prefixes of the names of packages that this module installs.
const NAMES: &[&str] = &["qemu-system", "libvirt-"];

/// The packages that must have matching versions.
const PINNED: &str = "qemu-* libvirt* seabios";

/// Above the priority of every suite that is in use, so that the pinned packages come from backports.
const PRIORITY: u32 = 990;

pub fn is_virtualization(package: &str) -> bool {
    NAMES.iter().any(|name| package.starts_with(name))
}

pub fn install(packages: &[&str]) -> Result<()> {
    if !uses_backports(&installed_versions()?) {
        return install_known(&[], packages);
    }
    let apt = PrivateApt::new(&codename(&std::fs::read_to_string("/etc/os-release")?)?)?;
    let options = apt.options();
    install_known(&options.iter().map(String::as_str).collect::<Vec<_>>(), packages)
}

/// Installs the packages that exist. Newer versions of libvirt are split into more packages than older ones.
fn install_known(options: &[&str], packages: &[&str]) -> Result<()> {
    apt_update(options)?;
    let is_known = |package: &&&str| sh::program("apt-cache").args(options).args(&["show", package]).read().is_ok();
    let known: Vec<&str> = packages.iter().filter(is_known).copied().collect();
    apt_install(options, &known)
}

/// Versions of the installed QEMU packages, one per line.
fn installed_versions() -> Result<String> {
    let format = "${db:Status-Status} ${Version}\\n";
    sh::program("sh").args(&["-c", &format!("dpkg-query -W -f='{format}' 'qemu-*' 2>/dev/null || true")]).read()
}

fn uses_backports(versions: &str) -> bool {
    versions.lines().any(|line| line.starts_with("installed ") && line.contains("~bpo"))
}

fn codename(os_release: &str) -> Result<String> {
    let name = os_release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release has no VERSION_CODENAME")?.trim_matches('"').to_owned())
}

/// Sources and preferences for one call of apt-get: those of the machine, and backports for the pinned packages.
struct PrivateApt {
    dir: TempDir,
}

impl PrivateApt {
    fn new(codename: &str) -> Result<PrivateApt> {
        let dir = tempfile::Builder::new().prefix("forewarn-apt-").tempdir()?;
        let suite = format!("{codename}-backports");
        let own = std::fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
        let mirror = mirror(&targets()?, codename)?;
        let write = |name: &str, text: String| std::fs::write(dir.path().join(name), text);
        write("sources.list", format!("{own}\ndeb [signed-by={KEYS}] {mirror} {suite} main\n"))?;
        write("preferences", format!("Package: {PINNED}\nPin: release n={suite}\nPin-Priority: {PRIORITY}\n"))?;
        std::fs::create_dir_all(dir.path().join("lists/partial"))?;
        // apt downloads as another user, who must be able to enter the directory.
        sh::program("chmod").args(&["-R", "a+rX", path(dir.path())?]).run_silently()?;
        Ok(PrivateApt { dir })
    }

    fn options(&self) -> Vec<String> {
        let file = |option: &str, name: &str| format!("{option}={}", self.dir.path().join(name).display());
        vec![
            file("--option=Dir::Etc::SourceList", "sources.list"),
            file("--option=Dir::Etc::Preferences", "preferences"),
            file("--option=Dir::State::Lists", "lists"),
        ]
    }
}

/// The keys that sign Debian's suites, backports included.
const KEYS: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The suites of the machine: address and name, one per line.
fn targets() -> Result<String> {
    let format = ["indextargets", "--format", "$(REPO_URI) $(RELEASE)", "Identifier: Packages"];
    sh::program("apt-get").args(&format).read()
}

/// The address from which the machine gets the suite with this name.
fn mirror(targets: &str, codename: &str) -> Result<String> {
    let pairs = targets.lines().filter_map(|line| line.split_once(' '));
    let mut mirrors = pairs.filter(|(_, release)| *release == codename).map(|(address, _)| address.to_owned());
    mirrors.next().with_context(|| format!("apt has no source for {codename}"))
}

fn path(path: &Path) -> Result<&str> {
    let text = path.to_str().context("the path is not UTF-8")?;
    ensure!(!text.contains(char::is_whitespace), "apt options cannot contain spaces: {text}");
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backports_are_needed_only_beside_installed_tools_from_backports() {
        assert!(uses_backports("installed 1:10.0.2+ds-2~bpo12+1\n"));
        assert!(!uses_backports("installed 1:7.2+dfsg-7+deb12u18\nnot-installed \n"));
        assert!(!uses_backports("config-files 1:10.0.2+ds-2~bpo12+1\n"));
        assert!(!uses_backports(""));
    }

    #[test]
    fn the_mirror_is_the_one_of_the_main_suite() {
        let targets =
            "http://security.example/debian-security/ bookworm-security\nhttp://mirror.example/debian/ bookworm\n";
        assert_eq!(mirror(targets, "bookworm").unwrap(), "http://mirror.example/debian/");
        assert!(mirror(targets, "trixie").is_err());
        assert_eq!(codename("ID=debian\nVERSION_CODENAME=bookworm\n").unwrap(), "bookworm");
    }
}
