//! Tests of endpoint discovery. All traffic stays on loopback; 169.254.169.254 is never contacted, because the tests
//! use their own probe.

use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::time::Duration;

use forewarn_client::{DhcpQuery, Discovery, Endpoint, NetworkInterface, Origin};

/// Checks the addresses found in the lease files below a directory.
fn check_lease(root: &str, expected: &[&str]) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/roots").join(root);
    assert!(root.is_dir(), "{}", root.display());
    let discovery = nowhere().root(&root).ports(&[80]);
    let candidates = discovery.candidates().unwrap();
    let found: Vec<_> = candidates.iter().map(|candidate| candidate.endpoint.host()).collect();
    assert_eq!(found, expected, "{}", root.display());
    assert!(candidates.iter().all(|candidate| matches!(&candidate.origin, Origin::Lease(path) if path.is_file())));
}

/// Discovery without any default source.
fn nowhere() -> Discovery {
    Discovery::default().environment(|_| None).link_local(false).root("/nonexistent")
}

/// Checks which endpoints are probed, and the result, if only endpoints that contain `responding` respond.
fn check(discovery: &Discovery, responding: &str, expected: &[&str]) {
    let mut probed = Vec::new();
    let found = discovery.find_with(&mut |endpoint: &Endpoint| {
        probed.push(endpoint.to_string());
        if endpoint.to_string().contains(responding) { Ok(()) } else { Err("no response".into()) }
    });
    probed.push(match found {
        Ok(candidate) => format!("found {candidate}"),
        Err(error) => error.to_string(),
    });
    assert_eq!(probed, expected);
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
fn addresses_come_from_the_newest_file_first_and_without_duplicates() {
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
fn configured_endpoints_are_used_without_probing() {
    let given = nowhere().endpoint("http://10.0.0.9:1234/vm/web".parse().unwrap());
    check(&given, "nothing", &["found http://10.0.0.9:1234/vm/web (as configured)"]);
    let environment =
        nowhere().environment(|name| (name == "FOREWARN_METADATA").then(|| "http://10.0.0.8".into())).link_local(true);
    check(&environment, "nothing", &["found http://10.0.0.8 (from FOREWARN_METADATA)"]);
    let wrong = nowhere().environment(|name| (name == "FOREWARN_METADATA").then(|| "10.0.0.8".into()));
    check(&wrong, "nothing", &["invalid environment variable FOREWARN_METADATA"]);
}

#[test]
fn other_candidates_are_probed_in_order_on_both_ports() {
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
            "found http://169.254.169.254 (link-local address)",
        ],
    );
}

#[test]
fn if_nothing_responds_the_error_lists_what_was_tried() {
    check(&nowhere(), "", &["no metadata service found."]);
    check(
        &nowhere().link_local(true),
        "nothing",
        &[
            "http://169.254.169.254",
            "no metadata service found. http://169.254.169.254 (link-local address): no response.",
        ],
    );
}

/// DHCP server on loopback that replies to one query, after two packets that must be ignored. Returns the query.
fn serve_offer(
    change: impl FnOnce(Vec<u8>) -> Vec<u8> + Send + 'static,
) -> (DhcpQuery, std::thread::JoinHandle<Vec<u8>>) {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let query = DhcpQuery {
        from: (Ipv4Addr::LOCALHOST, 0).into(),
        to: socket.local_addr().unwrap(),
        interface: Some(NetworkInterface { name: None, mac: [2, 0, 0, 0, 0, 1] }),
        timeout: Duration::from_secs(20),
        attempts: 1,
    };
    let server = std::thread::spawn(move || {
        let mut buffer = [0; 1500];
        let (count, from) = socket.recv_from(&mut buffer).unwrap();
        let request = buffer[..count].to_vec();
        let mut foreign = request.clone();
        foreign[4] ^= 1;
        for packet in [vec![1, 2, 3], foreign, change(request.clone())] {
            socket.send_to(&packet, from).unwrap();
        }
        request
    });
    (query, server)
}

#[test]
fn dhcp_is_queried_if_enabled_and_nothing_else_was_found() {
    let (query, server) = serve_offer(|request| {
        let mut reply = request;
        reply[0] = 2;
        let options = [0, 53, 1, 2, 3, 4, 10, 0, 0, 1, 245, 4, 168, 63, 129, 16, 255];
        reply[240..240 + options.len()].copy_from_slice(&options);
        reply
    });
    check(
        &nowhere().dhcp(query),
        ":8080",
        &["http://168.63.129.16", "http://168.63.129.16:8080", "found http://168.63.129.16:8080 (from DHCP)"],
    );
    let request = server.join().unwrap();
    assert_eq!(request[..4], [1, 1, 6, 0]);
    assert_eq!(request[0x1C..0x22], [2, 0, 0, 0, 0, 1]);
    assert_eq!(request[0xEC..0xF7], [0x63, 0x82, 0x53, 0x63, 53, 1, 1, 55, 1, 245, 255]);
}

#[test]
fn dhcp_is_not_queried_if_another_candidate_responds() {
    let interface = Some(NetworkInterface { name: None, mac: [0; 6] });
    let query = DhcpQuery { from: "192.0.2.1:0".parse().unwrap(), interface, ..DhcpQuery::default() };
    let discovery = with_leases("networkd").dhcp(query.clone()).ports(&[80]);
    let mut probed = 0;
    discovery
        .find_with(&mut |_| {
            probed += 1;
            Ok(())
        })
        .unwrap();
    assert_eq!(probed, 1);
    // A query that fails is reported.
    let error = nowhere().dhcp(query).find_with(&mut |_| Ok(())).unwrap_err();
    let line = error.to_line();
    assert!(line.starts_with("no metadata service found. The DHCP query failed: "), "{line}");
}

#[test]
fn a_server_that_does_not_speak_http_is_rejected() {
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
    assert!(error.contains("invalid response from "), "{error}");
    server.join().unwrap();
}
