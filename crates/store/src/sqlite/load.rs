//! Reads all records. Decoding takes longer than reading, so other threads decode what this one reads.

use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use forewarn_core::Entity;
use rusqlite::{Connection, Row, Rows};

use super::error::read_error;
use crate::StoreError;
use crate::record::{self, Interner};

/// Text that is decoded together. A store with less needs no other threads.
const CHUNK_BYTES: usize = 256 * 1024;

/// Decoding threads. With more, SQLite is the limit.
const DECODERS_MAX: usize = 4;

/// Chunks that wait for a decoder.
const WAITING_MAX: usize = 8;

/// All entities, ordered by key.
pub(super) fn read_entities(connection: &Connection) -> Result<Vec<Entity>, StoreError> {
    let mut statement = connection.prepare("SELECT kind, key, version, body FROM records").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let first = Chunk::read(&mut rows)?;
    let threads = thread::available_parallelism().map_or(1, usize::from).min(DECODERS_MAX);
    let mut entities = if first.is_full() && threads > 1 {
        decode_in_threads(threads, first.and_following(&mut rows))?
    } else {
        decode_here(first.and_following(&mut rows))?
    };
    entities.sort_by_cached_key(Entity::key);
    Ok(entities)
}

fn decode_here(chunks: impl Iterator<Item = Result<Chunk, StoreError>>) -> Result<Vec<Entity>, StoreError> {
    let mut interner = Interner::default();
    let mut entities = Vec::new();
    for chunk in chunks {
        chunk?.decode(&mut interner, &mut entities)?;
    }
    Ok(entities)
}

fn decode_in_threads(
    threads: usize,
    mut chunks: impl Iterator<Item = Result<Chunk, StoreError>>,
) -> Result<Vec<Entity>, StoreError> {
    let (sender, waiting) = sync_channel(WAITING_MAX);
    let waiting = Mutex::new(waiting);
    thread::scope(|scope| {
        let decoders: Vec<_> = (0..threads).map(|_| scope.spawn(|| decode_received(&waiting))).collect();
        // The receiver outlives the decoders, so sending cannot fail.
        let read = chunks.try_for_each(|chunk| chunk.map(|chunk| drop(sender.send(chunk))));
        // Ends the decoders.
        drop(sender);
        let mut entities = Vec::new();
        for decoder in decoders {
            entities.extend(decoder.join().unwrap_or_else(|panic| resume_unwind(panic))?);
        }
        read.map(|()| entities)
    })
}

/// After an error, chunks are still taken, because the reader waits for that.
fn decode_received(waiting: &Mutex<Receiver<Chunk>>) -> Result<Vec<Entity>, StoreError> {
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
    let mut interner = Interner::default();
    let mut entities = Vec::new();
    let mut result = Ok(());
    while let Ok(chunk) = next() {
        if result.is_ok() {
            result = chunk.decode(&mut interner, &mut entities);
        }
    }
    result.map(|()| entities)
}

/// Rows of `records`.
#[derive(Default)]
struct Chunk {
    text: String,
    rows: Vec<RecordRow>,
}

/// The columns of a row; texts are ranges of the chunk's text.
struct RecordRow {
    kind: Range<usize>,
    key: Range<usize>,
    version: u32,
    body: Range<usize>,
}

impl Chunk {
    /// The next rows. The chunk is full unless there are no more.
    fn read(rows: &mut Rows<'_>) -> Result<Chunk, StoreError> {
        let mut chunk = Chunk { text: String::with_capacity(CHUNK_BYTES + CHUNK_BYTES / 8), rows: Vec::new() };
        while !chunk.is_full() {
            let Some(row) = rows.next().map_err(read_error)? else { break };
            chunk.push(row)?;
        }
        Ok(chunk)
    }

    /// This chunk and those after it.
    fn and_following(self, rows: &mut Rows<'_>) -> impl Iterator<Item = Result<Chunk, StoreError>> {
        let mut next = Some(Ok(self));
        std::iter::from_fn(move || {
            let chunk = next.take()?;
            if chunk.as_ref().is_ok_and(Chunk::is_full) {
                next = Some(Chunk::read(rows));
            }
            Some(chunk)
        })
    }

    fn is_full(&self) -> bool {
        self.text.len() >= CHUNK_BYTES
    }

    fn push(&mut self, row: &Row<'_>) -> Result<(), StoreError> {
        let text = |column| row.get_ref(column).ok().and_then(|value| value.as_str().ok());
        let (kind, key) = (text(0).unwrap_or("?"), text(1).unwrap_or("?"));
        let (Ok(version), Some(body)) = (row.get(2), text(3)) else {
            return Err(StoreError::Message(format!(
                "the record {kind} '{key}' cannot be read: its version is not a number or its body is not text. \
                 Restore forewarn.db from a backup."
            )));
        };
        let [kind, key, body] = [kind, key, body].map(|part| {
            let from = self.text.len();
            self.text.push_str(part);
            from..self.text.len()
        });
        self.rows.push(RecordRow { kind, key, version, body });
        Ok(())
    }

    fn decode(self, interner: &mut Interner, entities: &mut Vec<Entity>) -> Result<(), StoreError> {
        for RecordRow { kind, key, version, body } in self.rows {
            let [kind, key, body] = [kind, key, body].map(|range| &self.text[range]);
            entities.push(record::decode(kind, key, version, body, interner)?);
        }
        Ok(())
    }
}
