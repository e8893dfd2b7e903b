//! Evictions of Spot machines.

use crate::lang::check;

#[test]
fn only_spot_machines_can_be_evicted() {
    check(
        "
        vm a
        on a
        evict a = NotSpot
        a> 1: -
        left> 0
    ",
    );
}

#[test]
fn an_eviction_deallocates_the_machine() {
    check(
        "
        vm a spot
        on a
        evict a
        wait 30s
        a> 3: e1 Preempt Started a
        a? running
        done e1
        a> 4: -
        a? deallocated
        op1> succeeded
    ",
    );
}

#[test]
fn an_eviction_deletes_the_machine_if_the_policy_says_so() {
    check(
        "
        set w uniform 2 spot policy=delete
        on w_0
        evict w_1
        w_0> 2: e1 Preempt Scheduled w_1 0:30
        wait 30s
        done e1
        w_0> 4: -
        machines> w_0
        op1> succeeded
    ",
    );
}

#[test]
fn an_eviction_can_delete_a_standalone_machine() {
    check(
        "
        vm a spot policy=delete
        on a
        evict a
        wait 30s
        done e1
        a> gone
        op1> succeeded
    ",
    );
}

#[test]
fn an_eviction_can_be_approved() {
    check(
        "
        vm a spot
        on a
        evict a
        approve a e1
        a> 3: e1 Preempt Started a
    ",
    );
}

#[test]
fn an_eviction_can_be_approved_by_an_operator() {
    check(
        "
        vm a spot
        on a
        evict a
        ack e1
        a> 3: e1 Preempt Started a
    ",
    );
}

#[test]
fn a_scheduled_eviction_can_be_canceled() {
    check(
        "
        vm a spot
        on a
        evict a
        a> 2: e1 Preempt Scheduled a 0:30
        cancel op1
        a> 3: -
        op1> canceled
        evict a
        cancel-event e2
        a> 5: -
    ",
    );
}

#[test]
fn a_started_eviction_cannot_be_canceled() {
    check(
        "
        vm a spot
        on a
        evict a
        approve a e1
        cancel op1 = NotCancellable
        cancel-event e1 = NotCancellable
    ",
    );
}

#[test]
fn evicting_again_joins_the_eviction() {
    check(
        "
        vm a spot
        on a
        evict a
        wait 10s
        evict a
        a> 2: e1 Preempt Scheduled a 0:20
        wait 20s
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn each_evicted_instance_has_its_own_event() {
    check(
        "
        set w uniform 3 spot
        on w_0
        evict w_0
        evict w_2
        w_1> 3: e1 Preempt Scheduled w_0 0:30 | e2 Preempt Scheduled w_2 0:30
        approve w_1 e1
        w_1> 4: e1 Preempt Started w_0 | e2 Preempt Scheduled w_2 0:30
    ",
    );
}

#[test]
fn an_evicted_machine_can_be_started_and_evicted_again() {
    check(
        "
        vm a spot
        on a
        evict a
        wait 30s
        done e1
        start a
        a? running
        evict a
        a> 5: e2 Preempt Scheduled a 0:30
    ",
    );
}

#[test]
fn events_waiting_for_a_deallocated_machine_end_without_effect() {
    check(
        "
        set w uniform 2 spot
        on w_0
        maintain w_1 freeze
        evict w_1
        approve w_0 e2
        done e2
        w_0> 5: e1 Freeze Scheduled w_1 15:00
        wait 15m
        w_0> 6: -
        e1> noeffect
        op1> succeeded
    ",
    );
}

#[test]
fn events_waiting_for_a_deleted_machine_end_with_it() {
    check(
        "
        set w uniform 2 spot policy=delete
        on w_0
        maintain w_1 freeze
        evict w_1
        approve w_0 e2
        done e2
        w_0> 5: -
        op1> failed ResourceGone
    ",
    );
}

#[test]
fn a_failed_eviction_keeps_the_machine() {
    check(
        "
        vm a spot policy=delete
        on a
        evict a
        wait 30s
        failed e1
        a> 4: -
        a? running
        op1> failed Failed
    ",
    );
}

#[test]
fn spot_machines_are_restarted_and_maintained_like_others() {
    check(
        "
        vm a spot
        on a
        restart a
        maintain a freeze
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn spot_machines_are_deleted_without_notice() {
    check(
        "
        vm a spot
        on a
        delete a
        e1> hidden started
        a> 1: -
        done e1
        a> gone
    ",
    );
}

#[test]
fn spot_machines_cannot_have_terminate_notification() {
    check(
        "
        vm a spot term=5m = TerminateOnSpot
        set w uniform 2 spot term=5m = TerminateOnSpot
        set x uniform 1 term=5m
        model x spot = TerminateOnSpot
        set y uniform 1 spot
        model y term=5m = TerminateOnSpot
        vm b spot
        term b 5m = TerminateOnSpot
        machines> x_0 y_0 b
    ",
    );
}

#[test]
fn a_machine_that_is_being_evicted_can_be_deleted() {
    check(
        "
        vm a spot
        on a
        evict a
        delete a
        e2> hidden started
        done e2
        a> gone
        e1> resourcegone
        op1> failed ResourceGone
        op2> succeeded
    ",
    );
}
