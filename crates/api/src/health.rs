//! Health and metrics of the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::response::{IntoResponse, Response};
use forewarn_api_types::Health;
use http::{StatusCode, header};

use super::Actions;
use super::error::ApiError;
use super::extract::{NoQuery, Params};
use super::metrics::render_metrics;
use forewarn_engine::SubmitError;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Problems that do not keep the server from working, but need an operator. Any part of the server can report one.
#[derive(Clone, Default)]
pub struct HealthProblems(Arc<Mutex<Vec<String>>>);

impl HealthProblems {
    pub fn report(&self, problem: String) {
        self.lock().push(problem);
    }

    /// Reports a problem that may be known already.
    pub fn report_once(&self, problem: &str) {
        let mut problems = self.lock();
        if !problems.iter().any(|known| known == problem) {
            problems.push(problem.to_owned());
        }
    }

    /// A reported problem is over.
    pub fn resolve(&self, problem: &str) {
        self.lock().retain(|known| known != problem);
    }

    pub fn list(&self) -> Vec<String> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub async fn get_health(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    if !actions.engine().is_healthy() {
        return Err(SubmitError::Unavailable.into());
    }
    let mut problems = actions.engine().problems();
    problems.extend(actions.service().0.parts.problems.list());
    Ok((StatusCode::OK, axum::Json(report_health(problems))).into_response())
}

/// The report of a server that accepts changes. Problems do not change the status code: a load balancer should keep using the
/// server.
fn report_health(problems: Vec<String>) -> Health {
    let status = if problems.is_empty() { "ok" } else { "degraded" };
    Health { status: status.into(), problems }
}

pub async fn get_metrics(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let text = render_metrics(&actions.service().0.parts.registry);
    ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_with_problems_is_degraded() {
        let render = |problems: &[&str]| {
            let report = report_health(problems.iter().map(|&problem| problem.to_owned()).collect());
            serde_json::to_string(&report).unwrap()
        };
        assert_eq!(render(&[]), r#"{"status":"ok"}"#);
        assert_eq!(render(&["late"]), r#"{"status":"degraded","problems":["late"]}"#);
    }
}
