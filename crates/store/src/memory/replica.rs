//! The memory store as a server's copy of a replicated region, for tests and trials. A copy is an archive after a line with the
//! position.

use std::fs::File;
use std::io::{BufRead, BufReader, BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use forewarn_core::Timestamp;

use super::{MemoryStore, State};
use crate::replica::out_of_order;
use crate::{Change, Replicated, SnapshotWriter, StoreError, archive};

impl Replicated for MemoryStore {
    fn position(&mut self) -> Result<Option<String>, StoreError> {
        Ok(self.state().position.clone())
    }

    fn set_position(&mut self, position: &str) -> Result<(), StoreError> {
        self.state().position = Some(position.to_owned());
        Ok(())
    }

    fn apply(&mut self, revision: u64, position: &str, changes: &[Change]) -> Result<(), StoreError> {
        let mut state = self.state();
        if state.revision + 1 != revision {
            return Err(out_of_order(state.revision, revision));
        }
        for change in changes {
            state.apply(change);
        }
        state.position = Some(position.to_owned());
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    fn newest_row(&mut self) -> Result<(Timestamp, u64), StoreError> {
        let state = self.state();
        Ok((state.last_at.unwrap_or(Timestamp(i64::MIN)), state.last_number))
    }

    fn find_oldest(&mut self, before: Timestamp, limit: u32) -> Result<Option<u64>, StoreError> {
        let state = self.state();
        let old = state.history.iter().take_while(|row| row.at < before).take(limit as usize);
        Ok(old.last().map(|row| row.number))
    }

    fn copier(&self) -> Arc<dyn SnapshotWriter> {
        Arc::new(self.clone())
    }

    fn install(&mut self, copy: &Path) -> Result<(), StoreError> {
        let mut input = BufReader::new(File::open(copy).map_err(io_error)?);
        let mut position = String::new();
        input.read_line(&mut position).map_err(io_error)?;
        let mut loaded = MemoryStore::new();
        archive::import(input, &mut loaded)?;
        loaded.set_position(position.trim_end())?;
        let loaded = std::mem::take(&mut *loaded.state());
        *self.state() = loaded;
        Ok(())
    }
}

impl State {
    fn apply(&mut self, change: &Change) {
        for write in &change.writes {
            self.write(write);
        }
        for attachment in &change.attachments {
            self.attach(attachment);
        }
        for row in &change.rows {
            self.remember(row.clone());
        }
        if change.stamp.is_some() {
            self.stamp.clone_from(&change.stamp);
        }
        self.clock = change.clock.or(self.clock);
        if let Some(through) = change.forget_through {
            self.history.retain(|row| row.number > through);
        }
        self.revision += 1;
    }
}

impl SnapshotWriter for MemoryStore {
    fn copy_to(&self, file: &Path) -> Result<(), StoreError> {
        let mut store = MemoryStore::new();
        *store.state() = self.state().clone();
        let mut out = BufWriter::new(File::create(file).map_err(io_error)?);
        writeln!(out, "{}", store.position()?.unwrap_or_default()).map_err(io_error)?;
        archive::export(&mut store, out).map(drop)
    }
}

fn io_error(error: std::io::Error) -> StoreError {
    StoreError::Io(error.into())
}
