//! The steps of planned maintenance: the first events, as the rules would create them, and estimates for the update domains
//! that follow.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forewarn_api_types::join_names;
use forewarn_core::{Event, Machine, Plan, Region, Rejection, Request, ScopeId, Status, Target, Timestamp};
use forewarn_widgets::expected_event::machines_of;
use forewarn_widgets::words::{self, escape_html};

use super::{Preview, TRIAL, events_of, machine_names, request_command};
use forewarn_api_types::span::format_span;

/// One event of planned maintenance.
#[derive(Clone, Debug)]
pub struct PlanStep {
    pub domain: u32,
    /// The name of the event group.
    pub scope: String,
    pub machines: String,
    /// HTML.
    pub when: String,
}

impl Preview<'_> {
    /// The steps of a plan, or the reason why the rules refuse it.
    pub fn plan_steps(&self, target: &Target, plan: &Plan) -> Result<Vec<PlanStep>, Rejection> {
        let request = Request::Maintain { target: target.clone(), plan: plan.clone() };
        let trial = self.region.apply(&request_command(TRIAL, request), self.now)?;
        let events = events_of(&trial, TRIAL);
        let together = events.len() > 1 && events.iter().all(|event| event.cohort.is_some());
        let mut steps: Vec<PlanStep> = events.iter().map(|event| self.describe_step(event, together, plan)).collect();
        let rollout = trial.region.operation(TRIAL).and_then(|it| trial.region.rollout_of_maintenance(it));
        if let (Some(rollout), Some(first)) = (rollout, events.first()) {
            let ahead =
                machines_of(self.region, target).filter(|machine| machine.update_domain >= rollout.next_domain());
            steps.extend(self.estimate_steps(ahead, first, plan));
        }
        Ok(steps)
    }

    /// A requested time is fixed; other times move along with the clock while the page is open.
    fn render_planned(&self, at: Timestamp, plan: &Plan) -> String {
        if plan.at.is_some_and(|requested| requested <= at) { words::time(at) } else { self.render_time(at) }
    }

    fn describe_step(&self, event: &Event, together: bool, plan: &Plan) -> PlanStep {
        let domain = event.resources.iter().find_map(|resource| self.region.machine(resource.machine));
        let at = self.render_planned(event.not_before, plan);
        let when = match (&event.status, event.is_shown(), together) {
            (Status::Ended { .. }, _, _) => "never: the machine is not running".into(),
            (Status::Started { .. }, _, _) => "immediately: no handler is connected".into(),
            (Status::Scheduled, true, true) => {
                format!("not before {at}, all together; earlier if all are approved")
            }
            (Status::Scheduled, true, false) => format!("not before {at}, earlier if approved"),
            (Status::Scheduled, false, true) => {
                format!("not before {at}, together with the others; no handler is connected")
            }
            (Status::Scheduled, false, false) => format!("not before {at}; no handler is connected"),
        };
        PlanStep {
            domain: domain.map_or(0, |machine| machine.update_domain),
            scope: self
                .region
                .scope(event.scope)
                .map_or_else(String::new, |scope| words::scope(self.region, scope).name),
            machines: join_names(machine_names(event)),
            when,
        }
    }

    /// Estimates for the update domains that follow the first one. They depend on approvals and on the actual impact, so
    /// these are the latest times with the announced impact.
    fn estimate_steps<'m>(
        &self,
        machines: impl Iterator<Item = &'m Machine>,
        first: &Event,
        plan: &Plan,
    ) -> Vec<PlanStep> {
        let mut domains: BTreeMap<u32, Vec<&Machine>> = BTreeMap::new();
        for machine in machines {
            domains.entry(machine.update_domain).or_default().push(machine);
        }
        let settings = self.region.settings();
        let pause = settings.scaled(settings.update_domain_pause);
        let least = plan.notice.map_or(settings.notice_min(plan.kind), |notice| settings.scaled(notice));
        let impact = Duration::from_secs(u64::try_from(first.duration_secs).unwrap_or(0));
        let mut about: Timestamp = first.not_before;
        let step = |(domain, machines): (u32, Vec<&Machine>)| {
            let has_handler = machines.iter().any(|machine| self.region.is_on(machine.scope));
            let notice = if has_handler { least } else { Duration::ZERO };
            about = (about + impact + pause + notice).round_up_to_second();
            let notice_text = if has_handler {
                format!("{} of notice", format_span(least))
            } else {
                "no notice (no handler is connected)".into()
            };
            PlanStep {
                domain,
                scope: scope_names(self.region, &machines),
                machines: join_names(machines.iter().map(|machine| escape_html(&machine.name))),
                when: format!(
                    "{} after the previous update domain finishes, plus {notice_text}: about {}, earlier if approved early",
                    format_span(pause),
                    self.render_planned(about, plan)
                ),
            }
        };
        domains.into_iter().map(step).collect()
    }
}

fn scope_names(region: &Region, machines: &[&Machine]) -> String {
    let scopes: BTreeSet<ScopeId> = machines.iter().map(|machine| machine.scope).collect();
    let scopes = scopes.into_iter().filter_map(|scope| region.scope(scope));
    join_names(scopes.map(|scope| words::scope(region, scope).name))
}
