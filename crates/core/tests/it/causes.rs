//! Source, description, duration and ID of events, by cause.

use crate::lang::check;

#[test]
fn host_maintenance() {
    check(
        r#"
        vm a host=h1
        on a
        maintain host h1 freeze
        e1? Platform 9 "Host server is undergoing maintenance."
    "#,
    );
}

#[test]
fn maintenance_of_one_machine_and_of_a_group() {
    check(
        r#"
        vm a
        avset s b
        on a
        on b
        maintain a freeze
        e1? Platform 9 "Host server is undergoing maintenance."
        maintain group s freeze
        e2? Platform 9 "Host server is undergoing maintenance."
    "#,
    );
}

#[test]
fn maintenance_shows_its_duration_if_known() {
    check(
        r#"
        vm a
        on a
        maintain a freeze secs=30
        e1? Platform 30 "Host server is undergoing maintenance."
        maintain a freeze secs=0
        e2? Platform 0 "Host server is undergoing maintenance."
        maintain a reboot secs=-1
        e3? Platform -1 "Host server is undergoing maintenance."
        maintain a freeze secs=86400
        e4? Platform 86400 "Host server is undergoing maintenance."
        maintain a freeze secs=86401 = DurationRange
        maintain a freeze secs=-2 = DurationRange
        a> 5: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled a 15:00 | e3 Reboot Scheduled a 15:00 | e4 Freeze Scheduled a 15:00
    "#,
    );
}

#[test]
fn maintenance_can_have_its_own_description() {
    check(
        r#"
        vm a
        on a
        maintain a freeze "The rack moves to another hall."
        e1? Platform 9 "The rack moves to another hall."
    "#,
    );
}

#[test]
fn all_events_of_an_operation_have_the_same_description() {
    check(
        r#"
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze secs=12 "Firmware."
        e1? Platform 12 "Firmware."
        e2? Platform 12 "Firmware."
    "#,
    );
}

#[test]
fn all_update_domains_have_the_same_description() {
    check(
        r#"
        avset s a b
        on a
        maintain group s freeze secs=12 "Firmware."
        e1? Platform 12 "Firmware."
        approve a e1
        done e1
        wait 30m
        e2? Platform 12 "Firmware."
    "#,
    );
}

#[test]
fn live_migration() {
    check(
        r#"
        vm a
        on a
        maintain a freeze migration
        e1? Platform 5 "Virtual machine is being paused because of a memory-preserving Live Migration operation."
    "#,
    );
}

#[test]
fn user_restart() {
    check(
        r#"
        vm a
        on a
        restart a
        e1? User -1 "Virtual machine is going to be restarted as requested by authorized user."
    "#,
    );
}

#[test]
fn user_redeploy() {
    check(
        r#"
        vm a
        on a
        redeploy a
        e1? User -1 "Virtual machine is going to be redeployed as requested by authorized user."
    "#,
    );
}

#[test]
fn hardware_failure() {
    check(
        r#"
        vm a
        on a
        fail a
        e1? Platform -1 "Virtual machine has encountered a failure."
        a> 2: e1 Reboot Started a
    "#,
    );
}

#[test]
fn hardware_failure_with_redeploy() {
    check(
        r#"
        vm a
        on a
        fail a redeploy
        e1? Platform -1 "Virtual machine has encountered a failure."
        a> 2: e1 Redeploy Started a
    "#,
    );
}

#[test]
fn eviction() {
    check(
        r#"
        vm a spot
        on a
        evict a
        e1? Platform -1 ""
    "#,
    );
}

#[test]
fn deletion() {
    check(
        r#"
        vm a term=5m
        on a
        delete a
        e1? User -1 ""
    "#,
    );
}

#[test]
fn scale_in() {
    check(
        r#"
        set w uniform 2 term=5m
        on w_0
        scale w 1
        e1? User -1 ""
    "#,
    );
}

#[test]
fn self_service_maintenance_is_a_user_redeploy() {
    check(
        r#"
        vm a
        on a
        perform a
        a> 2: e1 Redeploy Scheduled a 10:00
        e1? User -1 "Host server is undergoing maintenance."
    "#,
    );
}

#[test]
fn a_hidden_event_keeps_its_description_when_it_appears() {
    check(
        r#"
        vm a
        maintain a freeze in=2h secs=3 "Soon."
        on a
        e1? Platform 3 "Soon."
    "#,
    );
}

#[test]
fn maintenance_must_be_a_freeze_a_reboot_or_a_redeploy() {
    check(
        "
        vm a
        on a
        maintain a preempt = MaintenanceKind
        maintain a terminate = MaintenanceKind
        left> 0
    ",
    );
}

#[test]
fn a_hardware_failure_must_be_a_reboot_or_a_redeploy() {
    check(
        "
        vm a host=h1
        on a
        fail a freeze = FailureKind
        fail a terminate = FailureKind
        fail host h1 preempt = FailureKind
        left> 0
    ",
    );
}

#[test]
fn a_request_can_specify_the_event_id() {
    check(
        "
        vm a
        vm b
        on a
        on b
        restart a id=77
        e1? id=77
        restart b id=77 = IdTaken
        b> 1: -
        redeploy a id=78
        e2? id=78
    ",
    );
}

#[test]
fn a_specified_id_applies_to_the_first_event() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze id=77
        a> 2: e1 Freeze Scheduled a 15:00
        e1? id=77
        b> 2: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn an_id_cannot_be_reused_while_its_event_is_kept() {
    check(
        "
        vm a
        on a
        restart a id=77
        approve a e1
        done e1
        restart a id=77 = IdTaken
        wait 30m
        redeploy a id=77 = IdTaken
    ",
    );
}

#[test]
fn an_operation_id_cannot_be_reused_for_another_request() {
    check(
        "
        vm a
        on a
        restart a
        redeploy a op=op1 = IdTaken
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn a_repeated_request_returns_the_existing_operation() {
    check(
        "
        vm a
        on a
        restart a
        restart a op=op1
        a> 2: e1 Reboot Scheduled a 15:00
        approve a e1
        done e1
        restart a op=op1
        op1> succeeded
        a> 4: -
    ",
    );
}

#[test]
fn only_a_freeze_has_a_default_duration() {
    check(
        r#"
        vm a
        on a
        maintain a freeze
        maintain a freeze migration
        maintain a reboot
        maintain a redeploy
        e1? Platform 9 "Host server is undergoing maintenance."
        e2? Platform 5 "Virtual machine is being paused because of a memory-preserving Live Migration operation."
        e3? Platform -1 "Host server is undergoing maintenance."
        e4? Platform -1 "Host server is undergoing maintenance."
    "#,
    );
}
