//! Web hooks: programs outside are told what happens to events, as signed CloudEvents over HTTP.
//!
//! ```text
//!   commit ─▶ history ─▶ runner: rows after the position ─▶ telling ─▶ sender ─▶ receiver
//!                          ▲           │ delivered or given up
//!                          └ position ◀┘ (an attachment of the region, saved some at a time)
//! ```
//!
//! There is no queue: history is the queue, and each web hook remembers the number of the row that it has dealt with. So
//! nothing is lost by `kill -9`, what was sent and not yet remembered is sent again under the same id, and the
//! order of history is the order of deliveries. What was given up is kept apart (`given_up`).
//!
//! It decides no rule and waits for no receiver: a receiver that is away costs its own web hook time, nobody else.

mod filter;
mod given_up;
mod hook;
mod keeper;
mod record;
mod runner;
mod secret;
mod sender;
mod target;
mod telling;

use std::time::Duration;

use forewarn_engine::SubmitError;

pub use filter::Filter;
pub use given_up::{GIVEN_UP_MAX, GivenUp};
pub use hook::{Definition, Hook, Status, Switch};
pub use keeper::{Change, NewHook, Webhooks};
pub use secret::Secret;
pub use target::Target;

/// Web hooks at the same time. Each reads history for itself.
pub const WEBHOOKS_MAX: usize = 32;

/// Entries of one list of a filter.
pub const FILTER_ENTRIES_MAX: usize = 100;

/// As much as any server takes in a request line.
pub const URL_BYTES_MAX: usize = 2048;

/// How old something that happened may become before it is given up, when nobody says, and at the most: history has
/// to be kept for longer.
pub const RETRY_DEFAULT: Duration = Duration::from_secs(24 * 3600);
pub const RETRY_MAX: Duration = Duration::from_secs(7 * 24 * 3600);

/// The most rows of history that are counted to say how far behind a web hook is.
pub const BEHIND_MAX: u32 = 1000;

/// Why a web hook cannot be made or changed.
#[derive(Debug, thiserror::Error)]
pub enum WebhookError {
    #[error("There is a web hook '{0}' already. Change it, or choose another name.")]
    Exists(String),
    #[error("There is no web hook '{0}'. List the web hooks to see which there are.")]
    NotFound(String),
    #[error(
        "No message '{0}' of this web hook was given up, or it is not kept any more. List those that were given up."
    )]
    NotGivenUp(String),
    #[error("There may be {WEBHOOKS_MAX} web hooks. Delete one that is not needed any more.")]
    TooMany,
    #[error("The web hooks cannot be read. The server's log says why.")]
    Store(#[source] forewarn_store::StoreError),
    #[error(transparent)]
    Submit(#[from] SubmitError),
}
