//! Checks SECURITY.md: every line of the threat model names at least one test, and every named test exists.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::tracked;
use crate::sh;

const PAGE: &str = "SECURITY.md";

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let page = std::fs::read_to_string(sh::root().join(PAGE)).context(PAGE)?;
    let known = tests()?;
    for (line, names) in claims(&page) {
        if names.is_empty() {
            problems.push(format!("{PAGE}: this line names no test: {line}"));
        }
        for name in names.iter().filter(|name| !known.contains(**name)) {
            problems.push(format!("{PAGE} names the test {name}, which does not exist"));
        }
    }
    Ok(())
}

/// The rows of the tables, with the tests in their last column.
fn claims(page: &str) -> Vec<(&str, Vec<&str>)> {
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.ends_with("| test |"));
    rows.map(|line| {
        let last = line.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        (line, last.split('`').skip(1).step_by(2).collect())
    })
    .collect()
}

/// The names of all test functions of the repository.
fn tests() -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    for file in tracked(&["*.rs"])? {
        let text = std::fs::read_to_string(sh::root().join(&file))?;
        found.extend(tests_in(&text).map(str::to_owned));
    }
    Ok(found)
}

fn tests_in(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim);
    let is_test = |line: &str| line.starts_with("#[test") || line.starts_with("#[tokio::test");
    lines.clone().zip(lines.skip(1)).filter(move |(attribute, _)| is_test(attribute)).filter_map(|(_, function)| {
        let name = function.trim_start_matches("async ").strip_prefix("fn ")?;
        name.split('(').next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_rows_with_their_tests() {
        let page = "| A guest … | test |\n|---|---|\n| can `x` | `a`, `b` |\n| cannot | none |\n";
        let expected = [("| can `x` | `a`, `b` |", vec!["a", "b"]), ("| cannot | none |", vec![])];
        assert_eq!(claims(page), expected);
    }

    #[test]
    fn test_functions_are_found_and_others_are_not() {
        let text = "#[test]\nfn one() {\n#[tokio::test(start_paused = true)]\n    async fn two() {\nfn helper() {";
        assert_eq!(tests_in(text).collect::<Vec<_>>(), ["one", "two"]);
    }
}
