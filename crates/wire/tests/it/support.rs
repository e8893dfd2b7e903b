//! Golden files: reviewed output that must not change unnoticed.
//!
//! `UPDATE_GOLDEN=1 cargo test -p forewarn-wire` rewrites them, except for the captured ones, which come from
//! Azure.

use std::path::PathBuf;

pub fn check_golden(name: &str, actual: &[u8]) {
    let path = golden_path(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
    }
    let expected = read(&path);
    assert_eq!(
        String::from_utf8_lossy(actual),
        String::from_utf8_lossy(&expected),
        "{name} differs; if that is meant, run again with UPDATE_GOLDEN=1"
    );
}

/// Compares with output captured from Azure. `...` in the file stands for text that was not recorded.
pub fn check_captured(name: &str, actual: &[u8]) {
    let captured = String::from_utf8(read(&golden_path(name))).expect("captures are text");
    let actual = String::from_utf8_lossy(actual);
    let mut pieces: Vec<_> = captured.trim_end().split("...").collect();
    let last = pieces.pop().expect("a split has at least one piece");
    let mut rest = &*actual;
    for (index, piece) in pieces.iter().enumerate() {
        let found = rest.find(piece);
        let found = found.unwrap_or_else(|| panic!("{name}: {piece:?} is not in {actual}"));
        assert!(index > 0 || found == 0, "{name}: {actual} does not begin with {piece:?}");
        rest = &rest[found + piece.len()..];
    }
    match pieces.is_empty() {
        true => assert_eq!(rest, last, "{name}"),
        false => assert!(rest.ends_with(last), "{name}: {actual} does not end with {last:?}"),
    }
}

/// Reads an input file from the golden directory.
pub fn read_golden(name: &str) -> Vec<u8> {
    read(&golden_path(name))
}

fn golden_path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}

fn read(path: &PathBuf) -> Vec<u8> {
    std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
