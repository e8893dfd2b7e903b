//! `cargo xtask release [--out DIR | --verify]`: the files of a release, in one directory with checksums.
//!
//! | file | content |
//! |---|---|
//! | `forewarn-x86_64-linux`, `forewarn-agent-x86_64-linux` | static programs |
//! | `….tar.gz` | programs with completions, manual pages and licenses |
//! | `….deb` | Debian packages |
//! | `forewarn-VERSION-image.tar` | container image, for `podman pull docker-archive:FILE` and `docker load` |
//! | `kubernetes-….yaml` | manifests |
//! | `install.sh` | installs a tarball after checking its checksum |
//! | `SHA256SUMS` | checksums of all of these |
//!
//! All files are reproducible: `static_programs` says how; timestamps come from `SOURCE_DATE_EPOCH` or else from the last commit.

mod archive;
mod image;
pub mod verify;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::package::{self, Generated};
use crate::sh;
use crate::static_programs::{self, Programs};
use archive::{StagingDir, sha256};
pub use image::tag as image_tag;

pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The checksums of all other files.
pub const SUMS: &str = "SHA256SUMS";

const PLATFORM: &str = "x86_64-linux";

/// Where `install.sh` downloads from, unless told otherwise. Set by the workflow that publishes a release.
const URL_VARIABLE: &str = "RELEASE_URL";

/// The name of the published image, without a tag, for the manifests. Set by the same workflow.
const IMAGE_VARIABLE: &str = "RELEASE_IMAGE";

pub fn run(out: Option<&str>) -> Result<()> {
    static_programs::build()?;
    let out = out.map_or_else(default_out, PathBuf::from);
    assemble(&out, Contents::All)?;
    println!("{}", out.display());
    print!("{}", fs::read_to_string(out.join(SUMS))?);
    Ok(())
}

fn default_out() -> PathBuf {
    sh::target().join("dist")
}

/// The libraries that `forewarn-client` and `forewarn-testing` need, and these two.
pub const LIBRARIES: [&str; 22] = [
    "wire",
    "client",
    "core",
    "api-types",
    "store",
    "access",
    "cluster",
    "engine",
    "metadata",
    "listener",
    "libvirt",
    "drivers",
    "taps",
    "render",
    "webhooks",
    "api",
    "arm",
    "widgets",
    "previews",
    "portal",
    "server",
    "testing",
];

/// Publishes the libraries with one command, so that cargo finds the right order.
pub fn publish(flags: &[&str]) -> Result<()> {
    let packages: Vec<String> = LIBRARIES.iter().map(|name| format!("--package=forewarn-{name}")).collect();
    let packages: Vec<&str> = packages.iter().map(String::as_str).collect();
    sh::cargo(&["publish", "--locked"]).args(&packages).args(flags).run()
}

/// The parts of a release that are built.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Contents {
    All,
    /// Without the Debian packages, whose compression takes most of the time.
    WithoutPackages,
}

/// Packages the programs that are already built.
pub fn assemble(out: &Path, contents: Contents) -> Result<()> {
    image::check_prerequisites()?;
    let stripped = StagingDir::new()?;
    let programs = static_programs::find()?.strip_into(stripped.path())?;
    if out.exists() {
        fs::remove_dir_all(out).with_context(|| format!("cannot replace {}", out.display()))?;
    }
    fs::create_dir_all(out)?;
    for (name, program) in [("forewarn", &programs.forewarn), ("forewarn-agent", &programs.agent)] {
        write(out, &format!("{name}-{PLATFORM}"), 0o755, &read(program)?)?;
    }
    pack_forewarn(&programs, out)?;
    pack_agent(&programs, out)?;
    if contents == Contents::All {
        package::build(out)?;
    }
    image::write(&programs, &out.join(format!("forewarn-{VERSION}-image.tar")))?;
    for name in ["server", "agent"] {
        let text = fs::read_to_string(packaging(&format!("kubernetes/{name}.yaml")))?;
        let text = name_image(&text, std::env::var(IMAGE_VARIABLE).ok().as_deref());
        write(out, &format!("kubernetes-{name}.yaml"), 0o644, text.as_bytes())?;
    }
    let url = std::env::var(URL_VARIABLE).unwrap_or_default();
    write(out, "install.sh", 0o755, install_script(&url)?.as_bytes())?;
    write_sums(out)
}

