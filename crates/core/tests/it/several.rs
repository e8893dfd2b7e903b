//! Several events on one machine: which one waits, and which one supersedes the other.

use crate::lang::check;

#[test]
fn a_machine_can_have_any_number_of_scheduled_events() {
    check(
        "
        vm a
        on a
        maintain a freeze
        maintain a freeze
        maintain a reboot
        restart a
        redeploy a
        perform a
        a> 7: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled a 15:00 | e3 Reboot Scheduled a 15:00 | e4 Reboot Scheduled a 15:00 | e5 Redeploy Scheduled a 10:00 | e6 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn a_machine_has_at_most_one_started_event() {
    check(
        "
        vm a
        on a
        maintain a freeze
        maintain a reboot
        wait 15m
        a> 4: e1 Freeze Started a | e2 Reboot Scheduled a 0:00
        done e1
        a> 5: e2 Reboot Started a
        done e2
        a> 6: -
    ",
    );
}

#[test]
fn waiting_events_start_in_order_of_appearance() {
    check(
        "
        vm a
        on a
        restart a
        maintain a freeze
        maintain a redeploy
        approve a e1
        approve a e3
        approve a e2
        done e1
        e2> started
        e3> scheduled
        done e2
        e3> started
    ",
    );
}

#[test]
fn an_approved_event_overtakes_one_that_is_not() {
    check(
        "
        vm a
        on a
        restart a
        maintain a freeze
        redeploy a
        approve a e1
        approve a e3
        done e1
        e2> scheduled
        e3> started
    ",
    );
}

#[test]
fn an_event_of_several_machines_waits_for_all_of_them() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        restart b
        approve a e1
        maintain host h1 freeze
        approve a e2
        a> 4: e1 Reboot Started b | e2 Freeze Scheduled a,b 15:00
        done e1
        a> 5: e2 Freeze Started a,b
    ",
    );
}

#[test]
fn an_event_of_several_machines_blocks_each_of_them() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        restart a
        restart b
        approve a e1 e2 e3
        a> 5: e1 Freeze Started a,b | e2 Reboot Scheduled a 15:00 | e3 Reboot Scheduled b 15:00
        done e1
        a> 6: e2 Reboot Started a | e3 Reboot Started b
    ",
    );
}

#[test]
fn machines_of_one_scope_do_not_block_each_other() {
    check(
        "
        avset s a b
        on a
        restart a
        restart b
        approve a e1 e2
        a> 4: e1 Reboot Started a | e2 Reboot Started b
    ",
    );
}

#[test]
fn a_blocked_event_that_is_due_starts_without_approval() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        maintain a freeze
        wait 20m
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 0:00
        failed e1
        a> 5: e2 Freeze Started a
    ",
    );
}

#[test]
fn a_waiting_event_can_be_canceled() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        maintain a freeze
        approve a e2
        cancel op2
        a> 5: e1 Reboot Started a
        done e1
        a> 6: -
    ",
    );
}

#[test]
fn a_hardware_failure_supersedes_a_started_platform_event() {
    check(
        "
        vm a
        on a
        maintain a freeze
        approve a e1
        fail a
        a> 4: e2 Reboot Started a
        e1> superseded
        op1> failed Superseded
        drivers> e2
    ",
    );
}

#[test]
fn a_hardware_failure_does_not_affect_scheduled_events() {
    check(
        "
        vm a
        on a
        restart a
        fail a
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Reboot Started a
        wait 15m
        a> 3: e1 Reboot Scheduled a 0:00 | e2 Reboot Started a
        done e2
        a> 4: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_hardware_failure_of_one_machine_ends_a_shared_event() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        wait 15m
        fail b
        a> 4: e2 Reboot Started b
        e1> superseded
    ",
    );
}

#[test]
fn an_eviction_supersedes_a_started_event() {
    check(
        "
        vm a spot
        on a
        restart a
        approve a e1
        evict a
        a> 4: e1 Reboot Started a | e2 Preempt Scheduled a 0:30
        wait 30s
        a> 5: e2 Preempt Started a
        e1> superseded
        op1> failed Superseded
    ",
    );
}

#[test]
fn an_approved_eviction_supersedes_a_started_event() {
    check(
        "
        vm a spot
        on a
        restart a
        approve a e1
        evict a
        approve a e2
        a> 5: e2 Preempt Started a
    ",
    );
}

#[test]
fn an_eviction_supersedes_a_hardware_failure() {
    check(
        "
        vm a spot
        on a
        fail a
        evict a
        wait 30s
        a> 4: e2 Preempt Started a
        e1> superseded
    ",
    );
}

#[test]
fn a_deletion_supersedes_a_started_event() {
    check(
        "
        vm a term=5m
        on a
        restart a
        approve a e1
        delete a
        a> 4: e1 Reboot Started a | e2 Terminate Scheduled a 5:00
        wait 5m
        a> 5: e2 Terminate Started a
        e1> superseded
    ",
    );
}

#[test]
fn a_deletion_supersedes_a_hardware_failure() {
    check(
        "
        vm a term=5m
        on a
        fail a
        delete a
        wait 5m
        a> 4: e2 Terminate Started a
        e1> superseded
    ",
    );
}

#[test]
fn a_deletion_without_notice_supersedes_a_started_event() {
    check(
        "
        avset s a b
        on a
        restart a
        approve a e1
        delete a
        e1> superseded
        done e2
        machines> b
        b> 4: -
    ",
    );
}

#[test]
fn a_deletion_supersedes_an_eviction() {
    check(
        "
        vm a spot
        on a
        evict a
        approve a e1
        delete a
        e1> superseded
        e2> hidden started
    ",
    );
}

