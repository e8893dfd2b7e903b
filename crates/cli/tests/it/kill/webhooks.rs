//! Kills the server while it delivers webhooks: every status of every event is delivered, in order, and duplicates are
//! identical.

use std::collections::BTreeMap;
use std::time::Instant;

use serde_json::{Value, json};

use super::server::{MACHINES, Server};
use super::{PATIENCE, Random, kills};
use forewarn_test_support::{Delivery, Receiver};

#[test]
fn no_webhook_delivery_is_lost_by_sigkill() {
    let data = tempfile::tempdir().expect("a directory for the data");
    let receiver = Receiver::start();
    let mut random = Random(0x40_0c);
    let secret = {
        let server = Server::start(data.path());
        server.register_fleet();
        let made =
            server.manage("POST", "/webhooks", &json!({ "name": "ops", "url": receiver.url() })).expect("an answer");
        assert_eq!(made.status, 201, "{}", made.body);
        let made: Value = serde_json::from_str(&made.body).expect("JSON");
        made["secret"].as_str().expect("a secret").to_owned()
    };
    let mut told = Vec::new();
    let mut scheduled = Vec::new();
    for _ in 0..kills() / 10 {
        let server = Server::start(data.path());
        for _ in 0..=random.below(4) {
            let machine = format!("m{}", random.below(MACHINES));
            server.document(&machine).expect("a document");
            let event =
                format!("{:08X}-0000-4000-8000-{:012X}", random.draw() as u32, random.draw() & 0xffff_ffff_ffff);
            let body = json!({ "target": { "machine": machine }, "type": "Freeze", "eventId": event });
            let answer = server.manage("POST", "/maintenance", &body).expect("an answer");
            assert_eq!(answer.status, 202, "{}", answer.body);
            scheduled.push(event.to_lowercase());
        }
        if random.below(3) == 0 {
            receiver.answer_next(&[500]);
        }
        // Kill after the next delivery, while the one after it may be in progress.
        told.push(receiver.next());
        server.kill();
    }
    let server = Server::start(data.path());
    server.wait_until_all_finished(PATIENCE);
    let begun = Instant::now();
    while server.read("/webhooks/ops")["state"]["behind"] != 0 {
        assert!(begun.elapsed() < PATIENCE, "it does not catch up: {}", server.read("/webhooks/ops"));
        std::thread::yield_now();
    }
    told.extend(receiver.drain());
    check(&told, &scheduled, &secret);
}

fn check(told: &[Delivery], scheduled: &[String], secret: &str) {
    let mut bodies: BTreeMap<String, Value> = BTreeMap::new();
    let mut stages: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for delivery in told {
        delivery.verify(secret);
        let body = delivery.json();
        let properties = &body["data"]["resourceInfo"]["properties"];
        let word = |key: &str| properties[key].as_str().expect("a text").to_owned();
        match bodies.insert(delivery.header("webhook-id").to_owned(), body.clone()) {
            Some(before) => assert_eq!(before, body, "told twice, and differently"),
            None => stages.entry(word("EventId")).or_default().push(word("EventStatus")),
        }
    }
    assert_eq!(stages.len(), scheduled.len());
    for event in scheduled {
        assert_eq!(stages[event], ["Scheduled", "Started", "Completed"], "{event}");
    }
}
