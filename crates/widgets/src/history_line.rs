//! A row of history as a phrase, and the page that it is about.

use forewarn_api_types::join_names;
use forewarn_core::{GroupId, Guid, MachineId, Name, OperationResult, Outcome, Region};
use forewarn_render::{ActivityId, name_operation, read_past_operation};
use forewarn_store::{Actor, HistoryFact, HistoryRow, RolloutFact};
use forewarn_wire::guid;

use super::{address, words};

/// Characters of the target of a request; an approval of several events names all of them.
const TARGET_CHARS_MAX: usize = 80;

/// A row as a phrase: `Reboot of web_1 approved by machine web_1`.
pub fn describe_fact(region: &Region, row: &HistoryRow, fact: &HistoryFact) -> String {
    let machines = join_names(&row.machines);
    let kind = row.event_kind().map_or("event", words::event_kind);
    let event = if machines.is_empty() { kind.to_owned() } else { format!("{kind} of {machines}") };
    match fact {
        HistoryFact::Appeared(_) => format!("{kind} appeared for {machines}"),
        HistoryFact::Approved { by } => format!("{event} approved by {}", approver_name(by)),
        HistoryFact::Started => format!("{kind} started on {machines}"),
        HistoryFact::Ended(outcome) => format!("{event} ended: {}", describe_end(outcome)),
        HistoryFact::OperationEnded(ended) => {
            let operation = row.operation.and_then(|id| read_past_operation(id, std::slice::from_ref(row)));
            let title = operation.map_or_else(|| "operation".into(), |operation| name_operation(region, &operation));
            match &ended.result {
                OperationResult::Succeeded => format!("{title}: succeeded"),
                OperationResult::Failed(outcome) => format!("{title}: {}", describe_end(outcome)),
                OperationResult::Canceled { by } => format!("{title}: canceled by {by}"),
            }
        }
        HistoryFact::MachineAdded(_) => format!("machine added {machines}"),
        HistoryFact::MachineRemoved(_) => format!("machine removed {machines}"),
        HistoryFact::GroupOn => "handler connected".into(),
        HistoryFact::GroupOff => "handler disconnected".into(),
        HistoryFact::RolloutChanged(rollout) => describe_rollout(region, rollout),
        HistoryFact::HostChanged(host) => match (host.reachable, host.state) {
            (false, _) => format!("host {} is unreachable", host.host),
            (true, Some(state)) => format!("host {} is {}", host.host, state.as_str().to_lowercase()),
            (true, None) => format!("host {} changed", host.host),
        },
        HistoryFact::Audit { actor, action, target, .. } if action == "hardware-failure" => {
            format!("failure of {} simulated by {actor}", shorten_target(target))
        }
        HistoryFact::Audit { actor, action, target, .. } => {
            format!("{}, requested by {actor}", describe_request(action, target))
        }
    }
}

/// `completed`, `failed: no power`, `canceled by owner`.
fn describe_end(outcome: &Outcome) -> String {
    let word = words::outcome_word(outcome).to_lowercase();
    match outcome {
        Outcome::Failed(why) if !why.is_empty() => format!("{word}: {why}"),
        Outcome::Canceled { by } => format!("{word} by {by}"),
        Outcome::Completed
        | Outcome::Failed(_)
        | Outcome::TimedOut
        | Outcome::Superseded
        | Outcome::NoEffect
        | Outcome::ResourceGone => word,
    }
}

/// `rollout: step ended, host r05-n01: failed`
fn describe_rollout(region: &Region, fact: &RolloutFact) -> String {
    let group = fact.group.and_then(|id| region.group(GroupId(id))).map(|group| region.group_label(group));
    let machine = fact.machine.and_then(|id| region.machine(MachineId(id)));
    let machine = machine.map(|machine| words::machine_name(region, machine));
    // Update domains of several groups have the same numbers.
    let step = match (&fact.host, group, machine, fact.domain) {
        (Some(host), _, _, _) => format!(", host {host}"),
        (None, Some(group), _, Some(domain)) => format!(", {group}, update domain {domain}"),
        (None, _, Some(machine), _) => format!(", machine {machine}"),
        (None, None, None, Some(domain)) => format!(", update domain {domain}"),
        (None, _, None, _) => String::new(),
    };
    let result = fact.step_state.filter(|_| fact.change == "step-ended");
    let result = result.map_or_else(String::new, |state| match &fact.failure {
        Some(failure) => format!(": {}", describe_end(failure)),
        None => format!(": {}", state.as_str().to_lowercase()),
    });
    let wait = fact.waits_for.as_ref().map_or_else(String::new, |reason| format!(" for {reason}"));
    format!("rollout: {}{step}{result}{wait}", fact.change.replace('-', " "))
}

