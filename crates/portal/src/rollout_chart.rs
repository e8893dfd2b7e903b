//! Charts of a planned rollout, drawn on the server: its steps over time, and the capacity of each group with its floor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use forewarn_api::find_machine;
use forewarn_api_types::{GroupAvailability, NewRollout, RolloutPreview, RolloutStep, RolloutType};
use forewarn_core::{EventKind, GroupKey, Machine, Name, Region};
use forewarn_widgets::gantt::{Gantt, GanttPhase, GanttSpan, GanttStep, GanttTimes};
use forewarn_widgets::{address, html};

use super::fleet::{self, FleetGroup};
use super::page_context::PageContext;

/// Groups whose capacity is drawn, worst first.
const GROUPS_MAX: usize = 8;

/// The height of a capacity chart.
const CHART_HEIGHT: f64 = 30.0;

/// A planned rollout, ready to be drawn.
pub struct Chart<'a> {
    context: &'a PageContext,
    preview: &'a RolloutPreview,
    span: GanttSpan,
    steps: Vec<StepSpan<'a>>,
    groups: Vec<FleetGroup>,
    /// The unavailable machines per group that the plan allows; `None` for one update domain.
    unavailable_max: Option<u32>,
}

/// A step with the times of its notice and its impact.
struct StepSpan<'a> {
    step: &'a RolloutStep,
    /// Machines by group.
    machines: BTreeMap<GroupKey, usize>,
    notice: i64,
    impact: i64,
    end: i64,
}

#[derive(Template)]
#[template(path = "capacity.html")]
struct Capacity {
    groups: Vec<GroupCapacity>,
    /// Groups that are not drawn.
    calm: usize,
}

struct GroupCapacity {
    name: String,
    href: String,
    up: usize,
    lowest: u32,
    floor: usize,
    area: String,
    floor_y: String,
}

impl GroupCapacity {
    fn is_below(&self) -> bool {
        (self.lowest as usize) < self.floor
    }
}

impl<'a> Chart<'a> {
    pub fn new(context: &'a PageContext, plan: &NewRollout, preview: &'a RolloutPreview) -> Chart<'a> {
        let groups = fleet::list_groups(context);
        let steps: Vec<StepSpan<'_>> =
            preview.steps.iter().filter_map(|step| StepSpan::new(context.region(), plan, step)).collect();
        let begin = steps.iter().map(|step| step.notice).min().unwrap_or(context.now.0);
        let end = steps.iter().map(|step| step.end).max().unwrap_or(begin);
        let span = GanttSpan::new(begin, end);
        Chart { context, preview, span, steps, groups, unavailable_max: plan.max_unavailable }
    }

    /// The number of machines of a group that the plan, and the drains and rollouts in progress, keep up.
    fn floor_of(&self, group: &FleetGroup) -> usize {
        let region = self.context.region();
        let own = self.unavailable_max.unwrap_or_else(|| region.default_unavailable_max(group.key)) as usize;
        let limit = group.limit(region).map(|limit| limit.max as usize);
        group.machines.saturating_sub(limit.map_or(own, |limit| limit.min(own)))
    }

    pub fn render_order(&self, severity: &'static str) -> String {
        let steps = self.steps.iter().map(|step| self.draw(step)).collect();
        Gantt::new(self.span, severity, steps).render()
    }

    fn draw(&self, step: &StepSpan<'_>) -> GanttStep {
        let (name, href) = name_step(self.context.region(), step.step);
        GanttStep {
            name,
            href,
            machines: step.machine_count(),
            phase: GanttPhase::Planned,
            times: Some(GanttTimes { notice: step.notice, impact: step.impact, end: step.end }),
            note: String::new(),
        }
    }

    pub fn render_capacity(&self) -> String {
        let mut groups: Vec<(&FleetGroup, &GroupAvailability)> = Vec::new();
        for expected in &self.preview.groups {
            groups.extend(self.groups.iter().find(|group| is_meant(group, expected)).map(|group| (group, expected)));
        }
        groups.sort_by_key(|(group, expected)| {
            (i64::from(expected.min_available) - self.floor_of(group) as i64, group.machines)
        });
        let calm = groups.len().saturating_sub(GROUPS_MAX);
        let drawn = groups.into_iter().take(GROUPS_MAX).map(|(group, expected)| self.capacity_of(group, expected));
        html::render(&Capacity { groups: drawn.collect(), calm })
    }

    fn capacity_of(&self, group: &FleetGroup, expected: &GroupAvailability) -> GroupCapacity {
        // By time: a step that starts when another one ends is no change.
        let mut changes: BTreeMap<i64, i64> = BTreeMap::new();
        for step in &self.steps {
            let lost = step.machines.get(&group.key).copied().unwrap_or(0) as i64;
            *changes.entry(step.impact).or_default() -= lost;
            *changes.entry(step.end).or_default() += lost;
        }
        let floor_machines = self.floor_of(group);
        let (top, floor) = (group.up as f64, floor_machines as f64);
        let bottom = (floor.min(f64::from(expected.min_available)) - 1.0).max(0.0).min(top - 1.0);
        let y = |level: f64| 2.0 + (top - level) / (top - bottom) * (CHART_HEIGHT - 6.0);
        let mut level = group.up as i64;
        let mut path = format!("M0 {CHART_HEIGHT}L0 {:.1}", y(level as f64));
        for (at, change) in changes.into_iter().filter(|(_, change)| *change != 0) {
            let x = self.span.percent(at);
            path += &format!("H{x:.2}");
            level += change;
            // Machines that are down now because of other operations may be up again by then: the rules know the minimum.
            path += &format!("V{:.1}", y(level.max(i64::from(expected.min_available)) as f64));
        }
        path += &format!("H100V{CHART_HEIGHT}Z");
        GroupCapacity {
            name: group.name.clone(),
            href: group.href.clone(),
            up: group.up,
            lowest: expected.min_available,
            floor: floor_machines,
            area: path,
            floor_y: format!("{:.1}", y(floor)),
        }
    }
}

