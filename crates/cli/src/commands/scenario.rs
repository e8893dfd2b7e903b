//! `forewarn scenario`: selects, starts and follows scenarios, which the server runs.

use std::fs;
use std::path::Path;

use forewarn_api_types::{
    NewRun, Page, ResourceName, Run, RunPreview, RunStatus, RunStep, RunStepStatus, ScenarioFile, ScenarioSummary,
};
use serde_json::Value;

use crate::args::{Output, ScenarioCommand};
use crate::client::{self, Api, Call};
use crate::decode::decode;
use crate::failure::Failure;
use crate::interrupt;
use crate::output::{self, Cell, Color, StatusLine, TableRow};

/// How long the server may hold a request for a run; less than the timeout of an answer.
const WAIT_SECS: &str = "30";

pub fn run(api: &Api, command: &ScenarioCommand, output: Output) -> Result<(), Failure> {
    match command {
        ScenarioCommand::List => list(api, output),
        ScenarioCommand::Show { name } => show(api, name, output),
        ScenarioCommand::Run { scenario, vm, handler, dry_run: true, .. } => {
            let call = Call::api(&["scenario-runs", "preview"]);
            print_preview(&api.post(&call, &new_run(scenario, vm.as_deref(), *handler)?)?, output)
        }
        ScenarioCommand::Run { scenario, vm, handler, dry_run: false, no_wait } => {
            let started = api.post(&Call::api(&["scenario-runs"]), &new_run(scenario, vm.as_deref(), *handler)?)?;
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
    output::print_list::<ScenarioSummary>(&decode::<Page<Value>>(&page)?.value, output)
}

fn show(api: &Api, name: &str, output: Output) -> Result<(), Failure> {
    let value = api.get(&Call::api(&["scenarios", name]))?;
    match output {
        Output::Table => output::print_line(decode::<ScenarioFile>(&value)?.text.trim_end()),
        Output::Json | Output::Yaml | Output::Tsv => {
            output::print_one(&value, output, |_: &ScenarioSummary| Vec::new())
        }
    }
}

impl TableRow for ScenarioSummary {
    const HEADER: &'static [&'static str] = &["NAME", "MACHINE", "TITLE"];
    const EMPTY: &'static str = "There are no scenarios.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.name), Cell::new(self.subject.clone().unwrap_or_default()), Cell::new(&self.title)]
    }
}

/// The body of a request. An existing file takes precedence over a built-in name.
fn new_run(scenario: &str, vm: Option<&str>, handler: bool) -> Result<NewRun, Failure> {
    let path = Path::new(scenario);
    let subject = vm.map(|vm| ResourceName(vm.to_owned()));
    let looks_like_file = scenario.contains(['/', '.']);
    if !looks_like_file && !path.is_file() {
        return Ok(NewRun { scenario: Some(scenario.to_owned()), subject, handler, ..NewRun::default() });
    }
    let text = fs::read_to_string(path).map_err(|error| Failure::Usage(format!("cannot read {scenario}: {error}")))?;
    forewarn_api::scenario::Scenario::parse(&text)
        .map_err(|problem| Failure::Usage(format!("{scenario}: {problem}")))?;
    let name = ResourceName::new(path.file_stem().unwrap_or_default().to_string_lossy().into_owned()).ok();
    Ok(NewRun { scenario: None, text: Some(text), name, subject, handler })
}

impl TableRow for RunPreview {
    const HEADER: &'static [&'static str] = &["NAME", "STEPS", "TITLE"];
    const EMPTY: &'static str = "There are no steps.";

    fn cells(&self) -> Vec<Cell> {
        vec![Cell::new(&self.name), Cell::new(self.steps.len().to_string()), Cell::new(&self.title)]
    }
}

fn print_preview(preview: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(preview, output, |preview: &RunPreview| {
        let steps = preview.steps.iter().map(|step| format!("line {:<4} {}", step.line, output::escape(&step.text)));
        std::iter::once(format!("'{}' would:", output::escape(&preview.title))).chain(steps).collect()
    })
}

