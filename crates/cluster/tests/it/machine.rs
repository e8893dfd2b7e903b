//! The state machine step by step: a commit in doubt while another server takes over.

use std::time::Duration;

use forewarn_cluster::machine::{Delivery, Identity, LeadershipLoss, Machine, Moment, Outcome, Settings, Step};
use forewarn_cluster::{
    AppendResult, Entry, Leader, Log as _, LogError, MemoryLog, Nonce, Position, Record, RecordKind, Request,
    TakeoverResult, Token,
};

/// A machine, its log, and the time.
struct Bench {
    machine: Machine,
    log: MemoryLog,
    now: Moment,
}

impl Bench {
    /// A machine that leads.
    fn leading() -> Bench {
        let mut log = MemoryLog::new();
        log.create(&Position::START).unwrap();
        let identity = Identity { name: "a".into(), address: "a".into(), format: 1, content_format: 1, session: 1 };
        let settings = Settings { follow_wait: Duration::ZERO, ..Settings::default() };
        let mut bench = Bench { machine: Machine::new(identity, settings, Position::START), log, now: Moment::ZERO };
        while !bench.machine.is_leading() || bench.machine.has_deliveries() {
            bench.run_one();
        }
        bench
    }

    fn poll(&mut self) -> Step {
        self.now += Duration::from_millis(1);
        self.machine.poll(self.now, 0)
    }

    /// Carries out one step. Returns what is delivered.
    fn run_one(&mut self) -> Option<Delivery> {
        let step = self.poll();
        self.finish(step)
    }

    fn finish(&mut self, step: Step) -> Option<Delivery> {
        match step {
            Step::Send(request) => {
                let answer = request.run(&mut self.log);
                self.machine.answer(self.now, answer);
                None
            }
            Step::Deliver(delivery) => {
                if let Delivery::Apply(_) = delivery {
                    self.machine.applied();
                }
                Some(delivery)
            }
            Step::Wait(until) => {
                self.now = self.now.max(until.min(self.now + Duration::from_secs(1)));
                None
            }
        }
    }

    /// Starts a commit and returns its request, which is not carried out.
    fn start_commit(&mut self) -> Request {
        while self.machine.commit(self.now, b"payload".to_vec()).is_err() {
            self.run_one();
        }
        loop {
            match self.poll() {
                Step::Send(request @ Request::Append { .. }) => return request,
                Step::Send(request) => {
                    let answer = request.run(&mut self.log);
                    self.machine.answer(self.now, answer);
                }
                other => panic!("expected a request, not {other:?}"),
            }
        }
    }

    fn lose_answer(&mut self) {
        self.machine.answer(self.now, Err(LogError::InDoubt("timed out".into())));
    }

    /// Everything that is delivered until the leadership is lost or a second has passed.
    fn deliveries(&mut self) -> Vec<Delivery> {
        let end = self.now + Duration::from_secs(1);
        let mut all = Vec::new();
        while self.now < end && !matches!(all.last(), Some(Delivery::Lost(_))) {
            all.extend(self.run_one());
        }
        all
    }

    /// Another server takes over behind the machine's back.
    fn take_over(&mut self) -> Token {
        let nonce = Nonce { session: 2, counter: 1 };
        let leader = Leader { node: "b".into(), address: "b".into(), nonce };
        let seen = self.log.view().sighting();
        match self.log.take_over(seen, &leader).unwrap() {
            TakeoverResult::Won(token) => token,
            TakeoverResult::Lost => panic!("nothing has changed"),
        }
    }

    /// The other server writes the first record of its term.
    fn open_term(&mut self, token: Token) {
        let head = self.log.view().head.unwrap();
        let nonce = Nonce { session: 2, counter: 2 };
        let (kind, term, previous) = (RecordKind::Opening, head.term + 1, head.hash);
        let record = Record { kind, term, previous, nonce, payload: Vec::new() };
        assert_eq!(self.log.append(token, &head, &record), Ok(AppendResult::Done));
    }
}

fn outcome(deliveries: &[Delivery]) -> &Outcome {
    let outcomes: Vec<&Outcome> = deliveries
        .iter()
        .filter_map(|delivery| match delivery {
            Delivery::Outcome(outcome) => Some(outcome),
            _ => None,
        })
        .collect();
    assert_eq!(outcomes.len(), 1, "{deliveries:?}");
    outcomes[0]
}

#[test]
fn a_commit_that_happened_before_the_takeover_is_a_success() {
    let mut bench = Bench::leading();
    let request = bench.start_commit();
    request.run(&mut bench.log).unwrap();
    let token = bench.take_over();
    bench.open_term(token);
    bench.lose_answer();
    let deliveries = bench.deliveries();
    let Outcome::Committed(position) = outcome(&deliveries) else { panic!("{deliveries:?}") };
    assert_eq!(*position, bench.machine.position());
    assert!(matches!(&deliveries[0], Delivery::Apply(entries)
        if matches!(&entries[..], [Entry { record, .. }] if record.payload == b"payload")));
    assert_eq!(deliveries.last(), Some(&Delivery::Lost(LeadershipLoss::Deposed)));
}

