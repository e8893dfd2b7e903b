//! Turning scopes on and off, and events in scopes that are off.

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn a_scope_is_off_until_the_first_request() {
    check(
        "
        vm a
        vm b
        a> off
        on a
        history> on
        a> 1: -
        b> off
    ",
    );
}

#[test]
fn a_second_request_changes_nothing() {
    check(
        "
        vm a
        on a
        on a
        history> -
        a> 1: -
    ",
    );
}

#[test]
fn a_request_of_one_machine_turns_on_its_availability_set() {
    check(
        "
        avset s a b c
        on b
        a> 1: -
        b> 1: -
        c> 1: -
    ",
    );
}

#[test]
fn a_request_of_one_machine_turns_on_its_cloud_service() {
    check(
        "
        service s a b
        on b
        a> 1: -
    ",
    );
}

#[test]
fn a_request_of_one_machine_turns_on_its_flexible_set() {
    check(
        "
        set w flexible 3
        w/1> off
        on w/2
        w/1> 1: -
        w/3> 1: -
    ",
    );
}

#[test]
fn placement_groups_turn_on_together_but_have_their_own_documents() {
    check(
        "
        set w uniform 3 max=1
        on w_1
        w_0> 1: -
        w_2> 1: -
        restart w_2
        w_0> 1: -
        w_1> 1: -
        w_2> 2: e1 Reboot Scheduled w_2 15:00
    ",
    );
}

#[test]
fn placement_groups_turn_off_together() {
    check(
        "
        set w uniform 3 max=1
        on w_0
        wait 23h
        on w_2
        wait 23h
        w_0> 1: -
        w_1> 1: -
        w_2> 1: -
        wait 2h
        w_0> off
        w_1> off
        w_2> off
    ",
    );
}

#[test]
fn an_event_in_one_placement_group_keeps_all_of_them_on() {
    check(
        "
        set w uniform 2 max=1
        on w_0
        maintain w_1 freeze notice=48h
        wait 30h
        w_0> 1: -
        w_1> 2: e1 Freeze Scheduled w_1 1080:00
    ",
    );
}

#[test]
fn a_new_placement_group_of_a_set_that_is_on_is_on() {
    check(
        "
        set w uniform 1 max=1
        on w_0
        scale w 2
        w_1? part=1
        w_1> 1: -
    ",
    );
}

#[test]
fn a_machine_that_joins_a_group_that_is_on_gets_notice() {
    check(
        "
        avset s a
        on a
        join s b
        b> 1: -
        restart b
        b> 2: e1 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn joining_a_group_does_not_turn_its_scope_on() {
    check(
        "
        avset s a
        join s b
        b> off
    ",
    );
}

#[test]
fn a_scope_turns_off_after_an_idle_day() {
    check(
        "
        vm a
        on a
        wait 23h
        a> 1: -
        wait 59m
        a> 1: -
        wait 61m
        a> off
    ",
    );
}

#[test]
fn the_idle_time_is_configurable() {
    check_with(
        Settings { idle_disable: Duration::from_secs(2 * 3600), ..Settings::default() },
        "
        vm a
        on a
        wait 119m
        a> 1: -
        wait 61m
        a> off
    ",
    );
}

#[test]
fn requests_keep_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 23h
        on a
        wait 23h
        on a
        wait 23h
        a> 1: -
        wait 2h
        a> off
    ",
    );
}

#[test]
fn requests_of_any_machine_keep_the_scope_on() {
    check(
        "
        avset s a b
        on a
        wait 23h
        on b
        wait 23h
        a> 1: -
        wait 2h
        a> off
    ",
    );
}

#[test]
fn an_accepted_approval_keeps_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 23h
        restart a
        approve a e1
        done e1
        wait 23h
        a> 4: -
        wait 2h
        a> off
    ",
    );
}

#[test]
fn an_empty_approval_keeps_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 23h
        approve a
        wait 23h
        a> 1: -
    ",
    );
}

#[test]
fn an_empty_approval_does_not_turn_a_scope_on() {
    check(
        "
        vm a
        approve a
        a> off
    ",
    );
}

#[test]
fn a_rejected_approval_does_not_keep_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 23h
        approve a e99 = UnknownEvents
        wait 2h
        a> off
    ",
    );
}

#[test]
fn an_approval_by_an_operator_does_not_keep_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 23h
        restart a
        ack e1
        done e1
        wait 2h
        a> off
    ",
    );
}

