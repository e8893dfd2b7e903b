//! Hosts with an agent: confirmed copies, lost contact and fencing.

use crate::lang::{check, check_with};
use forewarn_core::Settings;

#[test]
fn notice_begins_when_the_agent_has_confirmed_the_event() {
    check(
        "
        vm a host=h1
        confirm h1
        on a
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        wait 1h
        a> 2: e1 Reboot Scheduled a 0:00
        confirm h1
        wait 899s
        a> 2: e1 Reboot Scheduled a 0:00
        wait 1s
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_copy_from_before_the_event_does_not_confirm_it() {
    check(
        "
        vm a host=h1
        confirm h1 1
        on a
        restart a
        confirm h1 2
        wait 1h
        a> 2: e1 Reboot Scheduled a 0:00
        approve a e1
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn notice_begins_when_the_last_of_several_agents_has_confirmed() {
    check(
        "
        avset s a b uds=1 host=h1
        move b h2
        confirm h1
        confirm h2
        on a
        maintain group s freeze
        confirm h1
        wait 20m
        a> 2: e1 Freeze Scheduled a,b 0:00
        confirm h2
        wait 15m
        a> 3: e1 Freeze Started a,b
    ",
    );
}

#[test]
fn events_wait_for_a_host_that_is_unreachable() {
    check(
        "
        vm a host=h1
        confirm h1
        on a
        restart a
        confirm h1
        lose h1
        h1> Active lost a
        wait 1h
        a> 2: e1 Reboot Scheduled a 0:00
        approve a e1
        a> 2: e1 Reboot Scheduled a 0:00
        confirm h1
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn a_host_operation_waits_for_all_its_hosts() {
    check(
        "
        avset s a b uds=1 host=h1
        move b h2
        confirm h2
        on a
        maintain group s freeze
        confirm h2
        lose h2
        wait 1h
        a> 2: e1 Freeze Scheduled a,b 0:00
        confirm h2
        a> 3: e1 Freeze Started a,b
    ",
    );
}

#[test]
fn a_confirmed_deletion_starts_at_not_before_although_the_host_is_unreachable() {
    check(
        "
        vm a host=h1 term=5m
        confirm h1
        on a
        delete a
        confirm h1
        lose h1
        approve a e1
        a> 2: e1 Terminate Scheduled a 5:00
        wait 5m
        a> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn a_started_event_on_an_unreachable_host_neither_ends_nor_times_out() {
    check(
        "
        vm a host=h1
        confirm h1
        on a
        restart a
        approve a e1
        lose h1
        wait 10h
        a> 3: e1 Reboot Started a
        confirm h1
        wait 59m
        a> 3: e1 Reboot Started a
        wait 1m
        a> 4: -
        op1> failed TimedOut
    ",
    );
}

#[test]
fn an_event_group_on_an_unreachable_host_does_not_turn_off() {
    check(
        "
        vm a host=h1
        confirm h1
        on a
        lose h1
        wait 100h
        a> 1: -
        confirm h1
        wait 26h
        a> off
    ",
    );
}

#[test]
fn fencing_stops_machines_and_ends_their_events() {
    check(
        "
        vm a host=h1
        vm b host=h1 term=5m
        vm c host=h1 spot
        confirm h1
        on a
        on b
        on c
        restart a
        approve a e1
        delete b
        evict c
        confirm h1
        lose h1
        wait 5m
        b> 3: e2 Terminate Started b
        fence h1
        a? stopped host=h1
        a> 4: -
        op1> failed Failed
        machines> a c
        c? deallocated
        h1> Failed lost a
        activate h1
        h1> Active lost a
    ",
    );
}

#[test]
fn a_deletion_that_starts_after_its_host_was_fenced_completes() {
    check(
        "
        vm a host=h1 term=5m
        vm b host=h1
        policy a -down
        confirm h1
        on a
        delete a
        confirm h1
        lose h1
        fence h1
        a> 2: e1 Terminate Scheduled a 5:00
        delete b
        machines> a
        op2> succeeded
        wait 5m
        machines>
        op1> succeeded
        drivers> -
    ",
    );
}

#[test]
fn a_deletion_completes_when_its_silent_host_is_fenced() {
    check(
        "
        vm a host=h1 term=5m
        confirm h1
        on a
        delete a
        lose h1
        a> 2: e1 Terminate Scheduled a 5:00
        # No machine of its event group runs any more, so the deletion is approved by policy.
        fence h1
        machines>
        op1> succeeded
    ",
    );
}

#[test]
fn an_eviction_that_starts_after_its_host_was_fenced_completes() {
    check(
        "
        vm a host=h1 spot
        vm b host=h1 spot policy=delete
        on a
        on b
        evict a
        evict b
        # Its machines are stopped, so the events of a standalone machine need no approval.
        fence h1
        a? deallocated host=-
        machines> a
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn the_notice_of_a_fenced_host_does_not_wait_for_its_agent() {
    check(
        "
        vm a host=h1 term=5m
        vm b host=h1 term=5m
        policy a -down
        policy b -down
        confirm h1
        on a
        on b
        delete a
        lose h1
        wait 1h
        a> 2: e1 Terminate Scheduled a 0:00
        fence h1
        delete b
        wait 299s
        machines> a b
        wait 1s
        machines>
    ",
    );
}

#[test]
fn an_event_does_not_wait_for_a_fenced_host() {
    check_with(
        Settings { machine_orders: true, ..Settings::default() },
        "
        avset s b uds=1 host=h2
        join s a host=h1
        confirm h1
        confirm h2
        on b
        maintain group s reboot
        confirm h1
        confirm h2
        lose h1
        approve b e1
        e1> scheduled
        fence h1
        e1> started
        orders:h2> perform e1 b
        report e1 b h2 done
        e1> failed
    ",
    );
}

#[test]
fn notice_begins_again_when_a_fenced_host_is_activated() {
    check(
        "
        avset s b uds=1 host=h2
        join s a host=h1 term=5m
        confirm h1
        on b
        lose h1
        fence h1
        delete a
        wait 4m
        activate h1
        wait 1h
        b> 2: e1 Terminate Scheduled a 0:00
        confirm h1
        wait 299s
        b> 2: e1 Terminate Scheduled a 0:00
        wait 1s
        b> 3: e1 Terminate Started a
    ",
    );
}

#[test]
fn an_event_without_notice_starts_as_soon_as_its_machine_can_see_it() {
    check(
        "
        avset s b uds=1 host=h2
        join s a host=h1
        confirm h1
        on b
        lose h1
        fail a
        e1> scheduled
        confirm h1
        e1> started
    ",
    );
}

#[test]
fn an_agent_cannot_confirm_what_does_not_exist_yet() {
    check(
        "
        vm a host=h1
        confirm h1 999 = RevisionAhead
        confirm h9 = UnknownHost
    ",
    );
}