#[test]
fn a_commit_that_did_not_happen_before_the_takeover_never_does() {
    for has_opened in [false, true] {
        let mut bench = Bench::leading();
        let request = bench.start_commit();
        let token = bench.take_over();
        if has_opened {
            bench.open_term(token);
        }
        bench.lose_answer();
        let deliveries = bench.deliveries();
        assert_eq!(outcome(&deliveries), &Outcome::Deposed);
        assert_eq!(deliveries.last(), Some(&Delivery::Lost(LeadershipLoss::Deposed)));
        // The request arrives after all.
        request.run(&mut bench.log).unwrap();
        assert!(!bench.log.back_up().entries().any(|entry| entry.record.payload == b"payload"));
    }
}

#[test]
fn a_leader_deposed_before_its_commit_is_sent_denies_it() {
    let mut bench = Bench::leading();
    bench.take_over();
    while bench.machine.commit(bench.now, b"payload".to_vec()).is_err() {
        bench.run_one();
    }
    assert_eq!(outcome(&bench.deliveries()), &Outcome::Deposed);
}

#[test]
fn no_second_commit_starts_before_the_first_is_applied() {
    let mut bench = Bench::leading();
    let request = bench.start_commit();
    assert!(bench.machine.commit(bench.now, Vec::new()).is_err(), "the first one is under way");
    let answer = request.run(&mut bench.log);
    bench.machine.answer(bench.now, answer);
    assert!(matches!(bench.poll(), Step::Deliver(Delivery::Apply(_))));
    assert!(bench.machine.commit(bench.now, Vec::new()).is_err(), "the first one is not applied");
    assert_eq!(
        bench.machine.poll(bench.now + Duration::from_secs(9), 0),
        Step::Wait(Moment::MAX),
        "no heartbeats either"
    );
    bench.machine.applied();
    assert!(matches!(bench.poll(), Step::Deliver(Delivery::Outcome(Outcome::Committed(_)))));
    assert!(bench.machine.commit(bench.now, Vec::new()).is_ok());
}

#[test]
fn a_new_leader_that_could_not_ask_for_the_formats_of_the_servers_asks_again_soon() {
    let mut bench = Bench::leading();
    let mut asked_at = Vec::new();
    while bench.machine.format().is_none() {
        match bench.poll() {
            Step::Send(Request::MemberList) if asked_at.is_empty() => {
                asked_at.push(bench.now);
                bench.machine.answer(bench.now, Err(LogError::Unavailable("connection refused".into())));
            }
            step => {
                asked_at.extend(matches!(step, Step::Send(Request::MemberList)).then_some(bench.now));
                bench.finish(step);
            }
        }
    }
    let [first, second] = asked_at[..] else { panic!("{asked_at:?}") };
    let pause = second - first;
    assert!(pause >= Settings::default().retry_after && pause < Duration::from_secs(1), "{pause:?}");
}

#[test]
fn overwritten_values_are_freed_every_ten_minutes_although_there_is_nothing_to_delete() {
    let mut bench = Bench::leading();
    let mut truncated_at = Vec::new();
    while bench.now < Duration::from_secs(25 * 60) {
        let step = bench.poll();
        if let Step::Send(Request::Truncate { through, .. }) = &step {
            truncated_at.push((bench.now.as_secs() / 60, *through));
        }
        bench.finish(step);
    }
    assert_eq!(truncated_at, [(0, 0), (10, 0), (20, 0)]);
}

#[test]
fn a_takeover_whose_answer_was_lost_is_resumed() {
    let mut log = MemoryLog::new();
    log.create(&Position::START).unwrap();
    let identity = Identity { name: "a".into(), address: "a".into(), format: 1, content_format: 1, session: 1 };
    let settings = Settings { follow_wait: Duration::ZERO, ..Settings::default() };
    let mut bench = Bench { machine: Machine::new(identity, settings, Position::START), log, now: Moment::ZERO };
    loop {
        match bench.poll() {
            Step::Send(request @ Request::TakeOver { .. }) => {
                request.run(&mut bench.log).unwrap();
                bench.lose_answer();
                break;
            }
            Step::Send(request) => {
                let answer = request.run(&mut bench.log);
                bench.machine.answer(bench.now, answer);
            }
            other => panic!("unexpected {other:?}"),
        }
    }
    let begun = bench.now;
    while !bench.machine.is_leading() {
        bench.run_one();
    }
    assert!(bench.now - begun < Duration::from_millis(200), "it need not wait for its own silence");
}
