//! The state directory: one file with all records, and a lock.
//!
//! The file is replaced atomically: a new file is written, synced and renamed over the old one. After a crash there is
//! either the old state or the new one.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use forewarn_client::{Event, Version};
use serde::{Deserialize, Serialize};

use crate::record::{EventEnd, Outcome, Phase, ProcessIdentity, Progress, Record, StepRun};

const FILE: &str = "state.json";
const LOCK: &str = "lock";

/// Format version of the state file.
const FORMAT: u64 = 1;

/// State directory, locked by this process.
#[derive(Debug)]
pub struct StateDir {
    dir: PathBuf,
    _lock: File,
}

impl StateDir {
    pub fn open(dir: &Path) -> Result<StateDir> {
        let at = || format!("cannot use the state directory {}", dir.display());
        DirBuilder::new().recursive(true).mode(0o700).create(dir).with_context(at)?;
        let lock = OpenOptions::new().create(true).append(true).mode(0o600).open(dir.join(LOCK)).with_context(at)?;
        match lock.try_lock() {
            Ok(()) => Ok(StateDir { dir: dir.to_owned(), _lock: lock }),
            Err(TryLockError::WouldBlock) => bail!("the state directory {} is in use by another agent", dir.display()),
            Err(TryLockError::Error(error)) => Err(error).with_context(at),
        }
    }

    pub fn load(&self) -> Result<Vec<Record>> {
        load(&self.dir)
    }

    pub fn save<'a>(&self, records: impl Iterator<Item = &'a Record>) -> Result<()> {
        let (new, path) = (self.dir.join("state.json.new"), self.dir.join(FILE));
        let at = || format!("cannot write {}", path.display());
        let mut options = OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&new).with_context(at)?;
        file.write_all(encode_records(records).as_bytes()).with_context(at)?;
        file.sync_all().with_context(at)?;
        std::fs::rename(&new, &path).with_context(at)?;
        File::open(&self.dir).and_then(|dir| dir.sync_all()).with_context(at)
    }
}

