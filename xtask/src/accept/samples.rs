//! The samples of `examples/query-and-approve` through the lifecycle of an event, each with the oldest and the newest
//! api-version: no event, scheduled, approved, started, finished.
//!
//! They run on a guest that reaches only http://169.254.169.254, and once more on the host of the server with its
//! address in an environment variable. The PowerShell sample is not run.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::json;

use super::netns::{METADATA, Namespace, Network};
use super::server::Server;
use crate::needs::Needs;
use crate::sh;
use crate::test_programs;

/// The guest that runs the samples, and another one in the same availability set. Both see every event.
const HOSTS: [&str; 2] = ["web1", "web2"];

const VERSIONS: [&str; 2] = ["2017-03-01", "2020-07-01"];

/// How long the simulated driver takes, on the server's clock.
const IMPACT_SECS: u64 = 600;

const NEWTONSOFT: &str = "/usr/lib/cli/Newtonsoft.Json-5.0";
const NEWTONSOFT_DLL: &str = "/usr/lib/cli/Newtonsoft.Json-5.0/Newtonsoft.Json.dll";

pub const NEEDS: Needs = Needs {
    root: true,
    packages: &[
        ("iproute2", "ip"),
        ("curl", "curl"),
        ("jq", "jq"),
        ("python3", "python3"),
        ("hostname", "hostname"),
        ("util-linux", "setpriv"),
        ("mono-mcs", "mcs"),
        ("mono-runtime", "mono"),
        ("libnewtonsoft-json5.0-cil", NEWTONSOFT_DLL),
    ],
    downloads: &[],
};

pub fn run() -> Result<()> {
    let network = Network::new(&HOSTS)?;
    let server = Server::start_in(&network.cloud, &format!("{METADATA}:80"), &["--clock", "manual"])?;
    server.post("/availability-sets", &json!({ "name": "web" }))?;
    for (name, node) in HOSTS.iter().zip(&network.nodes) {
        let body = json!({ "name": name, "availabilitySet": "web", "addresses": [{ "ip": node.ip }] });
        server.post("/machines", &body)?;
    }
    let samples = samples(&server)?;
    for sample in &samples {
        for version in VERSIONS {
            let place = Place::Guest(&network.nodes[0].namespace);
            SampleRun { server: &server, place, machine: HOSTS[0], sample, version }.run()?;
        }
    }
    run_on_host(&samples)?;
    server.stop()
}

/// The first machine of a new server is its host.
fn run_on_host(samples: &[Sample]) -> Result<()> {
    let server = Server::start(&["--clock", "manual"])?;
    let machine = sh::program("hostname").read()?.trim().to_owned();
    for sample in samples {
        let place = Place::Host { address: &server.metadata[0] };
        SampleRun { server: &server, place, machine: &machine, sample, version: VERSIONS[1] }.run()?;
    }
    server.stop()
}

/// The events that a sample approves.
#[derive(PartialEq, Eq)]
enum Approves {
    /// Events that name its host.
    Own,
    /// All events in the document, when Enter is pressed.
    All,
}

struct Sample {
    name: &'static str,
    command: Vec<String>,
    approves: Approves,
}

fn samples(server: &Server) -> Result<Vec<Sample>> {
    let own = |name, command: Vec<String>| Sample { name, command, approves: Approves::Own };
    Ok(vec![
        own("Python", vec!["python3".into(), source("query_and_approve.py")?]),
        own("shell", vec![source("query-and-approve.sh")?]),
        own("Rust", vec![compile_rust()?]),
        Sample { name: "C#", command: vec!["mono".into(), compile_csharp(server)?], approves: Approves::All },
    ])
}

fn source(file: &str) -> Result<String> {
    text(sh::root().join("examples/query-and-approve").join(file))
}

fn compile_csharp(server: &Server) -> Result<String> {
    let program = text(server.dir().join("QueryAndApprove.exe"))?;
    let (lib, out) = (format!("-lib:{NEWTONSOFT}"), format!("-out:{program}"));
    let source = source("QueryAndApprove.cs")?;
    sh::program("mcs").args(&["-nologo", &lib, "-r:Newtonsoft.Json.dll", &out, &source]).run()?;
    Ok(program)
}

