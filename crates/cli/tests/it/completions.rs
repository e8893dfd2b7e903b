//! Shell completions and manual pages.

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use crate::support::{FOREWARN, Server, clean_command, text};
use crate::terminal::Terminal;
use forewarn_test_support::{Need, can_run};

/// The completions that bash offers for these words, the last of which can be incomplete.
fn completed(words: &[&str]) -> BTreeSet<String> {
    completed_in(&[], words)
}

/// The same with these variables. Bash breaks words at : and =, so the function replaces only the part after them.
fn completed_in(variables: &[(&str, &str)], words: &[&str]) -> BTreeSet<String> {
    let line = [&[FOREWARN], &words[1..]].concat().join(" ");
    let current = words[words.len() - 1].rsplit([':', '=']).next().unwrap();
    let script = format!(
        "source <({FOREWARN} completions bash); COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}; \
         _forewarn forewarn '{current}' ''; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
    );
    let output = run_shell("bash", &["--norc", "-c", &script], variables);
    output.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

/// A shell that has the environment of `clean_command`.
fn clean_shell(shell: &str) -> Command {
    let mut command = Command::new(shell);
    for (name, value) in clean_command().get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn run_shell(shell: &str, arguments: &[&str], variables: &[(&str, &str)]) -> String {
    let output = clean_shell(shell).args(arguments).envs(variables.iter().copied()).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout)
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
fn bash_completes_names_and_ids_from_the_server() {
    let server = Server::start();
    for words in [
        "vm create web_0",
        "vm create web_1 --resource-group prod",
        "vmss create workers",
        "availability-set create front",
        "webhook create ops --url http://127.0.0.1:9/",
        "vm restart web_0 --no-wait --event-id 602d9444-d2cd-49c7-8624-8643e7171297",
    ] {
        let output = server.run(words);
        assert!(output.status.success(), "{words}: {}", text(&output.stderr));
    }
    let address = &server.management;
    let check = |words: &str, expected: &[&str]| {
        let words: Vec<&str> = words.split(' ').collect();
        let expected: BTreeSet<String> = expected.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(completed_in(&[("FOREWARN_SERVER", address)], &words), expected, "{words:?}");
    };
    check("forewarn vm restart web_", &["web_0", "web_1"]);
    check("forewarn vm restart prod/", &["prod/web_1"]);
    check("forewarn vm restart -n web_1 -g p", &["prod"]);
    check("forewarn vm create web_", &[]);
    check("forewarn fault list --vm web_0", &["web_0"]);
    check("forewarn history --vm=web_", &["web_0", "web_1"]);
    check("forewarn vmss scale ", &["workers"]);
    check("forewarn maintenance start --set ", &["front", "workers"]);
    check("forewarn webhook delete ", &["ops"]);
    check("forewarn events show 602d", &["602D9444-D2CD-49C7-8624-8643E7171297"]);
    check("forewarn context use ", &[]);
    // An address that was typed precedes the variable.
    check("forewarn --server http://127.0.0.1:9 vm restart web_", &[]);
    let typed = format!("forewarn vm --server {address} restart web_0");
    let typed: Vec<&str> = typed.split(' ').collect();
    assert_eq!(completed_in(&[("FOREWARN_SERVER", "http://127.0.0.1:9")], &typed), ["web_0".to_owned()].into());
}

#[test]
fn tab_completes_names_in_an_interactive_bash() {
    let server = Server::start();
    for name in ["web_alpha", "web_beta"] {
        assert!(server.run(&format!("vm create {name} --no-address")).status.success());
    }
    let directory = Path::new(FOREWARN).parent().unwrap().display();
    let path = format!("{directory}:{}", std::env::var("PATH").unwrap());
    let mut bash = clean_shell("bash");
    bash.args(["--norc", "--noprofile", "-i"]).env("PATH", path).env("FOREWARN_SERVER", &server.management);
    bash.env("PS1", "ready> ").env("TERM", "dumb");
    let mut bash = Terminal::start(bash);
    bash.until("ready> ");
    bash.press("source <(forewarn completions bash)\n");
    bash.until("ready> ");
    bash.press("forewarn vm restart web_a\t");
    bash.until("web_alpha ");
    // Ctrl-U clears the line.
    bash.press("\x15forewarn vm restart web_\t\t");
    bash.until("web_alpha  web_beta");
    bash.press("\x15exit 0\n");
    assert_eq!(bash.exit_code(), Some(0));
}

#[test]
fn fish_completes_with_descriptions_and_falls_back_to_files() {
    if !can_run(&[Need::Program("fish")]) {
        return;
    }
    let server = Server::start();
    assert!(server.run("vm create web_0").status.success());
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("notes.txt"), "").unwrap();
    let directory = Path::new(FOREWARN).parent().unwrap().display();
    let script = format!(
        "cd $HOME; set -x PATH {directory} $PATH; forewarn completions fish | source; \
         complete -C 'forewarn vm restart we'; complete -C 'forewarn vms'; complete -C 'forewarn import no'"
    );
    let variables = [("FOREWARN_SERVER", server.management.as_str()), ("HOME", home.path().to_str().unwrap())];
    let offered = run_shell("fish", &["--no-config", "-c", &script], &variables);
    assert_eq!(offered, "web_0\tRunning\nvmss\tManage scale sets and their instances\nnotes.txt\n");
}

#[test]
fn completion_is_silent_and_quick_without_a_server() {
    let hanging = TcpListener::bind("127.0.0.1:0").unwrap();
    let hanging = format!("http://{}", hanging.local_addr().unwrap());
    for server in ["http://127.0.0.1:9", &hanging, "not a server"] {
        let words = ["__complete", "--", "vm", "restart", ""];
        let output = clean_command().env("FOREWARN_SERVER", server).args(words).output().unwrap();
        assert!(
            output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
            "{server}: {output:?}"
        );
    }
}

#[test]
fn contexts_are_completed_from_their_file() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("forewarn");
    std::fs::create_dir_all(&directory).unwrap();
    let context = r#"{"contexts": [{"name": "prod", "server": "https://prod.example:8171"}]}"#;
    let file = directory.join("contexts.json");
    std::fs::write(&file, context).unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    let home = home.path().to_str().unwrap();
    let found = completed_in(&[("XDG_CONFIG_HOME", home)], &["forewarn", "context", "use", ""]);
    assert_eq!(found, ["prod".to_owned()].into());
}

#[test]
fn zsh_and_fish_have_scripts() {
    for (shell, begins) in [("zsh", "#compdef forewarn"), ("fish", "# Completion of forewarn")] {
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
