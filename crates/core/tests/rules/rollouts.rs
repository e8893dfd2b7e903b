//! Maintenance of a whole group, one update domain after the other (semantics 2.8).

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn domains_take_turns_with_a_pause_between() {
    check(
        "
        avset s a b c
        on a
        maintain group s freeze
        a> 2: e1 Freeze Scheduled a 15:00
        approve a e1
        a> 3: e1 Freeze Started a
        done e1
        a> 4: -
        op1> running
        wait 29m
        a> 4: -
        wait 1m
        a> 5: e2 Freeze Scheduled b 15:00
        wait 15m
        a> 6: e2 Freeze Started b
        done e2
        wait 30m
        a> 8: e3 Freeze Scheduled c 15:00
        approve a e3
        done e3
        a> 10: -
        op1> succeeded
    ",
    );
}

#[test]
fn machines_of_one_domain_share_an_event() {
    check(
        "
        avset s a b c d f uds=2
        on a
        maintain group s reboot
        a> 2: e1 Reboot Scheduled a,c,f 15:00
        approve b e1
        done e1
        wait 30m
        a> 5: e2 Reboot Scheduled b,d 15:00
    ",
    );
}

#[test]
fn five_domains_are_given_out_round_robin() {
    check(
        "
        avset s a b c d f g
        a? ud=0
        b? ud=1
        f? ud=4
        g? ud=0
    ",
    );
}

#[test]
fn empty_domains_are_skipped() {
    check(
        "
        avset s
        join s a ud=1
        join s b ud=3
        on a
        maintain group s freeze
        a> 2: e1 Freeze Scheduled a 15:00
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
        approve a e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn after_the_last_domain_there_is_no_pause() {
    check(
        "
        avset s a
        on a
        maintain group s freeze
        approve a e1
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn the_pause_can_be_set() {
    check_with(
        Settings { update_domain_pause: Duration::from_secs(60), ..Settings::default() },
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        wait 59s
        a> 4: -
        wait 1s
        a> 5: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn the_pause_is_scaled() {
    check_with(
        Settings { notice_scale: 60, ..Settings::default() },
        "
        avset s a b
        on a
        maintain group s freeze
        a> 2: e1 Freeze Scheduled a 0:15
        approve a e1
        done e1
        wait 29s
        a> 4: -
        wait 1s
        a> 5: e2 Freeze Scheduled b 0:15
    ",
    );
}

#[test]
fn a_machine_that_joins_a_later_domain_takes_part() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        join s c ud=1
        join s d ud=4
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b,c 15:00
        approve a e2
        done e2
        op1> running
        wait 30m
        a> 8: e3 Freeze Scheduled d 15:00
    ",
    );
}

#[test]
fn a_machine_that_joins_a_domain_at_work_or_past_is_not_visited() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        join s c ud=0
        a> 2: e1 Freeze Scheduled a 15:00
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
        join s d ud=0
        join s f ud=1
        approve a e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn a_machine_that_joins_during_the_pause_is_visited_at_its_turn() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        join s c ud=1
        wait 30m
        a> 5: e2 Freeze Scheduled b,c 15:00
    ",
    );
}

#[test]
fn a_machine_that_changes_its_domain_is_visited_with_its_new_one() {
    check(
        "
        avset s a b c
        on a
        maintain group s freeze
        approve a e1
        done e1
        ud c 1
        wait 30m
        a> 5: e2 Freeze Scheduled b,c 15:00
        approve a e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn the_domain_of_a_machine_with_an_event_stays() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        ud a 3 = MachineBusy
        ud b 3
        approve a e1
        ud a 3 = MachineBusy
        done e1
        ud a 3
        a? ud=3
    ",
    );
}

#[test]
fn a_domain_emptied_before_its_turn_is_skipped() {
    check(
        "
        avset s a b c
        on a
        maintain group s freeze
        approve a e1
        done e1
        delete b
        done e2
        wait 30m
        a> 5: e3 Freeze Scheduled c 15:00
    ",
    );
}

#[test]
fn when_all_that_was_ahead_is_gone_the_roll_out_ends() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        delete b
        done e2
        approve a e1
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn a_domain_whose_machine_goes_during_its_event_is_passed() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        delete a
        done e2
        e1> resourcegone
        op1> running
        wait 30m
        b> 4: e3 Freeze Scheduled b 15:00
        approve b e3
        done e3
        op1> failed ResourceGone
    ",
    );
}