/// The tests of the workspace have built it already.
fn compile_rust() -> Result<String> {
    test_programs::linting_cargo(&["build", "--quiet", "--workspace", "--example", "query_and_approve"])?.run()?;
    text(sh::target().join(sh::ACCEPT_PROFILE).join("examples/query_and_approve"))
}

fn text(path: PathBuf) -> Result<String> {
    Ok(path.to_str().context("the path is not UTF-8")?.to_owned())
}

/// Where a sample runs.
enum Place<'n> {
    /// On a guest, one of two in an availability set.
    Guest(&'n Namespace),
    /// On the host of the server.
    Host { address: &'n str },
}

impl Place<'_> {
    fn command(&self, program: &str) -> Command {
        match self {
            Place::Guest(namespace) => namespace.command(program),
            Place::Host { address } => {
                let mut command = Command::new(program);
                command.env("FOREWARN_METADATA", address).env("no_proxy", "*");
                command
            }
        }
    }
}

/// One sample in one place with one api-version.
struct SampleRun<'n> {
    server: &'n Server<'n>,
    place: Place<'n>,
    machine: &'n str,
    sample: &'n Sample,
    version: &'n str,
}

impl SampleRun<'_> {
    fn run(&self) -> Result<()> {
        let (name, version) = (self.sample.name, self.version);
        let place = match self.place {
            Place::Guest(_) => "on a guest",
            Place::Host { .. } => "on the host",
        };
        self.go_through_lifecycle().with_context(|| format!("{name} {place} with {version}"))?;
        eprintln!("   {name} {place} with {version}: scheduled, approved, started, finished");
        Ok(())
    }

    fn go_through_lifecycle(&self) -> Result<()> {
        self.sees_nothing()?;
        if self.sample.approves == Approves::Own && matches!(self.place, Place::Guest(_)) {
            self.ignores_events_of_others()?;
        }
        let approvals = self.server.approvals()?;
        let event = self.server.schedule(&json!({ "machine": self.machine }), "Freeze", None)?;
        let said = self.type_in("\n")?;
        ensure!(said.contains("Scheduled") && said.contains("Freeze"), "unexpected output: {said}");
        ensure!(said.contains("Approv") && said.contains(&event), "unexpected output: {said}");
        let said = self.type_in("")?;
        ensure!(said.contains("Started") && said.contains("Freeze"), "unexpected output: {said}");
        ensure!(!said.contains("Approv"), "it approved a started event: {said}");
        self.server.advance(IMPACT_SECS)?;
        self.sees_nothing()?;
        let (life, by) = (self.server.life_of(&event)?, self.server.approved_by(&event)?);
        ensure!(life == ["appeared", "approved", "started", "ended"], "{life:?}");
        ensure!(by == [format!("guest:{}", self.machine)], "{by:?}");
        ensure!(self.server.approvals()? == approvals + 1, "it approved more than once");
        Ok(())
    }

    fn sees_nothing(&self) -> Result<()> {
        let said = self.type_in("")?;
        ensure!(!said.contains("Freeze") && !said.contains("Approv"), "no event is scheduled, but it printed: {said}");
        Ok(())
    }

    fn ignores_events_of_others(&self) -> Result<()> {
        let event = self.server.schedule(&json!({ "machine": HOSTS[1] }), "Freeze", None)?;
        let said = self.type_in("\n")?;
        ensure!(said.is_empty(), "the event affects another machine, but it printed: {said}");
        self.server.post(&format!("/events/{event}/cancel"), &json!({})).map(drop)
    }

    /// Runs the sample with this input and returns its output.
    fn type_in(&self, keys: &str) -> Result<String> {
        let (program, arguments) = self.sample.command.split_first().context("no command")?;
        let mut command = self.place.command(program);
        command.args(arguments).arg(self.version).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot run {program}"))?;
        // A sample that reads no input may have ended already.
        let _ = child.stdin.take().context("no input")?.write_all(keys.as_bytes());
        let output = child.wait_with_output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
        Ok(String::from_utf8(output.stdout)?)
    }
}
