//! Rebalance recommendations: advice to Spot machines, without impact.

use crate::lang::check;

#[test]
fn a_recommendation_ends_without_starting() {
    check(
        "
        vm a spot
        on a
        rebalance a
        a> 2: e1 SpotRebalanceRecommendation Scheduled a 15:00
        wait 14m
        wait 59s
        a> 2: e1 SpotRebalanceRecommendation Scheduled a 0:01
        wait 1s
        a> 3: -
        a? running
        e1> completed
        op1> succeeded
    ",
    );
}

#[test]
fn a_recommendation_ends_with_its_approval() {
    check(
        "
        vm a spot
        on a
        rebalance a
        approve a e1
        a> 3: -
        a? running
        e1> completed
        op1> succeeded
    ",
    );
}

#[test]
fn only_running_spot_machines_get_recommendations() {
    check(
        "
        vm a
        on a
        rebalance a = NotSpot
        vm b spot
        off b
        rebalance b = NotRunning
        a> 1: -
    ",
    );
}

#[test]
fn recommending_again_joins_the_recommendation() {
    check(
        "
        vm a spot
        on a
        rebalance a
        wait 10s
        rebalance a
        a> 2: e1 SpotRebalanceRecommendation Scheduled a 14:50
        approve a e1
        op1> succeeded
        op2> succeeded
    ",
    );
}

#[test]
fn a_recommendation_can_be_canceled() {
    check(
        "
        vm a spot
        on a
        rebalance a
        cancel op1
        a> 3: -
        op1> canceled
    ",
    );
}

#[test]
fn a_recommendation_delays_no_eviction() {
    check(
        "
        vm a spot
        on a
        rebalance a
        evict a
        a> 3: e1 SpotRebalanceRecommendation Scheduled a 15:00 | e2 Preempt Scheduled a 0:30
        wait 30s
        a> 4: e1 SpotRebalanceRecommendation Scheduled a 14:30 | e2 Preempt Started a
        approve a e1
        a> 5: e2 Preempt Started a
        done e2
        a? deallocated
    ",
    );
}

#[test]
fn a_recommendation_ends_on_time_while_another_event_is_in_progress() {
    check(
        "
        vm a spot
        on a
        rebalance a
        maintain a freeze
        approve a e2
        a> 4: e1 SpotRebalanceRecommendation Scheduled a 15:00 | e2 Freeze Started a
        wait 15m
        a> 5: e2 Freeze Started a
        e1> completed
    ",
    );
}

#[test]
fn a_group_that_is_off_gets_no_recommendation() {
    check(
        "
        vm a spot
        rebalance a
        on a
        a> 1: -
        e1> completed
        op1> succeeded
    ",
    );
}
