//! Scenarios that come with the program, and runs of these and of others.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::extract::{self, Body, NoQuery, Page, Params, Segment};
use super::routes::inside;
use super::text::Word;
use super::values::When;
use super::{Api, Note, names};
use crate::scenario::{
    BeginError, Handler, Inside, Progress, RunState, SHIPPED, Scenario, StepState, StepStatus, shipped,
};
use forewarn_api_types::nearest::hint;

/// How long a request may wait for a run to go on.
pub const WAIT_SECS_MAX: u64 = 300;

#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioSummary {
    pub name: String,
    pub title: String,
    pub about: String,
    /// The machine that a handler under test is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioFile {
    #[serde(flatten)]
    pub summary: ScenarioSummary,
    /// TOML.
    pub text: String,
}

/// One of `scenario` and `text`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// The name of one that comes with the program.
    pub scenario: Option<String>,
    /// The file itself.
    pub text: Option<String>,
    /// What to call the run of a `text`.
    pub name: Option<Word>,
    /// The machine that takes the place of the scenario's subject.
    pub subject: Option<Word>,
    /// Whether a handler asks for the subject's document, and is waited for; else the run pretends.
    #[serde(default)]
    pub handler: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Seconds to wait for the run to go on, at most 300.
    #[param(maximum = 300)]
    pub wait: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Run {
    pub id: u64,
    pub name: String,
    pub title: String,
    pub state: RunWord,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started: When,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<When>,
    pub steps: Vec<RunStep>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct RunStep {
    pub text: String,
    /// In the file.
    pub line: usize,
    pub state: StepWord,
    /// When it began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub enum RunWord {
    Running,
    Passed,
    Failed,
    Stopped,
}

#[derive(Debug, Serialize, ToSchema)]
pub enum StepWord {
    Waiting,
    Running,
    Done,
    Failed,
}

pub async fn list(Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let value = SHIPPED.iter().map(|one| Ok(summary(one.name, &parsed(one.text)?)));
    Ok(extract::ok(Page { value: value.collect::<Result<Vec<_>, ApiError>>()?, next: None }))
}

pub async fn get(Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let text = find(&name)?;
    Ok(extract::ok(ScenarioFile { summary: summary(&name, &parsed(text)?), text: text.into() }))
}

pub async fn runs(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let value: Vec<Run> = api.0.runs.list().into_iter().map(Run::from).collect();
    extract::ok(Page { value, next: None })
}

pub async fn begin(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRun>,
) -> Result<Response, ApiError> {
    let (name, text) = match (&body.scenario, &body.text) {
        (Some(name), None) => (name.clone(), find(name)?),
        (None, Some(text)) => (body.name.map_or_else(|| "file".into(), |name| name.0), text.as_str()),
        (Some(_), Some(_)) | (None, None) => {
            let message =
                "Say what to run: one of 'scenario', the name of one that ships, and 'text', a file; not both.";
            return Err(ApiError::new(Refusal::InvalidScenario, message).about("scenario"));
        }
    };
    let scenario = match &body.subject {
        Some(subject) => with_subject(&api, parsed(text)?, &subject.0)?,
        None => parsed(text)?,
    };
    let note = Note::new("scenario.run", name.as_str()).with(serde_json::json!({ "title": scenario.title }));
    let handler = if body.handler { Handler::Asks } else { Handler::Absent };
    let server = Inside {
        engine: api.engine().clone(),
        endpoint: api.0.parts.endpoint.clone(),
        routes: inside(api.clone()),
        by: api.by(),
    };
    let run = api.0.runs.prepare(name, scenario, handler, server, &api.0.parts.stop).map_err(|error| {
        let refusal = match error {
            BeginError::TooMany => Refusal::TooManyRuns,
            BeginError::Unfit(_) => Refusal::InvalidScenario,
        };
        ApiError::new(refusal, error.to_string())
    })?;
    api.submit(forewarn_core::Command::Tick, note).await?;
    Ok(extract::accepted(Run::from(run.begin())))
}

pub async fn run(api: Api, Segment(id): Segment, Params(query): Params<RunQuery>) -> Result<Response, ApiError> {
    let mut watch = number(&id).and_then(|id| api.0.runs.watch(id)).ok_or_else(|| no_run(&id))?;
    if let Some(secs) = query.wait {
        if secs > WAIT_SECS_MAX {
            let message = format!("The parameter 'wait' is at most {WAIT_SECS_MAX} seconds.");
            return Err(ApiError::new(Refusal::InvalidQuery, message).about("wait"));
        }
        if watch.borrow().state == RunState::Running {
            watch.mark_unchanged();
            let _ = tokio::time::timeout(Duration::from_secs(secs), watch.changed()).await;
        }
    }
    let progress = watch.borrow().clone();
    Ok(extract::ok(Run::from(progress)))
}

pub async fn stop(api: Api, Segment(id): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let stopped = number(&id).is_some_and(|id| api.0.runs.stop(id));
    if stopped { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(no_run(&id)) }
}

fn find(name: &str) -> Result<&'static str, ApiError> {
    shipped(name).map(|found| found.text).ok_or_else(|| {
        let near = hint(name, SHIPPED.iter().map(|one| one.name));
        let message = format!("There is no scenario '{name}'.{near} List the scenarios to see which there are.");
        ApiError::new(Refusal::ScenarioNotFound, message).about(name)
    })
}

fn parsed(text: &str) -> Result<Scenario, ApiError> {
    Scenario::parse(text).map_err(|problem| {
        let place = format!("line {}, column {}", problem.line, problem.column);
        ApiError::new(Refusal::InvalidScenario, format!("The scenario cannot be run: {problem}.")).about(place)
    })
}

/// A machine of the scenario's own is made where it is not there; another one that is not there was mistyped.
fn with_subject(api: &Api, scenario: Scenario, subject: &str) -> Result<Scenario, ApiError> {
    if !scenario.subject.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(subject)) {
        names::machine(&api.engine().snapshot().region, subject, None)?;
    }
    let unfit = |why: String| ApiError::new(Refusal::InvalidScenario, format!("{why}.")).about("subject");
    scenario.with_subject(subject).map_err(unfit)
}

fn number(id: &str) -> Option<u64> {
    id.parse().ok()
}

fn no_run(id: &str) -> ApiError {
    let message = format!("There is no run '{id}', or it ended long ago. List the runs to see which there are.");
    ApiError::new(Refusal::RunNotFound, message).about(id)
}

fn summary(name: &str, scenario: &Scenario) -> ScenarioSummary {
    let Scenario { title, about, subject, .. } = scenario;
    ScenarioSummary { name: name.into(), title: title.clone(), about: about.clone(), subject: subject.clone() }
}

impl From<Progress> for Run {
    fn from(progress: Progress) -> Run {
        let Progress { id, name, title, state, reason, started, ended, steps } = progress;
        let state = match state {
            RunState::Running => RunWord::Running,
            RunState::Passed => RunWord::Passed,
            RunState::Failed => RunWord::Failed,
            RunState::Stopped => RunWord::Stopped,
        };
        let steps = steps.into_iter().map(RunStep::from).collect();
        Run { id, name, title, state, reason, started: When(started), ended: ended.map(When), steps }
    }
}

impl From<StepState> for RunStep {
    fn from(step: StepState) -> RunStep {
        let state = match step.status {
            StepStatus::Waiting => StepWord::Waiting,
            StepStatus::Running => StepWord::Running,
            StepStatus::Done => StepWord::Done,
            StepStatus::Failed => StepWord::Failed,
        };
        RunStep { text: step.text, line: step.line, state, at: step.at.map(When), message: step.message }
    }
}
