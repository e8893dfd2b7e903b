//! Terminate notification: who gets it, how long, and the gate (semantics 3).

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn a_machine_with_the_profile_is_told_before_it_is_deleted() {
    check(
        "
        vm a term=5m
        on a
        delete a
        a> 2: e1 Terminate Scheduled a 5:00
        wait 5m
        a> 3: e1 Terminate Started a
        a? running
        done e1
        a> gone
        op1> succeeded
    ",
    );
}

#[test]
fn a_machine_without_the_profile_is_deleted_at_once() {
    check(
        "
        vm a
        on a
        delete a
        a> 1: -
        e1> hidden started
        done e1
        a> gone
    ",
    );
}

#[test]
fn the_timeout_is_five_to_fifteen_minutes() {
    check(
        "
        vm a term=4m = TerminateRange
        vm a term=299s = TerminateRange
        vm a term=16m = TerminateRange
        vm a term=901s = TerminateRange
        vm a term=0s = TerminateRange
        vm a term=300s
        vm b term=15m
        vm c term=450s
        a? term=300s
        c? term=450s
        set w uniform 1 term=4m = TerminateRange
        set w uniform 1 term=16m = TerminateRange
        set w uniform 1 term=900s
        w_0? term=900s
        model w term=1000s = TerminateRange
        term a 4m = TerminateRange
        a? term=300s
    ",
    );
}

#[test]
fn the_profile_of_a_machine_on_its_own_can_be_changed() {
    check(
        "
        vm a
        on a
        term a 7m
        a? term=7m
        delete a
        a> 2: e1 Terminate Scheduled a 7:00
    ",
    );
}

#[test]
fn the_profile_of_a_machine_on_its_own_can_be_taken_away() {
    check(
        "
        vm a term=7m
        on a
        term a none
        delete a
        e1> hidden started
    ",
    );
}

#[test]
fn a_change_after_the_deletion_was_asked_for_extends_nothing() {
    check(
        "
        vm a term=5m
        on a
        delete a
        wait 1m
        term a 15m
        a> 2: e1 Terminate Scheduled a 4:00
        wait 4m
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn deleting_again_joins_and_keeps_the_first_time() {
    check(
        "
        vm a term=5m
        on a
        delete a
        wait 2m
        delete a
        told> -
        a> 2: e1 Terminate Scheduled a 3:00
        wait 3m
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn deleting_again_does_not_take_a_longer_timeout() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        wait 2m
        model w term=15m
        delete w_1
        w_0> 2: e1 Terminate Scheduled w_1 3:00
    ",
    );
}

#[test]
fn deleting_again_with_others_joins_and_adds() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1
        wait 2m
        delete w_1 w_2
        w_0> 3: e1 Terminate Scheduled w_1 3:00 | e2 Terminate Scheduled w_2 5:00
        approve w_0 e1 e2
        done e1
        op1> succeeded
        op2> running
        done e2
        op2> succeeded
    ",
    );
}

#[test]
fn deleting_what_is_being_deleted_joins_too() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        approve w_0 e1
        delete w_1
        w_0> 3: e1 Terminate Started w_1
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn a_deletion_cannot_be_cancelled() {
    check(
        "
        vm a term=5m
        on a
        delete a
        cancel op1 = NotCancellable
        uncall e1 = NotCancellable
        approve a e1
        cancel op1 = NotCancellable
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn a_deletion_that_fails_leaves_the_machine() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        wait 5m
        failed e1
        w_0> 4: -
        machines> w_0 w_1
        op1> failed Failed
    ",
    );
}

#[test]
fn restart_redeploy_stop_and_deallocate_are_no_deletions() {
    check(
        "
        vm a term=5m
        on a
        restart a
        redeploy a
        off a
        start a
        deallocate a
        start a
        a> 4: -
    ",
    );
}

#[test]
fn instances_are_told_by_the_model_that_was_applied_when_they_are_deleted() {
    check(
        "
        set w uniform 3 mode=manual term=5m
        on w_0
        model w term=10m
        w_0? term=5m
        delete w_0
        w_0> 2: e1 Terminate Scheduled w_0 5:00
        upgrade w w_1
        w_1? term=10m
        w_2? term=5m
        delete w_1 w_2
        w_0> 3: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_1 10:00 | e3 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn new_instances_have_the_latest_model() {
    check(
        "
        set w uniform 1 mode=manual term=5m
        on w_0
        model w term=10m
        scale w 2
        w_0? term=5m
        w_1? term=10m
    ",
    );
}

#[test]
fn with_automatic_upgrade_the_model_counts_at_once() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        model w term=10m
        w_0? term=10m
        w_1? term=10m
        delete w_1
        w_0> 2: e1 Terminate Scheduled w_1 10:00
    ",
    );
}

