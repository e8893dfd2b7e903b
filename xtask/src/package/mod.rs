//! `cargo xtask package`: Debian packages of the server and of the guest agent, in `target/debian`.
//!
//! Units, configuration and scripts are in `packaging/`. The agent is linked statically, so that one file runs on every
//! distribution. Packages are reproducible: timestamps come from `SOURCE_DATE_EPOCH` or else from the last commit.

mod deb;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::sh;
use deb::Deb;

/// Paths of the packages.
pub struct Packages {
    pub forewarn: PathBuf,
    pub agent: PathBuf,
}

pub fn run() -> Result<()> {
    sh::cargo(&["build", "--release", "--package", "forewarn-cli", "--bins"]).run()?;
    let packages = build(&sh::target().join("debian"))?;
    for path in [packages.forewarn, packages.agent] {
        println!("{}", path.display());
    }
    Ok(())
}

/// Packages the existing release build of `forewarn`, and a static agent.
pub fn build(out: &Path) -> Result<Packages> {
    std::fs::create_dir_all(out)?;
    let forewarn = sh::target().join("release/forewarn");
    ensure!(forewarn.exists(), "{} does not exist; build it first", forewarn.display());
    Ok(Packages { forewarn: pack_forewarn(&forewarn, out)?, agent: pack_agent(&static_agent()?, out)? })
}

fn pack_agent(program: &Path, out: &Path) -> Result<PathBuf> {
    let deb = Deb::new("forewarn-agent")?;
    deb.program(program)?;
    deb.file("etc/forewarn-agent/agent.toml", 0o600, &deb.read("agent.toml")?)?;
    deb.file("etc/forewarn-agent/hooks/README", 0o644, &deb.read("hooks.README")?)?;
    deb.compressed("usr/share/man/man8/forewarn-agent.8", &deb.read("forewarn-agent.8")?)?;
    deb.compressed("usr/share/doc/forewarn-agent/agent.md", &page("docs/agent.md")?)?;
    deb.build(out, &[])
}

fn pack_forewarn(program: &Path, out: &Path) -> Result<PathBuf> {
    let deb = Deb::new("forewarn")?;
    deb.program(program)?;
    deb.file("etc/forewarn/forewarn.toml", 0o644, &deb.read("forewarn.toml")?)?;
    for name in ["api", "cli", "configuration", "metadata", "operators"] {
        deb.compressed(&format!("usr/share/doc/forewarn/{name}.md"), &page(&format!("docs/{name}.md"))?)?;
    }
    generated(&deb, program)?;
    deb.build(out, &[("@LIBC@", &libc_version(program)?)])
}

/// Adds completions and manual pages that the program generates, if it can.
fn generated(deb: &Deb, program: &Path) -> Result<()> {
    let program = program.to_str().context("path")?;
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/forewarn"),
        ("zsh", "usr/share/zsh/vendor-completions/_forewarn"),
        ("fish", "usr/share/fish/vendor_completions.d/forewarn.fish"),
    ] {
        if let Ok(text) = sh::program(program).args(&["completions", shell]).read() {
            deb.file(path, 0o644, &text)?;
        }
    }
    let pages = tempfile::tempdir()?;
    let dir = pages.path().to_str().context("path")?;
    if sh::program(program).args(&["completions", "man", dir]).read().is_ok() {
        for entry in std::fs::read_dir(pages.path())? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).context("the name of a manual page")?;
            deb.compressed(&format!("usr/share/man/man1/{name}"), &std::fs::read_to_string(&path)?)?;
        }
    }
    Ok(())
}

/// Linked with musl if the toolchain has it, else with the C library of the host.
fn static_agent() -> Result<PathBuf> {
    let host = host()?;
    let musl = host.replace("-gnu", "-musl");
    let libraries = sh::program("rustc").args(&["--print", "target-libdir", "--target", &musl]).read()?;
    let (target, flags) =
        if Path::new(libraries.trim()).exists() { (musl, "") } else { (host, "-C target-feature=+crt-static") };
    let mut build = sh::cargo(&["build", "--release", "--package", "forewarn-agent", "--target", &target]);
    build.env("RUSTFLAGS", flags).run()?;
    let program = sh::target().join(target).join("release/forewarn-agent");
    let kind = sh::program("readelf").args(&["--program-headers", program.to_str().context("path")?]).read()?;
    ensure!(!kind.contains("INTERP"), "{} is not static", program.display());
    Ok(program)
}

fn host() -> Result<String> {
    let text = sh::program("rustc").args(&["--version", "--verbose"]).read()?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not print its host")
}

/// The newest version of the C library that a program requires.
fn libc_version(program: &Path) -> Result<String> {
    let symbols = sh::program("objdump").args(&["-T", program.to_str().context("path")?]).read()?;
    let numbers = |text: &str| text.split('.').map(|part| part.parse().unwrap_or(0)).collect::<Vec<u32>>();
    let versions = symbols.split("GLIBC_").skip(1).map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        rest[..end].to_owned()
    });
    versions.max_by_key(|version| numbers(version)).context("the program requires no C library")
}

fn page(path: &str) -> Result<String> {
    std::fs::read_to_string(sh::root().join(path)).with_context(|| path.to_owned())
}
