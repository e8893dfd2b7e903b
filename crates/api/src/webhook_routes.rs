//! Handlers of webhooks. A generated secret is only in the response to the request that created it.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;
use http::StatusCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::error::{ApiError, ErrorCode};
use super::extract::{self, Body, EmptyBody, NoQuery, OptionalBody, Page, Params, Segment};
use super::text::ResourceName;
use super::values::{EventType, Nullable, When, mirror};
use super::{Api, AuditNote};
use crate::webhooks::{
    Definition, Delivery, FILTER_ENTRIES_MAX, Filter, Hook, HookChange, HookStatus, NewHook, RETRY_DEFAULT, RETRY_MAX,
    ReceiverUrl, SigningSecret, WebhookError,
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhook {
    pub name: ResourceName,
    /// URL of the receiver, http or https.
    pub url: ReceiverUrl,
    /// Secret for signing deliveries. Default: a new one, which is in the response.
    pub secret: Option<SigningSecret>,
    /// Event types to report. Default: all.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub types: Vec<EventType>,
    /// Statuses to report. Default: all.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub statuses: Vec<EventStage>,
    /// Report only events of machines with these names.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub machines: Vec<ResourceName>,
    /// Report only events in these resource groups.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub resource_groups: Vec<ResourceName>,
    /// Whether deliveries are sent. Changes meanwhile are sent when it is enabled again.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Age at which an undelivered message is given up. Default: one day.
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

/// Changes of a webhook; omitted fields keep their values.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookChange {
    pub url: Option<ReceiverUrl>,
    /// Use `null` to generate a new secret, which is in the response.
    #[serde(default)]
    #[schema(value_type = Option<SigningSecret>)]
    pub secret: Nullable<SigningSecret>,
    #[schema(max_items = 100)]
    pub types: Option<Vec<EventType>>,
    #[schema(max_items = 100)]
    pub statuses: Option<Vec<EventStage>>,
    #[schema(max_items = 100)]
    pub machines: Option<Vec<ResourceName>>,
    #[schema(max_items = 100)]
    pub resource_groups: Option<Vec<ResourceName>>,
    pub enabled: Option<bool>,
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    pub url: String,
    /// Generated secret; only in the response to the request that created it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub types: Vec<EventType>,
    pub statuses: Vec<EventStage>,
    pub machines: Vec<String>,
    pub resource_groups: Vec<String>,
    pub enabled: bool,
    pub retry_seconds: u64,
    pub created: When,
    pub state: WebhookState,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WebhookState {
    /// Number of deliveries that the receiver accepted.
    pub delivered: u64,
    /// Number of messages that were given up and not delivered since. The last of them are kept.
    pub given_up: u64,
    /// Number of given-up messages that are queued for resending.
    pub again: usize,
    /// Number of unprocessed rows of history about events, up to 1000.
    pub behind: usize,
    /// Number of failures since the last success or the start of the server.
    pub failures: u32,
    /// Last success since the start of the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_success: Option<When>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<WebhookFailure>,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookFailure {
    pub at: When,
    pub message: String,
}

#[derive(Debug, Serialize, ToSchema)]
pub struct WebhookTest {
    pub delivered: bool,
    /// Response of the receiver, or why there was none.
    pub message: String,
}

mirror!(
    /// The status of an event, as webhooks report it.
    EventStage = Stage { Scheduled, Started, Completed, Canceled }
);

impl<'de> Deserialize<'de> for ReceiverUrl {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ReceiverUrl::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SigningSecret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        SigningSecret::parse(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl PartialSchema for ReceiverUrl {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(ReceiverUrl::PATTERN)).into()
    }
}

impl PartialSchema for SigningSecret {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(SigningSecret::PATTERN)).into()
    }
}

impl ToSchema for ReceiverUrl {}
impl ToSchema for SigningSecret {}

pub async fn list(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let mut value = Vec::new();
    for hook in api.webhooks().list() {
        value.push(render(&api, &hook, None).await?);
    }
    Ok(extract::ok(Page { value, next: None }))
}

pub async fn create(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewWebhook>,
) -> Result<Response, ApiError> {
    let (secret, generated) = match body.secret {
        Some(secret) => (secret, None),
        None => new_secret(),
    };
    let new = NewHook {
        url: body.url,
        secret,
        filter: Filter {
            kinds: limited("types", body.types)?.into_iter().map(Kind::from).collect(),
            stages: limited("statuses", body.statuses)?.into_iter().map(Stage::from).collect(),
            machines: names("machines", body.machines)?,
            resource_groups: names("resourceGroups", body.resource_groups)?,
        },
        delivery: delivery(body.enabled),
        retry: parse_retry(body.retry_seconds)?.unwrap_or(RETRY_DEFAULT),
        name: body.name.0,
    };
    let note =
        AuditNote::new("webhook.create", new.name.as_str()).with(serde_json::json!({ "url": new.url.to_string() }));
    let hook = api.webhooks().add(new, api.audit(note)).await?;
    Ok(extract::created(render(&api, &hook, generated).await?))
}

pub async fn get(api: Api, Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    Ok(extract::ok(render(&api, &*find_webhook(&api, &name)?, None).await?))
}

