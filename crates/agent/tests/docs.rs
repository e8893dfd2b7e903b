//! The commands of docs/agent.md, typed into a shell, with the answers that the page shows.

mod support;

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use support::World;

const PAGE: &str = include_str!("../../../docs/agent.md");

/// Comes after the answer to each command.
const MARK: &str = "@@@ end of answer @@@";

struct Step {
    line: usize,
    typed: String,
    expected: Vec<String>,
}

/// The commands of all `console` blocks; `> ` goes on with one.
fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        match (line, line.split_at_checked(2)) {
            ("```console", _) => is_inside = true,
            ("```", _) => is_inside = false,
            _ if !is_inside => {}
            (_, Some(("$ ", typed))) => {
                steps.push(Step { line: index + 1, typed: typed.into(), expected: Vec::new() });
            }
            (_, Some(("> ", typed))) => {
                let step = steps.last_mut().expect("a block begins with a command");
                step.typed.push('\n');
                step.typed.push_str(typed);
            }
            _ => steps.last_mut().expect("a block begins with a command").expected.push(line.into()),
        }
    }
    steps
}

/// `[..]` stands for anything.
fn matches(expected: &str, found: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == found,
        Some((start, rest)) => found
            .strip_prefix(start)
            .is_some_and(|tail| tail.char_indices().any(|(at, _)| matches(rest, &tail[at..])) || matches(rest, "")),
    }
}

/// The addresses of the page are those of everybody who tries it; these are free.
fn with_free_ports(text: &str) -> String {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().to_string();
    text.replace("127.0.0.1:8080", &free()).replace("127.0.0.1:9137", &free())
}

/// What the page starts in the background, when the page did not get so far as to stop it.
struct Nginx<'d>(&'d Path);

impl Drop for Nginx<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("nginx.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

#[test]
fn the_page_does_what_it_says() {
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_forewarn-agent")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // A command that never ends must not hold the tests for ever.
    let mut shell = Command::new("timeout")
        .args(["120", "bash", "--norc"])
        .env("PATH", path)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let mut answers = BufReader::new(shell.stdout.take().unwrap()).lines();
    writeln!(stdin, "exec 2>&1").unwrap();
    let _nginx = Nginx(dir.path());
    for step in steps(&with_free_ports(PAGE)) {
        let typed = world.localise(&step.typed);
        writeln!(stdin, "{typed}\necho '{MARK}'").unwrap();
        let mut found: Vec<String> = Vec::new();
        loop {
            match answers.next() {
                Some(Ok(line)) if line == MARK => break,
                Some(Ok(line)) => found.push(line),
                other => panic!("line {}: the shell ended: {other:?}, after {found:?}", step.line),
            }
        }
        let expected: Vec<String> = step.expected.iter().map(|line| world.localise(line)).collect();
        let is_same =
            expected.len() == found.len() && expected.iter().zip(&found).all(|(one, other)| matches(one, other));
        assert!(is_same, "line {}: $ {typed}\nanswers {found:#?}\nnot {expected:#?}", step.line);
    }
    drop(stdin);
    shell.wait().unwrap();
}