fn print_started(started: &Value, output: Output) -> Result<(), Failure> {
    output::print_one(started, output, |run: &Run| {
        vec![format!("Started run {} of '{}'", run.id, output::escape(&run.title))]
    })
}

/// Prints each step when it is done, until the run has finished.
fn follow(api: &Api, mut value: Value, output: Output) -> Result<(), Failure> {
    let id = decode::<Run>(&value)?.id;
    let _interrupt = interrupt::explain(format!(
        "Stopped waiting; run {id} continues. List runs with `forewarn scenario runs`, or stop it with `forewarn scenario stop \
         {id}`."
    ));
    let mut status = StatusLine::new();
    let mut printed = 0;
    loop {
        let run: Run = decode(&value)?;
        status.clear();
        if output == Output::Table {
            printed = print_steps(&run, printed)?;
        }
        if run.state != RunStatus::Running {
            return finish(&run, &value, output);
        }
        status.show(&describe_progress(&run));
        value = api.get(&Call::api(&["scenario-runs", &id.to_string()]).with("wait", Some(WAIT_SECS)))?;
    }
}

fn describe_progress(run: &Run) -> String {
    let is_over = |step: &&RunStep| matches!(step.state, RunStepStatus::Done | RunStepStatus::Failed);
    let (ended, all) = (run.steps.iter().filter(is_over).count(), run.steps.len());
    format!("Run {}: {ended} of {all} steps (Ctrl-C: stop waiting)", run.id)
}

fn print_steps(run: &Run, printed: usize) -> Result<usize, Failure> {
    let done =
        run.steps.iter().take_while(|step| matches!(step.state, RunStepStatus::Done | RunStepStatus::Failed)).count();
    for step in &run.steps[printed..done] {
        let at = step.at.map_or_else(String::new, |at| at.timestamp().strftime("%H:%M:%S").to_string());
        let word = if step.state == RunStepStatus::Done { "ok  " } else { "FAIL" };
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
    let failed = run.steps.iter().find(|step| step.state == RunStepStatus::Failed);
    let reason = output::escape(run.reason.as_deref().unwrap_or_default());
    match (run.state, failed) {
        (RunStatus::Passed, _) if output == Output::Table => output::print_line(&format!("'{title}' passed.")),
        (RunStatus::Passed, _) => Ok(()),
        (RunStatus::Stopped, _) => Err(Failure::Failed(format!("'{title}' was stopped"))),
        (RunStatus::Failed | RunStatus::Running | RunStatus::Unknown(_), Some(step)) => {
            Err(Failure::Failed(format!("'{title}' failed at line {}: {reason}", step.line)))
        }
        (RunStatus::Failed | RunStatus::Running | RunStatus::Unknown(_), None) => {
            Err(Failure::Failed(format!("'{title}' failed before its first step: {}", reason)))
        }
    }
}

fn runs(api: &Api, output: Output) -> Result<(), Failure> {
    let page = api.get(&Call::api(&["scenario-runs"]))?;
    output::print_list::<Run>(&decode::<Page<Value>>(&page)?.value, output)
}

impl TableRow for Run {
    const HEADER: &'static [&'static str] = &["RUN", "SCENARIO", "STATE", "STEPS", "STARTED"];
    const EMPTY: &'static str = "There are no scenario runs.";

    fn cells(&self) -> Vec<Cell> {
        let color = match self.state {
            RunStatus::Passed => Color::Green,
            RunStatus::Failed => Color::Red,
            RunStatus::Running | RunStatus::Stopped | RunStatus::Unknown(_) => Color::Plain,
        };
        let done = self.steps.iter().filter(|step| step.state == RunStepStatus::Done).count();
        vec![
            Cell::new(self.id.to_string()),
            Cell::new(&self.name),
            Cell::colored(self.state.as_str(), color),
            Cell::new(format!("{done}/{}", self.steps.len())),
            Cell::new(client::format_time(self.started)),
        ]
    }
}
