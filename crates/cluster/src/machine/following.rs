//! The follower's part of the state machine: reading the log, and taking over from a silent leader.

use super::chain::{LogRelation, compare};
use super::leading::Leadership;
use super::settings::Settings;
use super::{Call, Delivery, LeadershipLoss, Machine, Moment, Role, SeenHeartbeat, Step};
use crate::contract::{Leader, LogPage, TakeoverResult, View};
use crate::record::Entry;
use crate::request::Request;

impl Machine {
    pub(super) fn poll_following(&mut self, now: Moment) -> Step {
        if let Some(step) = self.poll_report(now) {
            return step;
        }
        if let Some(seen) = self.swap.take() {
            let nonce = self.next_nonce();
            let leader = Leader { node: self.identity.name.clone(), address: self.identity.address.clone(), nonce };
            return self.send(now, Call::TakeOver, Request::TakeOver { seen, leader });
        }
        if now < self.retry_at {
            return Step::Wait(self.retry_at);
        }
        let from = self.position.revision + 1;
        self.send(now, Call::Follow, Request::Follow { from, wait: self.settings.follow_wait })
    }

    pub(super) fn take_tail(&mut self, sent_at: Moment, now: Moment, tail: LogPage) {
        let is_deposed = matches!(&self.role, Role::Leading(leadership)
            if !leadership.is_catching_up() || tail.view.token() != Some(leadership.token()));
        if is_deposed {
            self.lose(LeadershipLoss::Deposed);
        }
        let view = tail.view.clone();
        self.observe(sent_at, now, &view);
        let read_head = view.head.filter(|_| tail.is_read);
        let chain = compare(self.position, tail);
        if !matches!(chain, LogRelation::Behind(_)) {
            self.behind_reads = 0;
        }
        match chain {
            LogRelation::Continues(entries) => {
                self.resume_takeover(now, &view);
                let last = entries.last().map(Entry::position);
                self.current_with = read_head.filter(|head| last == Some(*head)).map(|head| (head, sent_at));
                let batches = split_into_batches(entries, &self.settings);
                self.deliveries.extend(batches.into_iter().map(Delivery::Apply));
            }
            LogRelation::Current => {
                self.current_at = read_head.map(|_| sent_at).or(self.current_at);
                self.take_current(now, &view);
            }
            LogRelation::Missing => self.ask_once(now, Delivery::Missing { next: self.position.revision + 1 }),
            LogRelation::NoRegion => self.ask_once(now, Delivery::NoRegion),
            LogRelation::Behind(head) => {
                self.retry_at = now + self.settings.retry_after;
                self.on_stale_read(head);
            }
            LogRelation::Diverged(divergence) => self.stop(divergence),
        }
    }

    /// The local copy has everything.
    fn take_current(&mut self, now: Moment, view: &View) {
        self.is_waiting = false;
        if let Role::Leading(_) = self.role {
            return self.open_term(now);
        }
        self.resume_takeover(now, view);
        let is_free = view.leader.is_none() || self.silence.is_over(now, &self.settings);
        if matches!(self.role, Role::Following) && is_free && now >= self.paused_until {
            self.swap = Some(view.sighting());
        }
    }

    /// A takeover of this server's own may have succeeded although its answer was lost.
    fn resume_takeover(&mut self, now: Moment, view: &View) {
        if !matches!(self.role, Role::Following) {
            return;
        }
        if let Some((token, leader)) = &view.leader {
            let is_ours = leader.nonce.session == self.identity.session && leader.nonce.counter > self.given_up;
            if is_ours {
                self.role = Role::Leading(Box::new(Leadership::new(*token, now, self.seen_heartbeat)));
            }
        }
    }

    /// The application must act before this server can continue. A leadership is of no use meanwhile.
    fn ask_once(&mut self, now: Moment, delivery: Delivery) {
        if let Some(token) = self.lose(LeadershipLoss::Confused) {
            self.role = Role::Resigning(token);
        }
        self.retry_at = now + self.settings.silence_min;
        if !std::mem::replace(&mut self.is_waiting, true) {
            self.deliveries.push_back(delivery);
        }
    }

