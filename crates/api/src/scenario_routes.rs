//! Handlers of built-in scenarios and of scenario runs.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, Page, Params, Segment};
use super::text::ResourceName;
use super::values::When;
use super::{Api, AuditNote, names};
use crate::scenario::{
    BeginError, HandlerMode, Progress, RunContext, RunState, SHIPPED, Scenario, StepState, StepStatus, find_shipped,
};
use forewarn_api_types::nearest::hint;

/// Maximum time that a request waits for progress of a run.
pub const WAIT_SECS_MAX: u64 = 300;

#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioSummary {
    pub name: String,
    pub title: String,
    pub about: String,
    /// Machine of the handler under test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct ScenarioFile {
    #[serde(flatten)]
    pub summary: ScenarioSummary,
    /// The file, in TOML.
    pub text: String,
}

/// A run of a built-in `scenario` or of a file in `text`.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// Name of a built-in scenario.
    pub scenario: Option<String>,
    /// Contents of a scenario file.
    pub text: Option<String>,
    /// Name of the run of a `text`.
    pub name: Option<ResourceName>,
    /// Machine to use as the subject.
    pub subject: Option<ResourceName>,
    /// Whether to wait for a real handler on the subject. Default: false, the run simulates the handler.
    #[serde(default)]
    pub handler: bool,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Seconds to wait for progress, at most 300.
    #[param(maximum = 300)]
    pub wait: Option<u64>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Run {
    pub id: u64,
    pub name: String,
    pub title: String,
    pub state: RunStatus,
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
    /// Line in the file.
    pub line: usize,
    pub state: RunStepStatus,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<When>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

#[derive(Debug, Serialize, ToSchema)]
pub enum RunStatus {
    Running,
    Passed,
    Failed,
    Stopped,
}

#[derive(Debug, Serialize, ToSchema)]
pub enum RunStepStatus {
    Waiting,
    Running,
    Done,
    Failed,
}

pub async fn list(Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let value = SHIPPED.iter().map(|shipped| Ok(summary(shipped.name, &parse(shipped.text)?)));
    Ok(extract::ok(Page { value: value.collect::<Result<Vec<_>, ApiError>>()?, next: None }))
}

pub async fn get(Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let text = find_text(&name)?;
    Ok(extract::ok(ScenarioFile { summary: summary(&name, &parse(text)?), text: text.into() }))
}

pub async fn runs(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let value: Vec<Run> = api.service().list_runs().into_iter().map(Run::from).collect();
    extract::ok(Page { value, next: None })
}

pub async fn begin(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRun>,
) -> Result<Response, ApiError> {
    let (name, text) = match (&body.scenario, &body.text) {
        (Some(name), None) => (name.clone(), find_text(name)?),
        (None, Some(text)) => (body.name.map_or_else(|| "file".into(), |name| name.0), text.as_str()),
        (Some(_), Some(_)) | (None, None) => {
            let message = "Set either 'scenario', the name of a built-in scenario, or 'text', the contents of a file.";
            return Err(ApiError::new(ErrorCode::InvalidScenario, message).with_target("scenario"));
        }
    };
    let scenario = match &body.subject {
        Some(subject) => replace_subject(&api, parse(text)?, &subject.0)?,
        None => parse(text)?,
    };
    let note = AuditNote::new("scenario.run", name.as_str()).with(serde_json::json!({ "title": scenario.title }));
    let handler = if body.handler { HandlerMode::External } else { HandlerMode::Simulated };
    let context = RunContext {
        engine: api.engine().clone(),
        endpoint: api.service().endpoint().clone(),
        client: api.client(),
        by: api.principal_name(),
    };
    let run =
        api.service().0.runs.prepare(name, scenario, handler, context, api.service().stopping()).map_err(|error| {
            let code = match error {
                BeginError::TooMany => ErrorCode::TooManyRuns,
                BeginError::NotRunnable(_) => ErrorCode::InvalidScenario,
            };
            ApiError::new(code, error.to_string())
        })?;
    api.submit(forewarn_core::Command::Tick, note).await?;
    Ok(extract::accepted(Run::from(run.begin())))
}

pub async fn run(api: Api, Segment(id): Segment, Params(query): Params<RunQuery>) -> Result<Response, ApiError> {
    let mut watch = parse_id(&id).and_then(|id| api.service().0.runs.watch(id)).ok_or_else(|| run_not_found(&id))?;
    if let Some(secs) = query.wait {
        if secs > WAIT_SECS_MAX {
            let message = format!("The query parameter 'wait' must be at most {WAIT_SECS_MAX} seconds.");
            return Err(ApiError::new(ErrorCode::InvalidQuery, message).with_target("wait"));
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
    let stopped = parse_id(&id).is_some_and(|id| api.service().0.runs.stop(id));
    if stopped { Ok(StatusCode::NO_CONTENT.into_response()) } else { Err(run_not_found(&id)) }
}

fn find_text(name: &str) -> Result<&'static str, ApiError> {
    find_shipped(name).map(|found| found.text).ok_or_else(|| {
        let near = hint(name, SHIPPED.iter().map(|shipped| shipped.name));
        let message = format!("Scenario '{name}' does not exist.{near} List the scenarios to find the right name.");
        ApiError::new(ErrorCode::ScenarioNotFound, message).with_target(name)
    })
}

fn parse(text: &str) -> Result<Scenario, ApiError> {
    Scenario::parse(text).map_err(|problem| {
        let place = format!("line {}, column {}", problem.line, problem.column);
        ApiError::new(ErrorCode::InvalidScenario, format!("The scenario is not valid: {problem}.")).with_target(place)
    })
}

/// Replaces the subject. A machine of the scenario itself is created if needed; any other must exist.
fn replace_subject(api: &Api, scenario: Scenario, subject: &str) -> Result<Scenario, ApiError> {
    if !scenario.subject.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(subject)) {
        names::find_machine(&api.engine().snapshot().region, subject, None)?;
    }
    let not_runnable =
        |reason: String| ApiError::new(ErrorCode::InvalidScenario, format!("{reason}.")).with_target("subject");
    scenario.with_subject(subject).map_err(not_runnable)
}

fn parse_id(id: &str) -> Option<u64> {
    id.parse().ok()
}

fn run_not_found(id: &str) -> ApiError {
    let message = format!("Run '{id}' does not exist or ended too long ago. List the runs to find the right number.");
    ApiError::new(ErrorCode::RunNotFound, message).with_target(id)
}

fn summary(name: &str, scenario: &Scenario) -> ScenarioSummary {
    let Scenario { title, about, subject, .. } = scenario;
    ScenarioSummary { name: name.into(), title: title.clone(), about: about.clone(), subject: subject.clone() }
}

impl From<Progress> for Run {
    fn from(progress: Progress) -> Run {
        let Progress { id, name, title, state, reason, started, ended, steps } = progress;
        let state = match state {
            RunState::Running => RunStatus::Running,
            RunState::Passed => RunStatus::Passed,
            RunState::Failed => RunStatus::Failed,
            RunState::Stopped => RunStatus::Stopped,
        };
        let steps = steps.into_iter().map(RunStep::from).collect();
        Run { id, name, title, state, reason, started: When(started), ended: ended.map(When), steps }
    }
}

impl From<StepState> for RunStep {
    fn from(step: StepState) -> RunStep {
        let state = match step.status {
            StepStatus::Waiting => RunStepStatus::Waiting,
            StepStatus::Running => RunStepStatus::Running,
            StepStatus::Done => RunStepStatus::Done,
            StepStatus::Failed => RunStepStatus::Failed,
        };
        RunStep { text: step.text, line: step.line, state, at: step.at.map(When), message: step.message }
    }
}
