//! Charts of a planned rollout, drawn on the server: its steps over time with their conflicts, and the capacity of each group with
//! its floor.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use askama::Template;
use forewarn_api::find_machine;
use forewarn_api_types::{AvailableMachines, GroupAvailability, NewRollout, RolloutPreview, RolloutStep, RolloutType};
use forewarn_core::{EventKind, GroupKey, Machine, Name, Region};
use forewarn_widgets::gantt::{Gantt, GanttPhase, GanttSpan, GanttStep, GanttTimes};
use forewarn_widgets::{address, html};

use super::fleet::{self, FleetGroup};
use super::page_context::PageContext;

/// Groups whose capacity is drawn, worst first.
const GROUPS_MAX: usize = 8;

/// Names of machines beside a bar.
const NAMES_MAX: usize = 2;

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
pub struct StepSpan<'a> {
    step: &'a RolloutStep,
    pub machines: Vec<Arc<Machine>>,
    pub notice: i64,
    pub impact: i64,
    pub end: i64,
    /// Steps with the same notice are a wave. The number of the first one is 1.
    pub wave: usize,
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
    /// The area between the floor and fewer machines.
    missing: String,
    floor_y: String,
    /// Whether the plan takes it below its floor, not other operations.
    is_own: bool,
}

impl GroupCapacity {
    fn is_below(&self) -> bool {
        (self.lowest as usize) < self.floor
    }
}

impl<'a> Chart<'a> {
    pub fn new(context: &'a PageContext, plan: &NewRollout, preview: &'a RolloutPreview) -> Chart<'a> {
        let groups = fleet::list_groups(context);
        let mut steps: Vec<StepSpan<'_>> =
            preview.steps.iter().filter_map(|step| StepSpan::new(context.region(), plan, step)).collect();
        let waves: BTreeSet<i64> = steps.iter().map(|step| wave_key(step.notice)).collect();
        let waves: Vec<i64> = waves.into_iter().collect();
        for step in &mut steps {
            step.wave = waves.partition_point(|wave| *wave <= wave_key(step.notice));
        }
        let begin = steps.iter().map(|step| step.notice).min().unwrap_or(context.now.0);
        let end = steps.iter().map(|step| step.end).max().unwrap_or(begin);
        let span = GanttSpan::new(begin, end);
        Chart { context, preview, span, steps, groups, unavailable_max: plan.max_unavailable }
    }

    pub fn steps(&self) -> &[StepSpan<'a>] {
        &self.steps
    }

    /// The groups of the plan, each with what is expected of it.
    pub fn groups(&self) -> impl Iterator<Item = (&FleetGroup, &GroupAvailability)> {
        let of = |expected| self.groups.iter().find(|group| is_meant(group, expected)).map(|group| (group, expected));
        self.preview.groups.iter().filter_map(of)
    }

    /// The number of machines of a group that the plan, and the drains and rollouts in progress, keep up.
    pub fn floor_of(&self, group: &FleetGroup) -> usize {
        let region = self.context.region();
        let own = self.unavailable_max.unwrap_or_else(|| region.default_unavailable_max(group.key)) as usize;
        let limit = group.limit(region).map(|limit| limit.max as usize);
        group.machines.saturating_sub(limit.map_or(own, |limit| limit.min(own)))
    }

    /// `conflicts`: the machines in conflict of each step.
    pub fn render_order(&self, severity: &'static str, conflicts: &BTreeMap<usize, BTreeSet<&str>>) -> String {
        let none = BTreeSet::new();
        let steps = self.steps.iter().enumerate();
        let steps = steps.map(|(number, step)| self.draw(step, conflicts.get(&number).unwrap_or(&none)));
        Gantt::new(self.span, severity, steps.collect()).render()
    }

    /// `names`: the machines of the step that have a conflict.
    fn draw(&self, step: &StepSpan<'_>, names: &BTreeSet<&str>) -> GanttStep {
        let (name, href) = step.name_and_address(self.context.region());
        let first: Vec<&str> = names.iter().take(NAMES_MAX).copied().collect();
        let more = names.len() - first.len();
        GanttStep {
            name,
            href,
            machines: step.machines.len(),
            phase: if names.is_empty() { GanttPhase::Planned } else { GanttPhase::Conflict },
            times: Some(GanttTimes { notice: step.notice, impact: step.impact, end: step.end }),
            note: if more == 0 { first.join(", ") } else { format!("{} and {more} more", first.join(", ")) },
        }
    }

    /// `own`: the groups that the plan takes below their floors.
    pub fn render_capacity(&self, own: &BTreeSet<GroupKey>) -> String {
        let mut groups: Vec<(&FleetGroup, &GroupAvailability)> = self.groups().collect();
        groups.sort_by_key(|(group, expected)| {
            (i64::from(expected.min_available) - self.floor_of(group) as i64, group.machines)
        });
        let calm = groups.len().saturating_sub(GROUPS_MAX);
        let drawn = groups.into_iter().take(GROUPS_MAX).map(|(group, expected)| GroupCapacity {
            is_own: own.contains(&group.key),
            ..self.capacity_of(group, expected)
        });
        html::render(&Capacity { groups: drawn.collect(), calm })
    }

    fn capacity_of(&self, group: &FleetGroup, expected: &GroupAvailability) -> GroupCapacity {
        let floor = self.floor_of(group);
        let levels = expected.available.iter().map(|change| change.machines);
        let top = f64::from(levels.max().unwrap_or(0)).max(group.up as f64);
        let bottom = ((floor as f64).min(f64::from(expected.min_available)) - 1.0).max(0.0).min(top - 1.0);
        let y = |level: f64| 2.0 + (top - level) / (top - bottom) * (CHART_HEIGHT - 6.0);
        let x = |at: i64| self.span.percent(at).clamp(0.0, 100.0);
        let floor_y = y(floor as f64);
        let (mut area, mut missing) = (format!("M0 {CHART_HEIGHT}"), String::new());
        for (from, to, level) in list_levels(&expected.available) {
            let (from, to, level_y) = (x(from), x(to), y(f64::from(level)));
            area += &format!("L{from:.2} {level_y:.1}H{to:.2}");
            if (level as usize) < floor && to > from {
                missing += &format!("M{from:.2} {floor_y:.1}H{to:.2}V{level_y:.1}H{from:.2}Z");
            }
        }
        area += &format!("V{CHART_HEIGHT}Z");
        GroupCapacity {
            name: group.name.clone(),
            href: group.href.clone(),
            up: group.up,
            lowest: expected.min_available,
            floor,
            area,
            missing,
            floor_y: format!("{floor_y:.1}"),
            is_own: false,
        }
    }
}

