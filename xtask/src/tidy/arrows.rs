//! Checks the dependencies between our crates against the table in ARCHITECTURE.md, and those of `core` on other crates.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};

use crate::sh;

/// The only crates that `core` may use.
const CORE_DEPENDENCIES: &[&str] = &["ecow", "imbl"];

/// Packages that the host agent must not link: it serves a copy and decides nothing.
const ABSENT_FROM_HOST: &[&str] = &["forewarn-engine", "forewarn-cluster", "rusqlite", "tonic"];

/// A crate of ours with the crates that it depends on.
type Dependencies = BTreeMap<String, BTreeSet<String>>;

pub fn check(page: &str, problems: &mut Vec<String>) -> Result<()> {
    let allowed = allowed(page);
    for (package, dependencies) in dependencies()? {
        let Some(name) = package.strip_prefix("forewarn-") else { continue };
        let Some(allowed) = allowed.get(name) else {
            problems.push(format!("ARCHITECTURE.md has no row for the crate `{name}`"));
            continue;
        };
        for dependency in &dependencies {
            match dependency.strip_prefix("forewarn-") {
                Some(ours) if !allowed.contains(ours) => {
                    problems.push(format!("`{name}` must not depend on `{ours}`, according to ARCHITECTURE.md"));
                }
                None if name == "core" && !CORE_DEPENDENCIES.contains(&dependency.as_str()) => {
                    problems.push(format!("`core` must not depend on {dependency}"));
                }
                Some(_) | None => {}
            }
        }
    }
    check_host(problems)
}

fn check_host(problems: &mut Vec<String>) -> Result<()> {
    let tree = sh::cargo(&["tree", "--package", "forewarn-host", "--edges", "normal", "--prefix", "none"]).read()?;
    let linked: BTreeSet<&str> = tree.lines().filter_map(|line| line.split(' ').next()).collect();
    let found = ABSENT_FROM_HOST.iter().filter(|package| linked.contains(*package));
    problems.extend(found.map(|package| format!("`host` must not link {package}; see `cargo tree -p forewarn-host`")));
    Ok(())
}

/// The allowed dependencies of each crate: the third column of the code map, and transitively theirs.
fn allowed(page: &str) -> Dependencies {
    let direct: Dependencies = page.lines().filter_map(row).collect();
    let closure = |name: &String| {
        let mut found = BTreeSet::new();
        let mut next = vec![name.clone()];
        while let Some(name) = next.pop() {
            for other in direct.get(&name).into_iter().flatten() {
                if found.insert(other.clone()) {
                    next.push(other.clone());
                }
            }
        }
        found
    };
    direct.keys().map(|name| (name.clone(), closure(name))).collect()
}

/// A row such as ``| `store` | purpose | core |``.
fn row(line: &str) -> Option<(String, BTreeSet<String>)> {
    let mut cells = line.strip_prefix("| `")?.split(" | ");
    let name = cells.next()?.strip_suffix('`')?;
    let list = cells.last()?.trim_end_matches([' ', '|']);
    let named = list.split(',').map(|word| word.trim().to_owned()).filter(|word| word != "nothing");
    Some((name.to_owned(), named.collect()))
}

/// Each package of the workspace with its dependencies, those for tests left out.
fn dependencies() -> Result<Dependencies> {
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
