//! Notice periods.

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn freeze_and_reboot_have_fifteen_minutes_of_notice_and_redeploy_has_ten() {
    check(
        "
        vm a
        vm b
        vm c
        vm d
        on a
        on b
        on c
        on d
        maintain a freeze
        a> 2: e1 Freeze Scheduled a 15:00
        maintain b reboot
        b> 2: e2 Reboot Scheduled b 15:00
        maintain c redeploy
        c> 2: e3 Redeploy Scheduled c 10:00
        maintain d freeze migration
        d> 2: e4 Freeze Scheduled d 15:00
    ",
    );
}

#[test]
fn user_requests_have_the_notice_of_their_type() {
    check(
        "
        vm a
        on a
        restart a
        redeploy a
        perform a
        a> 4: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled a 10:00 | e3 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn an_eviction_has_thirty_seconds_of_notice() {
    check(
        "
        vm a spot
        on a
        evict a
        a> 2: e1 Preempt Scheduled a 0:30
        wait 29s
        a> 2: e1 Preempt Scheduled a 0:01
        wait 1s
        a> 3: e1 Preempt Started a
    ",
    );
}

#[test]
fn a_deletion_has_the_notice_of_the_machine_profile() {
    check(
        "
        vm a term=5m
        vm b term=450s
        vm c term=15m
        on a
        on b
        on c
        delete a
        a> 2: e1 Terminate Scheduled a 5:00
        delete b
        b> 2: e2 Terminate Scheduled b 7:30
        delete c
        c> 2: e3 Terminate Scheduled c 15:00
    ",
    );
}

#[test]
fn a_hardware_failure_has_no_notice() {
    check(
        "
        vm a
        on a
        fail a
        history> e1 appeared, e1 started
        a> 2: e1 Reboot Started a
    ",
    );
}

#[test]
fn no_event_starts_before_not_before() {
    check(
        "
        vm a
        on a
        redeploy a
        wait 9m
        wait 59s
        wait 999ms
        a> 2: e1 Redeploy Scheduled a 0:00
        wait 1ms
        a> 3: e1 Redeploy Started a
    ",
    );
}

#[test]
fn a_plan_can_extend_the_notice() {
    check(
        "
        vm a
        on a
        maintain a freeze notice=16m
        a> 2: e1 Freeze Scheduled a 16:00
    ",
    );
}

#[test]
fn a_plan_can_request_the_minimum_notice() {
    check(
        "
        vm a
        on a
        maintain a freeze notice=15m
        maintain a reboot notice=900s
        maintain a redeploy notice=10m
        a> 4: e1 Freeze Scheduled a 15:00 | e2 Reboot Scheduled a 15:00 | e3 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn a_plan_cannot_shorten_the_notice() {
    check(
        "
        vm a
        on a
        maintain a freeze notice=14m = NoticeTooShort
        maintain a reboot notice=899s = NoticeTooShort
        maintain a redeploy notice=599s = NoticeTooShort
        maintain a freeze notice=0s = NoticeTooShort
        a> 1: -
        left> 0
    ",
    );
}

#[test]
fn a_short_notice_is_rejected_even_in_a_scope_that_is_off() {
    check(
        "
        vm a
        maintain a freeze notice=14m = NoticeTooShort
        left> 0
    ",
    );
}

#[test]
fn a_planned_time_after_the_notice_period_is_used() {
    check(
        "
        vm a
        on a
        maintain a freeze in=1h
        a> 2: e1 Freeze Scheduled a 60:00
        wait 1h
        a> 3: e1 Freeze Started a
    ",
    );
}

#[test]
fn a_planned_time_within_the_notice_period_is_postponed() {
    check(
        "
        vm a
        on a
        maintain a freeze in=5m
        a> 2: e1 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn the_later_of_planned_time_and_requested_notice_is_used() {
    check(
        "
        vm a
        on a
        maintain a freeze in=1h notice=2h
        a> 2: e1 Freeze Scheduled a 120:00
        maintain a freeze in=3h notice=1h
        a> 3: e1 Freeze Scheduled a 120:00 | e2 Freeze Scheduled a 180:00
    ",
    );
}

#[test]
fn a_planned_time_must_be_in_the_future_but_not_too_far() {
    check(
        "
        vm a
        on a
        maintain a freeze ago=1m = PlanPast
        maintain a freeze in=9601h = PlanTooFar
        maintain a freeze notice=9601h = PlanTooFar
        a> 1: -
        maintain a freeze in=9600h
        a> 2: e1 Freeze Scheduled a 576000:00
    ",
    );
}

#[test]
fn not_before_is_rounded_up_for_every_kind() {
    check(
        "
        vm a spot
        vm b term=5m
        on a
        on b
        wait 250ms
        evict a
        redeploy b
        delete b
        maintain b freeze in=1h
        wait 750ms
        a> 2: e1 Preempt Scheduled a 0:30
        b> 4: e2 Redeploy Scheduled b 10:00 | e3 Terminate Scheduled b 5:00 | e4 Freeze Scheduled b 60:00
    ",
    );
}

#[test]
fn a_whole_second_is_not_rounded() {
    check(
        "
        vm a
        on a
        wait 3s
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        wait 15m
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_late_tick_starts_overdue_events() {
    check(
        "
        vm a
        on a
        restart a
        jump 3h
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn overdue_events_start_before_a_late_command_is_applied() {
    check(
        "
        vm a
        on a
        restart a
        jump 14m
        back 0s
        wait 0s
        restart a
        a> 2: e1 Reboot Scheduled a 1:00
        wait 1m
        restart a
        a> 4: e1 Reboot Started a | e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn approval_shortens_the_notice() {
    check(
        "
        vm a
        on a
        restart a
        wait 5m
        approve a e1
        a> 3: e1 Reboot Started a
        wait 10m
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn scaled_notice_is_the_real_notice_divided_by_the_scale() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        vm s spot
        vm d term=15m
        on a
        on s
        on d
        maintain a freeze
        redeploy a
        a> 3: e1 Freeze Scheduled a 0:15 | e2 Redeploy Scheduled a 0:10
        delete d
        d> 2: e3 Terminate Scheduled d 0:15
        wait 15s
        d> 3: e3 Terminate Started d
    ",
    );
}

#[test]
fn scaled_notice_below_a_second_is_rounded_up() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm s spot
        on s
        evict s
        s> 2: e1 Preempt Scheduled s 0:01
        wait 999ms
        s> 2: e1 Preempt Scheduled s 0:00
        wait 1ms
        s> 3: e1 Preempt Started s
    ",
    );
}

#[test]
fn the_notice_of_a_plan_is_scaled() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        on a
        maintain a freeze notice=14m = NoticeTooShort
        maintain a freeze notice=30m
        a> 2: e1 Freeze Scheduled a 0:30
    ",
    );
}

#[test]
fn planned_times_are_not_scaled() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        on a
        maintain a freeze in=1h
        a> 2: e1 Freeze Scheduled a 60:00
    ",
    );
}

#[test]
fn a_planned_event_that_appears_late_has_scaled_notice() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        maintain a freeze in=2h
        wait 7199s
        on a
        a> 1: e1 Freeze Scheduled a 0:15
    ",
    );
}

#[test]
fn a_changed_scale_only_affects_new_events() {
    check(
        "
        vm a
        vm b
        on a
        on b
        restart a
        notice 60
        a> 2: e1 Reboot Scheduled a 15:00
        restart b
        b> 2: e2 Reboot Scheduled b 0:15
        notice 1
        b> 2: e2 Reboot Scheduled b 0:15
        wait 15s
        b> 3: e2 Reboot Started b
        wait 14m
        a> 2: e1 Reboot Scheduled a 0:45
        wait 45s
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn the_idle_time_is_not_scaled() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        on a
        wait 23h
        a> 1: -
    ",
    );
}

#[test]
fn the_driver_timeout_is_not_scaled() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        vm a
        on a
        restart a
        approve a e1
        wait 59m
        a> 3: e1 Reboot Started a
        wait 1m
        op1> failed TimedOut
    ",
    );
}

#[test]
fn the_time_of_the_region_never_goes_back() {
    check(
        "
        vm a
        on a
        wait 10m
        restart a
        back 5m
        on a
        a> 2: e1 Reboot Scheduled a 15:00
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn notice_starts_at_the_latest_time_seen_while_the_clock_is_behind() {
    check(
        "
        vm a
        vm b
        on a
        on b
        wait 10m
        restart a
        back 10m
        restart b
        a> 2: e1 Reboot Scheduled a 15:00
        b> 2: e2 Reboot Scheduled b 15:00
        wait 24m
        a> 2: e1 Reboot Scheduled a 1:00
        wait 1m
        a> 3: e1 Reboot Started a
        b> 3: e2 Reboot Started b
    ",
    );
}

#[test]
fn a_clock_that_is_behind_changes_nothing() {
    check(
        "
        vm a
        on a
        restart a
        wait 15m
        a> 3: e1 Reboot Started a
        back 15m
        on a
        a> 3: e1 Reboot Started a
        done e1
        a> 4: -
    ",
    );
}

#[test]
fn downtime_by_a_clock_that_is_behind_is_zero() {
    check(
        "
        vm a
        on a
        wait 20h
        back 10h
        crash 1h
        a> 1: -
        wait 12h
        a> 1: -
        wait 3h
        a> off
    ",
    );
}
