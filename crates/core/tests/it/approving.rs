//! Approvals: who may approve, and the effect.

use crate::lang::check;

#[test]
fn any_machine_of_the_scope_can_approve_for_all() {
    check(
        "
        avset s a b
        vm c
        on a
        on c
        restart a
        approve c e1 = UnknownEvents
        approve b e1
        b> 3: e1 Reboot Started a
        approve a e1
        a> 3: e1 Reboot Started a
        done e1
        approve a e1
        a> 4: -
        wait 61m
        approve a e1 = UnknownEvents
    ",
    );
}

#[test]
fn one_unknown_id_rejects_the_whole_approval() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1 e9 = UnknownEvents
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn an_approved_deletion_waits_for_the_other_deletions_in_its_scope() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0 w_1
        w_2> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00
        approve w_1 e2
        w_2> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00
        approve w_0 e1
        w_2> 3: e1 Terminate Started w_0 | e2 Terminate Started w_1
        done e1
        done e2
        w_2> 5: -
        op1> succeeded
        machines> w_2
        w? capacity=1
    ",
    );
}

#[test]
fn host_events_start_together() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00
        cancel-event e1 = PartOfHostOperation
        approve b e2
        a> 3: e1 Freeze Started a
        b> 3: e2 Freeze Started b
    ",
    );
}

#[test]
fn scopes_that_are_off_count_as_approved() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        maintain host h1 freeze
        b> off
        approve a e1
        a> 3: e1 Freeze Started a
        done e1
        op1> running
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn canceling_removes_scheduled_events() {
    check(
        "
        vm a
        on a
        restart a
        restart a
        cancel op1
        op1> canceled
        a> 2: e1 Reboot Scheduled a 15:00
        cancel-event e1
        a> 3: -
        op2> canceled
        cancel op2 = OperationEnded
    ",
    );
}
