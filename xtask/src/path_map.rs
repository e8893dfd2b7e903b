//! Directories of the build machine, and the names that replace them in programs. Without this, two builders with different
//! home directories get different programs.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::sh;

/// Pairs of a directory and its replacement. If several match, the compilers use the last one.
#[derive(Default)]
pub struct PathMap(Vec<(String, String)>);

impl PathMap {
    pub fn of_this_machine() -> Result<PathMap> {
        let mut map = PathMap::default();
        let home = cargo_home()?;
        map.add(&home, "/cargo")?;
        // The directory of a registry is named after its address, and a mirror has another address.
        for entry in std::fs::read_dir(home.join("registry/src")).context("cargo has fetched no dependencies")? {
            map.add(&entry?.path(), "/cargo/registry")?;
        }
        map.add(&sh::root(), "/forewarn")?;
        map.add(&sh::target(), "/target")?;
        // Where the source of the standard library is installed, the compiler uses its path for inlined functions.
        let sysroot = sh::program("rustc").args(&["--print", "sysroot"]).read()?;
        let commit = describe_compiler("commit-hash: ")?.unwrap_or_default();
        map.add(&Path::new(sysroot.trim()).join("lib/rustlib/src/rust"), &format!("/rustc/{commit}"))?;
        map.sort();
        Ok(map)
    }

    fn add(&mut self, dir: &Path, name: &str) -> Result<()> {
        // A directory can be reached through a symbolic link, and both spellings can appear.
        let canonical = dir.canonicalize().unwrap_or_else(|_| dir.to_owned());
        for spelling in [dir, &canonical] {
            let spelling = spelling.to_str().context("the path of a directory is not UTF-8")?;
            if !self.0.iter().any(|(known, _)| known == spelling) {
                self.0.push((spelling.to_owned(), name.to_owned()));
            }
        }
        Ok(())
    }

    /// Puts directories behind their parents, because the last match counts.
    fn sort(&mut self) {
        self.0.sort_by_key(|(dir, _)| dir.len());
    }

    /// The directories that no program may contain.
    pub fn directories(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(dir, _)| dir.as_str())
    }

    /// Has the compilers that cargo calls replace the directories.
    pub fn set_flags(&self, cargo: &mut sh::Sh) {
        cargo.env("CARGO_ENCODED_RUSTFLAGS", self.rust_flags());
        cargo.env("CFLAGS", self.c_flags()).env("CC_SHELL_ESCAPED_FLAGS", "1");
    }

    /// For `CARGO_ENCODED_RUSTFLAGS`, in which flags can contain spaces.
    fn rust_flags(&self) -> String {
        let flags = self.0.iter().map(|(dir, name)| format!("--remap-path-prefix={dir}={name}"));
        flags.collect::<Vec<_>>().join("\x1f")
    }

    /// For `CFLAGS`, quoted as in a shell.
    fn c_flags(&self) -> String {
        let quote = |text: String| format!("'{}'", text.replace('\'', r"'\''"));
        let flags = self.0.iter().map(|(dir, name)| quote(format!("-ffile-prefix-map={dir}={name}")));
        flags.collect::<Vec<_>>().join(" ")
    }
}

/// Cargo's home directory, which contains its registries and its configuration.
pub fn cargo_home() -> Result<PathBuf> {
    match std::env::var_os("CARGO_HOME") {
        Some(dir) => Ok(dir.into()),
        None => Ok(std::env::home_dir().context("no home directory")?.join(".cargo")),
    }
}

/// Has cargo create the directories of the registries, which the map lists.
pub fn fetch() -> Result<()> {
    sh::cargo(&["fetch", "--locked", "--target", &host()?]).run()
}

/// The platform that the compiler runs on, such as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    describe_compiler("host: ")?.context("rustc does not name its host")
}

/// A line of `rustc --version --verbose`, without its beginning.
fn describe_compiler(line: &str) -> Result<Option<String>> {
    let version = sh::program("rustc").args(&["--version", "--verbose"]).read()?;
    Ok(version.lines().find_map(|found| found.strip_prefix(line)).map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_map_each_directory_in_both_compilers() {
        let mut map = PathMap::default();
        map.add(Path::new("/nowhere/a b"), "/cargo").unwrap();
        map.add(Path::new("/nowhere/it's"), "/forewarn").unwrap();
        map.add(Path::new("/nowhere/a b"), "/cargo").unwrap();
        let rust = "--remap-path-prefix=/nowhere/a b=/cargo\x1f--remap-path-prefix=/nowhere/it's=/forewarn";
        assert_eq!(map.rust_flags(), rust);
        let c = r"'-ffile-prefix-map=/nowhere/a b=/cargo' '-ffile-prefix-map=/nowhere/it'\''s=/forewarn'";
        assert_eq!(map.c_flags(), c);
    }

    #[test]
    fn nested_directories_come_after_their_parents() {
        let mut map = PathMap::default();
        map.add(Path::new("/nowhere/checkout/.cargo"), "/cargo").unwrap();
        map.add(Path::new("/nowhere/checkout"), "/forewarn").unwrap();
        map.sort();
        assert_eq!(map.directories().collect::<Vec<_>>(), ["/nowhere/checkout", "/nowhere/checkout/.cargo"]);
    }
}
