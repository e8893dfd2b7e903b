//! The world of a run: servers, the log, the network between them, and clients, driven by a queue of events.

mod applying;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use forewarn_cluster::machine::{Delivery, Outcome, Settings, Step};
use forewarn_cluster::{
    AppendResult, Entry, Hash, HeartbeatResult, Log as _, LogError, LogPage, MemoryContents, MemoryLog, Position,
    Request, Response, TakeoverResult, TruncateResult,
};

use crate::checker::{Checker, id_of};
use crate::node::{Disk, Node};
use crate::region::{self, Content, Notices, RegionCopy};
use crate::rng::Rng;

/// The time with faults, and the time afterwards in which everything must recover.
const FAULTY_MS: u64 = 45_000;
const QUIET_MS: u64 = 20_000;

/// How long a server waits for an answer.
const TIMEOUT_MS: u64 = 500;
/// The latest arrival of a request.
const LATE_MS: u64 = 4_000;
const BACKUP_EVERY_MS: u64 = 400;
/// The age of a heartbeat up to which a server counts as current, without faults.
const FRESH_MAX: Duration = Duration::from_secs(4);

/// Counts of a run, to see that it reaches what it must test.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub committed: u64,
    pub failed: u64,
    pub unknown: u64,
    pub deposed: u64,
    pub takeovers: u64,
    pub truncations: u64,
    pub transfers: u64,
    pub diverged: u64,
    /// Transactions with more than one entry.
    pub batches: u64,
    /// Events.
    pub started: u64,
    pub hash: u64,
}

impl Summary {
    pub fn add(&mut self, other: &Summary) {
        self.committed += other.committed;
        self.failed += other.failed;
        self.unknown += other.unknown;
        self.deposed += other.deposed;
        self.takeovers += other.takeovers;
        self.truncations += other.truncations;
        self.transfers += other.transfers;
        self.diverged += other.diverged;
        self.batches += other.batches;
        self.started += other.started;
    }
}

#[derive(Debug)]
enum Event {
    Poll {
        node: usize,
        process: u64,
    },
    /// A request reaches the log. Its answer goes back if it is not lost.
    Arrive {
        node: usize,
        process: u64,
        number: u64,
        request: Request,
        is_answered: bool,
        is_stale: bool,
    },
    Answer {
        node: usize,
        process: u64,
        number: u64,
        result: Result<Response, LogError>,
    },
    /// A long apply ends.
    Applied {
        node: usize,
        process: u64,
    },
    /// A server starts again after its copy could not apply an entry.
    Recover {
        node: usize,
        process: u64,
    },
    Client,
    Trouble,
    Restart {
        node: usize,
    },
    Backup,
    Restore,
}

/// The faults of this run, in percent of requests.
struct Faults {
    lost_requests: u64,
    lost_answers: u64,
    late: u64,
    refused: u64,
    stale: u64,
    /// Of a thousand transactions of copies: those that take long, and those that fail.
    hangs: u64,
    apply_failures: u64,
    trouble_every_ms: u64,
}

struct World {
    rng: Rng,
    /// Chooses the commands, so that they do not change the faults of a seed.
    commands: Rng,
    /// Chooses when copies are stored and how fast processes start again, for the same reason.
    stores: Rng,
    now: u64,
    sequence: u64,
    /// Boxed, because the map moves its values often.
    queue: BTreeMap<(u64, u64), Box<Event>>,
    nodes: Vec<Node>,
    log: MemoryLog,
    backups: Vec<MemoryContents>,
    checker: Checker,
    /// The contents of records, by their requests.
    contents: BTreeMap<u64, Content>,
    /// The first copy at each position, by the position's hash.
    copies: BTreeMap<Hash, RegionCopy>,
    faults: Faults,
    settings: Settings,
    next_request: u64,
    next_number: u64,
    was_restored: bool,
    print: bool,
    hasher: DefaultHasher,
    summary: Summary,
}

pub fn simulate(seed: u64, print: bool) -> Result<Summary, String> {
    let mut world = World::new(seed, print);
    world.run()?;
    world.summary.hash = world.hasher.finish();
    Ok(world.summary)
}

