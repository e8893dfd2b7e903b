//! The preview of a statement that a machine is on another host.

use forewarn_core::{Command, FactKind, HostState, Machine, MachineChange, Name, Outcome};
use forewarn_widgets::conflict;
use forewarn_widgets::words::escape_html;

use super::decisions::find_ended_events;
use super::{Preview, event_title};

impl Preview<'_> {
    pub fn describe_host_change(&self, machine: &Machine, host: Option<&Name>) -> String {
        let change = Box::new(MachineChange { host: Some(host.cloned()), ..MachineChange::default() });
        let trial = match self.region.apply(&Command::ChangeMachine { machine: machine.id, change }, self.now) {
            Ok(trial) => trial,
            Err(rejection) => return escape_html(rejection),
        };
        let place =
            |host: Option<&Name>| host.map_or_else(|| "no host".into(), |host| format!("host {}", escape_html(host)));
        let (before, after) = (place(machine.host.as_ref()), place(host));
        let mut sentences = vec![format!("{} counts as on {after} instead of {before}.", escape_html(&machine.name))];
        sentences.push("Nothing is moved: make sure that the machine is there.".into());
        if machine.transfer.is_some() {
            sentences.push("This overrides what its hosts have reported about its moves and its power state.".into());
        }
        sentences.extend(host.and_then(|host| self.describe_condition(host)));
        let canceled = find_ended_events(&trial).filter(|(_, outcome)| matches!(outcome, Outcome::Canceled { .. }));
        sentences.extend(canceled.map(|(event, _)| format!("The {} is canceled.", event_title(event))));
        sentences.extend(trial.facts.iter().filter_map(|fact| match &fact.what {
            FactKind::Appeared(event) => Some(format!("The {} is announced.", event_title(event))),
            _ => None,
        }));
        sentences.extend(conflict::describe_owner(self.region, machine));
        sentences.join(" ")
    }

    /// Why the host gets no orders, or sends its machines away.
    fn describe_condition(&self, name: &Name) -> Option<String> {
        let host = self.region.host(name)?;
        let name = escape_html(name);
        match host.state {
            HostState::Failed => Some(format!("Host {name} is off: the machine gets no orders until it is activated.")),
            _ if host.is_unreachable() => Some(format!("Host {name} is unreachable: its events wait.")),
            HostState::Draining => Some(format!("Host {name} is being drained: the machine moves away again.")),
            HostState::Drained | HostState::Active => None,
        }
    }
}
