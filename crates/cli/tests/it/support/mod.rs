//! A server per test, as a child process, and helpers that run commands against it.

pub mod namespace;
pub mod transcript;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdout, Command, Output, Stdio};

use transcript::lines_match;

pub const FOREWARN: &str = env!("CARGO_BIN_EXE_forewarn");

/// Flags of a temporary server with a manual clock.
pub const THROW_AWAY: &str = "--memory --no-auth --clock manual --clock-start 2026-07-28T10:00:00Z";

pub struct Server {
    child: Child,
    /// Kept open, so that the output of the server stays readable.
    _stdout: BufReader<ChildStdout>,
    pub announced: Vec<String>,
    pub management: String,
    pub metadata: String,
}

impl Server {
    pub fn start() -> Server {
        Server::start_with(THROW_AWAY)
    }

    pub fn start_with(flags: &str) -> Server {
        Server::start_in(flags, &[])
    }

    /// Starts a server with additional environment variables.
    pub fn start_in(flags: &str, environment: &[(&str, &str)]) -> Server {
        Server::spawn(serve_command(flags, "warn").envs(environment.iter().copied()))
    }

    /// Starts a server that logs at the level `info`, and returns its log.
    pub fn start_logged(flags: &str) -> (Server, BufReader<ChildStderr>) {
        let mut server = Server::spawn(serve_command(flags, "info").stderr(Stdio::piped()));
        let log = server.child.stderr.take().unwrap();
        (server, BufReader::new(log))
    }

    fn spawn(command: &mut Command) -> Server {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let announced = read_until(&mut stdout, "try ");
        let found = |word: &str| {
            let line = announced.iter().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{announced:?}"));
            line.split_whitespace().nth(1).unwrap().to_owned()
        };
        let (management, metadata) = (found("management"), found("metadata"));
        Server { child, _stdout: stdout, announced, management, metadata }
    }

    /// Runs `forewarn` with these arguments.
    pub fn run(&self, words: &str) -> Output {
        self.command(words).output().unwrap()
    }

    pub fn command(&self, words: &str) -> Command {
        let mut command = clean_command();
        command.env("FOREWARN_SERVER", &self.management).args(words.split_whitespace());
        command
    }

    /// The document of a machine. Polling also enables its events.
    pub fn document(&self, machine: &str) -> String {
        let url = format!("{}/vm/{machine}/metadata/scheduledevents?api-version=2020-07-01", self.metadata);
        ureq::get(url).header("Metadata", "true").call().unwrap().body_mut().read_to_string().unwrap()
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    pub fn wait(&mut self) -> std::process::ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a command and compares exit code, standard output and standard error.
#[track_caller]
pub fn check(server: &Server, words: &str, code: i32, stdout: &str, stderr: &str) {
    expect(&format!("forewarn {words}"), &server.run(words), code, stdout, stderr);
}

#[track_caller]
pub fn expect(what: &str, output: &Output, code: i32, stdout: &str, stderr: &str) {
    let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    let same = output.status.code() == Some(code)
        && lines_match(&lines(stdout), &lines(&out))
        && lines_match(&lines(stderr), &lines(&err));
    assert!(same, "$ {what}\n{}\n--- stdout\n{out}\n--- stderr\n{err}", output.status);
}

fn serve_command(flags: &str, log_level: &str) -> Command {
    let mut command = clean_command();
    command
        .args(["serve", "--metadata", "127.0.0.1:0", "--management", "127.0.0.1:0", "--log-level", log_level])
        .args(if flags.contains("--management-tls") { [].as_slice() } else { &["--management-tls", "off"] })
        .args(flags.split_whitespace());
    command
}

/// `forewarn` without the settings of the environment.
pub fn clean_command() -> Command {
    let mut command = Command::new(FOREWARN);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FOREWARN_") {
            command.env_remove(name);
        }
    }
    command.env("HOME", "/nonexistent").env_remove("XDG_DATA_HOME");
    command
}

pub fn read_until(from: &mut impl BufRead, beginning: &str) -> Vec<String> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        assert!(from.read_line(&mut line).unwrap() > 0, "the output ended before {beginning:?}: {lines:?}");
        lines.push(line.trim_end().to_owned());
        if line.starts_with(beginning) {
            return lines;
        }
    }
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

pub fn document(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)).unwrap()
}
