//! The webhooks of a server: loads them at startup, creates, changes and deletes them.
//!
//! One lock serializes changes and the saving of positions, so that no position is written for a deleted webhook.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_api_types::WebhookTopic;
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, HistoryQuery, Owner, Reader, StoreError};
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;
use http::StatusCode;
use tokio::sync::Notify;

use super::hook::{HistoryPosition, HookStatus, UndeliveredRows};
use super::metrics::WebhookMetrics;
use super::sender::{SendError, Sender};
use super::{
    BEHIND_MAX, Definition, DeliveryMode, Filter, Hook, ReceiverUrl, SigningSecret, UNDELIVERED_MAX, WEBHOOKS_MAX,
    WebhookError, record,
};
use super::{event_message, message};
use forewarn_access::random_guid;
use forewarn_engine::{AuditEntry, Bundle, Engine, SubmitError};

const _: () = assert!(UNDELIVERED_MAX <= ATTACHMENTS_PAGE_MAX as usize, "all messages fit one page of the store");
const _: () = assert!(WEBHOOKS_MAX <= ATTACHMENTS_PAGE_MAX as usize, "all webhooks fit one page of the store");

pub struct Webhooks {
    /// The webhooks by name, in lower case.
    hooks: Mutex<BTreeMap<String, Arc<Hook>>>,
    changing: tokio::sync::Mutex<()>,
    added: Notify,
    sender: Sender,
    engine: Engine,
    metrics: Arc<WebhookMetrics>,
}

/// A webhook to be created.
pub struct NewHook {
    pub name: String,
    pub url: ReceiverUrl,
    pub secret: SigningSecret,
    pub filter: Filter,
    pub delivery: DeliveryMode,
    pub retry: Duration,
}

/// Changes of a webhook; None keeps the value.
pub struct HookChange {
    pub url: Option<ReceiverUrl>,
    pub secret: Option<SigningSecret>,
    pub topics: Option<Vec<WebhookTopic>>,
    pub kinds: Option<Vec<Kind>>,
    pub stages: Option<Vec<Stage>>,
    pub machines: Option<Vec<String>>,
    pub resource_groups: Option<Vec<String>>,
    pub delivery: Option<DeliveryMode>,
    pub retry: Option<Duration>,
}

impl Webhooks {
    /// Loads the stored webhooks. A receiver must begin its response within `timeout`.
    pub async fn open(engine: Engine, timeout: Duration, metrics: Arc<WebhookMetrics>) -> Result<Webhooks, StoreError> {
        let hooks = engine.read(load).await?;
        Ok(Webhooks {
            hooks: Mutex::new(hooks),
            changing: tokio::sync::Mutex::default(),
            added: Notify::new(),
            sender: Sender::new(timeout),
            engine,
            metrics,
        })
    }

