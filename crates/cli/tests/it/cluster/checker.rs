//! Clients record every answer while servers and members of etcd are killed, stopped and cut off. Afterward, everything that was
//! acknowledged must be in the history of every server, and nothing may have happened twice.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::network::{End, MEMBERS, Network, SERVERS, WAYS};
use super::nodes::{Answer, Cluster, Members, Servers, poll_until};
use super::{has_etcd, has_etcd_and_network, machine};

/// Rounds at most; `XTASK_ROUNDS` overrides it.
const ROUNDS: u64 = 30;

/// Fewer rounds prove too little.
const ROUNDS_MIN: u64 = 5;

/// Part of the answer to a change that was refused for certain.
const NOTHING_HAPPENED: &str = "NoLeader";

/// Kills of the leader in a row; `XTASK_ROUNDS` overrides it.
const CRASHES: u64 = 10;

/// A takeover takes about 1.3 s on an idle computer. If each crash doubled the required silence, even the shortest of the
/// later takeovers would take much longer.
const TAKEOVER_MAX: Duration = Duration::from_millis(2500);

/// Time after which no further round begins, unless `XTASK_ROUNDS` is set.
const ROUNDS_TIME_MAX: Duration = Duration::from_secs(100);

/// Clients that change something, each with a machine of its own.
const CLIENTS: usize = 4;

/// Of this many events, one is canceled instead of approved.
const CANCELED_EVERY: u64 = 3;

/// Machines whose documents are watched: the newest ones, because those change.
const WATCHED: u64 = 8;

#[derive(Default)]
pub struct Ledger {
    machines: Mutex<Vec<String>>,
    scheduled: Mutex<Vec<String>>,
    approved: Mutex<Vec<String>>,
    canceled: Mutex<Vec<String>>,
    /// Changes that were refused because nothing has happened: the kind of the row that they would have caused, and its machine or
    /// event.
    refused: Mutex<Vec<(&'static str, String)>>,
    /// Requests without an answer, and answers that do not tell the outcome.
    unknown: AtomicU64,
    /// Acknowledged changes.
    acknowledged: AtomicU64,
    is_over: AtomicBool,
    violations: Mutex<Vec<String>>,
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_happens_twice() {
    if !has_etcd_and_network() {
        return;
    }
    Network::run(|network| {
        let mut takeovers = Vec::new();
        run_with_clients(Cluster::start_in(&network), |etcd, shared, ledger| {
            let begun = Instant::now();
            let mut random = Random(0x5eed);
            let mut done = 0;
            for round in 0..rounds(ROUNDS) {
                if begun.elapsed() > ROUNDS_TIME_MAX && std::env::var_os("XTASK_ROUNDS").is_none() {
                    eprintln!("{round} rounds");
                    break;
                }
                let target = random.below(3) as usize;
                match random.below(6) {
                    0 | 1 => takeovers.push(kill_leader(shared, ledger)),
                    2 => pause(shared, ledger, target),
                    3 | 4 => cut(&network, ledger, &mut random),
                    _ => {
                        etcd.kill(target);
                        wait_for_progress(ledger, 3);
                        etcd.restart(target);
                        etcd.wait_until_healthy();
                    }
                }
                done += 1;
            }
            assert!(done >= ROUNDS_MIN.min(rounds(ROUNDS)), "only {done} rounds in {:?}", begun.elapsed());
        });
        print_takeovers(takeovers);
    });
}

/// Cuts off a server or a member of etcd from some or all others, in one or in both directions.
fn cut(network: &Network, ledger: &Ledger, random: &mut Random) {
    let all = [SERVERS, MEMBERS].concat();
    let end = random.choose(&all);
    let others: &[End] = match random.below(3) {
        0 => &all,
        1 => &SERVERS,
        _ => &MEMBERS,
    };
    network.cut(end, others, random.choose(&WAYS));
    wait_for_progress(ledger, 3);
    network.heal();
    wait_for_progress(ledger, 3);
}

#[test]
fn takeovers_stay_short_when_leaders_crash_one_after_the_other() {
    if !has_etcd() {
        return;
    }
    let mut takeovers = Vec::new();
    run_with_clients(Cluster::start(), |_, shared, ledger| {
        takeovers.extend((0..rounds(CRASHES)).map(|_| kill_leader(shared, ledger)));
    });
    // Other load delays single takeovers, so only the shortest counts.
    let shortest = takeovers[takeovers.len() / 2..].iter().min().copied();
    print_takeovers(takeovers);
    assert!(shortest.is_some_and(|shortest| shortest < TAKEOVER_MAX), "{shortest:?}");
}

/// Runs clients while this function makes trouble, then checks everything.
pub fn run_with_clients(mut cluster: Cluster, trouble: impl FnOnce(&mut Members, &Shared<'_>, &Ledger)) {
    let ledger = Ledger::default();
    let Cluster { etcd, servers, .. } = &mut cluster;
    let shared = std::sync::RwLock::new(servers);
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (ledger, shared) = (&ledger, &shared);
            scope.spawn(move || act(ledger, shared, client));
        }
        for index in 0..3 {
            let (ledger, shared) = (&ledger, &shared);
            scope.spawn(move || watch_incarnations(ledger, shared, index));
        }
        trouble(etcd, &shared, &ledger);
        ledger.is_over.store(true, Ordering::Relaxed);
    });
    check(shared.into_inner().unwrap(), &ledger);
}