pub async fn change(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<WebhookChange>,
) -> Result<Response, ApiError> {
    let (secret, generated) = match body.secret {
        Nullable::Absent => (None, None),
        Nullable::Value(secret) => (Some(secret), None),
        Nullable::Null => {
            let (secret, generated) = new_secret();
            (Some(secret), generated)
        }
    };
    let change = HookChange {
        url: body.url,
        secret,
        kinds: body
            .types
            .map(|types| limited("types", types))
            .transpose()?
            .map(|it| it.into_iter().map(Kind::from).collect()),
        stages: body
            .statuses
            .map(|statuses| limited("statuses", statuses))
            .transpose()?
            .map(|it| it.into_iter().map(Stage::from).collect()),
        machines: body.machines.map(|machines| names("machines", machines)).transpose()?,
        resource_groups: body.resource_groups.map(|groups| names("resourceGroups", groups)).transpose()?,
        delivery: body.enabled.map(delivery),
        retry: parse_retry(body.retry_seconds)?,
    };
    let note = AuditNote::new("webhook.change", name.as_str());
    let hook = api.webhooks().change(&name, change, api.audit(note)).await?;
    Ok(extract::ok(render(&api, &hook, generated).await?))
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let note = AuditNote::new("webhook.delete", name.as_str());
    api.webhooks().remove(&name, api.audit(note)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn test(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(EmptyBody {}): OptionalBody<EmptyBody>,
) -> Result<Response, ApiError> {
    let hook = find_webhook(&api, &name)?;
    let result = api.webhooks().send_test(&hook).await;
    Ok(extract::ok(match result {
        Ok(status) => {
            WebhookTest { delivered: true, message: format!("The receiver responded with status {}.", status.as_u16()) }
        }
        Err(error) => WebhookTest { delivered: false, message: error.to_string() },
    }))
}

pub fn find_webhook(api: &Api, name: &str) -> Result<std::sync::Arc<Hook>, ApiError> {
    Ok(api.webhooks().find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?)
}

async fn render(api: &Api, hook: &Hook, secret: Option<String>) -> Result<Webhook, ApiError> {
    let (definition, status) = (hook.definition(), hook.status());
    let behind = api.webhooks().count_behind(&status).await?;
    Ok(Webhook::of(&definition, secret, WebhookState::of(status, hook.resend_count(), behind)))
}

/// A new secret and its text for the response.
fn new_secret() -> (SigningSecret, Option<String>) {
    let secret = SigningSecret::random();
    let text = secret.reveal();
    (secret, Some(text))
}

/// Checks the length of a list.
fn limited<T>(field: &str, entries: Vec<T>) -> Result<Vec<T>, ApiError> {
    match entries.len() {
        ..=FILTER_ENTRIES_MAX => Ok(entries),
        _ => Err(ApiError::field(field, format!("has more than {FILTER_ENTRIES_MAX} entries"))),
    }
}

fn names(field: &str, entries: Vec<ResourceName>) -> Result<Vec<String>, ApiError> {
    Ok(limited(field, entries)?.into_iter().map(|name| name.0).collect())
}

fn parse_retry(seconds: Option<u32>) -> Result<Option<Duration>, ApiError> {
    let retry = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    if retry.is_some_and(|retry| retry > RETRY_MAX) {
        return Err(ApiError::field(
            "retrySeconds",
            format!("must be at most {}, which is a week", RETRY_MAX.as_secs()),
        ));
    }
    Ok(retry)
}

fn delivery(enabled: bool) -> Delivery {
    if enabled { Delivery::Enabled } else { Delivery::Paused }
}

fn yes() -> bool {
    true
}

impl Webhook {
    fn of(definition: &Definition, secret: Option<String>, state: WebhookState) -> Webhook {
        let filter = &definition.filter;
        Webhook {
            name: definition.name.clone(),
            url: definition.url.to_string(),
            secret,
            types: filter.kinds.iter().filter_map(|kind| EventType::of_kind(*kind)).collect(),
            statuses: filter.stages.iter().map(|stage| EventStage::from(*stage)).collect(),
            machines: filter.machines.clone(),
            resource_groups: filter.resource_groups.clone(),
            enabled: definition.delivery == Delivery::Enabled,
            retry_seconds: definition.retry.as_secs(),
            created: When(definition.created),
            state,
        }
    }
}

impl WebhookState {
    fn of(status: HookStatus, resends: usize, behind: usize) -> WebhookState {
        WebhookState {
            delivered: status.position.delivered,
            given_up: status.position.given_up,
            again: resends,
            behind,
            failures: status.failures,
            last_success: status.last_success.map(When),
            last_failure: status.last_failure.map(|it| WebhookFailure { at: When(it.at), message: it.message }),
        }
    }
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        let message = error.to_string();
        match error {
            WebhookError::Exists(name) => ApiError::new(ErrorCode::WebhookExists, message).with_target(name),
            WebhookError::NotFound(name) => ApiError::new(ErrorCode::WebhookNotFound, message).with_target(name),
            WebhookError::NotGivenUp(id) => ApiError::new(ErrorCode::MessageNotGivenUp, message).with_target(id),
            WebhookError::TooMany => ApiError::new(ErrorCode::TooManyWebhooks, message),
            WebhookError::Store(_) => ApiError::new(ErrorCode::StoreUnreadable, message),
            WebhookError::Submit(error) => error.into(),
        }
    }
}
