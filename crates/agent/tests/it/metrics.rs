//! Tests of metrics and health, and of the agent's independence from them.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};

use crate::support::{Guest, World, poll_until};

/// Reads the address of the metrics from the log.
fn metrics_address(guest: &Guest) -> String {
    guest.wait_for_log("metrics on http://");
    let log = guest.log();
    let rest = log.split("metrics on http://").nth(1).unwrap();
    rest.split('/').next().unwrap().to_owned()
}

fn send(address: &str, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

fn get(address: &str, path: &str) -> String {
    send(address, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n"))
}

#[track_caller]
fn wait_for(address: &str, lines: &[&str]) {
    poll_until(&format!("{lines:?}"), || {
        let text = get(address, "/metrics");
        lines.iter().all(|line| text.lines().any(|found| found == *line)).then_some(())
    });
}

#[test]
fn events_steps_and_approvals_are_counted() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let mut guest = Guest::new(&url);
    guest.config("metrics = '127.0.0.1:0'");
    guest.mark_all_phases();
    guest.hook("started", "exit 1");
    guest.start();
    let address = metrics_address(&guest);
    wait_for(
        &address,
        &[
            "forewarn_agent_endpoint_up 1",
            "forewarn_agent_events_total{type=\"Reboot\"} 0",
            "forewarn_agent_steps_total{outcome=\"late\"} 0",
        ],
    );
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    wait_for(
        &address,
        &[
            "# TYPE forewarn_agent_events_total counter",
            "forewarn_agent_events_total{type=\"Reboot\"} 1",
            "forewarn_agent_steps_total{outcome=\"succeeded\"} 1",
            "forewarn_agent_steps_total{outcome=\"failed\"} 1",
            "forewarn_agent_approvals_total{result=\"taken\"} 1",
            "forewarn_agent_approvals_total{result=\"failed\"} 0",
        ],
    );
    let text = get(&address, "/metrics?x=1");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    let age = text.lines().find_map(|line| line.strip_prefix("forewarn_agent_last_poll_age_seconds "));
    assert!(age.is_some_and(|age| age.parse::<f64>().is_ok()), "{text}");
    assert!(get(&address, "/healthz").ends_with("\r\n\r\nok\n"));
}

#[test]
fn health_names_the_problem_and_bad_requests_are_harmless() {
    let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap();
    let mut guest = Guest::new(&format!("http://{gone}"));
    guest.config("metrics = '127.0.0.1:0'");
    guest.start();
    let address = metrics_address(&guest);
    let _silent = TcpStream::connect(&address).unwrap();
    let starts = ["HTTP/1.1 404 Not Found", "HTTP/1.1 405 Method Not Allowed", "HTTP/1.1 503 Service Unavailable", ""];
    let requests = ["GET / HTTP/1.1\r\n\r\n", "POST /metrics HTTP/1.1\r\n\r\n", "GET /healthz HTTP/1.0\r\n\r\n", "GET"];
    for (request, start) in requests.into_iter().zip(starts) {
        assert!(send(&address, request).starts_with(start), "{request}");
    }
    guest.wait_for_log("polling failed, retrying");
    poll_until("health names the problem", || get(&address, "/healthz").contains("does not respond: ").then_some(()));
    wait_for(&address, &["forewarn_agent_endpoint_up 0"]);
    assert!(!get(&address, "/metrics").contains("\nforewarn_agent_last_poll_age_seconds "), "there was no response");
}

#[test]
fn a_port_in_use_is_a_warning() {
    let world = World::new();
    let (machine, url) = world.machine("web", |_| {});
    let busy = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let mut guest = Guest::new(&url);
    guest.config(&format!("metrics = '{}'", busy.local_addr().unwrap()));
    guest.start();
    guest.wait_for_log("warning: metrics disabled: cannot listen on 127.0.0.1:");
    world.wait_until_on(machine);
    world.restart(machine, 0xE1);
    world.wait_until_started(0xE1);
}