#[test]
fn a_hardware_failure_does_not_supersede_an_eviction() {
    check(
        "
        vm a spot policy=delete
        on a
        evict a
        approve a e1
        a> 3: e1 Preempt Started a
        fail a = MachineBeingDeleted
        a> 3: e1 Preempt Started a
    ",
    );
}

#[test]
fn a_hardware_failure_does_not_supersede_a_deletion() {
    check(
        "
        vm a term=5m
        on a
        delete a
        approve a e1
        fail a = MachineBeingDeleted
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn a_hardware_failure_of_a_host_skips_machines_that_are_being_deleted() {
    check(
        "
        vm a host=h1 term=5m
        vm b host=h1
        on a
        on b
        delete a
        approve a e1
        fail host h1
        e1> started
        b> 2: e2 Reboot Started b
    ",
    );
}

#[test]
fn a_hardware_failure_before_a_deletion_is_due_starts_first() {
    check(
        "
        vm a term=5m
        on a
        delete a
        fail a
        a> 3: e1 Terminate Scheduled a 5:00 | e2 Reboot Started a
        wait 5m
        a> 4: e1 Terminate Started a
    ",
    );
}

#[test]
fn deleting_a_machine_ends_its_scheduled_events() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        restart w_1
        maintain w_1 freeze
        delete w_1
        approve w_0 e3
        w_0> 5: e1 Reboot Scheduled w_1 15:00 | e2 Freeze Scheduled w_1 15:00 | e3 Terminate Started w_1
        done e3
        w_0> 6: -
        op1> failed ResourceGone
        op2> failed ResourceGone
        op3> succeeded
    ",
    );
}

#[test]
fn a_shared_event_remains_when_one_machine_is_deleted() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        delete b
        done e2
        a> 2: e1 Freeze Scheduled a,b 15:00
        wait 15m
        a> 3: e1 Freeze Started a,b
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn a_started_event_ends_when_all_its_machines_are_deleted() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1
        wait 5m
        done e1
        w_0> 4: -
        op1> succeeded
    ",
    );
}

#[test]
fn a_shared_event_does_not_wait_for_a_deleted_machine() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        restart b
        approve a e1
        maintain host h1 freeze
        approve a e2
        delete b
        done e3
        a> 6: e2 Freeze Started a,b
        e1> superseded
    ",
    );
}

#[test]
fn events_of_a_standalone_machine_end_with_it() {
    check(
        "
        vm a term=5m
        on a
        restart a
        delete a
        wait 5m
        done e2
        a> gone
        e1> resourcegone
        op1> failed ResourceGone
        op2> succeeded
    ",
    );
}

#[test]
fn planned_events_of_a_deleted_machine_end() {
    check(
        "
        vm a
        maintain a freeze in=10h
        delete a
        done e2
        op1> failed ResourceGone
    ",
    );
}

#[test]
fn an_event_of_a_stopped_machine_ends_without_effect() {
    check(
        "
        avset s a b
        on a
        restart a
        approve a e1
        maintain a freeze
        maintain a reboot
        off a
        done e1
        a> 6: e2 Freeze Scheduled a 15:00 | e3 Reboot Scheduled a 15:00
        approve a e2
        a> 7: e3 Reboot Scheduled a 15:00
        e2> noeffect
        start a
        approve a e3
        a> 8: e3 Reboot Started a
    ",
    );
}

#[test]
fn an_event_starts_if_one_of_its_machines_is_running() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        off a
        approve b e1
        a> 3: e1 Freeze Started a,b
    ",
    );
}

#[test]
fn a_stopped_machine_can_be_deleted() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        off w_1
        delete w_1
        w_0> 2: e1 Terminate Scheduled w_1 5:00
        wait 5m
        w_0> 3: e1 Terminate Started w_1
        done e1
        machines> w_0
    ",
    );
}

#[test]
fn stopping_a_machine_does_not_end_its_started_event() {
    check(
        "
        vm a
        on a
        policy a -down
        restart a
        approve a e1
        off a
        a> 3: e1 Reboot Started a
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn drivers_are_told_to_stop_superseded_events() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        drivers> e1
        fail a
        drivers> e2
        done e1 = EventEnded
        failed e1 = EventEnded
        done e2
        drivers> -
    ",
    );
}

#[test]
fn a_second_hardware_failure_supersedes_the_first() {
    check(
        "
        vm a
        on a
        fail a
        fail a redeploy
        a> 3: e2 Redeploy Started a
        e1> superseded
        op1> failed Superseded
    ",
    );
}

#[test]
fn a_hardware_failure_of_a_stopped_machine_has_no_effect() {
    check(
        "
        avset s a b
        on a
        off a
        fail a
        a> 1: -
        op1> succeeded
    ",
    );
}

#[test]
fn of_two_events_approved_together_the_deletion_wins() {
    check(
        "
        vm a spot
        on a
        restart a
        evict a
        approve a e1 e2
        a> 4: e2 Preempt Started a
        e1> superseded
    ",
    );
}

#[test]
fn nothing_starts_on_a_machine_that_is_being_deleted() {
    check(
        "
        vm a term=5m
        on a
        restart a
        delete a
        approve a e2
        approve a e1
        a> 4: e1 Reboot Scheduled a 15:00 | e2 Terminate Started a
        wait 20m
        e1> scheduled
        done e2
        e1> resourcegone
    ",
    );
}

#[test]
fn waiting_events_start_after_a_failed_deletion() {
    check(
        "
        vm a term=5m
        on a
        restart a
        delete a
        approve a e2
        approve a e1
        failed e2
        a> 5: e1 Reboot Started a
    ",
    );
}

#[test]
fn an_event_without_effect_supersedes_nothing() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        wait 15m
        off b
        fail b
        e2> noeffect
        a> 3: e1 Freeze Started a,b
    ",
    );
}