/// Whether an entry of a preview is about this group.
pub fn is_meant(group: &FleetGroup, expected: &GroupAvailability) -> bool {
    match group.key {
        GroupKey::Group(id) => expected.group_id == Some(id.0),
        GroupKey::Machine(id) => expected.machine_id == Some(id.0),
    }
}

impl<'a> StepSpan<'a> {
    fn new(region: &Region, plan: &NewRollout, step: &'a RolloutStep) -> Option<StepSpan<'a>> {
        let (started, ended) = (step.started?.0, step.ended?.0);
        let (machines, has_handler) = count_machines(region, step);
        let notice = match plan.kind {
            RolloutType::Freeze => notice_of(region, plan, EventKind::Freeze),
            RolloutType::Reboot => notice_of(region, plan, EventKind::Reboot),
            RolloutType::Redeploy => notice_of(region, plan, EventKind::Redeploy),
            // Each machine has its own notice; the whole step counts as impact.
            RolloutType::Drain => Duration::ZERO,
        };
        let notice = if has_handler { notice.as_millis() as i64 } else { 0 };
        Some(StepSpan { step, machines, notice: started, impact: (started + notice).min(ended), end: ended })
    }

    fn machine_count(&self) -> usize {
        self.machines.values().sum()
    }
}

fn notice_of(region: &Region, plan: &NewRollout, kind: EventKind) -> Duration {
    let settings = region.settings();
    plan.notice_seconds.map_or(settings.notice_min(kind), |secs| settings.scaled(Duration::from_secs(secs)))
}

/// The machines of a step by group, and whether one of them has a handler.
fn count_machines(region: &Region, step: &RolloutStep) -> (BTreeMap<GroupKey, usize>, bool) {
    let mut machines = BTreeMap::new();
    let mut has_handler = false;
    let of_step: Vec<&Arc<Machine>> = match (&step.host, &step.group) {
        (Some(host), _) => region.machines_on(&Name::from(host.as_str())).collect(),
        (None, Some(group)) => {
            let members = region.groups_named(group).flat_map(|group| region.group_members(group));
            members.filter(|machine| Some(machine.update_domain) == step.update_domain).collect()
        }
        (None, None) => region.machines().filter(|machine| step.machine.as_deref() == Some(&*machine.name)).collect(),
    };
    for machine in of_step {
        *machines.entry(GroupKey::of(machine)).or_default() += 1;
        has_handler |= region.is_on(machine.scope);
    }
    (machines, has_handler)
}

fn name_step(region: &Region, step: &RolloutStep) -> (String, String) {
    match (&step.host, &step.group) {
        (Some(host), _) => (host.clone(), address::of_host(host)),
        (None, Some(group)) => {
            let found = region.groups_named(group).next();
            let href = found.map_or_else(String::new, |group| address::of_group(group.id));
            (format!("{group}, UD {}", step.update_domain.unwrap_or(0)), href)
        }
        (None, None) => {
            let name = step.machine.clone().unwrap_or_default();
            let href =
                find_machine(region, &name, None).map(|machine| address::of_machine(&machine)).unwrap_or_default();
            (name, href)
        }
    }
}
