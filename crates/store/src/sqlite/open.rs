//! Finds, creates and locks the data directory and its database.
//!
//! A new database is created under another name and renamed when it is complete. Therefore a `forewarn.db`
//! without tables is never new but damaged, and opening it as an empty region would hide the loss.

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

/// How long a commit waits for another writer, such as `sqlite3`. All commands wait with it.
const BUSY_MAX: Duration = Duration::from_secs(2);

/// Number of prepared statements to keep: those of a commit, and the common shapes of history queries.
const STATEMENTS_MAX: usize = 64;

/// The log of a database.
pub(super) fn log_path(database: &Path) -> PathBuf {
    database.with_file_name(LOG)
}

/// Locks a directory, and creates it if it does not exist.
pub(super) fn lock_directory(directory: &Path) -> Result<File, StoreError> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(|error| {
        message(format!(
            "cannot create the data directory {}: {error}. Choose another directory with --data DIR",
            directory.display()
        ))
    })?;
    let path = directory.join(LOCK);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    let mut file = options.open(&path).map_err(|error| message(format!("cannot open {}: {error}", path.display())))?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Err(in_use_error(directory, &mut file)),
        Err(TryLockError::Error(error)) => {
            return Err(message(format!("cannot lock {}: {error}", path.display())));
        }
    }
    write_process_id(&mut file).map_err(|error| message(format!("cannot write to {}: {error}", path.display())))?;
    Ok(file)
}

fn in_use_error(directory: &Path, lock: &mut File) -> StoreError {
    let mut process = String::new();
    let _ = lock.read_to_string(&mut process);
    let process = process.trim();
    let holder =
        if process.is_empty() { "another server".into() } else { format!("another server (process {process})") };
    StoreError::InUse { holder, directory: directory.display().to_string() }
}

/// Writes the process ID into the lock file, for the error message of a second server.
fn write_process_id(lock: &mut File) -> io::Result<()> {
    lock.set_len(0)?;
    writeln!(lock, "{}", std::process::id())
}

pub(super) fn database(directory: &Path) -> PathBuf {
    directory.join(DATABASE)
}

/// Returns the path of the database, and creates the database if it does not exist.
pub(super) fn find_or_create(directory: &Path) -> Result<PathBuf, StoreError> {
    let path = database(directory);
    match fs::metadata(&path) {
        Ok(found) if found.len() == 0 => {
            return Err(message(format!(
                "{} is empty. Restore it from a backup, or remove it to start with an empty store.",
                path.display()
            )));
        }
        Ok(found) if found.permissions().mode() & 0o077 != 0 => restrict_permissions(&path)?,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(directory, &path)?,
        Err(error) => return Err(message(format!("cannot open {}: {error}", path.display()))),
    }
    Ok(path)
}

fn restrict_permissions(path: &Path) -> Result<(), StoreError> {
    fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| {
        message(format!("cannot restrict the permissions of {} to its owner: {error}", path.display()))
    })
}

fn create(directory: &Path, path: &Path) -> Result<(), StoreError> {
    if directory.join(LOG).exists() {
        return Err(message(format!(
            "{} is missing, but its log {LOG} exists. Restore both from a backup, or remove {LOG} to start \
             with an empty store.",
            path.display()
        )));
    }
    let unfinished = directory.join(UNFINISHED);
    remove_unfinished(directory)
        .and_then(|()| OpenOptions::new().write(true).create_new(true).mode(0o600).open(&unfinished))
        .map_err(|error| message(format!("cannot create {}: {error}", unfinished.display())))?;
    let connection = connect(&unfinished, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(read_error)?;
    schema::create_tables(&connection).map_err(read_error)?;
    connection.close().map_err(|(_, error)| read_error(error))?;
    fs::rename(&unfinished, path)
        .and_then(|()| File::open(directory)?.sync_all())
        .map_err(|error| message(format!("cannot create {}: {error}", path.display())))
}

/// Removes the files of an interrupted creation.
fn remove_unfinished(directory: &Path) -> io::Result<()> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        match fs::remove_file(directory.join(format!("{UNFINISHED}{suffix}"))) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Opens the writing connection and checks that the database belongs to Forewarn.
pub(super) fn open_writer(path: &Path) -> Result<Connection, StoreError> {
    let connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE).map_err(read_error)?;
    schema::check_format(&connection)?;
    schema::configure(&connection).map_err(read_error)?;
    Ok(connection)
}

pub(super) fn open_reader(path: &Path) -> Result<Connection, StoreError> {
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
