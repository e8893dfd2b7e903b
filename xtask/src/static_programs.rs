//! The programs of a release: linked statically, in `static/` of the target directory. The test command builds its own, without
//! optimization, in `accept/`, together with the test programs.
//!
//! They are linked with glibc. A build for musl would need a second toolchain and C compiler, and its allocator is slower
//! than the one that the benchmarks use. Only the last crate is compiled with `crt-static`, because what is linked is
//! decided there.
//!
//! The same commit, toolchain, C compiler and C library give the same bytes on every machine: `PathMap` replaces the
//! directories of the build machine, which the compilers write into panic messages and assertions. Cargo rebuilds
//! everything when compiler flags change, so these programs have a profile of their own instead of `release`.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::path_map::{self, PathMap};
use crate::sh;

/// Paths of the programs. They have symbols of the C library; packages contain them stripped.
pub struct Programs {
    pub forewarn: PathBuf,
    pub agent: PathBuf,
}

pub fn build() -> Result<()> {
    path_map::fetch()?;
    let map = PathMap::of_this_machine()?;
    for (package, program) in [("forewarn-cli", "forewarn"), ("forewarn-agent", "forewarn-agent")] {
        let what = ["rustc", "--locked", "--profile", sh::STATIC_PROFILE, "--package", package, "--bin", program];
        let mut build = sh::cargo(&what).args(&["--", "-C", "target-feature=+crt-static"]);
        map.set_flags(&mut build);
        build.run()?;
    }
    Ok(())
}

/// The programs that `build` has built. Fails if they are missing or were built by another command since.
pub fn find() -> Result<Programs> {
    let dir = sh::built_dir();
    let programs = Programs { forewarn: dir.join("forewarn"), agent: dir.join("forewarn-agent") };
    for path in [&programs.forewarn, &programs.agent] {
        ensure!(is_static(path)?, "{} is not static; build it with `cargo xtask build-release`", path.display());
    }
    Ok(programs)
}

impl Programs {
    /// Stripped copies in another directory.
    pub fn strip_into(&self, dir: &Path) -> Result<Programs> {
        let strip = |program: &Path| {
            let copy = dir.join(program.file_name().context("a program has a name")?);
            let files = [program.to_str().context("path")?, "-o", copy.to_str().context("path")?];
            sh::program("strip").args(&["--strip-all"]).args(&files).read()?;
            Ok::<PathBuf, anyhow::Error>(copy)
        };
        Ok(Programs { forewarn: strip(&self.forewarn)?, agent: strip(&self.agent)? })
    }
}

fn is_static(program: &Path) -> Result<bool> {
    ensure!(program.exists(), "{} does not exist; build it with `cargo xtask build-release`", program.display());
    let headers = sh::program("readelf").args(&["--program-headers", program.to_str().context("path")?]).read()?;
    Ok(!headers.contains("INTERP"))
}
