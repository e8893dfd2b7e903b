//! `cargo xtask docs`: builds the documentation as a website in `target/docs-site`, with mdBook.
//!
//! mdBook wants all pages below one directory. So the pages, their images and every file that a page links to are copied to
//! `target/docs-book/src`, at the same paths as in the repository: relative links work there as they do on a code host. Only
//! `docs/SUMMARY.md` moves, to the root of that directory, and its links with it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::tidy::{docs, tracked};
use crate::{setup, sh};

/// Pinned, so that the site does not change by itself.
const MDBOOK: &str = "0.5.4";

const SUMMARY: &str = "docs/SUMMARY.md";

pub fn run() -> Result<()> {
    let mdbook = mdbook()?;
    let book = sh::target().join("docs-book");
    stage(&book)?;
    let site = sh::target().join("docs-site");
    sh::program(text(&mdbook)?).args(&["build", text(&book)?, "--dest-dir", text(&site)?]).run()?;
    println!("{}", site.join("index.html").display());
    Ok(())
}

/// The mdBook program, compiled once and kept in the cache.
fn mdbook() -> Result<PathBuf> {
    let root = setup::cache()?.join(format!("mdbook-{MDBOOK}"));
    let program = root.join("bin/mdbook");
    if !program.exists() {
        let install = ["install", "mdbook", "--locked", "--version", MDBOOK, "--root", text(&root)?];
        sh::cargo(&install).args(&["--no-default-features", "--features", "search"]).run()?;
    }
    Ok(program)
}

/// Copies everything that mdBook needs to `book`.
fn stage(book: &Path) -> Result<()> {
    let source = book.join("src");
    if source.exists() {
        std::fs::remove_dir_all(&source)?;
    }
    for name in files()? {
        copy(&sh::root().join(&name), &source.join(&name))?;
    }
    copy(&sh::root().join("docs/book.toml"), &book.join("book.toml"))?;
    let summary = std::fs::read_to_string(sh::root().join(SUMMARY)).context(SUMMARY)?;
    std::fs::write(source.join("SUMMARY.md"), from_root(&summary))?;
    Ok(())
}

/// Everything in `docs` and `examples`, the other pages in the summary, and the files that these pages link to.
fn files() -> Result<BTreeSet<String>> {
    let all = tracked(&["docs", "examples"])?;
    let mut files: BTreeSet<String> = all.into_iter().filter(|name| name != SUMMARY).collect();
    files.extend(targets(SUMMARY)?);
    for page in files.clone().iter().filter(|name| name.ends_with(".md")) {
        files.extend(targets(page)?);
    }
    Ok(files.into_iter().filter(|name| sh::root().join(name).is_file()).collect())
}

/// The paths that a page links to.
fn targets(page: &str) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(sh::root().join(page)).with_context(|| page.to_owned())?;
    let links = docs::links(&text).into_iter().filter(|link| !link.contains("://") && !link.starts_with('#'));
    Ok(links.map(|link| docs::resolve(page, link.split('#').next().unwrap_or_default())).collect())
}

/// The summary with links relative to the root of the repository instead of `docs`.
fn from_root(summary: &str) -> String {
    let mut parts = summary.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (link, rest) = part.split_once(')').unwrap_or((part, ""));
        text.push_str(&format!("]({}){rest}", docs::resolve(SUMMARY, link)));
    }
    text
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let dir = to.parent().context("a file is in a directory")?;
    std::fs::create_dir_all(dir)?;
    std::fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}

fn text(path: &Path) -> Result<&str> {
    path.to_str().with_context(|| format!("the path {} is not UTF-8", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_links_of_the_summary_are_relative_to_the_repository() {
        let summary = "- [Concepts](concepts.md)\n- [Forewarn](../README.md)\n- [Index](README.md)\n";
        let expected = "- [Concepts](docs/concepts.md)\n- [Forewarn](README.md)\n- [Index](docs/README.md)\n";
        assert_eq!(from_root(summary), expected);
    }
}
