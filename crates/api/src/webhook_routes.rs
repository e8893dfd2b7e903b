//! Web hooks over HTTP. A secret is shown once, in the answer that made it, and never again.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use forewarn_core::EventKind;
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;
use http::StatusCode;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::error::{ApiError, Refusal};
use super::extract::{self, Body, NoQuery, Nothing, OptionalBody, Page, Params, Segment};
use super::text::Word;
use super::values::{EventType, Patch, When};
use super::{Api, Note};
use crate::webhooks::{
    Change, Definition, FILTER_ENTRIES_MAX, Filter, Hook, NewHook, RETRY_DEFAULT, RETRY_MAX, Secret, Status, Switch,
    Target, WebhookError,
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewWebhook {
    pub name: Word,
    /// Where deliveries go: http or https.
    pub url: Receiver,
    /// What deliveries are signed with; when left out one is made and shown in the answer.
    pub secret: Option<SigningKey>,
    /// Only events of these types; all when left out.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub types: Vec<EventType>,
    /// Only when an event gets there; always when left out.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub statuses: Vec<StageWord>,
    /// Only events of machines with these names.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub machines: Vec<Word>,
    /// Only events in these resource groups.
    #[serde(default)]
    #[schema(max_items = 100)]
    pub resource_groups: Vec<Word>,
    /// false: nothing is sent until it is true.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// What has become older than this is given up when it cannot be delivered; a day when left out.
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

/// What is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WebhookChange {
    pub url: Option<Receiver>,
    /// `null`: another one is made and shown in the answer.
    #[serde(default)]
    #[schema(value_type = Option<SigningKey>)]
    pub secret: Patch<SigningKey>,
    #[schema(max_items = 100)]
    pub types: Option<Vec<EventType>>,
    #[schema(max_items = 100)]
    pub statuses: Option<Vec<StageWord>>,
    #[schema(max_items = 100)]
    pub machines: Option<Vec<Word>>,
    #[schema(max_items = 100)]
    pub resource_groups: Option<Vec<Word>>,
    pub enabled: Option<bool>,
    #[schema(minimum = 0, maximum = 604_800)]
    pub retry_seconds: Option<u32>,
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Webhook {
    pub name: String,
    pub url: String,
    /// Only in the answer to the request that made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    pub types: Vec<EventType>,
    pub statuses: Vec<StageWord>,
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
    /// Deliveries that the receiver took.
    pub delivered: u64,
    /// Messages that it did not take in time, and not since; the last of them are kept.
    pub given_up: u64,
    /// Messages that were given up and are waiting to be sent again.
    pub again: usize,
    /// Rows of history about events that are not dealt with; at most 1000 are counted.
    pub behind: usize,
    /// Failures since the last success or the start of the server.
    pub failures: u32,
    /// Since the start of the server.
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
    /// What the receiver answered, or why there was no answer.
    pub message: String,
}

/// How far an event is, as web hooks are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub enum StageWord {
    Scheduled,
    Started,
    Completed,
    Canceled,
}

/// The URL of a receiver.
#[derive(Clone, Debug)]
pub struct Receiver(Target);

/// A secret in the form of the Standard Webhooks specification.
#[derive(Clone, Debug)]
pub struct SigningKey(Secret);

impl<'de> Deserialize<'de> for Receiver {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Target::parse(&String::deserialize(deserializer)?).map(Receiver).map_err(D::Error::custom)
    }
}

impl<'de> Deserialize<'de> for SigningKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Secret::parse(&String::deserialize(deserializer)?).map(SigningKey).map_err(D::Error::custom)
    }
}

impl PartialSchema for Receiver {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(Target::PATTERN)).into()
    }
}

impl PartialSchema for SigningKey {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new().schema_type(Type::String).pattern(Some(Secret::PATTERN)).into()
    }
}

impl ToSchema for Receiver {}
impl ToSchema for SigningKey {}

pub async fn list(api: Api, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    let mut value = Vec::new();
    for hook in api.webhooks().list() {
        value.push(shown(&api, &hook, None).await?);
    }
    Ok(extract::ok(Page { value, next: None }))
}

