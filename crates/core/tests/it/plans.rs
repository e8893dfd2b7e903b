//! Rollouts over hosts and over the update domains of groups.

use crate::lang::check;

#[test]
fn hosts_are_maintained_one_after_the_other() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot pause=10m
        r1> Waiting approvals | InProgress Pending
        a> 2: e1 Reboot Scheduled a 15:00
        b> 1: -
        approve a e1
        r1> Running | InProgress Pending
        done e1
        r1> Waiting pause | Succeeded Pending
        wait 10m
        r1> Waiting approvals | Succeeded InProgress
        b> 2: e2 Reboot Scheduled b 15:00
        wait 15m
        done e2
        r1> Finished | Succeeded Succeeded
    ",
    );
}

#[test]
fn the_events_of_one_host_start_together() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        rollout hosts h1 freeze
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00
        approve b e2
        a> 3: e1 Freeze Started a
        b> 3: e2 Freeze Started b
    ",
    );
}

#[test]
fn several_hosts_can_be_in_progress() {
    check(
        "
        vm a host=h1
        vm b host=h2
        vm c host=h3
        rollout hosts h1,h2,h3 reboot parallel=2
        r1> Running | InProgress InProgress Pending
        done e1
        r1> Running | Succeeded InProgress InProgress
        done e2
        done e3
        r1> Finished | Succeeded Succeeded Succeeded
        history> e3 completed, op3 over, rollout StepEnded { step: 2 }, rollout Finished
    ",
    );
}

#[test]
fn hosts_without_machines_are_skipped() {
    check(
        "
        host h1
        vm b host=h2
        rollout hosts h1,h2 reboot pause=1h
        r1> Running | Skipped InProgress
        done e1
        r1> Finished | Skipped Succeeded
    ",
    );
}

#[test]
fn a_group_is_maintained_by_update_domain() {
    check(
        "
        avset s a b c uds=2
        on a
        rollout groups s reboot
        a> 2: e1 Reboot Scheduled a,c 15:00
        approve a e1
        done e1
        a> 4: e2 Reboot Scheduled b 15:00
        wait 15m
        done e2
        r1> Finished | Succeeded Succeeded
    ",
    );
}

#[test]
fn a_group_with_unavailable_machines_makes_the_rollout_wait() {
    check(
        "
        avset s a b c uds=3 host=h1
        move b h2
        move c h2
        on a
        restart c
        rollout hosts h1,h2 reboot max=2
        r1> Waiting approvals | InProgress Pending
        approve a e2
        done e2
        # c is restarting, so b and c together would not exceed the limit, but the restart counts once.
        r1> Waiting approvals | Succeeded InProgress
        a> 5: e1 Reboot Scheduled c 15:00 | e3 Reboot Scheduled b 15:00 | e4 Reboot Scheduled c 15:00
    ",
    );
}

#[test]
fn the_limit_on_unavailable_machines_holds_across_hosts() {
    check(
        "
        avset s a b uds=2 host=h1
        move b h2
        on a
        rollout hosts h1,h2 reboot parallel=2
        r1> Waiting approvals | InProgress Pending
        a> 2: e1 Reboot Scheduled a 15:00
        approve a e1
        r1> Running availability s 1/1 | InProgress Pending
        done e1
        r1> Waiting approvals | Succeeded InProgress
    ",
    );
}

#[test]
fn a_step_that_exceeds_the_limit_alone_is_refused() {
    check(
        "
        avset s a b uds=2 host=h1
        rollout hosts h1 reboot = StepTooLarge
        rollout hosts h1 reboot max=1 = StepTooLarge
        rollout hosts h1 reboot max=2
        r2> forgotten
        r3> Running | InProgress
    ",
    );
}

#[test]
fn machines_stopped_on_request_do_not_count_as_unavailable() {
    check(
        "
        avset s a b uds=2 host=h1
        move b h2
        on a
        off b
        rollout hosts h1 reboot
        r1> Waiting approvals | InProgress
    ",
    );
}

#[test]
fn too_many_failures_end_the_rollout() {
    check(
        "
        vm a host=h1
        vm b host=h2
        vm c host=h3
        on c
        rollout hosts h1,h2,h3 reboot parallel=3 failures=1
        failed e1
        r1> Running | Failed InProgress InProgress
        c> 2: e3 Reboot Scheduled c 15:00
        failed e2
        r1> Failed | Failed Failed Canceled
        # The event that had not started is canceled.
        c> 3: -
    ",
    );
}

