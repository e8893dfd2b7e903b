//! Roll-outs go one update domain at a time, and only the one at work has an event. The others are drawn as what they are:
//! expected, about then, earlier when approvals are.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use forewarn_core::{Machine, Operation, OperationState, Region, Request, ScopeId, Timestamp};

use super::window::Window;
use crate::page::{Fragment, Look, Scene};
use crate::preview::machines_of;
use crate::words;

/// Domains of one roll-out that are drawn; when the others come is too far from known.
const GHOSTS_MAX: usize = 3;

/// A domain whose turn is still to come.
pub struct Ghost {
    id: String,
    pub scope: ScopeId,
    kind: &'static str,
    domain: u32,
    names: String,
    from: Timestamp,
    pub due: Timestamp,
    /// Domains after this one that are not drawn.
    further: usize,
}

#[derive(Template)]
#[template(path = "expected.html")]
struct Lane<'a> {
    sort: &'a str,
    ghost: &'a Ghost,
    due_html: String,
    due_text: String,
    bar: String,
}

pub fn ghosts(region: &Region) -> Vec<Ghost> {
    let running = region.operations().filter(|operation| operation.state == OperationState::Running);
    running.flat_map(|operation| of_rollout(region, operation)).collect()
}

fn of_rollout(region: &Region, operation: &Operation) -> Vec<Ghost> {
    let (Some(rollout), Request::Maintain { target, plan }) = (&operation.rollout, &operation.request) else {
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
    let at_work = live.map(|event| event.not_before).max().unwrap_or(region.now());
    let mut begins = rollout.resume.unwrap_or(at_work + impact + pause);
    let count = domains.len();
    let ghost = |(n, (domain, machines)): (usize, (u32, Vec<&Machine>))| {
        let scope = machines.first()?.scope;
        let from = begins;
        let due = (from + if region.is_on(scope) { notice } else { Duration::ZERO }).round_up_to_second();
        begins = due + impact + pause;
        Some(Ghost {
            id: format!("ghost-{}-{domain}", operation.id),
            scope,
            kind: words::kind(plan.kind),
            domain,
            names: words::few_of(machines.iter().map(|machine| machine.name.to_string())),
            from,
            due,
            further: if n + 1 == GHOSTS_MAX { count - GHOSTS_MAX.min(count) } else { 0 },
        })
    };
    domains.into_iter().enumerate().take(GHOSTS_MAX).filter_map(ghost).collect()
}

impl Ghost {
    /// Among lanes: as one that is coming.
    pub fn order(&self) -> String {
        format!("0-{:016}", self.due.0)
    }

    pub fn lane(&self, scene: &Scene, sort: &str) -> Fragment {
        let bar = match scene.look {
            Look::First => Window::first(scene.now).bar(self.from.0, self.due.0),
            Look::Later => String::new(),
        };
        let lane = Lane { sort, ghost: self, due_html: words::time(self.due), due_text: words::utc(self.due), bar };
        Fragment::of(self.id.clone(), sort, &lane)
    }
}
