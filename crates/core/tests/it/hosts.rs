//! Host operations, whose events start together.

use crate::lang::check;

#[test]
fn a_host_operation_creates_one_event_per_scope_and_update_domain() {
    check(
        "
        vm a host=h1
        avset s b c d uds=2 host=h1
        vm f host=h2
        on a
        on b
        on f
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled a 15:00
        b> 2: e2 Freeze Scheduled b,d 15:00 | e3 Freeze Scheduled c 15:00
        f> 1: -
    ",
    );
}

#[test]
fn all_events_of_a_host_operation_have_the_same_not_before() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 reboot notice=20m
        a> 2: e1 Reboot Scheduled a 20:00
        b> 2: e2 Reboot Scheduled b 20:00
        wait 20m
        a> 3: e1 Reboot Started a
        b> 3: e2 Reboot Started b
    ",
    );
}

#[test]
fn one_of_several_approvals_starts_nothing() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h1
        on a
        on b
        on c
        maintain host h1 freeze
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00
        approve b e2
        a> 2: e1 Freeze Scheduled a 15:00
        b> 2: e2 Freeze Scheduled b 15:00
        approve c e3
        history> e3 approved by c, e1 started, e2 started, e3 started
        a> 3: e1 Freeze Started a
        b> 3: e2 Freeze Started b
        c> 3: e3 Freeze Started c
    ",
    );
}

#[test]
fn two_events_of_one_scope_start_in_one_step() {
    check(
        "
        avset s a b host=h1
        on a
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled b 15:00
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled b 15:00
        approve a e2
        a> 3: e1 Freeze Started a | e2 Freeze Started b
    ",
    );
}

#[test]
fn one_request_can_approve_all_events_of_a_host_operation() {
    check(
        "
        avset s a b host=h1
        on a
        maintain host h1 freeze
        approve b e1 e2
        a> 3: e1 Freeze Started a | e2 Freeze Started b
    ",
    );
}

#[test]
fn a_host_operation_starts_when_due_regardless_of_approvals() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        approve a e1
        wait 15m
        a> 3: e1 Freeze Started a
        b> 3: e2 Freeze Started b
    ",
    );
}

#[test]
fn events_of_a_host_operation_end_independently() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        approve a e1
        approve b e2
        done e1
        a> 4: -
        b> 3: e2 Freeze Started b
        op1> running
        done e2
        b> 4: -
        op1> succeeded
    ",
    );
}

#[test]
fn one_failure_fails_the_host_operation() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        wait 15m
        failed e1
        op1> running
        done e2
        op1> failed Failed
    ",
    );
}

#[test]
fn a_host_operation_does_not_wait_for_a_deleted_machine() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        approve a e1
        delete b
        done e3
        b> gone
        a> 3: e1 Freeze Started a
        e2> resourcegone
    ",
    );
}

#[test]
fn a_host_operation_does_not_wait_for_a_machine_that_moved() {
    check(
        "
        vm a host=h1
        vm b host=h1
        host h2
        on a
        on b
        maintain host h1 freeze
        approve a e1
        move b h2
        b> 3: -
        e2> canceled
        a> 3: e1 Freeze Started a
    ",
    );
}

#[test]
fn a_host_event_remains_while_one_of_its_machines_is_on_the_host() {
    check(
        "
        avset s a b uds=1 host=h1
        host h2
        on a
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled a,b 15:00
        move b h2
        a> 2: e1 Freeze Scheduled a,b 15:00
        move a h2
        a> 3: -
        e1> canceled
        op1> canceled
    ",
    );
}

#[test]
fn a_started_host_event_remains_when_its_machines_move() {
    check(
        "
        vm a host=h1
        host h2
        on a
        maintain host h1 freeze
        approve a e1
        move a h2
        a> 3: e1 Freeze Started a
        done e1
        op1> succeeded
    ",
    );
}

#[test]
fn a_machine_that_moves_to_the_host_later_is_not_affected() {
    check(
        "
        vm a host=h1
        vm b host=h2
        on a
        on b
        maintain host h1 freeze
        move b h1
        b> 1: -
        approve a e1
        a> 3: e1 Freeze Started a
    ",
    );
}

#[test]
fn a_busy_machine_blocks_the_whole_host() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        restart b
        approve b e1
        maintain host h1 freeze
        approve a e2
        approve b e3
        a> 2: e2 Freeze Scheduled a 15:00
        b> 4: e1 Reboot Started b | e3 Freeze Scheduled b 15:00
        done e1
        a> 3: e2 Freeze Started a
        b> 5: e3 Freeze Started b
    ",
    );
}

#[test]
fn a_busy_machine_blocks_the_whole_host_even_when_due() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        restart b
        approve b e1
        maintain host h1 freeze
        wait 20m
        a> 2: e2 Freeze Scheduled a 0:00
        done e1
        a> 3: e2 Freeze Started a
    ",
    );
}

