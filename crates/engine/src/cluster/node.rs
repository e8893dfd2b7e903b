//! A server's role in the cluster: a follower until it leads, and again afterwards. Runs on the writer's thread.

use std::sync::Arc;
use std::time::Duration;

use forewarn_cluster::machine::{Divergence, Freshness, LeadershipLoss, LeadershipStart, Outcome};
use forewarn_cluster::{BootClock, Clock as _, Created, Follower, Following, Leader, Position, Writer};
use forewarn_core::{Region, Snapshot, Timestamp};
use forewarn_store::{Attachment, Batch, Change, PAYLOAD_FORMAT_MIN, SEALED_FORMAT, compare_rules, put_rules};

use super::ClusterOptions;
use super::copy::{CopyContents, LocalCopy, Sealing};
use super::status::{ClusterMonitor, ClusterRole, ClusterStatus, LeaderAddress};
use crate::clock::Clock;

/// How long a follower reads the log before the writer does other work.
const TURN: Duration = Duration::from_millis(50);

/// The pause before a copy that could not apply an entry tries again.
const APPLY_RETRY: Duration = Duration::from_secs(1);

/// A leader that was silent for this long is not offered to clients: another one will take over.
const LEADER_SILENCE_MAX: Duration = Duration::from_secs(3);

pub struct Node {
    role: NodeRole,
    pub copy: LocalCopy,
    monitor: Arc<ClusterMonitor>,
    name: String,
    address: String,
    /// The first heartbeat that this process saw. A later one proves that a leader was alive meanwhile.
    first_heartbeat_ms: Option<i64>,
    announced: Option<String>,
    /// Why this server stopped leading, if it has led.
    last_loss: Option<LeadershipLoss>,
    /// This leader has a key, but another server cannot read what is encrypted with it.
    writes_clear: bool,
}

enum NodeRole {
    Following(Box<Follower>),
    Leading(Box<Writer>),
    /// Only while one becomes the other.
    Changing,
}

/// The result of following for a moment.
pub enum FollowOutcome {
    /// Nothing to do for the caller.
    Followed,
    Lead(LeadershipStart),
    /// This server cannot go on.
    Diverged(Divergence),
}

/// The result of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommitOutcome {
    Done,
    /// The commit did not happen and never will.
    Failed,
    /// The same, and this server no longer leads.
    Deposed,
    /// The commit may have happened.
    Unknown,
}

impl Node {
    pub fn new(options: ClusterOptions, contents: CopyContents, monitor: Arc<ClusterMonitor>) -> Result<Node, String> {
        let identity = options.identity();
        let ClusterOptions { node, address, settings, log, transfer, key } = options;
        let mut copy = LocalCopy::new(contents, transfer, key);
        let position = copy.position().map_err(|error| error.to_string())?;
        if position.revision != copy.newest.revision {
            return Err(format!(
                "the data directory is at revision {}, but its place in the region's log is revision {}: a server without \
                 --cluster has changed it. Move it away to copy the region again",
                copy.newest.revision, position.revision
            ));
        }
        let clock = Box::new(RegionClock(copy.clock.clone()));
        let follower = Follower::start(identity, settings, position, log, clock);
        let role = NodeRole::Following(Box::new(follower));
        Ok(Node {
            role,
            copy,
            monitor,
            name: node,
            address,
            first_heartbeat_ms: None,
            announced: None,
            last_loss: None,
            writes_clear: false,
        })
    }

    /// Follows for a moment.
    pub fn follow(&mut self) -> FollowOutcome {
        let NodeRole::Following(follower) = &mut self.role else { return FollowOutcome::Followed };
        let outcome = match follower.follow(&mut self.copy, BootClock.now() + TURN) {
            Following::Lead(lead) => FollowOutcome::Lead(lead),
            Following::Diverged(divergence) => FollowOutcome::Diverged(divergence),
            Following::Idle => FollowOutcome::Followed,
            Following::NoRegion => {
                self.create_region();
                FollowOutcome::Followed
            }
            Following::TransferFailed(error) => {
                self.warn(format!("cannot copy the region from another server: {error}"));
                FollowOutcome::Followed
            }
            Following::ApplyFailed(error) => {
                self.warn(error);
                self.restart();
                FollowOutcome::Followed
            }
        };
        if let FollowOutcome::Lead(_) = outcome {
            self.change_role();
        }
        self.update();
        outcome
    }

