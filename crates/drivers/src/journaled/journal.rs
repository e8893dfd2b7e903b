//! The journal: what this host was asked to do, one file per machine, until the report is confirmed.
//!
//! A file is written to a temporary name, flushed and renamed, so it holds either the old entry or the new one. The file
//! `term` holds the highest term that was seen, the file `epoch` the last epoch of the host, and the file
//! `clock` the clock of the times in the entries. A file that cannot be read stays where it is, and blocks the orders of its
//! machine only.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use forewarn_core::{Guid, Timestamp};
use serde_json::{Value, json};

use super::job::StageRecord;
use super::step::Stage;
use crate::clock::Clock;
use crate::order::{Action, Eviction, HostAddress, Order, OrderId, Outcome, RebootMode, parse_guid};

/// The version of the files.
const VERSION: u64 = 1;

const TERM: &str = "term";
const EPOCH: &str = "epoch";
const CLOCK: &str = "clock";

pub struct Journal {
    dir: PathBuf,
    /// The clock of the times in the entries.
    clock: Clock,
    /// Held while the term is compared and replaced.
    term: Mutex<()>,
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
    /// The boot of the operating system in which the order was accepted. None: unknown.
    pub boot: Option<String>,
    /// The order is no longer wanted, and its machine may run on another host: it must not be started here.
    pub is_abandoned: bool,
    pub outcome: Option<Outcome>,
}

impl Entry {
    pub fn new(order: Order) -> Entry {
        Entry {
            order,
            reached: None,
            disks: Vec::new(),
            was_off: false,
            boot: None,
            is_abandoned: false,
            outcome: None,
        }
    }
}

impl Journal {
    /// Opens a journal, and creates its directory. `boot`: the boot of the operating system, if known; `clock`: the clock of
    /// this program.
    pub fn open(dir: &Path, boot: Option<&str>, clock: Clock) -> io::Result<Journal> {
        fs::create_dir_all(dir)?;
        let mut journal = Journal { dir: dir.to_owned(), clock, term: Mutex::new(()) };
        let Some(boot) = boot else { return Ok(journal) };
        match journal.read_clock(boot) {
            Some(kept) if !journal.entries()?.is_empty() => journal.clock = kept,
            Some(_) | None => {
                let text = json!({"boot": boot, "offsetMs": clock.offset_ms}).to_string();
                if let Err(error) = journal.replace(&journal.dir.join(CLOCK), text.as_bytes()) {
                    tracing::warn!(%error, "cannot store the clock of the journal; if the system clock is changed, deadlines shift when the driver restarts");
                }
            }
        }
        Ok(journal)
    }

    /// The clock of the journal, if it was begun in this boot of the operating system: the boot-time clock has not restarted.
    fn read_clock(&self, boot: &str) -> Option<Clock> {
        let value: Value = serde_json::from_slice(&fs::read(self.dir.join(CLOCK)).ok()?).ok()?;
        (value["boot"] == boot).then(|| Some(Clock { offset_ms: value["offsetMs"].as_i64()? })).flatten()
    }

    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The current time on the clock of the journal.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    pub fn read(&self, machine: Guid) -> io::Result<Option<Entry>> {
        match read_entry(&self.path(machine)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => other.map(Some),
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

    /// All entries that can be read, in the order of their machines.
    pub fn entries(&self) -> io::Result<Vec<Entry>> {
        let mut paths: Vec<PathBuf> =
            fs::read_dir(&self.dir)?.map(|entry| Ok(entry?.path())).collect::<io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|end| end == "json"));
        paths.sort();
        let readable = |path: &PathBuf| {
            let entry = read_entry(path);
            entry.inspect_err(|error| tracing::error!(%error, "skipping an entry of the journal")).ok()
        };
        Ok(paths.iter().filter_map(readable).collect())
    }

