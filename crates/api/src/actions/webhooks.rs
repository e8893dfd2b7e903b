//! Creates, changes, deletes and tests webhooks, and resends the messages that they could not deliver. A generated secret is
//! only in the result of the action that created it.

use std::sync::Arc;
use std::time::Duration;

use forewarn_api_types::{
    EventStage, EventType, NewWebhook, Nullable, Resend, Resent, ResourceName, Webhook, WebhookChange, WebhookFailure,
    WebhookSecret, WebhookState, WebhookTest, WebhookTopic, WebhookUrl,
};
use forewarn_render::Convert;
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;

use crate::Actions;
use crate::action::Action;
use crate::audit_detail::AuditDetail;
use crate::error::{ApiError, ErrorCode};
use forewarn_webhooks::{
    Definition, DeliveryMode, FILTER_ENTRIES_MAX, Filter, Hook, HookChange, HookStatus, NewHook, RETRY_DEFAULT,
    RETRY_MAX, ReceiverUrl, SigningSecret, UNDELIVERED_MAX, WebhookError,
};

impl Actions {
    pub async fn create_webhook(&self, new: NewWebhook) -> Result<Webhook, ApiError> {
        let permit = self.permit(Action::CreateWebhook)?;
        let (secret, generated) = match new.secret {
            Some(secret) => (parse_secret(&secret)?, None),
            None => new_secret(),
        };
        let new = NewHook {
            url: parse_url(&new.url)?,
            secret,
            filter: Filter {
                topics: limited("topics", new.topics)?,
                kinds: kinds(new.types)?,
                stages: stages(new.statuses)?,
                machines: names("machines", new.machines)?,
                resource_groups: names("resourceGroups", new.resource_groups)?,
            },
            delivery: delivery(new.enabled),
            retry: parse_retry(new.retry_seconds)?.unwrap_or(RETRY_DEFAULT),
            name: new.name.0,
        };
        let note = permit.note(new.name.as_str()).with(AuditDetail::Webhook { url: new.url.to_string() });
        let hook = self.webhooks().add(new, self.audit(note)).await?;
        self.render_webhook(&hook, generated).await
    }

    pub async fn list_webhooks(&self) -> Result<Vec<Webhook>, ApiError> {
        let mut found = Vec::new();
        for hook in self.webhooks().list() {
            found.push(self.render_webhook(&hook, None).await?);
        }
        Ok(found)
    }

    pub async fn change_webhook(&self, name: &str, given: WebhookChange) -> Result<Webhook, ApiError> {
        let permit = self.permit(Action::ChangeWebhook)?;
        let (secret, generated) = match given.secret {
            Nullable::Absent => (None, None),
            Nullable::Value(secret) => (Some(parse_secret(&secret)?), None),
            Nullable::Null => {
                let (secret, generated) = new_secret();
                (Some(secret), generated)
            }
        };
        let change = HookChange {
            url: given.url.as_ref().map(parse_url).transpose()?,
            secret,
            topics: given.topics.map(|topics| limited("topics", topics)).transpose()?,
            kinds: given.types.map(kinds).transpose()?,
            stages: given.statuses.map(stages).transpose()?,
            machines: given.machines.map(|machines| names("machines", machines)).transpose()?,
            resource_groups: given.resource_groups.map(|groups| names("resourceGroups", groups)).transpose()?,
            delivery: given.enabled.map(delivery),
            retry: parse_retry(given.retry_seconds)?,
        };
        let hook = self.webhooks().change(name, change, self.audit(permit.note(name))).await?;
        self.render_webhook(&hook, generated).await
    }

    pub async fn delete_webhook(&self, name: &str) -> Result<(), ApiError> {
        let note = self.permit(Action::DeleteWebhook)?.note(name);
        Ok(self.webhooks().remove(name, self.audit(note)).await?)
    }

    /// Sends a test message once.
    pub async fn test_webhook(&self, name: &str) -> Result<WebhookTest, ApiError> {
        self.permit(Action::TestWebhook)?;
        let hook = self.find_webhook(name)?;
        Ok(match self.webhooks().send_test(&hook).await {
            Ok(status) => WebhookTest {
                delivered: true,
                message: format!("The receiver responded with status {}.", status.as_u16()),
            },
            Err(error) => WebhookTest { delivered: false, message: error.to_string() },
        })
    }

