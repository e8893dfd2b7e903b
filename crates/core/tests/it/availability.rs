//! How many machines of a group are available, and how many must stay so.

use crate::lang::check;

#[test]
fn all_but_the_largest_update_domain_must_stay_up() {
    check(
        "
        avset s b c d uds=2
        s? size=3 up=3 floor=1
        shutdown b
        s? up=2 floor=1
    ",
    );
}

#[test]
fn a_frozen_machine_is_not_available() {
    check(
        "
        avset s a b uds=2
        maintain a freeze
        s? up=1 floor=1
        done e1
        s? up=2 floor=1
    ",
    );
}

#[test]
fn a_machine_that_is_being_deleted_lowers_the_floor() {
    check(
        "
        set w uniform 4 ud=2 term=5m
        on w_0
        w? up=4 floor=2
        delete w_3
        w? up=4 floor=2
        wait 5m
        w? size=4 up=3 floor=1
        done e1
        w? size=3 up=3 floor=1
    ",
    );
}

#[test]
fn the_strictest_rollout_sets_the_floor() {
    check(
        "
        avset s a b c d uds=2
        host h1
        move a h1
        on a
        s? floor=2
        rollout hosts h1 reboot max=1
        s? up=4 floor=3
    ",
    );
}
