//! Builds one Debian package: lays out files in a temporary directory and runs `dpkg-deb`.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::sh;

pub struct Deb {
    name: &'static str,
    /// The timestamp of all files and of the changelog.
    epoch: String,
    root: TempDir,
}

impl Deb {
    /// A package with the files that every package has: unit, license and changelog.
    pub fn new(name: &'static str) -> Result<Deb> {
        let deb = Deb { name, epoch: super::source_date_epoch()?, root: tempfile::tempdir()? };
        let unit = format!("{name}.service");
        deb.file(&format!("usr/lib/systemd/system/{unit}"), 0o644, &deb.read(&unit)?)?;
        let license = fs::read_to_string(sh::root().join("LICENSE-MIT"))?;
        let license: Vec<String> = license.lines().map(indented).collect();
        let copyright = fs::read_to_string(packaging("copyright"))?.replace("@MIT@", &license.join("\n"));
        deb.file(&format!("usr/share/doc/{name}/copyright"), 0o644, &copyright)?;
        let date = sh::program("date").args(&["--utc", "--rfc-email", &format!("--date=@{}", deb.epoch)]).read()?;
        let changelog = fs::read_to_string(packaging("changelog"))?
            .replace("@PACKAGE@", name)
            .replace("@VERSION@", VERSION)
            .replace("@DATE@", date.trim());
        deb.compressed(&format!("usr/share/doc/{name}/changelog"), &changelog)?;
        Ok(deb)
    }

    /// A file of this package in `packaging/`.
    pub fn read(&self, name: &str) -> Result<String> {
        let path = packaging(self.name).join(name);
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    pub fn file(&self, path: &str, mode: u32, text: &str) -> Result<()> {
        self.write(path, mode, text.as_bytes())
    }

    /// Adds a file compressed with gzip, reproducibly, with `.gz` appended to its name.
    pub fn compressed(&self, path: &str, text: &str) -> Result<()> {
        let mut gzip = Command::new("gzip").args(["-9n"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut stdin = gzip.stdin.take().context("gzip has no input")?;
        let text = text.to_owned();
        let writer = std::thread::spawn(move || stdin.write_all(text.as_bytes()));
        let output = gzip.wait_with_output()?;
        writer.join().expect("the writer does not panic").context("gzip")?;
        ensure!(output.status.success(), "gzip: {}", output.status);
        self.write(&format!("{path}.gz"), 0o644, &output.stdout)
    }

    /// Adds the program with the name of the package, stripped.
    pub fn program(&self, program: &Path) -> Result<()> {
        let path = format!("usr/bin/{}", self.name);
        self.write(&path, 0o755, &fs::read(program).with_context(|| program.display().to_string())?)?;
        let file = self.root.path().join(path);
        sh::program("strip").args(&["--strip-unneeded", text(&file)?]).read().map(drop)
    }

    /// Writes the package and returns its path.
    pub fn build(self, out: &Path) -> Result<PathBuf> {
        let arch = sh::program("dpkg").args(&["--print-architecture"]).read()?.trim().to_owned();
        let root = text(self.root.path())?.to_owned();
        let kib = installed_kib(self.root.path())?.to_string();
        let mut control = self.read("control")?;
        for (key, value) in [("@VERSION@", VERSION), ("@ARCH@", &arch), ("@SIZE@", &kib)] {
            control = control.replace(key, value);
        }
        let sums = self.sums()?;
        self.file("DEBIAN/control", 0o644, &control)?;
        self.file("DEBIAN/md5sums", 0o644, &sums)?;
        self.file("DEBIAN/conffiles", 0o644, &self.read("conffiles")?)?;
        for script in ["postinst", "prerm", "postrm"] {
            self.file(&format!("DEBIAN/{script}"), 0o755, &self.read(script)?)?;
        }
        let path = out.join(format!("{}_{VERSION}_{arch}.deb", self.name));
        // Programs without optimization are large, and packages of them are only for tests.
        let level = if sh::profile() == sh::ACCEPT_PROFILE { "-z1" } else { "-z6" };
        let arguments = ["--root-owner-group", "-Zxz", level, "--build", &root, text(&path)?];
        let mut pack = sh::program("dpkg-deb").args(&arguments);
        pack.env("SOURCE_DATE_EPOCH", &self.epoch).read()?;
        Ok(path)
    }

    /// Checksums for `dpkg --verify`.
    fn sums(&self) -> Result<String> {
        let script = "find usr -type f -print0 | LC_ALL=C sort -z | xargs -0 md5sum";
        sh::program("sh").args(&["-c", script]).within(self.root.path()).read()
    }

    fn write(&self, path: &str, mode: u32, bytes: &[u8]) -> Result<()> {
        let file = self.root.path().join(path);
        let dirs = Path::new(path).ancestors().skip(1).map(|dir| self.root.path().join(dir));
        fs::create_dir_all(file.parent().context("a file has a directory")?)?;
        // Independent of the umask.
        for dir in dirs {
            fs::set_permissions(dir, Permissions::from_mode(0o755))?;
        }
        fs::write(&file, bytes).with_context(|| path.to_owned())?;
        Ok(fs::set_permissions(&file, Permissions::from_mode(mode))?)
    }
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The installed size as Debian policy defines it: files rounded up to KiB, and 1 KiB for everything else. `du` would count
/// directories as the file system of the build machine does.
fn installed_kib(dir: &Path) -> Result<u64> {
    let sizes = fs::read_dir(dir)?.map(|entry| {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => Ok(1 + installed_kib(&entry.path())?),
            false => Ok(entry.metadata()?.len().div_ceil(1024)),
        }
    });
    sizes.sum()
}

/// Indents a line of the license as the copyright format requires: an empty line becomes a dot.
fn indented(line: &str) -> String {
    if line.is_empty() { " .".into() } else { format!(" {line}") }
}

fn packaging(name: &str) -> PathBuf {
    sh::root().join("packaging").join(name)
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().context("the path is not UTF-8")
}
