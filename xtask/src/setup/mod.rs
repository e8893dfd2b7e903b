//! Installs what tests and benchmarks need beyond the Rust toolchain: Debian packages, and downloads in a cache outside
//! the work tree.

mod suite;
mod virtualization;

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::machine::{self, Package};
use crate::sh;

/// A download that is kept in the cache. Versions are pinned, so that every run uses the same programs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Download {
    /// A Python environment with these packages, `name==version` each; the first one names it.
    Python(&'static [&'static str]),
    /// npm packages, `name@version` each, in a directory with `node_modules`.
    Node(&'static str, &'static [&'static str]),
    /// The files of a Debian package, unpacked without installing it.
    Unpacked(&'static str),
    /// The files of the only dependency of an empty Debian package, such as the current kernel.
    Newest(&'static str),
    /// The files of packages of another Debian suite, unpacked without installing them; the first one names them.
    UnpackedFrom(&'static str, &'static [&'static str]),
}

/// Installs those of these packages that are missing.
pub fn debian(packages: &[Package]) -> Result<()> {
    let missing = machine::missing(packages);
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

/// Installs packages with `apt-get`; needs root.
pub fn install(packages: &[&str]) -> Result<()> {
    let (virtualization, others): (Vec<&str>, Vec<&str>) =
        packages.iter().partition(|package| virtualization::is_virtualization(package));
    if !others.is_empty() {
        apt_update(&[])?;
        apt_install(&[], &others)?;
    }
    if virtualization.is_empty() { Ok(()) } else { virtualization::install(&virtualization) }
}

fn apt_update(options: &[&str]) -> Result<()> {
    sh::program("apt-get").args(options).args(&["update", "-qq"]).run()
}

fn apt_install(options: &[&str], packages: &[&str]) -> Result<()> {
    let install = sh::program("apt-get").args(options).args(&["install", "-y", "-qq", "--no-install-recommends"]);
    let result = install.args(packages).env("DEBIAN_FRONTEND", "noninteractive").run();
    result.with_context(|| format!("cannot install {}", packages.join(" ")))
}

impl Download {
    /// Where it is in the cache; downloads it first if it is not there.
    pub fn path(&self) -> Result<PathBuf> {
        let dir = self.dir()?;
        if !self.is_cached()? {
            std::fs::create_dir_all(&dir)?;
            self.fetch(&dir).with_context(|| format!("cannot download {self}"))?;
            std::fs::write(dir.join(self.mark()), "")?;
        }
        Ok(dir)
    }

    pub fn is_cached(&self) -> Result<bool> {
        Ok(self.dir()?.join(self.mark()).exists())
    }

    /// The file that is written once the download is complete.
    fn mark(&self) -> &'static str {
        match self {
            Download::Python(_) | Download::Node(..) => "installed",
            Download::Unpacked(_) | Download::Newest(_) | Download::UnpackedFrom(..) => ".unpacked",
        }
    }

    fn dir(&self) -> Result<PathBuf> {
        let name = match self {
            Download::Python(packages) => format!("venv-{}", packages[0].replace("==", "-")),
            Download::Node(name, packages) => format!("npm-{name}-{}", packages.join("-").replace(['/', '@'], "-")),
            Download::Unpacked(package) | Download::Newest(package) => format!("deb-{package}"),
            Download::UnpackedFrom(suite, packages) => format!("deb-{}-{suite}", packages[0]),
        };
        Ok(cache()?.join(name))
    }

    fn fetch(&self, dir: &Path) -> Result<()> {
        let path = dir.to_str().context("the path of the cache is not UTF-8")?;
        match self {
            Download::Python(packages) => {
                ensure!(machine::has_python_venv(), "python3 has no venv module: install python3-venv");
                sh::program("python3").args(&["-m", "venv", "--clear", path]).run()?;
                let pip = dir.join("bin/pip");
                sh::program(pip.to_str().context("path")?).args(&["install", "--quiet"]).args(packages).run()
            }
            Download::Node(_, packages) => {
                let install = ["install", "--silent", "--no-save", "--prefix", path];
                sh::program("npm").args(&install).args(packages).run()
            }
            Download::Unpacked(package) => unpack(package, dir),
            Download::Newest(package) => unpack(&only_dependency(package)?, dir),
            Download::UnpackedFrom(suite, packages) => suite::unpack(suite, packages, dir),
        }
    }
}

impl fmt::Display for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Download::Python(packages) => write!(f, "{} from PyPI", packages.join(" ")),
            Download::Node(_, packages) => write!(f, "{} from npm", packages.join(" ")),
            Download::Unpacked(package) | Download::Newest(package) => write!(f, "the Debian package {package}"),
            Download::UnpackedFrom(suite, packages) => write!(f, "{} from Debian {suite}", packages.join(" ")),
        }
    }
}

fn unpack(package: &str, dir: &Path) -> Result<()> {
    let fetch = || Command::new("apt-get").args(["download", "-qq", package]).current_dir(dir).status();
    if !fetch()?.success() {
        sh::program("apt-get").args(&["update", "-qq"]).run()?;
        ensure!(fetch()?.success(), "apt-get download {package} failed");
    }
    extract_all(dir)
}

/// Extracts the packages in a directory there.
fn extract_all(dir: &Path) -> Result<()> {
    let files = std::fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let packages: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
    ensure!(!packages.is_empty(), "no .deb was downloaded");
    for deb in packages {
        sh::program("dpkg").args(&["-x", deb.to_str().context("path")?, dir.to_str().context("path")?]).run()?;
    }
    Ok(())
}

/// The package that an empty package depends on, in the version that would be installed.
fn only_dependency(package: &str) -> Result<String> {
    sh::program("apt-get").args(&["update", "-qq"]).run()?;
    let text = sh::program("apt-cache").args(&["show", "--no-all-versions", package]).read()?;
    let list = text.lines().find_map(|line| line.strip_prefix("Depends: "));
    let name = list.and_then(|list| list.split([' ', ',']).next());
    Ok(name.with_context(|| format!("{package} depends on nothing"))?.to_owned())
}

/// `$XDG_CACHE_HOME/forewarn`, created if it does not exist.
pub fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    let dir = base.join("forewarn");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}