    /// Turns a leader whose term has ended into a follower, or a follower that has taken over into a leader.
    fn change_role(&mut self) {
        self.role = match std::mem::replace(&mut self.role, NodeRole::Changing) {
            NodeRole::Following(follower) => NodeRole::Leading(Box::new(follower.lead())),
            NodeRole::Leading(writer) => NodeRole::Following(Box::new(writer.follow())),
            NodeRole::Changing => NodeRole::Changing,
        };
    }

    /// Only a server without data creates a region. One with data would hide that the log was lost.
    fn create_region(&mut self) {
        let NodeRole::Following(follower) = &mut self.role else { return };
        if follower.position() != Position::START {
            let problem = "the region does not exist in the log, but this server has a copy of it. Restore the log, or create \
                           the region from this data directory with 'forewarn cluster init --from DIR'";
            return self.warn(problem.into());
        }
        match follower.log().create(&Position::START) {
            Ok(Created::New) => tracing::info!("created the region"),
            Ok(Created::Exists(_)) => {}
            Err(error) => tracing::warn!(%error, "cannot create the region; trying again"),
        }
    }

    /// Starts again at the position that the store has.
    fn restart(&mut self) {
        std::thread::sleep(APPLY_RETRY);
        let position = self.copy.reload().and_then(|()| self.copy.position());
        match (position, std::mem::replace(&mut self.role, NodeRole::Changing)) {
            (Ok(position), NodeRole::Following(follower)) => {
                self.role = NodeRole::Following(Box::new(follower.restart(position)));
            }
            (Ok(_) | Err(_), role) => self.role = role,
        }
    }

    /// Logs a problem once.
    fn warn(&mut self, problem: String) {
        if self.announced.as_ref() != Some(&problem) {
            tracing::error!("{problem}");
            self.announced = Some(problem);
        }
    }

    /// Does what a leader must do regularly. Returns how long it may do something else, or why it no longer leads.
    pub fn run_due_tasks(&mut self) -> Result<Duration, LeadershipLoss> {
        let NodeRole::Leading(writer) = &mut self.role else {
            return Err(self.last_loss.unwrap_or(LeadershipLoss::Confused));
        };
        match writer.run_due_tasks(&mut self.copy) {
            Ok(next) => {
                if let (true, Some(age)) = (writer.may_act(), writer.heartbeat_age()) {
                    self.monitor.record_heartbeat(age);
                    // The log refuses heartbeats of a deposed leader, and this leader has applied its own commits.
                    self.monitor.record_current(age);
                }
                Ok(next.saturating_sub(BootClock.now()))
            }
            Err(loss) => {
                self.last_loss = Some(loss);
                self.change_role();
                self.update();
                Err(loss)
            }
        }
    }

    /// The newest format of changes that every server reads, sealed or not. The oldest one while that is not known.
    pub fn format(&self) -> u8 {
        let known = match &self.role {
            NodeRole::Leading(writer) => writer.content_format(),
            NodeRole::Following(_) | NodeRole::Changing => None,
        };
        known.and_then(|format| u8::try_from(format).ok()).unwrap_or(PAYLOAD_FORMAT_MIN)
    }

    /// The newest format of payloads that every server reads, if known. Below that of sealed ones if a server cannot open them.
    fn known_format(&self) -> Option<u8> {
        match &self.role {
            NodeRole::Leading(writer) => writer.format().and_then(|format| u8::try_from(format).ok()),
            NodeRole::Following(_) | NodeRole::Changing => None,
        }
    }

    /// Whether a payload is sealed. Only attachments contain secrets, so a payload without any need not wait until the formats of the
    /// other servers are known. None: this one must.
    fn choose_sealing(&mut self, has_attachments: bool) -> Option<Sealing> {
        if self.copy.key.is_none() {
            return Some(Sealing::Clear);
        }
        // A server that no longer leads cannot commit anything.
        if self.known_format().is_none() && self.run_due_tasks().is_err() {
            return Some(Sealing::Clear);
        }
        let format = self.known_format();
        self.warn_of_clear_records(format);
        match format {
            Some(SEALED_FORMAT..) => Some(Sealing::Sealed),
            None if has_attachments => None,
            Some(_) | None => Some(Sealing::Clear),
        }
    }

