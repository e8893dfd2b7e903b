//! Failed steps of rollouts, and their retry.

use crate::lang::check;

// --- fenced hosts ----------------------------------------------------------------------------------

#[test]
fn a_step_fails_when_its_host_is_fenced_before_the_impact() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h2
        on a
        rollout hosts h1,h2 reboot failures=2
        a> 2: e1 Reboot Scheduled a 15:00
        fence h1
        a> 3: -
        e1> failed
        r1> Running | Failed InProgress
        r1? failures=2 reason=HostFailed
        # Nothing is left for the time at which the notice would have ended.
        activate h1
        wait 20m
        a> 3: -
    ",
    );
}

#[test]
fn the_machines_of_a_fenced_host_count_toward_the_tolerated_failures() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h2
        on a
        rollout hosts h1,h2 reboot failures=1
        fence h1
        r1> Failed | Failed Canceled
        r1? failures=2 reason=HostFailed
    ",
    );
}

#[test]
fn a_step_fails_when_its_host_is_fenced_during_the_impact() {
    check(
        "
        vm a host=h1
        vm c host=h2
        on a
        rollout hosts h1,h2 reboot failures=1 pause=10m
        approve a e1
        fence h1
        r1> Waiting pause | Failed Pending
        r1? failures=1 reason=HostFailed
    ",
    );
}

#[test]
fn a_host_that_is_fenced_after_its_step_does_not_change_the_step() {
    check(
        "
        vm a host=h1
        vm c host=h2
        on a
        rollout hosts h1,h2 reboot pause=10m
        approve a e1
        done e1
        fence h1
        r1> Waiting pause | Succeeded Pending
        r1? failures=0 reason=-
    ",
    );
}

#[test]
fn a_step_does_not_begin_on_a_fenced_host() {
    check(
        "
        vm a host=h1
        fence h1
        rollout hosts h1 reboot
        r1> Planned host h1 | Pending
        activate h1
        r1> Finished | Succeeded
    ",
    );
}

#[test]
fn an_event_of_a_group_fails_with_the_host_of_its_last_machine() {
    check(
        "
        avset s a b uds=1
        move a h1
        move b h2
        on a
        rollout groups s reboot failures=2
        a> 2: e1 Reboot Scheduled a,b 15:00
        fence h1
        a> 2: e1 Reboot Scheduled a,b 15:00
        fence h2
        a> 3: -
        r1> Finished | Failed
        r1? failures=2 reason=HostFailed
    ",
    );
}

#[test]
fn other_maintenance_of_a_fenced_host_ends_without_effect() {
    check(
        "
        vm a host=h1
        on a
        maintain host h1 reboot
        fence h1
        e1> noeffect
        op1> succeeded
    ",
    );
}

#[test]
fn the_drain_of_a_fenced_host_fails_at_once() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h1
        vm c host=h2
        on a
        rollout hosts h1,h2 drain failures=2
        a> 2: e1 Freeze Scheduled a 15:00
        fence h1
        a> 3: -
        e1> canceled
        r1> Running | Failed InProgress
        r1? failures=2 reason=HostFailed
    ",
    );
}

#[test]
fn a_machine_whose_move_failed_with_its_host_counts_once() {
    check(
        "
        host h3
        vm a host=h1
        on a
        rollout hosts h1 drain failures=1
        approve a e1
        e1> started
        fence h1
        e1> failed
        r1> Finished | Failed
        r1? failures=1 reason=HostFailed
    ",
    );
}

#[test]
fn a_drained_host_that_is_fenced_stays_in_progress() {
    check(
        "
        host h3
        vm a host=h1
        vm c host=h2
        rollout hosts h1,h2 drain
        done e1
        h1> Drained -
        fence h1
        r1> Waiting host h1 | InProgress Pending
        activate h1
        r1> Running | Succeeded InProgress
    ",
    );
}

// --- retry --------------------------------------------------------------------------------------