    fn observe(&mut self, sent_at: Moment, now: Moment, view: &View) {
        self.silence.observe(now, view, &self.settings);
        self.leader = view.leader.as_ref().map(|(_, leader)| leader.clone());
        let Some(heartbeat) = view.heartbeat else { return };
        let shown = SeenHeartbeat { heartbeat, version: view.heartbeat_version, asked_at: sent_at, answered_at: now };
        match self.seen_heartbeat {
            Some(seen) if shown.version < seen.version => self.observe_lower(shown),
            Some(seen) if shown.version == seen.version => self.lower_heartbeat = None,
            Some(_) | None => {
                self.lower_heartbeat = None;
                self.seen_heartbeat = Some(shown);
            }
        }
    }

    /// One read can be stale. Several in a row mean that the log was restored or rebuilt, and counts its versions from an earlier
    /// one.
    fn observe_lower(&mut self, shown: SeenHeartbeat) {
        let (lower, reads) = match self.lower_heartbeat {
            Some((lower, reads)) if lower.version == shown.version => (lower, reads + 1),
            Some((_, reads)) => (shown, reads + 1),
            None => (shown, 1),
        };
        self.lower_heartbeat = Some((lower, reads));
        if reads >= self.settings.behind_reads {
            self.seen_heartbeat = self.lower_heartbeat.take().map(|(lower, _)| lower);
        }
    }

    pub(super) fn take_follow_error(&mut self, sent_at: Moment, now: Moment) {
        self.silence.reset();
        self.retry_at = now + self.settings.retry_after;
        self.note_failure(sent_at);
    }

    pub(super) fn on_takeover_result(&mut self, now: Moment, taken: TakeoverResult) {
        match taken {
            TakeoverResult::Won(token) => {
                self.role = Role::Leading(Box::new(Leadership::new(token, now, self.seen_heartbeat)))
            }
            TakeoverResult::Lost => self.silence.reset(),
        }
    }
}

/// Splits entries into batches that a copy applies in one transaction each. An entry that is too large is a batch of its own.
fn split_into_batches(entries: Vec<Entry>, settings: &Settings) -> Vec<Vec<Entry>> {
    let mut batches: Vec<Vec<Entry>> = Vec::new();
    let mut bytes = 0;
    for entry in entries {
        let more = entry.record.payload.len();
        match batches.last_mut() {
            Some(batch) if batch.len() < settings.apply_entries_max && bytes + more <= settings.apply_bytes_max => {
                batch.push(entry);
                bytes += more;
            }
            Some(_) | None => {
                batches.push(vec![entry]);
                bytes = more;
            }
        }
    }
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Hash, Nonce, Record, RecordKind};

    #[test]
    fn batches_have_a_limit_of_entries_and_of_bytes() {
        let settings = Settings { apply_entries_max: 3, apply_bytes_max: 10, ..Settings::default() };
        let entry = |(revision, bytes): (u64, usize)| {
            let nonce = Nonce { session: 1, counter: revision };
            let payload = vec![0; bytes];
            Entry::new(revision, Record { kind: RecordKind::Data, term: 1, previous: Hash::ZERO, nonce, payload })
        };
        let check = |sizes: &[usize], expected: &[&[u64]]| {
            let entries: Vec<Entry> = (1..).zip(sizes.iter().copied()).map(entry).collect();
            let batches = split_into_batches(entries, &settings);
            let revisions: Vec<Vec<u64>> =
                batches.iter().map(|batch| batch.iter().map(|entry| entry.revision).collect()).collect();
            assert_eq!(revisions, expected, "{sizes:?}");
        };
        check(&[], &[]);
        check(&[1; 7], &[&[1, 2, 3], &[4, 5, 6], &[7]]);
        check(&[5, 5, 1, 9], &[&[1, 2], &[3, 4]]);
        check(&[11, 1, 11, 11], &[&[1], &[2], &[3], &[4]]);
    }
}
