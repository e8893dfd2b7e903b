//! History as the store keeps it. It is read next to the writer, off the threads that serve requests.

use axum::response::Response;
use forewarn_api_types::{EventId, HistoryRow, Id, Page, Time};
use forewarn_core::{Guid, MachineId, MachineLookup};
use forewarn_render::Convert;
use forewarn_store::{HistoryKind, HistoryQuery, HistoryRow as StoredRow, Reader, StoreError};
use serde::Deserialize;
use serde_json::Value;
use utoipa::IntoParams;

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Params};
use super::{Actions, names};

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryFilter {
    #[param(inline)]
    pub event: Option<EventId>,
    #[param(inline)]
    pub operation: Option<Id>,
    /// Machine: its `vmId`, `group/name` or name. A name alone also finds deleted machines.
    pub machine: Option<String>,
    /// Kinds of rows, comma-separated.
    #[param(
        pattern = "^(appeared|approved|started|ended|operation-ended|machine-added|machine-removed|group-on|group-off|rollout|host|audit)(,(appeared|approved|started|ended|operation-ended|machine-added|machine-removed|group-on|group-off|rollout|host|audit)){0,11}$"
    )]
    pub kind: Option<String>,
    #[param(inline)]
    pub since: Option<Time>,
    #[param(inline)]
    pub until: Option<Time>,
    /// Return the newest rows instead of the oldest.
    pub newest: Option<bool>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the previous page.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(actions: Actions, Params(query): Params<HistoryFilter>) -> Result<Response, ApiError> {
    let limit = extract::page_limit(query.limit)?;
    let newest = query.newest == Some(true);
    let MachineFilter { name, id, scopes } = match &query.machine {
        Some(text) => machine_filter(&actions, text).await?,
        None => MachineFilter::default(),
    };
    let wanted = HistoryQuery {
        after: extract::numeric_cursor(query.after.as_deref())?,
        event: query.event.map(|id| Guid(id.0)),
        operation: query.operation.map(|id| Guid(id.0)),
        machine: name,
        machine_id: id,
        scopes,
        kinds: parse_kinds(query.kind.as_deref())?,
        since: query.since.map(Convert::convert),
        until: query.until.map(Convert::convert),
        newest,
        limit: Some(limit as u32),
        ..HistoryQuery::default()
    };
    let rows = read_rows(&actions, wanted).await?;
    // A full page may be followed by an empty one. The newest rows have no next page.
    let next = rows.last().filter(|_| rows.len() == limit && !newest).map(|row| row.number.to_string());
    Ok(extract::respond_ok(Page { value: rows.into_iter().map(render_row).collect(), next }))
}

/// Selects the rows of a machine.
#[derive(Default)]
struct MachineFilter {
    name: Option<String>,
    id: Option<MachineId>,
    scopes: Vec<Option<u64>>,
}

/// A name alone selects every machine that ever had it; if two machines have it now, the name is ambiguous. Rows without
/// an event group contain only the name, so they belong to the machine if no other machine has that name.
async fn machine_filter(actions: &Actions, text: &str) -> Result<MachineFilter, ApiError> {
    let region = &actions.engine().snapshot().region;
    let machine = match names::find_machine(region, text, None) {
        Ok(machine) => machine,
        Err(error) if error.code == ErrorCode::MachineNotFound.status_and_code().1 => {
            return deleted_machine_filter(actions, text, error).await;
        }
        Err(error) => return Err(error),
    };
    let is_by_name = machine.name.eq_ignore_ascii_case(text);
    let is_unique = matches!(region.machine_by_name(&machine.name, None), MachineLookup::One(_));
    let scope = Some(machine.scope.0);
    let scopes = match (is_by_name, is_unique) {
        (true, _) => Vec::new(),
        (false, true) => vec![scope, None],
        (false, false) => vec![scope],
    };
    let id = (!is_by_name).then_some(machine.id);
    Ok(MachineFilter { name: Some(machine.name.to_string()), id, scopes })
}

/// The filter for a name that no machine has now but history may contain.
async fn deleted_machine_filter(
    actions: &Actions,
    text: &str,
    mut unknown: ApiError,
) -> Result<MachineFilter, ApiError> {
    let name = Some(text.to_owned());
    let any = HistoryQuery { machine: name.clone(), limit: Some(1), ..HistoryQuery::default() };
    if read_rows(actions, any).await?.is_empty() {
        unknown.message += " To find the history of a deleted machine, use its name alone.";
        return Err(unknown);
    }
    Ok(MachineFilter { name, id: None, scopes: Vec::new() })
}

fn parse_kinds(text: Option<&str>) -> Result<Vec<HistoryKind>, ApiError> {
    let words = text.map_or_else(Vec::new, |text| text.split(',').collect());
    let parse = |word: &str| {
        HistoryKind::ALL.into_iter().find(|kind| kind_word(*kind) == word).ok_or_else(|| {
            let known = HistoryKind::ALL.map(kind_word).join(", ");
            ApiError::query("kind", format!("has the unknown value '{word}'. Use {known}"))
        })
    };
    words.into_iter().map(parse).collect()
}

/// The word of a kind in the API, which calls a scope an event group.
fn kind_word(kind: HistoryKind) -> &'static str {
    match kind {
        HistoryKind::GroupOn => "group-on",
        HistoryKind::GroupOff => "group-off",
        HistoryKind::Appeared
        | HistoryKind::Approved
        | HistoryKind::Started
        | HistoryKind::Ended
        | HistoryKind::OperationEnded
        | HistoryKind::MachineAdded
        | HistoryKind::MachineRemoved
        | HistoryKind::RolloutChanged
        | HistoryKind::HostChanged
        | HistoryKind::Audit => kind.as_str(),
    }
}

/// Reads rows of history.
pub async fn read_rows(actions: &Actions, query: HistoryQuery) -> Result<Vec<StoredRow>, ApiError> {
    actions.engine().history(query).await.map_err(|error| store_error(&error))
}

/// Reads from the store on a thread where blocking is allowed.
pub async fn read_store<T: Send + 'static>(
    actions: &Actions,
    query: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    actions.engine().read(query).await.map_err(|error| store_error(&error))
}

pub fn store_error(error: &StoreError) -> ApiError {
    tracing::error!(%error, "cannot read the store");
    ApiError::new(ErrorCode::StoreUnreadable, "The store cannot be read. See the server's log.")
}

pub fn render_row(row: StoredRow) -> HistoryRow {
    HistoryRow {
        number: row.number,
        at: row.at.convert(),
        kind: HistoryKind::parse(&row.kind).map_or(row.kind, |kind| kind_word(kind).to_owned()),
        event: row.event.map(|id| EventId(id.0)),
        operation: row.operation.map(Convert::convert),
        event_group: row.scope,
        machines: row.machines,
        machine_ids: row.machine_ids.iter().map(|id| id.0).collect(),
        actor: row.actor,
        target: row.target,
        outcome: row.outcome,
        detail: serde_json::from_str(&row.detail).unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
    }
}
