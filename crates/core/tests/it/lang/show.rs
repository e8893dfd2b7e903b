//! The observations of the script language: documents, operations, events and machines.

use forewarn_core::*;

use super::{World, numbered};

impl World {
    // --- rendering -------------------------------------------------------------------------------

    pub(super) fn show(&self, who: &str) -> Result<String, String> {
        if who == "machines" {
            let names = self.region.machines().map(|machine| self.name(machine.id, &machine.name));
            return Ok(names.collect::<Vec<_>>().join(" "));
        }
        if who == "drivers" {
            let mut events: Vec<_> = self.region.wanted_effects().map(|event| self.label(event.id)).collect();
            events.sort();
            return Ok(if events.is_empty() { "-".into() } else { events.join(" ") });
        }
        if who == "history" {
            return Ok(if self.recorded.is_empty() { "-".into() } else { self.recorded.join(", ") });
        }
        if who == "left" {
            return Ok((self.region.events().count() + self.region.operations().count()).to_string());
        }
        if let Some(host) = who.strip_prefix("orders:") {
            return Ok(self.show_orders(host));
        }
        if numbered(who, "op") {
            return self.show_operation(who);
        }
        if numbered(who, "r") {
            return self.show_rollout(who);
        }
        if let Some(host) = self.region.host(who) {
            return Ok(self.show_host(host));
        }
        if numbered(who, "e") {
            let Some(event) = self.region.event(self.event(who)?) else { return Ok("forgotten".into()) };
            let hidden = if event.is_shown() || !event.is_live() { "" } else { "hidden " };
            return Ok(format!("{hidden}{}", show_status(&event.status)));
        }
        let Ok(machine) = self.machine(who) else { return Ok("gone".into()) };
        let machine = self.region.machine(machine).unwrap();
        if !self.region.is_on(machine.scope) {
            return Ok("off".into());
        }
        let events: Vec<String> = self.region.document(machine.scope).map(|event| self.show_event(event)).collect();
        let list = if events.is_empty() { "-".into() } else { events.join(" | ") };
        Ok(format!("{}: {list}", self.region.scope(machine.scope).unwrap().incarnation))
    }

    fn show_orders(&self, host: &str) -> String {
        let orders = self.region.pending_orders(host).into_iter().map(|order| {
            let machine = self.region.machine(order.machine).map_or("gone", |machine| &machine.name);
            let kind = format!("{:?}", order.kind).to_lowercase();
            format!("{kind} {} {machine}", self.label(order.event))
        });
        let mut orders: Vec<String> = orders.collect();
        orders.sort();
        if orders.is_empty() { "-".into() } else { orders.join(" | ") }
    }

    fn show_event(&self, event: &Event) -> String {
        let label = self.label(event.id);
        let names: Vec<_> =
            event.resources.iter().map(|resource| self.name(resource.machine, &resource.name)).collect();
        match event.status {
            Status::Scheduled => {
                let left = event.not_before.since(self.now.max(self.region.now())).as_secs();
                format!("{label} {:?} Scheduled {} {}:{:02}", event.kind, names.join(","), left / 60, left % 60)
            }
            Status::Started { .. } => format!("{label} {:?} Started {}", event.kind, names.join(",")),
            Status::Ended { .. } => "ended".into(),
        }
    }

    fn label(&self, event: EventId) -> String {
        let absent = event.0.checked_sub(super::ABSENT).filter(|number| *number < 100);
        let known = self.events.iter().position(|id| *id == event).map(|n| n as u128 + 1);
        known.or(absent).map_or("e?".into(), |number| format!("e{number}"))
    }

    pub(super) fn show_fact(&self, what: &FactKind) -> String {
        match what {
            FactKind::Appeared(event) => format!("{} appeared", self.label(event.id)),
            FactKind::Approved { event, by } => {
                let by = match by {
                    Approver::Guest { name, .. } => name,
                    Approver::Management(_) => "management",
                    Approver::Policy => "policy",
                };
                format!("{} approved by {by}", self.label(event.id))
            }
            FactKind::Started(event) => format!("{} started", self.label(event.id)),
            FactKind::Ended(event) => format!("{} {}", self.label(event.id), show_status(&event.status)),
            FactKind::OperationEnded(operation) => {
                let number = self.operations.iter().position(|id| *id == operation.id);
                format!("{} over", number.map_or("op?".into(), |n| format!("op{}", n + 1)))
            }
            FactKind::RolloutChanged { change: RolloutChange::StepEnded { step, failure: None }, .. } => {
                format!("rollout StepEnded {{ step: {step} }}")
            }
            FactKind::RolloutChanged { change, .. } => format!("rollout {change:?}"),
            FactKind::HostChanged(host) => format!("{} {:?}", host.name, host.state),
            FactKind::MachineAdded(machine) => format!("+{}", self.name(machine.id, &machine.name)),
            FactKind::MachineRemoved(machine) => format!("-{}", self.name(machine.id, &machine.name)),
            FactKind::ScopeOn(_) => "on".into(),
            FactKind::ScopeOff(_) => "off".into(),
        }
    }

