//! Event streams and held requests at one server continue after the leader is killed, there and at any other server.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::nodes::{Cluster, poll_until};
use super::{has_etcd, machine, register_at, schedule};

/// A takeover takes less, also on a computer with much other load.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(20);

/// The stream of changes of one server.
struct Changes(BufReader<TcpStream>);

impl Changes {
    /// Continues after this row.
    fn open(address: SocketAddr, after: u64) -> Changes {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT)).unwrap();
        let head = format!("GET /api/v1/changes HTTP/1.1\r\nHost: {address}\r\nLast-Event-ID: {after}\r\n\r\n");
        stream.write_all(head.as_bytes()).unwrap();
        let mut changes = Changes(BufReader::new(stream));
        assert!(changes.line().contains(" 200 "));
        changes
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.0.read_line(&mut line).expect("a message in time"), 0, "the stream has ended");
        line
    }

    /// The numbers of the rows up to the one that contains this text.
    fn read_through(&mut self, text: &str) -> Vec<u64> {
        let mut numbers = Vec::new();
        loop {
            let line = self.line();
            numbers.extend(line.strip_prefix("id: ").map(|number| number.trim().parse::<u64>().unwrap()));
            if line.starts_with("data: ") && line.contains(text) {
                return numbers;
            }
        }
    }
}

#[test]
fn streams_and_waits_at_a_follower_survive_the_leader_and_continue_at_another_server() {
    if !has_etcd() {
        return;
    }
    let mut cluster = Cluster::start();
    let old = cluster.servers.leader();
    let [here, there] = [(old + 1) % 3, (old + 2) % 3];
    let event = schedule(&cluster, here, "web");
    let begin = cluster.servers.check_equal().len() as u64;
    let mut changes = Changes::open(cluster.servers.management[here], begin);
    let held = cluster.servers.hold_document(here, "web");
    register_at(&cluster, &[here], "before");
    let mut rows = changes.read_through("\"before\"");

    cluster.servers.kill(old);
    poll_until("an approval", || cluster.servers.approve(there, "web", &event).filter(|answer| answer.status == 200));
    let shown = held.join().unwrap().expect("the document of a held request");
    assert!(shown.status == 200 && shown.body.contains(&event) && shown.body.contains("Started"), "{}", shown.body);
    register_at(&cluster, &[there], "after");
    rows.extend(changes.read_through("\"after\""));

    // The server of the stream goes away too. Another one has all rows, with the same numbers.
    drop(changes);
    cluster.servers.restart(old);
    register_at(&cluster, &[there], "meanwhile");
    for index in [there, old] {
        let last = *rows.last().unwrap();
        poll_until("the server is ready", || cluster.servers.readiness(index));
        let mut changes = Changes::open(cluster.servers.management[index], last);
        let name = format!("new-{index}");
        let created = cluster.servers.api(there, "POST", "/api/v1/machines", &machine(&name)).expect("an answer");
        assert_eq!(created.status, 201, "{}", created.body);
        rows.extend(changes.read_through(&format!("\"{name}\"")));
    }
    let history = cluster.servers.check_equal();
    let expected: Vec<u64> = (begin + 1..=*rows.last().unwrap()).collect();
    assert!(rows == expected && rows.len() <= history.len(), "{rows:?}");
}
