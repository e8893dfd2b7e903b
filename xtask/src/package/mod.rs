//! `cargo xtask package`: Debian packages of the server, of the guest agent and of the host agent, in `target/debian`.
//!
//! Units, configuration and scripts are in `packaging/`. The programs are linked statically, so that they run on every
//! distribution. Packages are reproducible: timestamps come from `SOURCE_DATE_EPOCH` or else from the last commit.

mod deb;
mod generated;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sh;
use crate::static_programs;
use deb::Deb;
pub use generated::Generated;

/// Paths of the packages.
pub struct Packages {
    pub forewarn: PathBuf,
    pub agent: PathBuf,
    pub host: PathBuf,
}

impl Packages {
    pub fn paths(&self) -> [&Path; 3] {
        [&self.forewarn, &self.agent, &self.host]
    }
}

pub fn run() -> Result<()> {
    static_programs::build()?;
    let packages = build(&sh::target().join("debian"))?;
    for path in packages.paths() {
        println!("{}", path.display());
    }
    Ok(())
}

/// Packages the programs that are already built.
pub fn build(out: &Path) -> Result<Packages> {
    std::fs::create_dir_all(out)?;
    let programs = static_programs::find()?;
    Ok(Packages {
        forewarn: pack_forewarn(&programs.forewarn, out)?,
        agent: pack_agent(&programs.agent, out)?,
        host: pack_host(out)?,
    })
}

/// The timestamp of all packaged files, in seconds since 1970.
pub fn source_date_epoch() -> Result<String> {
    match std::env::var("SOURCE_DATE_EPOCH") {
        Ok(epoch) => Ok(epoch),
        Err(_) => Ok(sh::program("git").args(&["log", "-1", "--format=%ct"]).read()?.trim().to_owned()),
    }
}

fn pack_agent(program: &Path, out: &Path) -> Result<PathBuf> {
    let deb = Deb::new("forewarn-agent")?;
    deb.program(program)?;
    deb.file("etc/forewarn-agent/agent.toml", 0o600, &deb.read("agent.toml")?)?;
    deb.file("etc/forewarn-agent/hooks/README", 0o644, &deb.read("hooks.README")?)?;
    deb.compressed("usr/share/man/man8/forewarn-agent.8", &deb.read("forewarn-agent.8")?)?;
    deb.compressed("usr/share/doc/forewarn-agent/agent.md", &page("docs/agent.md")?)?;
    deb.build(out)
}

/// The host agent is part of the program `forewarn`, on whose package this one depends.
fn pack_host(out: &Path) -> Result<PathBuf> {
    let deb = Deb::new("forewarn-host")?;
    deb.file("etc/forewarn/host.toml", 0o644, &deb.read("host.toml")?)?;
    deb.compressed("usr/share/doc/forewarn-host/host-agent.md", &page("docs/host-agent.md")?)?;
    deb.build(out)
}

fn pack_forewarn(program: &Path, out: &Path) -> Result<PathBuf> {
    let deb = Deb::new("forewarn")?;
    deb.program(program)?;
    deb.file("etc/forewarn/forewarn.toml", 0o644, &deb.read("forewarn.toml")?)?;
    for name in ["api", "cli", "configuration", "metadata", "operators"] {
        deb.compressed(&format!("usr/share/doc/forewarn/{name}.md"), &page(&format!("docs/{name}.md"))?)?;
    }
    let generated = Generated::by(program)?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/forewarn"),
        ("zsh", "usr/share/zsh/vendor-completions/_forewarn"),
        ("fish", "usr/share/fish/vendor_completions.d/forewarn.fish"),
    ] {
        deb.file(path, 0o644, &generated.completions[shell])?;
    }
    for (name, text) in &generated.pages {
        deb.compressed(&format!("usr/share/man/man1/{name}"), text)?;
    }
    deb.build(out)
}

fn page(path: &str) -> Result<String> {
    std::fs::read_to_string(sh::root().join(path)).with_context(|| path.to_owned())
}
