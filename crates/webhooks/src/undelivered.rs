//! Messages that could not be delivered. The last ones are kept, so that they can be inspected and resent on request. Each is an
//! attachment of the region, written in the commit that moves the position past it.
//!
//! ```text
//!   too old ─▶ kept ─▶ resend requested ─▶ sent once, before new messages ─▶ 2xx ─▶ delivered
//!               ▲ └─▶ above the limit: the oldest is dropped                │
//!               └──────────── this one and all queued after it ◀── else ────┘
//! ```

use std::collections::BTreeSet;
use std::sync::Arc;

use forewarn_store::{Attachment, Owner, StoreError};

use super::hook::{Hook, Undelivered};
use super::registry::store_error;
use super::{UNDELIVERED_MAX, WebhookError, Webhooks, record};
use forewarn_engine::{AuditEntry, SubmitError};

/// Gives up a message: first in the store, then in memory.
pub(super) async fn give_up(webhooks: &Webhooks, hook: &Hook, undelivered: Undelivered) -> Result<(), SubmitError> {
    let _guard = webhooks.lock().await;
    let mut position = hook.status().position;
    position.after = undelivered.row;
    position.undelivered += 1;
    let mut rows = hook.undelivered_rows();
    rows.kept.insert(undelivered.row);
    let name = &hook.definition().name;
    let mut attachments = vec![record::put_undelivered(name, &undelivered), record::put_position(name, position)];
    while rows.kept.len() > UNDELIVERED_MAX {
        attachments.extend(rows.kept.pop_first().map(|oldest| record::remove_undelivered(name, oldest)));
    }
    commit(webhooks, hook, attachments).await?;
    hook.set_undelivered_rows(rows);
    hook.set_position(position);
    Ok(())
}

/// The row and message to resend next. The message is None if it was dropped meanwhile.
pub(super) async fn next_resend(
    webhooks: &Webhooks,
    hook: &Hook,
) -> Result<Option<(u64, Option<Undelivered>)>, StoreError> {
    let Some(row) = hook.undelivered_rows().resend.first().copied() else { return Ok(None) };
    let name = record::undelivered_name(&hook.definition().name, row);
    let text = webhooks.engine().read(move |reader| reader.attachment(Owner::Region, &name)).await?;
    Ok(Some((row, text.map(|text| record::read_undelivered(&text)).transpose()?)))
}

/// Records that a resent message was delivered.
pub(super) async fn finish_resend(webhooks: &Webhooks, hook: &Hook, row: u64) -> Result<(), SubmitError> {
    let _guard = webhooks.lock().await;
    let mut position = hook.status().position;
    position.delivered += 1;
    position.undelivered = position.undelivered.saturating_sub(1);
    let mut rows = hook.undelivered_rows();
    rows.kept.remove(&row);
    rows.resend.remove(&row);
    let name = &hook.definition().name;
    let attachments = vec![
        record::remove_undelivered(name, row),
        record::put_resend(name, &rows.resend),
        record::put_position(name, position),
    ];
    commit(webhooks, hook, attachments).await?;
    hook.set_undelivered_rows(rows);
    hook.set_position(position);
    hook.record_success(webhooks.engine().now());
    Ok(())
}

/// Removes a message from the queue that was dropped after it was queued.
pub(super) async fn skip_resend(webhooks: &Webhooks, hook: &Hook, row: u64) -> Result<(), SubmitError> {
    cancel_resend(webhooks, hook, &BTreeSet::from([row]), None).await
}

/// Records that resending a message failed. The messages that were queued with it are not sent either; those that were queued
/// meanwhile are.
pub(super) async fn fail_resend(
    webhooks: &Webhooks,
    hook: &Hook,
    queued: &BTreeSet<u64>,
    failed: Undelivered,
) -> Result<(), SubmitError> {
    cancel_resend(webhooks, hook, queued, Some(failed)).await
}

async fn cancel_resend(
    webhooks: &Webhooks,
    hook: &Hook,
    canceled: &BTreeSet<u64>,
    failed: Option<Undelivered>,
) -> Result<(), SubmitError> {
    let _guard = webhooks.lock().await;
    let mut rows = hook.undelivered_rows();
    rows.resend.retain(|row| !canceled.contains(row));
    let name = &hook.definition().name;
    let mut attachments = vec![record::put_resend(name, &rows.resend)];
    attachments.extend(failed.map(|failed| record::put_undelivered(name, &failed)));
    commit(webhooks, hook, attachments).await?;
    hook.set_undelivered_rows(rows);
    Ok(())
}

/// Writes attachments unless the webhook has been deleted.
async fn commit(webhooks: &Webhooks, hook: &Hook, attachments: Vec<Attachment>) -> Result<(), SubmitError> {
    if webhooks.exists(hook) { webhooks.attach(attachments, None).await } else { Ok(()) }
}

impl Webhooks {
    /// The undelivered messages in the order of history.
    pub async fn list_undelivered(&self, hook: &Hook) -> Result<Vec<Undelivered>, WebhookError> {
        let name = hook.definition().name.clone();
        self.engine().read(move |reader| record::read_all_undelivered(reader, &name)).await.map_err(store_error)
    }

    /// Queues messages for resending, all of them if no IDs are given. Returns their number.
    pub async fn resend(&self, name: &str, ids: Option<&[String]>, audit: AuditEntry) -> Result<usize, WebhookError> {
        let _guard = self.lock().await;
        let hook: Arc<Hook> = self.find(name).ok_or_else(|| WebhookError::NotFound(name.into()))?;
        let all = self.list_undelivered(&hook).await?;
        let wanted: BTreeSet<u64> = match ids {
            None => all.iter().map(|message| message.row).collect(),
            Some(ids) => ids.iter().map(|id| row_of(&all, id)).collect::<Result<_, _>>()?,
        };
        let mut rows = hook.undelivered_rows();
        rows.resend.extend(&wanted);
        self.attach(vec![record::put_resend(name, &rows.resend)], Some(audit)).await?;
        hook.set_undelivered_rows(rows);
        hook.changed.notify_one();
        Ok(wanted.len())
    }
}

fn row_of(all: &[Undelivered], id: &str) -> Result<u64, WebhookError> {
    let found = all.iter().find(|undelivered| undelivered.message.id.eq_ignore_ascii_case(id));
    found.map(|undelivered| undelivered.row).ok_or_else(|| WebhookError::MessageNotFound(id.into()))
}
