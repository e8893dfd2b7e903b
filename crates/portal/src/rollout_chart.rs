//! Charts of a planned rollout, drawn on the server: a bar per step in waves, and the capacity of each group over time with its
//! floor.

use std::collections::BTreeMap;
use std::time::Duration;

use askama::Template;
use forewarn_api::find_machine;
use forewarn_api_types::{GroupAvailability, NewRollout, RolloutPreview, RolloutStep, RolloutType, Time};
use forewarn_core::{EventKind, Region, Timestamp};

use super::fleet::{self, FleetGroup, GroupKey};
use super::scene::Scene;
use super::{address, html, words};

/// Steps that are drawn; the others are counted.
const STEPS_MAX: usize = 200;

/// Groups whose capacity is drawn, worst first.
const GROUPS_MAX: usize = 8;

/// Distances between two ticks, in minutes.
const TICK_MINUTES: [i64; 9] = [5, 10, 15, 30, 60, 120, 240, 720, 1440];

/// The height of a capacity chart.
const CHART_HEIGHT: f64 = 30.0;

/// A planned rollout, ready to be drawn.
pub struct Chart<'a> {
    scene: &'a Scene,
    preview: &'a RolloutPreview,
    begin: i64,
    end: i64,
    steps: Vec<StepSpan<'a>>,
    groups: Vec<FleetGroup>,
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
#[template(path = "gantt.html")]
struct Gantt {
    ticks: Vec<(String, i64, String)>,
    waves: Vec<Wave>,
    severity: &'static str,
    more: usize,
}

/// Steps that start at the same time.
struct Wave {
    number: usize,
    machines: usize,
    from: String,
    to: String,
    lanes: Vec<GanttLane>,
}

