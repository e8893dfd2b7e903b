//! Built-in scenarios and scenario runs: handlers, and the actions that start and stop a run.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::nearest::suggest;
use forewarn_api_types::{
    NewRun, Page, PreviewStep, Run, RunPreview, RunStatus, RunStep, RunStepStatus, ScenarioFile, ScenarioSummary,
};
use forewarn_render::Convert;
use http::StatusCode;
use serde::Deserialize;
use utoipa::IntoParams;

use super::action::Action;
use super::audit_detail::AuditDetail;
use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, NoQuery, Params, Segment};
use super::{Actions, names};
use crate::scenario::{
    BUILTIN_SCENARIOS, BeginError, HandlerMode, Progress, RunState, Scenario, StepState, StepStatus, check_run,
    find_builtin,
};

/// Maximum time that a request waits for progress of a run.
pub const WAIT_SECS_MAX: u64 = 300;

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RunQuery {
    /// Seconds to wait for progress, at most 300.
    #[param(maximum = 300)]
    pub wait: Option<u64>,
}

pub async fn list(Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let value = BUILTIN_SCENARIOS.iter().map(|shipped| Ok(summary(shipped.name, &parse(shipped.text)?)));
    Ok(extract::respond_ok(Page::complete(value.collect::<Result<Vec<_>, ApiError>>()?)))
}

pub async fn get(Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let text = find_text(&name)?;
    Ok(extract::respond_ok(ScenarioFile { summary: summary(&name, &parse(text)?), text: text.into() }))
}

pub async fn runs(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let value: Vec<Run> = actions.service().list_runs().into_iter().map(render_run).collect();
    extract::respond_ok(Page::complete(value))
}

pub async fn begin(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRun>,
) -> Result<Response, ApiError> {
    actions.run_scenario(body).await.map(extract::respond_accepted)
}

pub async fn preview(
    actions: Actions,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewRun>,
) -> Result<Response, ApiError> {
    actions.preview_scenario(body).map(extract::respond_ok)
}

pub async fn run(
    actions: Actions,
    Segment(id): Segment,
    Params(query): Params<RunQuery>,
) -> Result<Response, ApiError> {
    let mut watch =
        parse_id(&id).and_then(|id| actions.service().0.runs.watch(id)).ok_or_else(|| run_not_found(&id))?;
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
    Ok(extract::respond_ok(render_run(progress)))
}

pub async fn stop(
    actions: Actions,
    Segment(id): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    actions.stop_run(&id)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

impl Actions {
    pub async fn run_scenario(&self, new: NewRun) -> Result<Run, ApiError> {
        let permit = self.permit(Action::RunScenario)?;
        let handler = if new.handler { HandlerMode::External } else { HandlerMode::Simulated };
        let (name, scenario) = self.find_scenario(new)?;
        let note = permit.note(name.as_str()).with(AuditDetail::Scenario { title: scenario.title.clone() });
        let stop = self.service().stopping();
        let run = self.service().0.runs.prepare(name, scenario, handler, self.clone(), stop).map_err(|error| {
            let code = match error {
                BeginError::TooMany => ErrorCode::TooManyRuns,
                BeginError::NotRunnable(_) => ErrorCode::InvalidScenario,
            };
            ApiError::new(code, error.to_string())
        })?;
        self.submit(forewarn_core::Command::Tick, note).await?;
        Ok(render_run(run.begin()))
    }

    /// The steps of a scenario that can run, without running it.
    pub fn preview_scenario(&self, new: NewRun) -> Result<RunPreview, ApiError> {
        self.permit(Action::RunScenario)?;
        let (name, scenario) = self.find_scenario(new)?;
        check_run(&scenario, self).map_err(|reason| ApiError::new(ErrorCode::InvalidScenario, reason))?;
        let steps = scenario.steps.iter().map(|step| PreviewStep { text: step.action.to_string(), line: step.line });
        Ok(RunPreview { name, title: scenario.title.clone(), steps: steps.collect() })
    }

    /// The scenario that a request names or contains, for its subject.
    fn find_scenario(&self, new: NewRun) -> Result<(String, Scenario), ApiError> {
        let (name, text) = match (&new.scenario, &new.text) {
            (Some(name), None) => (name.clone(), find_text(name)?),
            (None, Some(text)) => (new.name.map_or_else(|| "file".into(), |name| name.0), text.as_str()),
            (Some(_), Some(_)) | (None, None) => {
                let message =
                    "Set either 'scenario', the name of a built-in scenario, or 'text', the contents of a file.";
                return Err(ApiError::new(ErrorCode::InvalidScenario, message).with_target("scenario"));
            }
        };
        let scenario = match &new.subject {
            Some(subject) => replace_subject(self, parse(text)?, &subject.0)?,
            None => parse(text)?,
        };
        Ok((name, scenario))
    }

    pub fn stop_run(&self, id: &str) -> Result<(), ApiError> {
        self.permit(Action::StopRun)?;
        let stopped = parse_id(id).is_some_and(|id| self.service().0.runs.stop(id));
        if stopped { Ok(()) } else { Err(run_not_found(id)) }
    }
}

fn find_text(name: &str) -> Result<&'static str, ApiError> {
    find_builtin(name).map(|found| found.text).ok_or_else(|| {
        let near = suggest(name, BUILTIN_SCENARIOS.iter().map(|shipped| shipped.name));
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
fn replace_subject(actions: &Actions, scenario: Scenario, subject: &str) -> Result<Scenario, ApiError> {
    if !scenario.subject.as_ref().is_some_and(|own| own.eq_ignore_ascii_case(subject)) {
        names::find_machine(&actions.engine().snapshot().region, subject, None)?;
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

fn render_run(progress: Progress) -> Run {
    let Progress { id, name, title, state, reason, started, ended, steps } = progress;
    let state = match state {
        RunState::Running => RunStatus::Running,
        RunState::Passed => RunStatus::Passed,
        RunState::Failed => RunStatus::Failed,
        RunState::Stopped => RunStatus::Stopped,
    };
    let steps = steps.into_iter().map(render_step).collect();
    Run { id, name, title, state, reason, started: started.convert(), ended: ended.map(Convert::convert), steps }
}

fn render_step(step: StepState) -> RunStep {
    let state = match step.status {
        StepStatus::Waiting => RunStepStatus::Waiting,
        StepStatus::Running => RunStepStatus::Running,
        StepStatus::Done => RunStepStatus::Done,
        StepStatus::Failed => RunStepStatus::Failed,
    };
    RunStep { text: step.text, line: step.line, state, at: step.at.map(Convert::convert), message: step.message }
}
