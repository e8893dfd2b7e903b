//! Runs a chapter against the follower of its own region, in a network namespace without a route to other networks.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::region::{Etcd, Region};
use super::script::{Chapter, ScriptStep, Section};
use crate::accept::server::Server;
use crate::accept::wait;
use crate::sh;

/// Time limit of a command. The Azure CLI takes seconds to start, and longer on a busy machine.
const COMMAND_MAX: Duration = Duration::from_secs(120);

/// Options for the manual clock.
pub const CLOCK: &[&str] = &["--clock", "manual", "--clock-start", "2026-03-01T12:00:00Z"];

/// The log must show polls of long-running operations.
const LOG: &[&str] = &["--log-level", "info,forewarn_arm=debug"];

pub struct Stage<'n> {
    server: Server<'n>,
    /// The environment of commands, including exported variables.
    environment: Vec<(String, String)>,
    background: Option<Background>,
    /// The output of the last command.
    stdout: String,
    stderr: String,
    /// The ID of the event seen last.
    event: String,
}

struct Background {
    child: Child,
    /// The name of its output files.
    name: &'static str,
    /// The length of the server log when the command started.
    log_bytes: usize,
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs all sections and returns their results in order.
pub fn play(chapter: &Chapter, etcd: &Etcd<'_>, venv: &Path) -> Result<Vec<Result<()>>> {
    let Region { follower, leader } = etcd.start_region(&[CLOCK, LOG].concat())?;
    let mut stage = Stage::new(follower, venv)?;
    let mut outcomes = Vec::new();
    for section in &chapter.sections {
        // Later sections depend on earlier ones.
        let is_reached = outcomes.iter().all(Result::is_ok);
        outcomes.push(if is_reached { stage.act(section) } else { Err(anyhow::anyhow!("not reached")) });
    }
    stage.background = None;
    stage.server.stop()?;
    leader.stop()?;
    Ok(outcomes)
}

impl<'n> Stage<'n> {
    fn new(server: Server<'n>, venv: &Path) -> Result<Stage<'n>> {
        let path = [venv.join("bin").display().to_string(), sh::built_dir().display().to_string()];
        let path = format!("{}:{}", path.join(":"), std::env::var("PATH").unwrap_or_default());
        let data = server.dir().join("data").display().to_string();
        let known: Value = serde_json::from_slice(&std::fs::read(server.dir().join("data/clients.json"))?)?;
        let clients = known["clients"].as_array().context("no clients")?;
        let owner = clients.iter().find(|client| client["clientId"] == "owner").context("no owner")?;
        let home = server.dir().join("home");
        std::fs::create_dir(&home)?;
        let home = home.display().to_string();
        let environment = [
            ("PATH", path.as_str()),
            // Clients keep keys and configuration in the directory of the chapter.
            ("HOME", &home),
            ("AZURE_CONFIG_DIR", &format!("{home}/.azure")),
            ("AZURE_CORE_COLLECT_TELEMETRY", "no"),
            ("PYTHONDONTWRITEBYTECODE", "1"),
            ("NO_PROXY", "*"),
            ("FOREWARN_SERVER", &server.management),
            ("FOREWARN_DATA", &data),
            ("HTTPS", &server.management_tls),
            ("TENANT", known["tenant"].as_str().context("no tenant")?),
            ("SECRET", owner["secret"].as_str().context("no secret")?),
        ];
        let environment = environment.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let (stdout, stderr, event) = (String::new(), String::new(), String::new());
        Ok(Stage { server, environment, background: None, stdout, stderr, event })
    }

    fn act(&mut self, section: &Section) -> Result<()> {
        for (number, step) in &section.steps {
            self.step(step).with_context(|| format!("line {number}"))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &ScriptStep) -> Result<()> {
        match step {
            ScriptStep::Shell(line) => self.shell(&self.fill_in(line)?),
            ScriptStep::Run(command) => {
                let is_good = self.run(&self.fill_in(command)?)?;
                ensure!(is_good, "{command}: {}{}", self.stderr, self.stdout);
                Ok(())
            }
            ScriptStep::Fail(command) => {
                let is_good = self.run(&self.fill_in(command)?)?;
                ensure!(!is_good, "{command} succeeded: {}", self.stdout);
                Ok(())
            }
            ScriptStep::Begin(command) => {
                self.background = Some(self.begin(&self.fill_in(command)?, "begun")?);
                Ok(())
            }
            ScriptStep::Printed(expected) => self.printed(&self.fill_in(expected)?),
            ScriptStep::Says(text) => {
                let found = self.stdout.contains(text) || self.stderr.contains(text);
                ensure!(found, "the output does not contain '{text}': {}{}", self.stderr, self.stdout);
                Ok(())
            }
            ScriptStep::Waits => self.waits(),
            ScriptStep::Ends => {
                let is_good = self.end_background()?;
                ensure!(is_good, "the command failed: {}{}", self.stderr, self.stdout);
                Ok(())
            }
            ScriptStep::Fails => {
                let is_good = self.end_background()?;
                ensure!(!is_good, "the command succeeded: {}", self.stdout);
                Ok(())
            }
            ScriptStep::Sees { machine, events } => self.sees(&self.fill_in(machine)?, &self.fill_in(events)?),
            ScriptStep::Approves { machine } => self.approve(&self.fill_in(machine)?),
            ScriptStep::Machines(names) => self.machines(&self.fill_in(names)?),
            ScriptStep::Advance { seconds } => {
                self.server.post("/clock/advance", &json!({ "seconds": seconds })).map(|_| ())
            }
        }
    }

    /// Runs a line and keeps the variables that it exports.
    fn shell(&mut self, line: &str) -> Result<()> {
        ensure!(self.run(&format!("{line}\nenv -0"))?, "{line}: {}", self.stderr);
        let variables = self.stdout.split('\0').filter_map(|entry| entry.split_once('='));
        self.environment = variables.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Ok(())
    }

    fn run(&mut self, command: &str) -> Result<bool> {
        let begun = self.begin(command, "run")?;
        self.end(begun)
    }

    fn begin(&self, command: &str, name: &'static str) -> Result<Background> {
        let log_bytes = self.server.log().len();
        let mut shell = self.server.command("sh");
        shell.args(["-c", command]).env_clear().envs(self.environment.iter().cloned()).current_dir(self.server.dir());
        let output = |end: &str| File::create(self.server.dir().join(format!("{name}.{end}")));
        let shell = shell.stdin(Stdio::null()).stdout(output("stdout")?).stderr(output("stderr")?);
        Ok(Background { child: shell.spawn().context("cannot run sh")?, name, log_bytes })
    }

    fn end(&mut self, mut begun: Background) -> Result<bool> {
        let status = wait::until_within(COMMAND_MAX, "the end of a command", || Ok(begun.child.try_wait()?));
        let output = |end: &str| std::fs::read_to_string(self.server.dir().join(format!("{}.{end}", begun.name)));
        (self.stdout, self.stderr) = (output("stdout")?, output("stderr")?);
        Ok(status.with_context(|| format!("output so far: {}{}", self.stderr, self.stdout))?.success())
    }

    /// Waits for the background command; true if it succeeded.
    fn end_background(&mut self) -> Result<bool> {
        let begun = self.background.take().context("no background command is running")?;
        self.end(begun)
    }

    /// Waits until the background command polls its operation, and checks that it has not ended.
    fn waits(&mut self) -> Result<()> {
        let begun = self.background.as_mut().context("no background command is running")?;
        let server = &self.server;
        wait::until_within(COMMAND_MAX, "a poll of the operation", || {
            let is_asked = server.log()[begun.log_bytes..].contains("/operations/");
            let ended = begun.child.try_wait()?;
            ensure!(ended.is_none(), "the command did not wait");
            Ok(is_asked.then_some(()))
        })
    }

    fn printed(&self, expected: &str) -> Result<()> {
        let expected: Value = serde_json::from_str(expected).with_context(|| format!("not JSON: {expected}"))?;
        let found: Value = serde_json::from_str(&self.stdout).with_context(|| format!("not JSON: {}", self.stdout))?;
        ensure!(found == expected, "the output is {found}, not {expected}");
        Ok(())
    }

    fn sees(&mut self, machine: &str, expected: &str) -> Result<()> {
        let mut seen = String::new();
        let found = wait::until_within(COMMAND_MAX, "an event", || {
            let nothing_comes = match &mut self.background {
                Some(begun) => begun.child.try_wait()?.is_some(),
                None => true,
            };
            let document = self.server.document(machine)?;
            seen = render_events(&document);
            ensure!(seen == expected || !nothing_comes, "no command is running that could change this");
            Ok((seen == expected).then_some(document))
        });
        let document = found.with_context(|| format!("{machine} sees '{seen}', not '{expected}'"))?;
        if let Some(id) = document["Events"][0]["EventId"].as_str() {
            self.event = id.to_owned();
        }
        Ok(())
    }

    /// Approves the events that affect this machine.
    fn approve(&self, machine: &str) -> Result<()> {
        let document = self.server.document(machine)?;
        let events = document["Events"].as_array().context("no list")?;
        let own: Vec<&Value> = events.iter().filter(|event| names(event).iter().any(|name| name == machine)).collect();
        ensure!(!own.is_empty(), "no event affects {machine}: {document}");
        own.iter().try_for_each(|event| self.server.approve(machine, event["EventId"].as_str().unwrap_or_default()))
    }

    fn machines(&self, expected: &str) -> Result<()> {
        let found = self.names()?.join(" ");
        ensure!(found == expected, "the machines are '{found}', not '{expected}'");
        Ok(())
    }

    /// All machines, in the order of their creation.
    fn names(&self) -> Result<Vec<String>> {
        let list = self.server.get("/machines?limit=1000")?;
        let list = list["value"].as_array().context("no list")?;
        Ok(list.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect())
    }

    fn fill_in(&self, text: &str) -> Result<String> {
        let mut text = text
            .replace("{management}", &self.server.management)
            .replace("{metadata}", &self.server.metadata[0])
            .replace("{event}", &self.event);
        if ["{1}", "{2}", "{3}"].iter().any(|number| text.contains(number)) {
            for (number, name) in (1..).zip(self.names()?) {
                text = text.replace(&format!("{{{number}}}"), &name);
            }
        }
        Ok(text)
    }
}

/// `Terminate Scheduled su_1, Freeze Started su_0+su_2`.
fn render_events(document: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let events = document["Events"].as_array().cloned().unwrap_or_default();
    let events = events.iter().map(|event| {
        format!("{} {} {}", text(&event["EventType"]), text(&event["EventStatus"]), names(event).join("+"))
    });
    events.collect::<Vec<_>>().join(", ")
}

fn names(event: &Value) -> Vec<String> {
    let names = event["Resources"].as_array().cloned().unwrap_or_default();
    names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
}
