//! Cancellation of operations and events.

use crate::lang::check;

#[test]
fn a_scheduled_restart_can_be_canceled() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        history> e1 canceled, op1 over
        a> 3: -
        op1> canceled
        e1> canceled
    ",
    );
}

#[test]
fn canceling_the_event_or_the_operation_is_equivalent() {
    check(
        "
        vm a
        on a
        redeploy a
        cancel-event e1
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn an_operation_that_has_started_cannot_be_canceled() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        cancel op1 = NotCancellable
        cancel-event e1 = NotCancellable
        a> 3: e1 Reboot Started a
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn a_started_hidden_event_cannot_be_canceled() {
    check(
        "
        vm a
        restart a
        cancel op1 = NotCancellable
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn ended_events_and_operations_cannot_be_canceled() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        done e1
        cancel op1 = OperationEnded
        cancel-event e1 = EventEnded
        restart a
        cancel op2
        cancel op2 = OperationEnded
        cancel-event e2 = EventEnded
    ",
    );
}

#[test]
fn unknown_events_and_operations_cannot_be_canceled() {
    check(
        "
        cancel op99 = UnknownOperation
        cancel-event e99 = UnknownEvent
    ",
    );
}

#[test]
fn forgotten_events_and_operations_cannot_be_canceled() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        wait 61m
        cancel op1 = UnknownOperation
        cancel-event e1 = UnknownEvent
    ",
    );
}

#[test]
fn an_approved_event_that_waits_can_be_canceled() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        approve a e1
        cancel op1
        a> 3: -
        b> 3: -
    ",
    );
}

#[test]
fn canceling_an_event_cancels_all_joined_operations() {
    check(
        "
        vm a
        on a
        restart a
        restart a
        cancel-event e1
        a> 3: -
        op1> canceled
        op2> canceled
    ",
    );
}

#[test]
fn maintenance_and_self_service_can_be_canceled() {
    check(
        "
        vm a
        on a
        maintain a freeze
        perform a
        cancel op1
        cancel op2
        a> 5: -
    ",
    );
}

#[test]
fn a_hardware_failure_cannot_be_canceled() {
    check(
        "
        vm a
        on a
        fail a
        cancel op1 = NotCancellable
        a> 2: e1 Reboot Started a
    ",
    );
}

#[test]
fn approving_a_canceled_event_has_no_effect_for_an_hour() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        approve a e1
        a> 3: -
        wait 59m
        approve a e1
        wait 2m
        approve a e1 = UnknownEvents
    ",
    );
}

#[test]
fn the_same_request_can_be_made_after_canceling() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        restart a
        a> 4: e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn canceling_unblocks_waiting_events() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        maintain a freeze
        approve a e2
        a> 5: e2 Freeze Started a
    ",
    );
}

#[test]
fn a_canceled_plan_in_a_scope_that_is_off_never_starts() {
    check(
        "
        vm a
        maintain a reboot in=1h
        cancel op1
        wait 2h
        e1> forgotten
        drivers> -
    ",
    );
}

#[test]
fn a_hidden_host_operation_can_be_canceled() {
    check(
        "
        vm a host=h1
        vm b host=h1
        maintain host h1 reboot in=1h
        cancel op1
        op1> canceled
        wait 59m
        drivers> -
    ",
    );
}
