//! The order in which maintenance goes: what comes at once, as the rules would make it, and what follows.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forewarn_core::{Event, Machine, Plan, Region, Rejection, Request, ScopeId, Status, Target, Timestamp};

use super::{Oracle, TRIAL, asking, made, names_of};
use crate::words::{self, escaped, few};
use forewarn_api_types::span::span_text;

/// One step of the order.
#[derive(Clone, Debug)]
pub struct Stage {
    pub domain: u32,
    /// The document that says so.
    pub scope: String,
    pub machines: String,
    /// HTML.
    pub when: String,
}

impl Oracle<'_> {
    /// What would come of this plan, or why the rules would refuse it.
    pub fn order(&self, target: &Target, plan: &Plan) -> Result<Vec<Stage>, Rejection> {
        let request = Request::Maintain { target: target.clone(), plan: plan.clone() };
        let trial = self.region.apply(&asking(TRIAL, request), self.now)?;
        let events = made(&trial, TRIAL);
        let together = events.len() > 1 && events.iter().all(|event| event.cohort.is_some());
        let mut stages: Vec<Stage> = events.iter().map(|event| self.stage(event, together, plan)).collect();
        let rollout = trial.region.operation(TRIAL).and_then(|operation| operation.rollout.as_ref());
        if let (Some(rollout), Some(first)) = (rollout, events.first()) {
            let ahead = machines_of(self.region, target).filter(|machine| machine.update_domain >= rollout.next_domain);
            stages.extend(self.later(ahead, first, plan));
        }
        Ok(stages)
    }

    /// A time that was asked for stays; others move with the clock until somebody decides.
    fn planned(&self, at: Timestamp, plan: &Plan) -> String {
        if plan.at.is_some_and(|asked| asked <= at) { words::time(at) } else { self.time(at) }
    }

    fn stage(&self, event: &Event, together: bool, plan: &Plan) -> Stage {
        let domain = event.resources.iter().find_map(|resource| self.region.machine(resource.machine));
        let at = self.planned(event.not_before, plan);
        let when = match (&event.status, event.is_shown(), together) {
            (Status::Ended { .. }, _, _) => "never: it does not run".into(),
            (Status::Started { .. }, _, _) => "at once: nobody in its scope asks for events".into(),
            (Status::Scheduled, true, true) => {
                format!("not before {at}; all of them together, earlier when all are approved")
            }
            (Status::Scheduled, true, false) => format!("not before {at}, earlier when approved"),
            (Status::Scheduled, false, true) => {
                format!("not before {at}, with the others; nobody in its scope is told")
            }
            (Status::Scheduled, false, false) => format!("not before {at}; nobody in its scope is told"),
        };
        Stage {
            domain: domain.map_or(0, |machine| machine.update_domain),
            scope: self
                .region
                .scope(event.scope)
                .map_or_else(String::new, |scope| words::scope(self.region, scope).name),
            machines: few(&names_of(event)),
            when,
        }
    }

    /// The update domains that are visited when the one before has ended. When that is depends on approvals and on
    /// the impact, so it is said without them.
    fn later<'m>(&self, machines: impl Iterator<Item = &'m Machine>, first: &Event, plan: &Plan) -> Vec<Stage> {
        let mut domains: BTreeMap<u32, Vec<&Machine>> = BTreeMap::new();
        for machine in machines {
            domains.entry(machine.update_domain).or_default().push(machine);
        }
        let settings = self.region.settings();
        let pause = settings.scaled(settings.update_domain_pause);
        let least = plan.notice.map_or(settings.notice_min(plan.kind), |notice| settings.scaled(notice));
        let impact = Duration::from_secs(u64::try_from(first.duration_secs).unwrap_or(0));
        let mut about: Timestamp = first.not_before;
        let stage = |(domain, machines): (u32, Vec<&Machine>)| {
            let is_told = machines.iter().any(|machine| self.region.is_on(machine.scope));
            let notice = if is_told { least } else { Duration::ZERO };
            about = (about + impact + pause + notice).round_up_to_second();
            let told = if is_told {
                format!("{} of notice", span_text(least))
            } else {
                "no notice, because nobody asks for events".into()
            };
            Stage {
                domain,
                scope: scopes_of(self.region, &machines),
                machines: words::few_of(machines.iter().map(|machine| escaped(&machine.name))),
                when: format!(
                    "{} after the one before has ended, and {told}: about {}, earlier when approvals are",
                    span_text(pause),
                    self.planned(about, plan)
                ),
            }
        };
        domains.into_iter().map(stage).collect()
    }
}

/// The machines that a plan is for, those that are there.
pub fn machines_of<'r>(region: &'r Region, target: &'r Target) -> Box<dyn Iterator<Item = &'r Machine> + 'r> {
    match target {
        Target::Machines(ids) => Box::new(ids.iter().filter_map(|id| region.machine(*id)).map(|machine| &**machine)),
        Target::Host(host) => Box::new(region.machines_on(host).map(|machine| &**machine)),
        Target::Group(id) => {
            let members = region.group(*id).into_iter().flat_map(|group| region.group_members(group));
            Box::new(members.map(|machine| &**machine))
        }
    }
}

fn scopes_of(region: &Region, machines: &[&Machine]) -> String {
    let scopes: BTreeSet<ScopeId> = machines.iter().map(|machine| machine.scope).collect();
    let scopes = scopes.into_iter().filter_map(|scope| region.scope(scope));
    words::few_of(scopes.map(|scope| words::scope(region, scope).name))
}
