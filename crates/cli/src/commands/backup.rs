//! `forewarn backup` and `forewarn restore`: a copy of the database, also while a server uses it, and back.
//!
//! The copy is made by SQLite in one read transaction, so it contains every change that was acknowledged before it began,
//! and the server continues meanwhile. Tokens and certificates are not part of it; a new server creates its own.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _, lchown};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forewarn_config::data_directory;
use forewarn_store::{SqliteStore, Store as _};
use rusqlite::{Connection, OpenFlags};
use rustix::process::geteuid;

use super::archive::{DATABASE, store_failure};
use crate::args::BackupArgs;
use crate::failure::Failure;
use crate::output;

/// The lock of a data directory, which opening a store creates.
const LOCK: &str = "lock";

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
    let files = database_files(&database);
    if let Some(found) = files.iter().find(|file| fs::symlink_metadata(file).is_ok()) {
        // SQLite would apply the log of another database to the restored one.
        let what = format!(
            "{} already has data ({}): set --data to an empty directory, or remove {DATABASE}, {DATABASE}-wal and {DATABASE}-shm",
            directory.display(),
            found.file_name().unwrap_or_default().display()
        );
        return Err(Failure::Refused(what));
    }
    check(&args.file)?;
    let restored = put_database(&args.file, &directory, &database);
    restored.map_err(|error| Failure::Refused(format!("cannot write {}: {error}", database.display())))?;
    let loaded = SqliteStore::open(&directory).and_then(|mut store| store.load());
    let loaded = loaded.map_err(|error| {
        files.iter().for_each(|file| drop(fs::remove_file(file)));
        store_failure(error)
    })?;
    let owned = files.iter().chain([&directory.join(LOCK)]).try_for_each(|file| give_to_owner(file, &directory));
    owned.map_err(|error| Failure::Refused(format!("cannot change the owner of {}: {error}", directory.display())))?;
    output::print_stderr(&format!(
        "Restored {} records from {} into {}",
        loaded.entities.len(),
        args.file.display(),
        directory.display()
    ));
    Ok(())
}

/// A database, its log and the index of its log.
fn database_files(database: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| PathBuf::from(format!("{}{suffix}", database.display())))
}

/// Copies to a private file that is renamed once it is complete and on disk.
fn put_database(file: &Path, directory: &Path, database: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let beside = PathBuf::from(format!("{}.part-{}", database.display(), std::process::id()));
    let copy = || {
        let mut copy = File::options().write(true).create_new(true).mode(0o600).open(&beside)?;
        io::copy(&mut File::open(file)?, &mut copy)?;
        copy.sync_all()?;
        give_to_owner(&beside, directory)?;
        fs::rename(&beside, database)?;
        File::open(directory)?.sync_all()
    };
    copy().inspect_err(|_| drop(fs::remove_file(&beside)))
}

/// Gives a file of the data directory to the user that the server runs as, who owns the directory: root restores backups.
fn give_to_owner(file: &Path, directory: &Path) -> io::Result<()> {
    let wanted = fs::metadata(directory)?;
    let found = match fs::symlink_metadata(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        found => found?,
    };
    let is_owned = (found.uid(), found.gid()) == (wanted.uid(), wanted.gid());
    // Only root can change the owner of a file.
    if is_owned || !geteuid().is_root() {
        return Ok(());
    }
    lchown(file, Some(wanted.uid()), Some(wanted.gid()))
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
