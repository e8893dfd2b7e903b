//! A small link to a machine that shows its status.

use std::sync::Arc;

use forewarn_core::{Event, Machine, Power, Region, Status};

use super::{address, words};

pub struct Chip {
    pub name: String,
    pub href: String,
    pub class: &'static str,
    pub title: String,
}

pub fn chip_of(region: &Region, machine: &Machine) -> Chip {
    let events: Vec<&Arc<Event>> = region.events_of(machine.id).collect();
    let started = events.iter().find(|event| matches!(event.status, Status::Started { .. }));
    let (class, what) = match (started, events.first()) {
        (Some(event), _) => ("started", format!("{} in progress", event.kind.as_str())),
        (None, Some(event)) => ("scheduled", format!("{} scheduled", event.kind.as_str())),
        (None, None) => match machine.power {
            Power::Running => ("running", "running".to_owned()),
            Power::Stopped | Power::Deallocated => ("off", words::power(machine.power).to_owned()),
        },
    };
    Chip {
        name: machine.name.to_string(),
        href: address::of_machine(machine),
        class,
        title: format!("{}: {what}", machine.name),
    }
}
