//! Reports of hosts about single machines: refusals, moves, withdrawn orders and claims.

use crate::lang::check_with;
use forewarn_core::Settings;

/// Runs a script in a region whose hosts report per machine.
fn check(script: &str) {
    check_with(Settings { machine_orders: true, ..Settings::default() }, script);
}

// --- reports ---------------------------------------------------------------------------------------

#[test]
fn reports_on_things_that_do_not_exist_are_refused() {
    check(
        "
        vm a host=h1
        report e99 a h9 done = UnknownHost
        report e99 missing h1 done = UnknownMachine
        report e99 a h1 done = UnknownEvent
    ",
    );
}

#[test]
fn reports_of_other_hosts_are_refused() {
    check(
        "
        host h2
        vm a host=h1
        restart a
        orders:h1> perform e1 a
        orders:h2> -
        report e1 a h2 done = NotOnHost
        report e1 a h2 gone = NotOnHost
        e1> hidden started
        report e1 a h1 done
        e1> completed
    ",
    );
}

#[test]
fn reports_of_a_fenced_host_are_refused() {
    check(
        "
        vm a host=h1
        restart a
        fence h1
        e1> failed
        orders:h1> -
        report e1 a h1 done = HostNotActive
        claim a h1 = HostNotActive
        leave a h1 = HostNotActive
        activate h1
        report e1 a h1 done = EventEnded
    ",
    );
}

#[test]
fn reports_on_orders_from_before_a_fence_are_refused() {
    check(
        "
        host h1
        fence h1
        activate h1
        activate h1
        vm a host=h1
        restart a
        orders:h1> perform e1 a
        report e1 a h1 done epoch=1 = OtherEpoch
        report e1 a h1 done epoch=3 = OtherEpoch
        orders:h1> perform e1 a
        report e1 a h1 done epoch=2
        e1> completed
    ",
    );
}

#[test]
fn reports_on_orders_of_an_earlier_host_with_the_same_name_are_refused() {
    check(
        "
        host h1
        unhost h1
        host h1
        vm a host=h1
        restart a
        report e1 a h1 done epoch=0 = OtherEpoch
        report e1 a h1 done epoch=1 = OtherEpoch
        report e1 a h1 done epoch=3
        e1> completed
    ",
    );
}

#[test]
fn reports_before_the_start_and_after_the_end_are_refused() {
    check(
        "
        vm a host=h1
        on a
        restart a
        orders:h1> -
        report e1 a h1 done = NotStarted
        approve a e1
        report e1 a h1 done
        report e1 a h1 done = EventEnded
        report e1 a h1 failed = EventEnded
        op1> succeeded
    ",
    );
}

#[test]
fn reports_on_machines_that_the_event_does_not_concern_are_refused() {
    check(
        "
        vm a host=h1
        vm b host=h1
        restart a
        report e1 b h1 done = NotOrdered
        orders:h1> perform e1 a
    ",
    );
}

#[test]
fn an_event_ends_with_the_report_of_its_last_machine() {
    check(
        "
        avset s a b uds=1 host=h1
        move b h2
        maintain group s reboot
        orders:h1> perform e1 a
        orders:h2> perform e1 b
        report e1 a h1 done
        orders:h1> -
        e1> hidden started
        report e1 b h2 done
        e1> completed
    ",
    );
}

#[test]
fn one_failed_machine_fails_the_event_after_the_last_report() {
    check(
        "
        avset s a b uds=1 host=h1
        maintain group s reboot
        report e1 a h1 failed
        e1> hidden started
        report e1 b h1 done
        e1> failed
        op1> failed Failed
    ",
    );
}

#[test]
fn the_first_report_on_a_machine_stands() {
    check(
        "
        avset s a b uds=1 host=h1
        maintain group s reboot
        report e1 a h1 failed
        report e1 a h1 done
        report e1 b h1 done
        e1> failed
    ",
    );
}

#[test]
fn a_machine_that_is_gone_fails_a_restart_but_completes_a_deletion_and_an_eviction() {
    check(
        "
        vm a host=h1
        vm b host=h1 spot
        vm c host=h1 spot policy=delete
        restart a
        report e1 a h1 gone
        e1> failed
        delete a
        report e2 a h1 gone
        e2> completed
        evict b
        report e3 b h1 gone
        e3> completed
        b? deallocated host=-
        evict c
        report e4 c h1 done
        machines> b
    ",
    );
}

#[test]
fn a_deletion_that_fails_keeps_its_machine() {
    check(
        "
        vm a host=h1
        delete a
        report e1 a h1 failed
        machines> a
        op1> failed Failed
    ",
    );
}

