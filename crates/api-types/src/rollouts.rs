//! Rollouts: maintenance in steps over hosts, the update domains of groups, or single machines.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    EventOutcome, Id, Number, ResourceName, RolloutPhase, RolloutStepPhase, RolloutType, Text, Time, WaitReason,
    Weekday, count_of, join_first,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewRollout {
    /// ID to use. A repeated request with the same ID returns the existing rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
    #[serde(rename = "type")]
    pub kind: RolloutType,
    /// Hosts, in order. Set either hosts, a label, groups or machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    /// All hosts with this label, `KEY=VALUE`, in order of their names.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(pattern = "^[^=]+=")]
    pub host_label: Option<String>,
    /// Groups, in order, each by update domain.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
    /// Machines, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Earliest start of the first step: its `NotBefore`, or the beginning of a drain. Default: as soon as the notice allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Maximum number of steps in progress. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 5000)]
    pub parallel: Option<u32>,
    /// Time between the end of a step and the start of the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 34_560_000)]
    pub pause_seconds: Option<u64>,
    /// Events start only within these windows. Default: at any time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 20)]
    pub windows: Vec<MaintenanceWindow>,
    /// Maximum number of unavailable machines in each group. Default: the size of its largest update domain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1)]
    pub max_unavailable: Option<u32>,
    /// Number of failed machines to tolerate. Default: 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
    /// Notice period, if longer than the minimum of the event type.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(maximum = 34_560_000)]
    pub notice_seconds: Option<u64>,
    /// Expected duration of the impact; -1 if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = -1, maximum = 86400)]
    pub duration_seconds: Option<i64>,
    /// Description or ticket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<Text>,
    /// Drain: pool to which machines move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<ResourceName>,
    /// Drain: maximum number of machines of a host that move at a time. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub machines_parallel: Option<u32>,
    /// Drain: restart machines that cannot move while they run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_in_place: bool,
}

impl NewRollout {
    /// A rollout with default limits and without targets.
    pub fn of(kind: RolloutType) -> NewRollout {
        NewRollout {
            id: None,
            kind,
            hosts: Vec::new(),
            host_label: None,
            groups: Vec::new(),
            machines: Vec::new(),
            at: None,
            parallel: None,
            pause_seconds: None,
            windows: Vec::new(),
            max_unavailable: None,
            max_failures: None,
            notice_seconds: None,
            duration_seconds: None,
            description: None,
            to: None,
            machines_parallel: None,
            wait_in_place: false,
        }
    }
}

/// A span of local time that recurs on certain weekdays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MaintenanceWindow {
    /// Weekdays on which it starts. Default: every day.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 7)]
    pub days: Vec<Weekday>,
    /// Local start time, `22:00`.
    #[schema(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    pub start: String,
    /// Local end time, `04:00`. A window that does not end after its start ends the next day.
    #[schema(pattern = "^([01][0-9]|2[0-3]):[0-5][0-9]$")]
    pub end: String,
    /// IANA time zone. Default: UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
}

impl MaintenanceWindow {
    /// Parses `[DAYS] START-END [ZONE]`, for example `Sat,Sun 22:00-04:00 Europe/Berlin`.
    pub fn parse(text: &str) -> Result<MaintenanceWindow, String> {
        let invalid = || {
            format!(
                "'{text}' is not a window. Use [DAYS] START-END [ZONE], for example 'Sat,Sun 22:00-04:00 Europe/Berlin'"
            )
        };
        let mut words = text.split_whitespace().peekable();
        let unknown = |day: &str| format!("'{day}' is not a weekday. Use Mon, Tue, Wed, Thu, Fri, Sat or Sun");
        let parse_day = |day: &str| {
            let found = Weekday::ALL.iter().copied().find(|known| known.as_str().eq_ignore_ascii_case(day));
            found.ok_or_else(|| unknown(day))
        };
        let days = match words.peek() {
            Some(word) if !word.contains(':') => {
                let days = words.next().unwrap_or_default().split(',').map(parse_day);
                days.collect::<Result<Vec<_>, _>>()?
            }
            Some(_) | None => Vec::new(),
        };
        let (start, end) = words.next().and_then(|span| span.split_once('-')).ok_or_else(invalid)?;
        let time_zone = words.next().map(str::to_owned);
        if words.next().is_some() {
            return Err(invalid());
        }
        Ok(MaintenanceWindow { days, start: start.to_owned(), end: end.to_owned(), time_zone })
    }
}

