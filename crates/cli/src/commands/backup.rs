//! `forewarn backup` and `forewarn restore`: a copy of the database, also while a server uses it, and back.
//!
//! The copy is made by SQLite in one read transaction, so it contains every change that was acknowledged before it began,
//! and the server continues meanwhile. Tokens and certificates are not part of it; a new server creates its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forewarn_store::{SqliteStore, Store as _};
use rusqlite::{Connection, OpenFlags};

use super::archive::{DATABASE, store_failure};
use crate::args::BackupArgs;
use crate::config::data_directory;
use crate::failure::Failure;
use crate::output;

/// How long the copy waits for a writer.
const BUSY_MAX: Duration = Duration::from_secs(10);

pub fn backup(args: BackupArgs) -> Result<(), Failure> {
    let directory = data_directory(args.data.data)?;
    let database = directory.join(DATABASE);
    if !database.exists() {
        let what = format!("no data found in {}: set --data to the server's data directory", directory.display());
        return Err(Failure::Refused(what));
    }
    if fs::symlink_metadata(&args.file).is_ok() {
        let what = format!("{} already exists: choose another file name", args.file.display());
        return Err(Failure::Refused(what));
    }
    copy_database(&database, &args.file)?;
    output::print_stderr(&format!("Backed up {} to {}", directory.display(), args.file.display()));
    Ok(())
}

/// Copies a database that a server may be using.
pub fn copy_database(database: &Path, file: &Path) -> Result<(), Failure> {
    let beside = PathBuf::from(format!("{}.part-{}", file.display(), std::process::id()));
    copy(database, &beside, file).inspect_err(|_| {
        let _ = fs::remove_file(&beside);
    })
}

/// Copies to a private file that is renamed once complete.
fn copy(database: &Path, beside: &Path, file: &Path) -> Result<(), Failure> {
    let no_file = |error: io::Error| Failure::Refused(format!("cannot write {}: {error}", file.display()));
    let unreadable =
        |error: rusqlite::Error| Failure::Refused(format!("cannot back up {}: {error}", database.display()));
    let name = beside.to_str().ok_or_else(|| no_file(io::Error::other("the name is not UTF-8")))?;
    // SQLite copies into an empty file, and keeps its permissions.
    File::options().write(true).create_new(true).mode(0o600).open(beside).map_err(no_file)?;
    let source = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(unreadable)?;
    source.busy_timeout(BUSY_MAX).map_err(unreadable)?;
    source.execute("VACUUM INTO ?1", [name]).map_err(unreadable)?;
    let synced = File::open(beside).and_then(|file| file.sync_all());
    synced.and_then(|()| fs::rename(beside, file)).map_err(no_file)
}

pub fn restore(args: BackupArgs) -> Result<(), Failure> {
    let directory = data_directory(args.data.data)?;
    let database = directory.join(DATABASE);
    if database.exists() {
        let what = format!(
            "{} already has data: set --data to an empty directory, or remove its {DATABASE}",
            directory.display()
        );
        return Err(Failure::Refused(what));
    }
    check(&args.file)?;
    fs::create_dir_all(&directory)
        .and_then(|()| fs::copy(&args.file, &database))
        .map_err(|error| Failure::Refused(format!("cannot write {}: {error}", database.display())))?;
    let loaded = SqliteStore::open(&directory).and_then(|mut store| store.load());
    let loaded = loaded.map_err(|error| {
        let _ = fs::remove_file(&database);
        store_failure(error)
    })?;
    output::print_stderr(&format!(
        "Restored {} records from {} into {}",
        loaded.entities.len(),
        args.file.display(),
        directory.display()
    ));
    Ok(())
}

/// Refuses files that are not intact databases before anything is written.
fn check(file: &Path) -> Result<(), Failure> {
    let refuse = |why: String| Failure::Refused(format!("{} is not a backup: {why}", file.display()));
    if let Err(error) = File::open(file) {
        return Err(Failure::Refused(format!("cannot read {}: {error}", file.display())));
    }
    let open = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY);
    let result = open.and_then(|copy| copy.query_row("PRAGMA quick_check(1)", [], |row| row.get::<_, String>(0)));
    match result {
        Ok(text) if text == "ok" => Ok(()),
        Ok(text) => Err(refuse(text)),
        Err(error) => Err(refuse(error.to_string())),
    }
}
