//! Checks on the shape of the repository: whatever ARCHITECTURE.md promises and a program can see.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::sh;

/// Who may know whom. `core` and `wire` know nothing of ours; nobody but `cli` and `testing` knows `server`.
const ARROWS: &[(&str, &[&str])] = &[
    ("forewarn-core", &[]),
    ("forewarn-wire", &[]),
    ("forewarn-store", &["forewarn-core"]),
    ("forewarn-server", &["forewarn-core", "forewarn-store", "forewarn-wire"]),
    ("forewarn-client", &["forewarn-wire"]),
    ("forewarn-agent", &["forewarn-client", "forewarn-wire"]),
    ("forewarn-cli", &["forewarn-server", "forewarn-store", "forewarn-wire"]),
    ("forewarn-testing", &["forewarn-client", "forewarn-server"]),
    ("xtask", &[]),
];

/// What the core may use of other people's.
const CORE_DEPENDENCIES: &[&str] = &["imbl"];

/// Words that do not belong in the core: clocks, randomness, I/O, async, order that differs by run.
const NOT_IN_CORE: &[&str] = &[
    "SystemTime",
    "Instant",
    "std::fs",
    "std::io",
    "std::net::Tcp",
    "std::thread",
    "async ",
    "HashMap",
    "HashSet",
    "rand::",
    "getrandom",
];

/// The longest a file of ours may be before it must be split; a table of cases may be longer.
const LINES_MAX: usize = 700;
const TABLE_LINES_MAX: usize = 1000;

pub fn run() -> Result<()> {
    let mut problems = Vec::new();
    arrows(&mut problems)?;
    code_map(&mut problems)?;
    sources(&mut problems)?;
    shown_files(&mut problems)?;
    for problem in &problems {
        eprintln!("   tidy: {problem}");
    }
    ensure!(problems.is_empty(), "{} problems of shape", problems.len());
    eprintln!("── tidy: in order");
    Ok(())
}

fn arrows(problems: &mut Vec<String>) -> Result<()> {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.iter().copied().collect();
    for (package, dependencies) in dependencies()? {
        let Some(allowed) = allowed.get(package.as_str()) else {
            problems.push(format!("{package} is not in the list of crates; say in xtask/src/tidy.rs whom it may know"));
            continue;
        };
        for dependency in &dependencies {
            let ours = dependency.starts_with("forewarn-");
            if ours && !allowed.contains(&dependency.as_str()) {
                problems.push(format!("{package} must not know {dependency}"));
            }
            if package == "forewarn-core" && !ours && !CORE_DEPENDENCIES.contains(&dependency.as_str()) {
                problems.push(format!("forewarn-core must not use {dependency}"));
            }
        }
    }
    Ok(())
}

/// Each package of the workspace with what it depends on, tests aside.
fn dependencies() -> Result<BTreeMap<String, BTreeSet<String>>> {
    let text = sh::cargo(&["metadata", "--format-version", "1", "--no-deps"]).read()?;
    let metadata: serde_json::Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let name = |value: &serde_json::Value| value["name"].as_str().unwrap_or_default().to_owned();
    let normal = |package: &serde_json::Value| {
        let all = package["dependencies"].as_array().cloned().unwrap_or_default();
        all.iter().filter(|dependency| dependency["kind"].is_null()).map(name).collect()
    };
    Ok(packages.iter().map(|package| (name(package), normal(package))).collect())
}

/// Every crate and every module of the server is in ARCHITECTURE.md, and nothing that is not there.
fn code_map(problems: &mut Vec<String>) -> Result<()> {
    let page = std::fs::read_to_string(sh::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    let named: BTreeSet<&str> = page
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|word| word.starts_with("crates/") || word.starts_with("xtask"))
        .collect();
    for path in &named {
        if !sh::root().join(path).exists() {
            problems.push(format!("ARCHITECTURE.md names {path}, which is not there"));
        }
    }
    for dir in std::fs::read_dir(sh::root().join("crates"))? {
        let path = format!("crates/{}", dir?.file_name().to_string_lossy());
        if !named.contains(path.as_str()) {
            problems.push(format!("ARCHITECTURE.md does not name {path}"));
        }
    }
    Ok(())
}

/// A block of the documentation that names a file after its language shows that file, all of it.
fn shown_files(problems: &mut Vec<String>) -> Result<()> {
    for page in std::fs::read_dir(sh::root().join("docs"))? {
        let path = page?.path();
        if path.extension().is_none_or(|end| end != "md") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        for block in text.split("\n```").skip(1).step_by(2) {
            let (opening, shown) = block.split_once('\n').unwrap_or((block, ""));
            let Some((_, file)) = opening.split_once(' ') else { continue };
            let there = std::fs::read_to_string(sh::root().join(file)).unwrap_or_default();
            if there.trim_end() != shown.trim_end() {
                problems.push(format!("{} shows another {file} than there is", path.display()));
            }
        }
    }
    Ok(())
}

fn sources(problems: &mut Vec<String>) -> Result<()> {
    for path in rust_files(&sh::root())? {
        let text = std::fs::read_to_string(&path)?;
        let name = path.strip_prefix(sh::root())?.display().to_string();
        check_source(&name, &text, problems);
    }
    Ok(())
}

fn check_source(name: &str, text: &str, problems: &mut Vec<String>) {
    let mut problem = |what: String| problems.push(format!("{name}: {what}"));
    if !text.starts_with("//!") {
        problem("has no `//!` header that says what it is".into());
    }
    let max = if name.contains("/tests/") { TABLE_LINES_MAX } else { LINES_MAX };
    if text.lines().count() > max {
        problem(format!("is longer than {max} lines"));
    }
    if text.contains(concat!("#[", "ignore")) {
        problem("has a test that does not run".into());
    }
    if name.starts_with("crates/core/src") {
        for word in NOT_IN_CORE.iter().filter(|word| mentions(text, word)) {
            problem(format!("uses `{}`, which does not belong in the rules", word.trim()));
        }
    }
}

/// Whether code, not a remark, has this word.
fn mentions(text: &str, word: &str) -> bool {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| line.contains(word))
}

fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    let list = sh::program("git").args(&["ls-files", "--cached", "--others", "--exclude-standard", "*.rs"]).read()?;
    Ok(list.lines().map(|line| dir.join(line)).filter(|path| path.exists()).collect())
}
