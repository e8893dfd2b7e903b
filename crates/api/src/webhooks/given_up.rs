//! Messages that were given up: the last of them are kept as they were, to be looked at and, when somebody asks for it, sent
//! again. Each is an attachment of the region, written in the commit that moves the position past it.
//!
//! ```text
//!   too old ─▶ kept ─▶ asked for again ─▶ sent once, before what is new ─▶ 2xx ─▶ delivered
//!               ▲ └─▶ one more than the limit: the oldest goes             │
//!               └──────────── this one, and all behind it ◀── else ────────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_core::Timestamp;
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, StoreError};

use super::hook::{Hook, Kept, Trouble};
use super::keeper::unreadable;
use super::telling::Message;
use super::{WebhookError, Webhooks, record};
use forewarn_engine::{Asked, SubmitError};

/// Kept of each web hook, so that a receiver that never comes back fills nothing. A day of a small fleet.
pub const GIVEN_UP_MAX: usize = 100;
const _: () = assert!(GIVEN_UP_MAX <= ATTACHMENTS_PAGE_MAX as usize, "all of them are read at once");

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GivenUp {
    /// The row of history that it tells of.
    pub row: u64,
    pub message: Message,
    pub at: Timestamp,
    /// Why it could not be delivered, a sentence.
    pub why: String,
}

/// Gives a message up: durable, then visible.
pub(super) async fn give_up(webhooks: &Webhooks, hook: &Hook, given_up: GivenUp) -> Result<(), SubmitError> {
    let _turn = webhooks.turn().await;
    let mut position = hook.status().position;
    position.after = given_up.row;
    position.given_up += 1;
    let mut kept = hook.kept();
    kept.rows.insert(given_up.row);
    let name = &hook.definition().name;
    let mut attachments = vec![record::put_given_up(name, &given_up), record::put_position(name, position)];
    while kept.rows.len() > GIVEN_UP_MAX {
        attachments.extend(kept.rows.pop_first().map(|oldest| record::remove_given_up(name, oldest)));
    }
    commit(webhooks, hook, attachments).await?;
    hook.keep(kept);
    hook.moved(position);
    Ok(())
}

/// The message that is to be sent again next. It may have gone meanwhile, as the oldest.
pub(super) async fn next_again(webhooks: &Webhooks, hook: &Hook) -> Result<Option<(u64, Option<GivenUp>)>, StoreError> {
    let Some(row) = hook.kept().again.first().copied() else { return Ok(None) };
    let name = record::given_up_name(&hook.definition().name, row);
    let text = webhooks.engine().read(move |reader| reader.attachment(Owner::Region, &name)).await?;
    Ok(Some((row, text.map(|text| record::read_given_up(&text)).transpose()?)))
}

/// A message that was given up has been delivered after all.
pub(super) async fn delivered_again(webhooks: &Webhooks, hook: &Hook, row: u64) -> Result<(), SubmitError> {
    let _turn = webhooks.turn().await;
    let mut position = hook.status().position;
    position.delivered += 1;
    position.given_up = position.given_up.saturating_sub(1);
    let mut kept = hook.kept();
    kept.rows.remove(&row);
    kept.again.remove(&row);
    let name = &hook.definition().name;
    let attachments = vec![
        record::remove_given_up(name, row),
        record::put_again(name, &kept.again),
        record::put_position(name, position),
    ];
    commit(webhooks, hook, attachments).await?;
    hook.keep(kept);
    hook.moved(position);
    hook.succeeded(webhooks.engine().now());
    Ok(())
}

/// It has failed once more, or has gone: nothing behind it is tried before somebody asks again.
pub(super) async fn not_again(webhooks: &Webhooks, hook: &Hook, failed: Option<GivenUp>) -> Result<(), SubmitError> {
    let _turn = webhooks.turn().await;
    let mut kept = hook.kept();
    match &failed {
        Some(_) => kept.again.clear(),
        None => drop(kept.again.pop_first()),
    }
    let name = &hook.definition().name;
    let mut attachments = vec![record::put_again(name, &kept.again)];
    attachments.extend(failed.map(|failed| record::put_given_up(name, &failed)));
    commit(webhooks, hook, attachments).await?;
    hook.keep(kept);
    Ok(())
}

/// Nothing is written for a web hook that has gone.
async fn commit(webhooks: &Webhooks, hook: &Hook, attachments: Vec<Attachment>) -> Result<(), SubmitError> {
    if webhooks.is_there(hook) { webhooks.attach(attachments, None).await } else { Ok(()) }
}

/// What the store knows of a web hook's messages.
pub(super) fn load(reader: &dyn forewarn_store::Reader, name: &str) -> Result<Kept, StoreError> {
    let all = stored(reader, name)?;
    let again = reader.attachment(Owner::Region, &record::again_name(name))?;
    let again = again.map_or_else(|| Ok(BTreeSet::new()), |text| record::read_again(&text))?;
    Ok(Kept { rows: all.iter().map(|one| one.row).collect(), again })
}

fn stored(reader: &dyn forewarn_store::Reader, name: &str) -> Result<Vec<GivenUp>, StoreError> {
    let found = reader.attachments(Owner::Region, &record::given_up_below(name), None, ATTACHMENTS_PAGE_MAX)?;
    found.iter().map(|(_, text)| record::read_given_up(text)).collect()
}

impl GivenUp {
    pub fn again(self, trouble: Trouble) -> GivenUp {
        GivenUp { at: trouble.at, why: trouble.message, ..self }
    }
}

impl Webhooks {
    /// The messages that were given up, in the order of history.
    pub async fn list_given_up(&self, hook: &Hook) -> Result<Vec<GivenUp>, WebhookError> {
        let name = hook.definition().name.clone();
        self.engine().read(move |reader| stored(reader, &name)).await.map_err(unreadable)
    }

    /// Lets messages be sent again, these or all; how many they are.
    pub async fn send_again(&self, name: &str, ids: Option<&[String]>, asked: Asked) -> Result<usize, WebhookError> {
        let _turn = self.turn().await;
        let hook: Arc<Hook> = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        let all = self.list_given_up(&hook).await?;
        let wanted: BTreeSet<u64> = match ids {
            None => all.iter().map(|one| one.row).collect(),
            Some(ids) => ids.iter().map(|id| row_of(&all, id)).collect::<Result<_, _>>()?,
        };
        let mut kept = hook.kept();
        kept.again.extend(&wanted);
        self.attach(vec![record::put_again(name, &kept.again)], Some(asked)).await?;
        hook.keep(kept);
        hook.changed.notify_one();
        Ok(wanted.len())
    }
}

fn row_of(all: &[GivenUp], id: &str) -> Result<u64, WebhookError> {
    let found = all.iter().find(|one| one.message.id.eq_ignore_ascii_case(id));
    found.map(|one| one.row).ok_or_else(|| WebhookError::NotGivenUp(id.into()))
}
