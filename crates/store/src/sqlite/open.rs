//! Finding, making and locking the directory and its database.
//!
//! A new database is made under another name and renamed when it is whole. So a `forewarn.db` without
//! tables is never a new one: it is one that was lost, and opening it as an empty region would hide that.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::error::read_error;
use super::schema;
use crate::StoreError;

const DATABASE: &str = "forewarn.db";
const UNFINISHED: &str = "forewarn.db.new";
const LOG: &str = "forewarn.db-wal";
const LOCK: &str = "lock";

/// How long a commit waits for a person who writes with `sqlite3`. Every command waits with it.
const BUSY_MAX: Duration = Duration::from_secs(2);

/// Statements kept prepared: those of a commit, and the shapes of history queries in use.
const STATEMENTS_MAX: usize = 64;

/// The lock of a directory, which is made if it is not there.
pub(super) fn lock(directory: &Path) -> Result<File, StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        message(format!(
            "the data directory {} cannot be made: {error}. Choose another with --data DIR",
            directory.display()
        ))
    })?;
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file =
        options.open(&path).map_err(|error| message(format!("{} cannot be opened: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut file)),
        Err(TryLockError::Error(error)) => {
            return Err(message(format!("{} cannot be locked: {error}", path.display())));
        }
    }
    sign(&mut file).map_err(|error| message(format!("{} cannot be written: {error}", path.display())))?;
    Ok(file)
}

fn in_use(directory: &Path, lock: &mut File) -> StoreError {
    let mut process = String::new();
    let _ = lock.read_to_string(&mut process);
    let process = process.trim();
    let who = if process.is_empty() { "another server".into() } else { format!("another server (process {process})") };
    message(format!(
        "{who} uses the data directory {}. Stop it, or choose another directory with --data DIR.",
        directory.display()
    ))
}

/// Leaves the process id for whoever finds the directory locked.
fn sign(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

/// The path of the database, which is made if it is not there.
pub(super) fn find_or_make(directory: &Path) -> Result<PathBuf, StoreError> {
    let path = directory.join(DATABASE);
    match fs::metadata(&path) {
        Ok(found) if found.len() == 0 => {
            return Err(message(format!(
                "{} is empty. Restore it from a backup, or remove it to start with nothing.",
                path.display()
            )));
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => close_to_others(&path)?,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => make(directory, &path)?,
        Err(error) => return Err(message(format!("{} cannot be opened: {error}", path.display()))),
    }
    Ok(path)
}

fn close_to_others(path: &Path) -> Result<(), StoreError> {
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| {
        message(format!("{} can be read by others, and that cannot be changed: {error}", path.display()))
    })
}

fn make(directory: &Path, path: &Path) -> Result<(), StoreError> {
    if directory.join(LOG).exists() {
        return Err(message(format!(
            "{} is missing, but {LOG} beside it is there. Restore both from a backup, or remove {LOG} to start \
             with nothing.",
            path.display()
        )));
    }
    let unfinished = directory.join(UNFINISHED);
    clear(directory)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished))
        .map_err(|error| message(format!("{} cannot be made: {error}", unfinished.display())))?;
    let connection = connect(&unfinished, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(read_error)?;
    schema::make(&connection).map_err(read_error)?;
    connection.close().map_err(|(_, error)| read_error(error))?;
    fs::rename(&unfinished, path)
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(|error| message(format!("{} cannot be made: {error}", path.display())))
}

/// Removes what a start that was interrupted left.
fn clear(directory: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(directory.join(format!("{UNFINISHED}{suffix}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// The connection that writes. Checks that the database is one of ours.
pub(super) fn writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(read_error)?;
    schema::check(&connection)?;
    schema::configure(&connection).map_err(read_error)?;
    Ok(connection)
}

pub(super) fn reader(path: &Path) -> Result<Connection, StoreError> {
    connect(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(read_error)
}

fn connect(path: &Path, access: OpenFlags) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, access | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    connection.busy_timeout(BUSY_MAX)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    Ok(connection)
}

fn message(text: String) -> StoreError {
    StoreError::Message(text)
}
