//! History: what happened, as the store kept it. Read beside the writer, off the threads that serve.

use axum::response::Response;
use forewarn_core::Found;
use forewarn_store::{HistoryQuery, HistoryRow as StoredRow, Reader, StoreError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::error::{ApiError, Refusal};
use super::extract::{self, Page, Params};
use super::values::{EventName, Id, When};
use super::{Api, names};

/// Every kind of row.
pub const KINDS: [&str; 10] = [
    "appeared",
    "approved",
    "started",
    "ended",
    "operation-ended",
    "machine-added",
    "machine-removed",
    "scope-on",
    "scope-off",
    "audit",
];

#[derive(Debug, Serialize, ToSchema)]
pub struct HistoryRow {
    pub number: u64,
    pub at: When,
    pub kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event: Option<EventName>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<u64>,
    pub machines: Vec<String>,
    /// `guest:NAME`, `management:NAME`, `policy`; of an audit the actor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// Of an audit: what it was done to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The rest.
    #[schema(value_type = Object)]
    pub detail: Value,
}

#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ListQuery {
    #[param(inline)]
    pub event: Option<EventName>,
    #[param(inline)]
    pub operation: Option<Id>,
    /// A machine: its `vmId`, `group/name` or name. A name alone finds those that are gone, too.
    pub machine: Option<String>,
    /// Kinds of rows, separated by commas.
    #[param(
        pattern = "^(appeared|approved|started|ended|operation-ended|machine-added|machine-removed|scope-on|scope-off|audit)(,(appeared|approved|started|ended|operation-ended|machine-added|machine-removed|scope-on|scope-off|audit)){0,9}$"
    )]
    pub kind: Option<String>,
    #[param(inline)]
    pub since: Option<When>,
    #[param(inline)]
    pub until: Option<When>,
    /// The newest ones that fit instead of the oldest.
    pub newest: Option<bool>,
    #[param(minimum = 1, maximum = 1000)]
    pub limit: Option<u32>,
    /// `next` of the page before.
    #[param(pattern = "^[0-9]{1,18}$")]
    pub after: Option<String>,
}

pub async fn list(api: Api, Params(query): Params<ListQuery>) -> Result<Response, ApiError> {
    let limit = extract::limit(query.limit)?;
    let newest = query.newest == Some(true);
    let Whose { name, scopes } = match &query.machine {
        Some(text) => whose(&api, text).await?,
        None => Whose::default(),
    };
    let wanted = HistoryQuery {
        after: extract::after_number(query.after.as_deref())?,
        event: query.event.map(|id| id.0),
        operation: query.operation.map(|id| id.0),
        machine: name,
        scopes,
        kinds: kinds(query.kind.as_deref())?,
        since: query.since.map(|when| when.0),
        until: query.until.map(|when| when.0),
        newest,
        limit: Some(limit as u32),
    };
    let rows = read(&api, wanted).await?;
    // A full page may have a next one, which then may be empty; the newest rows have none.
    let next = rows.last().filter(|_| rows.len() == limit && !newest).map(|row| row.number.to_string());
    Ok(extract::ok(Page { value: rows.into_iter().map(HistoryRow::of).collect(), next }))
}

/// What the rows of a machine are found by.
#[derive(Default)]
struct Whose {
    name: Option<String>,
    scopes: Vec<Option<u64>>,
}

/// A name alone is that of every machine that ever had it; two that have it now must be told apart. Rows
/// without a scope name the machine and no more, so they are its own when no other has the name.
async fn whose(api: &Api, text: &str) -> Result<Whose, ApiError> {
    let region = &api.engine().snapshot().region;
    let machine = match names::machine(region, text, None) {
        Ok(machine) => machine,
        Err(error) if error.code == Refusal::MachineNotFound.status_and_code().1 => {
            return gone(api, text, error).await;
        }
        Err(error) => return Err(error),
    };
    let by_name = machine.name.eq_ignore_ascii_case(text);
    let alone = matches!(region.machine_by_name(&machine.name, None), Found::One(_));
    let scope = Some(machine.scope.0);
    let scopes = match (by_name, alone) {
        (true, _) => Vec::new(),
        (false, true) => vec![scope, None],
        (false, false) => vec![scope],
    };
    Ok(Whose { name: Some(machine.name.to_string()), scopes })
}

/// Nothing has the name now; history may know it.
async fn gone(api: &Api, text: &str, mut unknown: ApiError) -> Result<Whose, ApiError> {
    let name = Some(text.to_owned());
    let any = HistoryQuery { machine: name.clone(), limit: Some(1), ..HistoryQuery::default() };
    if read(api, any).await?.is_empty() {
        unknown.message += " What one that is gone went through is found by its name alone.";
        return Err(unknown);
    }
    Ok(Whose { name, scopes: Vec::new() })
}

fn kinds(text: Option<&str>) -> Result<Vec<String>, ApiError> {
    let kinds: Vec<String> = text.map_or_else(Vec::new, |text| text.split(',').map(str::to_owned).collect());
    match kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
        Some(unknown) => {
            let message = format!("there is no kind '{unknown}'. The kinds are {}", KINDS.join(", "));
            Err(ApiError::query("kind", message))
        }
        None => Ok(kinds),
    }
}

/// Rows of history.
pub async fn read(api: &Api, query: HistoryQuery) -> Result<Vec<StoredRow>, ApiError> {
    api.engine().history(query).await.map_err(|error| unreadable(&error))
}

/// What the store keeps beside the region, read where blocking is allowed.
pub async fn read_store<T: Send + 'static>(
    api: &Api,
    what: impl FnOnce(&dyn Reader) -> Result<T, StoreError> + Send + 'static,
) -> Result<T, ApiError> {
    api.engine().read(what).await.map_err(|error| unreadable(&error))
}

pub fn unreadable(error: &StoreError) -> ApiError {
    tracing::error!(%error, "the store cannot be read");
    ApiError::new(Refusal::StoreUnreadable, "The store cannot be read. The server's log says why.")
}

impl HistoryRow {
    pub fn of(row: StoredRow) -> HistoryRow {
        HistoryRow {
            number: row.number,
            at: When(row.at),
            kind: row.kind,
            event: row.event.map(EventName),
            operation: row.operation.map(Id),
            scope: row.scope,
            machines: row.machines,
            actor: row.actor,
            target: row.target,
            outcome: row.outcome,
            detail: serde_json::from_str(&row.detail).unwrap_or_else(|_| Value::Object(serde_json::Map::new())),
        }
    }
}
