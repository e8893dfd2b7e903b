//! The limits in `settings`: values at the limit are accepted, values beyond it are rejected.

use crate::lang::{check, check_with};
use forewarn_core::Settings;
use forewarn_core::settings::*;
use std::net::Ipv4Addr;

#[test]
fn the_number_of_events_in_a_document_is_limited() {
    let most = EVENTS_PER_SCOPE_MAX;
    check(&format!(
        "
        set w uniform {} term=5m
        on w_0
        drop w = TooManyEvents
        w_0> 1: -
        left> 0
        protect w_0
        scale w 1
        e{most}> scheduled
        maintain w_0 freeze = TooManyEvents
        restart w_0 = TooManyEvents
        redeploy w_0 = TooManyEvents
        perform w_0 = TooManyEvents
        delete w_0 = TooManyEvents
        maintain group w freeze = TooManyEvents
        left> {}
        approve w_0 e1
    ",
        most + 1,
        most + 1
    ));
}

#[test]
fn hidden_events_count_toward_the_limit() {
    check(&format!(
        "
        set w uniform {}
        scale w 1
        maintain w_0 freeze = TooManyEvents
        done e1
        maintain w_0 freeze
    ",
        EVENTS_PER_SCOPE_MAX + 1
    ));
}

#[test]
fn the_number_of_approvals_in_a_request_is_limited() {
    let many = vec!["e1"; APPROVALS_MAX].join(" ");
    check(&format!(
        "
        vm a
        on a
        restart a
        approve a {many} e1 = TooManyApprovals
        ack {many} e1 = TooManyApprovals
        a> 2: e1 Reboot Scheduled a 15:00
        approve a {many}
        a> 3: e1 Reboot Started a
    "
    ));
}

#[test]
fn the_number_of_joined_requests_is_limited() {
    check(&format!(
        "
        vm a term=5m
        vm b spot
        on a
        on b
        {JOINED_MAX}x delete a
        delete a = TooManyJoined
        {JOINED_MAX}x evict b
        evict b = TooManyJoined
        left> {}
    ",
        2 * JOINED_MAX + 2
    ));
}

#[test]
fn the_number_of_machines_in_a_group_is_limited() {
    check(&format!(
        "
        set w uniform {} = TooManyMachines
        set w flexible {} = TooManyMachines
        set w uniform {}
        scale w {} = TooManyMachines
        scale w {MACHINES_PER_GROUP_MAX}
        w? size={MACHINES_PER_GROUP_MAX}
        scale w {} = TooManyMachines
    ",
        MACHINES_PER_GROUP_MAX + 1,
        MACHINES_PER_GROUP_MAX + 1,
        MACHINES_PER_GROUP_MAX - 1,
        MACHINES_PER_GROUP_MAX + 1,
        MACHINES_PER_GROUP_MAX + 1,
    ));
}

#[test]
fn the_length_of_names_is_limited() {
    let longest = "n".repeat(NAME_BYTES_MAX);
    check(&format!(
        "
        vm {longest}n = BadName
        avset {longest}n = BadName
        set {longest}n uniform 1 = BadName
        host {longest}n = BadName
        vm a host={longest}n = BadName
        machines>
        vm {longest}
        avset {longest}
        host {longest}
        machines> {longest}
    "
    ));
}

#[test]
fn the_length_of_descriptions_is_limited() {
    let longest = "d".repeat(DESCRIPTION_BYTES_MAX);
    check(&format!(
        "
        vm a
        on a
        maintain a freeze \"{longest}d\" = DescriptionTooLong
        a> 1: -
        maintain a freeze \"{longest}\"
        e1? Platform 9 \"{longest}\"
    "
    ));
}

#[test]
fn the_number_of_domains_in_a_group_is_limited() {
    check(&format!(
        "
        avset s uds={} = DomainsRange
        avset s fds={} = DomainsRange
        avset s uds={DOMAINS_MAX} fds={DOMAINS_MAX}
        join s a ud={} fd={}
        join s b ud={DOMAINS_MAX} = DomainRange
    ",
        DOMAINS_MAX + 1,
        DOMAINS_MAX + 1,
        DOMAINS_MAX - 1,
        DOMAINS_MAX - 1,
    ));
}

#[test]
fn planned_times_are_limited() {
    let most = PLAN_AHEAD_MAX.as_secs();
    check(&format!(
        "
        vm a
        maintain a freeze in={}s = PlanTooFar
        maintain a freeze in={most}s
        maintain a freeze notice={}s = PlanTooFar
        maintain a freeze in=0s
    ",
        most + 1,
        most + 1,
    ));
}

#[test]
fn terminate_notification_takes_five_to_fifteen_minutes() {
    check(&format!(
        "
        vm a term={}s = TerminateRange
        vm a term={}s = TerminateRange
        vm a term={TERMINATE_SECS_MIN}s
        vm b term={TERMINATE_SECS_MAX}s
        machines> a b
    ",
        TERMINATE_SECS_MIN - 1,
        TERMINATE_SECS_MAX + 1,
    ));
}

#[test]
fn ended_events_are_kept_for_a_limited_time() {
    let kept = ENDED_RETENTION.as_secs();
    check(&format!(
        "
        vm a
        on a
        restart a
        cancel op1
        wait {}s
        e1> canceled
        wait 2s
        e1> forgotten
    ",
        kept - 1
    ));
}

#[test]
fn the_number_of_addresses_in_the_pool_is_limited() {
    let pool = Pool { network: "default".into(), first: Ipv4Addr::new(10, 0, 0, 1), count: 2 };
    check_with(
        Settings { pool, ..Settings::default() },
        "
        vm a ip=pool
        set w uniform 2 = PoolEmpty
        machines> a
        vm b ip=pool
        b? ip=10.0.0.2
        vm c ip=pool = PoolEmpty
        vm c ip=10.0.0.3
        vm d
        delete a
        done e1
        vm f ip=pool
        f? ip=10.0.0.1
    ",
    );
}