impl World {
    fn new(seed: u64, print: bool) -> World {
        let mut rng = Rng::new(seed);
        let settings = Settings {
            pause: Duration::from_secs(5),
            truncate_every: Duration::from_millis(rng.one(&[2_000, 5_000, 30_000])),
            truncate_records_min: rng.one(&[1, 5, 20]),
            apply_entries_max: rng.one(&[1, 3, 256]),
            ..Settings::default()
        };
        let rough = rng.one(&[0, 1, 1, 2, 5]);
        let faults = Faults {
            lost_requests: rng.below(1 + 2 * rough),
            lost_answers: rng.below(1 + 2 * rough),
            late: rng.below(1 + 2 * rough),
            refused: rng.below(1 + rough),
            stale: rng.one(&[0, 0, 0, 5]),
            hangs: rng.one(&[0, 1, 2]),
            apply_failures: rng.one(&[0, 0, 5]),
            trouble_every_ms: rng.one(&[1_500, 3_000, 6_000]),
        };
        let number = rng.one(&[2, 3, 3, 5]);
        let nodes = ["a", "b", "c", "d", "e"][..number].iter().map(|name| Node::new(name, &mut rng)).collect();
        World {
            rng,
            commands: Rng::new(!seed),
            stores: Rng::new(seed.rotate_left(32) ^ 1),
            now: 0,
            sequence: 0,
            queue: BTreeMap::new(),
            nodes,
            log: MemoryLog::new(),
            backups: Vec::new(),
            checker: Checker::default(),
            contents: BTreeMap::new(),
            copies: BTreeMap::new(),
            faults,
            settings,
            next_request: 0,
            next_number: 0,
            was_restored: false,
            print,
            hasher: DefaultHasher::new(),
            summary: Summary::default(),
        }
    }

    fn run(&mut self) -> Result<(), String> {
        self.log.create(&Position::START).map_err(|error| error.to_string())?;
        for node in 0..self.nodes.len() {
            let at = self.rng.below(500);
            self.at(at, Event::Restart { node });
        }
        self.at(0, Event::Client);
        self.at(1_000, Event::Trouble);
        self.at(0, Event::Backup);
        if self.rng.percent(8) {
            let at = self.rng.below(FAULTY_MS);
            self.at(at, Event::Restore);
        }
        self.run_until(FAULTY_MS)?;
        self.heal();
        self.run_until(FAULTY_MS + QUIET_MS)?;
        self.check_end()
    }

    fn run_until(&mut self, end: u64) -> Result<(), String> {
        while let Some((&(at, sequence), _)) = self.queue.first_key_value() {
            if at > end {
                break;
            }
            let Some(event) = self.queue.remove(&(at, sequence)) else { break };
            self.now = at;
            self.trace(|_| format!("{event:?}"));
            self.handle(*event)?;
            self.check_actors()?;
            self.check_readers()?;
        }
        self.now = end;
        Ok(())
    }

    fn trace(&mut self, text: impl FnOnce(&World) -> String) {
        (self.now, self.sequence, self.queue.len()).hash(&mut self.hasher);
        if self.print {
            let shown: String = text(self).chars().take(240).collect();
            println!("{:>7} {shown}", self.now);
        }
    }

    fn at(&mut self, at: u64, event: Event) {
        self.sequence += 1;
        self.queue.insert((at.max(self.now), self.sequence), Box::new(event));
    }

    fn is_faulty(&self) -> bool {
        self.now < FAULTY_MS
    }

