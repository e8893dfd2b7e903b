//! Checks that the top-level modules of each crate form no cycle.
//!
//! A module depends on another when its code names a path into it: `crate::other::…`, `super::other::…`, or a name that
//! the crate's root re-exports from it. Tests are left out, and so are references between a module and its own
//! submodules. Items defined in the root itself belong to no module.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, Macro, UseTree, Visibility};

/// Each module with the modules that it names.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The cycles in a crate, each as a sentence.
pub fn cycles(source: &Path) -> Result<Vec<String>> {
    let graph = graph(source)?;
    Ok(components(&graph).into_iter().map(|cycle| describe(&graph, &cycle)).collect())
}

fn graph(source: &Path) -> Result<Graph> {
    let files = module_files(source)?;
    let root = parse(&root_file(source))?;
    let modules: BTreeSet<String> = files.keys().filter(|path| path.len() == 1).map(|path| path[0].clone()).collect();
    let exports = exports(&root, &modules, &files)?;
    let mut graph = Graph::new();
    for (path, file) in &files {
        let mut finder = Finder { modules: &modules, exports: &exports, path: path.clone(), found: BTreeSet::new() };
        finder.visit_file(&parse(file)?);
        let named = graph.entry(path[0].clone()).or_default();
        named.extend(finder.found.into_iter().filter(|other| *other != path[0]));
    }
    Ok(graph)
}

/// The file that a crate begins with.
pub fn root_file(source: &Path) -> PathBuf {
    source.join(if source.join("lib.rs").exists() { "lib.rs" } else { "main.rs" })
}

/// Every file of the crate but its root, by its module path.
pub fn module_files(source: &Path) -> Result<BTreeMap<Vec<String>, PathBuf>> {
    let mut files = BTreeMap::new();
    let mut dirs = vec![(source.to_path_buf(), Vec::new())];
    while let Some((dir, path)) = dirs.pop() {
        for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let file = entry?.path();
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let below: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
            if file.is_dir() {
                dirs.push((file, below));
            } else if file.extension().is_some_and(|end| end == "rs") && !is_test_file(&name) {
                match (name.as_str(), path.is_empty()) {
                    ("lib" | "main", true) => None,
                    ("mod", false) => files.insert(path.clone(), file),
                    (_, _) => files.insert(below, file),
                };
            }
        }
    }
    Ok(files)
}

fn is_test_file(name: &str) -> bool {
    name == "tests" || name.ends_with("_tests")
}

pub fn parse(file: &Path) -> Result<syn::File> {
    let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
    syn::parse_file(&text).with_context(|| file.display().to_string())
}

/// The names that the root re-exports, each with the module that it comes from.
fn exports(
    root: &syn::File,
    modules: &BTreeSet<String>,
    files: &BTreeMap<Vec<String>, PathBuf>,
) -> Result<BTreeMap<String, String>> {
    let mut exports = BTreeMap::new();
    for item in &root.items {
        let Item::Use(ItemUse { tree, .. }) = item else { continue };
        for path in flatten(tree, Renamed::New) {
            let from = path.iter().find(|word| !matches!(word.as_str(), "crate" | "self"));
            let Some(module) = from.filter(|module| modules.contains(*module)) else { continue };
            match path.last().map(String::as_str) {
                Some("*") => {
                    for name in public_names(&parse(&files[&vec![module.clone()]])?) {
                        exports.insert(name, module.clone());
                    }
                }
                Some(name) => {
                    exports.insert(name.to_owned(), module.clone());
                }
                None => {}
            }
        }
    }
    Ok(exports)
}

fn public_names(file: &syn::File) -> Vec<String> {
    let named = |item: &Item| match item {
        Item::Const(item) => Some((item.vis.clone(), item.ident.to_string())),
        Item::Enum(item) => Some((item.vis.clone(), item.ident.to_string())),
        Item::Fn(item) => Some((item.vis.clone(), item.sig.ident.to_string())),
        Item::Struct(item) => Some((item.vis.clone(), item.ident.to_string())),
        Item::Trait(item) => Some((item.vis.clone(), item.ident.to_string())),
        Item::Type(item) => Some((item.vis.clone(), item.ident.to_string())),
        _ => None,
    };
    let is_public = |vis: &Visibility| !matches!(vis, Visibility::Inherited);
    file.items.iter().filter_map(named).filter(|(vis, _)| is_public(vis)).map(|(_, name)| name).collect()
}

/// Which name of a renamed import counts.
#[derive(Clone, Copy)]
enum Renamed {
    New,
    Original,
}

/// Every path of a `use`, as its words.
fn flatten(tree: &UseTree, renamed: Renamed) -> Vec<Vec<String>> {
    let below = |name: String, tree: &UseTree| {
        flatten(tree, renamed).into_iter().map(|rest| [vec![name.clone()], rest].concat()).collect()
    };
    match tree {
        UseTree::Path(path) => below(path.ident.to_string(), &path.tree),
        UseTree::Name(name) => vec![vec![name.ident.to_string()]],
        UseTree::Rename(rename) => match renamed {
            Renamed::New => vec![vec![rename.rename.to_string()]],
            Renamed::Original => vec![vec![rename.ident.to_string()]],
        },
        UseTree::Glob(_) => vec![vec!["*".into()]],
        UseTree::Group(group) => group.items.iter().flat_map(|tree| flatten(tree, renamed)).collect(),
    }
}