impl std::fmt::Display for MaintenanceWindow {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.days.is_empty() {
            let days: Vec<&str> = self.days.iter().map(|day| day.as_str()).collect();
            write!(f, "{} ", days.join(","))?;
        }
        write!(f, "{}-{} {}", self.start, self.end, self.time_zone.as_deref().unwrap_or("UTC"))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    pub id: Id,
    #[serde(rename = "type")]
    pub kind: RolloutType,
    pub state: RolloutPhase,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waits_for: Option<WaitFor>,
    pub requested_by: String,
    pub created: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// When the last step is expected to end if no one approves. Absent in lists, and if the rollout is not expected to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped_by: Option<String>,
    /// Earliest start of the first step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    pub parallel: u32,
    pub pause_seconds: u64,
    pub windows: Vec<MaintenanceWindow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    /// Absent if failures do not stop the rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_failures: Option<u32>,
    /// Number of failed machines.
    pub failures: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Maintenance operation that the rollout carries out. Absent if each step has an operation of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Id>,
    pub steps: Vec<RolloutStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStep {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_domain: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Machines of a step over chosen machines of one update domain, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    pub state: RolloutStepPhase,
    /// Outcome of the first event that failed. Absent if the step has not failed, or ended more than an hour ago.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<EventOutcome>,
    /// Reason of the failure, such as `HostFailed` if the host was fenced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Index of the failed step that this one retries.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_of: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Id>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    /// When the step is expected to start if no one approves earlier ones. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_start: Option<Time>,
    /// When the step is expected to end. Absent in lists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_end: Option<Time>,
    /// Names of the machines that its events have not finished, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting_machines: Vec<String>,
    /// Number of machines of the step. Only in previews.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_count: Option<u32>,
}

/// Machines that a reason names in one line of text.
const NAMED_MAX: usize = 2;

/// The reason why a rollout, drain or other operation waits, with its details.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitFor {
    pub reason: WaitReason,
    /// When the window opens, the first step is announced, or the pause or the notice period ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Number of machines whose event is neither approved nor due.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_missing: Option<u32>,
    /// Number of machines whose event can be approved, approved ones included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approvals_total: Option<u32>,
    /// Names of the machines concerned, at most 20.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Number of machines concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_count: Option<u32>,
}

impl WaitFor {
    /// Maximum number of machines that a reason names, so that a page of operations stays short.
    pub const MACHINES_LISTED_MAX: usize = 20;

    pub fn of(reason: WaitReason) -> WaitFor {
        let (until, group, unavailable, max_unavailable, machine, host) = (None, None, None, None, None, None);
        let (approvals_missing, approvals_total, machine_count) = (None, None, None);
        let machines = Vec::new();
        WaitFor {
            reason,
            until,
            group,
            unavailable,
            max_unavailable,
            machine,
            host,
            approvals_missing,
            approvals_total,
            machines,
            machine_count,
        }
    }

    /// Names the machines concerned.
    pub fn with_machines(mut self, names: Vec<String>) -> WaitFor {
        self.machine_count = Some(u32::try_from(names.len()).unwrap_or(u32::MAX));
        self.machines = names;
        self.machines.truncate(WaitFor::MACHINES_LISTED_MAX);
        self
    }

    /// The reason, as the object of "waits for". The caller decides how times and names are written.
    pub fn describe(&self, write_time: impl Fn(Time) -> String, write_name: impl Fn(&str) -> String) -> String {
        let name = |text: &Option<String>| write_name(text.as_deref().unwrap_or_default());
        let until = || self.until.map_or_else(String::new, &write_time);
        let machines = || self.list_machines(&write_name);
        match self.reason {
            WaitReason::Window => format!("the window at {}", until()),
            WaitReason::Start => format!("its start: the first step is announced at {}", until()),
            WaitReason::Pause => format!("the end of the pause at {}", until()),
            WaitReason::Availability => {
                let (down, max) = (self.unavailable.unwrap_or(0), self.max_unavailable.unwrap_or(0));
                format!("machines of {}: {down} are unavailable, and at most {max} may be", name(&self.group))
            }
            WaitReason::Capacity => format!("a host with room for {}", name(&self.machine)),
            WaitReason::Approvals => match (self.approvals_missing, self.approvals_total) {
                (Some(missing), Some(total)) => format!("{}: {}", count_approvals(missing, total), machines()),
                (_, _) => "approvals, or the end of the notice period".to_owned(),
            },
            WaitReason::Host => format!("host {}", name(&self.host)),
            WaitReason::Notice => format!("the planned time {} (no handler): {}", until(), machines()),
            WaitReason::Event => format!("another event on {}", machines()),
            WaitReason::Paused => "its rollout, which is paused".to_owned(),
            WaitReason::Unknown(word) => write_name(word.as_str()),
        }
    }

