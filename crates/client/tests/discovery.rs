//! Where the service is looked for. Nothing here leaves the machine, and 169.254.169.254 is never
//! asked: the prober is ours.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use forewarn_client::{Asking, Card, Discovery, Endpoint, Origin};

/// The door for lease files: the addresses that the files below this directory give.
fn check_lease(root: &str, expected: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/roots").join(root);
    assert!(root.is_dir(), "{}", root.display());
    let discovery = nowhere().root(&root).ports(&[80]);
    let candidates = discovery.candidates().unwrap();
    let found: Vec<_> = candidates.iter().map(|candidate| candidate.endpoint.host()).collect();
    assert_eq!(found, expected, "{}", root.display());
    assert!(candidates.iter().all(|candidate| matches!(&candidate.origin, Origin::Lease(path) if path.is_file())));
}

/// Looks nowhere but where it is told to.
fn nowhere() -> Discovery {
    Discovery::default().environment(|_| None).link_local(false).root("/nonexistent")
}

/// The door for the order: what is tried, when only the endpoint that contains `there` answers.
fn check(discovery: &Discovery, there: &str, expected: &[&str]) {
    let mut asked = Vec::new();
    let found = discovery.find_with(&mut |endpoint: &Endpoint| {
        asked.push(endpoint.to_string());
        if endpoint.to_string().contains(there) { Ok(()) } else { Err("silence".into()) }
    });
    asked.push(match found {
        Ok(candidate) => format!("found {candidate}"),
        Err(error) => error.to_string(),
    });
    assert_eq!(asked, expected);
}

fn with_leases(case: &str) -> Discovery {
    nowhere().root(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/roots").join(case))
}

#[test]
fn option_245_is_read_from_the_files_of_every_dhcp_client() {
    check_lease("dhclient", &["10.88.0.1"]);
    check_lease("dhclient-escaped", &["168.63.129.16"]);
    check_lease("dhclient-text", &["98.34.76.92"]);
    check_lease("dhclient-dotted", &["168.63.129.16"]);
    check_lease("dhclient-none", &[]);
    check_lease("networkd", &["168.63.129.16"]);
    check_lease("networkmanager-internal", &["168.63.129.16"]);
    check_lease("networkmanager-device", &["168.63.129.16"]);
}

#[test]
fn of_several_files_the_newest_comes_first_and_each_address_once() {
    let root = tempfile::tempdir().unwrap();
    let leases = root.path().join("run/systemd/netif/leases");
    std::fs::create_dir_all(&leases).unwrap();
    for (name, value, age_secs) in [("2", "0a000001", 30), ("3", "0a000002", 10), ("4", "0a000001", 20)] {
        let path = leases.join(name);
        std::fs::write(&path, format!("OPTION_245={value}\n")).unwrap();
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        file.set_modified(std::time::SystemTime::now() - Duration::from_secs(age_secs)).unwrap();
    }
    let candidates = nowhere().root(root.path()).ports(&[8080]).candidates().unwrap();
    let found: Vec<_> = candidates.iter().map(|candidate| candidate.endpoint.to_string()).collect();
    assert_eq!(found, ["http://10.0.0.2:8080", "http://10.0.0.1:8080"]);
}

#[test]
fn what_a_person_wrote_is_taken_as_it_is() {
    let given = nowhere().endpoint("http://10.0.0.9:1234/vm/web".parse().unwrap());
    check(&given, "nobody", &["found http://10.0.0.9:1234/vm/web (given)"]);
    let environment =
        nowhere().environment(|name| (name == "FOREWARN_METADATA").then(|| "http://10.0.0.8".into())).link_local(true);
    check(&environment, "nobody", &["found http://10.0.0.8 (from FOREWARN_METADATA)"]);
    let wrong = nowhere().environment(|name| (name == "FOREWARN_METADATA").then(|| "10.0.0.8".into()));
    check(&wrong, "nobody", &["FOREWARN_METADATA in the environment is not the address of a service"]);
}

#[test]
fn everything_else_is_tried_in_order_on_both_ports() {
    let all = with_leases("networkd")
        .environment(|name| (name == "SCHEDULEDEVENTSIP").then(|| " 10.0.0.7 ".into()))
        .link_local(true);
    let lease = "tests/golden/roots/networkd/run/systemd/netif/leases/2";
    let lease = Path::new(env!("CARGO_MANIFEST_DIR")).join(lease);
    check(
        &all,
        "168.63.129.16:8080",
        &[
            "http://10.0.0.7",
            "http://10.0.0.7:8080",
            "http://169.254.169.254",
            "http://168.63.129.16",
            "http://168.63.129.16:8080",
            &format!("found http://168.63.129.16:8080 (from {})", lease.display()),
        ],
    );
    check(
        &all,
        "http://169.254",
        &[
            "http://10.0.0.7",
            "http://10.0.0.7:8080",
            "http://169.254.169.254",
            "found http://169.254.169.254 (the address of virtual networks)",
        ],
    );
}

#[test]
fn when_nothing_answers_the_error_says_what_was_tried() {
    check(&nowhere(), "", &["nothing that answers as a metadata service was found."]);
    check(
        &nowhere().link_local(true),
        "nobody",
        &[
            "http://169.254.169.254",
            "nothing that answers as a metadata service was found. \
             http://169.254.169.254 (the address of virtual networks): silence.",
        ],
    );
}

/// A DHCP server of one answer. What it was asked, and who asked, goes into the answer.
fn offer(change: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static) -> (Asking, std::thread::JoinHandle<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let asking = Asking {
        from: (Ipv4Addr::LOCALHOST, 0).into(),
        to: socket.local_addr().unwrap(),
        card: Some(Card { interface: None, mac: [2, 0, 0, 0, 0, 1] }),
        timeout: Duration::from_secs(20),
        attempts: 1,
    };
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        let (count, from) = socket.recv_from(&mut buffer).unwrap();
        let request = buffer[..count].to_vec();
        let mut strange = request.clone();
        strange[4] ^= 1;
        for packet in [vec![1, 2, 3], strange, change(request.clone())] {
            socket.send_to(&packet, from).unwrap();
        }
        request
    });
    (asking, server)
}

