//! Tests of records: round trips, and errors that name the broken record.

use super::*;
use crate::conformance::sample;

fn round(entity: &Entity) -> Entity {
    let record = encode(entity);
    decode(record.kind, &record.key, record.version, &record.body, &mut Interner::default()).expect("it was encoded")
}

/// The sample, and variants that are newer than the fixtures of this format.
fn entities() -> Vec<Entity> {
    let machine = MachineId(4);
    let recommended = Event {
        kind: EventKind::SpotRebalanceRecommendation,
        cause: Cause::RebalanceRecommendation,
        ..sample::event(90, Status::Scheduled)
    };
    let operation = sample::operation(90, Request::RecommendRebalance { machine }, None);
    let newer = [Entity::Event(Arc::new(recommended)), Entity::Operation(Arc::new(operation))];
    sample::entities().into_iter().chain(newer).collect()
}

#[test]
fn records_round_trip() {
    for entity in entities() {
        assert_eq!(round(&entity), entity, "{:?}", encode(&entity));
    }
}

#[test]
fn a_retried_step_does_not_change_the_targets() {
    let target = StepTarget::Host("host-a".into());
    let failed = RolloutStep { state: StepState::Failed, ..RolloutStep::new(target.clone()) };
    let retry = RolloutStep { retry: Some(Guid(7)), ..RolloutStep::new(target) };
    let rollout = Rollout {
        targets: RolloutTargets::Hosts(vec!["host-a".into()]),
        plan: RolloutPlan { at: None, ..sample::rollouts().remove(0).plan },
        operation: None,
        steps: vec![failed, retry],
        ..sample::rollouts().remove(0)
    };
    let entity = Entity::Rollout(Arc::new(rollout));
    assert_eq!(round(&entity), entity);
    assert!(!encode(&entity).body.contains("targets"), "they follow from the steps");
    assert_eq!(crate::payload_format(&entity), 5);
}

#[test]
fn a_scope_is_stored_without_its_live_events() {
    let Entity::Scope(scope) = sample::scope(7) else { panic!("not a scope") };
    let live = Entity::Scope(Arc::new(Scope { live: vec![Guid(1)], ..(*scope).clone() }));
    assert_eq!(round(&live), Entity::Scope(scope));
}

#[test]
fn a_machine_with_more_memory_than_fits_can_be_read() {
    let body = encode(&sample::machine(5)).body.replace("4096", "18446744073709551615");
    let Ok(Entity::Machine(machine)) = decode("machine", "5", 1, &body, &mut Interner::default()) else {
        panic!("cannot read {body}")
    };
    assert_eq!(machine.memory_mib, u32::MAX);
}

#[test]
fn any_text_round_trips() {
    for name in ["", "a \"quoted\" \\ name", "täst ✓", "\u{0}\n\t", "null"] {
        let entity = Entity::Host(Arc::new(Host::new(name.into())));
        assert_eq!(round(&entity), entity);
        let Entity::Machine(machine) = sample::machine(3) else { panic!("not a machine") };
        let entity = Entity::Machine(Arc::new(Machine { name: name.into(), ..(*machine).clone() }));
        assert_eq!(round(&entity), entity);
    }
}

/// The words of a type, taken from serde's error message for an unknown word.
fn words_of<'a, T: Deserialize<'a>>() -> Vec<String> {
    let Err(error) = serde_json::from_str::<T>("\"no such word\"") else { panic!("there is no such word") };
    error.to_string().split('`').skip(3).step_by(2).map(String::from).collect()
}

#[test]
fn the_sample_has_every_variant_of_every_enum() {
    let tags: [&[&str]; 8] = [
        Priority::ALL,
        EvictionPolicy::ALL,
        Power::ALL,
        Orchestration::ALL,
        UpgradeMode::ALL,
        EventKind::ALL,
        Cause::ALL,
        Visibility::ALL,
    ];
    let enums = [
        words_of::<machine::MembershipBody<'_>>(),
        words_of::<group::GroupKindBody<'_>>(),
        words_of::<group::OwnerBody>(),
        words_of::<group::SwitchBody>(),
        words_of::<event::StatusBody<'_>>(),
        words_of::<event::OutcomeBody<'_>>(),
        words_of::<event::ApproverBody<'_>>(),
        words_of::<operation::StateBody<'_>>(),
        words_of::<operation::ResultBody<'_>>(),
        words_of::<operation::RequestBody<'_>>(),
        words_of::<operation::TargetBody<'_>>(),
    ];
    assert!(enums.iter().all(|words| words.len() >= 2), "{enums:?}");
    let bodies: String = entities().iter().map(|entity| encode(entity).body).collect();
    let missing: Vec<_> = tags
        .iter()
        .flat_map(|tags| tags.iter().map(ToString::to_string))
        .chain(enums.into_iter().flatten())
        .filter(|word| !bodies.contains(&format!("\"{word}\"")))
        .collect();
    assert_eq!(missing, Vec::<String>::new(), "variants missing from the sample");
}

#[test]
fn unreadable_records_are_reported() {
    let machine = encode(&sample::machine(3)).body;
    let cases = [
        ("machine", "3", 2, machine.clone(), "the record machine '3' has version 2"),
        ("machine", "3", 1, machine.replace("\"running\"", "\"melted\""), "unknown power state 'melted'"),
        ("machine", "3", 1, machine.replace("\"standalone\"", "\"couch\""), "unknown variant `couch`"),
        ("machine", "3", 1, machine.replace("\"power\"", "\"pover\""), "unknown field `pover`"),
        ("machine", "3", 1, machine.replace("\"power\":\"running\",", ""), "missing field `power`"),
        ("machine", "3", 1, machine[..machine.len() / 2].to_string(), "the record machine '3' cannot be read: EOF"),
        ("machine", "three", 1, machine.clone(), "its key is not a number"),
        ("machine", "03", 1, machine.clone(), "its key is not a number"),
        ("event", "3", 1, encode(&sample::events()[0]).body, "its key is not a GUID"),
        ("meta", "other", 1, encode(&sample::meta()).body, "the only key of this kind is 'region'"),
        ("unicorn", "1", 1, "{}".to_string(), "the record unicorn '1' cannot be read: its kind is unknown"),
        ("host", "h", 1, "".to_string(), "the record host 'h' cannot be read: EOF"),
    ];
    for (kind, key, version, body, expected) in cases {
        let error = decode(kind, key, version, &body, &mut Interner::default()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains("Use the version") || error.contains("Restore"), "says what to do: {error}");
    }
}
