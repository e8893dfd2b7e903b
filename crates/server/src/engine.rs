//! The rest of the program's view of the single writer: submit a command, look at the newest snapshot.

use std::sync::Arc;

use forewarn_core::{Answer, Command, Region, Rejection};
use forewarn_store::{Audit, Reader};
use tokio::sync::watch;

/// The region at one revision. Immutable; keep it as long as you like.
#[derive(Debug)]
pub struct Snapshot {
    pub revision: u64,
    pub region: Region,
}

/// A command that was carried out, stored and published.
#[derive(Debug)]
pub struct Done {
    pub answer: Answer,
    /// A snapshot in which it can be seen.
    pub snapshot: Arc<Snapshot>,
}

#[derive(Debug, thiserror::Error)]
pub enum SubmitError {
    #[error(transparent)]
    Rejected(#[from] Rejection),
    /// The mailbox is full.
    #[error("The server has more to do than it can take. Try again in a second.")]
    Busy,
    /// The commit failed or its fate is not known.
    #[error("The change could not be stored. Look whether it happened before you try again.")]
    Unavailable,
    #[error("The server is stopping.")]
    Stopping,
}

/// Whom a command comes from, for the audit trail. The writer adds the time.
#[derive(Clone, Debug)]
pub struct Asked {
    pub actor: String,
    pub action: String,
    pub target: String,
    pub detail: String,
}

#[derive(Clone)]
pub struct Engine {
    // The mailbox, the newest snapshot, the clock.
}
