//! Labels and small pieces of HTML that many pages share: names, statuses, times, links.

use std::fmt::Display;
use std::time::Duration;

use askama::filters::{Html, escape};
use forewarn_core::{
    Approver, Cause, Event, EventKind, Group, GroupKind, Machine, MachineLookup, Orchestration, Outcome, Power, Region,
    Resource, Scope, ScopeOwner, Status, TerminateProfile, Timestamp,
};
use forewarn_wire::guid;

use super::address;
use super::html::RenderMode;
use forewarn_api_types::span::format_span;
use forewarn_api_types::{Role, Time};

pub fn escape_html(text: impl Display) -> String {
    escape(text, Html).map_or_else(|_| String::new(), |escaped| escaped.to_string())
}

pub fn paragraph(text: &str) -> String {
    format!("<p>{}</p>", escape_html(text))
}

/// A time. The script shows it in the reader's time zone, with UTC on hover.
pub fn time(at: Timestamp) -> String {
    let iso = Time(at.as_secs() * 1000).to_string();
    let plain = iso.trim_end_matches('Z').replace('T', " ");
    format!(r#"<time datetime="{iso}" data-ms="{}">{plain} UTC</time>"#, at.0)
}

/// The time of day in UTC, without markup.
pub fn clock(at: Timestamp) -> String {
    let iso = Time(at.as_secs() * 1000).to_string();
    iso.get(11..19).unwrap_or_default().to_owned()
}

/// A time of today, to the minute.
pub fn clock_time(at: Timestamp) -> String {
    let iso = Time(at.as_secs() * 1000).to_string();
    let minutes = iso.get(11..16).unwrap_or_default();
    format!(r#"<time data-minutes datetime="{iso}" data-ms="{}">{minutes} UTC</time>"#, at.0)
}

/// An expected time, to the minute.
pub fn about(at: Timestamp) -> String {
    format!("about {}", time(at).replacen("<time ", "<time data-minutes ", 1))
}

/// A time relative to now, for something that has not been requested yet. An open page moves it along with the clock.
pub fn time_ahead(at: Timestamp, ahead: Duration, mode: RenderMode) -> String {
    let absolute = match mode {
        RenderMode::Page => utc(at),
        RenderMode::Update => String::new(),
    };
    let iso = match mode {
        RenderMode::Page => format!(r#" datetime="{}""#, Time(at.as_secs() * 1000)),
        RenderMode::Update => String::new(),
    };
    format!(r#"<time{iso} data-ahead="{}">{absolute}</time>"#, ahead.as_millis())
}

/// A countdown that the script updates; without JavaScript, `text` is shown.
pub fn countdown(until: Timestamp, text: &str) -> String {
    format!(r#"<span class="count" data-until="{}">{text}</span>"#, until.0)
}

/// Like `countdown`, with the time as text.
pub fn countdown_at(until: Timestamp) -> String {
    countdown(until, &format!("at {}", utc(until)))
}

/// A time as plain text.
pub fn utc(at: Timestamp) -> String {
    let iso = Time(at.as_secs() * 1000).to_string();
    format!("{} UTC", iso.trim_end_matches('Z').replace('T', " "))
}

pub fn event_name(id: forewarn_core::EventId) -> String {
    guid::Upper(id.0).to_string()
}

pub fn status(event: &Event) -> &'static str {
    match &event.status {
        Status::Scheduled => "Scheduled",
        Status::Started { .. } => "In progress",
        Status::Ended { outcome, .. } => outcome_word(outcome),
    }
}

pub fn outcome_word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Completed => "Completed",
        Outcome::Failed(_) => "Failed",
        Outcome::TimedOut => "Timed out",
        Outcome::Superseded => "Superseded",
        Outcome::NoEffect => "No effect",
        Outcome::ResourceGone => "Machines deleted",
        Outcome::Canceled { .. } => "Canceled",
    }
}

/// The type of an event where there is little room.
pub fn event_kind(kind: EventKind) -> &'static str {
    match kind {
        EventKind::SpotRebalanceRecommendation => "Rebalance",
        EventKind::Freeze | EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt | EventKind::Terminate => {
            kind.as_str()
        }
    }
}

/// Words for one machine, and for several.
pub type VerbForms = (&'static str, &'static str);

/// The effect of an event of this type on its machines, as a verb. `None` if it has none.
pub fn impact_verb(kind: EventKind) -> Option<VerbForms> {
    match kind {
        EventKind::Freeze => Some(("pauses", "pause")),
        EventKind::Reboot | EventKind::Redeploy | EventKind::Preempt => Some(("goes down", "go down")),
        EventKind::Terminate => Some(("is deleted", "are deleted")),
        EventKind::SpotRebalanceRecommendation => None,
    }
}

pub fn cause(cause: Cause) -> &'static str {
    match cause {
        Cause::HostMaintenance => "host maintenance",
        Cause::LiveMigration => "live migration",
        Cause::UserRestart => "restart requested by a user",
        Cause::UserRedeploy => "redeploy requested by a user",
        Cause::SelfServiceMaintenance => "self-service maintenance",
        Cause::HardwareFailure => "hardware failure",
        Cause::Eviction => "eviction",
        Cause::RebalanceRecommendation => "rebalance recommendation",
        Cause::Deletion => "deletion",
    }
}

