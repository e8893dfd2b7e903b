//! Messages of web hooks that were given up: which they are, and that they are sent again.

use axum::response::Response;
use forewarn_wire::guid;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use super::error::ApiError;
use super::extract::{self, NoQuery, OptionalBody, Page, Params, Segment};
use super::values::When;
use super::webhook_routes::found;
use super::{Api, Note};
use crate::webhooks::{GIVEN_UP_MAX, GivenUp};

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GivenUpMessage {
    /// The `webhook-id` under which it was sent and is sent again.
    pub id: String,
    pub event_id: String,
    #[serde(rename = "type")]
    pub kind: String,
    pub status: String,
    pub machines: Vec<String>,
    /// When that happened which it tells.
    pub happened: When,
    pub given_up: When,
    /// Why it could not be delivered, the last time.
    pub failure: String,
}

/// All that were given up, when nothing is said.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resend {
    #[schema(max_items = 100)]
    pub ids: Option<Vec<String>>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct Resent {
    /// How many are sent again.
    pub messages: usize,
}

pub async fn given_up(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let messages = api.webhooks().list_given_up(&*found(&api, &name)?).await?;
    Ok(extract::ok(Page { value: messages.into_iter().map(GivenUpMessage::of).collect::<Vec<_>>(), next: None }))
}

pub async fn resend(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(Resend { ids }): OptionalBody<Resend>,
) -> Result<Response, ApiError> {
    if ids.as_ref().is_some_and(|ids| ids.len() > GIVEN_UP_MAX) {
        return Err(ApiError::field("ids", format!("it may have {GIVEN_UP_MAX} entries")));
    }
    let note = Note::new("webhook.resend", name.as_str());
    let messages = api.webhooks().send_again(&name, ids.as_deref(), api.asked(note)).await?;
    Ok(extract::accepted(Resent { messages }))
}

impl GivenUpMessage {
    fn of(given_up: GivenUp) -> GivenUpMessage {
        let GivenUp { row: _, message, at, why } = given_up;
        let body: Value = serde_json::from_str(&message.body).unwrap_or_default();
        let told = &body["data"]["resourceInfo"]["properties"];
        let text = |key: &str| told[key].as_str().unwrap_or_default().to_owned();
        let machines = told["Resources"].as_array().into_iter().flatten();
        let event = guid::parse(&text("EventId")).unwrap_or_default();
        GivenUpMessage {
            id: message.id,
            event_id: guid::Upper(event).to_string(),
            kind: text("EventType"),
            status: text("EventStatus"),
            machines: machines.filter_map(Value::as_str).map(str::to_owned).collect(),
            happened: When(message.at),
            given_up: When(at),
            failure: why,
        }
    }
}
