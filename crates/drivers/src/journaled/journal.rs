//! The journal: what this host was asked to do, one file per machine, until the report is confirmed.
//!
//! A file is written to a temporary name, flushed and renamed, so it holds either the old entry or the new one. The file
//! `term` holds the highest term that was seen.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use forewarn_core::{Guid, Timestamp};
use serde_json::{Value, json};

use super::job::StageRecord;
use super::step::Stage;
use crate::order::{Action, Eviction, HostAddress, Order, OrderId, Outcome, RebootMode, parse_guid};

/// The version of the files.
const VERSION: u64 = 1;

const TERM: &str = "term";

pub struct Journal {
    dir: PathBuf,
}

/// The state of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub order: Order,
    /// How far the order got.
    pub reached: Option<StageRecord>,
    /// Disks to delete once the domain is removed.
    pub disks: Vec<String>,
    /// Whether the machine was shut off before the order. False for actions that need a running machine.
    pub was_off: bool,
    pub outcome: Option<Outcome>,
}

impl Entry {
    pub fn new(order: Order) -> Entry {
        Entry { order, reached: None, disks: Vec::new(), was_off: false, outcome: None }
    }
}

impl Journal {
    /// Opens a journal, and creates its directory.
    pub fn open(dir: &Path) -> io::Result<Journal> {
        fs::create_dir_all(dir)?;
        Ok(Journal { dir: dir.to_owned() })
    }

