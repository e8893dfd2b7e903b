//! Webhooks: deliver changes of events, rollouts and hosts to other programs as signed CloudEvents over HTTP.
//!
//! ```text
//!   commit ─▶ history ─▶ runner: rows after the position ─▶ event_message ─▶ sender ─▶ receiver
//!                          ▲           │ delivered, or too old
//!                          └ position ◀┘ (an attachment of the region, saved in batches)
//! ```
//!
//! History is the queue: each webhook stores the number of the last row that it has processed. So `kill -9` loses nothing,
//! a delivery whose position was not saved is repeated with the same ID, and deliveries have the order of history. Undelivered
//! messages are stored separately (`undelivered`).
//!
//! A receiver that is down delays only its own webhook.

mod event_message;
mod filter;
mod hook;
mod message;
mod metrics;
mod receiver_url;
mod record;
mod registry;
mod rollout_message;
mod runner;
mod secret;
mod sender;
mod undelivered;

use std::time::Duration;

use forewarn_engine::SubmitError;

pub use filter::Filter;
pub use hook::{Definition, DeliveryMode, Hook, HookStatus, Undelivered};
pub use metrics::WebhookMetrics;
pub use receiver_url::ReceiverUrl;
pub use registry::{HookChange, NewHook, Webhooks};
pub use secret::SigningSecret;

/// Maximum number of webhooks. Each reads history on its own.
pub const WEBHOOKS_MAX: usize = 32;

/// Messages kept for each webhook: about one day of a small fleet. Bounds the space for a receiver that never returns.
pub const UNDELIVERED_MAX: usize = 100;

/// Maximum number of entries in one list of a filter.
pub const FILTER_ENTRIES_MAX: usize = 100;

/// Maximum length of a URL; servers accept about this much in a request line.
pub const URL_BYTES_MAX: usize = 2048;

/// Age after which a message is not sent again: default and maximum. History must be kept for longer.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(24 * 3600);
pub const RETRY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// Maximum number of unprocessed rows that are counted.
pub const BEHIND_MAX: u32 = 1000;

/// Errors of webhook management.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("Webhook '{0}' already exists. Change it, or choose another name.")]
    Exists(String),
    #[error("Webhook '{0}' does not exist. List the webhooks to find the right name.")]
    NotFound(String),
    #[error("Message '{0}' is not among the undelivered messages of this webhook. List them to find the right ID.")]
    MessageNotFound(String),
    #[error("There are already {WEBHOOKS_MAX} webhooks, which is the maximum. Delete one first.")]
    TooMany,
    #[error("The webhooks cannot be read. See the server's log.")]
    Store(#[source] forewarn_store::StoreError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}