#[test]
fn a_failed_step_is_retried_after_the_pending_ones() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot failures=1 pause=10m
        approve a e1
        failed e1
        retry r1 h1
        history> rollout StepRetried { step: 2 }
        r1> Waiting pause | Failed Pending Pending
        wait 10m
        r1> Waiting approvals | Failed InProgress Pending
        approve b e2
        done e2
        r1> Waiting pause | Failed Succeeded Pending
        wait 10m
        a> 5: e3 Reboot Scheduled a 15:00
        r1> Waiting approvals | Failed Succeeded InProgress
        approve a e3
        done e3
        r1> Finished | Failed Succeeded Succeeded
        r1? failures=1
    ",
    );
}

#[test]
fn earlier_failures_of_a_retried_step_keep_counting() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot failures=1 parallel=2
        approve a e1
        failed e1
        retry r1
        r1> Waiting approvals | Failed InProgress InProgress
        approve a e3
        failed e3
        r1? failures=2
        r1> Failed | Failed Canceled Failed
    ",
    );
}

#[test]
fn a_step_can_be_retried_each_time_it_fails() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot failures=9 parallel=2
        approve a e1
        failed e1
        retry r1 h1
        retry r1 h1 = StepNotFailed
        retry r1 = NoFailedSteps
        approve a e3
        failed e3
        retry r1
        r1> Waiting approvals | Failed InProgress Failed InProgress
    ",
    );
}

#[test]
fn steps_are_retried_only_if_they_failed() {
    check(
        "
        vm a host=h1
        vm b host=h2
        vm c host=h3
        on a
        on b
        rollout hosts h1,h2 reboot failures=9
        retry r1 h1 = StepNotFailed
        retry r1 h2 = StepNotFailed
        retry r1 h3 = NotAStep
        retry r1 nowhere = NotAStep
        retry r1 = NoFailedSteps
        retry r9 = UnknownRollout
        approve a e1
        done e1
        retry r1 h1 = StepNotFailed
    ",
    );
}

#[test]
fn steps_of_an_ended_rollout_are_not_retried() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot failures=9
        approve a e1
        failed e1
        stop r1
        retry r1 h1 = RolloutEnded
        rollout hosts h1,h2 reboot
        approve a e3
        failed e3
        r2> Failed | Failed Canceled
        retry r2 h1 = RolloutEnded
        rollout hosts h1 reboot failures=1
        approve a e4
        failed e4
        r3> Finished | Failed
        retry r3 = RolloutEnded
    ",
    );
}

#[test]
fn a_repeated_request_for_a_retry_changes_nothing() {
    check(
        "
        vm a host=h1
        vm b host=h2
        vm c host=h3
        on a
        on b
        rollout hosts h1,h2,h3 reboot failures=9 parallel=3
        approve a e1
        failed e1
        retry r1 h1 key=7
        retry r1 h1 key=7
        retry r1 key=7
        history> -
        retry r1 h2 key=7 = IdTaken
        restart b
        retry r1 h2 key=7 = IdTaken
        approve a e4
        failed e4
        # It was carried out, and has failed since.
        retry r1 h1 key=7
        stop r1
        retry r1 h1 key=7
        history> -
    ",
    );
}

#[test]
fn a_paused_rollout_retries_steps_after_it_is_resumed() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        rollout hosts h1,h2 reboot failures=9
        approve a e1
        pause r1
        failed e1
        retry r1 h1
        r1> Paused | Failed Pending Pending
        wait 1h
        r1> Paused | Failed Pending Pending
        resume r1
        r1> Waiting approvals | Failed InProgress Pending
    ",
    );
}

#[test]
fn a_retried_step_waits_for_its_window() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        # The script starts at 08:00.
        rollout hosts h1,h2 reboot failures=9 window=08:00-08:24 pause=5m
        approve a e1
        failed e1
        retry r1 h1
        wait 5m
        done e2
        wait 5m
        # Its notice would end after the window.
        r1> Waiting window | Failed Succeeded Pending
        wait 60m
        on a
        wait 1369m
        r1> Waiting window | Failed Succeeded Pending
        wait 1m
        r1> Waiting approvals | Failed Succeeded InProgress
    ",
    );
}

