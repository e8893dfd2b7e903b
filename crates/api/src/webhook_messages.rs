//! Handlers of messages of webhooks that could not be delivered: list and resend.

use axum::response::Response;
use forewarn_api_types::{Page, Resend, UndeliveredMessage};
use forewarn_render::Convert;
use forewarn_wire::cloudevent::MessageSummary;
use forewarn_wire::guid;

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
    let MessageSummary { event_id, kind, status, machines } = MessageSummary::read(&message.body);
    UndeliveredMessage {
        id: message.id,
        event_id: event_id.map_or(String::new(), |event| guid::Upper(event).to_string()),
        kind,
        status,
        machines,
        happened: message.at.convert(),
        last_attempt: at.convert(),
        failure: reason,
    }
}
