//! The copy on disk: what guests are shown after a restart without contact.
//!
//! It is written to another name, flushed and renamed, before guests see the copy: after a crash, no document is older than one
//! that was shown. Its modification time says when the server was last heard from.

use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use forewarn_api_types::host_link::RecordLine;
use forewarn_core::Name;
use forewarn_store::record;
use serde::{Deserialize, Serialize};

use crate::copy::Copy;

const FILE: &str = "copy.jsonl";
const VERSION: u32 = 1;

pub struct CopyFile {
    path: PathBuf,
    /// Taken by each writer before it begins.
    next_turn: AtomicU64,
    /// The turn of the newest copy on disk. One writer at a time has the lock.
    written: Mutex<u64>,
}

/// The place of a writer in the order of the copies. A connection that ends leaves its writer behind, which must not replace the
/// copy of the next connection.
#[derive(Clone, Copy, Debug)]
pub struct Turn(u64);

#[derive(Serialize, Deserialize)]
struct Header {
    version: u32,
    host: String,
    revision: u64,
    records: usize,
}

/// A stored copy, and the time since the server was last heard from.
pub struct StoredCopy {
    pub copy: Copy,
    pub age: Duration,
}

impl CopyFile {
    pub fn in_directory(dir: &Path) -> CopyFile {
        CopyFile { path: dir.join(FILE), next_turn: AtomicU64::new(1), written: Mutex::new(0) }
    }

    /// Reads the copy of a host; None if there is none. A damaged file is an error.
    pub fn read(&self, host: &Name) -> io::Result<Option<StoredCopy>> {
        let file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened?,
        };
        let age = SystemTime::now().duration_since(file.metadata()?.modified()?).unwrap_or_default();
        let mut lines = BufReader::new(file).lines();
        let header: Header = parse(&lines.next().transpose()?.unwrap_or_default())?;
        if header.version != VERSION || header.host != **host {
            return Err(invalid(format!("it is the copy of host '{}', version {}", header.host, header.version)));
        }
        let records = lines.map(|line| parse(&line?)).collect::<io::Result<Vec<RecordLine>>>()?;
        if records.len() != header.records {
            return Err(invalid(format!("it has {} of {} records", records.len(), header.records)));
        }
        let copy = Copy::load(host.clone(), header.revision, &records).map_err(|error| invalid(error.to_string()))?;
        Ok(Some(StoredCopy { copy, age }))
    }

    pub fn take_turn(&self) -> Turn {
        Turn(self.next_turn.fetch_add(1, Ordering::Relaxed))
    }

    /// Writes the copy durably, unless a later one was written. Blocking.
    pub fn write(&self, turn: Turn, host: &Name, copy: &Copy) -> io::Result<()> {
        let mut written = self.written.lock().unwrap_or_else(PoisonError::into_inner);
        if turn.0 < *written {
            return Ok(());
        }
        let temporary = self.path.with_extension("new");
        let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        let mut out = BufWriter::new(file);
        let records: Vec<RecordLine> = copy.entities().map(to_line).collect();
        let header =
            Header { version: VERSION, host: host.to_string(), revision: copy.revision(), records: records.len() };
        serde_json::to_writer(&mut out, &header)?;
        for record in &records {
            out.write_all(b"\n")?;
            serde_json::to_writer(&mut out, record)?;
        }
        out.write_all(b"\n")?;
        out.into_inner().map_err(|error| error.into_error())?.sync_all()?;
        fs::rename(&temporary, &self.path)?;
        *written = turn.0;
        File::open(self.path.parent().unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Records that the server was heard from just now.
    pub fn touch(&self) -> io::Result<()> {
        match File::options().append(true).open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            opened => opened?.set_modified(SystemTime::now()),
        }
    }

    /// Removes the copy: the host joins again.
    pub fn remove(&self) -> io::Result<()> {
        match fs::remove_file(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }
}

fn to_line(entity: &forewarn_core::Entity) -> RecordLine {
    let record::Record { kind, key, version, body } = record::encode(entity);
    RecordLine { kind: kind.to_owned(), key, version, body }
}

fn parse<T: for<'a> Deserialize<'a>>(line: &str) -> io::Result<T> {
    serde_json::from_str(line).map_err(|error| invalid(error.to_string()))
}

fn invalid(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}
