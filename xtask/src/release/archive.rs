//! Reproducible archives: sorted names, one timestamp, no owners of the build machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::{package, sh};

/// A directory in which the content of an archive is laid out.
pub struct StagingDir(TempDir);

/// Numeric owner of the entries of an archive.
#[derive(Clone, Copy)]
pub struct Owner(pub u32);

pub const ROOT: Owner = Owner(0);

impl StagingDir {
    pub fn new() -> Result<StagingDir> {
        Ok(StagingDir(tempfile::tempdir()?))
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let file = self.path().join(path);
        self.directories(Path::new(path).parent().context("a file has a directory")?)?;
        fs::write(&file, bytes).with_context(|| path.to_owned())?;
        Ok(fs::set_permissions(&file, Permissions::from_mode(mode))?)
    }

    pub fn dir(&self, path: &str, mode: u32) -> Result<()> {
        self.directories(Path::new(path))?;
        Ok(fs::set_permissions(self.path().join(path), Permissions::from_mode(mode))?)
    }

    /// Creates a directory and its parents, independent of the umask.
    fn directories(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(self.path().join(path))?;
        for dir in path.ancestors().filter(|dir| *dir != Path::new("")) {
            fs::set_permissions(self.path().join(dir), Permissions::from_mode(0o755))?;
        }
        Ok(())
    }

    /// Appends these entries of the stage to an uncompressed archive, which is created if it does not exist.
    pub fn append(&self, archive: &Path, entries: &[&str], owner: Owner) -> Result<()> {
        let epoch = package::source_date_epoch()?;
        let (mtime, Owner(id)) = (format!("--mtime=@{epoch}"), owner);
        let (user, group) = (format!("--owner=:{id}"), format!("--group=:{id}"));
        let options = ["--format=ustar", "--sort=name", "--numeric-owner", &mtime, &user, &group];
        let file = text(archive)?;
        sh::program("tar").within(self.path()).args(&options).args(&["-rf", file]).args(entries).read().map(drop)
    }

    /// Writes the whole stage as a compressed archive.
    pub fn pack(&self, entry: &str, archive: &Path) -> Result<()> {
        let plain = archive.with_extension("");
        self.append(&plain, &[entry], ROOT)?;
        compress(&plain)
    }
}

/// Replaces a file with its compressed form, with `.gz` appended to its name.
pub fn compress(path: &Path) -> Result<()> {
    sh::program("gzip").args(&["-9nf", text(path)?]).read().map(drop)
}

/// The SHA-256 of a file in hexadecimal.
pub fn sha256(path: &Path) -> Result<String> {
    let line = sh::program("sha256sum").args(&[text(path)?]).read()?;
    Ok(line.split_whitespace().next().context("sha256sum printed nothing")?.to_owned())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
