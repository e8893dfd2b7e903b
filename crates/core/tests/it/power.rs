//! Starts, stops and deallocations by operators, where hosts take orders per machine.

use crate::lang::check_with;
use forewarn_core::Settings;

/// Runs a script in a region whose hosts report per machine.
fn check(script: &str) {
    check_with(Settings { machine_orders: true, ..Settings::default() }, script);
}

// --- starts ----------------------------------------------------------------------------------------

#[test]
fn a_machine_that_an_operator_starts_is_started_by_its_host() {
    check(
        "
        vm a host=h1
        off a
        start a
        a? running host=h1 change=running
        orders:h1> start e99 a
        start a e98
        restart a
        e1> hidden scheduled
        report e99 a h1 done
        a? running host=h1 change=-
        e1> hidden started
        orders:h1> perform e1 a
    ",
    );
}

#[test]
fn a_start_that_fails_leaves_the_machine_off() {
    for report in ["failed", "gone"] {
        check(&format!(
            "
            vm a host=h1
            off a
            start a
            report e99 a h1 {report}
            a? stopped host=h1 change=failed
            orders:h1> -
            start a e98
            a? running change=running
            orders:h1> start e98 a
        "
        ));
    }
}

#[test]
fn a_deallocated_machine_is_started_by_the_host_that_has_it() {
    check(
        "
        host h2
        vm a host=h1
        deallocate a
        report e99 a h1 done
        start a
        a? running host=- change=running
        orders:h1> -
        claim a h2
        a? host=h2 change=running
        orders:h2> start e99 a
        report e99 a h2 done
        a? running host=h2 change=-
    ",
    );
}

#[test]
fn a_start_that_no_host_has_received_ends_when_the_machine_is_stopped() {
    check(
        "
        vm a
        off a
        start a
        shutdown a e98
        a? stopped host=- change=-
        claim a h1 = UnknownHost
        host h1
        claim a h1
        orders:h1> -
    ",
    );
}

#[test]
fn a_machine_that_another_host_claims_is_not_started() {
    check(
        "
        host h2
        vm a host=h1
        off a
        claim a h2
        start a = MachineClaimed
        a? stopped host=h1 change=-
        leave a h2
        start a
        claim a h2
        orders:h1> withdraw e99 a
        report e99 a h1 failed
        a? stopped change=failed
    ",
    );
}

#[test]
fn a_machine_is_not_started_on_a_fenced_host() {
    check(
        "
        vm a host=h1
        fence h1
        start a = HostNotActive
    ",
    );
}

// --- stops -----------------------------------------------------------------------------------------

#[test]
fn a_machine_runs_until_its_host_reports_that_it_is_stopped() {
    for (word, state) in [("shutdown", "stopped host=h1"), ("deallocate", "deallocated host=-")] {
        for report in ["done", "gone"] {
            check(&format!(
                "
                vm a host=h1
                {word} a
                a? running host=h1 change={}
                orders:h1> stop e99 a
                {word} a e98
                orders:h1> stop e99 a
                report e98 a h1 done = UnknownEvent
                report e99 a h1 moved=h2 = UnplannedMove
                report e99 a h1 {report}
                a? {state} change=-
                orders:h1> -
                report e99 a h1 done = {}
            ",
                state.split(' ').next().unwrap(),
                if word == "shutdown" { "UnknownEvent" } else { "NotOnHost" },
            ));
        }
    }
}

#[test]
fn a_stop_that_fails_leaves_the_machine_as_it_was() {
    for word in ["shutdown", "deallocate"] {
        check(&format!(
            "
            vm a host=h1
            {word} a
            report e99 a h1 failed
            a? running host=h1 change=failed
            orders:h1> -
            restart a
            e1> hidden started
            report e1 a h1 done
            {word} a e98
            orders:h1> stop e98 a
        "
        ));
    }
}

#[test]
fn a_failed_stop_is_forgotten_when_the_machine_is_found_off() {
    check(
        "
        vm a host=h1
        shutdown a
        report e99 a h1 failed
        off a
        a? stopped change=-
    ",
    );
}

#[test]
fn a_machine_that_is_off_or_without_a_host_is_stopped_at_once() {
    check(
        "
        vm a host=h1
        off a
        shutdown a
        a? stopped host=h1 change=-
        deallocate a
        a? deallocated host=- change=-
        vm b
        shutdown b
        a? deallocated
        b? stopped change=-
        vm c host=h2
        fence h2
        deallocate c
        c? deallocated host=-
    ",
    );
}

#[test]
fn a_stop_waits_for_the_order_of_an_event_that_has_started() {
    check(
        "
        vm a host=h1
        restart a
        shutdown a
        a? running change=stopped
        orders:h1> perform e1 a
        report e99 a h1 done = NotOrdered
        report e1 a h1 done
        e1> completed
        orders:h1> stop e99 a
        report e99 a h1 done
        a? stopped
    ",
    );
}

