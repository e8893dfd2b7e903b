//! The commands of docs/agent.md, typed into a shell, with the answers that the page shows.

mod support;

use std::io::{BufRead, BufReader, Write};
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

/// The commands of all `console` blocks.
fn steps() -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for (index, line) in PAGE.lines().enumerate() {
        match (line, line.strip_prefix("$ ")) {
            ("```console", _) => is_inside = true,
            ("```", _) => is_inside = false,
            _ if !is_inside => {}
            (_, Some(typed)) => steps.push(Step { line: index + 1, typed: typed.into(), expected: Vec::new() }),
            (_, None) => steps.last_mut().expect("a block begins with a command").expected.push(line.into()),
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
    for step in steps() {
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