#[test]
fn ended_events_do_not_keep_a_scope_on() {
    check(
        "
        vm a
        on a
        wait 12h
        restart a
        approve a e1
        done e1
        wait 11h
        restart a
        ack e2
        done e2
        wait 14h
        a> off
    ",
    );
}

#[test]
fn a_scheduled_event_keeps_a_scope_on() {
    check(
        "
        vm a
        on a
        maintain a freeze notice=48h
        wait 30h
        a> 2: e1 Freeze Scheduled a 1080:00
        cancel-event e1
        wait 1h
        a> off
    ",
    );
}

#[test]
fn a_started_event_keeps_a_scope_on() {
    check_with(
        Settings { driver_timeout: Duration::from_secs(100 * 3600), ..Settings::default() },
        "
        vm a
        on a
        restart a
        wait 40h
        a> 3: e1 Reboot Started a
        done e1
        wait 1h
        a> off
    ",
    );
}

#[test]
fn hidden_events_do_not_keep_a_scope_on() {
    check(
        "
        vm a
        restart a
        on a
        wait 59m
        done e1
        wait 25h
        a> off
    ",
    );
}

#[test]
fn downtime_does_not_count_as_idle_time() {
    check(
        "
        vm a
        on a
        wait 12h
        crash 20h
        a> 1: -
        wait 11h
        a> 1: -
        wait 150m
        a> off
    ",
    );
}

#[test]
fn repeated_downtime_does_not_count_as_idle_time() {
    check(
        "
        vm a
        on a
        10x crash 20h
        a> 1: -
        wait 23h
        a> 1: -
        wait 2h
        a> off
    ",
    );
}

