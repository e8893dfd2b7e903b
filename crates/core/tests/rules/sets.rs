//! Scale sets: capacity, scale-in, placement groups, deletion of groups (semantics 3.3, 3.6).

use crate::lang::check;

#[test]
fn a_set_has_the_instances_it_was_made_with() {
    check(
        "
        set w uniform 3
        machines> w_0 w_1 w_2
        w? capacity=3 size=3 parts=1
        w_2? running ud=2 part=0
    ",
    );
}

#[test]
fn numbers_of_instances_are_not_used_again() {
    check(
        "
        set w uniform 2
        delete w_1
        done e1
        w? capacity=1
        scale w 2
        machines> w_0 w_2
    ",
    );
}

#[test]
fn raising_the_capacity_adds_instances() {
    check(
        "
        set w uniform 1
        scale w 3
        machines> w_0 w_1 w_2
        told> +w_1, +w_2
        w? capacity=3
    ",
    );
}

#[test]
fn the_same_capacity_changes_nothing() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        scale w 2
        told> -
        w_0> 1: -
        machines> w_0 w_1
    ",
    );
}

#[test]
fn scale_in_takes_the_newest() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        scale w 2
        w_0> 2: e1 Terminate Scheduled w_2 5:00
        w? capacity=2 size=3
        wait 5m
        done e1
        w? capacity=2 size=2
        machines> w_0 w_1
        op1> succeeded
    ",
    );
}

#[test]
fn scale_in_leaves_protected_instances() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        protect w_2
        scale w 2
        w_0> 2: e1 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn protection_can_be_taken_back() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        protect w_2
        unprotect w_2
        scale w 2
        w_0> 2: e1 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn protection_is_from_scale_in_only() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        protect w_2
        delete w_2
        w_0> 2: e1 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn scale_in_without_the_profile_goes_at_once() {
    check(
        "
        set w uniform 3
        on w_0
        scale w 1
        w_0> 1: -
        done e1
        done e2
        machines> w_0
    ",
    );
}