    /// Loads the webhooks again, because another server may have changed them. The runners of the old ones end.
    pub async fn reload(&self) -> Result<(), StoreError> {
        let _guard = self.lock().await;
        let hooks = self.engine.read(load).await?;
        let before = std::mem::replace(&mut *self.hooks(), hooks);
        before.values().for_each(|hook| hook.gone.cancel());
        self.added.notify_one();
        Ok(())
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn metrics(&self) -> &WebhookMetrics {
        &self.metrics
    }

    /// Stores the position of a webhook, if the webhook still exists.
    pub(super) async fn save_position(&self, hook: &Hook) -> Result<(), SubmitError> {
        let _guard = self.lock().await;
        if !self.exists(hook) {
            return Ok(());
        }
        let position = record::put_position(&hook.definition().name, hook.status().position);
        self.attach(vec![position], None).await
    }

    pub(super) async fn attach(
        &self,
        attachments: Vec<Attachment>,
        audit: Option<AuditEntry>,
    ) -> Result<(), SubmitError> {
        let attach = Box::new(move |_: &[forewarn_core::Answer]| attachments);
        self.engine.submit_all(Bundle { commands: Vec::new(), audit, attach }).await.map(drop)
    }

    /// The lock that must be held to change what is stored about webhooks.
    pub(super) async fn lock(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    pub fn list(&self) -> Vec<Arc<Hook>> {
        self.hooks().values().cloned().collect()
    }

    pub fn find(&self, name: &str) -> Option<Arc<Hook>> {
        self.hooks().get(&record::key(name)).cloned()
    }

    /// Whether this webhook has not been deleted or replaced.
    pub(super) fn exists(&self, hook: &Hook) -> bool {
        let definition = hook.definition();
        self.find(&definition.name).is_some_and(|it| it.definition().id == definition.id)
    }

    /// Waits until a webhook was added since the last call.
    pub(super) async fn wait_for_new_hook(&self) {
        self.added.notified().await;
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    fn hooks(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Hook>>> {
        self.hooks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl HookChange {
    fn apply_to(self, old: Definition) -> Definition {
        let filter = Filter {
            topics: self.topics.unwrap_or(old.filter.topics),
            kinds: self.kinds.unwrap_or(old.filter.kinds),
            stages: self.stages.unwrap_or(old.filter.stages),
            machines: self.machines.unwrap_or(old.filter.machines),
            resource_groups: self.resource_groups.unwrap_or(old.filter.resource_groups),
        };
        Definition {
            url: self.url.unwrap_or(old.url),
            secret: self.secret.unwrap_or(old.secret),
            filter,
            delivery: self.delivery.unwrap_or(old.delivery),
            retry: self.retry.unwrap_or(old.retry),
            ..old
        }
    }
}

impl Webhooks {
    /// Creates a webhook that reports changes from now on.
    pub async fn add(&self, new: NewHook, audit: AuditEntry) -> Result<Arc<Hook>, WebhookError> {
        let _guard = self.lock().await;
        if self.find(&new.name).is_some() {
            return Err(WebhookError::Exists(new.name));
        }
        if self.hooks().len() >= WEBHOOKS_MAX {
            return Err(WebhookError::TooMany);
        }
        let newest = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
        let newest = self.engine.history(newest).await.map_err(store_error)?;
        let position =
            HistoryPosition { after: newest.last().map_or(0, |row| row.number), ..HistoryPosition::default() };
        let NewHook { name, url, secret, filter, delivery, retry } = new;
        let created = self.engine.now();
        let definition = Definition { id: random_guid(), name, url, secret, filter, delivery, retry, created };
        let stored = vec![record::put_definition(&definition), record::put_position(&definition.name, position)];
        self.attach(stored, Some(audit)).await?;
        let key = record::key(&definition.name);
        let hook = Arc::new(Hook::new(definition, position, UndeliveredRows::default()));
        self.hooks().insert(key, hook.clone());
        self.added.notify_one();
        Ok(hook)
    }

    pub async fn change(&self, name: &str, change: HookChange, audit: AuditEntry) -> Result<Arc<Hook>, WebhookError> {
        let _guard = self.lock().await;
        let hook = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        let definition = change.apply_to(Definition::clone(&hook.definition()));
        self.attach(vec![record::put_definition(&definition)], Some(audit)).await?;
        hook.redefine(definition);
        Ok(hook)
    }

    pub async fn remove(&self, name: &str, audit: AuditEntry) -> Result<(), WebhookError> {
        let _guard = self.lock().await;
        let hook = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        self.attach(record::remove(name, &hook.undelivered_rows().kept), Some(audit)).await?;
        self.hooks().remove(&record::key(name));
        hook.gone.cancel();
        Ok(())
    }

    /// The number of unprocessed rows on the topics of the webhook, up to [`BEHIND_MAX`].
    pub async fn count_behind(&self, filter: &Filter, status: &HookStatus) -> Result<usize, WebhookError> {
        let topics = WebhookTopic::ALL.iter().filter(|topic| filter.covers(**topic));
        let query = HistoryQuery {
            after: Some(status.position.after),
            kinds: topics.flat_map(|topic| event_message::row_kinds(*topic)).copied().collect(),
            limit: Some(BEHIND_MAX),
            ..HistoryQuery::default()
        };
        Ok(self.engine.history(query).await.map_err(store_error)?.len())
    }

    /// Sends a test message once, even if delivery is paused.
    pub async fn send_test(&self, hook: &Hook) -> Result<StatusCode, SendError> {
        let definition = hook.definition();
        let message = message::test_message(&definition.name, random_guid(), self.engine.now());
        self.sender.send(&definition.url, &definition.secret, &message).await
    }
}

fn load(reader: &dyn Reader) -> Result<BTreeMap<String, Arc<Hook>>, StoreError> {
    let stored = reader.attachments(Owner::Region, record::DEFINITIONS, None, ATTACHMENTS_PAGE_MAX)?;
    let mut hooks = BTreeMap::new();
    for (_, text) in stored {
        let definition = record::read_definition(&text)?;
        let position = reader.attachment(Owner::Region, &record::position_name(&definition.name))?;
        let position = position.map_or_else(|| Ok(HistoryPosition::default()), |text| record::read_position(&text))?;
        let undelivered = record::read_undelivered_rows(reader, &definition.name)?;
        hooks.insert(record::key(&definition.name), Arc::new(Hook::new(definition, position, undelivered)));
    }
    Ok(hooks)
}

pub(super) fn store_error(error: StoreError) -> WebhookError {
    tracing::error!(%error, "cannot read the webhooks from the store");
    WebhookError::Store(error)
}
