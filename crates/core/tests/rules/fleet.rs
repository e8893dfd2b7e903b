//! Machines and groups: names, addresses, domains (semantics 1, 3.6, 5).

use crate::lang::check;

#[test]
fn names_are_one_for_each_resource_group_without_regard_to_case() {
    check(
        "
        vm a
        vm a = NameTaken
        vm A = NameTaken
        vm a rg=other
        vm b
        machines> a a b
    ",
    );
}

#[test]
fn names_of_subscriptions_are_their_own() {
    check(
        "
        vm a
        vm a sub=t
        machines> a a
    ",
    );
}

#[test]
fn scripts_may_call_a_machine_in_any_case() {
    check(
        "
        vm Web1
        on web1
        restart WEB1
        web1> 2: e1 Reboot Scheduled Web1 15:00
    ",
    );
}

#[test]
fn groups_have_names_of_their_own() {
    check(
        "
        avset s
        avset s = NameTaken
        service S = NameTaken
        set s uniform 1 = NameTaken
        avset s rg=other
        avset s sub=t
    ",
    );
}

#[test]
fn a_name_is_free_again_when_the_machine_is_gone() {
    check(
        "
        vm a
        delete a
        done e1
        vm a
        machines> a
    ",
    );
}

#[test]
fn a_name_is_taken_while_the_machine_is_leaving() {
    check(
        "
        vm a term=5m
        on a
        delete a
        vm a = NameTaken
    ",
    );
}

#[test]
fn a_machine_made_again_is_another() {
    check(
        "
        vm a term=5m
        on a
        delete a
        wait 5m
        done e1
        vm a
        a> off
        on a
        a> 1: -
        approve a e1 = UnknownEvents
    ",
    );
}

#[test]
fn a_vm_id_is_one_machine_s() {
    check(
        "
        vm a
        vm b vmid=a = VmIdTaken
        machines> a
    ",
    );
}

#[test]
fn an_address_is_one_machine_s() {
    check(
        "
        vm a ip=10.0.0.1
        vm b ip=10.0.0.1 = AddressTaken
        vm b ip=10.0.0.2
        addr b 10.0.0.1 = AddressTaken
        addr b 10.0.0.3
        b? ip=10.0.0.3
        vm c ip=10.0.0.2
        addr a 10.0.0.1
        a? ip=10.0.0.1
    ",
    );
}

#[test]
fn an_address_is_free_again_when_the_machine_is_gone() {
    check(
        "
        vm a ip=10.0.0.1
        delete a
        done e1
        vm b ip=10.0.0.1
        b? ip=10.0.0.1
    ",
    );
}

#[test]
fn addresses_come_from_the_pool_in_order() {
    check(
        "
        vm a ip=pool
        vm b ip=pool
        a? ip=10.64.0.4
        b? ip=10.64.0.5
        vm c
        c? ip=-
    ",
    );
}

#[test]
fn instances_get_addresses_from_the_pool() {
    check(
        "
        set w uniform 2
        w_0? ip=10.64.0.4
        w_1? ip=10.64.0.5
    ",
    );
}

#[test]
fn the_pool_passes_by_what_was_given() {
    check(
        "
        vm a ip=10.64.0.4
        vm b ip=pool
        b? ip=10.64.0.5
    ",
    );
}

#[test]
fn a_machine_joins_the_domain_it_says() {
    check(
        "
        avset s a uds=3
        join s b ud=2
        join s c ud=3 = DomainRange
        b? ud=2
        ud b 1
        b? ud=1
        ud b 3 = DomainRange
    ",
    );
}

#[test]
fn fault_domains_have_a_range_too() {
    check(
        "
        avset s a fds=2
        join s b fd=1
        join s c fd=2 = DomainRange
        b? fd=1
        fd b 0
        b? fd=0
        fd b 2 = DomainRange
    ",
    );
}

#[test]
fn groups_have_one_to_a_hundred_domains() {
    check(
        "
        avset s uds=0 = DomainsRange
        avset s uds=101 = DomainsRange
        avset s fds=0 = DomainsRange
        avset s fds=101 = DomainsRange
        set w uniform 1 ud=101 = DomainsRange
        set w uniform 1 fd=0 = DomainsRange
        avset s uds=100 fds=100
    ",
    );
}

#[test]
fn a_machine_on_its_own_is_in_domain_zero() {
    check(
        "
        vm a
        a? running ud=0 fd=0 host=- zone=- term=none part=-
    ",
    );
}

#[test]
fn a_machine_keeps_the_zone_it_was_given() {
    check(
        "
        vm a zone=2
        a? zone=2
        zone a 3
        a? zone=3
        zone a -
        a? zone=-
    ",
    );
}

#[test]
fn machines_are_added_and_removed_in_the_history() {
    check(
        "
        vm a
        told> +a
        delete a
        done e1
        told> e1 completed, -a, op1 over
    ",
    );
}

#[test]
fn what_is_not_there_cannot_be_changed() {
    check(
        "
        ud nobody 1 = UnknownMachine
        protect nobody = UnknownMachine
        off nobody = UnknownMachine
        start nobody = UnknownMachine
        move nobody h1 = UnknownMachine
        policy nobody reboot = UnknownMachine
        term nobody 5m = UnknownMachine
    ",
    );
}

#[test]
fn power_changes_and_stays() {
    check(
        "
        vm a
        a? running
        off a
        a? stopped
        off a
        a? stopped
        deallocate a
        a? deallocated
        start a
        a? running
    ",
    );
}

#[test]
fn evicting_a_machine_that_does_not_run_is_refused() {
    check(
        "
        vm a spot
        off a
        evict a = NotRunning
        deallocate a
        evict a = NotRunning
    ",
    );
}

#[test]
fn there_is_nothing_to_delete_in_an_empty_list() {
    check(
        "
        delete = NothingThere
    ",
    );
}

#[test]
fn role_instances_are_named_within_their_service() {
    check(
        "
        service s a
        service t a
        vm a
        join s a = NameTaken
        join t A = NameTaken
        machines> a a a
    ",
    );
}

#[test]
fn a_machine_on_its_own_is_in_one_of_a_hundred_domains() {
    check(
        "
        vm a ud=99 fd=99
        vm b ud=100 = DomainRange
        vm b fd=100 = DomainRange
    ",
    );
}

#[test]
fn an_address_of_another_machine_is_not_given_twice_to_one() {
    check(
        "
        vm a
        addr a 10.0.0.1 10.0.0.1 = AddressTaken
        addr a 10.0.0.1 10.0.0.2
        vm b ip=10.0.0.2 = AddressTaken
    ",
    );
}

#[test]
fn an_address_of_a_machine_that_went_is_not_given_again_while_there_are_others() {
    check(
        "
        vm a ip=pool
        delete a
        done e1
        vm b ip=pool
        b? ip=10.64.0.5
    ",
    );
}