struct GanttLane {
    name: String,
    href: String,
    machines: usize,
    notice: String,
    impact: String,
    label: String,
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
    /// The unavailable machines that the plan allows decide the floors.
    pub fn new(scene: &'a Scene, plan: &NewRollout, preview: &'a RolloutPreview) -> Chart<'a> {
        let mut groups = fleet::list_groups(scene);
        if let Some(max) = plan.max_unavailable {
            for group in &mut groups {
                group.domain_max = max as usize;
            }
        }
        let steps: Vec<StepSpan<'_>> =
            preview.steps.iter().filter_map(|step| StepSpan::new(scene.region(), plan, step)).collect();
        let begin = steps.iter().map(|step| step.notice).min().unwrap_or(scene.now.0);
        let end = steps.iter().map(|step| step.end).max().unwrap_or(begin).max(begin + 60_000);
        // Room for the last label.
        Chart { scene, preview, begin, end: end + (end - begin) / 12, steps, groups }
    }

    pub fn render_order(&self, severity: &'static str) -> String {
        let mut waves: BTreeMap<i64, Vec<&StepSpan<'_>>> = BTreeMap::new();
        for step in self.steps.iter().take(STEPS_MAX) {
            waves.entry(step.notice / 60_000).or_default().push(step);
        }
        let waves = waves.into_values().enumerate().map(|(number, steps)| self.wave(number + 1, &steps)).collect();
        html::render(&Gantt { ticks: self.ticks(), waves, severity, more: self.steps.len().saturating_sub(STEPS_MAX) })
    }

    fn wave(&self, number: usize, steps: &[&StepSpan<'_>]) -> Wave {
        let first = steps.iter().map(|step| step.impact).min().unwrap_or(0);
        let last = steps.iter().map(|step| step.end).max().unwrap_or(0);
        Wave {
            number,
            machines: steps.iter().map(|step| step.machine_count()).sum(),
            from: words::time(Timestamp(first)),
            to: words::time(Timestamp(last)),
            lanes: steps.iter().map(|step| self.lane(step)).collect(),
        }
    }

    fn lane(&self, step: &StepSpan<'_>) -> GanttLane {
        let (name, href) = name_step(self.scene.region(), step.step);
        GanttLane {
            label: format!(
                "{name}: notice from {}, impact from {} to about {}",
                words::utc(Timestamp(step.notice)),
                words::utc(Timestamp(step.impact)),
                words::utc(Timestamp(step.end))
            ),
            name,
            href,
            machines: step.machine_count(),
            notice: self.bar(step.notice, step.impact),
            impact: self.bar(step.impact, step.end),
        }
    }

    fn percent(&self, at: i64) -> f64 {
        (at - self.begin) as f64 / (self.end - self.begin) as f64 * 100.0
    }

    fn bar(&self, from: i64, to: i64) -> String {
        let (from, to) = (self.percent(from), self.percent(to));
        format!(r#"x="{from:.2}%" width="{:.2}%""#, (to - from).max(0.3))
    }

    fn ticks(&self) -> Vec<(String, i64, String)> {
        let span = self.end - self.begin;
        let steps = TICK_MINUTES.map(|minutes| minutes * 60_000);
        let step = steps.into_iter().find(|step| span / step <= 8).unwrap_or(span.max(1));
        let first = (self.begin + step - 1).div_euclid(step) * step;
        let ticks = (0..).map(|n| first + n * step).take_while(|at| *at < self.end);
        let label = |at: i64| {
            let iso = Time(at).to_string();
            let text = if step >= 720 * 60_000 { iso.get(5..10) } else { iso.get(11..16) };
            text.unwrap_or_default().to_owned()
        };
        ticks.map(|at| (format!("{:.2}%", self.percent(at)), at, label(at))).collect()
    }

    pub fn render_capacity(&self) -> String {
        let mut groups: Vec<(&FleetGroup, &GroupAvailability)> = Vec::new();
        for expected in &self.preview.groups {
            groups.extend(
                self.groups.iter().find(|group| is_named(group, &expected.name)).map(|group| (group, expected)),
            );
        }
        groups.sort_by_key(|(group, expected)| {
            (i64::from(expected.min_available) - group.floor() as i64, group.machines)
        });
        let calm = groups.len().saturating_sub(GROUPS_MAX);
        let drawn = groups.into_iter().take(GROUPS_MAX).map(|(group, expected)| self.capacity_of(group, expected));
        html::render(&Capacity { groups: drawn.collect(), calm })
    }

    fn capacity_of(&self, group: &FleetGroup, expected: &GroupAvailability) -> GroupCapacity {
        let mut changes: Vec<(i64, i64)> = Vec::new();
        for step in &self.steps {
            let lost = step.machines.get(&group.key).copied().unwrap_or(0) as i64;
            if lost > 0 {
                changes.extend([(step.impact, -lost), (step.end, lost)]);
            }
        }
        changes.sort_unstable();
        let (top, floor) = (group.up as f64, group.floor() as f64);
        let bottom = (floor.min(f64::from(expected.min_available)) - 1.0).max(0.0).min(top - 1.0);
        let y = |level: f64| 2.0 + (top - level) / (top - bottom) * (CHART_HEIGHT - 6.0);
        let mut level = group.up as i64;
        let mut path = format!("M0 {CHART_HEIGHT}L0 {:.1}", y(level as f64));
        for (at, change) in changes {
            let x = self.percent(at);
            path += &format!("H{x:.2}");
            level += change;
            path += &format!("V{:.1}", y(level as f64));
        }
        path += &format!("H100V{CHART_HEIGHT}Z");
        GroupCapacity {
            name: group.name.clone(),
            href: group.href.clone(),
            up: group.up,
            lowest: expected.min_available,
            floor: group.floor(),
            area: path,
            floor_y: format!("{:.1}", y(floor)),
        }
    }
}

/// Whether a preview means this group. Its names have no resource group.
pub fn is_named(group: &FleetGroup, name: &str) -> bool {
    group.name == name || group.name.rsplit('/').next() == Some(name)
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
    let is_of_step = |machine: &forewarn_core::Machine| match (&step.host, &step.group) {
        (Some(host), _) => machine.host.as_deref() == Some(host),
        (None, Some(group)) => {
            let found = machine.membership.group().and_then(|id| region.group(id));
            found.is_some_and(|found| *found.name == **group) && Some(machine.update_domain) == step.update_domain
        }
        (None, None) => step.machine.as_deref() == Some(&*machine.name),
    };
    for machine in region.machines().filter(|machine| is_of_step(machine)) {
        *machines.entry(fleet::key_of(machine)).or_default() += 1;
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
