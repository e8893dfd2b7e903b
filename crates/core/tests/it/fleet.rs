//! Machines and groups: names, addresses and domains.

use crate::lang::check;

#[test]
fn names_are_unique_in_a_resource_group_regardless_of_case() {
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
fn names_in_different_subscriptions_are_independent() {
    check(
        "
        vm a
        vm a sub=t
        machines> a a
    ",
    );
}

#[test]
fn machines_are_found_in_any_case() {
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
fn group_names_are_unique_per_type_in_a_resource_group() {
    check(
        "
        avset s
        avset S = NameTaken
        service S
        service s = NameTaken
        set s uniform 1
        set S flexible 1 = NameTaken
        avset s rg=other
        avset s sub=t
    ",
    );
}

#[test]
fn the_name_of_a_deleted_machine_can_be_reused() {
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
fn a_name_stays_taken_while_the_machine_is_being_deleted() {
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
fn a_machine_created_again_is_a_different_machine() {
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
fn a_vm_id_is_unique() {
    check(
        "
        vm a
        vm b vmid=a = VmIdTaken
        machines> a
    ",
    );
}

#[test]
fn an_address_is_unique() {
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
fn the_address_of_a_deleted_machine_can_be_reused() {
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
fn addresses_are_taken_from_the_pool_in_order() {
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
fn the_pool_skips_addresses_in_use() {
    check(
        "
        vm a ip=10.64.0.4
        vm b ip=pool
        b? ip=10.64.0.5
    ",
    );
}

#[test]
fn a_machine_can_specify_its_update_domain() {
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
fn fault_domains_are_checked() {
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
fn a_group_has_one_to_a_hundred_domains() {
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
fn a_standalone_machine_is_in_domain_zero() {
    check(
        "
        vm a
        a? running ud=0 fd=0 host=- zone=- term=none part=-
    ",
    );
}

#[test]
fn a_machine_keeps_its_zone() {
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
fn the_history_records_added_and_removed_machines() {
    check(
        "
        vm a
        history> +a
        delete a
        done e1
        history> e1 completed, -a, op1 over
    ",
    );
}

#[test]
fn unknown_machines_cannot_be_changed() {
    check(
        "
        ud missing 1 = UnknownMachine
        protect missing = UnknownMachine
        off missing = UnknownMachine
        start missing = UnknownMachine
        move missing h1 = UnknownMachine
        policy missing reboot = UnknownMachine
        term missing 5m = UnknownMachine
    ",
    );
}

#[test]
fn power_changes_are_kept() {
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
fn a_stopped_machine_cannot_be_evicted() {
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
fn deleting_an_empty_list_is_rejected() {
    check(
        "
        delete = TargetHasNoMachines
    ",
    );
}

#[test]
fn names_of_role_instances_are_unique_within_their_service() {
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
fn a_standalone_machine_can_be_in_one_of_a_hundred_domains() {
    check(
        "
        vm a ud=99 fd=99
        vm b ud=100 = DomainRange
        vm b fd=100 = DomainRange
    ",
    );
}

#[test]
fn a_machine_cannot_have_the_same_address_twice() {
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
fn pool_addresses_are_reused_only_after_all_others() {
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