#[test]
fn each_domain_is_on_or_off_at_its_turn() {
    check(
        "
        avset s a b
        maintain group s freeze
        e1> hidden started
        done e1
        on a
        a> 1: -
        wait 30m
        a> 2: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_roll_out_in_a_scope_that_is_off_still_goes_by_domains() {
    check(
        "
        avset s a b
        maintain group s freeze
        drivers> e1
        done e1
        drivers> -
        wait 30m
        drivers> e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn a_scope_that_went_off_between_is_not_told() {
    check_with(
        Settings { update_domain_pause: Duration::from_secs(48 * 3600), ..Settings::default() },
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        wait 40h
        a> off
        wait 8h
        a> off
        e2> hidden started
    ",
    );
}

#[test]
fn a_planned_roll_out_gives_the_least_notice_after_its_time() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze in=1h
        wait 1h
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn more_notice_is_given_to_every_domain() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze notice=1h
        a> 2: e1 Freeze Scheduled a 60:00
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 60:00
    ",
    );
}

#[test]
fn stopping_before_the_first_domain_leaves_nothing() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        cancel op1
        a> 3: -
        op1> canceled
        wait 2h
        a> 3: -
    ",
    );
}

#[test]
fn stopping_while_a_domain_is_at_work_lets_it_finish_and_drops_the_rest() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        cancel op1
        a> 3: e1 Freeze Started a
        op1> running
        done e1
        op1> canceled
        wait 2h
        a> 4: -
    ",
    );
}

#[test]
fn stopping_in_a_pause_ends_the_roll_out_at_once() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        cancel op1
        op1> canceled
        cancel op1 = OperationOver
        wait 2h
        a> 4: -
    ",
    );
}

#[test]
fn stopping_by_the_event_stops_the_roll_out() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        uncall e1
        a> 3: -
        op1> canceled
        wait 2h
        a> 3: -
    ",
    );
}

#[test]
fn a_failed_domain_does_not_stop_the_next_but_the_operation_says_so() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        failed e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
        approve a e2
        done e2
        op1> failed Failed
    ",
    );
}

#[test]
fn a_silent_driver_does_not_stop_the_next_domain() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        wait 1h
        a> 4: -
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_domain_of_stopped_machines_is_passed_without_effect() {
    check(
        "
        avset s a b c
        on a
        off b
        maintain group s freeze
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
        approve a e2
        a> 6: -
        e2> noeffect
        wait 30m
        a> 7: e3 Freeze Scheduled c 15:00
        done e3 = NotStarted
        approve a e3
        done e3
        op1> succeeded
    ",
    );
}

#[test]
fn a_superseded_domain_is_passed() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        fail a
        e1> superseded
        wait 30m
        e3> scheduled
        done e2
        b> 6: e3 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn two_roll_outs_do_not_know_of_each_other() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        maintain group s reboot
        a> 3: e1 Freeze Scheduled a 15:00 | e2 Reboot Scheduled a 15:00
        approve a e1 e2
        a> 4: e1 Freeze Started a | e2 Reboot Scheduled a 15:00
        done e1
        a> 5: e2 Reboot Started a
        wait 30m
        a> 6: e2 Reboot Started a | e3 Freeze Scheduled b 15:00
        done e2
        wait 30m
        e3> started
        e4> scheduled
    ",
    );
}