/// The periods with a constant number of available machines: begin, end and number. The last one has no end.
pub fn list_levels(changes: &[AvailableMachines]) -> impl Iterator<Item = (i64, i64, u32)> {
    let ends = changes.iter().skip(1).map(|next| next.at.0).chain([i64::MAX]);
    changes.iter().zip(ends).map(|(change, end)| (change.at.0, end, change.machines))
}

/// Whether an entry of a preview is about this group.
pub fn is_meant(group: &FleetGroup, expected: &GroupAvailability) -> bool {
    match group.key {
        GroupKey::Group(id) => expected.group_id == Some(id.0),
        GroupKey::Machine(id) => expected.machine_id == Some(id.0),
    }
}

/// Steps whose notice begins in the same minute are a wave, as in the chart.
fn wave_key(notice: i64) -> i64 {
    notice.div_euclid(60_000)
}

impl<'a> StepSpan<'a> {
    fn new(region: &Region, plan: &NewRollout, step: &'a RolloutStep) -> Option<StepSpan<'a>> {
        let (started, ended) = (step.started?.0, step.ended?.0);
        let machines = list_machines(region, step);
        let has_handler = machines.iter().any(|machine| region.is_on(machine.scope));
        let notice = match plan.kind {
            RolloutType::Freeze => notice_of(region, plan, EventKind::Freeze),
            RolloutType::Reboot => notice_of(region, plan, EventKind::Reboot),
            RolloutType::Redeploy => notice_of(region, plan, EventKind::Redeploy),
            // Each machine has its own notice; the whole step counts as impact.
            RolloutType::Drain => Duration::ZERO,
        };
        let notice = if has_handler { notice.as_millis() as i64 } else { 0 };
        Some(StepSpan { step, machines, notice: started, impact: (started + notice).min(ended), end: ended, wave: 0 })
    }

    /// The name of its host, group with update domain, or machine, and the address of the page.
    pub fn name_and_address(&self, region: &Region) -> (String, String) {
        name_step(region, self.step)
    }
}

fn notice_of(region: &Region, plan: &NewRollout, kind: EventKind) -> Duration {
    let settings = region.settings();
    plan.notice_seconds.map_or(settings.notice_min(kind), |secs| settings.scaled(Duration::from_secs(secs)))
}

fn list_machines(region: &Region, step: &RolloutStep) -> Vec<Arc<Machine>> {
    let of_step: Vec<&Arc<Machine>> = match (&step.host, &step.group) {
        (Some(host), _) => region.machines_on(&Name::from(host.as_str())).collect(),
        (None, Some(group)) => {
            let members = region.groups_named(group).flat_map(|group| region.group_members(group));
            members.filter(|machine| Some(machine.update_domain) == step.update_domain).collect()
        }
        (None, None) => region.machines().filter(|machine| step.machine.as_deref() == Some(&*machine.name)).collect(),
    };
    of_step.into_iter().cloned().collect()
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
