//! Checks each source file: header, length, ignored tests, and what does not belong in the rules.

use anyhow::Result;

use super::tracked;
use crate::sh;

/// Clocks, randomness, I/O, async code and iteration in an order that differs between runs: none of it belongs in `core`.
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

/// The longest file; tables of test cases may be longer.
const LINES_MAX: usize = 700;
const TABLE_LINES_MAX: usize = 1000;

/// The longest `src` of a crate.
const CRATE_LINES_MAX: usize = 13_000;

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let mut lines = std::collections::BTreeMap::<String, usize>::new();
    for name in tracked(&["*.rs"])? {
        let text = std::fs::read_to_string(sh::root().join(&name))?;
        check_source(&name, &text, problems);
        if let Some((owner, _)) = name.split_once("/src/") {
            *lines.entry(owner.to_owned()).or_default() += text.lines().count();
        }
    }
    for (owner, count) in lines.iter().filter(|(_, count)| **count > CRATE_LINES_MAX) {
        problems.push(format!("{owner}/src has {count} lines, more than {CRATE_LINES_MAX}: split the crate"));
    }
    Ok(())
}

fn check_source(name: &str, text: &str, problems: &mut Vec<String>) {
    let mut problem = |what: String| problems.push(format!("{name}: {what}"));
    if !text.starts_with("//!") {
        problem("has no `//!` header that states its purpose".into());
    }
    let max = if name.contains("/tests/") { TABLE_LINES_MAX } else { LINES_MAX };
    if text.lines().count() > max {
        problem(format!("is longer than {max} lines"));
    }
    if text.contains(concat!("#[", "ignore")) {
        problem("has an ignored test".into());
    }
    if name.starts_with("crates/core/src") {
        for word in NOT_IN_CORE.iter().filter(|word| uses(text, word)) {
            problem(format!("uses `{}`, which does not belong in the rules", word.trim()));
        }
    }
}

/// Whether the code contains this word; comments do not count.
fn uses(text: &str, word: &str) -> bool {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).any(|line| line.contains(word))
}
