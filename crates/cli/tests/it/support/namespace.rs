//! A network namespace without a way out, in which a test runs programs.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// `/sys` shows the network namespace in which it was mounted, so it is mounted again.
const HOLD: &str = "mount -t sysfs sysfs /sys && ip link set lo up && echo ready && exec cat";

/// Ends when the value is dropped, and with the test: its process reads until its input closes.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    pub fn new() -> Namespace {
        let mut holder = Command::new("unshare");
        holder.args(["--net", "--mount", "sh", "-c", HOLD]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut holder = holder.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "a namespace needs root");
        Namespace { holder }
    }

    /// The process that holds the namespace, as other programs name it.
    pub fn pid(&self) -> String {
        self.holder.id().to_string()
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid(), "--net", "--mount", "--", program]);
        command
    }

    /// Runs a command that must succeed, and returns its output.
    #[track_caller]
    pub fn run(&self, words: &str) -> String {
        let mut words = words.split_whitespace();
        let output = self.command(words.next().unwrap()).args(words).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    /// The status of a GET of the document; 000 without an answer.
    pub fn get_status(&self) -> String {
        const DOCUMENT: &str = "http://169.254.169.254/metadata/scheduledevents?api-version=2020-07-01";
        let mut curl = self.command("curl");
        curl.args(["--silent", "--noproxy", "*", "--max-time", "2", "--output", "/dev/null"]);
        let output =
            curl.args(["--write-out", "%{http_code}", "--header", "Metadata: true", DOCUMENT]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
