//! Shell completions and manual pages.

use std::collections::BTreeSet;
use std::process::Command;

use crate::support::{FOREWARN, clean_command, text};

/// The completions that bash offers for these words, the last of which can be incomplete.
fn completed(words: &[&str]) -> BTreeSet<String> {
    let last = words.len() - 1;
    let before = if last == 0 { "" } else { words[last - 1] };
    let script = format!(
        "source <({FOREWARN} completions bash); COMP_WORDS=({}); COMP_CWORD={last}; \
         _forewarn forewarn '{}' '{before}'; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        words.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" "),
        words[last],
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_nouns_verbs_flags_and_values() {
    let check = |words: &[&str], expected: &[&str]| {
        let expected: BTreeSet<String> = expected.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(completed(words), expected, "{words:?}");
    };
    check(&["forewarn", "vms"], &["vmss"]);
    check(&["forewarn", "vm", "re"], &["register", "requests", "restart", "redeploy"]);
    check(&["forewarn", "vmss", "create", "--orch"], &["--orchestration-mode"]);
    check(&["forewarn", "vmss", "create", "--orchestration-mode", "U"], &["Uniform"]);
    check(&["forewarn", "events", "list", "-o", ""], &["table", "json", "yaml", "tsv"]);
    check(&["forewarn", "completions", "f"], &["fish"]);
}

#[test]
fn zsh_and_fish_have_scripts() {
    for (shell, begins) in [("zsh", "#compdef forewarn"), ("fish", "# Print an optspec")] {
        let output = clean_command().args(["completions", shell]).output().unwrap();
        assert!(output.status.success() && text(&output.stdout).starts_with(begins), "{shell}");
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("share/man1");
    let output = clean_command().args(["completions", "man"]).arg(&pages).output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    for name in ["forewarn", "forewarn-serve", "forewarn-vm", "forewarn-vm-restart", "forewarn-vmss-delete-instances"] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name} 1")) && page.contains(".SH NAME"), "{name}:\n{page}");
        assert!(
            name == "forewarn" || page.contains("Examples:") && page.contains("forewarn help exit"),
            "{name}:\n{page}"
        );
    }
    let root = std::fs::read_to_string(pages.join("forewarn.1")).unwrap();
    assert!(root.contains("Exit codes:") && root.contains("\\-\\-server"), "{root}");
    let unwritable = clean_command().args(["completions", "man", "/proc/none"]).output().unwrap();
    assert_eq!(unwritable.status.code(), Some(1));
    assert!(text(&unwritable.stderr).starts_with("forewarn: cannot write /proc/none: "));
}
