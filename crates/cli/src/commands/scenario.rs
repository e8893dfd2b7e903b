//! `forewarn scenario`: selects, starts and follows scenarios, which the server runs.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::bodies::object;
use crate::args::{Output, ScenarioCommand};
use crate::client::{self, Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::output::{self, Cell, Color, TableRow};

/// How long the server may hold a request for a run; less than the timeout of an answer.
const WAIT_SECS: &str = "30";

#[derive(Deserialize)]
struct Scenario {
    name: String,
    subject: Option<String>,
    title: String,
    /// Omitted in lists.
    text: Option<String>,
}

#[derive(Deserialize)]
struct Run {
    id: u64,
    name: String,
    title: String,
    state: String,
    reason: Option<String>,
    started: jiff::Timestamp,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    text: String,
    line: u64,
    state: String,
    at: Option<jiff::Timestamp>,
    message: Option<String>,
}

pub fn run(api: &Api, command: &ScenarioCommand, output: Output) -> Result<(), Failure> {
    match command {
        ScenarioCommand::List => list(api, output),
        ScenarioCommand::Show { name } => show(api, name, output),
        ScenarioCommand::Run { scenario, vm, handler, no_wait } => {
            let started =
                api.post(&Call::api(&["scenario-runs"]), &with_handler(new_run(scenario, vm.as_deref())?, *handler))?;
            if *no_wait { print_started(&started, output) } else { follow(api, started, output) }
        }
        ScenarioCommand::Runs => runs(api, output),
        ScenarioCommand::Stop { run } => {
            api.delete(&Call::api(&["scenario-runs", &run.to_string()]))?;
            output::print_line(&format!("Stopped run {run}"))
        }
    }
}

fn list(api: &Api, output: Output) -> Result<(), Failure> {
    let page = api.get(&Call::api(&["scenarios"]))?;
    output::print_list::<Scenario>(page["value"].as_array().map_or(&[], Vec::as_slice), output)
}

fn show(api: &Api, name: &str, output: Output) -> Result<(), Failure> {
    let value = api.get(&Call::api(&["scenarios", name]))?;
    output::print_one(&value, output, |scenario: &Scenario| {
        vec![scenario.text.as_deref().unwrap_or_default().trim_end().to_owned()]
    })
}

impl TableRow for Scenario {
    const HEADER: &'static [&'static str] = &["NAME", "MACHINE", "TITLE"];
    const EMPTY: &'static str = "There are no scenarios.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.name), Cell::new(self.subject.clone().unwrap_or_default()), Cell::new(&self.title)]
    }
}

fn with_handler(mut body: Value, handler: bool) -> Value {
    body["handler"] = json!(handler);
    body
}

/// The body of a request. An existing file takes precedence done a built-in name.
fn new_run(scenario: &str, vm: Option<&str>) -> Result<Value, Failure> {
    let path = Path::new(scenario);
    let looks_like_file = scenario.contains(['/', '.']);
    if !looks_like_file && !path.is_file() {
        return Ok(object(&[("scenario", json!(scenario)), ("subject", json!(vm))]));
    }
    let text = fs::read_to_string(path).map_err(|error| Failure::Usage(format!("cannot read {scenario}: {error}")))?;
    forewarn_api::scenario::Scenario::parse(&text)
        .map_err(|problem| Failure::Usage(format!("{scenario}: {problem}")))?;
    let name: String = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "_.()-".contains(c)) && name.len() <= 128;
    let name = if plain && !name.is_empty() { Some(name) } else { None };
    Ok(object(&[("text", json!(text)), ("name", json!(name)), ("subject", json!(vm))]))
}

fn print_started(started: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(started, output, |run: &Run| {
        vec![format!("Started run {} of '{}'", run.id, output::escape(&run.title))]
    })
}

/// Prints each step when it is done, until the run has finished.
fn follow(api: &Api, mut value: Value, output: Output) -> Result<(), Failure> {
    let mut printed = 0;
    loop {
        let run: Run = decode(&value)?;
        if output == Output::Table {
            printed = print_steps(&run, printed)?;
        }
        if run.state != "Running" {
            return finish(&run, &value, output);
        }
        value = api.get(&Call::api(&["scenario-runs", &run.id.to_string()]).with("wait", Some(WAIT_SECS)))?;
    }
}

fn print_steps(run: &Run, printed: usize) -> Result<usize, Failure> {
    let done = run.steps.iter().take_while(|step| matches!(step.state.as_str(), "Done" | "Failed")).count();
    for step in &run.steps[printed..done] {
        let at = step.at.map_or_else(String::new, |at| at.strftime("%H:%M:%S").to_string());
        let word = if step.state == "Done" { "ok  " } else { "FAIL" };
        let message = step.message.as_ref().map_or_else(String::new, |why| format!(": {why}"));
        output::print_line(&output::escape(&format!("{at}  {word}  {}{message}", step.text)))?;
    }
    Ok(done)
}

fn finish(run: &Run, value: &Value, output: Output) -> Result<(), Failure> {
    if output != Output::Table {
        output::print_one(value, output, |_: &Run| Vec::new())?;
    }
    let title = output::escape(&run.title);
    let failed = run.steps.iter().find(|step| step.state == "Failed");
    let reason = output::escape(run.reason.as_deref().unwrap_or_default());
    match (run.state.as_str(), failed) {
        ("Passed", _) if output == Output::Table => output::print_line(&format!("'{title}' passed.")),
        ("Passed", _) => Ok(()),
        ("Stopped", _) => Err(Failure::Failed(format!("'{title}' was stopped"))),
        (_, Some(step)) => Err(Failure::Failed(format!("'{title}' failed at line {}: {reason}", step.line))),
        (_, None) => Err(Failure::Failed(format!("'{title}' failed before its first step: {}", reason))),
    }
}

fn runs(api: &Api, output: Output) -> Result<(), Failure> {
    let page = api.get(&Call::api(&["scenario-runs"]))?;
    output::print_list::<Run>(page["value"].as_array().map_or(&[], Vec::as_slice), output)
}

impl TableRow for Run {
    const HEADER: &'static [&'static str] = &["RUN", "SCENARIO", "STATE", "STEPS", "STARTED"];
    const EMPTY: &'static str = "There are no scenario runs.";

    fn cells(&self) -> Vec<Cell> {
        let color = match self.state.as_str() {
            "Passed" => Color::Green,
            "Failed" => Color::Red,
            _ => Color::Plain,
        };
        let done = self.steps.iter().filter(|step| step.state == "Done").count();
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(&self.name),
            Cell::colored(&self.state, color),
            Cell::new(format!("{done}/{}", self.steps.len())),
            Cell::new(client::format_time(self.started)),
        ]
    }
}
