//! Checks the language of everything that people read: comments, documentation, help texts, messages and templates.

use anyhow::Result;

use super::tracked;
use crate::sh;

/// Words and spellings that plain technical English does not need. Matched as whole words, without regard to case.
const AVOIDED: &[(&str, &str)] = &[
    ("nobody", "say what is missing: no handler, no client, no caller"),
    ("somebody", "name the actor: a client, an operator, another program"),
    ("whoever", "name the actor"),
    ("whom", "rephrase"),
    ("shall", "use the imperative or `must`"),
    ("web hook", "webhook"),
    ("web hooks", "webhooks"),
    ("time line", "timeline"),
    ("roll-out", "rollout"),
    ("so long", "name the duration"),
    ("so many", "name the number"),
];

/// Beginnings of words in British spelling. "cancelled" is missing, because libraries and Azure spell it like this.
const BRITISH: &[&str] = &[
    "artefact",
    "behaviour",
    "catalogue",
    "centre",
    "colour",
    "favour",
    "grey",
    "honour",
    "initialis",
    "licence",
    "neighbour",
    "organis",
    "recognis",
    "serialis",
    "synchronis",
];

/// A comment that opens like this is a riddle: name the thing.
const AVOIDED_OPENINGS: &[&str] = &["What ", "Who ", "Whose "];

/// Files that contain these words for a reason.
const ALLOWED_FILES: &[&str] = &["crates/store/src/conformance/sample.rs", "xtask/src/tidy/words.rs"];

const ENDINGS: &[&str] = &[
    "*.rs",
    "*.md",
    "*.html",
    "*.js",
    "*.mjs",
    "*.py",
    "*.css",
    "*.sh",
    "*.toml",
    "*.yaml",
    "*.yml",
    "*.service",
    "*.ps1",
    "*.cs",
    "*.8",
    "*/Containerfile",
];

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    for name in tracked(ENDINGS)? {
        if ALLOWED_FILES.contains(&name.as_str()) {
            continue;
        }
        let text = std::fs::read_to_string(sh::root().join(&name))?;
        for (number, line) in text.lines().enumerate() {
            if let Some(advice) = judge(line) {
                problems.push(format!("{name}:{}: {advice}", number + 1));
            }
        }
    }
    Ok(())
}

/// The advice for a line, if something is wrong with it.
fn judge(line: &str) -> Option<String> {
    let lower = line.to_lowercase();
    // The names of functions, tests above all, are read like sentences.
    let text = if lower.contains("fn ") { lower.replace('_', " ") } else { lower };
    if let Some((word, instead)) = AVOIDED.iter().find(|(word, _)| contains_word(&text, word)) {
        return Some(format!("avoid '{word}': {instead}"));
    }
    if let Some(word) = BRITISH.iter().find(|word| starts_a_word(&text, word)) {
        return Some(format!("'{word}…' is British spelling: use the American one"));
    }
    let comment = comment(line)?;
    let opening = AVOIDED_OPENINGS.iter().find(|opening| comment.starts_with(**opening))?;
    Some(format!("a comment opens with '{}': name the thing", opening.trim_end()))
}

fn contains_word(line: &str, word: &str) -> bool {
    let is_inside = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word)
        .any(|(at, _)| !is_inside(line[..at].chars().next_back()) && !is_inside(line[at + word.len()..].chars().next()))
}

fn starts_a_word(line: &str, beginning: &str) -> bool {
    line.match_indices(beginning).any(|(at, _)| !line[..at].chars().next_back().is_some_and(char::is_alphanumeric))
}

/// The text of a line that is nothing but a comment.
fn comment(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("//")?;
    Some(rest.trim_start_matches(['/', '!']).trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_in_any_case() {
        let avoided = ["// Nobody listens.", "so long as", "/// What it is.", "    //! Who asks", "\"web hook\""];
        for line in avoided.into_iter().chain(["fn nobody_asks()", "async fn it_shall_not_pass()", "Color::Grey"]) {
            assert!(judge(line).is_some(), "{line}");
        }
        for line in ["let so_many = 1;", "// marshall", "let what = 1; // Whatever", "# What you can do", "also longer"]
        {
            assert_eq!(judge(line), None, "{line}");
        }
    }
}