#[test]
fn a_stopped_machine_does_not_block_its_host() {
    check(
        "
        avset s b c
        vm a host=h1
        move b h1
        on a
        on b
        maintain host h1 reboot
        off b
        approve a e2
        approve c e1
        a> 3: e2 Reboot Started a
        e1> noeffect
        b> 3: -
        done e2
        op1> succeeded
    ",
    );
}

#[test]
fn a_stopped_standalone_machine_needs_no_approval() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 reboot
        off b
        e2> scheduled
        approve a e1
        a> 3: e1 Reboot Started a
        b> 3: -
        e2> noeffect
    ",
    );
}

#[test]
fn a_host_operation_is_immediate_if_all_scopes_are_off() {
    check(
        "
        vm a host=h1
        vm b host=h1
        maintain host h1 freeze
        drivers> e1 e2
        a> off
    ",
    );
}

#[test]
fn a_planned_host_operation_in_scopes_that_are_off_waits_for_its_time() {
    check(
        "
        vm a host=h1
        vm b host=h1
        maintain host h1 freeze in=1h
        drivers> -
        wait 1h
        drivers> e1 e2
    ",
    );
}

#[test]
fn a_planned_host_operation_is_shown_in_scopes_that_are_on() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        maintain host h1 freeze in=1h
        a> 2: e1 Freeze Scheduled a 60:00
        e2> hidden scheduled
        on b
        b> 1: e2 Freeze Scheduled b 60:00
        approve a e1
        a> 2: e1 Freeze Scheduled a 60:00
        approve b e2
        a> 3: e1 Freeze Started a
        b> 2: e2 Freeze Started b
    ",
    );
}

#[test]
fn canceling_a_host_operation_removes_all_its_scheduled_events() {
    check(
        "
        vm a host=h1
        avset s b c host=h1
        on a
        on b
        maintain host h1 freeze
        cancel op1
        a> 3: -
        b> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn one_event_of_a_host_operation_cannot_be_canceled_alone() {
    check(
        "
        avset s a b host=h1
        on a
        maintain host h1 freeze
        cancel-event e1 = PartOfHostOperation
        cancel-event e2 = PartOfHostOperation
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_host_operation_that_has_started_cannot_be_canceled() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        wait 15m
        cancel op1 = NotCancellable
        a> 3: e1 Freeze Started a
        b> 3: e2 Freeze Started b
    ",
    );
}

#[test]
fn a_hardware_failure_of_a_host_affects_all_its_machines_at_once() {
    check(
        "
        vm a host=h1
        vm b host=h1
        avset s c d host=h1
        vm f host=h2
        on a
        on b
        on c
        on f
        fail host h1
        a> 2: e1 Reboot Started a
        b> 2: e2 Reboot Started b
        c> 2: e3 Reboot Started c | e4 Reboot Started d
        f> 1: -
    ",
    );
}

#[test]
fn a_hardware_failure_of_a_host_ends_started_events() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        restart a
        approve a e1
        fail host h1
        a> 4: e2 Reboot Started a
        b> 2: e3 Reboot Started b
        e1> superseded
        op1> failed Superseded
    ",
    );
}

#[test]
fn a_redeploy_after_a_hardware_failure_moves_the_machines() {
    check(
        "
        vm a host=h1
        host h2
        on a
        fail host h1 redeploy
        a> 2: e1 Redeploy Started a
        done e1
        a? running host=h2
    ",
    );
}

#[test]
fn an_empty_host_cannot_be_maintained() {
    check(
        "
        host h1
        maintain host h1 freeze = TargetHasNoMachines
        fail host h1 = TargetHasNoMachines
        maintain host h9 freeze = UnknownHost
        fail host h9 = UnknownHost
    ",
    );
}

#[test]
fn a_redeploy_moves_the_machine_to_another_host() {
    check(
        "
        vm a host=h1
        host h2
        on a
        redeploy a
        a? host=h1
        approve a e1
        a? host=h1
        done e1
        a? running host=h2
    ",
    );
}

#[test]
fn a_redeploy_without_another_host_does_not_move_the_machine() {
    check(
        "
        vm a host=h1
        on a
        redeploy a
        approve a e1
        done e1
        a? running host=h1
    ",
    );
}

#[test]
fn a_machine_without_a_host_can_be_redeployed() {
    check(
        "
        vm a
        host h1
        on a
        redeploy a
        approve a e1
        done e1
        a? running host=-
    ",
    );
}

#[test]
fn every_kind_of_redeploy_moves_the_machine() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h1
        host h2
        on a
        on b
        on c
        perform a
        approve a e1
        done e1
        a? host=h2
        maintain b redeploy
        approve b e2
        done e2
        b? host=h2
        fail c redeploy
        done e3
        c? host=h2
    ",
    );
}

#[test]
fn only_a_redeploy_moves_the_machine() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h1
        host h2
        restart a
        done e1
        maintain b freeze
        done e2
        fail c
        done e3
        a? host=h1
        b? host=h1
        c? host=h1
    ",
    );
}

