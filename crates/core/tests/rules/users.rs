//! Restart and redeploy by users: limit, joining, policy (semantics 2.9).

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn a_restart_makes_a_reboot_and_a_redeploy_a_redeploy_of_that_machine_alone() {
    check(
        "
        avset s a b uds=1
        on a
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        redeploy b
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled b 10:00
    ",
    );
}

#[test]
fn a_machine_that_is_not_running_cannot_be_restarted() {
    check(
        "
        vm a
        vm b
        on a
        off a
        deallocate b
        restart a = NotRunning
        redeploy a = NotRunning
        restart b = NotRunning
        redeploy b = NotRunning
        left> 0
        start a
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn a_machine_that_is_not_there_cannot_be_asked_for_anything() {
    check(
        "
        restart nobody = UnknownMachine
        redeploy nobody = UnknownMachine
        perform nobody = UnknownMachine
        evict nobody = UnknownMachine
        delete nobody = UnknownMachine
        fail nobody = UnknownMachine
        maintain nobody freeze = UnknownMachine
    ",
    );
}

#[test]
fn ten_operations_may_wait_and_the_eleventh_is_refused() {
    check(
        "
        avset s a b c d f g h i j k l
        on a
        restart a
        restart b
        restart c
        restart d
        restart f
        redeploy g
        redeploy h
        redeploy i
        redeploy j
        redeploy k
        restart l = UserOperationsFull
        redeploy l = UserOperationsFull
        left> 20
        a> 11: e1 Reboot Scheduled a 15:00 | e2 Reboot Scheduled b 15:00 | e3 Reboot Scheduled c 15:00 | e4 Reboot Scheduled d 15:00 | e5 Reboot Scheduled f 15:00 | e6 Redeploy Scheduled g 10:00 | e7 Redeploy Scheduled h 10:00 | e8 Redeploy Scheduled i 10:00 | e9 Redeploy Scheduled j 10:00 | e10 Redeploy Scheduled k 10:00
    ",
    );
}

#[test]
fn what_has_started_does_not_count() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        restart a
        restart b = UserOperationsFull
        approve a e1
        restart b
        b> 2: e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn what_is_cancelled_does_not_count() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        restart a
        cancel op1
        restart b
        b> 2: e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn what_is_over_does_not_count() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        restart a
        wait 15m
        done e1
        restart b
        wait 15m
        done e2
        restart a
        a> 5: e3 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn what_is_approved_but_waits_still_counts() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        fail a
        restart a
        approve a e2
        e2> scheduled
        restart b = UserOperationsFull
        done e1
        e2> started
        restart b
    ",
    );
}

#[test]
fn restart_and_redeploy_share_the_limit() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        on a
        restart a
        redeploy a = UserOperationsFull
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn zero_is_no_limit() {
    check_with(
        Settings { user_operations_max: 0, ..Settings::default() },
        "
        avset s a b c d f g h i j k l
        on a
        restart a
        restart b
        restart c
        restart d
        restart f
        restart g
        restart h
        restart i
        restart j
        restart k
        restart l
        redeploy a
        redeploy b
        e13> scheduled
    ",
    );
}

#[test]
fn each_subscription_has_its_own_limit() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b sub=t
        vm c sub=t
        on a
        on b
        on c
        restart a
        restart b
        restart c = UserOperationsFull
        redeploy a = UserOperationsFull
    ",
    );
}

#[test]
fn in_a_scope_that_is_off_nothing_waits_so_nothing_counts() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        vm c
        on c
        restart a
        restart b
        restart c
        c> 2: e3 Reboot Scheduled c 15:00
    ",
    );
}

#[test]
fn only_restart_and_redeploy_are_limited() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a spot host=h1
        vm b term=5m
        on a
        on b
        restart a
        maintain a freeze
        maintain host h1 reboot
        perform a
        evict a
        delete b
        fail b
        e7> started
    ",
    );
}

