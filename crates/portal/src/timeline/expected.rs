//! Expected events. A rollout visits one update domain at a time, and only the current one has an event. The next ones are
//! shown as estimates; they come earlier if events are approved early.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use forewarn_core::{Machine, Operation, OperationState, Region, Request, ScopeId, Timestamp};

use super::window::Window;
use crate::fragment::Fragment;
use crate::html::RenderMode;
use crate::preview::machines_of;
use crate::scene::Scene;
use crate::words;

/// Update domains shown per rollout. Estimates for later ones are too uncertain.
const EXPECTED_MAX: usize = 3;

/// An update domain that has not been visited yet.
pub struct ExpectedEvent {
    id: String,
    pub scope: ScopeId,
    kind: &'static str,
    domain: u32,
    names: String,
    from: Timestamp,
    pub due: Timestamp,
    /// Number of later update domains that are not shown.
    further: usize,
}

#[derive(Template)]
#[template(path = "expected.html")]
struct ExpectedLane<'a> {
    sort: &'a str,
    event: &'a ExpectedEvent,
    due_html: String,
    due_text: String,
    bar: String,
}

pub fn find_expected(region: &Region) -> Vec<ExpectedEvent> {
    let running = region.operations().filter(|operation| operation.state == OperationState::Running);
    running.flat_map(|operation| expected_of_rollout(region, operation)).collect()
}

fn expected_of_rollout(region: &Region, operation: &Operation) -> Vec<ExpectedEvent> {
    let (Some(rollout), Request::Maintain { target, plan }) = (&operation.domains, &operation.request) else {
        return Vec::new();
    };
    let mut domains: BTreeMap<u32, Vec<&Machine>> = BTreeMap::new();
    for machine in machines_of(region, target).filter(|machine| machine.update_domain >= rollout.next_domain) {
        domains.entry(machine.update_domain).or_default().push(machine);
    }
    let settings = region.settings();
    let pause = settings.scaled(settings.update_domain_pause);
    let notice = plan.notice.map_or(settings.notice_min(plan.kind), |notice| settings.scaled(notice));
    let impact = Duration::from_secs(plan.duration_secs.and_then(|secs| u64::try_from(secs).ok()).unwrap_or(0));
    let live = operation.parts.iter().filter_map(|part| region.event(part.event)).filter(|event| event.is_live());
    let current = live.map(|event| event.not_before).max().unwrap_or(region.now());
    let mut begins = rollout.resume.unwrap_or(current + impact + pause);
    let count = domains.len();
    let expect = |(n, (domain, machines)): (usize, (u32, Vec<&Machine>))| {
        let scope = machines.first()?.scope;
        let from = begins;
        let due = (from + if region.is_on(scope) { notice } else { Duration::ZERO }).round_up_to_second();
        begins = due + impact + pause;
        Some(ExpectedEvent {
            id: format!("expected-{}-{domain}", operation.id),
            scope,
            kind: plan.kind.as_str(),
            domain,
            names: words::join_many(machines.iter().map(|machine| machine.name.to_string())),
            from,
            due,
            further: if n + 1 == EXPECTED_MAX { count - EXPECTED_MAX.min(count) } else { 0 },
        })
    };
    domains.into_iter().enumerate().take(EXPECTED_MAX).filter_map(expect).collect()
}

impl ExpectedEvent {
    /// Sorts like a scheduled event.
    pub fn time_key(&self) -> String {
        format!("0-{:016}", self.due.0)
    }

    pub fn render_lane(&self, scene: &Scene, sort: &str) -> Fragment {
        let bar = match scene.mode {
            RenderMode::Page => Window::around(scene.now).bar(self.from.0, self.due.0),
            RenderMode::Update => String::new(),
        };
        let lane =
            ExpectedLane { sort, event: self, due_html: words::time(self.due), due_text: words::utc(self.due), bar };
        Fragment::render(self.id.clone(), sort, &lane)
    }
}
