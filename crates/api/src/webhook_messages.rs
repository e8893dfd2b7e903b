//! Messages of webhooks that could not be delivered: list and resend.

use axum::response::Response;
use forewarn_wire::guid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{self, NoQuery, OptionalBody, Page, Params, Segment};
use super::values::When;
use super::webhook_routes::find_webhook;
use super::{Api, AuditNote};
use crate::webhooks::{GIVEN_UP_MAX, GivenUp};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenUpMessage {
    /// The `webhook-id` of every delivery attempt.
    pub id: String,
    pub event_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub machines: Vec<String>,
    /// Time of the change that the message reports.
    pub happened: When,
    pub given_up: When,
    /// Reason of the last failed attempt.
    pub failure: String,
}

/// Messages to resend. Default: all undelivered messages.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resend {
    #[schema(max_items = 100)]
    pub ids: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Resent {
    /// Number of messages to be resent.
    pub messages: usize,
}

pub async fn given_up(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let messages = api.webhooks().list_given_up(&*find_webhook(&api, &name)?).await?;
    Ok(extract::ok(Page { value: messages.into_iter().map(GivenUpMessage::of).collect::<Vec<_>>(), next: None }))
}

pub async fn resend(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(Resend { ids }): OptionalBody<Resend>,
) -> Result<Response, ApiError> {
    if ids.as_ref().is_some_and(|ids| ids.len() > GIVEN_UP_MAX) {
        return Err(ApiError::field("ids", format!("has more than {GIVEN_UP_MAX} entries")));
    }
    let note = AuditNote::new("webhook.resend", name.as_str());
    let messages = api.webhooks().resend(&name, ids.as_deref(), api.audit(note)).await?;
    Ok(extract::accepted(Resent { messages }))
}

impl GivenUpMessage {
    fn of(given_up: GivenUp) -> GivenUpMessage {
        let GivenUp { row: _, message, at, reason } = given_up;
        let body: Value = serde_json::from_str(&message.body).unwrap_or_default();
        let properties = &body["data"]["resourceInfo"]["properties"];
        let text = |key: &str| properties[key].as_str().unwrap_or_default().to_owned();
        let machines = properties["Resources"].as_array().into_iter().flatten();
        let event = guid::parse(&text("EventId")).unwrap_or_default();
        GivenUpMessage {
            id: message.id,
            event_id: guid::Upper(event).to_string(),
            kind: text("EventType"),
            status: text("EventStatus"),
            machines: machines.filter_map(Value::as_str).map(str::to_owned).collect(),
            happened: When(message.at),
            given_up: When(at),
            failure: reason,
        }
    }
}