#[test]
fn dhcp_is_asked_when_it_is_allowed_and_nothing_else_helped() {
    let (asking, server) = offer(|request| {
        let mut reply = request;
        reply[0] = 2;
        let options = [0, 53, 1, 2, 3, 4, 10, 0, 0, 1, 245, 4, 168, 63, 129, 16, 255];
        reply[240..240 + options.len()].copy_from_slice(&options);
        reply
    });
    check(
        &nowhere().asking(asking),
        ":8080",
        &["http://168.63.129.16", "http://168.63.129.16:8080", "found http://168.63.129.16:8080 (from DHCP)"],
    );
    let request = server.join().unwrap();
    assert_eq!(request[..4], [1, 1, 6, 0]);
    assert_eq!(request[0x1C..0x22], [2, 0, 0, 0, 0, 1]);
    assert_eq!(request[0xEC..0xF7], [0x63, 0x82, 0x53, 0x63, 53, 1, 1, 55, 1, 245, 255]);
}

#[test]
fn dhcp_is_not_asked_when_something_else_answers() {
    let card = Some(Card { interface: None, mac: [0; 6] });
    let asking = Asking { from: "192.0.2.1:0".parse().unwrap(), card, ..Asking::default() };
    let discovery = with_leases("networkd").asking(asking.clone()).ports(&[80]);
    let mut asked = 0;
    discovery
        .find_with(&mut |_| {
            asked += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(asked, 1);
    // And when it is asked in vain, the error says so.
    let error = nowhere().asking(asking).find_with(&mut |_| Ok(())).unwrap_err();
    let line = error.to_line();
    assert!(line.starts_with("nothing was found without DHCP. Asking by DHCP failed: "), "{line}");
}

#[test]
fn a_listener_that_is_no_metadata_service_is_not_taken() {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 1024]);
        stream.write_all(b"SSH-2.0-OpenSSH_9\r\n").unwrap();
    });
    let discovery =
        nowhere().environment(|name| (name == "SCHEDULEDEVENTSIP").then(|| "127.0.0.1".into())).ports(&[port]);
    let error = discovery.find().unwrap_err().to_string();
    assert!(error.contains("does not answer as a metadata service does"), "{error}");
    server.join().unwrap();
}