#[test]
fn a_stop_follows_the_machine_to_its_new_host() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        shutdown a
        report e1 a h1 moved=h2
        orders:h2> start e1 a
        report e1 a h2 done
        e1> completed
        orders:h2> stop e99 a
        report e99 a h2 done
        a? stopped host=h2
    ",
    );
}

#[test]
fn a_machine_that_is_to_be_stopped_is_not_started_for_a_move_that_has_ended() {
    check(
        "
        host h2
        vm a host=h1
        redeploy a
        wait 61m
        e1> timedout
        orders:h1> withdraw e1 a
        shutdown a
        report e1 a h1 moved=h2
        orders:h2> withdraw e1 a
        report e1 a h2 failed
        a? stopped host=h2 change=stopped
        orders:h2> stop e99 a
        report e99 a h2 done
        a? stopped change=-
    ",
    );
}

#[test]
fn events_wait_for_a_stop_and_then_have_no_effect() {
    check(
        "
        vm a host=h1
        on a
        restart a
        shutdown a
        approve a e1
        a> 2: e1 Reboot Scheduled a 15:00
        orders:h1> stop e99 a
        report e99 a h1 done
        e1> noeffect
        a> 3: -
    ",
    );
}

#[test]
fn a_scheduled_event_of_a_stopped_machine_ends_without_effect_at_its_time() {
    check(
        "
        avset s a b host=h1
        on a
        restart a
        shutdown a
        report e99 a h1 done
        a> 2: e1 Reboot Scheduled a 15:00
        wait 15m
        e1> noeffect
    ",
    );
}

#[test]
fn a_stop_waits_for_a_host_that_is_unreachable() {
    check(
        "
        vm a host=h1
        confirm h1
        lose h1
        shutdown a
        a? running change=stopped
        orders:h1> stop e99 a
        confirm h1
        report e99 a h1 done
        a? stopped
    ",
    );
}

#[test]
fn a_start_withdraws_a_stop_that_the_host_may_have_begun() {
    for report in ["done", "failed", "gone"] {
        check(&format!(
            "
            vm a host=h1
            shutdown a e98
            start a
            a? running withdrawn=e98 change=running
            orders:h1> withdraw e98 a
            report e98 a h1 {report}
            orders:h1> start e99 a
            report e99 a h1 done
            a? running withdrawn=- change=-
        "
        ));
    }
}

#[test]
fn a_start_ends_a_stop_that_no_host_has_received() {
    check(
        "
        vm a host=h1
        restart a
        shutdown a
        start a e98
        a? running change=-
        report e1 a h1 done
        orders:h1> -
    ",
    );
}

#[test]
fn a_stop_withdraws_a_start() {
    check(
        "
        vm a host=h1
        off a
        start a e98
        shutdown a
        orders:h1> withdraw e98 a
        report e98 a h1 failed
        orders:h1> stop e99 a
        report e99 a h1 done
        a? stopped change=-
    ",
    );
}

#[test]
fn a_deallocation_replaces_a_stop() {
    check(
        "
        vm a host=h1
        shutdown a e98
        deallocate a
        orders:h1> withdraw e98 a
        report e98 a h1 done
        a? running change=deallocated
        orders:h1> stop e99 a
        report e99 a h1 done
        a? deallocated host=-
    ",
    );
}

#[test]
fn a_deletion_withdraws_a_stop() {
    check(
        "
        vm a host=h1
        shutdown a
        delete a
        e1> hidden started
        a? change=- withdrawn=e99
        orders:h1> withdraw e99 a
        report e99 a h1 done
        orders:h1> perform e1 a
        report e1 a h1 gone
        a> gone
    ",
    );
}

#[test]
fn a_failure_replaces_a_stop_that_waits_for_another_event() {
    check(
        "
        vm a host=h1
        restart a
        shutdown a
        fail a
        e1> superseded
        a? change=- withdrawn=e1
    ",
    );
}

#[test]
fn a_fence_completes_stops_and_ends_starts() {
    check(
        "
        vm a host=h1
        vm b host=h1
        vm c host=h1
        off c
        shutdown a e97
        deallocate b e98
        start c e99
        fence h1
        a? stopped host=h1 change=-
        b? deallocated host=- change=-
        c? stopped host=h1 change=-
        activate h1
        orders:h1> -
    ",
    );
}

#[test]
fn a_stop_waits_while_two_hosts_claim_the_machine_and_goes_to_the_one_that_has_it() {
    check(
        "
        host h2
        vm a host=h1
        shutdown a
        claim a h2
        orders:h1> -
        leave a h1
        a? host=h2 change=stopped
        orders:h2> stop e99 a
        report e99 a h1 gone = NotOnHost
        report e99 a h2 done
        a? stopped host=h2
    ",
    );
}

#[test]
fn an_operator_who_moves_the_record_ends_a_stop() {
    check(
        "
        host h2
        vm a host=h1
        shutdown a
        move a h2
        a? running host=h2 change=-
        orders:h2> -
    ",
    );
}
