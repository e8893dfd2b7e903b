//! One contract for durable state, several stores, one conformance suite that each of them runs.
//!
//! ```text
//!   contract   what the server asks of a store
//!   attachment what rides along with the region
//!   memory     for servers to throw away, and tests
//!   sqlite     one file that a person can open: the default
//!   record     entities as they are kept, the same everywhere
//!   archive    everything of a store as lines of JSON, and back
//!   conformance, faulty   for tests: of every store, and of those who use one
//! ```

pub mod archive;
mod attachment;
pub mod conformance;
mod contract;
mod error;
pub mod faulty;
mod history;
mod memory;
pub mod record;
mod sqlite;
mod text;

pub use attachment::{ATTACHMENTS_PAGE_MAX, Attachment, Owner};
pub use contract::*;
pub use error::{CommitError, StoreError};
pub use memory::MemoryStore;
pub use sqlite::SqliteStore;
