//! Health and metrics of the server.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::response::{IntoResponse, Response};
use forewarn_api_types::{Health, Nullable, Readiness};
use http::{StatusCode, header};

use super::Actions;
use super::error::ApiError;
use super::extract::{NoQuery, Params};
use super::metrics::render_metrics;
use forewarn_engine::{ClusterRole, ClusterStatus, SubmitError};

/// A server whose leader was last heard of longer ago does not have current data.
const HEARTBEAT_AGE_MAX: Duration = Duration::from_secs(10);

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

    /// Removes a problem that no longer exists.
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

/// For load balancers: a server that answers 200 has current data. Changes are accepted by all of them while there is a leader.
pub async fn get_ready(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let engine = actions.engine();
    let (ready, report) = match engine.cluster() {
        None => report_single(engine.is_healthy()),
        Some(cluster) => report_node(&cluster.status(), cluster.heartbeat_age(), engine.snapshot().revision),
    };
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (status, axum::Json(report)).into_response()
}

fn report_single(is_healthy: bool) -> (bool, Readiness) {
    let status = if is_healthy { "ok" } else { "failing" };
    let report = Readiness {
        status: status.into(),
        role: "single".into(),
        node: None,
        leader: Nullable::Absent,
        revision: None,
    };
    (is_healthy, report)
}

fn report_node(status: &ClusterStatus, heartbeat_age: Option<Duration>, revision: u64) -> (bool, Readiness) {
    let is_current = heartbeat_age.is_some_and(|age| age <= HEARTBEAT_AGE_MAX);
    let (ready, word) = match status.role {
        ClusterRole::CatchingUp => (false, "catching-up"),
        ClusterRole::Leader | ClusterRole::Follower if !is_current => (false, "stale"),
        ClusterRole::Leader | ClusterRole::Follower => (true, "ok"),
    };
    let leader = status.leader.as_ref().map(|leader| leader.node.clone());
    let report = Readiness {
        status: word.into(),
        role: status.role.as_str().into(),
        node: Some(status.node.clone()),
        leader: Nullable::from_change(Some(leader)),
        revision: Some(revision),
    };
    (ready, report)
}

pub async fn get_metrics(actions: Actions, Params(NoQuery {}): Params<NoQuery>) -> Response {
    let text = render_metrics(&actions.service().0.parts.registry);
    ([(header::CONTENT_TYPE, OPENMETRICS)], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_distinguishes_leader_follower_and_catching_up() {
        let status = |role| ClusterStatus {
            node: "a".into(),
            role,
            leader: None,
            term: 1,
            revision: 3,
            problem: None,
            rule_differences: Vec::new(),
        };
        let report = |role, age: Option<u64>| {
            let (ready, report) = report_node(&status(role), age.map(Duration::from_secs), 3);
            (ready, report.status, report.role)
        };
        let expected = |ready, status: &str, role: &str| (ready, status.to_owned(), role.to_owned());
        assert_eq!(report(ClusterRole::Leader, Some(0)), expected(true, "ok", "leader"));
        assert_eq!(report(ClusterRole::Follower, Some(10)), expected(true, "ok", "follower"));
        assert_eq!(report(ClusterRole::Follower, Some(11)), expected(false, "stale", "follower"));
        assert_eq!(report(ClusterRole::CatchingUp, None), expected(false, "catching-up", "catching-up"));
        let json = |report| serde_json::to_string(&report).unwrap();
        assert_eq!(json(report_single(true).1), r#"{"status":"ok","role":"single"}"#);
        let node = report_node(&status(ClusterRole::Leader), None, 3).1;
        assert_eq!(json(node), r#"{"status":"stale","role":"leader","node":"a","leader":null,"revision":3}"#);
    }

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