#[test]
fn scale_in_makes_one_event_for_each_instance() {
    check(
        "
        set w uniform 4 term=5m
        on w_0
        scale w 1
        w? capacity=1 size=4
        e1> scheduled
        e2> scheduled
        e3> scheduled
        w_0> 2: e1 Terminate Scheduled w_3 5:00 | e2 Terminate Scheduled w_2 5:00 | e3 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn five_to_three_to_two_adds_one() {
    check(
        "
        set w uniform 5 term=5m
        on w_0
        scale w 3
        w_0> 2: e1 Terminate Scheduled w_4 5:00 | e2 Terminate Scheduled w_3 5:00
        wait 1m
        scale w 2
        w_0> 3: e1 Terminate Scheduled w_4 4:00 | e2 Terminate Scheduled w_3 4:00 | e3 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn raising_again_makes_new_ones_and_takes_back_nothing() {
    check(
        "
        set w uniform 5 term=5m
        on w_0
        scale w 3
        scale w 5
        w_0> 2: e1 Terminate Scheduled w_4 5:00 | e2 Terminate Scheduled w_3 5:00
        machines> w_0 w_1 w_2 w_3 w_4 w_5 w_6
        w? capacity=5 size=7
        wait 5m
        done e1
        done e2
        w? capacity=5 size=5
    ",
    );
}

#[test]
fn the_same_capacity_again_adds_nothing_while_some_are_leaving() {
    check(
        "
        set w uniform 5 term=5m
        on w_0
        scale w 3
        scale w 3
        w_0> 2: e1 Terminate Scheduled w_4 5:00 | e2 Terminate Scheduled w_3 5:00
        w? size=5
    ",
    );
}

#[test]
fn an_instance_that_is_deleted_is_out_of_the_count_at_once() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        delete w_0
        w? capacity=2 size=3
        scale w 2
        w_1> 2: e1 Terminate Scheduled w_0 5:00
        scale w 1
        w_1> 3: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn a_set_can_be_scaled_to_nothing_and_back() {
    check(
        "
        set w uniform 2
        scale w 0
        done e1
        done e2
        machines>
        w? capacity=0 size=0
        scale w 1
        machines> w_2
    ",
    );
}

#[test]
fn zones_are_filled_evenly() {
    check(
        "
        set w uniform 5 zones=2
        w_0? zone=1
        w_1? zone=2
        w_2? zone=1
        w_3? zone=2
        w_4? zone=1
    ",
    );
}

#[test]
fn scale_in_keeps_zones_even() {
    check(
        "
        set w uniform 5 zones=2 term=5m
        on w_0
        scale w 4
        w_0> 2: e1 Terminate Scheduled w_4 5:00
        scale w 3
        w_0> 3: e1 Terminate Scheduled w_4 5:00 | e2 Terminate Scheduled w_3 5:00
        scale w 2
        w_0> 4: e1 Terminate Scheduled w_4 5:00 | e2 Terminate Scheduled w_3 5:00 | e3 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn scale_in_takes_from_the_zone_that_has_more_though_its_instances_are_older() {
    check(
        "
        set w uniform 6 zones=3 term=5m
        delete w_0
        done e1
        delete w_3
        done e2
        on w_1
        scale w 3
        w_1> 2: e3 Terminate Scheduled w_5 5:00
        scale w 2
        w_1> 3: e3 Terminate Scheduled w_5 5:00 | e4 Terminate Scheduled w_4 5:00
    ",
    );
}

#[test]
fn scale_in_from_zones_passes_protected_ones() {
    check(
        "
        set w uniform 4 zones=2 term=5m
        on w_0
        protect w_3
        scale w 3
        w_0> 2: e1 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn new_instances_go_to_the_zone_that_has_fewest() {
    check(
        "
        set w uniform 4 zones=2
        delete w_0
        done e1
        delete w_2
        done e2
        scale w 4
        w_4? zone=1
        w_5? zone=1
    ",
    );
}

#[test]
fn zones_do_not_split_the_document() {
    check(
        "
        set w uniform 2 zones=2
        on w_0
        restart w_1
        w_0> 2: e1 Reboot Scheduled w_1 15:00
    ",
    );
}

#[test]
fn placement_groups_hold_so_many_and_the_lowest_with_room_is_filled() {
    check(
        "
        set w uniform 5 max=2
        w? parts=3
        w_0? part=0
        w_1? part=0
        w_2? part=1
        w_4? part=2
        delete w_0
        done e1
        scale w 5
        w_5? part=0
        scale w 6
        w_6? part=2
        scale w 7
        w_7? part=3
    ",
    );
}

#[test]
fn a_placement_group_holds_a_hundred_unless_the_set_says_otherwise() {
    check(
        "
        set w uniform 101 max=100
        w_99? part=0
        w_100? part=1
        set x uniform 101
        x_100? part=0
    ",
    );
}

#[test]
fn instances_of_placement_groups_see_their_own_document() {
    check(
        "
        set w uniform 4 max=2 term=5m
        on w_0
        delete w_1 w_2
        w_0> 2: e1 Terminate Scheduled w_1 5:00
        w_3> 2: e2 Terminate Scheduled w_2 5:00
        approve w_0 e2 = UnknownEvents
        approve w_3 e2
        w_3> 3: e2 Terminate Started w_2
        w_0> 2: e1 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn a_flexible_set_is_one_scope_however_large() {
    check(
        "
        set w flexible 5
        w? parts=1
        on w/1
        restart w/5
        w/1> 2: e1 Reboot Scheduled w/5 15:00
    ",
    );
}

#[test]
fn flexible_instances_have_their_fault_domain_for_update_domain() {
    check(
        "
        set w flexible 4 fd=3
        w/1? ud=0 fd=0
        w/2? ud=1 fd=1
        w/3? ud=2 fd=2
        w/4? ud=0 fd=0
    ",
    );
}

#[test]
fn flexible_sets_scale_like_others() {
    check(
        "
        set w flexible 3 term=5m
        on w/1
        scale w 2
        w/1> 2: e1 Terminate Scheduled w/3 5:00
        scale w 4
        machines> w/1 w/2 w/3 w/4 w/5
        wait 5m
        done e1
        machines> w/1 w/2 w/4 w/5
    ",
    );
}

#[test]
fn deleting_an_empty_set() {
    check(
        "
        set w uniform 0
        drop w
        op1> succeeded
        set w uniform 1
    ",
    );
}

#[test]
fn deleting_a_set_joins_what_is_being_deleted() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        delete w_1
        wait 1m
        drop w
        w_0> 3: e1 Terminate Scheduled w_1 4:00 | e2 Terminate Scheduled w_0 5:00
        wait 5m
        done e1
        done e2
        op1> succeeded
        op2> succeeded
        machines>
    ",
    );
}

#[test]
fn deleting_a_set_takes_protected_instances_too() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        protect w_0
        drop w
        w_0> 2: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_1 5:00
    ",
    );
}

#[test]
fn deleting_an_availability_set_deletes_its_machines() {
    check(
        "
        avset s a b term=5m
        on a
        drop s
        a> 2: e1 Terminate Scheduled a 5:00 | e2 Terminate Scheduled b 5:00
        join s c = GroupLeaving
        wait 5m
        done e1
        done e2
        machines>
        op1> succeeded
    ",
    );
}

#[test]
fn deleting_a_cloud_service_deletes_its_instances() {
    check(
        "
        service s a b
        drop s
        done e1
        done e2
        machines>
        op1> succeeded
    ",
    );
}

#[test]
fn deleting_a_group_again_joins() {
    check(
        "
        set w uniform 1 term=5m
        on w_0
        drop w
        drop w
        w_0> 2: e1 Terminate Scheduled w_0 5:00
        wait 5m
        done e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn a_deletion_of_a_set_cannot_be_cancelled() {
    check(
        "
        set w uniform 1 term=5m
        on w_0
        drop w
        cancel op1 = NotCancellable
    ",
    );
}

#[test]
fn what_is_not_of_the_set_is_not_upgraded_with_it() {
    check(
        "
        set w uniform 1 mode=manual
        vm a
        upgrade w a = NotAMember
        upgrade w nobody = UnknownMachine
        machines> w_0 a
    ",
    );
}

#[test]
fn only_scale_sets_have_capacity_model_and_upgrades() {
    check(
        "
        avset s a
        service v b
        scale s 3 = NotAScaleSet
        mode s manual = NotAScaleSet
        upgrade s = NotAScaleSet
        scale v 3 = NotAScaleSet
        scale nogroup 3 = UnknownGroup
        upgrade nogroup = UnknownGroup
        drop nogroup = UnknownGroup
    ",
    );
}

#[test]
fn machines_join_the_kind_of_group_that_they_say() {
    check(
        "
        set w uniform 1
        avset s a
        service v b
        join w c as=avset = NotAnAvailabilitySet
        join v c as=avset = NotAnAvailabilitySet
        join s c as=service = NotACloudService
        join w c = NotAFlexibleSet
        join s c as=instance = NotAFlexibleSet
        join v c as=instance = NotAFlexibleSet
        join w c as=service = NotACloudService
        join nogroup c = UnknownGroup
        machines> w_0 a b
    ",
    );
}

#[test]
fn a_set_is_counted_again_when_a_deletion_fails() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        scale w 2
        wait 5m
        failed e1
        w? capacity=3 size=3
        scale w 2
        w_0> 5: e2 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn scale_in_takes_no_more_than_there_are_without_protection() {
    check(
        "
        set w uniform 3 term=5m
        on w_0
        protect w_0
        protect w_1
        scale w 1
        w_0> 2: e1 Terminate Scheduled w_2 5:00
    ",
    );
}

#[test]
fn the_last_instance_of_a_placement_group_leaves_its_place_to_new_ones() {
    check(
        "
        set w uniform 2 max=1
        delete w_0
        done e1
        scale w 2
        w_2? part=0
    ",
    );
}

#[test]
fn deleting_a_set_deletes_its_instances_and_then_itself() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        drop w
        w_0> 2: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_1 5:00
        op1> running
        scale w 5 = GroupLeaving
        model w term=10m = GroupLeaving
        approve w_0 e1 e2
        done e1
        machines> w_1
        done e2
        machines>
        op1> succeeded
        set w uniform 1
        machines> w_0
    ",
    );
}

#[test]
fn deleting_a_set_whose_instances_are_not_told() {
    check(
        "
        set w uniform 2
        drop w
        done e1
        done e2
        op1> succeeded
        set w uniform 1
    ",
    );
}

#[test]
fn a_deleted_availability_set_leaves_its_name_to_another() {
    check(
        "
        avset s a
        drop s
        done e1
        op1> succeeded
        avset s b
        machines> b
    ",
    );
}

#[test]
fn a_flexible_set_takes_machines_that_were_registered_by_hand() {
    check(
        "
        set w flexible 2 fd=3
        join w own
        w? capacity=3 size=3
        own? ud=2 fd=2
        on own
        restart w/1
        own> 2: e1 Reboot Scheduled w/1 15:00
        approve own e1
        w/1> 3: e1 Reboot Started w/1
    ",
    );
}

#[test]
fn an_instance_that_came_by_hand_has_the_notice_that_it_brought_until_the_model_changes() {
    check(
        "
        set w flexible 1 term=5m
        join w own term=10m
        join w bare
        own? term=10m
        bare? term=none
        on own
        delete own
        own> 2: e1 Terminate Scheduled w/2 10:00
        w? capacity=2 size=3
        upgrade w
        bare? term=none
        model w term=7m
        bare? term=7m
    ",
    );
}

#[test]
fn a_spot_instance_takes_no_terminate_notification_from_a_model() {
    check(
        "
        set w flexible 1
        join w cheap spot
        model w term=7m
        w/1? term=7m
        cheap? term=none
    ",
    );
}

#[test]
fn scale_in_takes_instances_that_came_by_hand_like_any_other() {
    check(
        "
        set w flexible 1
        join w own
        scale w 1
        done e1
        machines> w/1
        w? capacity=1 size=1
    ",
    );
}

#[test]
fn a_machine_that_is_refused_does_not_count_for_its_set() {
    check(
        "
        set w flexible 1
        join w own
        join w own = NameTaken
        join w late spot term=5m = TerminateOnSpot
        w? capacity=2 size=2
    ",
    );
}
