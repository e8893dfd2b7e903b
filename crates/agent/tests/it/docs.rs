//! Runs the commands of docs/agent.md in a shell and compares their output with the page.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::World;
use forewarn_test_support::{Need, can_run};

const PAGE: &str = include_str!("../../../../docs/agent.md");

/// Printed after the output of each command.
const MARK: &str = "@@@ end of output @@@";

struct Step {
    line: usize,
    command: String,
    expected: Vec<String>,
}

/// Parses the commands of all `console` blocks; `> ` continues a command.
fn parse_steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut is_inside = false;
    for (index, line) in page.lines().enumerate() {
        match (line, line.split_at_checked(2)) {
            ("```console", _) => is_inside = true,
            ("```", _) => is_inside = false,
            _ if !is_inside => {}
            (_, Some(("$ ", command))) => {
                steps.push(Step { line: index + 1, command: command.into(), expected: Vec::new() });
            }
            (_, Some(("> ", command))) => {
                let step = steps.last_mut().expect("a block starts with a command");
                step.command.push('\n');
                step.command.push_str(command);
            }
            _ => steps.last_mut().expect("a block starts with a command").expected.push(line.into()),
        }
    }
    steps
}

/// `[..]` matches anything.
fn matches(expected: &str, found: &str) -> bool {
    match expected.split_once("[..]") {
        None => expected == found,
        Some((start, rest)) => found
            .strip_prefix(start)
            .is_some_and(|tail| tail.char_indices().any(|(at, _)| matches(rest, &tail[at..])) || matches(rest, "")),
    }
}

/// Replaces the fixed ports of the page with free ones.
fn with_free_ports(text: &str) -> String {
    let free = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().to_string();
    text.replace("127.0.0.1:8080", &free()).replace("127.0.0.1:9137", &free())
}

/// Stops the nginx of the page if the test fails before the page does.
struct Nginx<'d>(&'d Path);

impl Drop for Nginx<'_> {
    fn drop(&mut self) {
        if let Ok(pid) = std::fs::read_to_string(self.0.join("nginx.pid")) {
            let _ = Command::new("kill").arg(pid.trim()).status();
        }
    }
}

#[test]
fn the_transcripts_of_the_page_are_correct() {
    if !can_run(&[Need::Program("curl"), Need::Program("nginx")]) {
        return;
    }
    let world = World::new();
    let dir = tempfile::tempdir().unwrap();
    let bin = Path::new(env!("CARGO_BIN_EXE_forewarn-agent")).parent().unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    // A command that hangs must not block the tests.
    let mut shell = Command::new("timeout")
        .args(["120", "bash", "--norc"])
        .env("PATH", path)
        .current_dir(dir.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = shell.stdin.take().unwrap();
    let mut output = BufReader::new(shell.stdout.take().unwrap()).lines();
    writeln!(stdin, "exec 2>&1").unwrap();
    let _nginx = Nginx(dir.path());
    for step in parse_steps(&with_free_ports(PAGE)) {
        let command = world.localize(&step.command);
        writeln!(stdin, "{command}\necho '{MARK}'").unwrap();
        let mut found: Vec<String> = Vec::new();
        loop {
            match output.next() {
                Some(Ok(line)) if line == MARK => break,
                Some(Ok(line)) => found.push(line),
                other => panic!("line {}: the shell ended: {other:?}, after {found:?}", step.line),
            }
        }
        let expected: Vec<String> = step.expected.iter().map(|line| world.localize(line)).collect();
        let is_same =
            expected.len() == found.len() && expected.iter().zip(&found).all(|(one, other)| matches(one, other));
        assert!(is_same, "line {}: $ {command}\nprints {found:#?}\nnot {expected:#?}", step.line);
    }
    drop(stdin);
    shell.wait().unwrap();
}
