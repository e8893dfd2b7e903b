//! Handlers of messages of webhooks that could not be delivered: list and resend.

use axum::response::Response;
use forewarn_api_types::{Page, Resend, UndeliveredMessage};
use forewarn_render::Convert;
use forewarn_wire::guid;
use serde_json::Value;

use super::Actions;
use super::error::ApiError;
use super::extract::{self, NoQuery, OptionalBody, Params, Segment};
use forewarn_webhooks::Undelivered;

pub async fn list_undelivered(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let messages = actions.webhooks().list_undelivered(&*actions.find_webhook(&name)?).await?;
    Ok(extract::respond_ok(Page::complete(messages.into_iter().map(render).collect())))
}

pub async fn resend(
    actions: Actions,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(body): OptionalBody<Resend>,
) -> Result<Response, ApiError> {
    actions.resend_messages(&name, body).await.map(extract::respond_accepted)
}

fn render(undelivered: Undelivered) -> UndeliveredMessage {
    let Undelivered { row: _, message, at, reason } = undelivered;
    let body: Value = serde_json::from_str(&message.body).unwrap_or_default();
    let properties = &body["data"]["resourceInfo"]["properties"];
    let text = |key: &str| properties[key].as_str().unwrap_or_default().to_owned();
    let machines = properties["Resources"].as_array().into_iter().flatten();
    let event = guid::parse(&text("EventId"));
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let change = ["change", "state", "result"].into_iter().find_map(|key| body["data"][key].as_str());
    UndeliveredMessage {
        id: message.id,
        event_id: event.map_or(String::new(), |event| guid::Upper(event).to_string()),
        kind: event.map_or(word(&body["type"]), |_| text("EventType")),
        status: event.map_or(change.unwrap_or_default().to_owned(), |_| text("EventStatus")),
        machines: machines.filter_map(Value::as_str).map(str::to_owned).collect(),
        happened: message.at.convert(),
        last_attempt: at.convert(),
        failure: reason,
    }
}
