//! Driver reports and timeouts.

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn a_success_report_completes_the_event() {
    check(
        "
        vm a
        on a
        restart a
        drivers> -
        approve a e1
        drivers> e1
        done e1
        history> e1 completed, op1 over
        drivers> -
        a> 4: -
        op1> succeeded
    ",
    );
}

#[test]
fn a_failure_report_fails_the_event() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        failed e1
        history> e1 failed, op1 over
        a> 4: -
        op1> failed Failed
    ",
    );
}

#[test]
fn reports_on_scheduled_events_are_rejected() {
    check(
        "
        vm a
        on a
        restart a
        done e1 = NotStarted
        failed e1 = NotStarted
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn a_second_report_is_rejected() {
    check(
        "
        vm a
        on a
        fail a
        done e1
        done e1 = EventEnded
        failed e1 = EventEnded
        op1> succeeded
    ",
    );
}

#[test]
fn reports_on_unknown_events_are_rejected() {
    check(
        "
        done e99 = UnknownEvent
        failed e99 = UnknownEvent
    ",
    );
}

#[test]
fn an_event_times_out_after_an_hour_without_a_report() {
    check(
        "
        vm a
        on a
        restart a
        wait 15m
        a> 3: e1 Reboot Started a
        wait 59m
        a> 3: e1 Reboot Started a
        wait 1m
        history> e1 timedout, op1 over
        a> 4: -
        e1> timedout
        op1> failed TimedOut
    ",
    );
}

#[test]
fn the_driver_timeout_is_configurable() {
    check_with(
        Settings { driver_timeout: Duration::from_secs(60), ..Settings::default() },
        "
        vm a
        on a
        fail a
        wait 59s
        e1> started
        wait 1s
        e1> timedout
    ",
    );
}

#[test]
fn the_driver_timeout_starts_when_the_event_starts() {
    check(
        "
        vm a
        on a
        fail a
        wait 50m
        restart a
        approve a e2
        done e1
        e2> started
        wait 59m
        e2> started
        wait 1m
        e2> timedout
    ",
    );
}

#[test]
fn hidden_events_time_out_too() {
    check(
        "
        vm a
        restart a
        wait 1h
        op1> failed TimedOut
    ",
    );
}

#[test]
fn a_timeout_unblocks_waiting_events() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        maintain a freeze
        approve a e2
        wait 1h
        a> 5: e2 Freeze Started a
        op1> failed TimedOut
    ",
    );
}

#[test]
fn a_failed_redeploy_does_not_move_the_machine() {
    check(
        "
        vm a host=h1
        host h2
        on a
        redeploy a
        approve a e1
        failed e1
        a? running host=h1
    ",
    );
}

#[test]
fn a_deletion_that_times_out_keeps_the_machine() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        wait 5m
        wait 1h
        op1> failed TimedOut
        machines> w_0 w_1
        w? capacity=2
    ",
    );
}

#[test]
fn a_failed_deletion_can_be_requested_again() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        wait 5m
        failed e1
        delete w_1
        w_0> 5: e2 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn a_failed_deletion_does_not_close_the_gate() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1
        approve w_0 e1
        failed e1
        delete w_2
        approve w_0 e2
        w_0> 6: e2 Terminate Started w_2
    ",
    );
}

#[test]
fn a_set_can_be_scaled_after_a_failed_deletion() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        drop w
        approve w_0 e1 e2
        failed e1
        done e2
        op1> failed Failed
        machines> w_0
        scale w 2
        w? capacity=2 size=2
    ",
    );
}

#[test]
fn one_failed_event_fails_the_operation() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1 w_2
        wait 5m
        failed e1
        op1> running
        done e2
        op1> failed Failed
        machines> w_0 w_1
    ",
    );
}

#[test]
fn started_events_are_still_wanted_after_downtime() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        crash 30m
        drivers> e1
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn no_effects_are_wanted_after_all_events_have_ended() {
    check(
        "
        avset s a b host=h1
        on a
        maintain host h1 freeze
        wait 15m
        drivers> e1 e2
        done e2
        drivers> e1
        done e1
        drivers> -
    ",
    );
}