pub fn approver(by: &Approver) -> String {
    match by {
        Approver::Guest { name, .. } => format!("machine {name}"),
        Approver::Management(name) => format!("{name} (management)"),
        Approver::Policy => "policy".into(),
    }
}

pub fn power(power: Power) -> &'static str {
    match power {
        Power::Running => "running",
        Power::Stopped => "stopped",
        Power::Deallocated => "deallocated",
    }
}

pub fn group_kind(group: &Group) -> &'static str {
    match &group.kind {
        GroupKind::AvailabilitySet => "Availability set",
        GroupKind::CloudService => "Cloud service",
        GroupKind::ScaleSet(set) => match set.orchestration {
            Orchestration::Uniform => "Scale set, Uniform",
            Orchestration::Flexible => "Scale set, Flexible",
        },
    }
}

/// A terminate notification as text: `off`, `10 minutes`.
pub fn notification(terminate: Option<&TerminateProfile>) -> String {
    match terminate.map(|profile| profile.timeout.as_secs()) {
        None => "off".into(),
        Some(60) => "1 minute".into(),
        Some(secs) if secs % 60 == 0 => format!("{} minutes", secs / 60),
        Some(secs) => format_span(Duration::from_secs(secs)),
    }
}

pub fn role_needed(role: Role) -> String {
    format!("Requires the {} role.", role.as_str())
}

/// How an event group is presented.
pub struct ScopeName {
    pub name: String,
    /// Address of its page.
    pub href: String,
    pub kind: String,
}

pub fn scope(region: &Region, scope: &Scope) -> ScopeName {
    match scope.owner {
        ScopeOwner::Machine(id) => {
            let machine = region.machine(id);
            ScopeName {
                name: machine.map_or_else(String::new, |machine| machine_name(region, machine)),
                href: machine.map_or_else(|| "/".into(), |machine| address::of_machine(machine)),
                kind: "Standalone VM".into(),
            }
        }
        ScopeOwner::Group { group, part } => {
            let found = region.group(group);
            let parts = found.map_or(0, |group| group.scopes.len());
            let name = found.map_or_else(String::new, |group| region.group_label(group));
            let kind = found.map_or_else(String::new, |group| group_kind(group).to_owned());
            let kind = if parts > 1 { format!("{kind}, placement group {}", part + 1) } else { kind };
            ScopeName { name, href: address::of_group(group), kind }
        }
    }
}

/// The name, with the resource group if the name is not unique.
pub fn machine_name(region: &Region, machine: &Machine) -> String {
    match region.machine_by_name(&machine.name, None) {
        MachineLookup::Many(_) => format!("{}/{}", machine.home.resource_group, machine.name),
        MachineLookup::One(_) | MachineLookup::Nothing => machine.name.to_string(),
    }
}

pub fn host_link(name: &str) -> String {
    format!(r#"<a href="{}">{}</a>"#, address::of_host(name), escape_html(name))
}

/// Machine names, with links to those that still exist.
pub fn resource_links(region: &Region, resources: &[Resource]) -> String {
    let link = |resource: &Resource| match region.machine(resource.machine) {
        Some(machine) => format!(r#"<a href="{}">{}</a>"#, address::of_machine(machine), escape_html(&resource.name)),
        None => escape_html(&resource.name),
    };
    resources.iter().map(link).collect::<Vec<_>>().join(", ")
}