    fn show_operation(&self, label: &str) -> Result<String, String> {
        let id = self.operation(label)?;
        let Some(operation) = self.region.operation(id) else { return Ok("forgotten".into()) };
        Ok(match &operation.state {
            OperationState::Running => "running".into(),
            OperationState::Ended { result: OperationResult::Succeeded, .. } => "succeeded".into(),
            OperationState::Ended { result: OperationResult::Canceled { .. }, .. } => "canceled".into(),
            OperationState::Ended { result: OperationResult::Failed(outcome), .. } => {
                let text = format!("{outcome:?}");
                format!("failed {}", text.split(|c: char| !c.is_alphanumeric()).next().unwrap())
            }
        })
    }

    /// The requested facts, in the requested order.
    pub(super) fn facts(&self, who: &str, asked: &str) -> Result<String, String> {
        if numbered(who, "e") {
            let event = self.region.event(self.event(who)?).ok_or("no such event")?;
            return Ok(match asked.strip_prefix("id=") {
                Some(_) => format!("id={}", event.id.0),
                None => format!("{:?} {} \"{}\"", event.cause.source(), event.duration_secs, event.description),
            });
        }
        if numbered(who, "r") {
            return self.rollout_facts(who, asked);
        }
        if let Some(group) = self.region.groups_named(who).next() {
            let capacity = match &group.kind {
                GroupKind::ScaleSet(set) => format!("capacity={}", set.capacity),
                _ => "group".into(),
            };
            let members = || self.region.group_members(group);
            let show = |word: &str| match word.split('=').next().unwrap() {
                "size" => format!("size={}", members().count()),
                "up" => format!("up={}", members().filter(|machine| self.region.is_available(machine)).count()),
                "floor" => format!("floor={}", self.floor(group)),
                "parts" => format!("parts={}", group.scopes.len()),
                _ => capacity.clone(),
            };
            return Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "));
        }
        let machine = self.region.machine(self.machine(who)?).unwrap();
        let show = |word: &str| match word.split('=').next().unwrap() {
            "ud" => format!("ud={}", machine.update_domain),
            "fd" => format!("fd={}", machine.fault_domain),
            "host" => format!("host={}", machine.host.as_deref().unwrap_or("-")),
            "zone" => format!("zone={}", machine.zone.as_deref().unwrap_or("-")),
            "ip" => format!("ip={}", machine.addresses.first().map_or("-".into(), |address| address.ip.to_string())),
            "term" => format!("term={}", machine.terminate.as_ref().map_or("none", |profile| &profile.text)),
            "arriving" => format!("arriving={}", machine.arriving().map_or("-", |host| host)),
            "withdrawn" => format!("withdrawn={}", machine.withdrawn().map_or("-".into(), |id| self.label(id))),
            "change" => format!("change={}", show_change(machine)),
            "claims" => format!("claims={}", machine.claims().join(",")),
            "part" => match self.region.scope(machine.scope).map(|scope| scope.owner) {
                Some(ScopeOwner::Group { part, .. }) => format!("part={part}"),
                _ => "part=-".into(),
            },
            _ => format!("{:?}", machine.power).to_lowercase(),
        };
        Ok(asked.split_whitespace().map(show).collect::<Vec<_>>().join(" "))
    }

    /// The floor without the machines that are being deleted.
    fn floor(&self, group: &Group) -> u32 {
        let is_deleted = |machine: &Machine| {
            let events = self.region.events_of(machine.id);
            events.filter(|event| event.kind.deletes(machine)).any(|event| show_status(&event.status) == "started")
        };
        self.region.find_floor(GroupKey::Group(group.id), |machine| !is_deleted(machine))
    }
}

fn show_change(machine: &Machine) -> String {
    match machine.power_change() {
        None => "-".into(),
        Some(PowerChange { failure: Some(_), .. }) => "failed".into(),
        Some(PowerChange { to, .. }) => format!("{to:?}").to_lowercase(),
    }
}

fn show_status(status: &Status) -> String {
    match status {
        Status::Scheduled => "scheduled".into(),
        Status::Started { .. } => "started".into(),
        Status::Ended { outcome, .. } => {
            let text = format!("{outcome:?}");
            text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("").to_lowercase()
        }
    }
}