#[test]
fn downtime_longer_than_the_idle_time_leaves_a_scope_on() {
    check(
        "
        vm a
        on a
        crash 100h
        a> 1: -
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn downtime_does_not_count_as_notice() {
    check(
        "
        vm a
        on a
        restart a
        wait 5m
        crash 20m
        # NotBefore stays as announced, but the machine still has 10 minutes.
        a> 2: e1 Reboot Scheduled a 0:00
        wait 599s
        a> 2: e1 Reboot Scheduled a 0:00
        crash 1h
        a> 2: e1 Reboot Scheduled a 0:00
        # The time is stored every ten seconds, so up to that much is given again.
        wait 10s
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn downtime_does_not_postpone_events_that_were_visible_long_enough() {
    check(
        "
        vm a
        on a
        maintain a reboot in=2h
        wait 15m
        crash 2h
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn an_approval_ends_the_notice_that_downtime_extended() {
    check(
        "
        vm a
        on a
        restart a
        crash 20m
        a> 2: e1 Reboot Scheduled a 0:00
        approve a e1
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_host_operation_past_its_not_before_waits_for_an_event_group_that_turns_on() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        restart a
        approve a e1
        a> 3: e1 Reboot Started a
        maintain host h1 freeze
        wait 20m
        # The restart still runs, so the host operation is past its NotBefore and waits.
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 0:00
        on b
        b> 1: e3 Freeze Scheduled b 15:00
        done e1
        a> 5: e2 Freeze Scheduled a 0:00
        wait 15m
        a> 6: e2 Freeze Started a
        b> 2: e3 Freeze Started b
    ",
    );
}

#[test]
fn planned_times_survive_downtime() {
    check(
        "
        vm a
        maintain a freeze in=2h
        crash 3h
        e1> hidden started
    ",
    );
}

#[test]
fn a_single_late_tick_turns_an_idle_scope_off() {
    check(
        "
        vm a
        on a
        jump 100h
        a> off
    ",
    );
}

#[test]
fn every_kind_of_event_is_immediate_in_a_scope_that_is_off() {
    check(
        "
        vm a
        vm b
        vm c spot
        vm d term=10m
        vm f
        redeploy a
        e1> hidden started
        maintain b freeze
        e2> hidden started
        evict c
        e3> hidden started
        delete d
        e4> hidden started
        fail f
        e5> hidden started
        drivers> e1 e2 e3 e4 e5
        a> off
        b> off
        c> off
        d> off
        f> off
        done e1
        done e2
        done e3
        done e4
        done e5
        c? deallocated
        d> gone
        op1> succeeded
        op2> succeeded
        op3> succeeded
        op4> succeeded
        op5> succeeded
    ",
    );
}

#[test]
fn hidden_events_of_one_machine_still_run_one_after_the_other() {
    check(
        "
        vm a
        restart a
        redeploy a
        e1> hidden started
        e2> hidden scheduled
        done e1
        e2> hidden started
        done e2
        op2> succeeded
    ",
    );
}

#[test]
fn a_started_hidden_event_stays_hidden_when_the_scope_turns_on() {
    check(
        "
        vm a
        restart a
        on a
        a> 1: -
        done e1
        a> 1: -
        op1> succeeded
    ",
    );
}

#[test]
fn a_started_hidden_event_blocks_later_events() {
    check(
        "
        vm a
        restart a
        on a
        redeploy a
        approve a e2
        a> 2: e2 Redeploy Scheduled a 10:00
        done e1
        a> 3: e2 Redeploy Started a
    ",
    );
}

#[test]
fn guests_cannot_approve_hidden_events() {
    check(
        "
        vm a
        maintain a freeze in=2h
        approve a e1 = UnknownEvents
        restart a
        approve a e2 = UnknownEvents
    ",
    );
}

#[test]
fn a_planned_hidden_event_waits_for_its_time() {
    check(
        "
        vm a
        maintain a freeze in=2h
        a> off
        e1> hidden scheduled
        wait 119m
        e1> hidden scheduled
        wait 1m
        e1> hidden started
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn planned_events_appear_when_the_scope_turns_on() {
    check(
        "
        vm a
        maintain a freeze in=2h
        on a
        a> 1: e1 Freeze Scheduled a 120:00
        wait 2h
        a> 2: e1 Freeze Started a
    ",
    );
}

#[test]
fn a_planned_event_that_appears_late_has_the_minimum_notice() {
    check(
        "
        vm a
        maintain a freeze in=2h
        wait 115m
        on a
        a> 1: e1 Freeze Scheduled a 15:00
        wait 14m
        a> 1: e1 Freeze Scheduled a 1:00
        wait 1m
        a> 2: e1 Freeze Started a
    ",
    );
}

#[test]
fn a_planned_event_that_appears_in_time_keeps_not_before() {
    check(
        "
        vm a
        maintain a freeze in=2h
        wait 105m
        on a
        a> 1: e1 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn a_planned_redeploy_that_appears_late_has_ten_minutes_of_notice() {
    check(
        "
        vm a
        maintain a redeploy in=1h
        wait 59m
        on a
        a> 1: e1 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn a_planned_event_that_has_appeared_can_be_approved() {
    check(
        "
        vm a
        maintain a reboot in=2h
        on a
        approve a e1
        a> 2: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_planned_hidden_event_can_be_canceled() {
    check(
        "
        vm a
        maintain a reboot in=2h
        cancel op1
        op1> canceled
        e1> canceled
        on a
        a> 1: -
    ",
    );
}

#[test]
fn a_planned_event_appears_once_if_the_scope_turns_off_and_on() {
    check(
        "
        vm a
        on a
        wait 26h
        a> off
        maintain a freeze in=5h
        on a
        a> 2: e1 Freeze Scheduled a 300:00
    ",
    );
}

#[test]
fn planned_events_appear_in_order_of_creation() {
    check(
        "
        vm a
        maintain a freeze in=5h
        maintain a reboot in=2h
        on a
        a> 1: e1 Freeze Scheduled a 300:00 | e2 Reboot Scheduled a 120:00
    ",
    );
}

#[test]
fn the_incarnation_survives_turning_off_and_on() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        done e1
        a> 4: -
        wait 26h
        a> off
        on a
        a> 4: -
        restart a
        a> 5: e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn hidden_events_do_not_change_the_incarnation() {
    check(
        "
        vm a
        on a
        wait 26h
        restart a
        done e1
        redeploy a
        done e2
        on a
        a> 1: -
    ",
    );
}

#[test]
fn requests_are_immediate_again_after_the_scope_turned_off() {
    check(
        "
        vm a
        on a
        wait 26h
        restart a
        e1> hidden started
        a> off
    ",
    );
}

#[test]
fn operators_cannot_approve_hidden_events() {
    check(
        "
        vm a
        maintain a freeze in=2h
        ack e1 = UnknownEvents
        a> off
    ",
    );
}

#[test]
fn a_blocked_hidden_event_stays_hidden() {
    check(
        "
        vm a
        restart a
        redeploy a
        on a
        a> 1: -
        done e1
        a> 1: -
        e2> hidden started
        done e2
        a> 1: -
        op2> succeeded
    ",
    );
}