#[test]
fn maintenance_does_not_count() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        on a
        maintain a reboot
        maintain a redeploy
        perform a
        restart a
        a> 5: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled a 10:00 | e3 Redeploy Scheduled a 10:00 | e4 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn the_same_wish_joins_the_event_that_waits() {
    check(
        "
        vm a
        on a
        restart a
        wait 5m
        restart a
        told> -
        a> 2: e1 Reboot Scheduled a 10:00
        op1> running
        op2> running
        approve a e1
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn joined_operations_fail_together() {
    check(
        "
        vm a
        on a
        restart a
        restart a
        approve a e1
        failed e1
        op1> failed Failed
        op2> failed Failed
    ",
    );
}

#[test]
fn joining_is_tried_before_the_limit() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        on a
        restart a
        restart a
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        redeploy a = UserOperationsFull
    ",
    );
}

#[test]
fn operations_that_joined_count_each() {
    check_with(
        Settings { user_operations_max: 2, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        restart a
        restart a
        restart b = UserOperationsFull
        cancel op2
        restart b
        b> 2: e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn another_type_does_not_join() {
    check(
        "
        vm a
        on a
        restart a
        redeploy a
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled a 10:00
        redeploy a
        restart a
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled a 10:00
        op4> running
    ",
    );
}

#[test]
fn another_machine_does_not_join() {
    check(
        "
        avset s a b uds=1
        on a
        restart a
        restart b
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn an_event_of_the_platform_is_not_joined() {
    check(
        "
        vm a
        on a
        maintain a reboot
        restart a
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn an_event_that_has_started_is_not_joined() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        restart a
        a> 4: e1 Reboot Started a | e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn an_approved_event_that_waits_is_joined() {
    check(
        "
        vm a
        on a
        fail a
        restart a
        approve a e2
        restart a
        a> 3: e1 Reboot Started a | e2 Reboot Scheduled a 15:00
        done e1
        done e2
        op2> succeeded
        op3> succeeded
    ",
    );
}

#[test]
fn so_many_may_join_and_no_more() {
    check(
        "
        vm a
        on a
        99x restart a
        restart a
        restart a = TooManyJoined
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn cancelling_one_that_joined_leaves_the_event_to_the_others() {
    check(
        "
        vm a
        on a
        restart a
        restart a
        restart a
        cancel op2
        op2> canceled
        a> 2: e1 Reboot Scheduled a 15:00
        cancel op1
        a> 2: e1 Reboot Scheduled a 15:00
        cancel op3
        a> 3: -
        op3> canceled
    ",
    );
}

#[test]
fn policy_approves_restarts_as_they_come() {
    check(
        "
        vm a
        on a
        policy a reboot
        restart a
        a> 2: e1 Reboot Started a
        told> e1 appeared, e1 approved by policy, e1 started
        redeploy a
        a> 3: e1 Reboot Started a | e2 Redeploy Scheduled a 10:00
        done e1
        a> 4: e2 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn policy_approves_redeploys_as_they_come() {
    check(
        "
        vm a
        on a
        policy a redeploy
        redeploy a
        a> 2: e1 Redeploy Started a
        done e1
        restart a
        a> 4: e2 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn policy_of_a_group_is_that_of_its_machines() {
    check(
        "
        avset s a b
        on a
        policy s reboot,redeploy
        restart a
        redeploy b
        a> 3: e1 Reboot Started a | e2 Redeploy Started b
    ",
    );
}

#[test]
fn policy_of_a_set_is_that_of_its_instances() {
    check(
        "
        set w uniform 2
        on w_0
        policy w reboot
        restart w_1
        w_0> 2: e1 Reboot Started w_1
    ",
    );
}

#[test]
fn a_member_of_a_group_has_no_policy_of_its_own() {
    check(
        "
        avset s a
        set w uniform 1
        policy a reboot = PolicyOnMember
        policy w_0 reboot = PolicyOnMember
    ",
    );
}

#[test]
fn a_policy_can_be_taken_back() {
    check(
        "
        vm a
        on a
        policy a reboot
        policy a none
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn policy_does_not_approve_what_the_platform_does() {
    check(
        "
        vm a
        on a
        policy a reboot,redeploy
        maintain a reboot
        maintain a redeploy
        a> 3: e1 Reboot Scheduled a 15:00 | e2 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn policy_does_not_approve_deletions_and_evictions() {
    check(
        "
        vm a spot
        vm b term=5m
        on a
        on b
        policy a reboot,redeploy
        policy b reboot,redeploy
        evict a
        a> 2: e1 Preempt Scheduled a 0:30
        delete b
        b> 2: e2 Terminate Scheduled b 5:00
    ",
    );
}

#[test]
fn what_policy_approves_waits_for_what_has_started() {
    check(
        "
        vm a
        on a
        policy a reboot
        fail a
        restart a
        a> 3: e1 Reboot Started a | e2 Reboot Scheduled a 15:00
        done e1
        a> 4: e2 Reboot Started a
    ",
    );
}

#[test]
fn what_policy_starts_does_not_count_for_the_limit() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on a
        on b
        policy b reboot
        restart a
        restart b
        b> 2: e2 Reboot Started b
    ",
    );
}

#[test]
fn while_all_machines_are_down_nobody_need_approve() {
    check(
        "
        avset s a b
        on a
        maintain a freeze
        off a
        a> 2: e1 Freeze Scheduled a 15:00
        off b
        a> 3: -
        e1> noeffect
        op1> succeeded
    ",
    );
}

#[test]
fn machines_that_are_deallocated_are_down() {
    check(
        "
        avset s a b
        on a
        maintain a freeze
        deallocate a
        deallocate b
        a> 3: -
    ",
    );
}

#[test]
fn what_comes_while_all_machines_are_down_is_over_at_once() {
    check(
        "
        vm a
        on a
        off a
        maintain a freeze
        a> 1: -
        e1> noeffect
        op1> succeeded
    ",
    );
}

#[test]
fn whoever_runs_in_the_scope_is_asked() {
    check(
        "
        avset s a b
        on a
        off b
        maintain b freeze
        a> 2: e1 Freeze Scheduled b 15:00
        wait 15m
        a> 3: -
        e1> noeffect
    ",
    );
}

#[test]
fn without_that_policy_events_of_machines_that_are_down_wait_for_their_time() {
    check(
        "
        vm a
        on a
        policy a -down
        off a
        maintain a freeze
        a> 2: e1 Freeze Scheduled a 15:00
        wait 15m
        a> 3: -
        e1> noeffect
    ",
    );
}

#[test]
fn a_deletion_while_all_machines_are_down_is_carried_out_at_once() {
    check(
        "
        set w uniform 2 term=10m
        on w_0
        off w_0
        off w_1
        delete w_0
        w_1> 2: e1 Terminate Started w_0
        done e1
        w_1> 3: -
        machines> w_1
    ",
    );
}

#[test]
fn a_deletion_that_waits_goes_when_the_last_machine_goes_down() {
    check(
        "
        set w uniform 2 term=10m
        on w_0
        delete w_0
        off w_0
        w_1> 2: e1 Terminate Scheduled w_0 10:00
        off w_1
        w_1> 3: e1 Terminate Started w_0
    ",
    );
}

#[test]
fn a_machine_that_starts_again_in_time_is_asked_again() {
    check(
        "
        vm a
        on a
        policy a -down
        maintain a freeze
        off a
        start a
        wait 15m
        a> 3: e1 Freeze Started a
    ",
    );
}

#[test]
fn when_the_policy_changes_while_all_are_down_what_waits_is_approved() {
    check(
        "
        avset s a b
        vm c
        on a
        on c
        policy s -down
        policy c -down
        off a
        off b
        off c
        maintain a freeze
        maintain c freeze
        a> 2: e1 Freeze Scheduled a 15:00
        c> 2: e2 Freeze Scheduled c 15:00
        policy c none
        c> 3: -
        policy s reboot
        a> 3: -
    ",
    );
}

#[test]
fn when_the_last_machine_that_runs_is_gone_the_others_are_all_down() {
    check(
        "
        avset s a b
        on a
        off b
        maintain b freeze
        a> 2: e1 Freeze Scheduled b 15:00
        delete a
        done e2
        b> 3: -
        e1> noeffect
    ",
    );
}

#[test]
fn when_the_last_machine_that_runs_is_evicted_what_waits_is_over() {
    check(
        "
        vm a spot
        on a
        maintain a freeze
        evict a
        approve a e2
        done e2
        a> 5: -
        e1> noeffect
        op1> succeeded
    ",
    );
}

#[test]
fn down_is_asked_of_the_placement_group_and_not_of_the_set() {
    check(
        "
        set w uniform 2 max=1
        on w_0
        maintain w_0 freeze
        maintain w_1 freeze
        off w_0
        w_0> 3: -
        w_1> 2: e2 Freeze Scheduled w_1 15:00
    ",
    );
}

#[test]
fn what_waits_unseen_does_not_count_for_the_limit() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        vm a
        vm b
        on b
        restart a
        redeploy a
        e2> hidden scheduled
        restart b
        b> 2: e3 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn in_a_scope_that_is_off_the_same_wish_joins_what_waits() {
    check(
        "
        vm a
        restart a
        restart a
        restart a
        e2> hidden scheduled
        done e1
        done e2
        op1> succeeded
        op2> succeeded
        op3> succeeded
    ",
    );
}

#[test]
fn one_restart_of_several_machines_makes_an_event_for_each_and_ends_with_the_last() {
    check(
        "
        avset s a b c uds=1
        on a
        restart b a b
        a> 2: e1 Reboot Scheduled a 15:00 | e2 Reboot Scheduled b 15:00
        approve c e1
        a> 3: e1 Reboot Started a | e2 Reboot Scheduled b 15:00
        done e1
        op1> running
        wait 15m
        done e2
        op1> succeeded
        restart = NothingThere
    ",
    );
}

#[test]
fn what_counts_is_operations_not_machines() {
    check_with(
        Settings { user_operations_max: 2, ..Settings::default() },
        "
        avset s a b c d f
        on a
        restart a b c
        redeploy a b
        restart d = UserOperationsFull
        approve a e1 e2
        restart d = UserOperationsFull
        approve a e3
        restart d
        restart f = UserOperationsFull
    ",
    );
}

#[test]
fn a_restart_of_several_is_refused_as_a_whole() {
    check(
        "
        avset s a b c
        on a
        off b
        restart a b c = NotRunning
        restart a nobody = UnknownMachine
        a> 1: -
        left> 0
    ",
    );
}

#[test]
fn machines_that_have_such_an_event_join_it_and_the_others_get_one() {
    check_with(
        Settings { user_operations_max: 1, ..Settings::default() },
        "
        avset s a b
        on a
        restart a
        restart a b = UserOperationsFull
        restart a
        cancel op2
        approve a e1
        restart a b
        a> 4: e1 Reboot Started a | e2 Reboot Scheduled a 15:00 | e3 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn cancelling_a_restart_of_several_takes_those_away_that_wait() {
    check(
        "
        avset s a b c
        on a
        restart a b c
        approve a e2
        cancel op1
        a> 4: e2 Reboot Started b
        op1> running
        done e2
        op1> canceled
    ",
    );
}

#[test]
fn cancelling_one_event_of_a_restart_of_several_cancels_the_restart() {
    check(
        "
        avset s a b
        on a
        restart a b
        uncall e1
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn policy_approves_each_machine_of_a_restart_by_its_own_group() {
    check(
        "
        avset s a
        vm b
        policy s reboot
        on a
        on b
        restart a b
        a> 2: e1 Reboot Started a
        b> 2: e2 Reboot Scheduled b 15:00
        op1> running
    ",
    );
}
