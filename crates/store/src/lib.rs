//! Durable state and history: one contract, several stores, and a conformance suite that every store runs.
//!
//! ```text
//!   contract      the interface of a store
//!   error         errors, which tell whether anything was written
//!   attachment    data that belongs to an entity but that no rule reads
//!   memory        a store without durability, for tests and temporary servers
//!   sqlite        the default store: a SQLite database
//!   record        the stored form of entities, the same in every store
//!   history       the stored form of facts
//!   detail        the JSON in history rows
//!   recent        the newest history rows in memory
//!   kind          the kinds of history rows
//!   fact          history rows as typed facts, and the timeline of an event
//!   archive       export and import as lines of JSON
//!   replica       records of a replicated log, and stores that apply them
//!   buffered      a copy of a region that stores many records of the log together
//!   rules         the settings of the rules, which servers of a cluster store
//!   conformance   the tests that every store must pass
//!   faulty        a store that fails on demand, for tests of its users
//! ```

pub mod archive;
mod attachment;
mod buffered;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod contract;
mod detail;
mod error;
mod fact;
pub mod faulty;
mod history;
mod kind;
mod memory;
mod recent;
pub mod record;
mod replica;
mod rules;
#[cfg(feature = "sqlite")]
mod sqlite;
mod text;

pub use attachment::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
pub use buffered::BufferedStore;
pub use contract::*;
pub use error::{CommitError, StoreError};
pub use fact::*;
pub use kind::HistoryKind;
pub use memory::MemoryStore;
pub use replica::{
    Change, PAYLOAD_FORMAT, PAYLOAD_FORMAT_MIN, Replicated, SEALED_FORMAT, SnapshotWriter, payload_format,
};
pub use rules::{compare_rules, put_rules, read_rules, rules_of};
#[cfg(feature = "sqlite")]
pub use sqlite::SqliteStore;