#[test]
fn with_automatic_upgrade_a_profile_taken_away_is_gone_at_once() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        model w term=none
        w_1? term=none
        delete w_1
        w_0> 1: -
        done e1
        machines> w_0
    ",
    );
}

#[test]
fn with_manual_upgrade_a_profile_taken_away_still_counts() {
    check(
        "
        set w uniform 2 mode=manual term=5m
        on w_0
        model w term=none
        delete w_1
        w_0> 2: e1 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn with_manual_upgrade_a_profile_that_is_new_does_not_count_yet() {
    check(
        "
        set w uniform 2 mode=manual
        on w_0
        model w term=5m
        delete w_1
        w_0> 1: -
        upgrade w w_0
        delete w_0
        w_0> 2: e2 Terminate Scheduled w_0 5:00
    ",
    );
}

#[test]
fn all_instances_can_be_upgraded_at_once() {
    check(
        "
        set w uniform 3 mode=manual term=5m
        model w term=10m
        upgrade w
        w_0? term=10m
        w_1? term=10m
        w_2? term=10m
    ",
    );
}

#[test]
fn a_rolling_upgrade_goes_by_fifths_a_minute_apart() {
    check(
        "
        set w uniform 10 mode=rolling term=5m
        model w term=10m
        w_0? term=10m
        w_5? term=10m
        w_1? term=5m
        wait 59s
        w_1? term=5m
        wait 1s
        w_1? term=10m
        w_6? term=10m
        w_2? term=5m
        wait 60s
        w_7? term=10m
        w_3? term=5m
        wait 2m
        w_4? term=10m
        w_9? term=10m
    ",
    );
}

#[test]
fn a_rolling_upgrade_of_few_goes_one_at_a_time() {
    check(
        "
        set w uniform 2 mode=rolling term=5m
        model w term=10m
        w_0? term=10m
        w_1? term=5m
        wait 60s
        w_1? term=10m
    ",
    );
}

#[test]
fn a_rolling_upgrade_is_scaled_like_notice() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        set w uniform 2 mode=rolling term=5m
        model w term=10m
        w_1? term=5m
        wait 1s
        w_1? term=10m
    ",
    );
}

#[test]
fn a_second_model_overtakes_a_rolling_upgrade() {
    check(
        "
        set w uniform 5 mode=rolling term=5m
        model w term=10m
        w_0? term=10m
        wait 60s
        w_1? term=10m
        model w term=15m
        wait 10m
        w_0? term=15m
        w_1? term=15m
        w_4? term=15m
    ",
    );
}

#[test]
fn instances_made_during_a_rolling_upgrade_have_the_latest_model() {
    check(
        "
        set w uniform 5 mode=rolling term=5m
        model w term=10m
        scale w 6
        w_5? term=10m
        w_4? term=5m
    ",
    );
}

#[test]
fn a_deletion_in_a_rolling_upgrade_counts_what_was_applied() {
    check(
        "
        set w uniform 5 mode=rolling term=5m
        on w_0
        model w term=10m
        delete w_0 w_4
        w_0> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_4 5:00
    ",
    );
}

#[test]
fn the_upgrade_mode_can_be_changed() {
    check(
        "
        set w uniform 2 mode=manual term=5m
        model w term=10m
        w_0? term=5m
        mode w automatic
        model w term=15m
        w_0? term=15m
        mode w manual
        model w term=5m
        w_0? term=15m
    ",
    );
}

#[test]
fn an_approved_deletion_alone_goes_at_once() {
    check(
        "
        set w uniform 2 term=10m
        on w_0
        delete w_1
        approve w_0 e1
        w_0> 3: e1 Terminate Started w_1
    ",
    );
}

#[test]
fn the_gate_holds_the_first_for_the_second() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0 w_1
        approve w_2 e1
        w_2> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00
        approve w_2 e2
        w_2> 3: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn the_gate_holds_the_second_for_the_first() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0 w_1
        approve w_2 e2
        w_2> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00
        approve w_2 e1
        w_2> 3: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn the_gate_holds_across_operations() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0
        delete w_1
        approve w_2 e1
        w_2> 3: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00
        ack e2
        w_2> 4: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn a_deletion_asked_for_while_another_waits_approved_holds_it_too() {
    check(
        "
        set w uniform 4 term=10m
        on w_0
        delete w_0 w_1
        approve w_3 e1
        delete w_2
        approve w_3 e2
        w_3> 3: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 10:00 | e3 Terminate Scheduled w_2 10:00
        approve w_3 e3
        w_3> 4: e1 Terminate Started w_0 | e2 Terminate Started w_1 | e3 Terminate Started w_2
    ",
    );
}

