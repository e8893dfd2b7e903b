//! All web hooks: made, changed and deleted by owners, loaded at start, each given its runner.
//!
//! Changes are made one at a time, and positions are saved between them, so that no position is written for a web hook
//! that has gone.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, HistoryQuery, Owner, StoreError};
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
use crate::engine::{Asked, Bundle, Engine, SubmitError};
use crate::random::random_guid;

const _: () = assert!(WEBHOOKS_MAX <= ATTACHMENTS_PAGE_MAX as usize, "all of them are read at once");

pub(crate) struct Webhooks {
    /// By their names in lower case.
    shelf: Mutex<BTreeMap<String, Arc<Hook>>>,
    changing: tokio::sync::Mutex<()>,
    added: Notify,
    sender: Sender,
}

/// What an owner asks for.
pub(crate) struct NewHook {
    pub name: String,
    pub target: Target,
    pub secret: Secret,
    pub filter: Filter,
    pub switch: Switch,
    pub retry: Duration,
}

/// What is None stays.
pub(crate) struct Change {
    pub target: Option<Target>,
    pub secret: Option<Secret>,
    pub kinds: Option<Vec<Kind>>,
    pub stages: Option<Vec<Stage>>,
    pub machines: Option<Vec<String>>,
    pub resource_groups: Option<Vec<String>>,
    pub switch: Option<Switch>,
    pub retry: Option<Duration>,
}

/// Loads those that are stored. A store whose web hooks cannot be read stops the start.
pub(crate) async fn open(engine: &Engine) -> Result<(), StoreError> {
    let reader = engine.reader();
    let read = tokio::task::spawn_blocking(move || {
        let stored = reader.attachments(Owner::Region, record::DEFINITIONS, None, ATTACHMENTS_PAGE_MAX)?;
        let mut hooks = BTreeMap::new();
        for (_, text) in stored {
            let definition = record::read_definition(&text)?;
            let position = reader.attachment(Owner::Region, &record::position_name(&definition.name))?;
            let position = position.map_or_else(|| Ok(Position::default()), |text| record::read_position(&text))?;
            let kept = given_up::load(&*reader, &definition.name)?;
            hooks.insert(record::key(&definition.name), Arc::new(Hook::new(definition, position, kept)));
        }
        Ok(hooks)
    });
    let hooks = read.await.unwrap_or_else(|_| Err(StoreError::Message("the reader stopped".into())))?;
    *engine.webhooks().shelf() = hooks;
    Ok(())
}

/// Gives every web hook its runner until the server stops.
pub(crate) async fn run(engine: Engine, stop: CancellationToken) {
    let runners = TaskTracker::new();
    loop {
        for hook in engine.webhooks().list() {
            if hook.take_up() {
                runners.spawn(Runner::new(engine.clone(), hook).run(stop.clone()));
            }
        }
        if stop.run_until_cancelled(engine.webhooks().added.notified()).await.is_none() {
            break;
        }
    }
    runners.close();
    runners.wait().await;
}

/// Remembers how far a web hook came, if it is still there.
pub(super) async fn save_position(engine: &Engine, hook: &Hook) -> Result<(), SubmitError> {
    let _turn = engine.webhooks().turn().await;
    if !engine.webhooks().is_there(hook) {
        return Ok(());
    }
    let position = record::put_position(&hook.definition().name, hook.status().position);
    attach(engine, vec![position], None).await
}

pub(super) async fn attach(
    engine: &Engine,
    attachments: Vec<Attachment>,
    asked: Option<Asked>,
) -> Result<(), SubmitError> {
    let attach = Box::new(move |_: &[forewarn_core::Answer]| attachments);
    engine.submit_all(Bundle { commands: Vec::new(), asked, attach }).await.map(drop)
}

impl Webhooks {
    /// A receiver has this long to begin its answer.
    pub fn new(timeout: Duration) -> Webhooks {
        Webhooks {
            shelf: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            added: Notify::new(),
            sender: Sender::new(timeout),
        }
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

impl Engine {
    /// It is told what happens from now on.
    pub(crate) async fn add_webhook(&self, new: NewHook, asked: Asked) -> Result<Arc<Hook>, WebhookError> {
        let webhooks = self.webhooks();
        let _turn = webhooks.turn().await;
        if webhooks.find(&new.name).is_some() {
            return Err(WebhookError::Exists(new.name));
        }
        if webhooks.shelf().len() >= WEBHOOKS_MAX {
            return Err(WebhookError::TooMany);
        }
        let newest = HistoryQuery { newest: true, limit: Some(1), ..HistoryQuery::default() };
        let newest = self.history(newest).await.map_err(unreadable)?;
        let position = Position { after: newest.last().map_or(0, |row| row.number), ..Position::default() };
        let NewHook { name, target, secret, filter, switch, retry } = new;
        let created = self.now();
        let definition = Definition { id: random_guid(), name, target, secret, filter, switch, retry, created };
        let stored = vec![record::put_definition(&definition), record::put_position(&definition.name, position)];
        attach(self, stored, Some(asked)).await?;
        let key = record::key(&definition.name);
        let hook = Arc::new(Hook::new(definition, position, Kept::default()));
        webhooks.shelf().insert(key, hook.clone());
        webhooks.added.notify_one();
        Ok(hook)
    }

    pub(crate) async fn change_webhook(
        &self,
        name: &str,
        change: Change,
        asked: Asked,
    ) -> Result<Arc<Hook>, WebhookError> {
        let webhooks = self.webhooks();
        let _turn = webhooks.turn().await;
        let hook = webhooks.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        let definition = change.of(Definition::clone(&hook.definition()));
        attach(self, vec![record::put_definition(&definition)], Some(asked)).await?;
        hook.redefine(definition);
        Ok(hook)
    }

    pub(crate) async fn remove_webhook(&self, name: &str, asked: Asked) -> Result<(), WebhookError> {
        let webhooks = self.webhooks();
        let _turn = webhooks.turn().await;
        let hook = webhooks.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        attach(self, record::remove(name, &hook.kept().rows), Some(asked)).await?;
        webhooks.shelf().remove(&record::key(name));
        hook.gone.cancel();
        Ok(())
    }

    /// Rows of history about events that a web hook has not dealt with; at most [`BEHIND_MAX`].
    pub(crate) async fn webhook_behind(&self, status: &Status) -> Result<usize, WebhookError> {
        let query = HistoryQuery {
            after: Some(status.position.after),
            kinds: ROW_KINDS.map(String::from).to_vec(),
            limit: Some(BEHIND_MAX),
            ..HistoryQuery::default()
        };
        Ok(self.history(query).await.map_err(unreadable)?.len())
    }

    /// Sends a message that is about nothing, once, whatever the switch says.
    pub(crate) async fn try_webhook(&self, hook: &Hook) -> Result<StatusCode, SendError> {
        let definition = hook.definition();
        let message = telling::trial(&definition.name, random_guid(), self.now());
        self.webhooks().sender.send(&definition.target, &definition.secret, &message).await
    }
}

pub(super) fn unreadable(error: StoreError) -> WebhookError {
    tracing::error!(%error, "history cannot be read");
    WebhookError::Store(error)
}
