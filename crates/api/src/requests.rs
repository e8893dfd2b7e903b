//! The metadata endpoint of a machine, seen from the management side: its document and its recent requests.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use forewarn_api_types::{EventId, FaultHit, Number, PollingSummary, RequestEntry, Requests};
use forewarn_metadata::render_document;
use forewarn_render::Convert;
use forewarn_wire::version::Version;
use serde::Deserialize;
use utoipa::IntoParams;

use super::error::ApiError;
use super::extract::{self, GroupQuery, Params, Segment};
use super::{Actions, names};
use forewarn_metadata::requests::{PollSummary, RequestSeen};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct RequestsQuery {
    /// Resource group, or cloud service of a role instance, if the name alone is not unique.
    pub group: Option<String>,
    /// Only requests after the one with this number.
    #[param(inline)]
    pub after: Option<Number>,
}

pub async fn list(
    actions: Actions,
    Segment(name): Segment,
    Params(query): Params<RequestsQuery>,
) -> Result<Response, ApiError> {
    let machine = names::find_machine(&actions.engine().snapshot().region, &name, query.group.as_deref())?;
    let log = actions.service().endpoint().requests.log_of(machine.id, query.after.map_or(0, |after| after.0));
    Ok(extract::respond_ok(Requests {
        value: log.requests.into_iter().map(render_entry).collect(),
        summary: render_summary(&log.summary),
    }))
}

const NEWEST: Version = Version::V2020_07_01;

/// The machine's document in the newest api-version, without faults. Unlike a metadata request, this is not recorded and
/// does not turn the event group on.
pub async fn document(
    actions: Actions,
    Segment(name): Segment,
    Params(within): Params<GroupQuery>,
) -> Result<Response, ApiError> {
    let snapshot = actions.engine().snapshot();
    let machine = names::find_machine(&snapshot.region, &name, within.group.as_deref())?;
    let region = &snapshot.region;
    let names = actions.service().names();
    let body = region.scope(machine.scope).map(|scope| render_document(names, region, scope, NEWEST));
    Ok(([(header::CONTENT_TYPE, "application/json")], body.unwrap_or_default()).into_response())
}

fn render_entry(seen: RequestSeen) -> RequestEntry {
    let RequestSeen { number, at, method, path, version, status, incarnation: _, approved, faults } = seen;
    RequestEntry {
        number,
        at: at.convert(),
        method,
        path,
        version,
        status,
        approved: approved.into_iter().map(|id| EventId(id.0)).collect(),
        faults: faults.iter().map(|met| FaultHit { id: met.fault.0, kind: met.kind.to_owned() }).collect(),
    }
}

fn render_summary(summary: &PollSummary) -> PollingSummary {
    PollingSummary {
        polls: summary.polls,
        first_poll: summary.first_poll.map(Convert::convert),
        last_poll: summary.last_poll.map(Convert::convert),
        interval_median_seconds: summary.interval_median.map(|span| span.as_secs_f64()),
        gap_longest_seconds: summary.gap_longest.map(|span| span.as_secs_f64()),
    }
}