#[test]
fn a_retry_of_an_update_domain_leaves_out_machines_that_are_done() {
    check(
        "
        set w uniform 4 max=2 ud=2
        on w_0
        on w_2
        rollout groups w reboot failures=9
        approve w_0 e1
        done e1
        approve w_2 e2
        failed e2
        retry r1 w/0
        # The remaining update domain comes first.
        approve w_0 e3
        done e3
        approve w_2 e4
        done e4
        r1> Waiting approvals | Failed Succeeded InProgress
        w_2> 6: e5 Reboot Scheduled w_2 15:00
        w_0> 7: -
        approve w_2 e5
        done e5
        r1> Finished | Failed Succeeded Succeeded
    ",
    );
}

#[test]
fn a_retry_of_a_host_reaches_all_its_machines() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h2
        on a
        on b
        on c
        rollout hosts h1,h2 reboot failures=9 parallel=2
        approve a e1
        approve b e2
        done e1
        failed e2
        retry r1 h1
        a> 5: e4 Reboot Scheduled a 15:00
        b> 5: e5 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn a_machine_that_failed_is_retried() {
    check(
        "
        vm a
        vm b
        on a
        on b
        rollout vms a,b redeploy failures=9
        approve a e1
        failed e1
        retry r1 vm:a
        approve b e2
        done e2
        a> 5: e3 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn a_failed_drain_is_retried_when_its_host_is_active() {
    check(
        "
        host h3
        vm a host=h1
        vm b host=h2
        on a
        rollout hosts h1,h2 drain failures=9 parallel=2
        fence h1
        r1> Running | Failed InProgress
        retry r1 h1
        r1> Running host h1 | Failed InProgress Pending
        activate h1
        r1> Running | Failed InProgress InProgress
    ",
    );
}

#[test]
fn maintenance_of_a_group_retries_an_update_domain_within_its_operation() {
    check(
        "
        avset s a b uds=2
        on a
        maintain group s reboot
        approve a e1
        failed e1
        retry r1 s/0
        wait 30m
        approve a e2
        done e2
        wait 30m
        a> 8: e3 Reboot Scheduled a 15:00
        op1> running
        approve a e3
        done e3
        op1> failed Failed
        r1> Finished | Failed Succeeded Succeeded
    ",
    );
}

#[test]
fn a_retry_reaches_a_machine_whose_event_was_forgotten() {
    check(
        "
        set w uniform 4 max=2 ud=2
        on w_0
        on w_2
        rollout groups w reboot failures=9 notice=3h
        approve w_0 e1
        failed e1
        # An hour after its end, the event is forgotten. The other one has not started yet.
        wait 2h
        approve w_2 e2
        done e2
        r1> Waiting approvals | Failed InProgress
        retry r1 w/0
        approve w_0 e3
        done e3
        approve w_2 e4
        done e4
        r1> Waiting approvals | Failed Succeeded InProgress
        w_0> 8: e5 Reboot Scheduled w_0 180:00
        w_2> 6: -
    ",
    );
}

#[test]
fn a_step_that_was_announced_twice_has_failed_if_its_first_part_did() {
    check(
        "
        set w uniform 2 max=1 ud=1
        on w_0
        on w_1
        rollout groups w reboot failures=9
        approve w_0 e1
        failed e1
        pause r1 now
        r1> Paused | Pending
        resume r1
        approve w_1 e3
        done e3
        r1> Finished | Failed
    ",
    );
}

#[test]
fn a_repeated_request_is_known_whatever_the_step_has_become() {
    check(
        "
        avset s a b uds=2
        on a
        maintain group s reboot
        approve a e1
        failed e1
        retry r1 s/0 key=7
        wait 30m
        approve a e2
        done e2
        wait 30m
        # All steps of the maintenance share its operation.
        retry r1 s/0 key=7
        retry r1 key=7
        retry r1 s/1 key=7 = IdTaken
        retry r1 s/0 s/1 key=7 = IdTaken
        approve a e3
        failed e3
        r1> Finished | Failed Succeeded Failed
        retry r1 s/0 key=7
        history> -
    ",
    );
}
