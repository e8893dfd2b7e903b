//! Taking back what was asked for (semantics 2.10).

use crate::lang::check;

#[test]
fn a_restart_that_is_scheduled_can_be_cancelled() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        told> e1 canceled, op1 over
        a> 3: -
        op1> canceled
        e1> canceled
    ",
    );
}

#[test]
fn by_event_or_by_operation_is_the_same() {
    check(
        "
        vm a
        on a
        redeploy a
        uncall e1
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn an_operation_that_runs_cannot_be_cancelled() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        cancel op1 = NotCancellable
        uncall e1 = NotCancellable
        a> 3: e1 Reboot Started a
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn what_runs_unseen_cannot_be_cancelled_either() {
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
fn what_is_over_cannot_be_cancelled() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        done e1
        cancel op1 = OperationOver
        uncall e1 = EventOver
        restart a
        cancel op2
        cancel op2 = OperationOver
        uncall e2 = EventOver
    ",
    );
}

#[test]
fn what_never_was_cannot_be_cancelled() {
    check(
        "
        cancel op99 = UnknownOperation
        uncall e99 = UnknownEvent
    ",
    );
}

#[test]
fn what_is_forgotten_cannot_be_cancelled() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        wait 61m
        cancel op1 = UnknownOperation
        uncall e1 = UnknownEvent
    ",
    );
}

#[test]
fn an_approved_event_that_waits_can_be_cancelled() {
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
fn cancelling_by_event_takes_all_who_joined() {
    check(
        "
        vm a
        on a
        restart a
        restart a
        uncall e1
        a> 3: -
        op1> canceled
        op2> canceled
    ",
    );
}

#[test]
fn maintenance_and_self_service_can_be_cancelled() {
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
fn hardware_failure_cannot_be_cancelled() {
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
fn a_cancelled_id_can_still_be_approved_for_an_hour_without_effect() {
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
fn after_cancelling_the_same_can_be_asked_for_again() {
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
fn cancelling_lets_those_behind_start() {
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
fn a_cancelled_plan_in_a_scope_that_is_off_never_runs() {
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
fn a_hidden_host_operation_can_be_cancelled() {
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
