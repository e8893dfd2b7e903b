//! Scale sets: capacity, scale-in, placement groups, and the deletion of groups.

use crate::lang::check;

#[test]
fn a_new_set_has_its_initial_instances() {
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
fn instance_numbers_are_not_reused() {
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
        history> +w_1, +w_2
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
        history> -
        w_0> 1: -
        machines> w_0 w_1
    ",
    );
}

#[test]
fn scale_in_deletes_the_newest_instances() {
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
fn scale_in_skips_protected_instances() {
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
fn protection_can_be_removed() {
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
fn protection_only_applies_to_scale_in() {
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
fn scale_in_without_a_terminate_profile_is_immediate() {
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
fn scale_in_creates_one_event_per_instance() {
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
fn scaling_in_further_adds_one_deletion() {
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
fn scaling_out_again_creates_new_instances_and_cancels_no_deletion() {
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
fn the_same_capacity_adds_nothing_while_instances_are_being_deleted() {
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
fn an_instance_that_is_being_deleted_does_not_count() {
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
fn a_set_can_be_scaled_to_zero_and_back() {
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
fn scale_in_prefers_the_fullest_zone_over_newer_instances() {
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
fn scale_in_over_zones_skips_protected_instances() {
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
fn new_instances_go_to_the_zone_with_the_fewest() {
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
fn the_first_placement_group_with_room_is_filled() {
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
fn a_placement_group_holds_a_hundred_instances_by_default() {
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
fn each_placement_group_has_its_own_document() {
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
fn a_flexible_set_of_any_size_is_one_scope() {
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
fn the_update_domain_of_a_flexible_instance_is_its_fault_domain() {
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
fn flexible_sets_scale_like_uniform_sets() {
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
fn an_empty_set_can_be_deleted() {
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
fn deleting_a_set_joins_pending_deletions() {
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
fn deleting_a_set_deletes_protected_instances() {
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
        join s c = GroupBeingDeleted
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
fn deleting_a_group_again_joins_the_deletion() {
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
fn the_deletion_of_a_set_cannot_be_canceled() {
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
fn only_members_of_the_set_can_be_upgraded() {
    check(
        "
        set w uniform 1 mode=manual
        vm a
        upgrade w a = NotAMember
        upgrade w missing = UnknownMachine
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
fn a_machine_can_only_join_a_group_of_the_stated_kind() {
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
fn the_capacity_increases_again_after_a_failed_deletion() {
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
fn scale_in_is_limited_to_unprotected_instances() {
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
fn an_empty_placement_group_is_filled_again() {
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
fn deleting_a_set_deletes_its_instances_and_then_the_set() {
    check(
        "
        set w uniform 2 term=5m
        on w_0
        drop w
        w_0> 2: e1 Terminate Scheduled w_0 5:00 | e2 Terminate Scheduled w_1 5:00
        op1> running
        scale w 5 = GroupBeingDeleted
        model w term=10m = GroupBeingDeleted
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
fn deleting_a_set_without_notification_is_immediate() {
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
fn the_name_of_a_deleted_availability_set_can_be_reused() {
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
fn a_flexible_set_accepts_registered_machines() {
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
fn a_registered_instance_keeps_its_own_profile_until_the_model_changes() {
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
fn a_spot_instance_gets_no_terminate_profile_from_a_model() {
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
fn scale_in_treats_registered_instances_like_others() {
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
fn a_rejected_machine_does_not_change_the_capacity() {
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
