//! Turns an observation into findings and a verdict. Pure.

use std::time::Duration;

use crate::Profile;
use crate::cases::Case;
use crate::marks::{Mark, Marks};
use crate::observation::{Elapsed, Observation, ObservedEvent};

/// Longest allowed gap between polls: the notice of a Preempt is 30 seconds.
pub const GAP_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Verdict {
    pub case: &'static str,
    pub duration: Duration,
    pub numbers: PollStatistics,
    pub findings: Vec<Finding>,
}

/// Measurements for the table. None if something did not happen or could not be observed.
#[derive(Clone, Debug, Default)]
pub struct PollStatistics {
    pub first_poll: Option<Duration>,
    pub interval: Option<Duration>,
    pub seen_after: Option<Duration>,
    pub approved_after: Option<Duration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub severity: Severity,
    pub text: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Correct behavior.
    Good,
    /// Worth knowing, but not a failure.
    Remark,
    /// Visible only in the handler's output.
    NotObserved,
    Bad,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Remark => "remark",
            Severity::NotObserved => "not observed",
            Severity::Bad => "bad",
        }
    }
}

impl Verdict {
    pub fn passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Bad)
    }
}

pub fn judge(case: &Case, observed: &Observation, profile: Profile, marks: &Marks) -> Verdict {
    let mut judge = Judge { case, observed, profile, marks, findings: Vec::new() };
    judge.check_all();
    Verdict { case: case.name, duration: observed.until, numbers: numbers(observed, profile), findings: judge.findings }
}

fn numbers(observed: &Observation, profile: Profile) -> PollStatistics {
    let event = observed.events.iter().find(|event| event.mine).or(observed.events.first());
    let approved =
        event.filter(|event| profile.is_approval_expected(event.mine) || observed.approval(&event.id).is_some());
    PollStatistics {
        first_poll: observed.polls().next().map(|poll| poll.at),
        interval: interval(observed),
        seen_after: event.and_then(|event| Some(observed.seen(event)?.saturating_sub(event.appeared))),
        approved_after: approved.and_then(|event| Some(observed.approval(&event.id)?.saturating_sub(event.appeared))),
    }
}

/// The median of the intervals between polls.
fn interval(observed: &Observation) -> Option<Duration> {
    let polls: Vec<Elapsed> = observed.polls().map(|poll| poll.at).collect();
    let mut gaps: Vec<Duration> = polls.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).collect();
    gaps.sort();
    gaps.get(gaps.len() / 2).copied()
}

struct Judge<'a> {
    case: &'a Case,
    observed: &'a Observation,
    profile: Profile,
    marks: &'a Marks,
    findings: Vec<Finding>,
}

