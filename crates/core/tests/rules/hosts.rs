//! Machines on one host go through it together (semantics 2.3, 2.10, 2.12).

use crate::lang::check;

#[test]
fn a_host_operation_makes_one_event_for_each_scope_and_update_domain() {
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
fn all_events_of_a_host_operation_have_one_time() {
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
fn one_approval_of_several_starts_nothing() {
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
        told> e3 approved by c, e1 started, e2 started, e3 started
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
fn one_approval_may_name_all_events_of_a_host_operation() {
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
fn at_its_time_a_host_operation_starts_whoever_approved() {
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
fn events_of_a_host_operation_end_on_their_own() {
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
fn a_machine_that_is_gone_is_not_waited_for() {
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
fn a_machine_that_moved_away_is_not_waited_for() {
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
fn an_event_stays_while_one_of_its_machines_is_still_there() {
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
fn a_started_event_does_not_go_when_its_machines_move() {
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
fn a_machine_that_comes_to_the_host_later_is_not_part_of_it() {
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
fn a_busy_machine_holds_back_the_whole_host() {
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
fn a_busy_machine_holds_back_the_whole_host_past_its_time() {
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
fn a_stopped_machine_does_not_hold_back_its_host() {
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
fn a_machine_alone_and_stopped_needs_no_approval() {
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
fn a_host_whose_scopes_are_all_off_starts_at_once() {
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
fn a_planned_host_operation_waits_unseen() {
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
fn a_planned_host_operation_is_seen_by_those_who_listen() {
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
fn cancelling_a_host_operation_takes_all_its_scheduled_events() {
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
fn one_event_of_a_host_operation_cannot_be_cancelled_alone() {
    check(
        "
        avset s a b host=h1
        on a
        maintain host h1 freeze
        uncall e1 = PartOfHostOperation
        uncall e2 = PartOfHostOperation
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn a_host_operation_that_has_started_cannot_be_cancelled() {
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
fn a_broken_host_takes_all_its_machines_at_once() {
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
fn a_broken_host_ends_what_had_started_on_it() {
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
fn machines_of_a_broken_host_that_redeploy_go_elsewhere() {
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
fn there_is_nothing_to_maintain_on_an_empty_host() {
    check(
        "
        host h1
        maintain host h1 freeze = NothingThere
        fail host h1 = NothingThere
        maintain host h9 freeze = UnknownHost
        fail host h9 = UnknownHost
    ",
    );
}

#[test]
fn after_a_redeploy_the_machine_is_elsewhere() {
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
fn after_a_redeploy_with_no_other_host_the_machine_is_where_it_was() {
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
fn a_machine_without_a_host_redeploys_without_one() {
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
fn every_kind_of_redeploy_moves() {
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
fn only_a_redeploy_moves() {
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
fn a_redeploy_takes_the_machine_out_of_the_maintenance_of_its_old_host() {
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
fn self_service_maintenance_ends_the_planned_one() {
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
fn a_redeploy_with_no_other_host_leaves_maintenance_as_it_was() {
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
fn a_redeploy_of_one_machine_leaves_the_event_to_the_others() {
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
fn a_redeploy_out_of_a_host_lets_the_others_start() {
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
fn maintenance_of_the_machine_itself_goes_along() {
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
fn hosts_come_by_name_and_go_when_empty() {
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
fn a_machine_can_be_moved_to_a_host_that_is_not_known_yet() {
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
fn when_those_who_listen_have_moved_away_the_rest_starts() {
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
fn an_operation_that_lost_a_machine_says_so() {
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
fn a_role_instance_and_a_machine_of_a_set_go_through_their_host_together() {
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
fn two_operations_of_one_host_wait_for_each_other() {
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
fn a_broken_machine_is_pushed_out_of_the_host_operation_and_the_others_go_on() {
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
fn whoever_begins_to_listen_while_the_host_waits_is_asked_too() {
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
fn a_machine_that_is_deallocated_gives_up_its_place_on_its_host() {
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
fn a_host_event_goes_when_its_last_machine_on_the_host_is_deleted_and_another_has_moved() {
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
