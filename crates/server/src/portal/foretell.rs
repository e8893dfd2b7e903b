//! What will happen, said before it happens. The rules decide; this reads them aloud for one machine.

use std::time::Duration;

use forewarn_core::{EventKind, Group, Machine, Power, Priority, Region, Timestamp};

use super::words;
use crate::span::span_text;

/// What can be asked for one machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    Restart,
    Redeploy,
    Maintenance,
    Evict,
    Delete,
}

impl Asked {
    fn kind(self) -> EventKind {
        match self {
            Asked::Restart => EventKind::Reboot,
            Asked::Redeploy | Asked::Maintenance => EventKind::Redeploy,
            Asked::Evict => EventKind::Preempt,
            Asked::Delete => EventKind::Terminate,
        }
    }
}

/// Times are HTML, names are escaped.
pub fn one(region: &Region, machine: &Machine, asked: Asked, now: Timestamp) -> String {
    let name = words::escaped(&machine.name);
    if asked == Asked::Evict && machine.priority != Priority::Spot {
        return format!("Only Spot machines are evicted, and {name} is not one.");
    }
    if matches!(asked, Asked::Restart | Asked::Redeploy) && machine.power != Power::Running {
        return format!(
            "{name} is {}, and only a machine that runs is restarted or moved.",
            words::power(machine.power)
        );
    }
    if asked == Asked::Delete && machine.terminate.is_none() {
        return format!("{name} has no terminate notification: it is deleted at once, without notice.");
    }
    if !region.is_on(machine.scope) {
        return format!(
            "{}: nobody in its scope asks for events, so it happens at once, without notice.",
            effect(asked, &name)
        );
    }
    let policy = region.policy_of(machine);
    let at_once = matches!(asked, Asked::Restart) && policy.approve_user_reboot
        || matches!(asked, Asked::Redeploy) && policy.approve_user_redeploy;
    if at_once {
        return format!("{}: the policy approves it, so it starts at once.", effect(asked, &name));
    }
    let kind = words::kind(asked.kind());
    let notice = match (asked, &machine.terminate) {
        (Asked::Delete, Some(profile)) => region.settings().scaled(profile.timeout),
        _ => region.settings().notice_min(asked.kind()),
    };
    let at = words::time((now + notice).round_up_to_second());
    format!(
        "{}: {kind} not before {at} ({} from now). {} It starts earlier if one of them approves.",
        effect(asked, &name),
        span_text(notice),
        sharing(region, machine)
    )
    .replace(
        "one of them approves",
        if region.members(machine.scope).nth(1).is_some() { "one of them approves" } else { "it approves" },
    )
}

fn effect(asked: Asked, name: &str) -> String {
    match asked {
        Asked::Restart => format!("{name} restarts where it is and loses its memory"),
        Asked::Redeploy => format!("{name} moves to another host and loses memory and ephemeral disks"),
        Asked::Maintenance => format!("{name} gets its maintenance now: it moves to another host"),
        Asked::Evict => format!("{name} is evicted"),
        Asked::Delete => format!("{name} is deleted"),
    }
}

fn sharing(region: &Region, machine: &Machine) -> String {
    let names: Vec<String> = region.members(machine.scope).map(|member| words::escaped(&member.name)).collect();
    match names.len() {
        0 | 1 => "No other machine shares its document.".into(),
        _ => format!("{} share the document.", words::few(&names)),
    }
}

/// The deletion of a whole group.
pub fn group_delete(region: &Region, group: &Group) -> String {
    let (told, silent): (Vec<_>, Vec<_>) = region.group_members(group).partition(|machine| machine.terminate.is_some());
    let on = group.scopes.first().is_some_and(|scope| region.is_on(*scope));
    let name = words::escaped(&group.name);
    match (told.len(), silent.len()) {
        (0, all) => format!("{name} and its {all} machines are deleted at once, without notice."),
        (told, _) if !on => {
            format!(
                "{name} and its machines are deleted at once: {told} have a terminate notification, but nobody asks for events."
            )
        }
        (told, silent) => format!(
            "{name} and its machines are deleted: {told} get a Terminate event first, {silent} go at once, without notice."
        ),
    }
}

/// The least notice of maintenance of this kind.
pub fn maintenance_notice(region: &Region, kind: EventKind) -> Duration {
    region.settings().notice_min(kind)
}
