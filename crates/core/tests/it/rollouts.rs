//! Rollouts: maintenance of a group, one update domain at a time.

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use std::time::Duration;

#[test]
fn domains_are_visited_in_order_with_a_pause_between_them() {
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
fn five_domains_are_assigned_round_robin() {
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
fn there_is_no_pause_after_the_last_domain() {
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
fn the_pause_is_configurable() {
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
fn a_machine_that_joins_a_current_or_past_domain_does_not_take_part() {
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
fn a_machine_that_joins_during_the_pause_takes_part() {
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
fn a_machine_that_changes_its_domain_is_visited_with_the_new_domain() {
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
fn the_domain_of_a_machine_with_an_event_cannot_change() {
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
fn a_rollout_ends_when_no_machines_are_left() {
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
fn a_rollout_continues_after_a_machine_is_deleted_during_its_event() {
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
fn events_of_a_domain_are_shown_if_the_scope_is_on_at_that_time() {
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
fn a_rollout_in_a_scope_that_is_off_still_goes_domain_by_domain() {
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
fn events_are_hidden_if_the_scope_turned_off_during_the_rollout() {
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
fn later_domains_of_a_planned_rollout_get_the_minimum_notice() {
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
fn a_longer_notice_applies_to_every_domain() {
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
fn canceling_before_the_first_domain_starts_removes_everything() {
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
fn canceling_during_a_domain_lets_it_finish_and_drops_the_rest() {
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
fn canceling_during_a_pause_ends_the_rollout_immediately() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        done e1
        cancel op1
        op1> canceled
        cancel op1 = OperationEnded
        wait 2h
        a> 4: -
    ",
    );
}

#[test]
fn canceling_an_event_cancels_its_rollout() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        cancel-event e1
        a> 3: -
        op1> canceled
        wait 2h
        a> 3: -
    ",
    );
}

#[test]
fn a_failed_domain_does_not_stop_the_next_but_fails_the_operation() {
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
fn a_driver_timeout_does_not_stop_the_next_domain() {
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
fn a_domain_of_stopped_machines_has_no_effect() {
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
fn a_superseded_domain_counts_as_visited() {
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
fn a_group_has_one_maintenance_at_a_time() {
    check(
        "
        avset s a b
        avset t c d
        vm x
        vm y
        on a
        maintain group s freeze
        maintain group s reboot = GroupOwned
        maintain vms a,c reboot = GroupOwned
        rollout groups s reboot = GroupOwned
        rollout vms b reboot = GroupOwned
        # A single machine is not a group, and other groups are free.
        maintain b reboot
        maintain vms c,x freeze
        maintain group t reboot = GroupOwned
        maintain vms x,y reboot = GroupOwned
        cancel op1
        maintain group s reboot
    ",
    );
}

#[test]
fn a_group_that_belongs_to_a_rollout_is_not_maintained() {
    check(
        "
        avset s a b
        on a
        rollout groups s freeze
        maintain group s reboot = GroupOwned
        maintain vms a,b reboot = GroupOwned
        stop r1
        maintain group s reboot
    ",
    );
}

#[test]
fn a_rollout_carries_out_the_maintenance_of_a_group() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        r1> Waiting approvals | InProgress Pending
        approve a e1
        r1> Running | InProgress Pending
        failed e1
        r1> Waiting pause | Failed Pending
        wait 30m
        r1> Waiting approvals | Failed InProgress
        approve a e2
        done e2
        r1> Finished | Failed Succeeded
        op1> failed Failed
        history> e2 completed, rollout StepEnded { step: 1 }, rollout Finished, op1 over
    ",
    );
}

#[test]
fn the_maintenance_of_a_group_can_be_paused_and_resumed() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        pause r1
        approve a e1
        done e1
        wait 2h
        r1> Paused | Succeeded Pending
        op1> running
        a> 4: -
        resume r1
        a> 5: e2 Freeze Scheduled b 15:00
        approve a e2
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn a_domain_whose_events_were_taken_back_has_its_turn_again() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        pause r1 now
        a> 3: -
        r1> Paused | Pending Pending
        op1> running
        resume r1
        a> 4: e2 Freeze Scheduled a 15:00
        approve a e2
        done e2
        wait 30m
        approve a e3
        done e3
        # The event that was taken back does not count.
        op1> succeeded
        r1> Finished | Succeeded Succeeded
    ",
    );
}

#[test]
fn stopping_the_rollout_cancels_the_maintenance() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        stop r1
        op1> running
        r1> Stopped | InProgress Canceled
        done e1
        op1> canceled
        r1> Stopped | Succeeded Canceled
        cancel op1 = OperationEnded
        wait 2h
        a> 4: -
    ",
    );
}

#[test]
fn canceling_the_maintenance_stops_the_rollout() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        cancel op1
        r1> Stopped | Canceled Canceled
        op1> canceled
    ",
    );
}

#[test]
fn steps_follow_the_machines_of_the_group() {
    check(
        "
        avset s a b c
        on a
        rollout groups s freeze pause=10m
        r1> Waiting approvals | InProgress Pending Pending
        delete b
        done e2
        join s d ud=4
        approve a e1
        done e1
        r1> Waiting pause | Succeeded Pending Pending
        wait 10m
        a> 5: e3 Freeze Scheduled c 15:00
        join s f ud=0
        approve a e3
        done e3
        wait 10m
        a> 8: e4 Freeze Scheduled d 15:00
        approve a e4
        done e4
        r1> Finished | Succeeded Succeeded Succeeded
    ",
    );
}

#[test]
fn maintenance_waits_while_a_drain_limits_its_group() {
    check(
        "
        host h3
        avset s a b uds=2 host=h1
        move a h2
        on a
        drain h1 max=1
        a> 2: e1 Freeze Scheduled b 15:00
        maintain group s reboot id=7
        r1> Planned availability s 1/1 | Pending Pending
        op2> running
        approve a e1
        done e1
        e2? id=7
        a> 4: e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn maintenance_does_not_limit_how_many_machines_are_unavailable() {
    check(
        "
        avset s a b uds=2
        on a
        restart b
        maintain group s reboot
        a> 3: e1 Reboot Scheduled b 15:00 | e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn events_of_maintenance_stay_announced_while_they_are_blocked() {
    check(
        "
        avset s a b
        on a
        restart a
        approve a e1
        maintain group s freeze
        wait 50m
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 0:00
    ",
    );
}

#[test]
fn the_id_of_ended_maintenance_is_taken_while_its_rollout_is_kept() {
    check(
        "
        avset s a
        vm b
        vm c
        on a
        maintain group s freeze
        approve a e1
        done e1
        wait 2h
        op1> forgotten
        # Its rollout is kept for longer.
        maintain vms b,c freeze op=op1 = IdTaken
    ",
    );
}

#[test]
fn a_rollout_works_in_a_cloud_service() {
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
fn a_rollout_works_in_a_uniform_set() {
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
fn a_rollout_in_a_flexible_set_goes_by_fault_domains() {
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
fn an_empty_group_cannot_be_maintained() {
    check(
        "
        avset s
        set w uniform 0
        maintain group s freeze = TargetHasNoMachines
        maintain group w freeze = TargetHasNoMachines
        maintain group nogroup freeze = UnknownGroup
        fail group s = TargetHasNoMachines
    ",
    );
}

#[test]
fn a_hardware_failure_of_a_group_affects_all_domains_at_once() {
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
fn a_rollout_survives_a_crash_during_the_pause() {
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
fn a_planned_rollout_starts_at_its_time() {
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
fn placement_groups_are_visited_in_parallel() {
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
fn a_rollout_can_only_be_canceled_once() {
    check(
        "
        avset s a b
        on a
        maintain group s freeze
        approve a e1
        cancel op1
        cancel op1 = OperationEnded
        done e1
        op1> canceled
    ",
    );
}

#[test]
fn the_domain_of_a_machine_with_a_hidden_event_cannot_change() {
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
fn chosen_machines_are_visited_by_update_domain_and_others_are_not_affected() {
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
fn chosen_machines_that_were_deleted_are_skipped() {
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
fn chosen_machines_must_all_exist() {
    check(
        "
        avset s a b
        maintain vms a,missing freeze = UnknownMachine
        left> 0
    ",
    );
}

#[test]
fn a_hardware_failure_affects_all_chosen_machines_at_once() {
    check(
        "
        avset s a b c uds=3
        on a
        fail vms a,c
        a> 2: e1 Reboot Started a | e2 Reboot Started c
    ",
    );
}