    fn handle(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Poll { node, process } => self.when_awake(node, process, Event::Poll { node, process }, Self::poll),
            Event::Arrive { node, process, number, request, is_answered, is_stale } => {
                self.arrive(node, process, number, &request, is_answered, is_stale)
            }
            Event::Answer { node, process, number, result } => self.answer(node, process, number, result),
            Event::Applied { node, process } => {
                self.when_awake(node, process, Event::Applied { node, process }, Self::end_apply)
            }
            Event::Recover { node, process } => {
                self.when_awake(node, process, Event::Recover { node, process }, Self::recover)
            }
            Event::Client => self.ask(),
            Event::Trouble => self.make_trouble(),
            Event::Restart { node } => self.restart(node),
            Event::Backup => self.back_up(),
            Event::Restore => self.restore(),
        }
    }

    /// Runs something in a process, or puts it off while the process is paused.
    fn when_awake(
        &mut self,
        node: usize,
        process: u64,
        again: Event,
        run: fn(&mut World, usize) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.nodes[node].process != process || self.nodes[node].machine.is_none() {
            return Ok(());
        }
        if self.now < self.nodes[node].paused_until {
            let until = self.nodes[node].paused_until;
            self.at(until, again);
            return Ok(());
        }
        run(self, node)
    }

    /// Polls a machine until it waits. A machine whose copy hangs is polled too, as a second thread would do it.
    fn poll(&mut self, index: usize) -> Result<(), String> {
        for _ in 0..1000 {
            let node = &mut self.nodes[index];
            let (local, time_ms) = (node.local(self.now), node.time_ms(self.now));
            let Some(machine) = &mut node.machine else { return Ok(()) };
            match machine.poll(local, time_ms) {
                Step::Send(request) => return self.send(index, request),
                Step::Deliver(delivery) => self.deliver(index, delivery)?,
                Step::Wait(moment) => {
                    let at = node.true_ms(moment);
                    let is_later = at > self.now && at < FAULTY_MS + QUIET_MS;
                    let process = node.process;
                    if is_later {
                        self.at(at, Event::Poll { node: index, process });
                        return Ok(());
                    } else if at > self.now {
                        return Ok(());
                    }
                }
            }
        }
        Err(format!("server {} is busy without end", self.nodes[index].name))
    }

    fn send(&mut self, index: usize, request: Request) -> Result<(), String> {
        let request =
            if request.reports_progress() { request.limited_to(self.nodes[index].disk.sync()) } else { request };
        let node = &self.nodes[index];
        if node.is_hung && matches!(request, Request::Heartbeat { .. }) {
            return Err(format!("invariant \"a hung leader sends no heartbeats\": {}", node.name));
        }
        self.next_number += 1;
        let number = self.next_number;
        let (process, now) = (node.process, self.now);
        let is_cut = now < node.cut_until;
        self.nodes[index].waits_for = Some(number);
        self.trace(|world| format!("{} sends {request:?}", world.nodes[index].name));
        if self.is_faulty() && self.rng.percent(self.faults.refused) {
            let result = Err(LogError::Unavailable("connection refused".into()));
            self.at(now + 1, Event::Answer { node: index, process, number, result });
            return Ok(());
        }
        let timeout = Err(LogError::InDoubt("timed out".into()));
        let wait = match &request {
            Request::Follow { wait, .. } => self.rng.below(1 + wait.as_millis() as u64),
            _ => 0,
        };
        self.at(now + wait + TIMEOUT_MS, Event::Answer { node: index, process, number, result: timeout });
        let is_lost = is_cut || self.is_faulty() && self.rng.percent(self.faults.lost_requests);
        if is_lost {
            return Ok(());
        }
        let is_late = self.is_faulty() && self.rng.percent(self.faults.late);
        let delay = if is_late { self.rng.below(LATE_MS) } else { 1 + self.rng.below(8) };
        let is_answered = !(self.is_faulty() && self.rng.percent(self.faults.lost_answers));
        let is_stale = self.is_faulty() && request.is_read() && self.rng.percent(self.faults.stale);
        let arrival = Event::Arrive { node: index, process, number, request, is_answered, is_stale };
        self.at(now + wait + delay, arrival);
        Ok(())
    }

    fn arrive(
        &mut self,
        node: usize,
        process: u64,
        number: u64,
        request: &Request,
        is_answered: bool,
        is_stale: bool,
    ) -> Result<(), String> {
        let result = if is_stale { self.run_stale(request) } else { self.run_request(request)? };
        self.trace(|_| format!("  answer: {result:?}"));
        if is_answered && self.now >= self.nodes[node].cut_until {
            let at = self.now + 1 + self.rng.below(5);
            self.at(at, Event::Answer { node, process, number, result });
        }
        Ok(())
    }

    /// A read that is answered by a member that lags behind.
    fn run_stale(&mut self, request: &Request) -> Result<Response, LogError> {
        let old = MemoryLog::new();
        let backup = self.rng.below(self.backups.len().min(4) as u64) as usize;
        old.restore(self.backups[self.backups.len() - 1 - backup].clone());
        match run_at_once(request, old)? {
            Response::LogPage(page) => Ok(Response::LogPage(LogPage { is_read: false, ..page })),
            response => Ok(response),
        }
    }

    fn run_request(&mut self, request: &Request) -> Result<Result<Response, LogError>, String> {
        let before = self.log.view();
        self.note_join(request)?;
        let result = run_at_once(request, self.log.clone());
        match (request, &result) {
            (Request::Append { token, expected, record }, Ok(Response::Appended(AppendResult::Done))) => {
                let entry = Entry::new(expected.revision + 1, record.clone());
                self.checker.appended(&before, token.0, entry)?;
            }
            (Request::Truncate { through: through @ 1.., .. }, Ok(Response::Truncated(TruncateResult::Done))) => {
                self.summary.truncations += 1;
                self.check_truncation(*through)?;
            }
            (Request::Heartbeat { heartbeat, .. }, Ok(Response::HeartbeatWritten(HeartbeatResult::Done { .. }))) => {
                let last = before.heartbeat.map_or(i64::MIN, |heartbeat| heartbeat.time_ms);
                if heartbeat.time_ms < last && !self.was_restored {
                    return Err(format!(
                        "invariant \"the region's time never falls\": {} after {last}",
                        heartbeat.time_ms
                    ));
                }
            }
            (Request::TakeOver { .. }, Ok(Response::TakenOver(TakeoverResult::Won(_)))) => {
                self.summary.takeovers += 1;
            }
            _ => {}
        }
        Ok(result)
    }

    /// A server joins with its first report.
    fn note_join(&mut self, request: &Request) -> Result<(), String> {
        let Request::Report { member } = request else { return Ok(()) };
        let members = self.log.clone().roster().map_err(|error| error.to_string())?.members;
        if members.iter().all(|known| known.name != member.name) {
            self.nodes.iter_mut().filter(|node| node.name == member.name).for_each(|node| node.joined_at = self.now);
        }
        Ok(())
    }

    fn check_truncation(&self, through: u64) -> Result<(), String> {
        let behind = |node: &&Node| node.disk.synced_revision() < through && !node.was_wiped && !node.has_stopped;
        let members = self.log.clone().roster().map_err(|error| error.to_string())?.members;
        // A leader that did not know a server yet may delete what it needs: it copies a snapshot.
        let has_joined = |node: &Node| self.now > node.joined_at + LATE_MS + TIMEOUT_MS;
        let is_member = |node: &&Node| has_joined(node) && members.iter().any(|member| member.name == node.name);
        match self.nodes.iter().filter(is_member).find(behind).filter(|_| !self.was_restored) {
            Some(node) => Err(format!("invariant \"only what all have applied is deleted\": {} {through}", node.name)),
            None => Ok(()),
        }
    }

    fn answer(
        &mut self,
        index: usize,
        process: u64,
        number: u64,
        result: Result<Response, LogError>,
    ) -> Result<(), String> {
        let node = &mut self.nodes[index];
        if node.process != process || node.waits_for != Some(number) {
            return Ok(());
        }
        if self.now < node.paused_until {
            let until = node.paused_until;
            self.at(until, Event::Answer { node: index, process, number, result });
            return Ok(());
        }
        node.waits_for = None;
        let local = node.local(self.now);
        let Some(machine) = &mut node.machine else { return Ok(()) };
        machine.answer(local, result);
        self.poll(index)
    }

    fn deliver(&mut self, index: usize, delivery: Delivery) -> Result<(), String> {
        self.trace(|world| format!("{} delivers {delivery:?}", world.nodes[index].name));
        match delivery {
            Delivery::Apply(entries) => self.apply(index, entries)?,
            Delivery::Outcome(outcome) => self.finish_request(index, &outcome)?,
            Delivery::Missing { next } => self.transfer(index, next),
            Delivery::Diverged(_) => {
                self.summary.diverged += 1;
                self.nodes[index].has_stopped = true;
                if !self.was_restored {
                    return Err(format!("invariant \"copies belong to the log\": {} stopped", self.nodes[index].name));
                }
            }
            Delivery::Lead(lead) => self.nodes[index].continue_time(self.now, &lead),
            Delivery::Lost(_) => {
                if let Some(id) = self.nodes[index].request {
                    return Err(format!("invariant \"every request is answered\": {id}"));
                }
            }
            Delivery::NoRegion => {}
        }
        Ok(())
    }

    fn finish_request(&mut self, index: usize, outcome: &Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Committed(_) => self.summary.committed += 1,
            Outcome::Failed(_) => self.summary.failed += 1,
            Outcome::Deposed => self.summary.deposed += 1,
            Outcome::Unknown => self.summary.unknown += 1,
        }
        match self.nodes[index].request.take() {
            // After a restore, old requests cannot be judged.
            Some(_) if self.was_restored => Ok(()),
            Some(id) => self.checker.answered(id, outcome),
            None => Err(format!("invariant \"a request is answered once\": {}", self.nodes[index].name)),
        }
    }

    /// Copies a snapshot from a peer that has enough.
    fn transfer(&mut self, index: usize, next: u64) {
        let peers: Vec<usize> = (0..self.nodes.len())
            .filter(|peer| *peer != index && !self.nodes[*peer].has_stopped)
            .filter(|peer| self.nodes[*peer].disk.position.revision >= next)
            .collect();
        if peers.is_empty() {
            if let Some(machine) = &mut self.nodes[index].machine {
                machine.transfer_failed();
            }
            return;
        }
        self.summary.transfers += 1;
        let disk = self.nodes[self.rng.one(&peers)].disk.clone();
        let node = &mut self.nodes[index];
        if let Some(machine) = &mut node.machine {
            machine.transferred(disk.position);
        }
        node.disk.install(disk);
    }

    /// A client sends a request to a server that believes that it leads.
    fn ask(&mut self) -> Result<(), String> {
        let wait = 20 + self.rng.below(400);
        self.at(self.now + wait, Event::Client);
        let leading: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].is_leading(self.now)).collect();
        if leading.is_empty() {
            return Ok(());
        }
        let index = self.rng.one(&leading);
        let node = &mut self.nodes[index];
        let local = node.local(self.now);
        let id = self.next_request;
        let Some(machine) = &mut node.machine else { return Ok(()) };
        if node.request.is_none() && machine.commit(local, id.to_be_bytes().to_vec()).is_ok() {
            self.next_request += 1;
            let (command, transition) = region::change(&node.region()?, node.time_ms(self.now), &mut self.commands)?;
            node.begin(id, transition.region.clone());
            self.contents.insert(id, Content { command, transition, true_ms: self.now });
            self.checker.started(id);
            self.trace(|world| format!("request {id}: {:?}", world.contents[&id].command));
            return self.poll(index);
        }
        Ok(())
    }

    fn make_trouble(&mut self) -> Result<(), String> {
        if !self.is_faulty() {
            return Ok(());
        }
        let wait = self.rng.below(2 * self.faults.trouble_every_ms);
        self.at(self.now + wait, Event::Trouble);
        let index = self.rng.below(self.nodes.len() as u64) as usize;
        let length = self.rng.below(6_000);
        let until = self.now + length;
        let kind = self.rng.below(12);
        self.trace(|world| format!("trouble {kind} for {} until {until}", world.nodes[index].name));
        match kind {
            0..3 => {
                self.nodes[index].crash();
                if kind == 0 {
                    self.nodes[index].disk.lose_power();
                }
                // A supervisor starts a process again at once.
                let until = if self.stores.percent(50) { self.now + self.stores.below(100) } else { until };
                self.at(until, Event::Restart { node: index });
            }
            3..7 => self.nodes[index].paused_until = until,
            7..10 => self.nodes[index].cut_until = until,
            10 => {
                if let Some(machine) = &mut self.nodes[index].machine {
                    machine.step_down();
                }
            }
            _ => self.wipe(index, until)?,
        }
        Ok(())
    }

    /// A server loses its disk. An operator removes it and lets it join again.
    fn wipe(&mut self, index: usize, until: u64) -> Result<(), String> {
        let others = self.nodes.iter().filter(|node| !node.was_wiped && !node.has_stopped).count();
        if others < self.nodes.len() || !self.has_successor(index) {
            return Ok(());
        }
        let node = &mut self.nodes[index];
        node.crash();
        node.disk = Disk::empty();
        node.was_wiped = true;
        self.log.clone().remove(&node.name).map_err(|error| error.to_string())?;
        self.at(until, Event::Restart { node: index });
        Ok(())
    }

    /// Whether another server's copy and the log together have everything. A server whose first report was lost can be so far
    /// behind that the log no longer has its next entry.
    fn has_successor(&self, index: usize) -> bool {
        let continues = |node: &Node| {
            let next = node.disk.position.revision + 1;
            let tail = self.log.clone().read(next).unwrap_or_default();
            let is_current = tail.view.head.is_none_or(|head| head.revision < next);
            is_current || tail.entries.first().is_some_and(|entry| entry.revision == next)
        };
        self.nodes.iter().enumerate().any(|(other, node)| other != index && continues(node))
    }

    fn restart(&mut self, index: usize) -> Result<(), String> {
        if self.nodes[index].machine.is_some() {
            return Ok(());
        }
        let session = self.rng.next();
        let node = &mut self.nodes[index];
        node.start(session, self.settings.clone());
        self.poll(index)
    }

    fn back_up(&mut self) -> Result<(), String> {
        if self.is_faulty() {
            self.backups.push(self.log.back_up());
            self.at(self.now + BACKUP_EVERY_MS, Event::Backup);
            if self.backups.len() > 20 {
                self.backups.remove(0);
            }
        }
        Ok(())
    }

    /// An operator restores the log from a backup, or rebuilds it from the most advanced copy.
    fn restore(&mut self) -> Result<(), String> {
        let backup = if self.rng.percent(50) { self.rng.one(&self.backups) } else { self.rebuild()? };
        let head = backup.view().head.unwrap_or(Position::START);
        self.log.restore(backup);
        self.was_restored = true;
        self.checker.restored(head);
        Ok(())
    }

    /// A log that begins at the position of the most advanced copy, and counts its versions from one again.
    fn rebuild(&self) -> Result<MemoryContents, String> {
        let positions = self.nodes.iter().map(|node| node.disk.position);
        let newest = positions.max_by_key(|position| position.revision).unwrap_or(Position::START);
        let mut log = MemoryLog::new();
        log.create(&newest).map_err(|error| error.to_string())?;
        Ok(log.back_up())
    }

    /// From now on, everything works.
    fn heal(&mut self) {
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            node.paused_until = node.paused_until.min(self.now);
            node.cut_until = 0;
            let at = self.now + 1;
            self.at(at, Event::Restart { node: index });
        }
    }

    /// At any time, at most one server may act on machines: the one that has opened the current term.
    fn check_actors(&self) -> Result<(), String> {
        if self.was_restored {
            return Ok(());
        }
        let acting: Vec<&Node> = self.nodes.iter().filter(|node| node.may_act(self.now)).collect();
        let names: Vec<&str> = acting.iter().map(|node| node.name.as_str()).collect();
        if acting.len() > 1 {
            return Err(format!("invariant \"one server acts\": {names:?}"));
        }
        let last = self.checker.history.last().map(|entry| entry.record.nonce.session);
        match acting.first().filter(|node| last != Some(node.session)) {
            Some(_) => Err(format!("invariant \"a server acts in its own term\": {names:?}")),
            None => Ok(()),
        }
    }

    /// Clients read at every server all the time.
    fn check_readers(&mut self) -> Result<(), String> {
        let now = self.now;
        let mut nodes = self.nodes.iter_mut().filter(|_| !self.was_restored);
        nodes.try_for_each(|node| node.show(now))
    }

    /// All servers that follow a leader know its heartbeats.
    fn check_freshness(&self) -> Result<(), String> {
        let is_following = |node: &&Node| !node.has_stopped && !node.is_leading(self.now);
        for node in self.nodes.iter().filter(is_following) {
            let Some(machine) = &node.machine else { continue };
            let fresh = machine.freshness(node.local(self.now));
            if fresh.is_none_or(|fresh| fresh.age > FRESH_MAX) {
                return Err(format!("invariant \"followers see the heartbeats\": {} {fresh:?}", node.name));
            }
        }
        Ok(())
    }

    fn check_notices(&mut self) -> Result<(), String> {
        let mut notices = Notices::default();
        for content in self.checker.history.iter().filter_map(|entry| self.contents.get(&id_of(entry))) {
            notices.check(content)?;
        }
        self.summary.started = notices.started();
        Ok(())
    }

    fn check_end(&mut self) -> Result<(), String> {
        self.checker.finish()?;
        let leading = self.nodes.iter().filter(|node| node.is_leading(self.now)).count();
        if leading == 1 {
            self.check_freshness()?;
        }
        if self.was_restored {
            return Ok(());
        }
        self.check_notices()?;
        if leading != 1 {
            return Err(format!("invariant \"the cluster recovers\": {leading} leaders at the end"));
        }
        // The last entries may still be on their way.
        let head = self.checker.head().revision;
        let lagging = |node: &&Node| node.disk.position.revision + 10 < head;
        if let Some(node) = self.nodes.iter().find(lagging) {
            return Err(format!(
                "invariant \"the cluster recovers\": {} is at revision {} of {head}",
                node.name, node.disk.position.revision
            ));
        }
        Ok(())
    }
}

fn run_at_once(request: &Request, mut log: MemoryLog) -> Result<Response, LogError> {
    match request {
        Request::Follow { from, .. } => log.read(*from).map(Response::LogPage),
        other => other.run(&mut log),
    }
}
