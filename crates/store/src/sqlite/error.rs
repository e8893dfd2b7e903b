//! What SQLite's errors mean to us.

use rusqlite::{Error, ErrorCode};

use crate::{CommitError, StoreError};

/// Before COMMIT: the transaction is rolled back when it is dropped, and a crash would roll it back, too.
pub(super) fn refused(error: Error) -> CommitError {
    CommitError::Refused(error.into())
}

/// Whether an error of COMMIT itself leaves no trace. BUSY leaves the transaction open. FULL comes from
/// writing to the log, where the last frame is what makes a commit: it was not written whole. Anything
/// else, above all a failed sync, may leave a whole commit in the log that is found after a crash.
pub(super) fn certainly_not_written(error: &Error) -> bool {
    matches!(error.sqlite_error_code(), Some(ErrorCode::DatabaseBusy | ErrorCode::DiskFull))
}

/// A sentence where there is something to do about it.
pub(super) fn read_error(error: Error) -> StoreError {
    let advice = match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => {
            "forewarn.db is not a database. Restore it from a backup, or move it away to start with nothing."
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            "forewarn.db is damaged: parts of it are missing or were overwritten. Restore it from a backup, \
             or save what can be read with `sqlite3 forewarn.db .recover`."
        }
        Some(ErrorCode::DiskFull) => "the disk is full. Make room in the data directory.",
        Some(ErrorCode::ReadOnly) => "forewarn.db cannot be written. Make the data directory writable for this user.",
        Some(ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            "forewarn.db cannot be opened. Look at the permissions of the data directory."
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            "forewarn.db is in use by another program. End that program's transaction."
        }
        _ => return StoreError::Io(error.into()),
    };
    StoreError::Message(format!("{advice} ({error})"))
}
