//! Draining hosts: moves, reservations and limits.

use crate::lang::check;

#[test]
fn a_drain_moves_machines_live_and_ends_with_an_empty_host() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h1
        on a
        drain h1
        h1> Draining a,b
        # The group of b is off, so it moves at once.
        a> 2: e1 Freeze Scheduled a 15:00
        e2> hidden started
        done e2
        b? host=h2
        approve a e1
        done e1
        a? host=h2
        h1> Drained -
        op1> succeeded
        history> e1 completed, h1 Drained, op1 over
    ",
    );
}

#[test]
fn parallel_limits_the_number_of_moves() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h1
        vm c host=h1
        on a
        on b
        on c
        drain h1 parallel=2
        a> 2: e1 Freeze Scheduled a 15:00
        b> 2: e2 Freeze Scheduled b 15:00
        c> 1: -
        approve b e2
        c> 1: -
        done e2
        c> 2: e3 Freeze Scheduled c 15:00
    ",
    );
}

#[test]
fn a_group_loses_at_most_one_update_domain_even_if_all_approve_early() {
    check(
        "
        host h2
        avset s a b c uds=3 host=h1
        on a
        drain h1
        a> 2: e1 Freeze Scheduled a 15:00
        approve a e1
        # The move has started, but its reservation holds until it ends.
        a> 3: e1 Freeze Started a
        h1> Draining a,b,c
        done e1
        a> 4: e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn max_allows_more_machines_of_a_group_at_a_time() {
    check(
        "
        host h2
        avset s a b c uds=3 host=h1
        on a
        drain h1 max=2
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Freeze Scheduled b 15:00
    ",
    );
}

#[test]
fn the_strictest_limit_on_a_group_applies_to_all_drains() {
    check(
        "
        host h3
        avset s a b uds=2 host=h1
        join s c host=h2
        join s d host=h2
        on a
        drain h1 max=1
        drain h2 max=3
        a> 2: e1 Freeze Scheduled a 15:00
        h2> Draining c,d waits for availability s 1/1
    ",
    );
}

#[test]
fn memory_at_the_target_is_reserved() {
    check(
        "
        host h2
        host h2 mem=3000
        vm a host=h1 mem=2000
        vm b host=h1 mem=2000
        vm c host=h1 mem=1000
        on a
        on b
        on c
        drain h1
        a> 2: e1 Freeze Scheduled a 15:00
        # No room for b, but enough for c.
        b> 1: -
        c> 2: e2 Freeze Scheduled c 15:00
        cancel op1
        h1> Active a,b,c
        host h2 mem=1000
        drain h1
        c> 4: e3 Freeze Scheduled c 15:00
        approve c e3
        done e3
        h1> Draining a,b waits for capacity a
        host h2 mem=-
        h1> Draining a,b
    ",
    );
}

#[test]
fn machines_go_to_the_host_with_the_most_free_memory() {
    check(
        "
        host h2
        host h2 mem=4000
        host h3
        host h3 mem=8000
        vm a host=h1 mem=5000
        vm b host=h1 mem=1000
        drain h1
        done e1
        done e2
        a? host=h3
        b? host=h2
    ",
    );
}

#[test]
fn fault_domains_stay_apart_where_possible() {
    check(
        "
        host h2
        host h3
        avset s a b fds=2 host=h1
        move b h2
        drain h1
        done e1
        a? host=h3
        drain h3
        done e2
        # Only h1 is draining, so h2 is the only choice.
        a? host=h2
    ",
    );
}

#[test]
fn machines_stay_in_their_pool_unless_the_drain_names_another() {
    check(
        "
        host h2
        host h2 pool=gpu
        vm a host=h1
        drain h1
        h1> Draining a waits for capacity a
        activate h1
        drain h1 to=gpu
        done e1
        a? host=h2
    ",
    );
}

#[test]
fn no_machine_moves_to_a_host_that_is_not_active() {
    check(
        "
        host h2
        host h3
        host h4
        vm a host=h1
        drain h2
        h2> Drained -
        fence h3
        h3> Failed -
        confirm h4
        lose h4
        h4> Active lost -
        drain h1
        h1> Draining a waits for capacity a
        activate h2
        e1> hidden started
    ",
    );
}

#[test]
fn machines_that_cannot_move_live_are_redeployed() {
    check(
        "
        host h2
        vm a host=h1 fixed
        on a
        drain h1
        a> 2: e1 Redeploy Scheduled a 10:00
        wait 10m
        done e1
        a? host=h2
        h1> Drained -
    ",
    );
}

#[test]
fn machines_that_cannot_move_live_can_restart_in_place() {
    check(
        "
        host h2
        vm a host=h1 fixed
        vm b host=h1
        on a
        drain h1 in-place
        a> 2: e1 Reboot Scheduled a 15:00
        done e2
        wait 15m
        done e1
        a? host=h1
        h1> Drained a
        op1> succeeded
    ",
    );
}

#[test]
fn stopped_machines_move_without_an_effect_on_availability() {
    check(
        "
        host h2
        avset s a b c uds=3 host=h1
        on a
        off b
        off c
        drain h1
        a> 2: e1 Freeze Scheduled a 15:00 | e2 Redeploy Scheduled b 10:00 | e3 Redeploy Scheduled c 10:00
        approve a e2
        done e2
        b? stopped host=h2
    ",
    );
}

#[test]
fn machines_that_arrive_on_a_draining_host_get_events() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h2
        on a
        on b
        drain h1
        move b h1
        b> 2: e2 Freeze Scheduled b 15:00
        approve a e1
        done e1
        h1> Draining b
    ",
    );
}

