//! Cost of the store: creating data directories, loading them, and one command per commit.

use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use forewarn_core::*;
use forewarn_store::{Batch, Contents, SqliteStore, Store};

use crate::fleet::{self, Fleet};
use crate::region::somewhere;

/// A clock tick in /proc, the same on all supported systems.
const TICK_MILLIS: u64 = 10;

/// Events start long after the measurement.
const AHEAD: Duration = Duration::from_secs(10 * 24 * 3600);

/// Fills a new data directory. The first `events` machines, counted across the sets, have one Scheduled event
/// each. The file `events` in the directory lists them as `machine event`.
pub fn make(fleet: Fleet, directory: &Path, events: u64) -> Result<(), Box<dyn Error>> {
    let mut region = Region::load(fleet::settings(), fleet.entities())?;
    let mut list = String::new();
    for turn in 0..events {
        let n = across(fleet, turn);
        let event = Guid(0x0065_7665_6e74).derive(turn);
        region = region.apply(&maintain(fleet, n, turn, event), fleet.start)?.region;
        writeln!(list, "{} {event}", Fleet::name(n))?;
    }
    let contents =
        Contents { revision: 1, clock: None, entities: region.entities().collect(), attachments: Vec::new() };
    std::fs::create_dir_all(directory)?;
    SqliteStore::open(directory)?.restore(&contents, &mut std::iter::empty())?;
    std::fs::write(directory.join("events"), list)?;
    println!("machines={} events={events}", fleet.machines);
    Ok(())
}

/// The first machine of each set, then the second of each, and so on.
fn across(fleet: Fleet, turn: u64) -> u64 {
    let (scopes, size) = (fleet.scopes(), fleet.machines / fleet.scopes());
    turn % scopes * size + turn / scopes
}

fn maintain(fleet: Fleet, n: u64, turn: u64, event: EventId) -> Command {
    let plan = Plan {
        kind: EventKind::Freeze,
        cause: Cause::HostMaintenance,
        at: Some(fleet.start + AHEAD),
        notice: None,
        duration_secs: None,
        description: None,
    };
    let target = Target::Machines(vec![fleet.machine_id(n)]);
    let operation = Guid(0x006f_7065_7261).derive(turn);
    Command::Request { operation, by: "bench".into(), request: Request::Maintain { target, plan }, event: Some(event) }
}

/// A store and its region, as the writer holds them.
struct Opened {
    store: SqliteStore,
    region: Region,
    revision: u64,
}

impl Opened {
    fn new(directory: &Path) -> Result<Opened, Box<dyn Error>> {
        let mut store = SqliteStore::open(directory)?;
        let loaded = store.load()?;
        let region = Region::load(fleet::settings(), loaded.entities)?;
        Ok(Opened { store, region, revision: loaded.revision })
    }

    /// Applies a command and commits it.
    fn carry_out(&mut self, command: &Command) -> Result<(), Box<dyn Error>> {
        let Transition { region, writes, facts, .. } = self.region.apply(command, self.region.now())?;
        self.revision = self.store.commit(self.revision, &Batch { writes, facts, ..Batch::default() })?;
        self.region = region;
        Ok(())
    }
}

/// Time to load a data directory into a region, in wall-clock and CPU time.
pub fn load(directory: &Path) -> Result<(), Box<dyn Error>> {
    let begun = Instant::now();
    let mut store = SqliteStore::open(directory)?;
    let loaded = store.load()?;
    let (read_ms, read_cpu_ms) = (begun.elapsed().as_millis(), cpu_millis()?);
    let region = Region::load(fleet::settings(), loaded.entities)?;
    let (all_ms, all_cpu_ms) = (begun.elapsed().as_millis(), cpu_millis()?);
    let machines = region.machines().len();
    println!("machines={machines} read_ms={read_ms} read_cpu_ms={read_cpu_ms} all_ms={all_ms} all_cpu_ms={all_cpu_ms}");
    Ok(())
}

/// CPU time of all threads of this process so far, in milliseconds.
fn cpu_millis() -> Result<u64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit_once(')').ok_or("no stat")?.1.split_whitespace().collect();
    let (user, system): (u64, u64) = (fields[11].parse()?, fields[12].parse()?);
    Ok((user + system) * TICK_MILLIS)
}

/// Median time of one command with its durable commit, in microseconds, alternating between two fleets:
/// `rounds` times `count` restarts in the one, then in the other.
pub fn commit(small: &Path, large: &Path, rounds: u64, count: u64) -> Result<(), Box<dyn Error>> {
    let mut fleets = [Opened::new(small)?, Opened::new(large)?];
    for round in 0..rounds {
        let mut medians = [0.0; 2];
        for (opened, median) in fleets.iter_mut().zip(&mut medians) {
            *median = restarts(opened, round * count, count)?;
        }
        println!("small_us={:.1} large_us={:.1}", medians[0], medians[1]);
    }
    Ok(())
}

fn restarts(opened: &mut Opened, first: u64, count: u64) -> Result<f64, Box<dyn Error>> {
    let machines = opened.region.machines().len() as u64;
    let fleet = Fleet { machines, shape: fleet::Shape::Sets { size: 100 }, start: opened.region.now() };
    let mut micros = Vec::new();
    for turn in first..first + count {
        let machine = fleet.machine_id(somewhere(fleet, turn));
        let operation = Guid(0x0072_6573).derive(turn);
        let request = Request::Restart { machines: vec![machine] };
        let command = Command::Request { operation, by: "bench".into(), request, event: None };
        let begun = Instant::now();
        opened.carry_out(&command)?;
        micros.push(begun.elapsed().as_secs_f64() * 1e6);
    }
    micros.sort_by(f64::total_cmp);
    Ok(micros[micros.len() / 2])
}

/// Approvals per second, each with its own commit.
pub fn approve(directory: &Path, skip: usize, count: usize) -> Result<(), Box<dyn Error>> {
    let list = std::fs::read_to_string(directory.join("events"))?;
    let mut opened = Opened::new(directory)?;
    let ids: Vec<EventId> = opened.region.events().map(|event| event.id).collect();
    let commands: Vec<Command> =
        ids.into_iter().skip(skip).take(count).map(|id| by_guest(&opened.region, id)).collect();
    if commands.len() < count || list.is_empty() {
        return Err("the directory has fewer events".into());
    }
    let begun = Instant::now();
    for command in &commands {
        opened.carry_out(command)?;
    }
    println!("per_second={:.0}", count as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}

fn by_guest(region: &Region, id: EventId) -> Command {
    let resource = region.event(id).map(|event| event.resources[0].clone()).expect("the id is of this region");
    let (machine, name) = (resource.machine, resource.name);
    Command::Approve {
        by: Approver::Guest { machine, name },
        within: ApprovalScope::ScopeOf(machine),
        events: vec![id],
    }
}

/// Commits per second of SQLite alone with our settings, each with one row of 300 bytes.
pub fn sqlite(directory: &Path, count: usize) -> Result<(), Box<dyn Error>> {
    std::fs::create_dir_all(directory)?;
    let path = directory.join("plain.db");
    let _ = std::fs::remove_file(&path);
    let connection = rusqlite::Connection::open(path)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE rows (number INTEGER PRIMARY KEY, body TEXT)")?;
    let body = "x".repeat(300);
    let begun = Instant::now();
    for _ in 0..count {
        connection.prepare_cached("INSERT INTO rows (body) VALUES (?1)")?.execute([&body])?;
    }
    println!("per_second={:.0}", count as f64 / begun.elapsed().as_secs_f64());
    Ok(())
}