/// Prints how long takeovers took.
pub fn print_takeovers(mut takeovers: Vec<Duration>) {
    takeovers.sort();
    if let (Some(median), Some(worst)) = (takeovers.get(takeovers.len() / 2), takeovers.last()) {
        let count = takeovers.len();
        eprintln!("{count} kills of a leader: next change after {median:.2?} (median), {worst:.2?} (worst)");
    }
}

pub type Shared<'a> = std::sync::RwLock<&'a mut Servers>;

/// Kills the leader and returns the time until the next acknowledged change.
fn kill_leader(shared: &Shared<'_>, ledger: &Ledger) -> Duration {
    let leader = shared.read().unwrap().leader();
    shared.write().unwrap().kill(leader);
    let before = ledger.acknowledged.load(Ordering::Relaxed);
    let begun = Instant::now();
    poll_until("a change after the kill", || (ledger.acknowledged.load(Ordering::Relaxed) > before).then_some(()));
    let took = begun.elapsed();
    shared.write().unwrap().restart(leader);
    wait_for_progress(ledger, 5);
    took
}

/// Stops a server until the others make progress, then lets it continue.
fn pause(shared: &Shared<'_>, ledger: &Ledger, index: usize) {
    shared.read().unwrap().stop(index);
    wait_for_progress(ledger, 3);
    shared.read().unwrap().resume(index);
    wait_for_progress(ledger, 3);
}

pub fn wait_for_progress(ledger: &Ledger, changes: u64) {
    let before = ledger.acknowledged.load(Ordering::Relaxed);
    poll_until("progress", || (ledger.acknowledged.load(Ordering::Relaxed) >= before + changes).then_some(()));
}

