//! The lifecycle of an event: notice, start and end.

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn a_restart_has_fifteen_minutes_of_notice_starts_and_ends() {
    check(
        "
        vm a
        on a
        a> 1: -
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        wait 14m
        a> 2: e1 Reboot Scheduled a 1:00
        wait 1m
        a> 3: e1 Reboot Started a
        op1> running
        done e1
        a> 4: -
        op1> succeeded
    ",
    );
}

#[test]
fn the_notice_depends_on_the_kind() {
    check(
        "
        vm a host=h1
        vm s spot
        on a
        on s
        redeploy a
        a> 2: e1 Redeploy Scheduled a 10:00
        maintain a freeze
        a> 3: e1 Redeploy Scheduled a 10:00 | e2 Freeze Scheduled a 15:00
        maintain a freeze notice=1h
        a> 4: e1 Redeploy Scheduled a 10:00 | e2 Freeze Scheduled a 15:00 | e3 Freeze Scheduled a 60:00
        maintain a freeze notice=14m = NoticeTooShort
        evict s
        s> 2: e4 Preempt Scheduled s 0:30
    ",
    );
}

#[test]
fn not_before_is_rounded_up_to_a_whole_second() {
    check(
        "
        vm a
        on a
        wait 1ms
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        wait 15m
        a> 2: e1 Reboot Scheduled a 0:00
        wait 999ms
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn scaled_notice_is_shown_in_not_before() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a term=5m
        on a
        restart a
        a> 2: e1 Reboot Scheduled a 0:15
        delete a
        a> 3: e1 Reboot Scheduled a 0:15 | e2 Terminate Scheduled a 0:05
        wait 15s
        a> 4: e1 Reboot Scheduled a 0:00 | e2 Terminate Started a
    ",
    );
}

#[test]
fn a_restart_in_a_scope_that_is_off_is_immediate_and_hidden() {
    check(
        "
        vm a
        restart a
        a> off
        op1> running
        done e1
        op1> succeeded
        on a
        a> 1: -
    ",
    );
}

#[test]
fn a_driver_timeout_ends_the_event_and_fails_the_operation() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        a> 3: e1 Reboot Started a
        wait 1h
        a> 4: -
        op1> failed TimedOut
    ",
    );
}

#[test]
fn two_events_on_one_machine_start_one_after_the_other() {
    check(
        "
        vm a
        on a
        restart a
        maintain a freeze
        approve a e1 e2
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 15:00
        wait 20m
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 0:00
        done e1
        a> 5: e2 Freeze Started a
    ",
    );
}

#[test]
fn a_hardware_failure_has_no_notice_and_ends_started_events() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        fail a
        a> 4: e2 Reboot Started a
        op1> failed Superseded
        done e2
        a> 5: -
        op2> succeeded
    ",
    );
}

#[test]
fn an_event_of_a_stopped_machine_ends_without_effect() {
    check(
        "
        avset s a b
        on a
        maintain a reboot
        off a
        wait 15m
        a> 3: -
        op1> succeeded
        restart a = NotRunning
    ",
    );
}
