//! Requirements of the parts of the tests, as data: root, Debian packages, and downloads kept in a cache.
//!
//! A part whose needs cannot be met is skipped, not failed: [`Needs::meet`] returns [`Unavailable`] with the reason.

use std::fmt;

use anyhow::{Result, bail};

use crate::machine::{self, Package};
use crate::setup::{self, Download};

pub struct Needs {
    /// Root, and with it network namespaces.
    pub root: bool,
    pub packages: &'static [Package],
    pub downloads: &'static [Download],
}

/// The reason why a part cannot run on this machine.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl fmt::Display for Unavailable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unavailable {}

/// Whether something that cannot run on this machine is skipped or is a failure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Strictness {
    Lenient,
    Strict,
}

impl Strictness {
    /// CI is strict: a machine that cannot run everything is not set up as it must be.
    pub fn from_environment() -> Strictness {
        if std::env::var("CI").as_deref() == Ok("true") { Strictness::Strict } else { Strictness::Lenient }
    }
}

/// Set to `off` by `cargo xtask test` once it has installed everything that can be installed.
pub const INSTALL: &str = "XTASK_INSTALL";

impl Needs {
    /// Installs what is missing. Fails with [`Unavailable`] if the machine cannot do what is needed.
    pub fn meet(&self) -> Result<()> {
        self.check_privileges()?;
        let missing = machine::missing(self.packages);
        if !missing.is_empty() {
            if !may_install() || !machine::can_install_packages() {
                bail!(Unavailable(format!("not installed: {}", missing.join(" "))));
            }
            setup::install(&missing).map_err(|problem| Unavailable(format!("{problem:#}")))?;
        }
        for download in self.downloads {
            if !may_install() && !download.is_cached()? {
                bail!(Unavailable(format!("not downloaded: {download}")));
            }
            download.path().map_err(|problem| Unavailable(format!("{problem:#}")))?;
        }
        Ok(())
    }

    fn check_privileges(&self) -> Result<()> {
        if self.root && !machine::is_root() {
            bail!(Unavailable("needs root".into()));
        }
        if self.root && !machine::has_network_namespaces() {
            bail!(Unavailable("this system does not allow network namespaces".into()));
        }
        Ok(())
    }
}

fn may_install() -> bool {
    std::env::var(INSTALL).as_deref() != Ok("off")
}
