//! Terminate notification: which machines get it, its length, and the gate for approved deletions.

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn a_machine_with_a_profile_gets_notice_before_deletion() {
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
fn a_machine_without_a_profile_is_deleted_immediately() {
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
fn the_timeout_must_be_five_to_fifteen_minutes() {
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
fn the_profile_of_a_standalone_machine_can_be_changed() {
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
fn the_profile_of_a_standalone_machine_can_be_removed() {
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
fn changing_the_profile_does_not_extend_a_pending_deletion() {
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
fn deleting_again_joins_and_keeps_not_before() {
    check(
        "
        vm a term=5m
        on a
        delete a
        wait 2m
        delete a
        history> -
        a> 2: e1 Terminate Scheduled a 3:00
        wait 3m
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn deleting_again_does_not_use_a_longer_timeout() {
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
fn deleting_again_with_other_machines_joins_and_adds_events() {
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
fn deleting_again_joins_a_started_deletion() {
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
fn a_deletion_cannot_be_canceled() {
    check(
        "
        vm a term=5m
        on a
        delete a
        cancel op1 = NotCancellable
        cancel-event e1 = NotCancellable
        approve a e1
        cancel op1 = NotCancellable
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn a_failed_deletion_keeps_the_machine() {
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
fn restart_redeploy_stop_and_deallocate_do_not_use_the_profile() {
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
fn an_instance_gets_the_notice_of_its_applied_model() {
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
fn new_instances_get_the_latest_model() {
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
fn an_automatic_upgrade_applies_the_model_immediately() {
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
fn an_automatic_upgrade_removes_the_profile_immediately() {
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
fn with_manual_upgrades_a_removed_profile_still_applies() {
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
fn with_manual_upgrades_a_new_profile_does_not_apply_yet() {
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
fn a_rolling_upgrade_upgrades_a_fifth_every_minute() {
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
fn a_rolling_upgrade_of_few_instances_goes_one_at_a_time() {
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
fn a_second_model_replaces_the_first_during_a_rolling_upgrade() {
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
fn instances_created_during_a_rolling_upgrade_get_the_latest_model() {
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
fn a_deletion_during_a_rolling_upgrade_uses_the_applied_model() {
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
fn a_single_approved_deletion_starts_immediately() {
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
fn the_first_approved_deletion_waits_for_the_second() {
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
fn the_second_approved_deletion_waits_for_the_first() {
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
fn the_gate_applies_across_operations() {
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
fn a_new_deletion_also_holds_back_an_approved_one() {
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
fn the_gate_does_not_wait_for_started_deletions() {
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
fn a_deletion_starts_when_due_regardless_of_the_others() {
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
fn a_deletion_starts_when_due_without_approval() {
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
fn a_deletion_that_is_due_no_longer_holds_back_approved_ones() {
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
fn a_deletion_that_is_due_only_releases_approved_ones() {
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
fn deletions_that_are_due_together_start_in_one_step() {
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
fn the_gate_is_per_scope() {
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
fn the_gate_is_per_placement_group() {
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
fn a_deletion_in_a_scope_that_is_off_is_hidden_and_does_not_wait() {
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
fn machines_with_different_timeouts_in_one_operation_are_deleted_at_different_times() {
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
fn each_member_of_an_availability_set_has_its_own_profile() {
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