/// Loads the records without taking the lock. A missing file means no records.
pub fn load(dir: &Path) -> Result<Vec<Record>> {
    let path = dir.join(FILE);
    match std::fs::read_to_string(&path) {
        Ok(text) => decode_records(&text).with_context(|| format!("invalid state file {}", path.display())),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

/// The state file. Here and below, fields are in the order in which they are written.
#[derive(Serialize, Deserialize)]
struct StateFile {
    format: u64,
    records: Vec<StoredRecord>,
}

/// The part of the file that every version has.
#[derive(Deserialize)]
struct StateFormat {
    format: u64,
}

#[derive(Serialize, Deserialize)]
struct StoredRecord {
    approved: bool,
    /// As text, in the format of the client library.
    event: String,
    hooks: Vec<StoredRun>,
    /// The end of the event.
    over: Option<String>,
    rank: usize,
    seen_at_ms: u64,
    version: String,
}

#[derive(Serialize, Deserialize)]
struct StoredRun {
    name: String,
    phase: String,
    process: Option<StoredProcess>,
    reason: Option<String>,
    state: String,
}

#[derive(Serialize, Deserialize)]
struct StoredProcess {
    pid: u32,
    started: String,
}

fn encode_records<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    let file = StateFile { format: FORMAT, records: records.map(StoredRecord::of).collect() };
    format!("{}\n", serde_json::to_string_pretty(&file).expect("texts, numbers and lists can be written as JSON"))
}

fn decode_records(text: &str) -> Result<Vec<Record>> {
    let StateFormat { format } = serde_json::from_str(text)?;
    ensure!(format == FORMAT, "the format is not {FORMAT}");
    let StateFile { records, .. } = serde_json::from_str(text)?;
    records.into_iter().map(StoredRecord::into_record).collect()
}

impl StoredRecord {
    fn of(record: &Record) -> StoredRecord {
        let seen_at = record.seen_at.duration_since(UNIX_EPOCH).unwrap_or_default();
        StoredRecord {
            approved: record.approved,
            event: record.event.to_json(),
            hooks: record.runs.iter().map(StoredRun::of).collect(),
            over: record.end.map(|end| end.as_stored().to_owned()),
            rank: record.rank,
            seen_at_ms: u64::try_from(seen_at.as_millis()).unwrap_or(0),
            version: record.event.version.as_str().to_owned(),
        }
    }

    fn into_record(self) -> Result<Record> {
        let version = Version::parse(Some(&self.version)).ok().context("unknown version")?;
        let end = self.over.map(|text| EventEnd::parse_stored(&text).with_context(|| format!("over: {text}")));
        Ok(Record {
            event: Event::parse(version, &self.event)?,
            rank: self.rank,
            seen_at: SystemTime::UNIX_EPOCH + Duration::from_millis(self.seen_at_ms),
            approved: self.approved,
            end: end.transpose()?,
            runs: self.hooks.into_iter().map(StoredRun::into_run).collect::<Result<_>>()?,
        })
    }
}

impl StoredRun {
    fn of(run: &StepRun) -> StoredRun {
        let (state, reason) = match &run.progress {
            Progress::Running => ("running", None),
            Progress::Ended(Outcome::Failed(reason)) => ("failed", Some(reason.clone())),
            Progress::Ended(outcome) => (outcome.as_str(), None),
        };
        let process = run.process.as_ref();
        StoredRun {
            name: run.name.clone(),
            phase: run.phase.as_str().to_owned(),
            process: process.map(|process| StoredProcess { pid: process.pid, started: process.started.clone() }),
            reason,
            state: state.to_owned(),
        }
    }

    fn into_run(self) -> Result<StepRun> {
        let progress = match self.state.as_str() {
            "running" => Progress::Running,
            "succeeded" => Progress::Ended(Outcome::Succeeded),
            "failed" => Progress::Ended(Outcome::Failed(self.reason.unwrap_or_default())),
            "late" => Progress::Ended(Outcome::Late),
            "interrupted" => Progress::Ended(Outcome::Interrupted),
            other => bail!("unknown hook state {other}"),
        };
        let phase = Phase::parse(&self.phase).context("unknown hook phase")?;
        let process = self.process.map(|StoredProcess { pid, started }| ProcessIdentity { pid, started });
        Ok(StepRun { phase, name: self.name, progress, process })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let event = r#"{"EventId":"A","EventStatus":"Scheduled","EventType":"Reboot","ResourceType":"VirtualMachine","Resources":["a","b"],"NotBefore":"Wed, 01 Jan 2020 00:15:00 GMT","Description":"x","EventSource":"User","DurationInSeconds":-1}"#;
        let event = Event::parse(Version::V2020_07_01, event).unwrap();
        let mut record = Record::new("b", event, UNIX_EPOCH + Duration::from_millis(1500)).unwrap();
        let outcomes =
            [Outcome::Succeeded, Outcome::Failed("exit status: 3".into()), Outcome::Late, Outcome::Interrupted];
        let process = Some(ProcessIdentity { pid: 7, started: "boot 1".into() });
        record.runs.push(StepRun { process, ..StepRun::begin(Phase::Prepare, "prepare".into()) });
        record.runs.extend(outcomes.into_iter().enumerate().map(|(number, outcome)| StepRun {
            progress: Progress::Ended(outcome),
            ..StepRun::begin(Phase::Restore, format!("h{number}"))
        }));
        record.end = Some(EventEnd::Canceled);
        record
    }

    #[test]
    fn saved_records_are_loaded_and_the_directory_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("created/if/missing");
        let state = StateDir::open(&path).unwrap();
        assert_eq!(state.load().unwrap(), []);
        state.save([record()].iter()).unwrap();
        assert_eq!(load(&path).unwrap(), [record()]);
        let error = StateDir::open(&path).unwrap_err().to_string();
        assert!(error.ends_with("is in use by another agent"), "{error}");
        drop(state);
        StateDir::open(&path).unwrap();
    }

    /// The text was written by an earlier version.
    #[test]
    fn a_state_file_is_written_as_before() {
        let mut record = record();
        record.runs.truncate(3);
        let expected = r#"{
  "format": 1,
  "records": [
    {
      "approved": false,
      "event": "EVENT",
      "hooks": [
        {
          "name": "prepare",
          "phase": "prepare",
          "process": {
            "pid": 7,
            "started": "boot 1"
          },
          "reason": null,
          "state": "running"
        },
        {
          "name": "h0",
          "phase": "restore",
          "process": null,
          "reason": null,
          "state": "succeeded"
        },
        {
          "name": "h1",
          "phase": "restore",
          "process": null,
          "reason": "exit status: 3",
          "state": "failed"
        }
      ],
      "over": "cancelled",
      "rank": 1,
      "seen_at_ms": 1500,
      "version": "2020-07-01"
    }
  ]
}
"#;
        let event = record.event.to_json().replace('"', r#"\""#);
        assert_eq!(encode_records([&record].into_iter()), expected.replace("EVENT", &event));
        assert_eq!(encode_records(std::iter::empty()), "{\n  \"format\": 1,\n  \"records\": []\n}\n");
    }

    #[test]
    fn an_invalid_state_file_is_named_in_the_error() {
        let dir = tempfile::tempdir().unwrap();
        for text in ["", "{}", r#"{"format":2,"records":[]}"#, r#"{"format":1,"records":[{}]}"#] {
            std::fs::write(dir.path().join(FILE), text).unwrap();
            let error = format!("{:#}", load(dir.path()).unwrap_err());
            assert!(error.starts_with("invalid state file ") && error.contains("state.json: "), "{text}: {error}");
        }
    }
}
