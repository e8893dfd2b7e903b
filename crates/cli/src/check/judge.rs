//! From what was observed of a handler to findings and a verdict. Pure: the same sight gives the same verdict.

use std::time::Duration;

use super::cases::Case;
use super::is_approval_expected;
use super::marks::{Mark, Marks};
use super::observation::{Elapsed, Event, Observation};
use crate::args::Profile;

/// A handler that looks less often than this cannot be relied on to see a Preempt, which gives 30 seconds.
pub const GAP_MAX: Duration = Duration::from_secs(30);

#[derive(Clone, Debug)]
pub struct Verdict {
    pub case: &'static str,
    pub numbers: Numbers,
    pub findings: Vec<Finding>,
}

/// What a table shows of a case. None: it did not happen, or could not be observed.
#[derive(Clone, Debug, Default)]
pub struct Numbers {
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
    /// As it should be.
    Good,
    /// Worth knowing, and no fault.
    Remark,
    /// Only the handler itself could show it.
    NotObserved,
    Bad,
}

impl Verdict {
    pub fn passed(&self) -> bool {
        self.findings.iter().all(|finding| finding.severity != Severity::Bad)
    }
}

pub fn judge(case: &Case, observed: &Observation, profile: Profile, marks: &Marks) -> Verdict {
    let mut judge = Judge { case, observed, profile, marks, findings: Vec::new() };
    judge.all();
    Verdict { case: case.name, numbers: numbers(observed, profile), findings: judge.findings }
}

fn numbers(observed: &Observation, profile: Profile) -> Numbers {
    let event = observed.events.iter().find(|event| event.mine).or(observed.events.first());
    let approved =
        event.filter(|event| is_approval_expected(profile, event.mine) || observed.approval(&event.id).is_some());
    Numbers {
        first_poll: observed.polls().next().map(|poll| poll.at),
        interval: interval(observed),
        seen_after: event.and_then(|event| Some(observed.poll_after(event.appeared)? - event.appeared)),
        approved_after: approved.and_then(|event| Some(observed.approval(&event.id)?.saturating_sub(event.appeared))),
    }
}

/// The middle one of the times between polls.
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
    fn all(&mut self) {
        if let Some(error) = &self.observed.error {
            return self.say(Severity::Bad, error.clone());
        }
        if self.observed.polls().next().is_none() {
            return self.say(Severity::Bad, "asked for nothing");
        }
        if self.case.scenario.is_some() && self.observed.events.is_empty() && self.observed.exit.is_none() {
            self.say(Severity::Bad, "was shown no event, because it never got a document");
        }
        self.going_on();
        self.pace();
        for event in &self.observed.events {
            self.approval(event);
            self.preparation(event);
            self.end(event);
        }
    }

    /// Whether it was there to the end, whatever it was answered.
    fn going_on(&mut self) {
        if let Some((at, how)) = &self.observed.exit {
            let gone =
                self.observed.events.iter().any(|event| event.mine && event.ended.is_some_and(|ended| ended <= *at));
            if !(self.case.ends_machine && gone) {
                self.say(Severity::Bad, format!("ended by itself ({how}) after {}", secs(*at)));
            }
        }
        let Some(last) = self.observed.requests.iter().rev().find(|request| request.faulty).map(|request| request.at)
        else {
            return;
        };
        match self.observed.poll_after(last) {
            Some(_) => self.say(Severity::Good, "kept going after wrong answers"),
            None => self.say(Severity::Bad, "stopped operation after wrong answers"),
        }
    }

    fn pace(&mut self) {
        let polls: Vec<Elapsed> = self.observed.polls().map(|poll| poll.at).collect();
        let end = if self.case.ends_machine { self.over().unwrap_or(self.observed.until) } else { self.observed.until };
        let ends = polls.iter().skip(1).copied().chain([end]);
        let longest = polls.iter().zip(ends).map(|(from, to)| to.saturating_sub(*from)).max().unwrap_or_default();
        if longest > GAP_MAX {
            self.say(
                Severity::Bad,
                format!(
                    "asked for nothing for {}, longer than the notice of a Preempt ({})",
                    secs(longest),
                    secs(GAP_MAX)
                ),
            );
        }
    }

    /// When the last event of its own was over.
    fn over(&self) -> Option<Elapsed> {
        self.observed.events.iter().filter(|event| event.mine).filter_map(|event| event.ended).max()
    }

    fn approval(&mut self, event: &Event) {
        let whose = if event.mine { "its own" } else { "another machine's" };
        let kind = &event.kind;
        let refused = self.observed.refused_approvals();
        match (self.observed.approval(&event.id), is_approval_expected(self.profile, event.mine), event.had_notice()) {
            (Some(at), _, _) if event.started.is_some_and(|started| started < at) => {
                let severity = if self.profile == Profile::Never { Severity::Bad } else { Severity::Remark };
                self.say(severity, format!("approved {whose} {kind} when it had Started already"));
            }
            (Some(at), true, _) => {
                self.say(
                    Severity::Good,
                    format!("approved {whose} {kind} after {}", secs(at.saturating_sub(event.appeared))),
                );
            }
            (Some(_), false, _) => self.say(Severity::Bad, format!("approved {whose} {kind}")),
            (None, true, true) if refused > 0 => {
                self.say(Severity::Bad, format!("did not approve {whose} {kind}: {refused} POSTs were refused"));
            }
            (None, true, true) => self.say(Severity::Bad, format!("did not approve {whose} {kind}")),
            (None, true, false) => self.say(Severity::Good, format!("had no notice of {whose} {kind}")),
            (None, false, _) => self.say(Severity::Good, format!("left {whose} {kind} alone")),
        }
    }

    fn preparation(&mut self, event: &Event) {
        if !event.mine || !event.had_notice() || self.profile == Profile::Never {
            return;
        }
        let Some(approved) = self.observed.approval(&event.id) else { return };
        match (&self.marks.prepared, self.observed.mark_after(Mark::Prepared, event.appeared)) {
            (None, _) => self.say(Severity::NotObserved, "preparation before approval"),
            (Some(_), Some(at)) if at <= approved + MARK_LATE_MAX => {
                self.say(Severity::Good, "prepared before it approved");
            }
            (Some(_), Some(_)) => self.say(Severity::Bad, "approved before it had prepared"),
            (Some(_), None) => self.say(Severity::Bad, "approved and did not prepare"),
        }
    }

    /// Whether it noticed that the event was over, or called off.
    fn end(&mut self, event: &Event) {
        let Some(ended) = event.ended.filter(|_| !self.case.ends_machine) else { return };
        let what = if event.canceled { "the cancellation" } else { "the end" };
        if self.observed.poll_after(ended).is_none() {
            return self.say(Severity::Bad, format!("did not ask again, so it missed {what}"));
        }
        if !event.mine {
            return;
        }
        match (&self.marks.restored, self.observed.mark_after(Mark::Restored, ended)) {
            (None, _) => self.say(Severity::NotObserved, format!("restoring after {what}")),
            (Some(_), Some(_)) => self.say(Severity::Good, format!("noticed {what} and restored")),
            (Some(_), None) => self.say(Severity::Bad, format!("did not restore after {what}")),
        }
    }

    fn say(&mut self, severity: Severity, text: impl Into<String>) {
        self.findings.push(Finding { severity, text: text.into() });
    }
}

/// A line of output is read some time after it was written, on a busy machine more of it than one would think.
const MARK_LATE_MAX: Duration = Duration::from_secs(2);

pub fn secs(span: Duration) -> String {
    format!("{:.1} s", span.as_secs_f64())
}

#[cfg(test)]
mod tests;
