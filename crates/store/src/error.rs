//! Errors of stores. A commit error tells the caller whether anything was written.

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Message(String),
    /// Another process has the directory open.
    #[error("{holder} is using the data directory {directory}. Stop it, or choose another directory with --data DIR.")]
    InUse { holder: String, directory: String },
    #[error("cannot read or write the store")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Inconsistent(#[from] forewarn_core::LoadError),
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Certainly nothing was written, for example because the disk is full or the database is busy.
    #[error("nothing was written")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Another writer has committed.
    #[error("expected the store at revision {expected}, found revision {found}")]
    Conflict { expected: u64, found: u64 },
    /// The batch may or may not have been written. Load the store to find out.
    #[error("it is unknown whether the commit was written")]
    Doubt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub(crate) fn not_empty() -> StoreError {
        StoreError::Message(
            "the store is not empty, and a restore would replace its contents. Use a new data directory.".into(),
        )
    }
}