#[test]
fn by_default_the_first_failure_ends_the_rollout() {
    check(
        "
        vm a host=h1
        vm b host=h2
        rollout hosts h1,h2 reboot
        failed e1
        r1> Failed | Failed Canceled
    ",
    );
}

#[test]
fn a_paused_rollout_finishes_its_events_and_starts_no_step() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        rollout hosts h1,h2 reboot
        pause r1
        r1> Paused | InProgress Pending
        wait 15m
        a> 3: e1 Reboot Started a
        done e1
        r1> Paused | Succeeded Pending
        resume r1
        r1> Running | Succeeded InProgress
    ",
    );
}

#[test]
fn pausing_at_once_takes_scheduled_events_back() {
    check(
        "
        vm a host=h1
        on a
        rollout hosts h1 reboot
        wait 5m
        pause r1 now
        a> 3: -
        r1> Paused | Pending
        resume r1
        a> 4: e2 Reboot Scheduled a 15:00
        wait 15m
        done e2
        r1> Finished | Succeeded
    ",
    );
}

#[test]
fn stopping_cancels_scheduled_events_and_lets_started_ones_finish() {
    check(
        "
        vm a host=h1
        vm b host=h2
        vm c host=h3
        on a
        on b
        rollout hosts h1,h2,h3 reboot parallel=2
        approve a e1
        stop r1
        r1> Stopped | InProgress Canceled Canceled
        b> 3: -
        a> 3: e1 Reboot Started a
        done e1
        r1> Stopped | Succeeded Canceled Canceled
        stop r1 = RolloutEnded
    ",
    );
}

// Scripts begin at 08:00 UTC.

#[test]
fn a_rollout_waits_for_its_window() {
    check(
        "
        vm a host=h1
        rollout hosts h1 reboot window=09:00-11:00
        r1> Planned window | Pending
        wait 59m
        r1> Planned window | Pending
        wait 1m
        r1> Running | InProgress
        e1> hidden started
    ",
    );
}

#[test]
fn events_that_have_not_started_when_the_window_ends_are_announced_again() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot window=08:00-08:20
        a> 2: e1 Reboot Scheduled a 15:00
        restart a
        approve a e2
        a> 4: e1 Reboot Scheduled a 15:00 | e2 Reboot Started a
        # The restart blocks the rollout's event until the window is over.
        wait 20m
        r1> Waiting window | Pending Pending
        a> 5: e2 Reboot Started a
        done e2
        wait 1420m
        a> 7: e3 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn no_step_starts_whose_notice_would_end_after_the_window() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot window=08:00-08:20
        wait 4m
        approve a e1
        done e1
        r1> Waiting approvals | Succeeded InProgress
        stop r1
        vm c host=h3
        vm d host=h4
        on c
        on d
        rollout hosts h3,h4 reboot window=08:00-08:20
        wait 2m
        approve c e3
        done e3
        r2> Waiting window | Succeeded Pending
        wait 1434m
        d> 2: e4 Reboot Scheduled d 15:00
    ",
    );
}

#[test]
fn a_window_must_be_longer_than_the_notice() {
    check(
        "
        vm a host=h1
        rollout hosts h1 reboot window=08:00-08:15 = WindowTooShort
        rollout hosts h1 reboot window=08:00-09:00 notice=60m = WindowTooShort
        rollout hosts h1 reboot window=08:00-24:00 = BadWindow
    ",
    );
}

#[test]
fn an_event_that_is_blocked_for_as_long_as_its_notice_is_announced_again() {
    check(
        "
        vm a host=h1
        on a
        restart a
        approve a e1
        rollout hosts h1 reboot
        a> 4: e1 Reboot Started a | e2 Reboot Scheduled a 15:00
        wait 29m
        a> 4: e1 Reboot Started a | e2 Reboot Scheduled a 0:00
        wait 1m
        a> 5: e1 Reboot Started a | e3 Reboot Scheduled a 15:00
        done e1
        wait 15m
        done e3
        r1> Finished | Succeeded
    ",
    );
}