/// Collects the top-level modules that one file names.
struct Finder<'a> {
    modules: &'a BTreeSet<String>,
    exports: &'a BTreeMap<String, String>,
    /// The module that is being read.
    path: Vec<String>,
    found: BTreeSet<String>,
}

impl Finder<'_> {
    /// Resolves a path that begins with `crate`, `self` or `super`; others name a crate or something imported before.
    fn name(&mut self, words: &[String]) {
        let mut module = self.path.clone();
        let mut rest = words;
        match words.first().map(String::as_str) {
            Some("crate") => (module, rest) = (Vec::new(), &words[1..]),
            Some("self" | "super") => {}
            _ => return,
        }
        while let Some(word @ ("self" | "super")) = rest.first().map(String::as_str) {
            if word == "super" {
                module.pop();
            }
            rest = &rest[1..];
        }
        let absolute: Vec<&String> = module.iter().chain(rest).collect();
        let Some(first) = absolute.first() else { return };
        if self.modules.contains(*first) {
            self.found.insert((*first).clone());
        } else if let Some(module) = self.exports.get(*first) {
            self.found.insert(module.clone());
        }
    }
}

impl<'ast> Visit<'ast> for Finder<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        self.path.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.path.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        flatten(&item.tree, Renamed::Original).iter().for_each(|path| self.name(path));
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let words: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.name(&words);
        visit::visit_path(self, path);
    }

    /// The arguments of a macro are mere tokens: paths in them are found by their text.
    fn visit_macro(&mut self, item: &'ast Macro) {
        let text = item.tokens.to_string().replace(" :: ", "::");
        for start in ["crate::", "super::"] {
            for (at, _) in text.match_indices(start) {
                let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
                let end = text[at..].find(|c| !is_path(c)).map_or(text.len(), |end| at + end);
                let words: Vec<String> = text[at..end].split("::").map(str::to_owned).collect();
                self.name(&words);
            }
        }
        visit::visit_macro(self, item);
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

pub fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

/// The strongly connected components of more than one module.
fn components(graph: &Graph) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<&String, BTreeSet<String>> = graph.keys().map(|from| (from, reachable(graph, from))).collect();
    let mut components: Vec<BTreeSet<String>> = Vec::new();
    for (from, reached) in &reach {
        let mutual = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*from));
        let cycle: BTreeSet<String> = reached.iter().filter(mutual).cloned().collect();
        if cycle.len() > 1 && !components.contains(&cycle) {
            components.push(cycle);
        }
    }
    components
}

fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(module) = next.pop() {
        for other in graph.get(&module).into_iter().flatten() {
            if found.insert(other.clone()) {
                next.push(other.clone());
            }
        }
    }
    found
}

fn describe(graph: &Graph, cycle: &BTreeSet<String>) -> String {
    let edges = cycle.iter().flat_map(|from| {
        let named = graph.get(from).into_iter().flatten().filter(|to| cycle.contains(*to));
        named.map(move |to| format!("{from} → {to}"))
    });
    format!("its modules form a cycle: {}", edges.collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cycles of a crate with these files.
    fn check(files: &[(&str, &str)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        cycles(dir.path()).unwrap()
    }

    #[test]
    fn a_cycle_is_found_through_paths_reexports_macros_and_submodules() {
        let lib = ("lib.rs", "mod a; mod b; pub use b::Thing;");
        for (a, b) in [
            ("use crate::b::Thing;", "use crate::a::Other;"),
            ("use super::b;", "fn f() { super::a::g() }"),
            ("fn f(_: crate::Thing) {}", "pub struct Thing; use crate::a;"),
            ("fn f() { println!(\"{}\", crate::b::N) }", "use crate::a;"),
        ] {
            assert_eq!(check(&[lib, ("a.rs", a), ("b.rs", b)]).len(), 1, "{a} {b}");
        }
        let nested = [lib, ("a/mod.rs", "mod c;"), ("a/c.rs", "use super::super::b;"), ("b.rs", "use crate::a;")];
        assert_eq!(check(&nested).len(), 1);
    }

    #[test]
    fn one_direction_tests_and_submodules_are_no_cycle() {
        let lib = ("lib.rs", "mod a; mod b;");
        for (a, b) in [
            ("use crate::b;", ""),
            ("use crate::b;", "#[cfg(test)] mod tests { use crate::a; }"),
            ("mod c { use super::D; } struct D; use c::E;", ""),
        ] {
            assert_eq!(check(&[lib, ("a.rs", a), ("b.rs", b)]), Vec::<String>::new(), "{a} {b}");
        }
    }
}