/// Registers machines, restarts them, and approves or cancels, at any server.
fn act(ledger: &Ledger, shared: &Shared<'_>, client: usize) {
    let mut random = Random(client as u64 + 1);
    for number in 0_u64.. {
        if ledger.is_over.load(Ordering::Relaxed) {
            return;
        }
        let name = format!("vm-{client}-{number}");
        let ask = |method: &str, path: &str, body: &str, random: &mut Random| {
            let address = shared.read().unwrap().management[random.below(3) as usize];
            super::nodes::request(address, method, path, body)
        };
        let acknowledge = |list: &Mutex<Vec<String>>, item: &str| {
            list.lock().unwrap().push(item.to_owned());
            ledger.acknowledged.fetch_add(1, Ordering::Relaxed);
        };
        let added = ask("POST", "/api/v1/machines", &machine(&name), &mut random);
        if !ledger.is_done(added.as_ref(), 201, "machine-added", &name) {
            continue;
        }
        acknowledge(&ledger.machines, &name);
        let enable = format!("/api/v1/machines/{name}/enable-events");
        let restart = format!("/api/v1/machines/{name}/restart");
        if ask("POST", &enable, "", &mut random).is_none_or(|answer| answer.status != 200) {
            continue;
        }
        let operation = ask("POST", &restart, "", &mut random);
        let is_done = ledger.is_done(operation.as_ref(), 202, "appeared", &name);
        let Some(operation) = operation.filter(|_| is_done) else { continue };
        let operation: Value = serde_json::from_str(&operation.body).unwrap();
        let event = operation["events"][0]["id"].as_str().unwrap().to_owned();
        acknowledge(&ledger.scheduled, &event);
        if number % CANCELED_EVERY == 0 {
            let cancel = format!("/api/v1/events/{event}/cancel");
            let canceled = ask("POST", &cancel, "", &mut random);
            if ledger.is_done(canceled.as_ref(), 200, "ended", &event) {
                acknowledge(&ledger.canceled, &event);
            }
            continue;
        }
        let metadata = shared.read().unwrap().metadata[random.below(3) as usize];
        let path = format!("/vm/{name}/metadata/scheduledevents?api-version=2020-07-01");
        let body = format!(r#"{{"StartRequests":[{{"EventId":"{event}"}}]}}"#);
        if super::nodes::request(metadata, "POST", &path, &body).is_some_and(|answer| answer.status == 200) {
            acknowledge(&ledger.approved, &event);
        }
    }
}

/// The incarnation that one server shows to a guest never falls.
fn watch_incarnations(ledger: &Ledger, shared: &Shared<'_>, index: usize) {
    let mut highest: HashMap<String, u64> = HashMap::new();
    let mut random = Random(index as u64 + 1);
    while !ledger.is_over.load(Ordering::Relaxed) {
        let back = random.below(WATCHED) as usize;
        let Some(name) = ledger.machines.lock().unwrap().iter().rev().nth(back).cloned() else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let metadata = shared.read().unwrap().metadata[index];
        let path = format!("/vm/{name}/metadata/scheduledevents?api-version=2020-07-01");
        let Some(answer) = super::nodes::request(metadata, "GET", &path, "").filter(|answer| answer.status == 200)
        else {
            std::thread::sleep(Duration::from_millis(20));
            continue;
        };
        let document: Value = serde_json::from_str(&answer.body).unwrap();
        let incarnation = document["DocumentIncarnation"].as_u64().unwrap();
        let before = highest.entry(name).or_insert(0);
        if incarnation < *before {
            let text = format!("n{index} showed incarnation {incarnation} after {before}");
            ledger.violations.lock().unwrap().push(text);
        }
        *before = incarnation.max(*before);
        std::thread::sleep(Duration::from_millis(20));
    }
}

impl Ledger {
    /// Records the outcome of a change that would cause this row. Returns whether it was acknowledged.
    fn is_done(&self, answer: Option<&Answer>, success: u16, kind: &'static str, item: &str) -> bool {
        match answer {
            Some(answer) if answer.status == success => return true,
            Some(answer) if answer.body.contains(NOTHING_HAPPENED) => {
                self.refused.lock().unwrap().push((kind, item.to_owned()));
            }
            Some(_) | None => drop(self.unknown.fetch_add(1, Ordering::Relaxed)),
        }
        false
    }
}

/// Checks that nothing of what was refused has happened. An event that would have been canceled can end in another way.
fn check_refused(history: &[Value], ledger: &Ledger) {
    for (kind, item) in &*ledger.refused.lock().unwrap() {
        let is_there = |row: &&Value| {
            let is_about = row["event"] == item.as_str() || row["machines"][0] == item.as_str();
            let is_other_end = *kind == "ended" && row["outcome"] != "canceled";
            row["kind"] == *kind && is_about && !is_other_end
        };
        assert!(history.iter().find(is_there).is_none(), "{kind} of {item} was refused, but has happened");
    }
}

fn check(servers: &Servers, ledger: &Ledger) {
    let history = servers.check_equal();
    check_refused(&history, ledger);
    let rows = |kind: &str| -> HashMap<String, Vec<&Value>> {
        let mut found: HashMap<String, Vec<&Value>> = HashMap::new();
        for row in history.iter().filter(|row| row["kind"] == kind) {
            let key = row["event"].as_str().or(row["machines"][0].as_str()).unwrap_or_default();
            found.entry(key.to_owned()).or_default().push(row);
        }
        found
    };
    let (added, appeared, approved) = (rows("machine-added"), rows("appeared"), rows("approved"));
    let (started, ended) = (rows("started"), rows("ended"));
    for name in &*ledger.machines.lock().unwrap() {
        assert_eq!(added.get(name).map(Vec::len), Some(1), "the registration of {name}");
    }
    for event in &*ledger.scheduled.lock().unwrap() {
        assert_eq!(appeared.get(event).map(Vec::len), Some(1), "the schedule of {event}");
    }
    for event in &*ledger.approved.lock().unwrap() {
        assert_eq!(approved.get(event).map(Vec::len), Some(1), "the approval of {event}");
        assert_eq!(started.get(event).map(Vec::len), Some(1), "the start of {event}");
    }
    for event in &*ledger.canceled.lock().unwrap() {
        let [row] = &ended[event][..] else { panic!("{event} ended several times") };
        assert_eq!(row["outcome"], "canceled", "{event}");
        assert!(!started.contains_key(event), "{event} started after its cancellation");
    }
    for (event, rows) in &started {
        assert_eq!(rows.len(), 1, "{event} started twice");
        let is_approved =
            approved.get(event).is_some_and(|approvals| approvals[0]["number"].as_u64() < rows[0]["number"].as_u64());
        assert!(is_approved, "{event} started early");
    }
    assert_eq!(*ledger.violations.lock().unwrap(), Vec::<String>::new());
    let count = ledger.acknowledged.load(Ordering::Relaxed);
    assert!(count > 0);
    let (refused, unknown) = (ledger.refused.lock().unwrap().len(), ledger.unknown.load(Ordering::Relaxed));
    let rows = history.len();
    eprintln!(
        "{count} acknowledged changes, {refused} refused, {unknown} with an unknown outcome, {rows} rows of history"
    );
}

pub fn rounds(default: u64) -> u64 {
    std::env::var("XTASK_ROUNDS").map_or(default, |count| count.parse().expect("XTASK_ROUNDS is a number"))
}

struct Random(u64);

impl Random {
    fn choose<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }

    /// xorshift64*
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % end
    }
}