impl Judge<'_> {
    fn check_all(&mut self) {
        if let Some(error) = &self.observed.error {
            return self.add(Severity::Bad, error.clone());
        }
        if self.observed.polls().next().is_none() {
            return self.add(Severity::Bad, "sent no requests");
        }
        if self.case.scenario.is_some() && self.observed.events.is_empty() && self.observed.exit.is_none() {
            self.add(Severity::Bad, "saw no event because it never received a document");
        }
        self.check_survival();
        self.check_polling();
        for event in &self.observed.events {
            self.check_approval(event);
            self.check_preparation(event);
            self.check_end(event);
        }
    }

    /// Whether the handler kept running and polling, whatever the responses.
    fn check_survival(&mut self) {
        if let Some((at, how)) = &self.observed.exit {
            let gone =
                self.observed.events.iter().any(|event| event.mine && event.ended.is_some_and(|ended| ended <= *at));
            if !(self.case.ends_machine && gone) {
                self.add(Severity::Bad, format!("exited ({how}) after {}", secs(*at)));
            }
        }
        let Some(last) = self.observed.requests.iter().rev().find(|request| request.faulty).map(|request| request.at)
        else {
            return;
        };
        match self.observed.poll_after(last) {
            Some(_) => self.add(Severity::Good, "kept polling after faulty responses"),
            None => self.add(Severity::Bad, "stopped polling after faulty responses"),
        }
    }

    fn check_polling(&mut self) {
        let polls: Vec<Elapsed> = self.observed.polls().map(|poll| poll.at).collect();
        let end =
            if self.case.ends_machine { self.last_end().unwrap_or(self.observed.until) } else { self.observed.until };
        let ends = polls.iter().skip(1).copied().chain([end]);
        let longest = polls.iter().zip(ends).map(|(from, to)| to.saturating_sub(*from)).max().unwrap_or_default();
        if longest > GAP_MAX {
            self.add(
                Severity::Bad,
                format!("did not poll for {}, longer than the notice of a Preempt ({})", secs(longest), secs(GAP_MAX)),
            );
        }
    }

    /// When the last event of the handler's machine finished.
    fn last_end(&self) -> Option<Elapsed> {
        self.observed.events.iter().filter(|event| event.mine).filter_map(|event| event.ended).max()
    }

    fn check_approval(&mut self, event: &ObservedEvent) {
        let whose = if event.mine { "its own" } else { "another machine's" };
        let kind = &event.kind;
        let refused = self.observed.refused_approvals();
        match (self.observed.approval(&event.id), self.profile.is_approval_expected(event.mine), event.had_notice()) {
            (Some(at), _, _) if event.started.is_some_and(|started| started < at) => {
                let severity = if self.profile == Profile::Never { Severity::Bad } else { Severity::Remark };
                self.add(severity, format!("approved {whose} {kind} after it had started"));
            }
            (Some(at), true, _) => {
                self.add(
                    Severity::Good,
                    format!("approved {whose} {kind} after {}", secs(at.saturating_sub(event.appeared))),
                );
            }
            (Some(_), false, _) => self.add(Severity::Bad, format!("approved {whose} {kind}")),
            // Deletions wait for each other, so approving its own event may have ended the event of the other machine.
            (None, true, true)
                if !event.mine && event.approved_elsewhere && event.kind == "Terminate" && refused == 0 =>
            {
                self.add(
                    Severity::Good,
                    format!("did not need to approve {whose} {kind}, which another machine approved"),
                );
            }
            (None, true, true) if refused > 0 => {
                self.add(Severity::Bad, format!("did not approve {whose} {kind}: {refused} POSTs were refused"));
            }
            (None, true, true) => self.add(Severity::Bad, format!("did not approve {whose} {kind}")),
            (None, true, false) => self.add(Severity::Good, format!("had no notice of {whose} {kind}")),
            (None, false, _) => self.add(Severity::Good, format!("left {whose} {kind} alone")),
        }
    }

    fn check_preparation(&mut self, event: &ObservedEvent) {
        if !event.mine || !event.had_notice() || self.profile == Profile::Never {
            return;
        }
        let Some(approved) = self.observed.approval(&event.id) else { return };
        match (&self.marks.prepared, self.observed.mark_after(Mark::Prepared, event.appeared)) {
            (None, _) => self.add(Severity::NotObserved, "preparation before approval"),
            (Some(_), Some(at)) if at <= approved + MARK_LATE_MAX => {
                self.add(Severity::Good, "prepared before approving");
            }
            (Some(_), Some(_)) => self.add(Severity::Bad, "approved before preparing"),
            (Some(_), None) => self.add(Severity::Bad, "approved without preparing"),
        }
    }

    /// Whether the handler noticed that an event finished or was canceled.
    fn check_end(&mut self, event: &ObservedEvent) {
        let Some(ended) = event.ended.filter(|_| !self.case.ends_machine) else { return };
        let what = if event.canceled { "the cancellation" } else { "the end" };
        if self.observed.poll_after(ended).is_none() {
            return self.add(Severity::Bad, format!("stopped polling and missed {what}"));
        }
        if !event.mine {
            return;
        }
        match (&self.marks.restored, self.observed.mark_after(Mark::Restored, ended)) {
            (None, _) => self.add(Severity::NotObserved, format!("restoring after {what}")),
            (Some(_), Some(_)) => self.add(Severity::Good, format!("noticed {what} and restored")),
            (Some(_), None) => self.add(Severity::Bad, format!("did not restore after {what}")),
        }
    }

    fn add(&mut self, severity: Severity, text: impl Into<String>) {
        self.findings.push(Finding { severity, text: text.into() });
    }
}

/// Tolerance for output lines, which are read some time after they were written.
const MARK_LATE_MAX: Duration = Duration::from_secs(2);

pub fn secs(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests;
