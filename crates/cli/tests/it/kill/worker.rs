//! A worker that schedules events, approves some, cancels some, and reads documents.

use std::sync::mpsc::Sender;

use serde_json::json;

use super::Random;
use super::ledger::Ledger;
use super::server::{MACHINES, Server};

pub const COUNT: u64 = 4;

/// Limit of rounds; the kill comes long before.
const ROUNDS_MAX: u64 = 10_000;

pub fn run(server: &Server, ledger: &Ledger, number: u64, mut random: Random, acknowledged: &Sender<()>) {
    for _ in 0..ROUNDS_MAX {
        if round(server, ledger, number, &mut random, acknowledged).is_none() {
            return;
        }
    }
}

/// Returns None if the server is gone or the test has finished.
fn round(server: &Server, ledger: &Ledger, number: u64, random: &mut Random, acknowledged: &Sender<()>) -> Option<()> {
    let kind = if random.below(2) == 0 { "m" } else { "s" };
    let machine = format!("{kind}{}", random.below(MACHINES));
    let document = server.document(&machine)?;
    ledger.saw(kind, &machine, &document);
    if number % 2 == 1 {
        return Some(());
    }

    let event = format!("{:08X}-0000-4000-8000-{:012X}", random.draw() as u32, random.draw() & 0xffff_ffff_ffff);
    let body = json!({ "target": { "machine": machine }, "type": "Freeze", "eventId": event });
    let answer = server.manage("POST", "/maintenance", &body)?;
    assert_eq!(answer.status, 202, "{}", answer.body);
    ledger.scheduled(&event);
    acknowledged.send(()).ok()?;

    match random.below(3) {
        0 => {
            let answer = server.approve(&machine, &event)?;
            assert_eq!(answer.status, 200, "{}", answer.body);
            ledger.approved(&event);
        }
        1 => {
            let answer = server.manage("POST", &format!("/events/{event}/cancel"), &json!({}))?;
            assert!(answer.status == 200 || answer.status == 409, "{}: {}", answer.status, answer.body);
            if answer.status == 200 {
                ledger.canceled(&event);
            }
        }
        _ => return Some(()),
    }
    acknowledged.send(()).ok()
}
