//! The schedule of a day: the incident and the faults of each hour, drawn from a seed.

use std::time::Duration;

use forewarn_client::Jitter;
use forewarn_metadata::faults::{FaultKind, FaultLimit, Method, RequestFilter, Status};

/// Seeded random numbers.
pub struct Dice(Jitter);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        let mut jitter = Jitter::seeded(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        // Small seeds start with similar numbers.
        let _ = (0..16).map(|_| jitter.draw()).last();
        Dice(jitter)
    }

    pub fn below(&mut self, count: usize) -> usize {
        (self.0.draw() * count as f64) as usize
    }

    pub fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    fn shuffled<T: Copy>(&mut self, of: &[T]) -> Vec<T> {
        let mut deck = of.to_vec();
        for last in (1..deck.len()).rev() {
            deck.swap(last, self.below(last + 1));
        }
        deck
    }
}

/// Something that happens to the machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incident {
    Restart,
    Redeploy,
    SelfService,
    LiveMigration,
    HostFreeze,
    HostReboot,
    HardwareFailure,
    Eviction,
    Deletion,
    Canceled,
    /// Canceled as soon as one poll has shown it.
    Brief,
    /// Affects a machine in the same document that has no agent.
    Neighbor,
    /// Two events for one machine at the same time.
    Pair,
}

const INCIDENTS: [Incident; 13] = [
    Incident::Restart,
    Incident::Redeploy,
    Incident::SelfService,
    Incident::LiveMigration,
    Incident::HostFreeze,
    Incident::HostReboot,
    Incident::HardwareFailure,
    Incident::Eviction,
    Incident::Deletion,
    Incident::Canceled,
    Incident::Brief,
    Incident::Neighbor,
    Incident::Pair,
];

/// Stage of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Before,
    Announced,
    Started,
}

#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub kind: FaultKind,
    pub only: RequestFilter,
    pub life: FaultLimit,
}

/// An hour of the day.
#[derive(Clone, Copy, Debug)]
pub struct Hour {
    pub incident: Incident,
    /// Affects polls, and approvals if its filter allows it.
    pub fault: Fault,
    /// `None` to add the fault at every stage.
    pub fault_at: Option<Moment>,
    /// Affects only approvals.
    pub approval_fault: Fault,
    pub server_restarts_at: Option<Moment>,
    /// Whether the agents are killed and restarted while the event is in progress.
    pub agents_restart: bool,
}

/// Draws a day: every kind of fault in each half of the day, and every incident in the first half or soon after.
pub fn day(dice: &mut Dice) -> Vec<Hour> {
    let kinds: Vec<FaultKind> = (0..2).flat_map(|_| dice.shuffled(&kinds())).collect();
    let incidents: Vec<Incident> = (0..2).flat_map(|_| dice.shuffled(&INCIDENTS)).collect();
    let hours = kinds.into_iter().zip(incidents).enumerate();
    hours
        .map(|(number, (kind, incident))| Hour {
            incident,
            fault: fault(dice, kind, number),
            approval_fault: approval_fault(dice),
            // Only an event that has been seen can disappear.
            fault_at: (kind != FaultKind::EventsVanish).then(|| dice.pick(moments(number))),
            server_restarts_at: (number % 6 == 4).then(|| dice.pick(moments(number))),
            agents_restart: number % 5 == 3,
        })
        .collect()
}

/// In the first half of the day each fault is certain to take effect: it is added first, limited by count, and the
/// server does not lose it in a restart.
fn is_early(hour: usize) -> bool {
    hour < KINDS
}

fn moments(hour: usize) -> &'static [Moment] {
    match is_early(hour) {
        true => &[Moment::Before],
        false => &[Moment::Before, Moment::Announced, Moment::Started],
    }
}

const KINDS: usize = 13;

/// Longer than the agents' timeout.
const TOO_LONG: Duration = Duration::from_millis(2500);

pub const TIMEOUT: &str = "2s";

fn kinds() -> [FaultKind; KINDS] {
    let status = |status| FaultKind::Status { status, retry_after_secs: 1 };
    [
        status(Status::TooManyRequests),
        status(Status::Gone),
        status(Status::InternalServerError),
        status(Status::ServiceUnavailable),
        FaultKind::Delay(Duration::from_millis(300)),
        FaultKind::Delay(TOO_LONG),
        FaultKind::Reset,
        FaultKind::Truncated,
        FaultKind::Malformed,
        FaultKind::SlowFirstCall(Duration::from_millis(300)),
        FaultKind::IncarnationRestart,
        FaultKind::EventsVanish,
        FaultKind::UnknownType,
    ]
}

fn fault(dice: &mut Dice, kind: FaultKind, hour: usize) -> Fault {
    let counted = |count: usize| FaultLimit { count: Some(count as u64), ..FaultLimit::default() };
    // Not 50: an agent that retries at once would be affected by every second request, and others never.
    let share = FaultLimit { percent: Some(40), ..FaultLimit::default() };
    let life = match kind {
        FaultKind::Delay(TOO_LONG) => counted(1),
        // These last until the end of the hour.
        FaultKind::IncarnationRestart | FaultKind::UnknownType => FaultLimit::default(),
        FaultKind::Status { .. }
        | FaultKind::Delay(_)
        | FaultKind::Reset
        | FaultKind::Truncated
        | FaultKind::Malformed
        | FaultKind::SlowFirstCall(_)
        | FaultKind::EventsVanish => {
            let spanned = FaultLimit { span: Some(Duration::from_secs(300)), ..share };
            let counted = counted(1 + dice.below(2));
            if is_early(hour) { counted } else { dice.pick(&[counted, share, spanned]) }
        }
    };
    let method = match kind.concerns_polls_only() {
        true => None,
        false => dice.pick(&[None, Some(Method::Get)]),
    };
    Fault { kind, only: RequestFilter { method, ..RequestFilter::default() }, life }
}

fn approval_fault(dice: &mut Dice) -> Fault {
    let kinds: Vec<FaultKind> = kinds().into_iter().filter(|kind| !kind.concerns_polls_only()).collect();
    let life = FaultLimit { count: Some(1 + dice.below(2) as u64), ..FaultLimit::default() };
    Fault {
        kind: dice.pick(&kinds),
        only: RequestFilter { method: Some(Method::Post), ..RequestFilter::default() },
        life,
    }
}
