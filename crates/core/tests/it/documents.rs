//! Documents: order, incarnation, and how long ended events are kept.

use crate::lang::check;

#[test]
fn the_first_incarnation_is_one_whatever_the_document_shows() {
    check(
        "
        vm a
        maintain a freeze in=1h
        maintain a reboot in=1h
        on a
        a> 1: e1 Freeze Scheduled a 60:00 | e2 Reboot Scheduled a 60:00
    ",
    );
}

#[test]
fn each_step_that_changes_the_list_increments_the_incarnation() {
    check(
        "
        vm a
        on a
        a> 1: -
        restart a
        a> 2: e1 Reboot Scheduled a 15:00
        approve a e1
        a> 3: e1 Reboot Started a
        done e1
        a> 4: -
    ",
    );
}

#[test]
fn a_step_with_many_changes_increments_the_incarnation_once() {
    check(
        "
        set w uniform 5 term=5m
        on w_0
        delete w_0 w_1 w_2 w_3
        w_4> 2: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_1 5:00 | e3 Terminate Scheduled w_2 5:00 | e4 Terminate Scheduled w_3 5:00
        approve w_4 e1 e2 e3 e4
        w_4> 3: e1 Terminate Started w_0 | e2 Terminate Started w_1 | e3 Terminate Started w_2 | e4 Terminate Started w_3
    ",
    );
}

#[test]
fn an_end_and_a_start_in_one_step_increment_the_incarnation_once() {
    check(
        "
        vm a
        on a
        restart a
        maintain a freeze
        approve a e1 e2
        a> 4: e1 Reboot Started a | e2 Freeze Scheduled a 15:00
        done e1
        a> 5: e2 Freeze Started a
    ",
    );
}

#[test]
fn an_approval_that_starts_nothing_keeps_the_incarnation() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1 w_2
        approve w_0 e1
        history> e1 approved by w_0
        w_0> 2: e1 Terminate Scheduled w_1 5:00 | e2 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn a_rejected_command_keeps_the_incarnation() {
    check(
        "
        vm a
        on a
        restart a
        maintain a freeze notice=1m = NoticeTooShort
        evict a = NotSpot
        done e1 = NotStarted
        approve a e1 e99 = UnknownEvents
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn changes_of_other_scopes_keep_the_incarnation() {
    check(
        "
        vm a
        vm b
        on a
        on b
        restart b
        approve b e1
        done e1
        a> 1: -
        b> 4: -
    ",
    );
}

#[test]
fn requests_keep_the_incarnation() {
    check(
        "
        vm a
        on a
        5x on a
        a> 1: -
    ",
    );
}

#[test]
fn power_changes_and_moves_keep_the_incarnation() {
    check(
        "
        avset s a b
        on a
        off a
        start a
        move a h1
        a> 1: -
    ",
    );
}

#[test]
fn joining_an_event_keeps_the_incarnation() {
    check(
        "
        vm a
        on a
        restart a
        5x restart a
        a> 2: e1 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn the_passage_of_time_keeps_the_incarnation() {
    check(
        "
        vm a
        on a
        restart a
        wait 14m
        a> 2: e1 Reboot Scheduled a 1:00
    ",
    );
}

#[test]
fn deadlines_at_different_times_increment_the_incarnation_separately() {
    check(
        "
        vm a
        vm b
        on a
        maintain a freeze
        maintain a freeze notice=20m
        wait 15m
        done e1
        wait 5m
        a> 6: e2 Freeze Started a
    ",
    );
}

#[test]
fn deadlines_handled_in_one_tick_increment_the_incarnation_once() {
    check(
        "
        avset s a b
        on a
        maintain a freeze
        maintain b freeze notice=20m
        jump 1h
        a> 4: e1 Freeze Started a | e2 Freeze Started b
    ",
    );
}

#[test]
fn overdue_events_and_the_next_command_are_two_steps() {
    check(
        "
        avset s a b
        on a
        restart a
        wait 10m
        jump 4m
        restart b
        a> 3: e1 Reboot Scheduled a 1:00 | e2 Reboot Scheduled b 15:00
    ",
    );
}

#[test]
fn events_are_listed_in_order_of_appearance() {
    check(
        "
        avset s a b c
        on a
        maintain c freeze notice=1h
        restart a
        redeploy b
        a> 4: e1 Freeze Scheduled c 60:00 | e2 Reboot Scheduled a 15:00 | e3 Redeploy Scheduled b 10:00
        approve a e3
        a> 5: e1 Freeze Scheduled c 60:00 | e2 Reboot Scheduled a 15:00 | e3 Redeploy Started b
        approve a e2
        done e2
        a> 7: e1 Freeze Scheduled c 60:00 | e3 Redeploy Started b
        restart a
        a> 8: e1 Freeze Scheduled c 60:00 | e3 Redeploy Started b | e4 Reboot Scheduled a 15:00
    ",
    );
}

#[test]
fn resources_are_listed_in_order_of_registration() {
    check(
        "
        avset s c a b uds=1
        move b h1
        move a h1
        move c h1
        on a
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled c,a,b 15:00
    ",
    );
}

#[test]
fn the_resources_of_an_event_do_not_change() {
    check(
        "
        avset s a b uds=1 host=h1
        on a
        maintain host h1 freeze
        join s c ud=0 host=h1
        delete b
        done e2
        a> 2: e1 Freeze Scheduled a,b 15:00
        wait 15m
        a> 3: e1 Freeze Started a,b
    ",
    );
}

#[test]
fn all_resources_of_an_event_are_in_one_domain() {
    check(
        "
        avset s a b c d uds=2 host=h1
        on a
        maintain host h1 freeze
        a> 2: e1 Freeze Scheduled a,c 15:00 | e2 Freeze Scheduled b,d 15:00
        fail host h1
        e3> started
        e4> started
    ",
    );
}

#[test]
fn all_machines_of_a_scope_see_the_same_document() {
    check(
        "
        service s a b c
        on b
        restart c
        a> 2: e1 Reboot Scheduled c 15:00
        b> 2: e1 Reboot Scheduled c 15:00
        c> 2: e1 Reboot Scheduled c 15:00
    ",
    );
}

#[test]
fn ended_events_are_kept_for_an_hour() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        done e1
        left> 2
        wait 59m
        op1> succeeded
        e1> completed
        wait 2m
        op1> forgotten
        e1> forgotten
        left> 0
    ",
    );
}

#[test]
fn canceled_events_are_kept_for_an_hour() {
    check(
        "
        vm a
        on a
        restart a
        cancel op1
        wait 61m
        left> 0
    ",
    );
}

#[test]
fn hidden_events_are_kept_for_an_hour() {
    check(
        "
        vm a
        restart a
        done e1
        left> 2
        wait 61m
        left> 0
    ",
    );
}

#[test]
fn waiting_events_are_not_forgotten() {
    check(
        "
        vm a
        on a
        maintain a freeze notice=10h
        wait 9h
        e1> scheduled
        op1> running
    ",
    );
}

#[test]
fn an_operation_is_kept_while_one_of_its_events_is_in_progress() {
    check(
        "
        vm a host=h1
        vm b host=h1
        on a
        on b
        maintain host h1 freeze
        wait 15m
        done e1
        wait 50m
        op1> running
        done e2
        wait 59m
        op1> succeeded
        wait 2m
        op1> forgotten
    ",
    );
}

#[test]
fn an_event_can_be_approved_again_for_an_hour() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1
        approve a e1
        history> -
        done e1
        wait 3599s
        approve a e1
        history> -
        wait 2s
        approve a e1 = UnknownEvents
    ",
    );
}

