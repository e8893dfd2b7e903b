//! Planted bugs that would no longer apply or compile. Compiling them takes minutes, so only the names in them are compared with
//! the sources: a bug usually stops compiling because a type or variant was renamed.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Result;

use super::tracked;
use crate::sh;

/// Every planted bug still fits the sources, so that `cargo xtask planted` can plant it.
pub fn check(problems: &mut Vec<String>) -> Result<()> {
    for patch in tracked(&["crates/*/planted/*.patch"])? {
        if sh::program("git").args(&["apply", "--check", &patch]).read().is_err() {
            problems.push(format!("{patch} no longer applies: rewrite it for the current sources"));
        }
        let known = names_in_crate(&patch)?;
        let text = std::fs::read_to_string(sh::root().join(&patch))?;
        for name in names_of_patch(&text).difference(&known) {
            problems.push(format!(
                "{patch} uses {name}, which its crate does not have: rewrite it for the current sources"
            ));
        }
    }
    Ok(())
}

/// The names in the sources of the crate that a patch belongs to.
fn names_in_crate(patch: &str) -> Result<BTreeSet<String>> {
    let name = Path::new(patch).components().nth(1).map(|name| name.as_os_str().to_string_lossy().into_owned());
    let mut names = BTreeSet::new();
    for file in tracked(&[&format!("crates/{}/src/*.rs", name.unwrap_or_default())])? {
        names.extend(type_members(&std::fs::read_to_string(sh::root().join(file))?));
    }
    Ok(names)
}

/// The names in the lines that a patch adds.
fn names_of_patch(patch: &str) -> BTreeSet<String> {
    let added = patch.lines().filter(|line| line.starts_with('+') && !line.starts_with("+++"));
    added.flat_map(|line| type_members(&line[1..])).collect()
}

/// All `Type::member`, such as variants and associated functions.
fn type_members(source: &str) -> BTreeSet<String> {
    let is_in_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut names = BTreeSet::new();
    for (at, separator) in source.match_indices("::") {
        let kind = source[..at].rsplit(|c| !is_in_word(c)).next().unwrap_or_default();
        let member = source[at + separator.len()..].split(|c| !is_in_word(c)).next().unwrap_or_default();
        if kind.starts_with(char::is_uppercase) && !member.is_empty() {
            names.insert(format!("{kind}::{member}"));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_whole_words_of_added_lines() {
        let patch = "a bug of Old::Name\n\n--- a/x\n+++ b/x\n-Role::Gone\n+    self.lose(Loss::Deposed); a::b::C::d(3)\n \
                     LeadershipLoss::Deposed\n";
        let names: Vec<String> = names_of_patch(patch).into_iter().collect();
        assert_eq!(names, ["C::d", "Loss::Deposed"]);
        assert!(!type_members("LeadershipLoss::Deposed").contains("Loss::Deposed"));
    }
}
