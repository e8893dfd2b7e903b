//! Translates SQLite errors.

use rusqlite::{Error, ErrorCode};

use crate::{CommitError, StoreError};

/// For errors before COMMIT. The transaction is rolled back when it is dropped, or after a crash.
pub(super) fn commit_refused(error: Error) -> CommitError {
    CommitError::Refused(error.into())
}

/// Whether an error of COMMIT itself means that nothing was written. BUSY leaves the transaction open. FULL
/// occurs while writing to the log, so the last frame, which completes a commit, is missing. Any other error,
/// above all a failed sync, may leave a complete commit in the log that is found after a crash.
pub(super) fn is_certainly_unwritten(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull))
}

/// Explains the error if the user can do something about it.
pub(super) fn read_error(error: Error) -> StoreError {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "forewarn.db is not a database. Restore it from a backup, or move it away to start with an empty store."
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "forewarn.db is damaged: parts of it are missing or were overwritten. Restore it from a backup, \
             or recover the readable part with `sqlite3 forewarn.db .recover`."
        }
        Some(ErrorCode::DiskFull) => "the disk is full. Free some space on the disk of the data directory.",
        Some(ErrorCode::ReadOnly) => "forewarn.db is read-only. Make the data directory writable for this user.",
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "forewarn.db cannot be opened. Check the permissions of the data directory."
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "forewarn.db is locked by another program. Close the transaction of that program."
        }
        _ => return StoreError::Io(error.into()),
    };
    StoreError::Message(format!("{advice} ({error})"))
}