pub async fn create(
    api: Api,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<NewWebhook>,
) -> Result<Response, ApiError> {
    let (secret, made) = match body.secret {
        Some(SigningKey(secret)) => (secret, None),
        None => new_secret(),
    };
    let new = NewHook {
        target: body.url.0,
        secret,
        filter: Filter {
            kinds: few("types", body.types)?.into_iter().map(kind).collect(),
            stages: few("statuses", body.statuses)?.into_iter().map(Stage::from).collect(),
            machines: names("machines", body.machines)?,
            resource_groups: names("resourceGroups", body.resource_groups)?,
        },
        switch: switch(body.enabled),
        retry: retry(body.retry_seconds)?.unwrap_or(RETRY_DEFAULT),
        name: body.name.0,
    };
    let note =
        Note::new("webhook.create", new.name.as_str()).with(serde_json::json!({ "url": new.target.to_string() }));
    let hook = api.webhooks().add(new, api.asked(note)).await?;
    Ok(extract::created(shown(&api, &hook, made).await?))
}

pub async fn get(api: Api, Segment(name): Segment, Params(NoQuery {}): Params<NoQuery>) -> Result<Response, ApiError> {
    Ok(extract::ok(shown(&api, &*found(&api, &name)?, None).await?))
}

pub async fn change(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    Body(body): Body<WebhookChange>,
) -> Result<Response, ApiError> {
    let (secret, made) = match body.secret {
        Patch::Absent => (None, None),
        Patch::Value(SigningKey(secret)) => (Some(secret), None),
        Patch::Null => {
            let (secret, made) = new_secret();
            (Some(secret), made)
        }
    };
    let change = Change {
        target: body.url.map(|url| url.0),
        secret,
        kinds: body.types.map(|types| few("types", types)).transpose()?.map(|it| it.into_iter().map(kind).collect()),
        stages: body
            .statuses
            .map(|statuses| few("statuses", statuses))
            .transpose()?
            .map(|it| it.into_iter().map(Stage::from).collect()),
        machines: body.machines.map(|machines| names("machines", machines)).transpose()?,
        resource_groups: body.resource_groups.map(|groups| names("resourceGroups", groups)).transpose()?,
        switch: body.enabled.map(switch),
        retry: retry(body.retry_seconds)?,
    };
    let note = Note::new("webhook.change", name.as_str());
    let hook = api.webhooks().change(&name, change, api.asked(note)).await?;
    Ok(extract::ok(shown(&api, &hook, made).await?))
}

