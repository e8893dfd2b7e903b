//! Webhooks and the messages that they could not deliver.

use std::fmt;

use serde::{Deserialize, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::values::default_true;
use crate::{EventStage, EventType, Nullable, ResourceName, Time, WebhookTopic};

/// The URL of a receiver as text; the server parses it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookUrl(pub String);

impl WebhookUrl {
    /// A subset of what the server accepts, for the OpenAPI document.
    pub const PATTERN: &'static str =
        r"^https?://[A-Za-z0-9][A-Za-z0-9.-]{0,200}(:[1-9][0-9]{0,3})?(/[A-Za-z0-9._~/-]*)?$";
}

/// A signing secret as text; the server parses it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WebhookSecret(pub String);

impl WebhookSecret {
    /// A subset of what the server accepts, for the OpenAPI document.
    pub const PATTERN: &'static str = "^whsec_([A-Za-z0-9+/]{4}){8,21}$";
}

/// Redacted, so that secrets do not get into logs.
impl fmt::Debug for WebhookSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WebhookSecret")
    }
}

impl PartialSchema for WebhookUrl {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(WebhookUrl::PATTERN)).into()
    }
}

impl PartialSchema for WebhookSecret {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(WebhookSecret::PATTERN)).into()
    }
}

impl ToSchema for WebhookUrl {}
impl ToSchema for WebhookSecret {}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhook {
    pub name: ResourceName,
    /// URL of the receiver, http or https.
    pub url: WebhookUrl,
    /// Secret for signing deliveries. Default: a new one, which is in the response.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<WebhookSecret>,
    /// Subjects to report. Default: events only. The other filters apply to events.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub topics: Vec<WebhookTopic>,
    /// Event types to report. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub types: Vec<EventType>,
    /// Statuses to report. Default: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub statuses: Vec<EventStage>,
    /// Report only events of machines with these names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub machines: Vec<ResourceName>,
    /// Report only events in these resource groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 100)]
    pub resource_groups: Vec<ResourceName>,
    /// Whether deliveries are sent. Changes meanwhile are sent when it is enabled again.
    #[serde(default = "default_true")]
    pub enabled: bool,
    /// Age after which a message is not sent again. Default: one day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

/// Changes of a webhook; omitted fields keep their values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookChange {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<WebhookUrl>,
    /// Use `null` to generate a new secret, which is in the response.
    #[serde(default, skip_serializing_if = "Nullable::is_absent")]
    #[schema(value_type = Option<WebhookSecret>)]
    pub secret: Nullable<WebhookSecret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub topics: Option<Vec<WebhookTopic>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub types: Option<Vec<EventType>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub statuses: Option<Vec<EventStage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub machines: Option<Vec<ResourceName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub resource_groups: Option<Vec<ResourceName>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    pub url: String,
    /// Generated secret; only in the response to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    #[serde(default)]
    pub topics: Vec<WebhookTopic>,
    pub types: Vec<EventType>,
    pub statuses: Vec<EventStage>,
    pub machines: Vec<String>,
    pub resource_groups: Vec<String>,
    pub enabled: bool,
    pub retry_seconds: u64,
    pub created: Time,
    pub state: WebhookState,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookState {
    /// Number of deliveries that the receiver accepted.
    pub delivered: u64,
    /// Number of undelivered messages. The last of them are kept.
    pub undelivered: u64,
    /// Number of undelivered messages that are queued for resending.
    pub queued_for_resend: usize,
    /// Number of unprocessed rows of history about events, up to 1000.
    pub behind: usize,
    /// Number of failures since the last success or the start of the server.
    pub failures: u32,
    /// First of these failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failing_since: Option<Time>,
    /// Last success since the start of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<WebhookFailure>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookFailure {
    pub at: Time,
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WebhookTest {
    pub delivered: bool,
    /// Response of the receiver, or why there was none.
    pub message: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct UndeliveredMessage {
    /// The `webhook-id` of every delivery attempt.
    pub id: String,
    /// Empty for a message that is not about an event.
    pub event_id: String,
    /// Event type, or the type of another message.
    #[serde(rename = "type")]
    pub kind: String,
    /// Status of the event, or the change that another message reports.
    pub status: String,
    pub machines: Vec<String>,
    /// Time of the change that the message reports.
    pub happened: Time,
    pub last_attempt: Time,
    /// Reason of the last failed attempt.
    pub failure: String,
}

/// Messages to resend. Default: all undelivered messages.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Resend {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100)]
    pub ids: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Resent {
    /// Number of messages to be resent.
    pub messages: usize,
}