#[test]
fn a_drain_step_ends_when_the_host_is_active_again() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h2
        rollout hosts h1,h2 drain
        r1> Running | InProgress Pending
        done e1
        h1> Drained -
        r1> Waiting host h1 | InProgress Pending
        activate h1
        r1> Running | Succeeded InProgress
        done e2
        activate h2
        r1> Finished | Succeeded Succeeded
    ",
    );
}

#[test]
fn a_drain_step_waits_for_its_host_for_longer_than_operations_are_kept() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h2
        rollout hosts h1,h2 drain
        done e1
        h1> Drained -
        wait 5h
        r1> Waiting host h1 | InProgress Pending
        activate h1
        r1> Running | Succeeded InProgress
    ",
    );
}

#[test]
fn a_failed_move_counts_even_if_the_host_is_active_again_much_later() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h2
        rollout hosts h1,h2 drain
        failed e1
        h1> Draining a
        wait 5h
        r1> Waiting host h1 | InProgress Pending
        activate h1
        r1> Failed | Failed Canceled
    ",
    );
}

#[test]
fn stopping_a_rollout_cancels_its_drains() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h1
        on a
        rollout hosts h1 drain
        stop r1
        h1> Active a,b
        a> 3: -
        e2> hidden started
        done e2
        b? host=h3
    ",
    );
}

#[test]
fn a_rollout_waits_for_a_host_that_is_unreachable_or_failed() {
    check(
        "
        vm a host=h1
        confirm h1
        lose h1
        rollout hosts h1 reboot
        r1> Planned host h1 | Pending
        confirm h1
        r1> Running | InProgress
    ",
    );
}

#[test]
fn a_host_belongs_to_one_rollout() {
    check(
        "
        avset s a uds=1 host=h1
        vm b host=h2
        on a
        rollout hosts h1 reboot
        rollout hosts h2,h1 reboot = HostOwned
        rollout groups s reboot
        rollout groups s freeze = GroupOwned
        stop r1
        rollout hosts h1 reboot
        unhost h2 = HostInUse
        move b -
        unhost h2
    ",
    );
}

#[test]
fn rollouts_are_refused_where_they_make_no_sense() {
    check(
        "
        vm a host=h1
        avset s b
        rollout hosts h9 reboot = UnknownHost
        rollout hosts h1,h1 reboot = DuplicateTarget
        rollout groups s drain = DrainNeedsHosts
        rollout hosts h1 reboot parallel=0 = ParallelRange
        rollout hosts h1 reboot max=0 = UnavailableRange
        rollout hosts h1 reboot notice=1m = NoticeTooShort
        pause r99 = UnknownRollout
        left> 0
    ",
    );
}

#[test]
fn an_ended_rollout_is_kept_for_a_week() {
    check(
        "
        vm a host=h1
        rollout hosts h1 reboot
        done e1
        wait 167h
        r1> Finished | Succeeded
        wait 1h
        r1> forgotten
    ",
    );
}

#[test]
fn the_notice_of_the_first_step_ends_at_the_start_of_the_rollout() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot at=2h
        r1> Planned start | Pending Pending
        wait 104m
        a> 1: -
        wait 1m
        r1> Waiting approvals | InProgress Pending
        a> 2: e1 Reboot Scheduled a 15:00
        wait 15m
        a> 3: e1 Reboot Started a
        done e1
        # Later steps follow as usual.
        b> 2: e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn machines_without_a_handler_wait_for_the_start_of_the_rollout_too() {
    check(
        "
        vm a host=h1
        avset s b
        rollout hosts h1 reboot at=2h
        rollout groups s freeze at=2h
        wait 119m
        r1> Waiting approvals | InProgress
        r2> Waiting approvals | InProgress
        wait 1m
        r1> Running | InProgress
        r2> Running | InProgress
    ",
    );
}

