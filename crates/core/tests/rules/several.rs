//! Several events on one machine: who waits, who pushes aside (semantics 2.6, 2.7).

use crate::lang::check;

#[test]
fn any_number_may_be_scheduled() {
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
fn at_most_one_has_started() {
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
fn those_that_wait_start_in_the_order_in_which_they_appeared() {
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
fn what_is_not_approved_is_passed_by_what_is() {
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
fn an_event_of_several_machines_holds_back_each_of_them() {
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
fn machines_of_one_scope_do_not_hold_back_each_other() {
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
fn an_event_that_waits_past_its_time_starts_when_it_can_without_approval() {
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
fn an_event_that_waits_can_be_cancelled() {
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
fn hardware_failure_pushes_aside_what_the_platform_had_started() {
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
fn hardware_failure_leaves_alone_what_is_scheduled() {
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
fn hardware_failure_of_one_machine_ends_the_event_of_several() {
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
fn an_eviction_pushes_aside_what_had_started() {
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
fn an_eviction_that_is_approved_pushes_aside_what_had_started() {
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
fn an_eviction_pushes_aside_a_hardware_failure() {
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
fn a_deletion_pushes_aside_what_had_started() {
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
fn a_deletion_pushes_aside_a_hardware_failure() {
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
fn a_deletion_without_notice_pushes_aside_what_had_started() {
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
fn a_deletion_pushes_aside_an_eviction() {
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
fn hardware_failure_does_not_push_aside_an_eviction() {
    check(
        "
        vm a spot policy=delete
        on a
        evict a
        approve a e1
        a> 3: e1 Preempt Started a
        fail a = MachineLeaving
        a> 3: e1 Preempt Started a
    ",
    );
}

#[test]
fn hardware_failure_does_not_push_aside_a_deletion() {
    check(
        "
        vm a term=5m
        on a
        delete a
        approve a e1
        fail a = MachineLeaving
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn hardware_failure_of_a_host_passes_by_a_machine_that_is_leaving() {
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
fn hardware_failure_before_the_deletion_is_due_goes_first() {
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
fn scheduled_events_of_a_machine_that_is_deleted_go_with_it() {
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
fn an_event_that_shares_its_machines_stays_when_one_is_gone() {
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
fn an_event_that_had_started_goes_when_all_its_machines_are_gone() {
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
fn a_machine_that_is_gone_is_not_waited_for_by_the_others_of_its_event() {
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
fn events_of_a_machine_on_its_own_go_with_it() {
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
fn planned_work_of_a_machine_that_is_gone_ends() {
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
fn what_could_start_on_a_stopped_machine_ends_without_effect() {
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
fn one_running_machine_is_enough_for_an_event_to_start() {
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
fn a_deletion_is_carried_out_on_a_stopped_machine_too() {
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
fn a_machine_that_stops_while_its_event_runs_lets_it_run() {
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
fn superseded_work_is_taken_from_its_driver() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        drivers> e1
        fail a
        drivers> e2
        done e1 = EventOver
        failed e1 = EventOver
        done e2
        drivers> -
    ",
    );
}

#[test]
fn a_second_failure_takes_the_place_of_the_first() {
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
fn a_failure_of_a_stopped_machine_is_without_effect() {
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
fn of_two_that_are_approved_at_once_the_one_that_removes_wins() {
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
fn once_a_machine_is_being_removed_nothing_else_starts() {
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
fn when_a_removal_fails_what_waited_goes_on() {
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
fn what_has_no_effect_pushes_nothing_aside() {
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
