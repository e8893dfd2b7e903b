//! All web hooks: made, changed and deleted by owners, loaded at start, each given its runner.
//!
//! Changes are made one at a time, and positions are saved between them, so that no position is written for a web hook
//! that has gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, HistoryQuery, Owner, Reader, StoreError};
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;
use http::StatusCode;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::given_up;
use super::hook::{Kept, Position, Status};
use super::runner::Runner;
use super::sender::{SendError, Sender};
use super::telling::{self, ROW_KINDS};
use super::{BEHIND_MAX, Definition, Filter, Hook, Secret, Switch, Target, WEBHOOKS_MAX, WebhookError, record};
use crate::ApiMetrics;
use forewarn_access::random_guid;
use forewarn_engine::{Asked, Bundle, Engine, SubmitError};

const _: () = assert!(WEBHOOKS_MAX <= ATTACHMENTS_PAGE_MAX as usize, "all of them are read at once");

pub struct Webhooks {
    /// By their names in lower case.
    shelf: Mutex<BTreeMap<String, Arc<Hook>>>,
    changing: tokio::sync::Mutex<()>,
    added: Notify,
    sender: Sender,
    engine: Engine,
    metrics: Arc<ApiMetrics>,
}

/// What an owner asks for.
pub struct NewHook {
    pub name: String,
    pub target: Target,
    pub secret: Secret,
    pub filter: Filter,
    pub switch: Switch,
    pub retry: Duration,
}

/// What is None stays.
pub struct Change {
    pub target: Option<Target>,
    pub secret: Option<Secret>,
    pub kinds: Option<Vec<Kind>>,
    pub stages: Option<Vec<Stage>>,
    pub machines: Option<Vec<String>>,
    pub resource_groups: Option<Vec<String>>,
    pub switch: Option<Switch>,
    pub retry: Option<Duration>,
}

impl Webhooks {
    /// Loads the stored webhooks. A receiver must begin its response within `timeout`.
    pub async fn open(engine: Engine, timeout: Duration, metrics: Arc<ApiMetrics>) -> Result<Webhooks, StoreError> {
        let hooks = engine.read(load).await?;
        Ok(Webhooks {
            shelf: Mutex::new(hooks),
            changing: tokio::sync::Mutex::default(),
            added: Notify::new(),
            sender: Sender::new(timeout),
            engine,
            metrics,
        })
    }

