//! Limits that a simulated run of a few hundred commands does not reach.

use std::sync::Arc;

use forewarn_core::settings::{DOMAINS_MAX, EVENTS_PER_SCOPE_MAX};
use forewarn_core::*;

use crate::rng::Rng;

/// Each host operation creates one event per update domain in a document.
#[test]
fn host_operations_do_not_outgrow_the_document() {
    let mut rng = Rng::new(1);
    let mut region = Region::new(Settings::default());
    let now = Timestamp::from_secs(1_700_000_000);
    let apply = |region: &mut Region, command: &Command| match region.apply(command, now) {
        Ok(transition) => {
            *region = transition.region;
            Ok(transition.answer)
        }
        Err(why) => Err(why),
    };
    let home = ResourceGroupRef { subscription: "sub".into(), resource_group: "rg".into() };
    let group = NewGroup {
        name: "set".into(),
        home: home.clone(),
        kind: NewGroupKind::AvailabilitySet,
        policy: EventsPolicy::default(),
        update_domains: Some(DOMAINS_MAX),
        fault_domains: None,
        salt: rng.guid(),
    };
    let group = match apply(&mut region, &Command::CreateGroup(Box::new(group))) {
        Ok(Answer::Group { group, .. }) => group,
        other => panic!("no group: {other:?}"),
    };
    for n in 0..DOMAINS_MAX {
        let machine = NewMachine {
            vm_id: rng.guid(),
            name: format!("vm{n}").into(),
            home: home.clone(),
            place: NewMembership::AvailabilitySet(group),
            host: Some("host".into()),
            update_domain: None,
            fault_domain: None,
            zone: None,
            priority: Priority::Regular,
            eviction: EvictionPolicy::Deallocate,
            addresses: AddressRequest::None,
            terminate: None,
            policy: None,
            memory_mib: 0,
            live_migratable: true,
            details: Arc::default(),
        };
        apply(&mut region, &Command::RegisterMachine(Box::new(machine))).expect("a machine");
    }
    let first = region.machines().next().expect("a machine").clone();
    apply(&mut region, &Command::Seen { machine: first.id }).expect("seen");
    let fitting = EVENTS_PER_SCOPE_MAX / DOMAINS_MAX as usize;
    for n in 0..=fitting {
        let plan = Plan {
            kind: EventKind::Freeze,
            cause: Cause::HostMaintenance,
            at: None,
            notice: None,
            duration_secs: None,
            description: None,
        };
        let request = Request::Maintain { target: Target::Host("host".into()), plan };
        let command = Command::Request { operation: rng.guid(), by: "operator".into(), request, event: None };
        let answer = apply(&mut region, &command);
        let fits = n < fitting;
        assert_eq!(answer.is_ok(), fits, "operation {n}: {answer:?}, {} events", region.document(first.scope).count());
    }
}