#[test]
fn an_event_of_another_scope_is_unknown_in_any_state() {
    check(
        "
        vm a
        vm b
        on a
        on b
        restart b
        approve a e1 = UnknownEvents
        approve b e1
        approve a e1 = UnknownEvents
        done e1
        approve a e1 = UnknownEvents
    ",
    );
}

#[test]
fn operators_can_approve_events_of_any_scope() {
    check(
        "
        vm a
        vm b
        on a
        on b
        restart a
        restart b
        ack e1 e2
        a> 3: e1 Reboot Started a
        b> 3: e2 Reboot Started b
        ack e1
        history> -
    ",
    );
}

#[test]
fn operators_cannot_approve_ended_events() {
    check(
        "
        vm a
        on a
        restart a
        ack e1
        done e1
        ack e1 = EventEnded
        approve a e1
        wait 61m
        ack e1 = UnknownEvents
        ack e99 = UnknownEvents
    ",
    );
}

#[test]
fn an_operator_approval_can_be_limited_to_a_group() {
    check(
        "
        avset s a
        avset t b
        on a
        on b
        restart a
        restart b
        ack e2 in=s = UnknownEvents
        ack e1 e2 in=s = UnknownEvents
        a> 2: e1 Reboot Scheduled a 15:00
        ack e1 in=s
        a> 3: e1 Reboot Started a
        ack e1 in=nogroup = UnknownGroup
    ",
    );
}

#[test]
fn an_operator_approval_for_a_set_covers_all_placement_groups() {
    check(
        "
        set w uniform 2 max=1
        on w_0
        restart w_1
        ack e1 in=w
        w_1> 3: e1 Reboot Started w_1
    ",
    );
}

#[test]
fn an_approval_records_the_approver() {
    check(
        "
        avset s a b
        on a
        restart a
        approve b e1
        history> e1 approved by b, e1 started
        restart b
        ack e2
        history> e2 approved by management, e2 started
    ",
    );
}

#[test]
fn the_first_approval_is_recorded() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_1 w_2
        approve w_0 e1
        approve w_1 e1
        history> -
    ",
    );
}

#[test]
fn approving_the_same_id_twice_in_one_request_is_one_approval() {
    check(
        "
        vm a
        on a
        restart a
        approve a e1 e1
        a> 3: e1 Reboot Started a
    ",
    );
}

#[test]
fn an_unknown_machine_cannot_approve() {
    check(
        "
        vm a
        on a
        restart a
        approve missing e1 = UnknownMachine
        on missing = UnknownMachine
    ",
    );
}

#[test]
fn machines_in_different_subscriptions_have_different_documents() {
    check(
        "
        vm a sub=s
        vm b sub=t
        on a
        on b
        restart a
        b> 1: -
    ",
    );
}