    /// Resends undelivered messages, each once.
    pub async fn resend_messages(&self, name: &str, Resend { ids }: Resend) -> Result<Resent, ApiError> {
        let note = self.permit(Action::ResendMessages)?.note(name);
        if ids.as_ref().is_some_and(|ids| ids.len() > UNDELIVERED_MAX) {
            return Err(ApiError::field("ids", format!("has more than {UNDELIVERED_MAX} entries")));
        }
        let messages = self.webhooks().resend(name, ids.as_deref(), self.audit(note)).await?;
        Ok(Resent { messages })
    }

    pub(crate) fn find_webhook(&self, name: &str) -> Result<Arc<Hook>, ApiError> {
        Ok(self.webhooks().find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?)
    }

    pub(crate) async fn render_webhook(&self, hook: &Hook, secret: Option<String>) -> Result<Webhook, ApiError> {
        let (definition, status) = (hook.definition(), hook.status());
        let behind = self.webhooks().count_behind(&definition.filter, &status).await?;
        Ok(render_definition(&definition, secret, render_status(status, hook.resend_count(), behind)))
    }
}

fn parse_url(url: &WebhookUrl) -> Result<ReceiverUrl, ApiError> {
    ReceiverUrl::parse(&url.0).map_err(|problem| invalid_text("url", &problem))
}

fn parse_secret(secret: &WebhookSecret) -> Result<SigningSecret, ApiError> {
    SigningSecret::parse(&secret.0).map_err(|problem| invalid_text("secret", &problem))
}

fn invalid_text(field: &str, problem: &str) -> ApiError {
    ApiError::new(ErrorCode::InvalidField, format!("The body: {field}: {problem}.")).with_target(field)
}

/// A new secret and its text for the response.
fn new_secret() -> (SigningSecret, Option<String>) {
    let secret = SigningSecret::random();
    let text = secret.reveal();
    (secret, Some(text))
}

fn kinds(types: Vec<EventType>) -> Result<Vec<Kind>, ApiError> {
    Ok(limited("types", types)?.into_iter().map(Kind::from).collect())
}

fn stages(statuses: Vec<EventStage>) -> Result<Vec<Stage>, ApiError> {
    Ok(limited("statuses", statuses)?.into_iter().map(Convert::convert).collect())
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

fn delivery(enabled: bool) -> DeliveryMode {
    if enabled { DeliveryMode::Enabled } else { DeliveryMode::Paused }
}

fn render_definition(definition: &Definition, secret: Option<String>, state: WebhookState) -> Webhook {
    let filter = &definition.filter;
    Webhook {
        name: definition.name.clone(),
        url: definition.url.to_string(),
        secret,
        topics: WebhookTopic::ALL.iter().copied().filter(|topic| filter.covers(*topic)).collect(),
        types: filter.kinds.iter().filter_map(|kind| EventType::of_kind(*kind)).collect(),
        statuses: filter.stages.iter().map(|stage| stage.convert()).collect(),
        machines: filter.machines.clone(),
        resource_groups: filter.resource_groups.clone(),
        enabled: definition.delivery == DeliveryMode::Enabled,
        retry_seconds: definition.retry.as_secs(),
        created: definition.created.convert(),
        state,
    }
}

fn render_status(status: HookStatus, resends: usize, behind: usize) -> WebhookState {
    WebhookState {
        delivered: status.position.delivered,
        undelivered: status.position.undelivered,
        queued_for_resend: resends,
        behind,
        failures: status.failures,
        failing_since: status.failing_since.map(Convert::convert),
        last_success: status.last_success.map(Convert::convert),
        last_failure: status.last_failure.map(|it| WebhookFailure { at: it.at.convert(), message: it.message }),
    }
}

impl From<WebhookError> for ApiError {
    fn from(error: WebhookError) -> Self {
        let message = error.to_string();
        match error {
            WebhookError::Exists(name) => ApiError::new(ErrorCode::WebhookExists, message).with_target(name),
            WebhookError::NotFound(name) => ApiError::new(ErrorCode::WebhookNotFound, message).with_target(name),
            WebhookError::MessageNotFound(id) => {
                ApiError::new(ErrorCode::UndeliveredMessageNotFound, message).with_target(id)
            }
            WebhookError::TooMany => ApiError::new(ErrorCode::TooManyWebhooks, message),
            WebhookError::Store(_) => ApiError::new(ErrorCode::StoreUnreadable, message),
            WebhookError::Submit(error) => error.into(),
        }
    }
}
