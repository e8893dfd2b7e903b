//! Checks the dependencies against deny.toml, as far as that works without network: licenses, duplicate versions, banned
//! crates and sources. cargo-deny (`cargo xtask deny`) checks the same, and advisories.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::sh;

struct Policy {
    licenses: BTreeSet<String>,
    banned: BTreeSet<String>,
    /// Old versions that may be there beside a newer one: `name@version`.
    skipped: BTreeSet<String>,
    registries: BTreeSet<String>,
    target: String,
}

struct LockedPackage {
    name: String,
    version: String,
    license: String,
    /// None: in this repository.
    source: Option<String>,
}

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let policy = Policy::read(&std::fs::read_to_string(sh::root().join("deny.toml")).context("deny.toml")?)?;
    let packages = packages(&policy.target)?;
    problems.extend(judge(&policy, &packages).into_iter().map(|problem| format!("deny.toml: {problem}")));
    Ok(())
}

impl Policy {
    fn read(text: &str) -> Result<Policy> {
        let table: toml::Table = text.parse().context("deny.toml")?;
        let list = |section: &str, key: &str| -> Result<BTreeSet<String>> {
            let found = table.get(section).and_then(|section| section.get(key)?.as_array());
            let values = found.with_context(|| format!("deny.toml has no list {section}.{key}"))?;
            let text = |value: &toml::Value| value.get("crate").unwrap_or(value).as_str().map(str::to_owned);
            Ok(values.iter().filter_map(text).collect())
        };
        Ok(Policy {
            licenses: list("licenses", "allow")?,
            banned: list("bans", "deny")?,
            skipped: list("bans", "skip")?,
            registries: list("sources", "allow-registry")?,
            target: list("graph", "targets")?.pop_first().context("deny.toml has no target")?,
        })
    }
}

fn judge(policy: &Policy, packages: &[LockedPackage]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut unused: BTreeSet<&String> = policy.skipped.iter().collect();
    for LockedPackage { name, version, license, source } in packages {
        if !is_allowed(license, &policy.licenses) {
            problems.push(format!("{name} {version} has the license '{license}', which is not allowed"));
        }
        if policy.banned.contains(name) {
            problems.push(format!("{name} is banned"));
        }
        let registry = source.as_deref().map(|source| source.trim_start_matches("registry+"));
        if registry.is_some_and(|registry| !policy.registries.contains(registry)) {
            problems.push(format!("{name} {version} comes from {}", registry.unwrap_or_default()));
        }
        let key = format!("{name}@{version}");
        if !unused.remove(&key) && !policy.skipped.contains(&key) {
            versions.entry(name).or_default().push(version);
        }
    }
    let duplicates = versions.iter().filter(|(_, versions)| versions.len() > 1);
    problems.extend(duplicates.map(|(name, versions)| format!("{name} is there in versions {}", versions.join(", "))));
    problems.extend(unused.iter().map(|key| format!("{key} is skipped but not there; remove the entry")));
    problems
}

/// Whether a license expression is satisfied: one alternative of each part is allowed. Nesting does not go deeper in practice.
fn is_allowed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let alternatives = |part: &str| {
        let part = part.trim().trim_start_matches('(').trim_end_matches(')').replace('/', " OR ");
        part.split(" OR ").any(|license| allowed.contains(license.trim()))
    };
    expression.split(" AND ").all(alternatives)
}

/// The packages that a build for this target uses.
fn packages(target: &str) -> Result<Vec<LockedPackage>> {
    let arguments = ["metadata", "--format-version", "1", "--locked", "--filter-platform", target];
    let metadata: Value = serde_json::from_str(&sh::cargo(&arguments).read()?)?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo metadata has no graph")?;
    let used: BTreeSet<&str> = nodes.iter().filter_map(|node| node["id"].as_str()).collect();
    let all = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let package = |package: &Value| LockedPackage {
        name: text(&package["name"]),
        version: text(&package["version"]),
        license: text(&package["license"]),
        source: package["source"].as_str().map(str::to_owned),
    };
    Ok(all.iter().filter(|one| one["id"].as_str().is_some_and(|id| used.contains(id))).map(package).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"
        graph.targets = ["t"]
        licenses.allow = ["MIT", "ISC"]
        bans.deny = [{ crate = "bad" }]
        bans.skip = [{ crate = "old@1.0.0" }]
        sources.allow-registry = ["here"]
    "#;

    #[track_caller]
    fn check(packages: &[(&str, &str, &str, Option<&str>)], expected: &[&str]) {
        let package = |(name, version, license, source): &(&str, &str, &str, Option<&str>)| LockedPackage {
            name: (*name).to_owned(),
            version: (*version).to_owned(),
            license: (*license).to_owned(),
            source: source.map(str::to_owned),
        };
        let packages: Vec<LockedPackage> = packages.iter().map(package).collect();
        assert_eq!(judge(&Policy::read(POLICY).unwrap(), &packages), expected);
    }

    #[test]
    fn dependencies_are_judged_by_license_source_version_and_name() {
        let old = ("old", "1.0.0", "MIT", None);
        check(&[old, ("old", "2.0.0", "GPL-3.0 OR MIT", Some("registry+here"))], &[]);
        check(&[old, ("a", "1.0.0", "(GPL-3.0 OR MIT) AND ISC", None)], &[]);
        check(
            &[old, ("a", "1.0.0", "MIT AND GPL-3.0", None)],
            &["a 1.0.0 has the license 'MIT AND GPL-3.0', which is not allowed"],
        );
        check(&[old, ("bad", "1.0.0", "MIT", None)], &["bad is banned"]);
        check(&[old, ("a", "1.0.0", "MIT", Some("git+there"))], &["a 1.0.0 comes from git+there"]);
        check(
            &[old, ("a", "1.0.0", "MIT", None), ("a", "2.0.0", "MIT", None)],
            &["a is there in versions 1.0.0, 2.0.0"],
        );
        check(&[], &["old@1.0.0 is skipped but not there; remove the entry"]);
    }
}
