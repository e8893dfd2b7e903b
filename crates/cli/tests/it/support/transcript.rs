//! Runs the transcripts of a document. In ```console blocks, lines that start with `$ `, and continuation lines that start
//! with `>`, are run in one shell; the other lines are the expected output. `[..]` matches anything within a line, and a
//! line `…` matches any lines.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forewarn_test_support::{Need, can_run};

use super::{FOREWARN, Server};

pub struct Step {
    pub line: usize,
    pub typed: String,
    pub expected: Vec<String>,
}

/// The steps of all transcripts, in order.
pub fn steps(document: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut inside = false;
    for (index, line) in document.lines().enumerate() {
        match line {
            "```console" => inside = true,
            "```" => inside = false,
            _ if !inside => {}
            _ => match line.strip_prefix("$ ") {
                Some(typed) => steps.push(Step { line: index + 1, typed: typed.into(), expected: Vec::new() }),
                None if is_continued(&steps, line) => {
                    let step = steps.last_mut().expect("a transcript begins with a command");
                    step.typed.push('\n');
                    step.typed.push_str(line.strip_prefix("> ").unwrap_or(""));
                }
                None => steps.last_mut().expect("a transcript begins with a command").expected.push(line.into()),
            },
        }
    }
    steps
}

/// Whether the line continues a command.
fn is_continued(steps: &[Step], line: &str) -> bool {
    (line == ">" || line.starts_with("> ")) && steps.last().is_some_and(|step| step.expected.is_empty())
}

pub fn run(name: &str, document: &str, server: &Server) {
    let to_server = |typed: &str| {
        let typed = typed.replace("http://127.0.0.1:8169", &server.metadata);
        typed.replace("http://127.0.0.1:8170", &server.management)
    };
    run_steps(name, document, &[("FOREWARN_SERVER", server.management.as_str())], to_server);
}

/// The same without a server.
pub fn run_alone(name: &str, document: &str) {
    run_steps(name, document, &[], str::to_owned);
}

fn run_steps(name: &str, document: &str, environment: &[(&str, &str)], change: impl Fn(&str) -> String) {
    let steps = steps(document);
    assert!(!steps.is_empty(), "{name} has no transcripts");
    if !can_run(&needs(&steps)) {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let mut shell = Shell::new(environment, directory.path());
    for step in steps {
        let found = shell.run(&change(&step.typed));
        let matches = lines_match(&step.expected, &found);
        assert!(
            matches,
            "{name}, line {}: $ {}\n--- expected\n{}\n--- found\n{}\n",
            step.line,
            step.typed,
            step.expected.join("\n"),
            found.join("\n")
        );
    }
}

/// Programs that are typed and that not every machine has.
fn needs(steps: &[Step]) -> Vec<Need> {
    let is_typed = |text: &str| steps.iter().any(|step| step.typed.contains(text));
    let mut needs = Vec::new();
    for program in ["curl", "jq", "openssl", "python3"] {
        if is_typed(&format!("{program} ")) {
            needs.push(Need::Program(program));
        }
    }
    if is_typed("forewarn run ") {
        needs.push(Need::NetworkNamespaces);
    }
    needs
}

struct Shell {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

const MARK: &str = "@@@ end of answer @@@";

impl Shell {
    fn new(environment: &[(&str, &str)], directory: &Path) -> Shell {
        let bin = Path::new(FOREWARN).parent().unwrap();
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
        let mut child = Command::new("bash")
            .arg("--norc")
            .env("PATH", path)
            .env_remove("FOREWARN_SERVER")
            .env_remove("FOREWARN_DATA")
            .envs(environment.iter().copied())
            .current_dir(directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        writeln!(stdin, "exec 2>&1").unwrap();
        Shell { child, stdin, stdout }
    }

    /// Returns the lines of output. The exit code stays in `$?`.
    fn run(&mut self, typed: &str) -> Vec<String> {
        write!(self.stdin, "{typed}\nstatus=$?; printf '\\n{MARK}\\n'; (exit $status)\n").unwrap();
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            assert!(self.stdout.read_line(&mut line).unwrap() > 0, "the shell ended: {lines:?}");
            match line.trim_end() {
                MARK => break,
                line => lines.push(line.to_owned()),
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        lines
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn lines_match(expected: &[String], found: &[String]) -> bool {
    match (expected, found) {
        ([], []) => true,
        ([any, rest @ ..], _) if any == "…" => (0..=found.len()).any(|skip| lines_match(rest, &found[skip..])),
        ([first, rest @ ..], [line, others @ ..]) => line_matches(first, line) && lines_match(rest, others),
        ([], _) | (_, []) => false,
    }
}

pub fn line_matches(expected: &str, found: &str) -> bool {
    let mut parts = expected.trim_end().split("[..]");
    let Some(mut rest) = found.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}