    /// The highest term that was seen. If the file is damaged, that of the entries: orders must not be refused forever.
    pub fn term(&self) -> io::Result<u64> {
        let path = self.dir.join(TERM);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            other => other?,
        };
        if let Some(term) = str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()) {
            return Ok(term);
        }
        tracing::warn!(path = %path.display(), "the file with the highest term is damaged; using the terms of the orders");
        Ok(self.entries()?.iter().map(|entry| entry.order.term).max().unwrap_or(0))
    }

    /// Remembers a term if it is the highest one.
    pub fn raise_term(&self, term: u64) -> io::Result<()> {
        let _turn = self.term.lock().unwrap_or_else(PoisonError::into_inner);
        if term > self.term()? { self.replace(&self.dir.join(TERM), term.to_string().as_bytes()) } else { Ok(()) }
    }

    /// The last epoch that was learned. None: there is none, or the file is damaged; the server states it again.
    pub fn epoch(&self) -> io::Result<Option<u64>> {
        match fs::read(self.dir.join(EPOCH)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            other => Ok(str::from_utf8(&other?).ok().and_then(|text| text.trim().parse().ok())),
        }
    }

    pub fn set_epoch(&self, epoch: u64) -> io::Result<()> {
        self.replace(&self.dir.join(EPOCH), epoch.to_string().as_bytes())
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
        "epoch": order.epoch,
        "deadline": order.deadline.0,
        "action": encode_action(&order.action),
        "stage": entry.reached.map(|reached| reached.stage.as_str()),
        "since": entry.reached.map(|reached| reached.since.0),
        "disks": entry.disks,
        "wasOff": entry.was_off,
        "boot": entry.boot,
        "abandoned": entry.is_abandoned,
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

fn read_entry(path: &Path) -> io::Result<Entry> {
    let value = serde_json::from_slice(&fs::read(path)?).ok();
    let entry = value.as_ref().and_then(decode_entry);
    entry.ok_or_else(|| {
        let message = format!("{} is damaged or from a newer version: upgrade, or remove it", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
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
        // Entries of earlier versions do not have it.
        epoch: value["epoch"].as_u64(),
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
    // Entries of earlier versions do not have these.
    let was_off = value["wasOff"].as_bool().unwrap_or(false);
    let boot = text(&value["boot"]);
    let is_abandoned = value["abandoned"].as_bool().unwrap_or(false);
    Some(Entry { order, reached, disks, was_off, boot, is_abandoned, outcome })
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
        Entry::new(Order { id, name: "web1".into(), action, term: 3, epoch: None, deadline: Timestamp(1_000) })
    }

    fn open(dir: &Path) -> Journal {
        Journal::open(dir, None, Clock::of_program()).unwrap()
    }

    #[test]
    fn entries_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        let outcomes = [None, Some(Outcome::Done), Some(Outcome::Gone), Some(Outcome::Moved { to: "host2".into() })];
        for action in actions() {
            for outcome in &outcomes {
                let disks = vec!["/disk".to_owned()];
                let reached = Some(StageRecord { stage: Stage::Held, since: Timestamp(5) });
                let outcome = outcome.clone();
                let boot = Some("b5f1b7b4".to_owned());
                let mut entry = entry(action.clone());
                entry.order.epoch = Some(4);
                let entry = Entry { reached, outcome, disks, was_off: true, boot, is_abandoned: true, ..entry };
                journal.write(&entry).unwrap();
                let journal = open(dir.path());
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
        for key in ["wasOff", "since", "boot", "abandoned", "epoch"] {
            value.as_object_mut().unwrap().remove(key).unwrap();
        }
        assert_eq!(decode_entry(&value), Some(entry));
    }

    #[test]
    fn the_highest_term_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        assert_eq!(journal.term().unwrap(), 0);
        journal.raise_term(7).unwrap();
        journal.raise_term(6).unwrap();
        assert_eq!(open(dir.path()).term().unwrap(), 7);
    }

    #[test]
    fn the_last_epoch_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        assert_eq!(journal.epoch().unwrap(), None);
        journal.set_epoch(7).unwrap();
        journal.set_epoch(0).unwrap();
        assert_eq!(open(dir.path()).epoch().unwrap(), Some(0), "the host was registered again");
        fs::write(dir.path().join(EPOCH), "\u{fffd}").unwrap();
        assert_eq!(journal.epoch().unwrap(), None);
    }

    #[test]
    fn the_clock_is_kept_within_one_boot_while_there_are_entries() {
        let dir = tempfile::tempdir().unwrap();
        let clock = |offset_ms| Clock { offset_ms };
        let open = |boot, now| Journal::open(dir.path(), boot, clock(now)).unwrap();
        assert_eq!(open(Some("a"), 1_000).clock(), clock(1_000));
        assert_eq!(open(Some("a"), 2_000).clock(), clock(2_000), "no entry has a time");
        open(Some("a"), 2_000).write(&entry(Action::Terminate)).unwrap();
        assert_eq!(open(Some("a"), 9_000).clock(), clock(2_000));
        assert_eq!(open(None, 9_000).clock(), clock(9_000), "the boot is unknown");
        assert_eq!(open(Some("b"), 5_000).clock(), clock(5_000), "the boot-time clock has restarted");
        assert_eq!(open(Some("b"), 6_000).clock(), clock(5_000));
        for damage in ["", "{}", "{\"boot\":\"b\"}", "\u{fffd}"] {
            fs::write(dir.path().join(CLOCK), damage).unwrap();
            assert_eq!(open(Some("b"), 7_000).clock(), clock(7_000), "{damage:?}");
        }
    }

    #[test]
    fn a_damaged_term_is_replaced_by_that_of_the_orders() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        for damage in ["", "seven", "\u{fffd}"] {
            fs::write(dir.path().join(TERM), damage).unwrap();
            assert_eq!(journal.term().unwrap(), 0, "{damage:?}");
        }
        journal.write(&entry(Action::Terminate)).unwrap();
        assert_eq!(journal.term().unwrap(), 3);
        journal.raise_term(4).unwrap();
        assert_eq!(journal.term().unwrap(), 4);
    }

    #[test]
    fn threads_that_raise_the_term_leave_the_highest_one() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        std::thread::scope(|scope| {
            for term in 1..=16 {
                let journal = &journal;
                scope.spawn(move || journal.raise_term(term).unwrap());
            }
        });
        assert_eq!(journal.term().unwrap(), 16);
    }

    #[test]
    fn a_damaged_entry_is_an_error_for_its_machine_only() {
        let dir = tempfile::tempdir().unwrap();
        let journal = open(dir.path());
        let entry = entry(Action::Terminate);
        let id = OrderId { machine: Guid::from_random_bits(3), ..entry.order.id };
        let other = Entry::new(Order { id, ..entry.order.clone() });
        journal.write(&entry).unwrap();
        journal.write(&other).unwrap();
        for damage in ["", "{}", "{\"version\":2}", "[]"] {
            fs::write(journal.path(entry.order.id.machine), damage).unwrap();
            let error = journal.read(entry.order.id.machine).unwrap_err().to_string();
            assert!(error.contains("is damaged or from a newer version"), "{damage}: {error}");
            assert_eq!(journal.entries().unwrap(), std::slice::from_ref(&other), "{damage}");
        }
    }
}