/// A request in words: `create webhook ops`, `restart web_1`, `advance clock`.
fn describe_request(action: &str, target: &str) -> String {
    let target = shorten_target(target);
    match action {
        "machine.identity" => return format!("assign an identity to {target}"),
        "machine.identity.remove" => return format!("remove the identity of {target}"),
        "host.token" => return format!("create a join token for {target}"),
        "fault.over" => return format!("end a fault of {target}"),
        "scale-set.delete-instances" => return format!("delete instances of {target}"),
        _ => {}
    }
    let mut parts = action.split('.');
    let (subject, verb) = match (parts.next(), parts.next_back()) {
        (Some(subject), Some(verb)) => (subject, verb),
        (verb, _) => ("", verb.unwrap_or_default()),
    };
    let target = if target == subject { String::new() } else { target };
    let words = [verb.replace('-', " "), subject.replace('-', " "), target];
    words.iter().filter(|word| !word.is_empty()).cloned().collect::<Vec<_>>().join(" ")
}

fn shorten_target(target: &str) -> String {
    let target = target.replace('~', "/");
    match target.char_indices().nth(TARGET_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &target[..end]),
        None => target,
    }
}

/// The page of the event, operation, rollout, host, machine or group that a row is about, if it is not the page with this
/// address; on the page of an event, its operation. Empty if there is none.
pub fn find_page(region: &Region, row: &HistoryRow, here: &str) -> String {
    let event = row.event.map(|id| format!("/events/{}", words::event_name(id)));
    let operation = row.operation.map(|id| ActivityId::Operation(id).href());
    let subject = match row.fact() {
        Some(HistoryFact::RolloutChanged(RolloutFact { rollout: Some(id), .. })) => {
            Some(ActivityId::Rollout(id).href())
        }
        Some(HistoryFact::HostChanged(host)) => Some(address::of_host(&host.host)),
        Some(HistoryFact::Audit { action, target, .. }) => find_target(region, row, &action, &target),
        Some(
            HistoryFact::RolloutChanged(RolloutFact { rollout: None, .. })
            | HistoryFact::Appeared(_)
            | HistoryFact::Approved { .. }
            | HistoryFact::Started
            | HistoryFact::Ended(_)
            | HistoryFact::OperationEnded(_)
            | HistoryFact::MachineAdded(_)
            | HistoryFact::MachineRemoved(_)
            | HistoryFact::GroupOn
            | HistoryFact::GroupOff,
        )
        | None => None,
    };
    let machine =
        row.machine_ids.first().and_then(|id| region.machine(*id)).map(|machine| address::of_machine(machine));
    let pages = [event, subject, operation, machine];
    pages.into_iter().flatten().find(|page| page != here).unwrap_or_default()
}

/// The page of the target of a request.
fn find_target(region: &Region, row: &HistoryRow, action: &str, target: &str) -> Option<String> {
    let id = || guid::parse(target).map(Guid);
    let machine = || row.machine_ids.first().and_then(|id| region.machine(*id)).map(|one| address::of_machine(one));
    match action.split('.').next().unwrap_or_default() {
        "host" => region.host(&Name::from(target)).map(|host| address::of_host(&host.name)),
        "rollout" => id().and_then(|id| region.rollout(id)).map(|rollout| ActivityId::Rollout(rollout.id).href()),
        "cancel" if id().is_some_and(|id| region.operation(id).is_none() && region.event(id).is_some()) => {
            id().map(|id| format!("/events/{}", words::event_name(id)))
        }
        "operation" | "cancel" => id().map(|id| ActivityId::Operation(id).href()),
        "approve" => id().map(|id| format!("/events/{}", words::event_name(id))),
        "webhook" => Some("/webhooks".into()),
        "scale-set" | "availability-set" | "cloud-service" => {
            let name = target.rsplit(['/', '~']).next().unwrap_or_default();
            // Several groups can have one name.
            let mut groups = region.groups_named(name);
            groups.next().filter(|_| groups.next().is_none()).map(|group| address::of_group(group.id))
        }
        _ => machine(),
    }
}

pub fn approver_name(by: &Actor) -> String {
    match by {
        Actor::Guest(name) => format!("machine {name}"),
        Actor::Management(name) => format!("{name} (management)"),
        Actor::Policy => "policy".into(),
        Actor::Other(name) => name.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_described_in_words() {
        for (action, target, expected) in [
            ("clock.advance", "clock", "advance clock"),
            ("restart", "web_1", "restart web_1"),
            ("webhook.create", "ops", "create webhook ops"),
            ("scale-set.delete-instances", "shop~web", "delete instances of shop/web"),
            ("machine.identity.remove", "web_1", "remove the identity of web_1"),
            ("fault.over", "web_1", "end a fault of web_1"),
        ] {
            assert_eq!(describe_request(action, target), expected);
        }
        assert_eq!(describe_request("approve", &"x".repeat(300)).chars().count(), 89);
    }
}
