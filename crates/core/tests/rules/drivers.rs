//! What drivers say, and do not say (semantics 2.6).

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn done_ends_an_event_well() {
    check(
        "
        vm a
        on a
        restart a
        drivers> -
        approve a e1
        drivers> e1
        done e1
        told> e1 completed, op1 over
        drivers> -
        a> 4: -
        op1> succeeded
    ",
    );
}

#[test]
fn failed_ends_an_event_badly() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        failed e1
        told> e1 failed, op1 over
        a> 4: -
        op1> failed Failed
    ",
    );
}

#[test]
fn nobody_reports_on_what_has_not_started() {
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
fn nobody_reports_twice() {
    check(
        "
        vm a
        on a
        fail a
        done e1
        done e1 = EventOver
        failed e1 = EventOver
        op1> succeeded
    ",
    );
}

#[test]
fn nobody_reports_on_what_never_was() {
    check(
        "
        done e99 = UnknownEvent
        failed e99 = UnknownEvent
    ",
    );
}

#[test]
fn silence_is_failure_after_an_hour() {
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
        told> e1 timedout, op1 over
        a> 4: -
        e1> timedout
        op1> failed TimedOut
    ",
    );
}

#[test]
fn how_long_silence_may_be_can_be_set() {
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
fn silence_counts_from_the_start_and_not_from_the_approval() {
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
fn silence_about_hidden_work_is_failure_too() {
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
fn silence_ends_what_holds_others_back() {
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
fn a_redeploy_that_fails_leaves_the_machine_where_it_was() {
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
fn a_deletion_that_is_not_answered_leaves_the_machine() {
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
fn a_deletion_that_failed_can_be_asked_for_again() {
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
fn a_deletion_that_failed_does_not_hold_the_gate() {
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
fn a_set_whose_deletion_failed_can_be_scaled_again() {
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
fn of_several_outcomes_the_operation_tells_a_bad_one() {
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
fn after_an_outage_drivers_find_what_had_started() {
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
fn nothing_is_left_for_drivers_once_all_is_over() {
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