fn pack_forewarn(programs: &Programs, out: &Path) -> Result<()> {
    let name = format!("forewarn-{VERSION}-{PLATFORM}");
    let stage = start_tarball(&name, "forewarn", &programs.forewarn)?;
    let generated = Generated::by(&programs.forewarn)?;
    for (shell, path) in [
        ("bash", "bash-completion/completions/forewarn"),
        ("zsh", "zsh/site-functions/_forewarn"),
        ("fish", "fish/vendor_completions.d/forewarn.fish"),
    ] {
        stage.file(&format!("{name}/share/{path}"), 0o644, generated.completions[shell].as_bytes())?;
    }
    for (page, text) in &generated.pages {
        stage.file(&format!("{name}/share/man/man1/{page}"), 0o644, text.as_bytes())?;
    }
    stage.pack(&name, &out.join(format!("{name}.tar.gz")))
}

fn pack_agent(programs: &Programs, out: &Path) -> Result<()> {
    let name = format!("forewarn-agent-{VERSION}-{PLATFORM}");
    let stage = start_tarball(&name, "forewarn-agent", &programs.agent)?;
    let files = packaging("forewarn-agent");
    stage.file(&format!("{name}/share/man/man8/forewarn-agent.8"), 0o644, &read(&files.join("forewarn-agent.8"))?)?;
    for file in ["agent.toml", "forewarn-agent.service"] {
        stage.file(&format!("{name}/share/doc/forewarn-agent/{file}"), 0o644, &read(&files.join(file))?)?;
    }
    stage.pack(&name, &out.join(format!("{name}.tar.gz")))
}

/// The files that both tarballs have.
fn start_tarball(dir: &str, name: &str, program: &Path) -> Result<StagingDir> {
    let stage = StagingDir::new()?;
    stage.file(&format!("{dir}/bin/{name}"), 0o755, &read(program)?)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md"] {
        stage.file(&format!("{dir}/share/doc/{name}/{file}"), 0o644, &read(&sh::root().join(file))?)?;
    }
    Ok(stage)
}

/// A manifest with the name of the published image instead of the one in the archive.
fn name_image(manifest: &str, published: Option<&str>) -> String {
    match published.filter(|name| !name.is_empty()) {
        Some(name) => manifest.replace(&image_tag(), &format!("{}:{VERSION}", name.to_ascii_lowercase())),
        None => manifest.to_owned(),
    }
}

/// The script with the version and the address of a release.
pub fn install_script(url: &str) -> Result<String> {
    let script = fs::read_to_string(packaging("install.sh"))?;
    Ok(script.replace("@VERSION@", VERSION).replace("@URL@", url))
}

fn write_sums(out: &Path) -> Result<()> {
    let names = fs::read_dir(out)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()));
    let mut names = names.collect::<Result<Vec<String>>>()?;
    names.sort();
    let lines = names.iter().map(|name| Ok(format!("{}  {name}\n", sha256(&out.join(name))?)));
    write(out, SUMS, 0o644, lines.collect::<Result<String>>()?.as_bytes())
}

fn write(out: &Path, name: &str, mode: u32, bytes: &[u8]) -> Result<()> {
    let path = out.join(name);
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(fs::set_permissions(&path, fs::Permissions::from_mode(mode))?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| path.display().to_string())
}

fn packaging(name: &str) -> PathBuf {
    sh::root().join("packaging").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_manifests_name_the_published_image() {
        let manifest = fs::read_to_string(packaging("kubernetes/server.yaml")).unwrap();
        let published = name_image(&manifest, Some("ghcr.io/OWNER/forewarn"));
        assert!(published.contains(&format!("image: ghcr.io/owner/forewarn:{VERSION}\n")), "{published}");
        assert!(!published.contains("localhost/"), "{published}");
        assert_eq!(name_image(&manifest, None), manifest);
    }
}
