//! Measures a store: `cargo run --release -p forewarn-store --example store_measure -- DIR MACHINES`. Fills a
//! new SQLite store, loads it, then commits as a server does: one event per commit, and in groups.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use forewarn_core::*;
use forewarn_store::conformance::sample;
use forewarn_store::{Batch, HistoryQuery, Loaded, SqliteStore, Store};

const PER_COMMIT: u64 = 10_000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().expect("a directory");
    let count: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(100_000);
    if !Path::new(&directory).exists() {
        fill(SqliteStore::open(Path::new(&directory)).expect("a store"), count);
    }
    load(Path::new(&directory));
}

fn fill(mut store: SqliteStore, count: u64) {
    let mut revision = 0;
    let start = Instant::now();
    for first in (1..=count).step_by(PER_COMMIT as usize) {
        let mut writes: Vec<Write> = Vec::new();
        for n in first..(first + PER_COMMIT).min(count + 1) {
            writes.extend([Write::Put(machine(n)), Write::Put(scope(n))]);
        }
        writes.push(Write::Put(Entity::Meta(RegionMeta { next_id: count + 1, ..RegionMeta::default() })));
        revision = store.commit(revision, &Batch { writes, ..Batch::default() }).expect("a commit");
    }
    println!("fill {count}: {:?}", start.elapsed());
}

fn load(directory: &Path) {
    let before = resident_kib();
    let start = Instant::now();
    let mut store = SqliteStore::open(directory).expect("a store");
    let Loaded { mut revision, entities } = store.load().expect("a load");
    println!("load of {} entities: {:?}, {} KiB", entities.len(), start.elapsed(), resident_kib() - before);
    let start = Instant::now();
    let region = Region::load(Settings::default(), entities).expect("a region");
    println!("region of {}: {:?}, {} KiB", region.machines().len(), start.elapsed(), resident_kib() - before);
    for group in [1, 10, 100] {
        commits(&mut store, group, &mut revision);
    }
}

fn commits(store: &mut SqliteStore, group: u64, revision: &mut u64) {
    let start = Instant::now();
    let rounds = 200;
    for round in 0..rounds {
        let mut batch = Batch::default();
        for n in 0..group {
            let event = Arc::new(sample::event(*revision * 1000 + n, Status::Scheduled));
            batch.writes.extend([Write::Put(Entity::Event(event.clone())), Write::Put(scope(round * group + n + 1))]);
            batch.facts.push(Fact { at: sample::at(round as i64), what: FactKind::Appeared(event) });
        }
        *revision = store.commit(*revision, &batch).expect("a commit");
    }
    let taken = start.elapsed();
    let rate = (rounds * group) as f64 / taken.as_secs_f64();
    println!("{rounds} commits of {group} events: {:?} each, {rate:.0} events/s", taken / rounds as u32);
    let start = Instant::now();
    let query =
        HistoryQuery { machine: Some("machine-2".into()), newest: true, limit: Some(100), ..Default::default() };
    let rows = store.reader().history(&query).expect("rows").len();
    println!("history of a machine, {rows} rows: {:?}", start.elapsed());
}

fn machine(n: u64) -> Entity {
    let Entity::Machine(plain) = sample::machine(3) else { unreachable!("it is a machine") };
    Entity::Machine(Arc::new(Machine {
        id: MachineId(n),
        vm_id: Guid(u128::from(n)).derive(0),
        name: format!("machine-{n:07}").into(),
        scope: ScopeId(n),
        host: Some(format!("host-{:05}", n / 20).into()),
        addresses: vec![Address {
            network: "default".into(),
            ip: std::net::Ipv4Addr::from(0x0a40_0004 + n as u32).into(),
        }]
        .into(),
        details: Arc::new(Details {
            shared: Arc::new(SharedDetails {
                location: "nowhere".into(),
                size: "Standard_D2s_v5".into(),
                ..SharedDetails::default()
            }),
            ..Details::default()
        }),
        ..(*plain).clone()
    }))
}

fn scope(n: u64) -> Entity {
    let owner = ScopeOwner::Machine(MachineId(n));
    Entity::Scope(Arc::new(Scope { id: ScopeId(n), owner, switch: EventsState::Off, incarnation: 0, live: Vec::new() }))
}

fn resident_kib() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse().ok()).unwrap_or(0)
}