// --- moves -----------------------------------------------------------------------------------------

#[test]
fn a_machine_moves_when_its_new_host_reports_it() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        orders:h1> perform e1 a
        report e1 a h1 moved=h2
        a? host=h1 arriving=h2
        orders:h1> -
        orders:h2> start e1 a
        report e1 a h1 done = NotOnHost
        e1> hidden started
        report e1 a h2 done
        a? host=h2 arriving=- running
        e1> completed
    ",
    );
}

#[test]
fn moves_to_hosts_that_the_event_does_not_name_are_refused() {
    check(
        "
        host h2
        vm a host=h1
        vm b host=h1
        redeploy a
        report e1 a h1 moved=h1 = UnplannedMove
        report e1 a h1 moved=h9 = UnplannedMove
        a? host=h1 arriving=-
        restart b
        report e2 b h1 moved=h2 = UnplannedMove
        orders:h1> perform e1 a | perform e2 b
    ",
    );
}

#[test]
fn a_redeploy_that_stays_on_its_host_fails() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        report e1 a h1 done
        e1> failed
        a? host=h1 running
    ",
    );
}

#[test]
fn a_machine_that_does_not_start_at_its_new_host_is_there_and_stopped() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        report e1 a h1 moved=h2
        report e1 a h2 failed
        e1> failed
        a? host=h2 arriving=- stopped
    ",
    );
}

#[test]
fn a_stopped_machine_has_moved_when_its_old_host_says_so() {
    check(
        "
        host h2
        vm a host=h1 fixed
        off a
        drain h1
        orders:h1> perform e1 a
        report e1 a h1 moved=h2
        a? host=h2 arriving=- stopped
        e1> completed
        h1> Drained -
    ",
    );
}

#[test]
fn fencing_the_new_host_leaves_an_arriving_machine_there() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        report e1 a h1 moved=h2
        fence h2
        a? host=h2 arriving=- stopped
        e1> failed
    ",
    );
}

// --- one order at a time ---------------------------------------------------------------------------

#[test]
fn a_deletion_withdraws_the_order_in_progress_and_waits_for_its_end() {
    check(
        "
        vm a host=h1
        restart a
        delete a
        e1> superseded
        e2> hidden started
        a? withdrawn=e1
        orders:h1> withdraw e1 a
        report e2 a h1 gone = NotOrdered
        report e1 a h1 failed
        a? withdrawn=-
        orders:h1> perform e2 a
        report e2 a h1 gone
        machines>
    ",
    );
}

#[test]
fn nothing_starts_before_the_host_has_confirmed_the_end_of_a_withdrawn_order() {
    check(
        "
        vm a host=h1
        restart a
        wait 1h
        e1> timedout
        a? withdrawn=e1
        restart a
        e2> hidden scheduled
        orders:h1> withdraw e1 a
        report e1 a h1 done
        e2> hidden started
        orders:h1> perform e2 a
    ",
    );
}

#[test]
fn a_machine_that_moved_for_a_withdrawn_order_is_started_at_its_new_host() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        wait 1h
        e1> timedout
        orders:h1> withdraw e1 a
        report e1 a h1 moved=h1 = UnplannedMove
        report e1 a h1 moved=h9 = UnplannedMove
        report e1 a h1 moved=h2
        a? host=h1 arriving=h2 withdrawn=e1
        orders:h2> start e1 a
        report e1 a h2 done
        a? host=h2 arriving=- withdrawn=-
        orders:h2> -
    ",
    );
}

#[test]
fn a_deletion_that_completes_after_its_timeout_removes_the_machine() {
    check(
        "
        vm a host=h1
        vm b host=h1 spot
        delete a
        evict b
        wait 1h
        e1> timedout
        e2> timedout
        machines> a b
        report e1 a h1 gone
        report e2 b h1 done
        machines> b
        b? deallocated host=- withdrawn=-
    ",
    );
}

#[test]
fn fencing_forgets_withdrawn_orders() {
    check(
        "
        vm a host=h1
        restart a
        wait 1h
        a? withdrawn=e1
        fence h1
        a? withdrawn=-
        activate h1
        orders:h1> -
        report e1 a h1 done = EventEnded
    ",
    );
}

// --- claims ----------------------------------------------------------------------------------------

#[test]
fn claims_on_things_that_do_not_exist_are_refused() {
    check(
        "
        vm a host=h1
        claim a h9 = UnknownHost
        claim missing h1 = UnknownMachine
        leave missing h1 = UnknownMachine
    ",
    );
}

#[test]
fn the_claim_of_its_own_host_changes_nothing() {
    check(
        "
        vm a host=h1
        claim a h1
        a? host=h1 claims=
    ",
    );
}

