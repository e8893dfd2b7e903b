//! Dry runs: with `?dryRun=true`, the rules decide on a copy of the region, and nothing is stored, announced or carried out.
//!
//! Only the routes listed here accept the parameter. All others refuse it as unknown, so that no action is taken by mistake.

use std::sync::{Arc, OnceLock};

use axum::extract::MatchedPath;
use axum::response::Response;
use forewarn_api_types::{DryRun, Operation};
use forewarn_core::{Command, Guid, MachineId, Region, Rejection, Snapshot};
use forewarn_engine::{CommittedBundle, Engine};
use forewarn_render::{render_events_of, render_owners};
use http::request::Parts;
use http::{Method, Uri};

use super::{Actions, extract};

/// Everything that creates events, except drains and rollouts, which have previews of their own.
pub const ROUTES: &[(Method, &str)] = &[
    (Method::POST, "/api/v1/machines/{machine}/restart"),
    (Method::POST, "/api/v1/machines/{machine}/redeploy"),
    (Method::POST, "/api/v1/machines/{machine}/perform-maintenance"),
    (Method::POST, "/api/v1/machines/{machine}/evict"),
    (Method::POST, "/api/v1/machines/{machine}/recommend-rebalance"),
    (Method::POST, "/api/v1/machines/{machine}/hardware-failure"),
    (Method::DELETE, "/api/v1/machines/{machine}"),
    (Method::POST, "/api/v1/maintenance"),
    (Method::POST, "/api/v1/hosts/{host}/hardware-failure"),
    (Method::DELETE, "/api/v1/availability-sets/{set}"),
    (Method::DELETE, "/api/v1/cloud-services/{service}"),
    (Method::PATCH, "/api/v1/scale-sets/{set}"),
    (Method::DELETE, "/api/v1/scale-sets/{set}"),
    (Method::POST, "/api/v1/scale-sets/{set}/restart"),
    (Method::POST, "/api/v1/scale-sets/{set}/redeploy"),
    (Method::POST, "/api/v1/scale-sets/{set}/perform-maintenance"),
    (Method::POST, "/api/v1/scale-sets/{set}/delete-instances"),
];

/// The parameter as clients write it.
const PARAMETER: [(&str, bool); 2] = [("dryRun=true", true), ("dryRun=false", false)];

/// Whether commands of a request take effect.
#[derive(Clone)]
pub enum Execution {
    Real,
    Dry(DryRunResult),
}

/// The outcome of the commands of a dry run.
#[derive(Clone, Default)]
pub struct DryRunResult(Arc<OnceLock<Arc<Snapshot>>>);

impl DryRunResult {
    /// Lets the rules decide on a copy of the region. The routes listed here do so once per request.
    pub fn run(&self, engine: &Engine, commands: &[Command]) -> Result<CommittedBundle, Rejection> {
        let before = engine.snapshot();
        let now = engine.now();
        let (mut region, mut answers) = (before.region.clone(), Vec::new());
        for command in commands {
            let step = region.apply(command, now)?;
            region = step.region;
            answers.push(step.answer);
        }
        let after = Arc::new(Snapshot { revision: before.revision, region });
        let snapshot = self.0.get_or_init(|| after).clone();
        Ok(CommittedBundle { answers, snapshot })
    }
}

impl Actions {
    /// 202 with an operation that was started; in a dry run, 200 with the operation and the events that it would have.
    pub(super) fn respond_started(&self, operation: Operation) -> Response {
        match &self.execution {
            Execution::Real => extract::respond_accepted(operation),
            Execution::Dry(trial) => {
                let after = trial.0.get().map(|after| &after.region);
                let events = after.map_or_else(Vec::new, |after| render_events_of(after, &operation));
                // The region before the operation, because maintenance of a group becomes a rollout itself.
                let machines = after.map_or_else(Vec::new, |after| list_machines(after, &operation));
                let rollouts = render_owners(&self.engine().snapshot().region, machines);
                extract::respond_ok(DryRun { operation, events, rollouts })
            }
        }
    }
}

/// The machines that an operation affects.
fn list_machines(region: &Region, operation: &Operation) -> Vec<MachineId> {
    let events = operation.events.iter().filter_map(|part| region.event(Guid(part.id.0)));
    events.flat_map(|event| event.resources.iter().map(|resource| resource.machine)).collect()
}

/// Takes the parameter out of a request to a route that supports it.
pub fn take(parts: &mut Parts) -> Execution {
    let path = parts.extensions.get::<MatchedPath>().map_or("", |path| path.as_str());
    let is_listed = ROUTES.iter().any(|(method, listed)| *method == parts.method && *listed == path);
    let query = parts.uri.query().unwrap_or_default();
    let find = |pair: &str| PARAMETER.iter().find(|(text, _)| *text == pair).map(|(_, is_dry)| *is_dry);
    let mut given = query.split('&').filter_map(find);
    // A repeated parameter stays, and the route refuses it.
    let (Some(is_dry), None) = (given.next().filter(|_| is_listed), given.next()) else { return Execution::Real };
    let rest: Vec<&str> = query.split('&').filter(|pair| find(pair).is_none()).collect();
    let target = format!("{}?{}", parts.uri.path(), rest.join("&"));
    match target.parse::<Uri>() {
        Ok(uri) => parts.uri = uri,
        // The parameter stays, and the route refuses it.
        Err(_) => return Execution::Real,
    }
    if is_dry { Execution::Dry(DryRunResult::default()) } else { Execution::Real }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_listed_route_exists() {
        let table = crate::routes::table();
        let served: BTreeSet<(&str, &str)> = table.iter().map(|route| (route.method.as_str(), route.path)).collect();
        for (method, path) in ROUTES {
            assert!(served.contains(&(method.as_str(), *path)), "{method} {path}");
        }
    }
}