#[test]
fn a_cloud_service_is_rolled_too() {
    check(
        "
        service s a b
        on a
        maintain group s freeze
        a> 2: e1 Freeze Scheduled a 15:00
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_uniform_set_is_rolled_too() {
    check(
        "
        set w uniform 7
        on w_0
        maintain group w freeze
        w_0> 2: e1 Freeze Scheduled w_0,w_5 15:00
        approve w_0 e1
        done e1
        wait 30m
        w_0> 5: e2 Freeze Scheduled w_1,w_6 15:00
    ",
    );
}

#[test]
fn a_flexible_set_is_rolled_by_fault_domains() {
    check(
        "
        set w flexible 4 fd=2
        w/1? ud=0 fd=0
        w/2? ud=1 fd=1
        w/3? ud=0 fd=0
        on w/1
        maintain group w freeze
        w/1> 2: e1 Freeze Scheduled w/1,w/3 15:00
        approve w/1 e1
        done e1
        wait 30m
        w/1> 5: e2 Freeze Scheduled w/2,w/4 15:00
    ",
    );
}

#[test]
fn an_empty_group_has_nothing_to_maintain() {
    check(
        "
        avset s
        set w uniform 0
        maintain group s freeze = NothingThere
        maintain group w freeze = NothingThere
        maintain group nogroup freeze = UnknownGroup
        fail group s = NothingThere
    ",
    );
}

#[test]
fn a_broken_group_breaks_at_once_in_all_domains() {
    check(
        "
        avset s a b
        on a
        fail group s
        a> 2: e1 Reboot Started a | e2 Reboot Started b
        done e1
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn a_crash_in_the_pause_does_not_lose_the_roll_out() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        crash 2h
        a> 5: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_planned_roll_out_begins_at_its_time() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze in=2h
        a> 2: e1 Freeze Scheduled a 120:00
        approve a e1
        done e1
        wait 30m
        a> 5: e2 Freeze Scheduled b 90:00
    ",
    );
}

#[test]
fn placement_groups_are_rolled_side_by_side() {
    check(
        "
        set w uniform 4 max=2 ud=2
        on w_0
        maintain group w freeze
        w_0> 2: e1 Freeze Scheduled w_0 15:00
        w_2> 2: e2 Freeze Scheduled w_2 15:00
        approve w_0 e1
        w_0> 3: e1 Freeze Started w_0
        w_2> 2: e2 Freeze Scheduled w_2 15:00
        done e1
        wait 15m
        done e2
        wait 29m
        w_0> 4: -
        wait 1m
        w_0> 5: e3 Freeze Scheduled w_1 15:00
        w_2> 5: e4 Freeze Scheduled w_3 15:00
    ",
    );
}

#[test]
fn stopping_twice_is_once() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        cancel op1
        cancel op1 = OperationOver
        done e1
        op1> canceled
    ",
    );
}

#[test]
fn a_domain_at_work_unseen_keeps_its_machines_in_their_domain() {
    check(
        "
        avset s a b
        maintain a freeze in=1h
        ud a 3 = MachineBusy
        wait 1h
        ud a 3 = MachineBusy
        done e1
        ud a 3
        a? ud=3
    ",
    );
}

#[test]
fn chosen_machines_take_turns_by_update_domain_and_the_rest_is_left_alone() {
    check(
        "
        avset s a b c d uds=2
        on a
        maintain vms d,c,b freeze
        a> 2: e1 Freeze Scheduled c 15:00
        approve a e1
        done e1
        op1> running
        wait 30m
        a> 5: e2 Freeze Scheduled b,d 15:00
        approve a e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn chosen_machines_that_are_gone_at_their_turn_are_passed_over() {
    check(
        "
        avset s a b c uds=3
        on a
        maintain vms a,b,c freeze
        approve a e1
        delete b
        done e2
        done e1
        wait 30m
        e3? Platform 9 \"Host server is undergoing maintenance.\"
        a> 5: e3 Freeze Scheduled c 15:00
    ",
    );
}

#[test]
fn chosen_machines_must_all_be_there() {
    check(
        "
        avset s a b
        maintain vms a,nobody freeze = UnknownMachine
        left> 0
    ",
    );
}

#[test]
fn failing_hardware_takes_chosen_machines_at_once() {
    check(
        "
        avset s a b c uds=3
        on a
        fail vms a,c
        a> 2: e1 Reboot Started a | e2 Reboot Started c
    ",
    );
}