pub async fn delete(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
) -> Result<Response, ApiError> {
    let note = Note::new("webhook.delete", name.as_str());
    api.webhooks().remove(&name, api.asked(note)).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub async fn test(
    api: Api,
    Segment(name): Segment,
    Params(NoQuery {}): Params<NoQuery>,
    OptionalBody(Nothing {}): OptionalBody<Nothing>,
) -> Result<Response, ApiError> {
    let hook = found(&api, &name)?;
    let tried = api.webhooks().send_test(&hook).await;
    Ok(extract::ok(match tried {
        Ok(status) => WebhookTest { delivered: true, message: format!("The receiver answered {}.", status.as_u16()) },
        Err(error) => WebhookTest { delivered: false, message: error.to_string() },
    }))
}

pub fn found(api: &Api, name: &str) -> Result<std::sync::Arc<Hook>, ApiError> {
    Ok(api.webhooks().find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?)
}

async fn shown(api: &Api, hook: &Hook, secret: Option<String>) -> Result<Webhook, ApiError> {
    let (definition, status) = (hook.definition(), hook.status());
    let behind = api.webhooks().count_behind(&status).await?;
    Ok(Webhook::of(&definition, secret, WebhookState::of(status, hook.again(), behind)))
}

/// One that we make is shown, once.
fn new_secret() -> (Secret, Option<String>) {
    let secret = Secret::random();
    let text = secret.reveal();
    (secret, Some(text))
}

fn few<T>(field: &str, entries: Vec<T>) -> Result<Vec<T>, ApiError> {
    match entries.len() {
        ..=FILTER_ENTRIES_MAX => Ok(entries),
        _ => Err(ApiError::field(field, format!("it may have {FILTER_ENTRIES_MAX} entries"))),
    }
}

fn names(field: &str, entries: Vec<Word>) -> Result<Vec<String>, ApiError> {
    Ok(few(field, entries)?.into_iter().map(|word| word.0).collect())
}

fn retry(seconds: Option<u32>) -> Result<Option<Duration>, ApiError> {
    let retry = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    if retry.is_some_and(|retry| retry > RETRY_MAX) {
        return Err(ApiError::field("retrySeconds", format!("at most {}, which is a week", RETRY_MAX.as_secs())));
    }
    Ok(retry)
}

fn switch(enabled: bool) -> Switch {
    if enabled { Switch::On } else { Switch::Off }
}

fn yes() -> bool {
    true
}

fn kind(word: EventType) -> Kind {
    match EventKind::from(word) {
        EventKind::Freeze => Kind::Freeze,
        EventKind::Reboot => Kind::Reboot,
        EventKind::Redeploy => Kind::Redeploy,
        EventKind::Preempt => Kind::Preempt,
        EventKind::Terminate => Kind::Terminate,
    }
}

/// None: no web hook is for it.
fn type_of(kind: Kind) -> Option<EventType> {
    match kind {
        Kind::Freeze => Some(EventType::Freeze),
        Kind::Reboot => Some(EventType::Reboot),
        Kind::Redeploy => Some(EventType::Redeploy),
        Kind::Preempt => Some(EventType::Preempt),
        Kind::Terminate => Some(EventType::Terminate),
        Kind::Unknown => None,
    }
}

impl Webhook {
    fn of(definition: &Definition, secret: Option<String>, state: WebhookState) -> Webhook {
        let filter = &definition.filter;
        Webhook {
            name: definition.name.clone(),
            url: definition.target.to_string(),
            secret,
            types: filter.kinds.iter().filter_map(|kind| type_of(*kind)).collect(),
            statuses: filter.stages.iter().map(|stage| StageWord::from(*stage)).collect(),
            machines: filter.machines.clone(),
            resource_groups: filter.resource_groups.clone(),
            enabled: definition.switch == Switch::On,
            retry_seconds: definition.retry.as_secs(),
            created: When(definition.created),
            state,
        }
    }
}

impl WebhookState {
    fn of(status: Status, again: usize, behind: usize) -> WebhookState {
        WebhookState {
            delivered: status.position.delivered,
            given_up: status.position.given_up,
            again,
            behind,
            failures: status.failures,
            last_success: status.last_success.map(When),
            last_failure: status.last_failure.map(|it| WebhookFailure { at: When(it.at), message: it.message }),
        }
    }
}

impl From<Stage> for StageWord {
    fn from(stage: Stage) -> Self {
        match stage {
            Stage::Scheduled => StageWord::Scheduled,
            Stage::Started => StageWord::Started,
            Stage::Completed => StageWord::Completed,
            Stage::Canceled => StageWord::Canceled,
        }
    }
}

impl From<StageWord> for Stage {
    fn from(word: StageWord) -> Self {
        match word {
            StageWord::Scheduled => Stage::Scheduled,
            StageWord::Started => Stage::Started,
            StageWord::Completed => Stage::Completed,
            StageWord::Canceled => Stage::Canceled,
        }
    }
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        let message = error.to_string();
        match error {
            WebhookError::Exists(name) => ApiError::new(Refusal::WebhookExists, message).about(name),
            WebhookError::NotFound(name) => ApiError::new(Refusal::WebhookNotFound, message).about(name),
            WebhookError::NotGivenUp(id) => ApiError::new(Refusal::MessageNotGivenUp, message).about(id),
            WebhookError::TooMany => ApiError::new(Refusal::TooManyWebhooks, message),
            WebhookError::Store(_) => ApiError::new(Refusal::StoreUnreadable, message),
            WebhookError::Submit(error) => error.into(),
        }
    }
}