#[test]
fn a_redeploy_cancels_the_maintenance_of_the_old_host() {
    check(
        "
        vm a host=h1
        host h2
        on a
        maintain host h1 freeze
        redeploy a
        approve a e2
        a> 4: e1 Freeze Scheduled a 15:00 | e2 Redeploy Started a
        done e2
        a> 5: -
        e1> canceled
        op1> canceled
        op2> succeeded
        a? host=h2
    ",
    );
}

#[test]
fn self_service_maintenance_cancels_the_planned_maintenance() {
    check(
        "
        vm a host=h1
        host h2
        on a
        maintain host h1 reboot in=24h
        perform a
        approve a e2
        done e2
        a> 5: -
        op1> canceled
    ",
    );
}

#[test]
fn a_redeploy_without_another_host_keeps_the_maintenance() {
    check(
        "
        vm a host=h1
        on a
        maintain host h1 freeze
        redeploy a
        approve a e2
        done e2
        a> 5: e1 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn a_redeploy_of_one_machine_keeps_the_event_of_the_others() {
    check(
        "
        avset s a b uds=1 host=h1
        host h2
        on a
        maintain host h1 freeze
        redeploy a
        approve a e2
        done e2
        a> 5: e1 Freeze Scheduled a,b 15:00
    ",
    );
}

#[test]
fn a_redeploy_away_from_a_host_unblocks_the_others() {
    check(
        "
        vm a host=h1
        vm b host=h1
        host h2
        on a
        on b
        maintain host h1 freeze
        approve a e1
        redeploy b
        approve b e3
        a> 2: e1 Freeze Scheduled a 15:00
        done e3
        b> 5: -
        a> 3: e1 Freeze Started a
    ",
    );
}

#[test]
fn maintenance_of_a_machine_moves_with_it() {
    check(
        "
        vm a host=h1
        host h2
        on a
        maintain a freeze
        redeploy a
        approve a e2
        done e2
        a> 5: e1 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn hosts_are_registered_by_name_and_removed_when_empty() {
    check(
        "
        vm a host=h1
        unhost h1 = HostInUse
        unhost h9 = UnknownHost
        move a -
        a? host=-
        unhost h1
        maintain host h1 freeze = UnknownHost
    ",
    );
}

#[test]
fn moving_a_machine_to_an_unknown_host_registers_the_host() {
    check(
        "
        vm a
        move a h1
        a? host=h1
    ",
    );
}

#[test]
fn a_stopped_machine_stays_on_its_host() {
    check(
        "
        vm a host=h1
        off a
        a? stopped host=h1
        unhost h1 = HostInUse
    ",
    );
}

#[test]
fn hidden_events_start_when_the_machines_that_must_approve_have_moved_away() {
    check(
        "
        vm a host=h1
        vm b host=h1
        host h2
        on a
        maintain host h1 freeze
        e2> hidden scheduled
        move a h2
        a> 3: -
        e2> hidden started
    ",
    );
}

#[test]
fn a_host_operation_fails_if_one_of_its_machines_is_deleted() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        delete b
        done e3
        wait 15m
        done e1
        op1> failed ResourceGone
    ",
    );
}

#[test]
fn a_role_instance_and_a_set_member_share_a_host_operation() {
    check(
        "
        service s a host=h1
        set w uniform 1
        move w_0 h1
        on a
        on w_0
        maintain host h1 freeze
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00
        approve w_0 e2
        a> 3: e1 Freeze Started a
        w_0> 3: e2 Freeze Started w_0
    ",
    );
}

#[test]
fn two_host_operations_run_one_after_the_other() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        maintain host h1 reboot
        approve a e1 e3
        approve b e2 e4
        a> 4: e1 Freeze Started a | e3 Reboot Scheduled a 15:00
        done e1
        a> 5: e3 Reboot Scheduled a 15:00
        done e2
        a> 6: e3 Reboot Started a
        b> 5: e4 Reboot Started b
    ",
    );
}

#[test]
fn a_hardware_failure_supersedes_one_event_of_a_host_operation() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        wait 15m
        fail a
        e1> superseded
        b> 3: e2 Freeze Started b
        done e2
        op1> failed Superseded
    ",
    );
}

#[test]
fn a_scope_that_turns_on_must_approve_a_pending_host_operation() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        maintain host h1 freeze
        on b
        b> 1: e2 Freeze Scheduled b 15:00
        approve a e1
        a> 2: e1 Freeze Scheduled a 15:00
        approve b e2
        a> 3: e1 Freeze Started a
        b> 2: e2 Freeze Started b
    ",
    );
}

#[test]
fn a_deallocated_machine_leaves_its_host() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        deallocate a
        a? deallocated host=-
        a> 3: -
        b> 2: e2 Freeze Scheduled b 15:00
        off b
        b? stopped host=h1
        delete b
        done e3
        unhost h1
    ",
    );
}

#[test]
fn a_host_event_ends_when_its_last_machine_on_the_host_is_deleted() {
    check(
        "
        host h2
        avset s a b host=h1 uds=1
        on a
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled a,b 15:00
        move a h2
        a> 2: e1 Freeze Scheduled a,b 15:00
        delete b
        done e2
        a> 3: -
        op1> canceled
    ",
    );
}