    /// Logs once that the key is not used although the region has one.
    fn warn_of_clear_records(&mut self, format: Option<u8>) {
        let Some(format) = format else { return };
        let writes_clear = format < SEALED_FORMAT;
        if writes_clear && !self.writes_clear {
            tracing::warn!(
                "the records of the region's log are not encrypted, because a server cannot read encrypted ones: upgrade it, \
                 start it with --cluster-key, or remove it with 'forewarn cluster remove'"
            );
        }
        self.writes_clear = writes_clear;
    }

    /// Commits a batch that leads to this region.
    pub fn commit(&mut self, batch: Batch, region: Region) -> CommitOutcome {
        let Some(sealing) = self.choose_sealing(!batch.attachments.is_empty()) else {
            tracing::warn!("a commit with secrets waits until the log shows which servers can read encrypted records");
            return CommitOutcome::Failed;
        };
        let payload = self.copy.prepare(batch, region, sealing);
        self.commit_payload(payload)
    }

    /// Deletes old history on every server. Returns whether there may be more.
    pub fn forget_history(&mut self, before: Timestamp, limit: u32) -> bool {
        let Ok(Some(through)) = self.copy.find_oldest(before, limit) else { return false };
        let change = Change { forget_through: Some(through), ..Change::default() };
        let payload = self.copy.prepare_change(change, self.copy.newest.region.clone(), Sealing::Clear);
        self.commit_payload(payload) == CommitOutcome::Done
    }

    fn commit_payload(&mut self, payload: Result<Vec<u8>, forewarn_store::StoreError>) -> CommitOutcome {
        let payload = match payload {
            Ok(payload) => payload,
            Err(error) => {
                tracing::error!(%error, "cannot prepare a commit");
                return CommitOutcome::Failed;
            }
        };
        let NodeRole::Leading(writer) = &mut self.role else { return CommitOutcome::Deposed };
        let rules = self.copy.settings.clone();
        let outcome = writer.commit(&mut self.copy, payload);
        self.copy.pending = None;
        if self.copy.settings != rules {
            self.update();
        }
        match outcome {
            // If the local copy could not be changed, the commit has happened, but is not visible here.
            Outcome::Committed(position) if position.revision > self.copy.newest.revision => CommitOutcome::Unknown,
            Outcome::Committed(_) => CommitOutcome::Done,
            Outcome::Failed(reason) => {
                tracing::warn!(reason, "a commit failed");
                CommitOutcome::Failed
            }
            Outcome::Deposed => CommitOutcome::Deposed,
            Outcome::Unknown => CommitOutcome::Unknown,
        }
    }

    pub fn newest(&self) -> Arc<Snapshot> {
        self.copy.newest.clone()
    }

    /// Whether this server may act on machines now.
    pub fn may_act(&self) -> bool {
        match &self.role {
            NodeRole::Leading(writer) => writer.may_act(),
            NodeRole::Following(_) | NodeRole::Changing => false,
        }
    }

    /// Gives up the leadership.
    pub fn step_down(&mut self) {
        if let NodeRole::Leading(writer) = &mut self.role {
            writer.step_down();
        }
    }

    /// Whether this leader reaches most of the servers that are alive.
    pub fn set_contact(&mut self, has_contact: bool) {
        if let NodeRole::Leading(writer) = &mut self.role {
            writer.set_contact(has_contact);
        }
    }

    /// Sets the clock of a new leader. Time continues from the last heartbeat if a leader was alive while this process ran;
    /// otherwise as after a restart of a single server.
    pub fn continue_time(&mut self, lead: &LeadershipStart) {
        let stored = self.copy.newest.region.now();
        let first_ms = self.first_heartbeat_ms.replace(i64::MIN);
        let inherited = lead.last_heartbeat.map(|(heartbeat, age)| (Timestamp(heartbeat.time_ms), age));
        let is_alive = inherited.is_some_and(|(time, _)| first_ms.is_some_and(|first| time.0 > first));
        match inherited {
            Some((time, age)) if is_alive => self.copy.clock.set(stored.max(time + age)),
            Some(_) | None => {
                let lowest = inherited.map_or(stored, |(time, _)| stored.max(time));
                let stamp = self.copy.store.clock_stamp().ok().flatten();
                self.copy.clock.restart(lowest, stamp.as_ref());
            }
        }
    }