    /// Gives every webhook its runner until the server stops.
    pub async fn run(self: Arc<Self>, stop: CancellationToken) {
        let runners = TaskTracker::new();
        loop {
            for hook in self.list() {
                if hook.take_up() {
                    runners.spawn(Runner::new(self.clone(), hook).run(stop.clone()));
                }
            }
            if stop.run_until_cancelled(self.added.notified()).await.is_none() {
                break;
            }
        }
        runners.close();
        runners.wait().await;
    }

    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) fn metrics(&self) -> &ApiMetrics {
        &self.metrics
    }

    /// Stores the position of a webhook, if the webhook still exists.
    pub(super) async fn save_position(&self, hook: &Hook) -> Result<(), SubmitError> {
        let _turn = self.turn().await;
        if !self.is_there(hook) {
            return Ok(());
        }
        let position = record::put_position(&hook.definition().name, hook.status().position);
        self.attach(vec![position], None).await
    }

    pub(super) async fn attach(&self, attachments: Vec<Attachment>, asked: Option<Asked>) -> Result<(), SubmitError> {
        let attach = Box::new(move |_: &[forewarn_core::Answer]| attachments);
        self.engine.submit_all(Bundle { commands: Vec::new(), asked, attach }).await.map(drop)
    }

    /// Who changes what is stored of web hooks has it.
    pub(super) async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.changing.lock().await
    }

    pub fn list(&self) -> Vec<Arc<Hook>> {
        self.shelf().values().cloned().collect()
    }

    pub fn find(&self, name: &str) -> Option<Arc<Hook>> {
        self.shelf().get(&record::key(name)).cloned()
    }

    /// Whether it is the one of its name that there is now.
    pub(super) fn is_there(&self, hook: &Hook) -> bool {
        let definition = hook.definition();
        self.find(&definition.name).is_some_and(|it| it.definition().id == definition.id)
    }

    pub(super) fn sender(&self) -> &Sender {
        &self.sender
    }

    fn shelf(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Hook>>> {
        self.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Change {
    fn of(self, old: Definition) -> Definition {
        let filter = Filter {
            kinds: self.kinds.unwrap_or(old.filter.kinds),
            stages: self.stages.unwrap_or(old.filter.stages),
            machines: self.machines.unwrap_or(old.filter.machines),
            resource_groups: self.resource_groups.unwrap_or(old.filter.resource_groups),
        };
        Definition {
            target: self.target.unwrap_or(old.target),
            secret: self.secret.unwrap_or(old.secret),
            filter,
            switch: self.switch.unwrap_or(old.switch),
            retry: self.retry.unwrap_or(old.retry),
            ..old
        }
    }
}

impl Webhooks {
    /// It is told what happens from now on.
    pub async fn add(&self, new: NewHook, asked: Asked) -> Result<Arc<Hook>, WebhookError> {
        let _turn = self.turn().await;
        if self.find(&new.name).is_some() {
            return Err(WebhookError::Exists(new.name));
        }
        if self.shelf().len() >= WEBHOOKS_MAX {
            return Err(WebhookError::TooMany);
        }
        let newest = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
        let newest = self.engine.history(newest).await.map_err(unreadable)?;
        let position = Position { after: newest.last().map_or(0, |row| row.number), ..Position::default() };
        let NewHook { name, target, secret, filter, switch, retry } = new;
        let created = self.engine.now();
        let definition = Definition { id: random_guid(), name, target, secret, filter, switch, retry, created };
        let stored = vec![record::put_definition(&definition), record::put_position(&definition.name, position)];
        self.attach(stored, Some(asked)).await?;
        let key = record::key(&definition.name);
        let hook = Arc::new(Hook::new(definition, position, Kept::default()));
        self.shelf().insert(key, hook.clone());
        self.added.notify_one();
        Ok(hook)
    }

    pub async fn change(&self, name: &str, change: Change, asked: Asked) -> Result<Arc<Hook>, WebhookError> {
        let _turn = self.turn().await;
        let hook = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        let definition = change.of(Definition::clone(&hook.definition()));
        self.attach(vec![record::put_definition(&definition)], Some(asked)).await?;
        hook.redefine(definition);
        Ok(hook)
    }

    pub async fn remove(&self, name: &str, asked: Asked) -> Result<(), WebhookError> {
        let _turn = self.turn().await;
        let hook = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        self.attach(record::remove(name, &hook.kept().rows), Some(asked)).await?;
        self.shelf().remove(&record::key(name));
        hook.gone.cancel();
        Ok(())
    }

    /// Rows of history about events that a web hook has not dealt with; at most [`BEHIND_MAX`].
    pub async fn count_behind(&self, status: &Status) -> Result<usize, WebhookError> {
        let query = HistoryQuery {
            after: Some(status.position.after),
            kinds: ROW_KINDS.map(String::from).to_vec(),
            limit: Some(BEHIND_MAX),
            ..HistoryQuery::default()
        };
        Ok(self.engine.history(query).await.map_err(unreadable)?.len())
    }

    /// Sends a message that is about nothing, once, whatever the switch says.
    pub async fn send_test(&self, hook: &Hook) -> Result<StatusCode, SendError> {
        let definition = hook.definition();
        let message = telling::trial(&definition.name, random_guid(), self.engine.now());
        self.sender.send(&definition.target, &definition.secret, &message).await
    }
}

fn load(reader: &dyn Reader) -> Result<BTreeMap<String, Arc<Hook>>, StoreError> {
    let stored = reader.attachments(Owner::Region, record::DEFINITIONS, None, ATTACHMENTS_PAGE_MAX)?;
    let mut hooks = BTreeMap::new();
    for (_, text) in stored {
        let definition = record::read_definition(&text)?;
        let position = reader.attachment(Owner::Region, &record::position_name(&definition.name))?;
        let position = position.map_or_else(|| Ok(Position::default()), |text| record::read_position(&text))?;
        let kept = given_up::load(reader, &definition.name)?;
        hooks.insert(record::key(&definition.name), Arc::new(Hook::new(definition, position, kept)));
    }
    Ok(hooks)
}

pub(super) fn unreadable(error: StoreError) -> WebhookError {
    tracing::error!(%error, "history cannot be read");
    WebhookError::Store(error)
}