#[test]
fn a_rollout_that_starts_sooner_than_its_notice_gives_full_notice() {
    check(
        "
        vm a host=h1
        on a
        rollout hosts h1 reboot at=5m
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn a_longer_notice_announces_the_first_step_earlier() {
    check(
        "
        vm a host=h1
        on a
        rollout hosts h1 reboot at=2h notice=90m
        wait 29m
        a> 1: -
        wait 1m
        a> 2: e1 Reboot Scheduled a 90:00
    ",
    );
}

#[test]
fn a_drain_begins_at_the_start_of_the_rollout() {
    check(
        "
        vm a host=h1
        host h2
        rollout hosts h1 drain at=2h
        wait 119m
        h1> Active a
        wait 1m
        h1> Draining a
    ",
    );
}

#[test]
fn a_start_within_a_window_is_announced_within_the_window() {
    check(
        "
        vm a host=h1
        on a
        # It is 08:00. The notice of a start at 10:00 would begin before the window opens.
        rollout hosts h1 reboot at=2h window=10:00-11:00
        wait 119m
        r1> Planned window | Pending
        wait 1m
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn a_rollout_starts_neither_in_the_past_nor_too_far_ahead() {
    check(
        "
        vm a host=h1
        rollout hosts h1 reboot at=9601h = PlanTooFar
        rollout hosts h1 reboot at=0s
    ",
    );
}

#[test]
fn a_rollout_that_waits_for_its_start_can_be_paused_and_stopped() {
    check(
        "
        vm a host=h1
        on a
        rollout hosts h1 reboot at=2h
        pause r1
        wait 3h
        r1> Paused | Pending
        resume r1
        a> 2: e1 Reboot Scheduled a 15:00
        stop r1
        a> 3: -
        rollout hosts h1 reboot at=2h
        stop r2
        r2> Stopped | Canceled
        wait 3h
        a> 3: -
    ",
    );
}

#[test]
fn a_rollout_over_machines_goes_from_one_to_the_next() {
    check(
        "
        vm a
        avset s b c uds=2
        on a
        on b
        rollout vms c,a,b reboot pause=10m
        b> 2: e1 Reboot Scheduled c 15:00
        a> 1: -
        approve b e1
        done e1
        r1> Waiting pause | Succeeded Pending Pending
        wait 10m
        a> 2: e2 Reboot Scheduled a 15:00
        approve a e2
        done e2
        wait 10m
        b> 5: e3 Reboot Scheduled b 15:00
        approve b e3
        done e3
        r1> Finished | Succeeded Succeeded Succeeded
    ",
    );
}

#[test]
fn machines_in_parallel_leave_their_group_enough_others() {
    check(
        "
        avset s a b c d uds=2
        on a
        rollout vms a,b,c,d freeze parallel=4
        # One update domain may be unavailable.
        r1> Waiting approvals | InProgress InProgress Pending Pending
        approve a e1
        done e1
        r1> Waiting approvals | Succeeded InProgress InProgress Pending
    ",
    );
}

#[test]
fn a_machine_that_is_gone_is_skipped() {
    check(
        "
        vm a
        vm b
        on a
        on b
        rollout vms a,b freeze
        delete b
        done e2
        approve a e1
        done e1
        r1> Finished | Succeeded Skipped
    ",
    );
}

#[test]
fn a_rollout_over_machines_owns_their_groups() {
    check(
        "
        vm a
        avset s b c uds=2
        on b
        rollout vms a,b freeze
        rollout vms a reboot = GroupOwned
        rollout vms c,b reboot = GroupOwned
        maintain vms b,c reboot = GroupOwned
        rollout groups s reboot = GroupOwned
        stop r1
        rollout groups s reboot
        rollout vms c reboot = GroupOwned
        rollout vms a reboot
    ",
    );
}

#[test]
fn rollouts_over_different_machines_of_a_group_keep_its_limit_together() {
    check(
        "
        avset s a b c uds=3
        on a
        rollout vms a freeze
        rollout vms b freeze max=2
        rollout vms c freeze
        r1> Waiting approvals | InProgress
        r2> Planned availability s 1/1 | Pending
        r3> Planned availability s 1/1 | Pending
        approve a e1
        done e1
        r1> Finished | Succeeded
        r2> Waiting approvals | InProgress
        r3> Planned availability s 1/1 | Pending
    ",
    );
}

#[test]
fn a_rollout_over_machines_needs_known_machines_once_each() {
    check(
        "
        vm a
        rollout vms a,a freeze = DuplicateTarget
        rollout vms a drain = DrainNeedsHosts
        rollout vms missing freeze = UnknownMachine
    ",
    );
}