    /// Publishes the status, and sets the clock of a follower to the region's time.
    fn update(&mut self) {
        let (role, leader, problem) = match &self.role {
            NodeRole::Leading(_) => {
                let leader = LeaderAddress { node: self.name.clone(), address: self.address.clone() };
                (ClusterRole::Leader, Some(leader), None)
            }
            NodeRole::Following(follower) => {
                let freshness = follower.freshness();
                follower.current_age().into_iter().for_each(|age| self.monitor.record_current(age));
                follower.copy_age().into_iter().for_each(|age| self.monitor.record_heartbeat(age));
                let problem = follower.log_error().map(ToString::to_string);
                // An earlier process of this server sends no more heartbeats.
                let has_heartbeat = |fresh: Freshness| {
                    fresh.age < LEADER_SILENCE_MAX
                        && self.first_heartbeat_ms.is_some_and(|first| fresh.heartbeat.time_ms > first)
                };
                let namesake = follower.namesake().filter(|_| freshness.is_some_and(has_heartbeat));
                let problem = problem.or(namesake.map(|leader| describe_namesake(leader, &self.monitor)));
                let leader = follower.leader().filter(|leader| leader.node != self.name);
                let leader = leader.filter(|_| freshness.is_some_and(|fresh| fresh.age < LEADER_SILENCE_MAX));
                let leader =
                    leader.map(|leader| LeaderAddress { node: leader.node.clone(), address: leader.address.clone() });
                let role = self.follower_role(freshness);
                if let Some(fresh) = freshness {
                    let first_ms = *self.first_heartbeat_ms.get_or_insert(fresh.heartbeat.time_ms);
                    if fresh.heartbeat.time_ms > first_ms {
                        self.copy.follow_time(Timestamp(fresh.heartbeat.time_ms) + fresh.age);
                    }
                }
                (role, leader, problem.or_else(|| self.announced.clone()))
            }
            NodeRole::Changing => return,
        };
        let Position { term, revision, .. } = self.position();
        let rule_differences = self.compare_rules();
        let node = self.name.clone();
        self.monitor.publish(ClusterStatus { node, role, leader, term, revision, problem, rule_differences });
    }

    /// Compares the configuration with the region's rules, and logs a new difference.
    fn compare_rules(&self) -> Vec<String> {
        let differences = compare_rules(&self.copy.settings, &self.copy.configured);
        if !differences.is_empty() && self.monitor.status().rule_differences != differences {
            tracing::warn!(
                differences = differences.join("; "),
                "this server's configured rules differ from those of the region, which apply. Change the \
                 configuration, or apply that of the leader with `forewarn cluster apply-rules`"
            );
        }
        differences
    }

    /// The rules to store in a region that has none yet.
    pub fn build_initial_rules(&self) -> Option<Attachment> {
        self.copy.needs_rules().unwrap_or(false).then(|| put_rules(&self.copy.configured))
    }

    fn follower_role(&self, freshness: Option<Freshness>) -> ClusterRole {
        match freshness {
            Some(fresh) if fresh.heartbeat.revision <= self.copy.newest.revision => ClusterRole::Follower,
            Some(_) | None => ClusterRole::CatchingUp,
        }
    }

    fn position(&self) -> Position {
        match &self.role {
            NodeRole::Following(follower) => follower.position(),
            NodeRole::Leading(writer) => writer.position(),
            NodeRole::Changing => Position::START,
        }
    }
}

/// The problem of two servers with one name. Logged once.
fn describe_namesake(leader: &Leader, monitor: &ClusterMonitor) -> String {
    let Leader { node, address, .. } = leader;
    let problem = format!(
        "another server uses the name '{node}' ({address}) and leads the region: restart one of them with a different --node"
    );
    if monitor.status().problem.as_ref() != Some(&problem) {
        tracing::error!("{problem}");
    }
    problem
}

/// The boot-time clock, and the region's time.
struct RegionClock(Arc<Clock>);

impl forewarn_cluster::Clock for RegionClock {
    fn now(&self) -> Duration {
        BootClock.now()
    }

    fn time_ms(&self) -> i64 {
        self.0.now().0
    }

    fn sleep_until(&self, moment: Duration) {
        BootClock.sleep_until(moment);
    }
}
