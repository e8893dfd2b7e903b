//! Identification of the caller: listener, address, path, default, in this order.

use std::net::Ipv4Addr;
use std::os::unix::net::UnixListener;

use crate::support::*;
use forewarn_core::*;
use forewarn_server::*;

const NAME: &str = "/metadata/instance/compute/name?api-version=2021-02-01&format=text";

/// Listeners: 0 as by default, 1 bound to `bound`, 2 on another network, 3 without `/vm/`.
async fn world() -> World {
    let listeners = vec![
        listener(),
        MetadataListener { machine: Some("bound".into()), ..listener() },
        MetadataListener { network: "blue".into(), ..listener() },
        MetadataListener { prefix: Some(false), ..listener() },
    ];
    let world = World::with(Config { metadata: listeners, ..config() }).await;
    let at = |network: &str, last: u8| Address { network: network.into(), ip: Ipv4Addr::new(127, 0, 0, last).into() };
    world.register_with("bound", |machine| machine.vm_id = Guid(0xB0)).await;
    world.register_with("red", |machine| machine.addresses = AddressRequest::Given(vec![at("default", 5)])).await;
    world.register_with("blue", |machine| machine.addresses = AddressRequest::Given(vec![at("blue", 5)])).await;
    for group in ["one", "two"] {
        let home = ResourceGroupRef { resource_group: group.into(), ..home() };
        world
            .register_with("twin", |machine| {
                machine.home = home;
                machine.vm_id = Guid(u128::from(group.as_bytes()[1]));
            })
            .await;
    }
    world
}

async fn check(world: &World, from: u8, listener: usize, path: &str, expected: &str) {
    let reply = world.ask_from(Ipv4Addr::new(127, 0, 0, from), listener, &format!("GET {path}")).await;
    let shown = reply.render();
    assert!(shown == expected || reply.status >= 400 && shown.contains(expected), "{from} {listener} {path}: {shown}");
}

#[tokio::test]
async fn a_listener_for_one_machine_serves_no_other() {
    let world = world().await;
    check(&world, 1, 1, NAME, "200 bound").await;
    check(&world, 5, 1, NAME, "200 bound").await;
    check(&world, 1, 1, &format!("/vm/red{NAME}"), "nothing at /vm/red").await;
}

#[tokio::test]
async fn an_address_is_a_machine_on_its_own_network_only() {
    let world = world().await;
    check(&world, 5, 0, NAME, "200 red").await;
    check(&world, 5, 2, NAME, "200 blue").await;
    check(&world, 5, 0, &format!("/vm/bound{NAME}"), "200 red").await;
}

#[tokio::test]
async fn a_path_names_a_machine_by_id_by_name_and_by_group() {
    let world = world().await;
    check(&world, 1, 0, &format!("/vm/bound{NAME}"), "200 bound").await;
    check(&world, 1, 0, &format!("/vm/BOUND{NAME}"), "200 bound").await;
    check(&world, 1, 0, &format!("/vm/00000000-0000-0000-0000-0000000000b0{NAME}"), "200 bound").await;
    check(&world, 1, 0, &format!("/vm/default/bound{NAME}"), "200 bound").await;
    check(&world, 1, 0, &format!("/vm/two/twin{NAME}"), "200 twin").await;
    check(&world, 1, 0, &format!("/vm/three/twin{NAME}"), "'three/twin'").await;
    check(&world, 1, 0, &format!("/vm/missing{NAME}"), "'missing'").await;
    let reply = world.check_refusal(&format!("GET /vm/twin{NAME}"), 409, &["/vm/one/twin", "/vm/two/twin"]).await;
    assert_eq!(reply.status, 409);
}

#[tokio::test]
async fn a_path_names_no_machine_where_that_is_not_allowed() {
    let world = world().await;
    check(&world, 1, 3, &format!("/vm/bound{NAME}"), "nothing at /vm/bound").await;
    check(&world, 5, 3, NAME, "200 red").await;
}

