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
use serde_json::{Value, json};

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

fn encode_records<'a>(records: impl Iterator<Item = &'a Record>) -> String {
    let records: Vec<Value> = records.map(record_to_json).collect();
    format!("{:#}\n", json!({ "format": FORMAT, "records": records }))
}

fn record_to_json(record: &Record) -> Value {
    let runs: Vec<Value> = record.runs.iter().map(run_to_json).collect();
    json!({
        // As text, in the format of the client library.
        "event": record.event.to_json(),
        "version": record.event.version.as_str(),
        "rank": record.rank,
        "seen_at_ms": u64::try_from(record.seen_at.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(0),
        "approved": record.approved,
        "over": record.end.map(EventEnd::as_stored),
        "hooks": runs,
    })
}

fn run_to_json(run: &StepRun) -> Value {
    let (state, reason) = match &run.progress {
        Progress::Running => ("running", None),
        Progress::Ended(Outcome::Failed(reason)) => ("failed", Some(reason)),
        Progress::Ended(outcome) => (outcome.as_str(), None),
    };
    let process = run.process.as_ref().map(|process| json!({ "pid": process.pid, "started": process.started }));
    json!({ "phase": run.phase.as_str(), "name": run.name, "state": state, "reason": reason, "process": process })
}

fn decode_records(text: &str) -> Result<Vec<Record>> {
    let value: Value = serde_json::from_str(text)?;
    ensure!(value["format"] == FORMAT, "the format is not {FORMAT}");
    value["records"].as_array().context("no records")?.iter().map(record_from_json).collect()
}

fn record_from_json(value: &Value) -> Result<Record> {
    let version = Version::parse(value["version"].as_str()).ok().context("no version")?;
    let number = |key: &str| value[key].as_u64().with_context(|| format!("no {key}"));
    let end = value["over"].as_str().map(|text| EventEnd::parse_stored(text).with_context(|| format!("over: {text}")));
    Ok(Record {
        event: Event::parse(version, value["event"].as_str().context("no event")?)?,
        rank: usize::try_from(number("rank")?)?,
        seen_at: SystemTime::UNIX_EPOCH + Duration::from_millis(number("seen_at_ms")?),
        approved: value["approved"].as_bool().context("no approved")?,
        end: end.transpose()?,
        runs: value["hooks"].as_array().context("no hooks")?.iter().map(run_from_json).collect::<Result<_>>()?,
    })
}

fn run_from_json(value: &Value) -> Result<StepRun> {
    let text = |key: &str| value[key].as_str().with_context(|| format!("hook without {key}"));
    let progress = match text("state")? {
        "running" => Progress::Running,
        "succeeded" => Progress::Ended(Outcome::Succeeded),
        "failed" => Progress::Ended(Outcome::Failed(value["reason"].as_str().unwrap_or_default().to_owned())),
        "late" => Progress::Ended(Outcome::Late),
        "interrupted" => Progress::Ended(Outcome::Interrupted),
        other => bail!("unknown hook state {other}"),
    };
    let phase = Phase::parse(text("phase")?).context("unknown hook phase")?;
    let process = match (value["process"]["pid"].as_u64(), value["process"]["started"].as_str()) {
        (Some(pid), Some(started)) => Some(ProcessIdentity { pid: u32::try_from(pid)?, started: started.to_owned() }),
        _ => None,
    };
    Ok(StepRun { phase, name: text("name")?.to_owned(), progress, process })
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
