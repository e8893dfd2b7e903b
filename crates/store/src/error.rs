//! Errors of stores. They tell a caller whether anything was written.

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{0}")]
    Message(String),
    #[error("the store could not be read or written")]
    Io(#[source] Box<dyn std::error::Error + Send + Sync>),
    #[error(transparent)]
    Inconsistent(#[from] forewarn_core::LoadError),
}

#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing was written, certainly: the disk is full, the file is busy.
    #[error("nothing was written")]
    Refused(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// Somebody else has written.
    #[error("the store is at revision {found}, not {expected}")]
    Conflict { expected: u64, found: u64 },
    /// It may have been written or not: load to find out.
    #[error("the commit's fate is not known")]
    Doubt(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StoreError {
    pub(crate) fn not_empty() -> StoreError {
        StoreError::Message(
            "the store is not empty, and a restore would replace its contents. Use a new data directory.".into(),
        )
    }
}