#[tokio::test]
async fn the_default_machine_can_be_chosen_by_name() {
    let world = World::with(Config { default_machine: Some("default/chosen".into()), ..config() }).await;
    world.check_refusal(&format!("GET {NAME}"), 404, &["default/chosen"]).await;
    world.register("chosen").await;
    world.check(&format!("GET {NAME}"), "200 chosen").await;
}

#[tokio::test]
async fn an_unknown_caller_gets_its_address_in_the_error() {
    let world = World::new().await;
    let first = world.engine().snapshot().region.machine(FIRST).unwrap().clone();
    world.request(Request::Delete { machines: vec![first.id], group: None }, 0xDE).await;
    world.check_refusal(&format!("GET {NAME}"), 404, &["127.0.0.1", "Register"]).await;
}

#[tokio::test]
async fn a_unix_socket_serves_its_machine_or_the_one_in_the_path() {
    let directory = tempfile::tempdir().unwrap();
    let (one, any) = (directory.path().join("one.sock"), directory.path().join("any.sock"));
    // As after a kill of the server.
    drop(UnixListener::bind(&one).unwrap());
    let listeners = vec![
        MetadataListener { address: ListenAddress::Unix(one.clone()), machine: Some("web".into()), ..listener() },
        MetadataListener { address: ListenAddress::Unix(any.clone()), ..listener() },
    ];
    let world = World::with(Config { metadata: listeners, ..config() }).await;
    world.register("web").await;
    let get = format!("GET {NAME}");
    assert_eq!(exchange_unix(&one, &get).await.render(), "200 web");
    assert_eq!(exchange_unix(&any, &format!("GET /vm/web{NAME}")).await.render(), "200 web");
    assert_eq!(exchange_unix(&any, &get).await.status, 200);
    world.running.stop().await;
    assert!(!one.exists() && !any.exists());
}

#[tokio::test]
async fn a_socket_in_use_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("taken.sock");
    let _taken = UnixListener::bind(&path).unwrap();
    let address = ListenAddress::Unix(path.clone());
    let error = start(Config { metadata: vec![MetadataListener { address, ..listener() }], ..config() }).await;
    assert!(error.err().unwrap().to_string().contains("another program is listening"));
    let file = directory.path().join("file");
    std::fs::write(&file, "mine").unwrap();
    let address = ListenAddress::Unix(file.clone());
    let error = start(Config { metadata: vec![MetadataListener { address, ..listener() }], ..config() }).await;
    assert!(error.err().unwrap().to_string().contains("not a socket"));
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}

#[tokio::test]
async fn an_address_in_use_is_a_clear_error() {
    let world = World::new().await;
    let address = ListenAddress::Tcp(world.address(0));
    let error = start(Config { metadata: vec![MetadataListener { address, ..listener() }], ..config() }).await;
    let sentence = error.err().unwrap().to_string();
    assert!(sentence.contains("cannot open the metadata listener at 127.0.0.1:"), "{sentence}");
}

/// Polls cache the machine that a path names. The cache must not outlive the machine, nor hide a second one with that name.
#[tokio::test]
async fn a_polled_name_is_looked_up_again_when_machines_change() {
    let world = World::new().await;
    let document = "/vm/web/metadata/scheduledevents?api-version=2020-07-01";
    let first = world.register("web").await;
    world.check(&format!("GET {document}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;
    world.restart(first, 0xA1).await;
    world.check(&format!("GET {document}"), &scheduled(2, 0xA1, "web")).await;

    world.request(Request::Delete { machines: vec![first], group: None }, 0xA2).await;
    check(&world, 1, 0, document, "404").await;
    let second = world.register_with("web", |machine| machine.vm_id = Guid(0xB2)).await;
    assert_ne!(first, second);
    world.check(&format!("GET {document}"), "200 {\"DocumentIncarnation\":1,\"Events\":[]}").await;

    let elsewhere = ResourceGroupRef { resource_group: "elsewhere".into(), ..home() };
    world.register_with("web", |machine| (machine.vm_id, machine.home) = (Guid(0xB3), elsewhere)).await;
    check(&world, 1, 0, document, "409").await;
}
