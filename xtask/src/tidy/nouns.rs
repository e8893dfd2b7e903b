//! Checks that a type's name has one meaning in its crate. Tests are left out, and so are types that one build has in place of
//! another's.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use syn::Item;

use super::modules::{is_test, module_files, parse, root_file};

/// Stand-ins for modules that a build can leave out.
const STAND_INS: &[&str] = &["cluster_absent.rs"];

/// The names that several types of a crate have, each as a sentence.
pub fn collisions(source: &Path) -> Result<Vec<String>> {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let files = module_files(source)?;
    for file in files.values().chain([&root_file(source)]) {
        let place = file.strip_prefix(source).unwrap_or(file).display().to_string();
        if STAND_INS.contains(&place.as_str()) {
            continue;
        }
        for name in type_names(&parse(file)?.items) {
            let others: &mut Vec<String> = places.entry(name).or_default();
            // Two types of one name in one file are alternatives of which a build has one.
            if others.last() != Some(&place) {
                others.push(place.clone());
            }
        }
    }
    let several = places.into_iter().filter(|(_, places)| places.len() > 1);
    Ok(several.map(|(name, places)| format!("`{name}` is the name of several types: {}", places.join(", "))).collect())
}

fn type_names(items: &[Item]) -> Vec<String> {
    let mut names = Vec::new();
    for item in items {
        match item {
            Item::Enum(item) => names.push(item.ident.to_string()),
            Item::Struct(item) => names.push(item.ident.to_string()),
            Item::Trait(item) => names.push(item.ident.to_string()),
            Item::Type(item) => names.push(item.ident.to_string()),
            Item::Mod(item) if !is_test(&item.attrs) => {
                names.extend(item.content.iter().flat_map(|(_, items)| type_names(items)));
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_one_name_are_found_except_in_tests() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("lib.rs", "mod one; mod two; struct Root;");
        write("one.rs", "pub struct Progress; struct Only; #[cfg(test)] mod tests { struct Only; }");
        write("two.rs", "type Progress = u8; mod inner { enum Root {} }");
        let found = collisions(dir.path()).unwrap();
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "`Progress` is the name of several types: one.rs, two.rs");
        assert!(found[1].starts_with("`Root` is"), "{found:?}");
    }
}