    /// The first machines by name: `web_1, web_2 and 6 more`.
    fn list_machines(&self, write_name: impl Fn(&str) -> String) -> String {
        let count = self.machine_count.map_or(self.machines.len(), |count| count as usize);
        join_first(self.machines.iter().map(|machine| write_name(machine)), count, NAMED_MAX)
    }
}

/// `approvals missing from 8 of 20 machines`.
fn count_approvals(missing: u32, total: u32) -> String {
    format!("approvals missing from {missing} of {}", count_of(total as usize, "machine"))
}

impl std::fmt::Display for WaitFor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.describe(|time| time.to_string(), str::to_owned))?;
        match (self.reason, self.until) {
            (WaitReason::Approvals, Some(time)) => write!(f, "; the notice period ends at {time}"),
            (_, _) => Ok(()),
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PauseOptions {
    /// Cancel scheduled events instead of letting them finish.
    #[serde(default)]
    pub now: bool,
}

/// The failed steps of a rollout to repeat. Without names, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepSelection {
    /// Indexes of the steps.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Vec<Number>)]
    pub steps: Vec<usize>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<String>,
    /// Group of the update domains.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update_domains: Vec<Number>,
}

/// The expected course of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPreview {
    /// Whether every step is expected to end.
    pub is_complete: bool,
    /// The steps with their expected times.
    pub steps: Vec<RolloutStep>,
    /// When the last step is expected to end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ends: Option<Time>,
    pub waits: Vec<ExpectedWait>,
    /// Other operations with events on the targets.
    pub conflicts: Vec<Id>,
    /// Those of them that have not been forgotten, with their titles.
    #[serde(default)]
    pub conflicting_operations: Vec<ConflictingOperation>,
    pub groups: Vec<GroupAvailability>,
}

/// A pending operation on the targets of a rollout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConflictingOperation {
    pub id: Id,
    /// Its effect and its target.
    pub title: String,
    pub requested_by: String,
}

/// A running rollout that owns the host or group of a machine which another operation affects.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutOwner {
    /// ID of the rollout.
    pub rollout: Id,
    /// Its description, or what it does to what.
    pub title: String,
    /// Host, group or machine that it owns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// State of the step that contains the machine.
    pub state: RolloutStepPhase,
}

impl RolloutOwner {
    /// Maximum number of owners that a preview lists.
    pub const LISTED_MAX: usize = 20;

    /// The host, group or machine: `Host n-2`.
    pub fn subject(&self) -> String {
        match (&self.host, &self.group, &self.machine) {
            (Some(host), _, _) => format!("Host {host}"),
            (None, Some(group), _) => format!("Group {group}"),
            (None, None, Some(machine)) => machine.clone(),
            (None, None, None) => "It".to_owned(),
        }
    }

    /// How far the rollout has got with it: `reaches it later`.
    pub fn progress(&self) -> &'static str {
        match self.state {
            RolloutStepPhase::Pending => "reaches it later",
            RolloutStepPhase::InProgress => "has reached it",
            RolloutStepPhase::Succeeded
            | RolloutStepPhase::Failed
            | RolloutStepPhase::Skipped
            | RolloutStepPhase::Canceled
            | RolloutStepPhase::Unknown(_) => "is done with it",
        }
    }
}

impl std::fmt::Display for RolloutOwner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (subject, progress) = (self.subject(), self.progress());
        write!(f, "{subject} belongs to the rollout '{}' ({}), which {progress}.", self.title, self.rollout)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedWait {
    pub at: Time,
    pub waits_for: WaitFor,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAvailability {
    pub name: String,
    /// Internal number of the group, which tells groups with the same name apart; absent for a standalone machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_id: Option<u64>,
    /// Internal number of the standalone machine; absent for a group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<u64>,
    pub machines: u32,
    /// The lowest number of machines available at any time.
    pub min_available: u32,
    /// The number of machines available over time: at the beginning, and at each change after it.
    #[serde(default)]
    pub available: Vec<AvailableMachines>,
    /// Whether a handler gets notice.
    pub has_handler: bool,
}

/// The number of machines of a group that are available from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AvailableMachines {
    pub at: Time,
    pub machines: u32,
}