#[test]
fn a_machine_without_a_host_is_on_the_host_that_claims_it() {
    check(
        "
        host h2
        vm a
        claim a h2
        a? host=h2 claims=
    ",
    );
}

#[test]
fn a_host_that_claims_a_machine_has_the_full_time_for_its_event() {
    check(
        "
        vm a
        host h2
        restart a
        e1> hidden started
        wait 59m
        claim a h2
        wait 59m
        e1> hidden started
        wait 1m
        e1> timedout
    ",
    );
}

#[test]
fn events_wait_while_two_hosts_claim_a_machine() {
    check(
        "
        host h2
        vm a host=h1
        claim a h2
        claim a h2
        a? host=h1 claims=h2
        restart a
        e1> hidden scheduled
        leave a h2
        a? host=h1 claims=
        e1> hidden started
        orders:h1> perform e1 a
    ",
    );
}

#[test]
fn a_claim_stops_the_order_in_progress_and_urgent_events_start_without_one() {
    check(
        "
        host h2
        vm a host=h1
        restart a
        claim a h2
        orders:h1> -
        delete a
        e2> hidden started
        leave a h2
        orders:h1> withdraw e1 a
    ",
    );
}

#[test]
fn a_machine_moves_to_the_only_other_claimant_when_its_host_gives_it_up() {
    check(
        "
        host h2
        vm a host=h1
        claim a h2
        leave a h1
        a? host=h2 claims=
    ",
    );
}

#[test]
fn a_machine_stays_while_several_other_hosts_claim_it() {
    check(
        "
        host h2
        host h3
        vm a host=h1
        claim a h2
        claim a h3
        leave a h1
        a? host=h1 claims=h2,h3
        leave a h3
        leave a h1
        a? host=h2 claims=
    ",
    );
}

#[test]
fn a_machine_without_another_claimant_stays_on_the_host_that_gives_it_up() {
    check(
        "
        vm a host=h1
        leave a h1
        a? host=h1 claims=
    ",
    );
}

#[test]
fn the_target_of_a_move_may_have_the_machine_before_its_old_host_reports() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        claim a h2
        a? host=h1 claims=
        orders:h1> perform e1 a
        report e1 a h1 moved=h2
        report e1 a h2 done
        a? host=h2
    ",
    );
}

#[test]
fn fencing_a_claimant_ends_its_claim() {
    check(
        "
        host h2
        vm a host=h1
        claim a h2
        fence h2
        a? host=h1 claims=
    ",
    );
}

#[test]
fn a_machine_that_runs_elsewhere_leaves_its_fenced_host() {
    check(
        "
        host h2
        vm a host=h1
        on a
        fence h1
        a? stopped host=h1
        claim a h2
        a? running host=h2 claims=
        restart a
        approve a e1
        orders:h2> perform e1 a
    ",
    );
}

#[test]
fn fencing_the_host_of_a_machine_settles_its_claim() {
    check(
        "
        host h2
        host h3
        vm a host=h1
        vm b host=h1
        claim a h2
        claim b h2
        claim b h3
        fence h1
        a? running host=h2 claims=
        b? stopped host=h1 claims=h2,h3
        leave b h3
        b? running host=h2 claims=
    ",
    );
}

#[test]
fn a_machine_that_arrives_on_a_fenced_host_is_off() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        fence h2
        report e1 a h1 moved=h2
        a? stopped host=h2
        e1> failed
    ",
    );
}

#[test]
fn a_drain_whose_machines_have_all_left_survives_the_fence_of_its_host() {
    check(
        "
        host h2
        vm a host=h1
        drain h1
        report e1 a h1 moved=h2
        fence h1
        op1> running
        report e1 a h2 done
        op1> succeeded
        a? running host=h2
    ",
    );
}

#[test]
fn a_machine_that_runs_elsewhere_is_deleted_there_after_the_fence_of_its_host() {
    check(
        "
        host h2
        vm a host=h1
        claim a h2
        delete a
        fence h1
        a? running host=h2 claims=
        orders:h2> perform e1 a
        report e1 a h2 done
        machines>
        op1> succeeded
    ",
    );
}

#[test]
fn the_fence_of_a_host_withdraws_moves_of_machines_that_are_being_deleted() {
    check(
        "
        host h2
        vm a host=h1 term=5m
        on a
        drain h1
        delete a
        fence h1
        e1> canceled
        op1> canceled
    ",
    );
}

#[test]
fn a_machine_that_arrives_on_a_fenced_host_is_deallocated_if_that_was_requested() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        deallocate a
        fence h2
        report e1 a h1 moved=h2
        a? deallocated
    ",
    );
}