#[test]
fn canceling_a_drain_makes_the_host_active_and_lets_started_moves_finish() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h1
        on a
        on b
        drain h1
        approve a e1
        cancel op1
        h1> Active a,b
        a> 3: e1 Freeze Started a
        b> 3: -
        op1> running
        done e1
        a? host=h2
        op1> canceled
    ",
    );
}

#[test]
fn activating_a_draining_host_cancels_the_drain() {
    check(
        "
        host h2
        vm a host=h1
        on a
        drain h1
        activate h1
        h1> Active a
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn a_failed_move_is_not_repeated_and_the_host_stays_draining() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h1
        on a
        drain h1
        done e2
        approve a e1
        failed e1
        a> 4: -
        h1> Draining a
        op1> failed Failed
        drain h1
        a> 5: e3 Freeze Scheduled a 15:00
    ",
    );
}

#[test]
fn a_machine_that_leaves_by_itself_needs_no_event() {
    check(
        "
        host h2
        vm a host=h1 term=5m
        on a
        delete a
        drain h1
        a> 2: e1 Terminate Scheduled a 5:00
        wait 5m
        done e1
        h1> Drained -
    ",
    );
}

#[test]
fn a_move_is_canceled_when_the_machine_leaves_the_host() {
    check(
        "
        host h2
        host h3
        vm a host=h1
        on a
        drain h1
        move a h3
        a> 3: -
        h1> Drained -
    ",
    );
}

#[test]
fn drains_are_refused_where_they_make_no_sense() {
    check(
        "
        vm a host=h1
        drain h9 = UnknownHost
        drain h1 parallel=0 = ParallelRange
        drain h1 max=0 = UnavailableRange
        drain h1 notice=1m = NoticeTooShort
        drain h1
        drain h1 = AlreadyDraining
        fence h1
        drain h1 = HostNotActive
    ",
    );
}

#[test]
fn a_host_cannot_be_removed_while_a_machine_moves_there() {
    check(
        "
        host h2
        vm a host=h1
        drain h1
        unhost h2 = HostInUse
        done e1
        unhost h1
    ",
    );
}