#[test]
fn a_deletion_that_has_started_is_not_waited_for() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0
        approve w_2 e1
        delete w_1
        approve w_2 e2
        w_2> 5: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn at_its_own_time_a_deletion_goes_whatever_the_others_do() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0
        wait 4m
        delete w_1
        approve w_2 e1
        w_2> 3: e1 Terminate Scheduled w_0 6:00 | e2 Terminate Scheduled w_1 10:00
        wait 6m
        w_2> 4: e1 Terminate Started w_0 | e2 Terminate Scheduled w_1 4:00
        wait 4m
        w_2> 5: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn at_its_own_time_a_deletion_goes_without_approval_too() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0
        wait 4m
        delete w_1
        wait 6m
        w_2> 4: e1 Terminate Started w_0 | e2 Terminate Scheduled w_1 4:00
    ",
    );
}

#[test]
fn what_is_due_no_longer_holds_the_approved_ones() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0
        wait 4m
        delete w_1
        approve w_2 e2
        wait 5m
        w_2> 3: e1 Terminate Scheduled w_0 1:00 | e2 Terminate Scheduled w_1 5:00
        wait 1m
        w_2> 4: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn what_is_due_lets_go_only_those_that_are_approved() {
    check(
        "
        set w uniform 4 term=10m
        on w_0
        delete w_0
        wait 4m
        delete w_1 w_2
        approve w_3 e2
        wait 6m
        w_3> 4: e1 Terminate Started w_0 | e2 Terminate Scheduled w_1 4:00 | e3 Terminate Scheduled w_2 4:00
        approve w_3 e3
        w_3> 5: e1 Terminate Started w_0 | e2 Terminate Started w_1 | e3 Terminate Started w_2
    ",
    );
}

#[test]
fn deletions_with_the_same_time_go_in_one_step() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        delete w_0 w_1
        wait 10m
        w_2> 3: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn the_gate_is_one_of_a_scope_and_not_of_the_region() {
    check(
        "
        vm a term=5m
        vm b term=5m
        on a
        on b
        delete a b
        approve a e1
        a> 3: e1 Terminate Started a
        b> 2: e2 Terminate Scheduled b 5:00
    ",
    );
}

#[test]
fn the_gate_is_not_one_of_the_set_but_of_the_placement_group() {
    check(
        "
        set w uniform 2 max=1 term=5m
        on w_0
        delete w_0 w_1
        approve w_0 e1
        w_0> 3: e1 Terminate Started w_0
        w_1> 2: e2 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn other_events_do_not_close_the_gate() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        restart w_0
        maintain w_1 freeze
        delete w_2
        approve w_0 e3
        w_0> 5: e1 Reboot Scheduled w_0 15:00 | e2 Freeze Scheduled w_1 15:00 | e3 Terminate Started w_2
    ",
    );
}

#[test]
fn deletions_do_not_hold_back_other_events() {
    check(
        "
        set w uniform 3 term=10m
        on w_0
        restart w_0
        delete w_1
        approve w_0 e1
        w_0> 4: e1 Reboot Started w_0 | e2 Terminate Scheduled w_1 10:00
    ",
    );
}

#[test]
fn a_flexible_set_is_one_scope_for_the_gate() {
    check(
        "
        set w flexible 3 term=5m
        on w/1
        delete w/1 w/2
        approve w/3 e1
        w/3> 2: e1 Terminate Scheduled w/1 5:00 | e2 Terminate Scheduled w/2 5:00
        approve w/3 e2
        w/3> 3: e1 Terminate Started w/1 | e2 Terminate Started w/2
        done e1
        done e2
        machines> w/3
    ",
    );
}

#[test]
fn a_deletion_in_a_scope_that_is_off_tells_nobody_and_waits_for_nobody() {
    check(
        "
        set w uniform 3 term=10m
        delete w_0 w_1
        drivers> e1 e2
        done e1
        done e2
        machines> w_2
    ",
    );
}

#[test]
fn machines_with_different_timeouts_in_one_operation_go_each_in_its_time() {
    check(
        "
        set w uniform 3 mode=manual term=5m
        on w_2
        model w term=10m
        upgrade w w_0
        delete w_0 w_1
        w_2> 2: e1 Terminate Scheduled w_0 10:00 | e2 Terminate Scheduled w_1 5:00
        wait 5m
        w_2> 3: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Started w_1
        wait 5m
        w_2> 4: e1 Terminate Started w_0 | e2 Terminate Started w_1
    ",
    );
}

#[test]
fn members_of_an_availability_set_with_profiles_are_told_each() {
    check(
        "
        avset s a b term=5m
        join s c
        on a
        delete a b c
        a> 2: e1 Terminate Scheduled a 5:00 | e2 Terminate Scheduled b 5:00
        e3> hidden started
    ",
    );
}