    pub fn read(&self, machine: Guid) -> io::Result<Option<Entry>> {
        match fs::read(self.path(machine)) {
            Ok(bytes) => decode(&bytes).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub fn write(&self, entry: &Entry) -> io::Result<()> {
        self.replace(&self.path(entry.order.id.machine), encode(entry).to_string().as_bytes())
    }

    pub fn remove(&self, machine: Guid) -> io::Result<()> {
        match fs::remove_file(self.path(machine)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => self.flush_dir(),
        }
    }

    /// All entries, in the order of their machines.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        paths.sort();
        paths.iter().map(|path| decode(&fs::read(path)?)).collect()
    }

    pub fn term(&self) -> io::Result<u64> {
        match fs::read_to_string(self.dir.join(TERM)) {
            Ok(text) => text.trim().parse().map_err(|_| invalid("the term is not a number")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    }

    pub fn set_term(&self, term: u64) -> io::Result<()> {
        self.replace(&self.dir.join(TERM), term.to_string().as_bytes())
    }

    fn path(&self, machine: Guid) -> PathBuf {
        self.dir.join(format!("{machine}.json"))
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let temporary = path.with_extension("new");
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        self.flush_dir()
    }

    fn flush_dir(&self) -> io::Result<()> {
        File::open(&self.dir)?.sync_all()
    }
}

pub fn encode(entry: &Entry) -> Value {
    let order = &entry.order;
    json!({
        "version": VERSION,
        "event": order.id.event.to_string(),
        "machine": order.id.machine.to_string(),
        "name": order.name,
        "term": order.term,
        "deadline": order.deadline.0,
        "action": encode_action(&order.action),
        "stage": entry.reached.map(|reached| reached.stage.as_str()),
        "since": entry.reached.map(|reached| reached.since.0),
        "disks": entry.disks,
        "wasOff": entry.was_off,
        "outcome": entry.outcome.as_ref().map(encode_outcome),
    })
}

fn encode_action(action: &Action) -> Value {
    let host =
        |kind: &str, to: &HostAddress| json!({"kind": kind, "host": to.name, "uri": to.uri, "data": to.data_uri});
    match action {
        Action::Freeze { duration } => {
            json!({"kind": "freeze", "ms": u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)})
        }
        Action::Migrate { to } => host("migrate", to),
        Action::Reboot(RebootMode::Hard) => json!({"kind": "reboot"}),
        Action::Reboot(RebootMode::Graceful) => json!({"kind": "reboot-graceful"}),
        Action::Redeploy { to } => host("redeploy", to),
        Action::Start => json!({"kind": "start"}),
        Action::Stop => json!({"kind": "stop"}),
        Action::Evict(Eviction::Deallocate) => json!({"kind": "deallocate"}),
        Action::Evict(Eviction::Delete) => json!({"kind": "evict-delete"}),
        Action::Terminate => json!({"kind": "terminate"}),
        Action::Withdraw => json!({"kind": "withdraw"}),
    }
}

pub fn encode_outcome(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Done => json!({"kind": "done"}),
        Outcome::Failed(reason) => json!({"kind": "failed", "reason": reason}),
        Outcome::Gone => json!({"kind": "gone"}),
        Outcome::Moved { to } => json!({"kind": "moved", "to": to}),
    }
}

fn decode(bytes: &[u8]) -> io::Result<Entry> {
    let value: Value = serde_json::from_slice(bytes)?;
    decode_entry(&value).ok_or_else(|| invalid("an entry of the journal is damaged or from a newer version"))
}

pub fn decode_entry(value: &Value) -> Option<Entry> {
    if value["version"] != VERSION {
        return None;
    }
    let order = Order {
        id: OrderId { event: guid(&value["event"])?, machine: guid(&value["machine"])? },
        name: text(&value["name"])?,
        action: decode_action(&value["action"])?,
        term: value["term"].as_u64()?,
        deadline: Timestamp(value["deadline"].as_i64()?),
    };
    // Entries of earlier versions do not have the time.
    let since = Timestamp(value["since"].as_i64().unwrap_or(0));
    let reached = match &value["stage"] {
        Value::Null => None,
        stage => Some(StageRecord { stage: Stage::parse(stage.as_str()?)?, since }),
    };
    let outcome = match &value["outcome"] {
        Value::Null => None,
        outcome => Some(decode_outcome(outcome)?),
    };
    let disks = value["disks"].as_array()?.iter().map(text).collect::<Option<_>>()?;
    // Entries of earlier versions do not have it.
    let was_off = value["wasOff"].as_bool().unwrap_or(false);
    Some(Entry { order, reached, disks, was_off, outcome })
}

fn decode_action(value: &Value) -> Option<Action> {
    let to = || {
        let data_uri = value["data"].as_str().map(str::to_owned);
        Some(HostAddress { name: text(&value["host"])?, uri: text(&value["uri"])?, data_uri })
    };
    Some(match value["kind"].as_str()? {
        "freeze" => Action::Freeze { duration: Duration::from_millis(value["ms"].as_u64()?) },
        "migrate" => Action::Migrate { to: to()? },
        "reboot" => Action::Reboot(RebootMode::Hard),
        "reboot-graceful" => Action::Reboot(RebootMode::Graceful),
        "redeploy" => Action::Redeploy { to: to()? },
        "start" => Action::Start,
        "stop" => Action::Stop,
        "deallocate" => Action::Evict(Eviction::Deallocate),
        "evict-delete" => Action::Evict(Eviction::Delete),
        "terminate" => Action::Terminate,
        "withdraw" => Action::Withdraw,
        _ => return None,
    })
}

pub fn decode_outcome(value: &Value) -> Option<Outcome> {
    Some(match value["kind"].as_str()? {
        "done" => Outcome::Done,
        "failed" => Outcome::Failed(text(&value["reason"])?),
        "gone" => Outcome::Gone,
        "moved" => Outcome::Moved { to: text(&value["to"])? },
        _ => return None,
    })
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn guid(value: &Value) -> Option<Guid> {
    parse_guid(value.as_str()?)
}

fn invalid(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions() -> Vec<Action> {
        let to = HostAddress { name: "host2".into(), uri: "qemu:///system".into(), data_uri: None };
        vec![
            Action::Freeze { duration: Duration::from_millis(1500) },
            Action::Migrate { to: HostAddress { data_uri: Some("tcp://10.0.0.2".into()), ..to.clone() } },
            Action::Reboot(RebootMode::Hard),
            Action::Reboot(RebootMode::Graceful),
            Action::Redeploy { to },
            Action::Start,
            Action::Stop,
            Action::Evict(Eviction::Deallocate),
            Action::Evict(Eviction::Delete),
            Action::Terminate,
            Action::Withdraw,
        ]
    }

    fn entry(action: Action) -> Entry {
        let id = OrderId { event: Guid::from_random_bits(1), machine: Guid::from_random_bits(2) };
        Entry::new(Order { id, name: "web1".into(), action, term: 3, deadline: Timestamp(1_000) })
    }

    #[test]
    fn entries_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let outcomes = [None, Some(Outcome::Done), Some(Outcome::Gone), Some(Outcome::Moved { to: "host2".into() })];
        for action in actions() {
            for outcome in &outcomes {
                let disks = vec!["/disk".to_owned()];
                let reached = Some(StageRecord { stage: Stage::Held, since: Timestamp(5) });
                let outcome = outcome.clone();
                let entry = Entry { reached, outcome, disks, was_off: true, ..entry(action.clone()) };
                journal.write(&entry).unwrap();
                let journal = Journal::open(dir.path()).unwrap();
                assert_eq!(journal.entries().unwrap(), std::slice::from_ref(&entry));
                assert_eq!(journal.read(entry.order.id.machine).unwrap(), Some(entry));
            }
        }
        journal.remove(Guid::from_random_bits(2)).unwrap();
        journal.remove(Guid::from_random_bits(2)).expect("removing twice is no error");
        assert_eq!(journal.entries().unwrap(), []);
    }

    #[test]
    fn entries_of_earlier_versions_are_read() {
        let reached = Some(StageRecord { stage: Stage::Begun, since: Timestamp(0) });
        let entry = Entry { reached, ..entry(Action::Terminate) };
        let mut value = encode(&entry);
        for key in ["wasOff", "since"] {
            value.as_object_mut().unwrap().remove(key).unwrap();
        }
        assert_eq!(decode_entry(&value), Some(entry));
    }

    #[test]
    fn the_highest_term_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        assert_eq!(journal.term().unwrap(), 0);
        journal.set_term(7).unwrap();
        assert_eq!(Journal::open(dir.path()).unwrap().term().unwrap(), 7);
    }

    #[test]
    fn damaged_entries_are_errors() {
        let dir = tempfile::tempdir().unwrap();
        let journal = Journal::open(dir.path()).unwrap();
        let entry = entry(Action::Terminate);
        journal.write(&entry).unwrap();
        for damage in ["", "{}", "{\"version\":2}", "[]"] {
            fs::write(journal.path(entry.order.id.machine), damage).unwrap();
            assert!(journal.read(entry.order.id.machine).is_err(), "{damage}");
            assert!(journal.entries().is_err(), "{damage}");
        }
    }
}
