//! What tests need beyond the Rust toolchain, installed into caches outside the work tree.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::sh;

/// `$XDG_CACHE_HOME/forewarn`, made when missing.
pub fn cache() -> Result<PathBuf> {
    let base = match std::env::var_os("XDG_CACHE_HOME") {
        Some(dir) => PathBuf::from(dir),
        None => PathBuf::from(std::env::var_os("HOME").context("HOME is not set")?).join(".cache"),
    };
    let dir = base.join("forewarn");
    std::fs::create_dir_all(&dir)?;
    Ok(dir)
}

/// Debian packages, by a program on the path, or any file by its whole path, that each of them brings. Needs root only when one is missing.
pub fn debian(packages: &[(&str, &str)]) -> Result<()> {
    let missing: Vec<&str> = packages.iter().filter(|(_, file)| !is_there(file)).map(|(name, _)| *name).collect();
    if missing.is_empty() { Ok(()) } else { install(&missing) }
}

fn install(packages: &[&str]) -> Result<()> {
    sh::program("apt-get").args(&["update", "-qq"]).run()?;
    let mut install = sh::program("apt-get").args(&["install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    install.env("DEBIAN_FRONTEND", "noninteractive").run()
}

/// A Python environment with one package, kept in the cache.
pub fn python(package: &str, version: &str) -> Result<PathBuf> {
    python_with(package, version, &[])
}

/// Pinned, so that a run today asks what a run asked yesterday.
pub const AZURE_CLI: &str = "2.91.0";
/// Newer than what the CLI brings along, so in an environment of its own.
pub const AZURE_SDK_PYTHON: [&str; 3] =
    ["azure-mgmt-compute==39.0.0", "azure-mgmt-maintenance==2.2.0b4", "azure-identity==1.27.0"];
pub const AZURE_SDK_JAVASCRIPT: &str = "@azure/arm-compute@24.1.0";

/// Some 400 MB, installed once.
pub fn azure_cli() -> Result<PathBuf> {
    python("azure-cli", AZURE_CLI)
}

pub fn azure_sdk_python() -> Result<PathBuf> {
    let (name, version) = AZURE_SDK_PYTHON[0].split_once("==").context("no version")?;
    python_with(name, version, &[&AZURE_SDK_PYTHON[1..], &["requests"]].concat())
}

pub fn azure_sdk_javascript() -> Result<PathBuf> {
    node("azure-sdk", &[AZURE_SDK_JAVASCRIPT])
}

/// Packages of npm, `name@version` each, in a directory of the cache with `node_modules` in it.
pub fn node(name: &str, packages: &[&str]) -> Result<PathBuf> {
    debian(&[("nodejs", "node"), ("npm", "npm")])?;
    let dir = cache()?.join(format!("npm-{name}-{}", packages.join("-").replace(['/', '@'], "-")));
    let done = dir.join("installed");
    if !done.exists() {
        std::fs::create_dir_all(&dir)?;
        let path = dir.to_str().context("the cache's path is not text")?;
        sh::program("npm").args(&["install", "--silent", "--no-save", "--prefix", path]).args(packages).run()?;
        std::fs::write(done, "")?;
    }
    Ok(dir)
}

fn python_with(package: &str, version: &str, others: &[&str]) -> Result<PathBuf> {
    let venv = cache()?.join(format!("venv-{package}-{version}"));
    let done = venv.join("installed");
    if !done.exists() {
        let path = venv.to_str().context("the cache's path is not text")?;
        if sh::program("python3").args(&["-c", "import ensurepip"]).read().is_err() {
            install(&["python3-venv"])?;
        }
        sh::program("python3").args(&["-m", "venv", "--clear", path]).run()?;
        let pip = venv.join("bin/pip");
        let wanted = format!("{package}=={version}");
        let install = sh::program(pip.to_str().context("path")?).args(&["install", "--quiet", &wanted]);
        install.args(others).run()?;
        std::fs::write(done, "")?;
    }
    Ok(venv)
}

/// The files of a Debian package, unpacked into the cache without installing it.
pub fn unpacked(package: &str) -> Result<PathBuf> {
    let dir = cache()?.join(format!("deb-{package}"));
    let done = dir.join(".unpacked");
    if done.exists() {
        return Ok(dir);
    }
    std::fs::create_dir_all(&dir)?;
    let fetch = |dir: &PathBuf| Command::new("apt-get").args(["download", "-qq", package]).current_dir(dir).status();
    if !fetch(&dir)?.success() {
        sh::program("apt-get").args(&["update", "-qq"]).run()?;
        ensure!(fetch(&dir)?.success(), "cannot download the Debian package {package}");
    }
    let files = std::fs::read_dir(&dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let deb = files
        .into_iter()
        .find(|path| path.extension().is_some_and(|end| end == "deb"))
        .context("no .deb was downloaded")?;
    sh::program("dpkg").args(&["-x", deb.to_str().context("path")?, dir.to_str().context("path")?]).run()?;
    std::fs::write(done, "")?;
    Ok(dir)
}

fn is_there(file: &str) -> bool {
    if file.starts_with('/') {
        return Path::new(file).exists();
    }
    let program = file;
    let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).stdout(Stdio::null()).status();
    found.is_ok_and(|status| status.success())
}
