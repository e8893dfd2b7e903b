//! The portal in a real browser: `portal.mjs` drives Debian's Chromium through all chapters. Chapters start their own
//! servers, so that they can restart them. axe-core checks accessibility.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use super::cluster::ETCD;
use super::pacemaker::{self, RESOURCE_AGENTS};
use crate::needs::Needs;
use crate::setup::{self, Download};
use crate::sh;

/// Updates the screenshots in docs/portal.
pub const WRITE: &str = "--write";

const MODULES: Download = Download::Node("portal", &["playwright-core@1.65.0", "axe-core@4.14.0"]);

/// The largest screenshot in the repository.
const PICTURE_BYTES_MAX: u64 = 200_000;

pub const NEEDS: Needs = Needs {
    root: false,
    packages: &[
        ("chromium", "chromium"),
        ("curl", "curl"),
        ("fonts-dejavu-core", FONT),
        ("nodejs", "node"),
        ("npm", "npm"),
        ("python3", "/usr/bin/python3"),
        ("util-linux", "setpriv"),
    ],
    downloads: &[MODULES, RESOURCE_AGENTS, ETCD],
};

/// Installs Chromium, Playwright and axe-core, and returns the path of the Node.js modules.
pub fn modules() -> Result<PathBuf> {
    setup::debian(NEEDS.packages)?;
    Ok(MODULES.path()?.join("node_modules"))
}

pub fn run() -> Result<()> {
    let modules = modules()?;
    let program = sh::built("forewarn")?;
    let pictures = sh::root().join("docs/portal");
    let is_asked = std::env::args().any(|word| word == WRITE);
    let to = if is_asked { pictures.to_str().context("path")? } else { "" };
    let package = RESOURCE_AGENTS.path()?;
    pacemaker::check_unchanged(&package)?;
    let etcd = ETCD.path()?.join("usr/bin/etcd");
    let arguments = [modules.to_str(), program.to_str(), Some(to), package.to_str(), etcd.to_str()];
    let arguments: Vec<&str> = arguments.into_iter().map(|path| path.context("path")).collect::<Result<_>>()?;
    sh::program("node").args(&["xtask/src/accept/portal/portal.mjs"]).args(&arguments).within(&sh::root()).run()?;
    let page = std::fs::read_to_string(sh::root().join("docs/portal.md"))?;
    for picture in std::fs::read_dir(&pictures)? {
        let picture = picture?;
        ensure!(picture.metadata()?.len() < PICTURE_BYTES_MAX, "{} is too large", picture.path().display());
        let link = format!("(portal/{})", picture.file_name().display());
        ensure!(page.contains(&link), "docs/portal.md does not show {}; delete it", picture.path().display());
    }
    Ok(())
}

const FONT: &str = "/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf";
