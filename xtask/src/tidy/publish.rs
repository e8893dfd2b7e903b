//! Checks what `cargo publish` would refuse only after the first libraries are published: the list of libraries, and versions of
//! dependencies on them.

use std::collections::BTreeSet;

use anyhow::Result;
use serde_json::Value;

use crate::release::LIBRARIES;
use crate::sh;

/// The libraries for other projects. They bring the others along.
const ROOTS: [&str; 2] = ["forewarn-client", "forewarn-testing"];

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let text = sh::cargo(&["metadata", "--format-version", "1", "--no-deps"]).read()?;
    let listed: BTreeSet<String> = LIBRARIES.iter().map(|name| format!("forewarn-{name}")).collect();
    problems.extend(find_problems(&serde_json::from_str(&text)?, &listed));
    Ok(())
}

/// `listed`: the packages that are published.
fn find_problems(metadata: &Value, listed: &BTreeSet<String>) -> Vec<String> {
    let packages: Vec<&Value> = metadata["packages"].as_array().into_iter().flatten().collect();
    let find = |name: &str| packages.iter().copied().find(|package| package["name"] == name);
    let (mut needed, mut next) = (BTreeSet::new(), ROOTS.map(str::to_owned).to_vec());
    let mut problems = Vec::new();
    while let Some(name) = next.pop() {
        let Some(package) = find(&name).filter(|_| needed.insert(name.clone())) else { continue };
        if package["publish"].is_array() {
            problems.push(format!("{name} is needed by a published library, but its manifest forbids to publish it"));
        }
        for key in ["description", "license", "documentation"] {
            if package[key].is_null() {
                problems.push(format!("{name} has no {key}, which crates.io requires or warns about"));
            }
        }
        for dependency in published_dependencies(package) {
            let other = dependency["name"].as_str().unwrap_or_default();
            if dependency["req"] == "*" {
                problems.push(format!("{name} depends on {other} without a version, which crates.io requires"));
            }
            next.push(other.to_owned());
        }
    }
    let missing = needed
        .difference(listed)
        .map(|name| format!("{name} is needed, but LIBRARIES in xtask/src/release does not list it"));
    let surplus = listed
        .difference(&needed)
        .map(|name| format!("LIBRARIES in xtask/src/release lists {name}, which no published library needs"));
    problems.extend(missing.chain(surplus));
    problems
}

/// The dependencies on other packages of the workspace that a published package has. Cargo removes those for tests if they
/// have no version.
fn published_dependencies(package: &Value) -> impl Iterator<Item = &Value> {
    let all = package["dependencies"].as_array().into_iter().flatten();
    all.filter(|dependency| dependency["path"].is_string() && (dependency["kind"] != "dev" || dependency["req"] != "*"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(name: &str, dependencies: &[Value]) -> Value {
        json!({
            "name": name, "description": "d", "license": "MIT", "documentation": "https://docs.rs", "publish": null,
            "dependencies": dependencies,
        })
    }

    fn dependency(name: &str, req: &str, kind: Option<&str>) -> Value {
        json!({ "name": name, "req": req, "kind": kind, "path": format!("/{name}") })
    }

    /// The problems of two roots that depend on `wire` like this, with these packages listed.
    fn problems(on_wire: &Value, listed: &[&str]) -> Vec<String> {
        let wire = package("wire", &[]);
        let packages = [package(ROOTS[0], std::slice::from_ref(on_wire)), package(ROOTS[1], &[]), wire];
        let listed = ROOTS.iter().chain(listed).map(ToString::to_string).collect();
        find_problems(&json!({ "packages": packages }), &listed)
    }

    #[test]
    fn the_list_must_equal_the_needed_libraries() {
        let wire = dependency("wire", "^0.1.0", None);
        assert_eq!(problems(&wire, &["wire"]), Vec::<String>::new());
        assert_eq!(problems(&wire, &[]), ["wire is needed, but LIBRARIES in xtask/src/release does not list it"]);
        let surplus = "LIBRARIES in xtask/src/release lists other, which no published library needs";
        assert_eq!(problems(&wire, &["wire", "other"]), [surplus]);
    }

    #[test]
    fn dependencies_need_a_version_unless_they_are_for_tests() {
        let without = "forewarn-client depends on wire without a version, which crates.io requires";
        assert_eq!(problems(&dependency("wire", "*", None), &["wire"]), [without]);
        assert_eq!(problems(&dependency("wire", "*", Some("dev")), &[]), Vec::<String>::new());
    }
}
