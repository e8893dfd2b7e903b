//! Turns scopes on with the first request for their document and off when they are idle. Placement groups of a
//! scale set share one switch.

use crate::ids::*;
use crate::model::*;
use crate::rejection::Rejection;
use crate::settings::SEEN_INTERVAL;
use crate::step::Step;
use crate::transition::*;

impl Step {
    pub fn record_seen(&mut self, machine: MachineId) -> Result<Answer, Rejection> {
        let scope = self.machine(machine)?.scope;
        let switch = self.region.events_state_owner(scope);
        let seen = self.region.running_time(self.now);
        match self.region.scopes.get(&switch).map(|scope| scope.switch) {
            Some(EventsState::Off) => self.turn_on(switch),
            Some(EventsState::On { seen: before }) if seen.since(before) >= SEEN_INTERVAL => {
                self.edit_scope(switch, |scope| scope.switch = EventsState::On { seen });
            }
            Some(EventsState::On { .. }) | None => {}
        }
        Ok(Answer::Done)
    }

    /// Counts an approval as a request, which keeps a scope on but does not turn it on.
    pub fn extend_activation(&mut self, machine: &Machine) {
        if self.region.is_on(machine.scope) {
            let _ = self.record_seen(machine.id);
        }
    }

    fn turn_on(&mut self, switch: ScopeId) {
        let seen = self.region.running_time(self.now);
        self.edit_scope(switch, |scope| scope.switch = EventsState::On { seen });
        self.record_fact(FactKind::ScopeOn(switch));
        for scope in self.switched_by(switch) {
            let first_time = self.region.scopes.get(&scope).is_some_and(|scope| scope.incarnation == 0);
            self.show_hidden_events(scope);
            if first_time {
                self.set_first_incarnation(scope);
            }
            self.unsettled.insert(scope);
        }
    }

    /// Shows planned events that were hidden while the scope was off, with at least the minimum notice. Events of a
    /// host operation that is past its `NotBefore` but still waits are shown too, and the operation waits for them.
    fn show_hidden_events(&mut self, scope: ScopeId) {
        let live = self.region.scopes.get(&scope).map_or_else(Vec::new, |scope| scope.live.clone());
        let events = live.into_iter().filter_map(|id| self.region.events.get(&id).cloned());
        let waiting = events.filter(|event| {
            let waits = !event.due || event.cohort.is_some();
            !event.is_shown() && event.status == Status::Scheduled && waits
        });
        for event in waiting.collect::<Vec<_>>() {
            let seq = self.allocate_seq();
            let notice = self.region.settings.notice_min(event.kind);
            let earliest = self.after(notice);
            let appeared = self.now;
            let revision = self.region.meta.revision;
            let unseen = event.resources.iter().any(|resource| self.has_agent(resource.machine));
            let event = self.edit_event(event.id, |event| {
                event.seq = seq;
                event.visibility = Visibility::Shown;
                event.appeared = appeared;
                event.not_before = event.not_before.max(earliest);
                event.notice_end = appeared + notice;
                event.notice = notice;
                event.revision = revision;
                event.unseen = unseen;
                event.due = false;
            });
            let Some(event) = event else { continue };
            self.edit_scope(scope, |scope| {
                scope.live.retain(|id| *id != event.id);
                scope.live.push(event.id);
            });
            self.record_fact(FactKind::Appeared(event));
        }
    }

    pub fn turn_off_idle_scopes(&mut self) {
        while let Some((seen, switch)) = self.region.index.listening.get_min().copied() {
            if self.region.idle_at(seen) > self.now {
                break;
            }
            let scopes = self.switched_by(switch);
            let busy = scopes.iter().any(|scope| self.region.document(*scope).next().is_some())
                || scopes.iter().any(|scope| self.has_unreachable_member(*scope));
            if busy {
                let look_again = self.region.running_time(self.now) - self.region.settings.idle_disable;
                self.edit_scope(switch, |scope| scope.switch = EventsState::On { seen: look_again });
            } else {
                self.edit_scope(switch, |scope| scope.switch = EventsState::Off);
                self.record_fact(FactKind::ScopeOff(switch));
            }
        }
    }

    fn has_unreachable_member(&self, scope: ScopeId) -> bool {
        let mut hosts = self.region.members(scope).filter_map(|machine| self.host_of_machine(machine.id));
        hosts.any(|host| host.is_unreachable())
    }

    /// The scopes that share this switch.
    fn switched_by(&self, switch: ScopeId) -> Vec<ScopeId> {
        match self.region.scopes.get(&switch).map(|scope| scope.owner) {
            Some(ScopeOwner::Group { group, .. }) => {
                self.region.groups.get(&group).map_or_else(Vec::new, |group| group.scopes.clone())
            }
            Some(ScopeOwner::Machine(_)) => vec![switch],
            None => Vec::new(),
        }
    }
}
