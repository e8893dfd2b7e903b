//! The orders of a host, computed from a region.

use std::time::Duration;

use forewarn_core::*;
use forewarn_drivers::book::{default_address, orders_of};
use forewarn_drivers::{Action, HostAddress, Order, RebootMode};

const NOW: Timestamp = Timestamp(1_800_000_000_000);

struct Bench {
    region: Region,
    machine: MachineId,
}

impl Bench {
    /// One machine on host a, and an empty host b. No event group is on, so requests start at once.
    fn new() -> Bench {
        let settings = Settings { machine_orders: true, ..Settings::default() };
        let mut bench = Bench { region: Region::new(settings), machine: MachineId(0) };
        bench.apply(Command::Resume);
        bench.apply(Command::RegisterHost { name: "b".into() });
        let home = ResourceGroupRef { subscription: "s".into(), resource_group: "r".into() };
        let machine = NewMachine { host: Some("a".into()), ..NewMachine::plain(Guid(7), "web1", home) };
        bench.apply(Command::RegisterMachine(Box::new(machine)));
        bench.machine = bench.region.machines().next().unwrap().id;
        bench
    }

    fn apply(&mut self, command: Command) {
        self.region = self.region.apply(&command, NOW).unwrap().region;
    }

    fn request(&mut self, request: Request) -> EventId {
        let operation = Guid::from_random_bits(self.region.meta().revision.into());
        self.apply(Command::Request { operation, by: "me".into(), request, event: None });
        self.region.operation(operation).unwrap().parts[0].event
    }

    fn report(&mut self, event: EventId, host: &str, report: MachineReport) {
        self.apply(Command::ReportMachine { event, machine: self.machine, host: host.into(), epoch: None, report });
    }

    fn orders(&self, host: &str) -> Vec<Order> {
        let peers = |name: &str| {
            (name == "b").then(|| HostAddress { name: "b".into(), uri: "test:///b".into(), data_uri: None })
        };
        orders_of(&self.region, host, self.region.meta().term, &peers)
    }

    fn actions(&self, host: &str) -> Vec<Action> {
        self.orders(host).into_iter().map(|order| order.action).collect()
    }
}

#[test]
fn a_restart_is_one_order_until_it_is_reported() {
    let mut bench = Bench::new();
    assert_eq!(bench.orders("a"), []);
    let event = bench.request(Request::Restart { machines: vec![bench.machine] });
    let [order] = &bench.orders("a")[..] else { panic!("{:?}", bench.orders("a")) };
    assert_eq!((order.id.event, order.id.machine, &*order.name, order.term), (event, Guid(7), "web1", 1));
    assert_eq!(order.action, Action::Reboot(RebootMode::Hard));
    assert_eq!(order.deadline, NOW + Duration::from_secs(300));
    assert_eq!(bench.orders("b"), []);
    bench.report(event, "a", MachineReport::Done);
    assert_eq!(bench.orders("a"), []);
}

#[test]
fn a_redeploy_moves_the_machine_and_starts_it_at_the_target() {
    let mut bench = Bench::new();
    let event = bench.request(Request::Redeploy { machines: vec![bench.machine] });
    let to = HostAddress { name: "b".into(), uri: "test:///b".into(), data_uri: None };
    assert_eq!(bench.actions("a"), [Action::Redeploy { to }]);
    assert_eq!(bench.actions("b"), []);
    bench.report(event, "a", MachineReport::Moved { to: "b".into() });
    assert_eq!((bench.actions("a"), bench.actions("b")), (vec![], vec![Action::Start]));
    assert_eq!(bench.region.machine(bench.machine).unwrap().host.as_deref(), Some("a"), "until b reports it");
    bench.report(event, "b", MachineReport::Done);
    assert_eq!(bench.actions("b"), []);
    assert_eq!(bench.region.machine(bench.machine).unwrap().host.as_deref(), Some("b"));
}

#[test]
fn a_deletion_waits_until_the_previous_order_has_ended() {
    let mut bench = Bench::new();
    let restart = bench.request(Request::Restart { machines: vec![bench.machine] });
    let deletion = bench.request(Request::Delete { machines: vec![bench.machine], group: None });
    let orders = bench.orders("a");
    assert_eq!((orders.len(), orders[0].id.event, &orders[0].action), (1, restart, &Action::Withdraw));
    bench.report(restart, "a", MachineReport::Failed("withdrawn".into()));
    let orders = bench.orders("a");
    assert_eq!((orders.len(), orders[0].id.event, &orders[0].action), (1, deletion, &Action::Terminate));
    bench.report(deletion, "a", MachineReport::Gone);
    assert_eq!(bench.region.machines().len(), 0);
}

#[test]
fn stops_and_starts_of_operators_are_orders_whose_time_begins_at_the_host() {
    for power in [Power::Stopped, Power::Deallocated] {
        let mut bench = Bench::new();
        let machine = bench.machine;
        bench.apply(Command::ChangePower { machine, power, order: Guid(11) });
        let [order] = &bench.orders("a")[..] else { panic!("{:?}", bench.orders("a")) };
        assert_eq!((order.id.event, order.id.machine, &order.action), (Guid(11), Guid(7), &Action::Stop));
        assert_eq!(order.deadline, Order::DEADLINE_OPEN);
        bench.apply(Command::ChangePower { machine, power: Power::Running, order: Guid(12) });
        assert_eq!(bench.actions("a"), [Action::Withdraw]);
        bench.report(Guid(11), "a", MachineReport::Done);
        assert_eq!(bench.actions("a"), [Action::Start]);
        bench.report(Guid(12), "a", MachineReport::Done);
        assert_eq!(bench.orders("a"), []);
    }
}

#[test]
fn the_configured_reboot_applies_to_restarts_but_not_to_redeploys_in_place() {
    let mut bench = Bench::new();
    bench.apply(Command::FenceHost { name: "b".into() });
    bench.request(Request::Redeploy { machines: vec![bench.machine] });
    let [redeploy] = &bench.orders("a")[..] else { panic!("{:?}", bench.orders("a")) };
    for mode in [RebootMode::Hard, RebootMode::Graceful] {
        let redeploy = redeploy.clone().with_reboot(mode);
        assert_eq!(redeploy.action, Action::Reboot(RebootMode::Graceful), "from power off");
        let restart = Order { action: Action::Reboot(RebootMode::Hard), ..redeploy }.with_reboot(mode);
        assert_eq!(restart.action, Action::Reboot(mode));
    }
}

#[test]
fn a_fenced_host_gets_no_orders() {
    let mut bench = Bench::new();
    bench.request(Request::Fail { target: Target::Machines(vec![bench.machine]), kind: EventKind::Reboot });
    assert_eq!(bench.orders("a").len(), 1);
    bench.apply(Command::FenceHost { name: "a".into() });
    assert_eq!(bench.orders("a"), []);
}

#[test]
fn unknown_hosts_have_the_default_address() {
    assert_eq!(default_address("node3").uri, "qemu+tls://node3/system");
}
