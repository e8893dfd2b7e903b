//! How long ahead events are told (semantics 2.2, 7).

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn freeze_and_reboot_are_told_fifteen_minutes_ahead_redeploy_ten() {
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
fn what_users_ask_for_has_the_notice_of_its_type() {
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
fn an_eviction_is_told_thirty_seconds_ahead() {
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
fn a_deletion_is_told_as_long_ahead_as_the_machine_says() {
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
fn hardware_failure_is_not_told_ahead() {
    check(
        "
        vm a
        on a
        fail a
        told> e1 appeared, e1 started
        a> 2: e1 Reboot Started a
    ",
    );
}

#[test]
fn nothing_starts_before_its_time() {
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
fn a_plan_may_give_more_notice() {
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
fn a_plan_may_give_exactly_the_least_notice() {
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
fn a_plan_may_not_give_less_notice() {
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
fn less_notice_is_refused_in_a_scope_that_is_off_too() {
    check(
        "
        vm a
        maintain a freeze notice=14m = NoticeTooShort
        left> 0
    ",
    );
}

#[test]
fn a_planned_time_further_away_than_the_notice_counts() {
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
fn a_planned_time_within_the_notice_is_put_off() {
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
fn the_later_of_planned_time_and_wanted_notice_counts() {
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
fn a_plan_lies_ahead_but_not_too_far() {
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
fn the_time_is_rounded_up_for_every_kind() {
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
fn on_a_whole_second_nothing_is_rounded() {
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
fn a_look_at_the_clock_that_comes_late_starts_what_is_overdue() {
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
fn what_is_overdue_happens_before_the_command_that_comes_late() {
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
fn scaled_notice_is_the_real_one_divided() {
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
fn the_notice_that_a_plan_gives_is_scaled_too() {
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
fn with_scaled_notice_planned_times_stay_what_they_are() {
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
fn planned_work_that_appears_late_gives_scaled_notice() {
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
fn a_changed_scale_touches_new_events_only() {
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
fn the_silence_that_turns_a_scope_off_is_not_scaled() {
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
fn the_patience_with_drivers_is_not_scaled() {
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
fn the_clock_never_goes_back() {
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
fn an_event_made_while_the_clock_is_back_counts_from_the_latest_time_seen() {
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
fn a_clock_that_is_back_starts_nothing_and_undoes_nothing() {
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
fn an_outage_by_a_clock_that_is_back_is_none() {
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
