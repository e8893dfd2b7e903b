//! When a scope listens, and what happens in one that does not (semantics 2.1).

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn a_scope_is_off_until_one_of_its_machines_asks() {
    check(
        "
        vm a
        vm b
        a> off
        on a
        told> on
        a> 1: -
        b> off
    ",
    );
}

#[test]
fn asking_again_changes_nothing() {
    check(
        "
        vm a
        on a
        on a
        told> -
        a> 1: -
    ",
    );
}

#[test]
fn one_machine_that_asks_turns_on_its_availability_set() {
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
fn one_machine_that_asks_turns_on_its_cloud_service() {
    check(
        "
        service s a b
        on b
        a> 1: -
    ",
    );
}

#[test]
fn one_machine_that_asks_turns_on_its_flexible_set() {
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
fn placement_groups_go_on_together_but_keep_their_own_documents() {
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
fn placement_groups_go_off_together() {
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
fn an_event_in_one_placement_group_keeps_all_on() {
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
fn a_placement_group_that_is_added_to_a_set_that_is_on_is_on() {
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
fn a_machine_that_joins_a_group_that_is_on_is_told() {
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
fn a_machine_that_joins_does_not_turn_on_what_is_off() {
    check(
        "
        avset s a
        join s b
        b> off
    ",
    );
}

#[test]
fn a_day_of_silence_turns_a_scope_off() {
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
fn the_day_of_silence_can_be_made_shorter() {
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
fn asking_keeps_a_scope_on() {
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
fn any_machine_of_the_scope_keeps_it_on() {
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
fn an_approval_that_is_accepted_keeps_a_scope_on() {
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
fn approving_nothing_keeps_a_scope_on() {
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
fn approving_nothing_does_not_turn_a_scope_on() {
    check(
        "
        vm a
        approve a
        a> off
    ",
    );
}

#[test]
fn an_approval_that_is_refused_does_not_keep_a_scope_on() {
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
fn an_approval_from_outside_does_not_keep_a_scope_on() {
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
fn work_does_not_keep_a_scope_on_once_it_is_over() {
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
        uncall e1
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
fn hidden_work_does_not_keep_a_scope_on() {
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
fn time_in_which_the_server_did_not_run_does_not_count() {
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
fn many_outages_do_not_count_either() {
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
fn an_outage_longer_than_the_day_of_silence_leaves_a_scope_on() {
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
fn an_outage_does_not_postpone_events() {
    check(
        "
        vm a
        on a
        restart a
        crash 20m
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn an_outage_is_no_reason_to_forget_the_time_of_a_plan() {
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
fn the_server_slept_on_a_busy_clock_and_turns_off_at_one_look() {
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
fn in_a_scope_that_is_off_every_kind_of_work_runs_at_once() {
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
fn in_a_scope_that_is_off_work_of_one_machine_still_goes_one_after_the_other() {
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
fn work_that_runs_unseen_stays_unseen_when_the_scope_turns_on() {
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
fn work_that_runs_unseen_still_holds_back_what_comes_after() {
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
fn guests_cannot_approve_what_they_were_never_shown() {
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
fn planned_work_waits_unseen_for_its_time() {
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
fn planned_work_appears_when_the_scope_turns_on() {
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
fn planned_work_that_appears_late_still_gives_its_notice() {
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
fn planned_work_that_appears_with_just_its_notice_keeps_its_time() {
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
fn a_planned_redeploy_that_appears_late_gives_ten_minutes() {
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
fn planned_work_that_appears_can_be_approved() {
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
fn planned_work_can_be_cancelled_unseen() {
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
fn planned_work_of_a_scope_that_went_off_and_on_appears_once() {
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
fn two_plans_appear_in_the_order_in_which_they_were_made() {
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
fn the_incarnation_stays_over_off_and_on() {
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
fn what_happens_while_a_scope_is_off_does_not_count_in_its_incarnation() {
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
fn work_asked_for_after_the_scope_went_off_runs_at_once_again() {
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
fn nobody_outside_can_approve_what_is_hidden_either() {
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
fn work_that_waits_unseen_for_other_work_stays_unseen_too() {
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
