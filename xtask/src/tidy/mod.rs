//! `cargo xtask tidy`: checks structure and language of the repository, as far as a program can check the rules in
//! ARCHITECTURE.md and CONTRIBUTING.md.

mod arrows;
pub mod docs;
mod modules;
mod nouns;
mod publish;
mod security;
mod sources;
mod supply;
mod words;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use crate::sh;

pub fn run() -> Result<()> {
    let mut problems = Vec::new();
    let page = std::fs::read_to_string(sh::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    arrows::check(&page, &mut problems)?;
    check_code_map(&page, &mut problems)?;
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        check_paths(name, &std::fs::read_to_string(sh::root().join(name)).context(name)?, &mut problems);
    }
    check_modules(&mut problems)?;
    check_planted(&mut problems)?;
    sources::check(&mut problems)?;
    docs::check(&mut problems)?;
    words::check(&mut problems)?;
    security::check(&mut problems)?;
    supply::check(&mut problems)?;
    publish::check(&mut problems)?;
    for problem in &problems {
        eprintln!("   tidy: {problem}");
    }
    let count = if problems.len() == 1 { "1 problem".to_owned() } else { format!("{} problems", problems.len()) };
    ensure!(problems.is_empty(), "tidy found {count}");
    eprintln!("── tidy: no problems");
    Ok(())
}

/// Every crate is in ARCHITECTURE.md.
fn check_code_map(page: &str, problems: &mut Vec<String>) -> Result<()> {
    let quoted: BTreeSet<&str> = page.split('`').skip(1).step_by(2).collect();
    for name in crates()? {
        if !quoted.contains(name.as_str()) {
            problems.push(format!("ARCHITECTURE.md does not name the crate `{name}`"));
        }
    }
    Ok(())
}

/// Every path below `crates` and `xtask` that a page names exists. Patterns such as `arm*.rs` are not checked.
fn check_paths(name: &str, page: &str, problems: &mut Vec<String>) {
    let is_path = |word: &&str| (word.starts_with("crates/") || word.starts_with("xtask/")) && !word.contains('*');
    for path in page.split('`').skip(1).step_by(2).filter(is_path) {
        if !sh::root().join(path).exists() {
            problems.push(format!("{name} names {path}, which does not exist"));
        }
    }
}

fn check_modules(problems: &mut Vec<String>) -> Result<()> {
    for name in crates()? {
        let source = sh::root().join("crates").join(&name).join("src");
        let found = [modules::cycles(&source)?, nouns::collisions(&source)?].concat();
        problems.extend(found.into_iter().map(|problem| format!("crates/{name}: {problem}")));
    }
    Ok(())
}

/// Every planted bug still applies to the sources, so that `cargo xtask planted` can plant it.
fn check_planted(problems: &mut Vec<String>) -> Result<()> {
    for patch in tracked(&["crates/*/planted/*.patch"])? {
        if sh::program("git").args(&["apply", "--check", &patch]).read().is_err() {
            problems.push(format!("{patch} no longer applies: write it again for today's sources"));
        }
    }
    Ok(())
}

/// The directories below `crates`, sorted.
fn crates() -> Result<BTreeSet<String>> {
    let entries = std::fs::read_dir(sh::root().join("crates"))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// The files with these endings that git tracks or would track.
pub fn tracked(endings: &[&str]) -> Result<Vec<String>> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let output = sh::program("git").args(&list).args(endings).read()?;
    Ok(output.lines().filter(|line| sh::root().join(line).exists()).map(str::to_owned).collect())
}
