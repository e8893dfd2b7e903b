//! Restart and redeploy by users: limit, joining and policy.

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn a_restart_is_a_reboot_and_a_redeploy_a_redeploy_of_one_machine() {
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
fn a_stopped_machine_cannot_be_restarted() {
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
fn requests_for_unknown_machines_are_rejected() {
    check(
        "
        restart missing = UnknownMachine
        redeploy missing = UnknownMachine
        perform missing = UnknownMachine
        evict missing = UnknownMachine
        delete missing = UnknownMachine
        fail missing = UnknownMachine
        maintain missing freeze = UnknownMachine
    ",
    );
}

#[test]
fn ten_operations_may_be_scheduled_and_the_eleventh_is_rejected() {
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
fn started_events_do_not_count_toward_the_limit() {
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
fn canceled_events_do_not_count_toward_the_limit() {
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
fn ended_events_do_not_count_toward_the_limit() {
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
fn approved_events_that_wait_count_toward_the_limit() {
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
fn zero_means_no_limit() {
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
fn hidden_events_do_not_count_toward_the_limit() {
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
fn maintenance_does_not_count_toward_the_limit() {
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
fn the_same_request_joins_the_scheduled_event() {
    check(
        "
        vm a
        on a
        restart a
        wait 5m
        restart a
        history> -
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
fn a_request_that_joins_is_not_limited() {
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
fn joined_operations_count_separately() {
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
fn a_request_of_another_type_does_not_join() {
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
fn a_request_for_another_machine_does_not_join() {
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
fn a_user_request_does_not_join_a_platform_event() {
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
fn a_request_does_not_join_a_started_event() {
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
fn a_request_joins_an_approved_event_that_waits() {
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
fn the_number_of_joined_requests_is_limited() {
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
fn canceling_a_joined_operation_keeps_the_event_for_the_others() {
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
fn policy_approves_new_restarts() {
    check(
        "
        vm a
        on a
        policy a reboot
        restart a
        a> 2: e1 Reboot Started a
        history> e1 appeared, e1 approved by policy, e1 started
        redeploy a
        a> 3: e1 Reboot Started a | e2 Redeploy Scheduled a 10:00
        done e1
        a> 4: e2 Redeploy Scheduled a 10:00
    ",
    );
}

#[test]
fn policy_approves_new_redeploys() {
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
fn the_policy_of_a_group_applies_to_its_machines() {
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
fn the_policy_of_a_set_applies_to_its_instances() {
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
fn a_member_of_a_group_cannot_have_its_own_policy() {
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
fn a_policy_can_be_removed() {
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
fn policy_does_not_approve_platform_events() {
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
fn an_event_approved_by_policy_waits_for_started_events() {
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
fn events_started_by_policy_do_not_count_toward_the_limit() {
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
fn events_are_approved_while_all_machines_are_down() {
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
fn deallocated_machines_are_down() {
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
fn new_events_end_immediately_while_all_machines_are_down() {
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
fn one_running_machine_in_the_scope_requires_approval() {
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
fn without_the_policy_events_of_stopped_machines_wait() {
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
fn a_deletion_is_immediate_while_all_machines_are_down() {
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
fn a_waiting_deletion_starts_when_the_last_machine_stops() {
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
fn an_event_starts_normally_if_its_machine_is_started_in_time() {
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
fn enabling_the_policy_while_all_are_down_approves_waiting_events() {
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
fn deleting_the_last_running_machine_means_all_are_down() {
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
fn evicting_the_last_running_machine_ends_waiting_events() {
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
fn all_instances_down_is_decided_per_placement_group() {
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
fn waiting_hidden_events_do_not_count_toward_the_limit() {
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
fn the_same_request_joins_a_waiting_hidden_event() {
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
fn a_restart_of_several_machines_has_one_event_each_and_ends_with_the_last() {
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
        restart = TargetHasNoMachines
    ",
    );
}

#[test]
fn the_limit_counts_operations_not_machines() {
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
fn a_restart_of_several_machines_is_rejected_as_a_whole() {
    check(
        "
        avset s a b c
        on a
        off b
        restart a b c = NotRunning
        restart a missing = UnknownMachine
        a> 1: -
        left> 0
    ",
    );
}

#[test]
fn machines_join_their_existing_event_and_the_others_get_a_new_one() {
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
fn canceling_a_restart_of_several_machines_removes_scheduled_events() {
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
fn canceling_one_event_cancels_the_whole_restart() {
    check(
        "
        avset s a b
        on a
        restart a b
        cancel-event e1
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn each_machine_of_a_restart_has_the_policy_of_its_group() {
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
