//! Checks the documentation: links and anchors lead somewhere, code blocks that show a file show all of it, the first pages
//! are short, and every page is in the index and in the table of contents.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use anyhow::Result;

use super::tracked;
use crate::sh;

/// Pages that a new reader reads to the end, with the number of lines that they must not exceed.
const SHORT_PAGES: &[(&str, usize)] = &[("README.md", 150), ("ARCHITECTURE.md", 120)];

/// The pages that list all others in `docs`.
const INDEXES: &[&str] = &["docs/README.md", "docs/SUMMARY.md"];

pub fn check(problems: &mut Vec<String>) -> Result<()> {
    let mut pages = BTreeMap::new();
    for name in tracked(&["*.md"])? {
        pages.insert(name.clone(), std::fs::read_to_string(sh::root().join(&name))?);
    }
    for (name, lines_max) in SHORT_PAGES {
        let lines = pages.get(*name).map_or(0, |text| text.lines().count());
        if lines > *lines_max {
            problems.push(format!("{name} has {lines} lines; at most {lines_max} are allowed"));
        }
    }
    for index in INDEXES {
        let listed: Vec<String> = pages.get(*index).map_or_else(Vec::new, |text| links(text));
        let is_unlisted =
            |page: &&str| !page.contains('/') && !listed.iter().any(|link| link.split('#').next() == Some(*page));
        let names = pages.keys().filter(|name| !INDEXES.contains(&name.as_str()));
        for page in names.filter_map(|name| name.strip_prefix("docs/")).filter(is_unlisted) {
            problems.push(format!("{index} does not list {page}"));
        }
    }
    for (name, text) in &pages {
        check_shown_files(name, text, problems);
        for link in links(text) {
            if let Some(problem) = judge(name, &link, &pages) {
                problems.push(format!("{name}: {problem}"));
            }
        }
    }
    Ok(())
}

/// A block that names a file after its language shows that file, all of it.
fn check_shown_files(name: &str, text: &str, problems: &mut Vec<String>) {
    if !name.starts_with("docs/") {
        return;
    }
    for block in text.split("\n```").skip(1).step_by(2) {
        let (opening, shown) = block.split_once('\n').unwrap_or((block, ""));
        let Some((_, file)) = opening.split_once(' ') else { continue };
        let there = std::fs::read_to_string(sh::root().join(file)).unwrap_or_default();
        if there.trim_end() != shown.trim_end() {
            problems.push(format!("{name} shows a different {file} than the repository has"));
        }
    }
}

/// The targets of all links outside of code blocks.
pub fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for part in prose.split("](").skip(1) {
        if let Some((target, _)) = part.split_once(')') {
            found.push(target.split_whitespace().next().unwrap_or_default().to_owned());
        }
    }
    found
}

fn judge(page: &str, link: &str, pages: &BTreeMap<String, String>) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_owned() } else { resolve(page, file) };
    if !sh::root().join(&target).exists() {
        return Some(format!("the link '{link}' leads nowhere"));
    }
    let is_there = || pages.get(&target).is_some_and(|text| anchors(text).any(|known| known == anchor));
    (!anchor.is_empty() && !is_there()).then(|| format!("the link '{link}' names a heading that is not there"))
}

pub fn resolve(page: &str, file: &str) -> String {
    let mut path = PathBuf::from(page);
    path.pop();
    for part in Path::new(file).components() {
        match part {
            Component::ParentDir => drop(path.pop()),
            Component::Normal(name) => path.push(name),
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    path.to_string_lossy().into_owned()
}

/// The anchors of a page's headings, as GitHub and mdBook make them.
fn anchors(text: &str) -> impl Iterator<Item = String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|line| {
        let words = line.trim_start_matches('#').trim().to_lowercase();
        let kept = words.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}
