//! `cargo xtask tidy`: checks structure and language of the repository, as far as a program can check the rules in
//! ARCHITECTURE.md and CONTRIBUTING.md.

mod arrows;
pub mod docs;
mod modules;
mod nouns;
mod planted;
mod publish;
mod security;
mod sources;
mod supply;
mod words;

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};

use crate::sh;

/// The packages outside `crates`.
const TOOLS: [&str; 2] = ["xtask", "fuzz"];

/// `it`: the integration tests. `sim`: a simulation, which is optimized and can run alone. `programs`: tests that only need the
/// programs of the package.
const TEST_PROGRAMS: [&str; 3] = ["it", "sim", "programs"];

pub fn run() -> Result<()> {
    let mut problems = Vec::new();
    let page = std::fs::read_to_string(sh::root().join("ARCHITECTURE.md")).context("ARCHITECTURE.md")?;
    arrows::check(&page, &mut problems)?;
    check_code_map(&page, &mut problems)?;
    for name in ["ARCHITECTURE.md", "CONTRIBUTING.md"] {
        let page = std::fs::read_to_string(sh::root().join(name)).context(name)?;
        check_paths(name, &page, &mut problems);
        check_named_functions(&page, &mut problems);
    }
    check_modules(&mut problems)?;
    check_test_programs(&mut problems)?;
    planted::check(&mut problems)?;
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
    let libraries = crates()?.into_iter().map(|name| format!("crates/{name}"));
    for name in libraries.chain(TOOLS.map(str::to_owned)) {
        let source = sh::root().join(&name).join("src");
        let found = [modules::cycles(&source)?, nouns::collisions(&source)?].concat();
        problems.extend(found.into_iter().map(|problem| format!("{name}: {problem}")));
    }
    Ok(())
}

/// Each integration-test program links everything that its crate depends on.
fn check_test_programs(problems: &mut Vec<String>) -> Result<()> {
    for name in crates()? {
        let tests = sh::root().join("crates").join(&name).join("tests");
        let Ok(entries) = std::fs::read_dir(&tests) else { continue };
        for entry in entries {
            let path = entry?.path();
            let target = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let is_target = path.join("main.rs").exists() || path.extension().is_some_and(|end| end == "rs");
            if is_target && !TEST_PROGRAMS.contains(&target.as_str()) {
                problems.push(format!("crates/{name} has the test program `{target}`: make it a module of `tests/it`"));
            }
        }
    }
    Ok(())
}

/// Every function that "Where is X decided?" names is in the file that its row links to.
fn check_named_functions(page: &str, problems: &mut Vec<String>) {
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        for (name, file) in named_functions(row) {
            let text = std::fs::read_to_string(sh::root().join(&file)).unwrap_or_default();
            if !["fn", "struct", "enum", "const"].iter().any(|word| text.contains(&format!("{word} {name}"))) {
                problems.push(format!("CONTRIBUTING.md says that `{name}` is in {file}, but it is not"));
            }
        }
    }
}

/// Names in a row that are followed by "in" and a link to a file of Rust code.
fn named_functions(row: &str) -> Vec<(String, String)> {
    let parts: Vec<&str> = row.split("` in [").collect();
    let pairs = parts.iter().zip(parts.iter().skip(1)).filter_map(|(before, after)| {
        let name = before.rsplit('`').next()?;
        let (_, link) = after.split_once("](")?;
        let (file, _) = link.split_once(')')?;
        file.ends_with(".rs").then(|| (name.to_owned(), file.to_owned()))
    });
    pairs.collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_the_file_that_is_named_for_them() {
        let row = "| When? | [a.rs](a.rs), `take` in [b.rs](x/b.rs), `Row` in [c.rs](c.rs), `d` in [dir](x/d) |";
        let expected = [("take", "x/b.rs"), ("Row", "c.rs")];
        assert_eq!(named_functions(row), expected.map(|(name, file)| (name.to_owned(), file.to_owned())));
        let mut problems = Vec::new();
        check_named_functions("| Q | `no_such_function` in [mod.rs](xtask/src/tidy/mod.rs) |", &mut problems);
        // The name stands in this test, but it is not the name of a function.
        assert_eq!(problems.len(), 1, "{problems:?}");
    }
}
