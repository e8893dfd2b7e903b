//! Servers on a core of their own: start, CPU time, stop.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::{Built, path};
use crate::stat::Stat;

/// The core of the servers, and the core of the load generator.
pub const SERVER_CORE: &str = "0";
pub const CLIENT_CORE: &str = "1";

/// Time limit for a program to end after SIGTERM.
const STOP_MAX: Duration = Duration::from_secs(10);

pub struct Process(Child);

impl Process {
    pub fn start(program: &str, arguments: &[&str], core: &str) -> Result<Process> {
        let mut command = Command::new("taskset");
        command.args(["-c", core, program]).args(arguments);
        command.stdout(Stdio::piped()).stderr(Stdio::null()).stdin(Stdio::null());
        Ok(Process(command.spawn().with_context(|| format!("cannot start {program}"))?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// CPU time of the process and its children, in seconds.
    pub fn cpu_secs(&self) -> Result<f64> {
        let pid = self.0.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        let children = children.split_whitespace().map(|child| Ok(child.parse::<u32>()?));
        std::iter::once(Ok(pid)).chain(children).map(|pid: Result<u32>| Ok(Stat::read(pid?)?.own_secs)).sum()
    }

    /// Memory of the process that is not swapped out.
    pub fn resident_bytes(&self) -> Result<f64> {
        self.bytes_of("VmRSS:")
    }

    /// The part of it that all processes of the same program share: pages of the program file that were used.
    pub fn program_file_bytes(&self) -> Result<f64> {
        self.bytes_of("RssFile:")
    }

    fn bytes_of(&self, field: &str) -> Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(field)).with_context(|| format!("no {field}"))?;
        let kilobytes: f64 = line.split_whitespace().next().context("no number")?.parse()?;
        Ok(kilobytes * 1024.0)
    }

    /// Sends a signal, such as `STOP`.
    pub fn signal(&self, signal: &str) -> Result<()> {
        let sent = Command::new("kill").args(["-s", signal, &self.0.id().to_string()]).status()?;
        ensure!(sent.success(), "cannot send {signal} to process {}", self.0.id());
        Ok(())
    }

    /// Ends the process at once.
    pub fn kill(mut self) -> Result<()> {
        self.0.kill()?;
        self.0.wait()?;
        Ok(())
    }

    fn stop(&mut self) -> Result<()> {
        if self.0.try_wait()?.is_some() {
            return Ok(());
        }
        let asked = Command::new("kill").arg(self.0.id().to_string()).status()?;
        ensure!(asked.success(), "cannot stop process {}", self.0.id());
        let begun = Instant::now();
        while self.0.try_wait()?.is_none() {
            if begun.elapsed() > STOP_MAX {
                self.0.kill()?;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Err(error) = self.stop() {
            eprintln!("   {error:#}");
        }
    }
}

/// A `forewarn` server and its addresses.
pub struct BenchServer {
    pub process: Process,
    pub metadata: String,
    pub management: String,
}

impl BenchServer {
    /// Starts a server on free loopback ports with this data directory.
    pub fn start(built: &Built, data: &Path) -> Result<BenchServer> {
        BenchServer::start_on(built, data, SERVER_CORE, &["--management", "127.0.0.1:0"])
    }

    /// The same on these cores, with these arguments in addition.
    pub fn start_on(built: &Built, data: &Path, cores: &str, more: &[&str]) -> Result<BenchServer> {
        let serve = ["serve", "--no-auth", "--data", path(data)?, "--metadata", "127.0.0.1:0"];
        let rest = ["--max-user-operations", "0"];
        let arguments: Vec<&str> = serve.into_iter().chain(rest).chain(more.iter().copied()).collect();
        let mut process = Process::start(path(&built.forewarn)?, &arguments, cores)?;
        let output = process.0.stdout.take().context("no output")?;
        let (mut metadata, mut management) = (None, None);
        for line in BufReader::new(output).lines() {
            let line = line?;
            let address = line.split_once("http://").map(|(_, address)| address.trim().to_owned());
            match line.split_whitespace().next() {
                Some("metadata") => metadata = address,
                Some("management") => management = address,
                _ => {}
            }
            if let (Some(metadata), Some(management)) = (&metadata, &management) {
                return Ok(BenchServer { process, metadata: metadata.clone(), management: management.clone() });
            }
        }
        bail!("the server ended before it printed its addresses")
    }
}

/// Loopback addresses that are free now.
pub fn free_addresses(count: usize) -> Result<Vec<String>> {
    let bind = |_| std::net::TcpListener::bind("127.0.0.1:0");
    let listeners: Vec<_> = (0..count).map(bind).collect::<std::io::Result<_>>()?;
    let address = |listener: &std::net::TcpListener| listener.local_addr().map(|it| it.to_string());
    Ok(listeners.iter().map(address).collect::<std::io::Result<_>>()?)
}
