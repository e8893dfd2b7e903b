//! Webhooks over real sockets: deliveries, their order and repetition, and receivers that are down.

use std::net::TcpListener;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::api_support::{NONE, START, Server, check, contains, open, refused};
use forewarn_core::Timestamp;
use forewarn_server::{ClockSetting, Config, StoreChoice};
use forewarn_test_support::{Delivery, Receiver};
use serde_json::{Value, json};

const A_REBOOT: [&str; 3] = ["Reboot Scheduled", "Reboot Started", "Reboot Completed"];

/// A server with the machine `m1`, which has a handler.
fn listening() -> Server {
    let server = Server::with_machines(&["m1"]);
    server.listen_as("m1");
    server
}

/// Creates a webhook and returns its secret.
#[track_caller]
fn hook(server: &Server, name: &str, receiver: &Receiver, more: Value) -> String {
    let mut body = json!({ "name": name, "url": receiver.url() });
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let made = check(server, "POST /webhooks", body, 201, json!({ "name": name, "state": { "delivered": 0 } }));
    made["secret"].as_str().unwrap().to_owned()
}

#[track_caller]
fn restart(server: &Server, machine: &str) -> String {
    let operation = check(server, &format!("POST /machines/{machine}/restart"), NONE, 202, json!({}));
    operation["events"][0]["id"].as_str().unwrap().to_owned()
}

fn advance(server: &Server, seconds: u64) {
    check(server, "POST /clock/advance", json!({ "seconds": seconds }), 200, json!({}));
}

/// Waits until the state of a webhook satisfies a condition.
#[track_caller]
fn until(server: &Server, name: &str, is_so: impl Fn(&Value) -> bool) -> Value {
    let begun = Instant::now();
    loop {
        let state = check(server, &format!("GET /webhooks/{name}"), NONE, 200, json!({}))["state"].take();
        if is_so(&state) {
            return state;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "it does not come so far: {state}");
        std::thread::yield_now();
    }
}

fn gists(receiver: &Receiver, count: usize) -> Vec<String> {
    (0..count).map(|_| receiver.next().summarize()).collect()
}

/// Skips earlier deliveries.
fn until_reported(receiver: &Receiver, gist: &str) {
    while receiver.next().summarize() != gist {}
}

#[test]
fn the_lifecycle_of_an_event_is_delivered_in_order_and_signed() {
    let (server, receiver) = (listening(), Receiver::start());
    let secret = hook(&server, "ops", &receiver, json!({}));
    let event = restart(&server, "m1");
    advance(&server, 3600);
    let told: Vec<Delivery> = (0..3).map(|_| receiver.next()).collect();
    assert_eq!(told.iter().map(Delivery::summarize).collect::<Vec<_>>(), A_REBOOT);
    for delivery in &told {
        delivery.verify(&secret);
        assert_eq!(delivery.line, "POST /hook HTTP/1.1");
        assert_eq!(delivery.header("content-type"), "application/cloudevents+json; charset=utf-8");
        let subject = delivery.json()["subject"].as_str().unwrap().to_owned();
        let id = event.to_lowercase();
        let machine = "/resourceGroups/default/providers/Microsoft.Compute/virtualMachines/m1";
        assert!(subject.contains(machine) && subject.ends_with(&id), "{subject}");
        assert_eq!(delivery.json()["data"]["resourceInfo"]["properties"]["Resources"], json!(["m1"]));
    }
    let [scheduled, started, _] = told.try_into().ok().unwrap();
    assert_eq!(scheduled.json()["time"], START);
    assert_eq!(scheduled.json()["data"]["resourceInfo"]["properties"]["NotBefore"], "Sun, 01 Mar 2026 12:15:00 GMT");
    assert_ne!(scheduled.json()["id"], started.json()["id"]);
    let state = until(&server, "ops", |state| state["delivered"] == 3 && state["behind"] == 0);
    assert_eq!((&state["failures"], &state["undelivered"]), (&json!(0), &json!(0)));
    assert!(receiver.drain().is_empty());
    let metrics = server.client().send(server.management, "GET /metrics", b"").text();
    assert!(metrics.contains("forewarn_webhook_deliveries_total 3"), "{metrics}");
}

#[test]
fn a_canceled_event_is_reported_as_canceled() {
    let (server, receiver) = (listening(), Receiver::start());
    hook(&server, "ops", &receiver, json!({}));
    let event = restart(&server, "m1");
    check(&server, &format!("POST /events/{event}/cancel"), NONE, 200, json!({}));
    assert_eq!(gists(&receiver, 2), ["Reboot Scheduled", "Reboot Canceled"]);
}

#[test]
fn hidden_events_are_not_reported_and_events_without_notice_begin_as_started() {
    let (server, receiver) = (Server::with_machines(&["off", "on"]), Receiver::start());
    server.listen_as("on");
    hook(&server, "ops", &receiver, json!({}));
    restart(&server, "off");
    check(&server, "POST /machines/on/hardware-failure", NONE, 202, json!({}));
    advance(&server, 3600);
    let first = receiver.next();
    assert_eq!(first.summarize(), "Reboot Started");
    assert_eq!(first.json()["data"]["resourceInfo"]["properties"]["Resources"], json!(["on"]));
    assert_eq!(gists(&receiver, 1), ["Reboot Completed"]);
    until(&server, "ops", |state| state["behind"] == 0);
    assert!(receiver.drain().is_empty());
}

#[test]
fn a_webhook_delivers_what_its_filter_matches() {
    let server = Server::with_machines(&["m1", "m2"]);
    check(&server, "POST /machines", json!({ "name": "m3", "resourceGroup": "shop" }), 201, json!({}));
    for machine in ["m1", "m2", "m3"] {
        server.listen_as(machine);
    }
    let [started, of_m2, of_shop, redeploys] = std::array::from_fn(|_| Receiver::start());
    hook(&server, "started", &started, json!({ "statuses": ["Started"] }));
    hook(&server, "m2", &of_m2, json!({ "machines": ["M2"] }));
    hook(&server, "shop", &of_shop, json!({ "resourceGroups": ["SHOP"], "statuses": ["Scheduled"] }));
    hook(&server, "redeploys", &redeploys, json!({ "types": ["Redeploy"] }));
    for machine in ["m1", "m2", "m3"] {
        restart(&server, machine);
    }
    check(&server, "POST /machines/m1/redeploy", NONE, 202, json!({}));
    advance(&server, 7200);
    for name in ["started", "m2", "shop", "redeploys"] {
        until(&server, name, |state| state["behind"] == 0);
    }
    let all = |receiver: &Receiver| receiver.drain().iter().map(Delivery::summarize).collect::<Vec<_>>();
    assert_eq!(all(&of_m2), A_REBOOT);
    assert_eq!(all(&of_shop), ["Reboot Scheduled"]);
    assert_eq!(all(&redeploys), ["Redeploy Scheduled", "Redeploy Started", "Redeploy Completed"]);
    let started = all(&started);
    assert!(started.len() == 4 && started.iter().all(|gist| gist.ends_with("Started")), "{started:?}");
}

#[test]
fn a_refused_delivery_is_repeated_with_its_id_and_in_order() {
    let (server, receiver) = (listening(), Receiver::start());
    let secret = hook(&server, "ops", &receiver, json!({}));
    receiver.answer_next(&[500, 302]);
    restart(&server, "m1");
    advance(&server, 3600);
    let told: Vec<Delivery> = (0..5).map(|_| receiver.next()).collect();
    assert_eq!(told.iter().map(|it| it.answered).collect::<Vec<_>>(), [500, 302, 204, 204, 204]);
    assert!(told[..3].iter().all(|delivery| delivery.json() == told[0].json()));
    told.iter().for_each(|delivery| delivery.verify(&secret));
    assert_eq!([told[3].summarize(), told[4].summarize()], ["Reboot Started", "Reboot Completed"]);
    let state = until(&server, "ops", |state| state["delivered"] == 3);
    let message = state["lastFailure"]["message"].as_str().unwrap();
    assert!(
        message.starts_with("The receiver responded with a redirect (302). Redirects are not followed"),
        "{message}"
    );
}

#[test]
fn a_receiver_that_was_down_catches_up() {
    let server = listening();
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let body = json!({ "name": "ops", "url": format!("http://{address}/hook") });
    check(&server, "POST /webhooks", body, 201, json!({}));
    restart(&server, "m1");
    let state = until(&server, "ops", |state| state["failures"].as_u64() > Some(0));
    let message = state["lastFailure"]["message"].as_str().unwrap();
    assert_eq!(message, "The receiver cannot be reached: connection refused.");
    assert_eq!((&state["behind"], &state["failingSince"]), (&json!(1), &json!(START)));
    advance(&server, 60);
    let last = until(&server, "ops", |state| state["lastFailure"]["at"] != START);
    assert_eq!(last["failingSince"], START, "the first failure since the last success");
    let receiver = Receiver::at(address);
    advance(&server, 3600);
    assert_eq!(gists(&receiver, 3), A_REBOOT);
    let healthy = until(&server, "ops", |state| state["failures"] == 0);
    assert_eq!(healthy["failingSince"], json!(null));
}

#[test]
fn a_slow_receiver_delays_only_its_own_webhook() {
    let (server, slow, quick) = (listening(), Receiver::start(), Receiver::start());
    hook(&server, "slow", &slow, json!({}));
    hook(&server, "quick", &quick, json!({}));
    let held = slow.hold();
    restart(&server, "m1");
    advance(&server, 3600);
    assert_eq!(gists(&quick, 3), A_REBOOT);
    assert_eq!(until(&server, "slow", |_| true)["delivered"], 0);
    drop(held);
    assert_eq!(gists(&slow, 3), A_REBOOT);
}

#[test]
fn a_message_that_is_too_old_is_given_up_and_the_rest_is_delivered() {
    let (server, receiver) = (listening(), Receiver::start());
    hook(&server, "ops", &receiver, json!({ "retrySeconds": 7200 }));
    receiver.answer_always(503);
    restart(&server, "m1");
    assert_eq!(receiver.next().answered, 503);
    advance(&server, 3 * 3600);
    let state = until(&server, "ops", |state| state["undelivered"] == 3);
    assert_eq!(state["lastFailure"]["message"], "The receiver responded with status 503.");
    assert_eq!((&state["delivered"], &state["behind"]), (&json!(0), &json!(0)));
    until_reported(&receiver, "Reboot Completed");
    receiver.answer_ok();
    restart(&server, "m1");
    let next = receiver.next();
    assert_eq!((next.summarize().as_str(), next.answered), ("Reboot Scheduled", 204));
    until(&server, "ops", |state| state["failures"] == 0 && state["delivered"] == 1);
    let metrics = server.client().send(server.management, "GET /metrics", b"").text();
    assert!(metrics.contains("forewarn_webhook_undelivered_total 3"), "{metrics}");
}

#[test]
fn a_restart_loses_nothing_and_repeats_no_saved_delivery() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let config = || Config {
        store: StoreChoice::Directory(directory.path().to_owned()),
        clock: ClockSetting::Manual { start: Some(Timestamp::from_secs(1_772_366_400)) },
        ..open()
    };
    let server = Server::new(config());
    check(&server, "POST /machines", json!({ "name": "m1" }), 201, json!({}));
    server.listen_as("m1");
    let secret = hook(&server, "ops", &receiver, json!({ "types": ["Reboot"] }));
    restart(&server, "m1");
    assert_eq!(receiver.next().summarize(), "Reboot Scheduled");
    until(&server, "ops", |state| state["delivered"] == 1);
    receiver.answer_always(500);
    advance(&server, 900);
    let failed = receiver.next();
    assert_eq!((failed.summarize().as_str(), failed.answered), ("Reboot Started", 500));
    server.stop();
    drop(server);
    receiver.answer_ok();

    let server = Server::new(config());
    until(&server, "ops", |state| state["delivered"] == 2);
    for delivery in std::iter::once(receiver.next()).chain(receiver.drain()) {
        delivery.verify(&secret);
        assert_eq!(delivery.json(), failed.json());
    }
    advance(&server, 3600);
    assert_eq!(gists(&receiver, 1), ["Reboot Completed"]);
    let state = until(&server, "ops", |state| state["behind"] == 0 && state["delivered"] == 3);
    assert_eq!(state["undelivered"], 0);
    assert!(receiver.drain().is_empty());
    let shown = check(&server, "GET /webhooks/ops", NONE, 200, json!({ "types": ["Reboot"], "retrySeconds": 86_400 }));
    assert!(shown.get("secret").is_none());
}

/// Type, status and failure of the undelivered messages.
fn undelivered(server: &Server, name: &str) -> Vec<[String; 3]> {
    let list = check(server, &format!("GET /webhooks/{name}/undelivered"), NONE, 200, json!({}));
    let text = |one: &Value, key: &str| one[key].as_str().unwrap().to_owned();
    let rows = list["value"].as_array().unwrap().iter();
    rows.map(|one| ["type", "status", "failure"].map(|key| text(one, key))).collect()
}

/// A server in this directory whose webhook `ops` could not deliver the messages of a Reboot.
fn with_an_undelivered_reboot(directory: &Path, receiver: &Receiver) -> (Server, String) {
    let server = Server::kept_in(directory);
    check(&server, "POST /machines", json!({ "name": "m1" }), 201, json!({}));
    server.listen_as("m1");
    let secret = hook(&server, "ops", receiver, json!({ "retrySeconds": 0 }));
    receiver.answer_next(&[503, 503, 500]);
    restart(&server, "m1");
    advance(&server, 3600);
    until(&server, "ops", |state| state["undelivered"] == 3 && state["behind"] == 0);
    (server, secret)
}

#[test]
fn undelivered_messages_are_listed_survive_a_restart_and_are_resent_in_order() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let (server, secret) = with_an_undelivered_reboot(directory.path(), &receiver);
    let first: Vec<Value> = receiver.drain().iter().map(Delivery::json).collect();
    assert_eq!(first.len(), 3);
    server.stop();
    drop(server);

    let server = Server::kept_in(directory.path());
    let row = |status: &str, code: u16| {
        ["Reboot".to_owned(), status.to_owned(), format!("The receiver responded with status {code}.")]
    };
    let expected = [row("Scheduled", 503), row("Started", 503), row("Completed", 500)];
    assert_eq!(undelivered(&server, "ops"), expected);
    let list = check(&server, "GET /webhooks/ops/undelivered", NONE, 200, json!({}));
    let shown = json!({ "id": first[0]["id"], "machines": ["m1"], "happened": START });
    contains(&list["value"][0], &shown).unwrap();

    check(&server, "POST /webhooks/ops/resend", NONE, 202, json!({ "messages": 3 }));
    let again: Vec<Delivery> = (0..3).map(|_| receiver.next()).collect();
    again.iter().for_each(|delivery| delivery.verify(&secret));
    assert_eq!(again.iter().map(Delivery::json).collect::<Vec<_>>(), first, "the same, under the same ids");
    let state = until(&server, "ops", |state| state["delivered"] == 3);
    assert_eq!((&state["undelivered"], &state["queuedForResend"]), (&json!(0), &json!(0)));
    assert_eq!(undelivered(&server, "ops"), [] as [[String; 3]; 0]);
    let history = check(&server, "GET /history?kind=audit", NONE, 200, json!({}));
    assert!(history.to_string().contains("webhook.resend"), "{history}");
    assert!(receiver.drain().is_empty());
}

#[test]
fn a_resend_that_fails_is_given_up_again_and_cancels_the_queued_ones() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let (server, _) = with_an_undelivered_reboot(directory.path(), &receiver);
    receiver.drain();
    receiver.answer_next(&[204, 404]);
    check(&server, "POST /webhooks/ops/resend", NONE, 202, json!({ "messages": 3 }));
    assert_eq!(gists(&receiver, 2), A_REBOOT[..2]);
    let state = until(&server, "ops", |state| state["queuedForResend"] == 0);
    assert_eq!((&state["delivered"], &state["undelivered"]), (&json!(1), &json!(2)));
    let left = undelivered(&server, "ops");
    let words: Vec<_> = left.iter().map(|[_, status, failure]| (status.as_str(), failure.as_str())).collect();
    assert_eq!(
        words,
        [
            ("Started", "The receiver responded with status 404."),
            ("Completed", "The receiver responded with status 500.")
        ]
    );
    assert!(receiver.drain().is_empty());

    // New messages are delivered regardless.
    restart(&server, "m1");
    assert_eq!(gists(&receiver, 1), ["Reboot Scheduled"]);
}

#[test]
fn an_undelivered_message_is_resent_when_the_webhook_is_enabled() {
    let (directory, receiver) = (tempfile::tempdir().unwrap(), Receiver::start());
    let (server, _) = with_an_undelivered_reboot(directory.path(), &receiver);
    receiver.drain();
    let list = check(&server, "GET /webhooks/ops/undelivered", NONE, 200, json!({}));
    let id = list["value"][1]["id"].as_str().unwrap().to_owned();
    check(&server, "PATCH /webhooks/ops", json!({ "enabled": false }), 200, json!({}));
    let ids = |ids: &[&str]| json!({ "ids": ids });
    refused(&server, "POST /webhooks/ops/resend", ids(&[&id, "x"]), 404, "UndeliveredMessageNotFound");
    refused(&server, "POST /webhooks/ops/resend", ids(&["x"; 101]), 400, "InvalidField");
    refused(&server, "POST /webhooks/none/resend", NONE, 404, "WebhookNotFound");
    refused(&server, "GET /webhooks/none/undelivered", NONE, 404, "WebhookNotFound");
    until(&server, "ops", |state| state["queuedForResend"] == 0);
    check(&server, "POST /webhooks/ops/resend", ids(&[&id]), 202, json!({ "messages": 1 }));
    server.stop();
    drop(server);

    let server = Server::kept_in(directory.path());
    until(&server, "ops", |state| state["queuedForResend"] == 1);
    check(&server, "PATCH /webhooks/ops", json!({ "enabled": true }), 200, json!({}));
    assert_eq!(receiver.next().json()["id"], id);
    until(&server, "ops", |state| state["queuedForResend"] == 0 && state["undelivered"] == 2);
    assert_eq!(server.call("DELETE /webhooks/ops", &NONE).status, 204);
    hook(&server, "ops", &receiver, json!({}));
    assert_eq!(undelivered(&server, "ops").len(), 0, "a new webhook with the same name has none");
}

#[test]
fn only_the_last_hundred_undelivered_messages_are_kept() {
    let (server, receiver) = (listening(), Receiver::start());
    hook(&server, "ops", &receiver, json!({ "retrySeconds": 0, "statuses": ["Scheduled", "Canceled"] }));
    receiver.answer_next(&[500; 104]);
    let mut first = None;
    for _ in 0..52 {
        let event = restart(&server, "m1");
        check(&server, &format!("POST /events/{event}/cancel"), NONE, 200, json!({}));
        first = first.or(Some(event));
    }
    for count in 1..=104 {
        // A slow run can be further by now: the wait between two attempts ends by itself.
        until(&server, "ops", |state| state["undelivered"].as_u64() >= Some(count));
        // A change of the webhook retries at once.
        check(&server, "PATCH /webhooks/ops", json!({ "enabled": true }), 200, json!({}));
    }
    let list = check(&server, "GET /webhooks/ops/undelivered", NONE, 200, json!({}))["value"].take();
    let list = list.as_array().unwrap();
    assert_eq!(list.len(), 100);
    assert!(list.iter().all(|one| one["eventId"] != first.clone().unwrap()));
}

#[test]
fn a_receiver_that_never_responds_times_out_and_delays_only_its_own_webhook() {
    let clock = ClockSetting::Manual { start: Some(Timestamp::from_secs(1_772_366_400)) };
    let server = Server::new(Config { clock, webhook_timeout: Duration::from_millis(250), ..open() });
    check(&server, "POST /machines", json!({ "name": "m1" }), 201, json!({}));
    server.listen_as("m1");
    let (silent, quick) = (Receiver::start(), Receiver::start());
    hook(&server, "silent", &silent, json!({}));
    let held = silent.hold();
    let sentence = "The receiver did not respond within 0.25 seconds.";
    let expected = json!({ "delivered": false, "message": sentence });
    check(&server, "POST /webhooks/silent/test", NONE, 200, expected);
    hook(&server, "quick", &quick, json!({}));
    restart(&server, "m1");
    assert_eq!(gists(&quick, 1), ["Reboot Scheduled"]);
    let state = until(&server, "silent", |state| state["failures"].as_u64() > Some(1));
    assert_eq!(state["lastFailure"]["message"], sentence);
    assert_eq!((&state["delivered"], &state["behind"]), (&json!(0), &json!(1)));
    drop(held);
    until(&server, "silent", |state| state["delivered"] == 1);
}

#[test]
fn the_deletion_of_a_machine_is_reported_with_its_former_resource() {
    let (server, receiver) = (Server::start(), Receiver::start());
    let machine = json!({
        "name": "m1", "resourceGroup": "shop", "terminateNotification": { "notBeforeTimeout": "PT5M" },
    });
    check(&server, "POST /machines", machine, 201, json!({}));
    server.listen_as("m1");
    hook(&server, "ops", &receiver, json!({ "resourceGroups": ["shop"] }));
    check(&server, "DELETE /machines/m1", NONE, 202, json!({}));
    advance(&server, 600);
    for gist in ["Terminate Scheduled", "Terminate Started", "Terminate Completed"] {
        let delivery = receiver.next();
        assert_eq!(delivery.summarize(), gist);
        let subject = delivery.json()["subject"].as_str().unwrap().to_owned();
        assert!(subject.contains("/resourceGroups/shop/providers/Microsoft.Compute/virtualMachines/m1/"), "{subject}");
    }
}

#[test]
fn events_of_a_set_have_the_resource_id_of_the_set() {
    let (server, receiver) = (Server::start(), Receiver::start());
    check(&server, "POST /availability-sets", json!({ "name": "web" }), 201, json!({}));
    check(&server, "POST /machines", json!({ "name": "m1", "availabilitySet": "web" }), 201, json!({}));
    server.listen_as("m1");
    hook(&server, "ops", &receiver, json!({}));
    restart(&server, "m1");
    let subject = receiver.next().json()["subject"].as_str().unwrap().to_owned();
    assert!(subject.contains("/resourceGroups/default/providers/Microsoft.Compute/availabilitySets/web/"), "{subject}");
}

#[test]
fn a_disabled_webhook_catches_up_when_it_is_enabled_again() {
    let (server, receiver, other) = (listening(), Receiver::start(), Receiver::start());
    hook(&server, "ops", &receiver, json!({ "enabled": false }));
    restart(&server, "m1");
    assert_eq!(until(&server, "ops", |state| state["behind"] == 1)["delivered"], 0);
    let change = json!({ "enabled": true, "url": other.url() });
    check(&server, "PATCH /webhooks/OPS", change, 200, json!({ "name": "ops", "enabled": true, "url": other.url() }));
    assert_eq!(gists(&other, 1), ["Reboot Scheduled"]);
    assert!(receiver.drain().is_empty());
}

#[test]
fn another_secret_signs_from_then_on() {
    let (server, receiver) = (listening(), Receiver::start());
    let old = hook(&server, "ops", &receiver, json!({}));
    receiver.answer_next(&[401]);
    restart(&server, "m1");
    receiver.next().verify(&old);
    let changed = check(&server, "PATCH /webhooks/ops", json!({ "secret": null }), 200, json!({}));
    let new = changed["secret"].as_str().unwrap().to_owned();
    assert_ne!(new, old);
    until(&server, "ops", |state| state["delivered"] == 1);
    receiver.drain();
    advance(&server, 900);
    receiver.next().verify(&new);
}

#[test]
fn a_secret_chosen_by_the_owner_is_accepted_and_not_shown() {
    let (server, receiver) = (listening(), Receiver::start());
    let secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    let body = json!({ "name": "ops", "url": receiver.url(), "secret": secret });
    let made = check(&server, "POST /webhooks", body, 201, json!({}));
    assert!(!made.to_string().contains("whsec_"), "{made}");
    let history = check(&server, "GET /history?kind=audit", NONE, 200, json!({}));
    assert!(history.to_string().contains("webhook.create") && !history.to_string().contains("whsec_"), "{history}");
    restart(&server, "m1");
    receiver.next().verify(secret);
}

#[test]
fn a_deleted_webhook_receives_nothing_more() {
    let (server, receiver) = (listening(), Receiver::start());
    hook(&server, "ops", &receiver, json!({}));
    receiver.answer_next(&[500; 100]);
    restart(&server, "m1");
    receiver.next();
    assert_eq!(server.call("DELETE /webhooks/ops", &NONE).status, 204);
    refused(&server, "GET /webhooks/ops", NONE, 404, "WebhookNotFound");
    let other = Receiver::start();
    hook(&server, "ops", &other, json!({}));
    advance(&server, 900);
    assert_eq!(gists(&other, 1), ["Reboot Started"]);
}

#[test]
fn a_test_reports_the_response_and_changes_nothing() {
    let (server, receiver) = (listening(), Receiver::start());
    let secret = hook(&server, "ops", &receiver, json!({}));
    let expected = json!({ "delivered": true, "message": "The receiver responded with status 204." });
    check(&server, "POST /webhooks/ops/test", NONE, 200, expected);
    let delivery = receiver.next();
    delivery.verify(&secret);
    assert_eq!(delivery.json()["type"], "Forewarn.WebhookTest");
    receiver.answer_next(&[404]);
    let expected = json!({ "delivered": false, "message": "The receiver responded with status 404." });
    check(&server, "POST /webhooks/ops/test", NONE, 200, expected);
    assert_eq!(until(&server, "ops", |_| true)["delivered"], 0);
}

#[test]
fn invalid_webhooks_are_refused_with_a_message() {
    let server = Server::start();
    for (body, word) in [
        (json!({ "name": "a", "url": "ftp://example.org" }), "https://example.org/hook"),
        (json!({ "name": "a", "url": "http://me:pw@example.org" }), "password"),
        (json!({ "name": "a b", "url": "http://example.org" }), "is not a valid name"),
        (json!({ "name": "a", "url": "http://example.org", "secret": "short" }), "whsec_"),
        (json!({ "name": "a", "url": "http://example.org", "retrySeconds": 604_801 }), "604800"),
        (json!({ "name": "a", "url": "http://example.org", "types": ["Nap"] }), "Nap"),
        (json!({ "name": "a", "url": "http://example.org", "machines": vec!["m"; 101] }), "100"),
        (json!({ "name": "a", "url": "http://example.org", "color": "red" }), "color"),
    ] {
        let message = refused(&server, "POST /webhooks", body, 400, "InvalidField");
        assert!(message.contains(word) && !message.contains("pw@"), "{message}");
    }
    for line in ["PATCH /webhooks/none", "DELETE /webhooks/none", "POST /webhooks/none/test"] {
        refused(&server, line, json!({}), 404, "WebhookNotFound");
    }
    check(&server, "GET /webhooks", NONE, 200, json!({ "value": [] }));
}

#[test]
fn names_are_unique_and_there_is_a_limit() {
    let server = Server::start();
    let new = |name: &str| json!({ "name": name, "url": "http://127.0.0.1:9/", "enabled": false });
    for number in 0..32 {
        check(&server, "POST /webhooks", new(&format!("h{number}")), 201, json!({}));
    }
    refused(&server, "POST /webhooks", new("H7"), 409, "WebhookExists");
    refused(&server, "POST /webhooks", new("one-more"), 409, "TooManyWebhooks");
    assert_eq!(check(&server, "GET /webhooks", NONE, 200, json!({}))["value"].as_array().unwrap().len(), 32);
}

/// The type and the change of a message about a rollout, host or drain.
fn notice(delivery: &Delivery) -> String {
    let (body, data) = (delivery.json(), delivery.json()["data"].clone());
    let word = ["change", "state", "result"].into_iter().find_map(|key| data[key].as_str().map(str::to_owned));
    format!("{} {}", body["type"].as_str().unwrap_or_default(), word.unwrap_or_default())
}

#[test]
fn rollouts_are_reported_to_webhooks_with_their_topic() {
    let (server, receiver) = (Server::start(), Receiver::start());
    for (name, host) in [("a", "h1"), ("b", "h2")] {
        check(&server, "POST /machines", json!({ "name": name, "host": host }), 201, json!({}));
    }
    let secret = hook(&server, "ops", &receiver, json!({ "topics": ["Rollouts"] }));
    check(&server, "GET /webhooks/ops", NONE, 200, json!({ "topics": ["Rollouts"] }));
    let plan = json!({ "type": "Reboot", "hosts": ["h1", "h2"], "pauseSeconds": 60, "description": "CHG-7" });
    let rollout = check(&server, "POST /rollouts", plan, 202, json!({}));
    advance(&server, 3600);
    let mut told: Vec<Delivery> = Vec::new();
    while told.last().is_none_or(|last| notice(last) != "Forewarn.RolloutChanged finished") {
        told.push(receiver.next());
    }
    let words: Vec<String> = told.iter().map(notice).collect();
    assert_eq!(words[0], "Forewarn.RolloutChanged started");
    for word in ["step-started", "step-ended"] {
        let wanted = format!("Forewarn.RolloutChanged {word}");
        assert_eq!(words.iter().filter(|found| **found == wanted).count(), 2, "{words:?}");
    }
    for delivery in &told {
        delivery.verify(&secret);
        assert_eq!(delivery.json()["data"]["rollout"], rollout["id"]);
        assert_eq!(delivery.json()["data"]["description"], "CHG-7");
    }
    let step = told.iter().find(|delivery| notice(delivery).ends_with("step-ended")).unwrap().json();
    contains(&step["data"], &json!({ "host": "h1", "step": 0, "stepState": "Succeeded", "steps": 2 })).unwrap();
    until(&server, "ops", |state| state["behind"] == 0);
}

#[test]
fn a_waiting_and_a_failed_rollout_are_reported_with_the_reason() {
    let (server, receiver) = (Server::start(), Receiver::start());
    check(&server, "POST /machines", json!({ "name": "a", "host": "h1" }), 201, json!({}));
    server.listen_as("a");
    hook(&server, "ops", &receiver, json!({ "topics": ["Events", "Rollouts"] }));
    check(&server, "POST /rollouts", json!({ "type": "Reboot", "hosts": ["h1"] }), 202, json!({}));
    let waiting = loop {
        let delivery = receiver.next();
        if notice(&delivery) == "Forewarn.RolloutChanged waiting" {
            break delivery.json();
        }
    };
    assert_eq!(waiting["data"]["waitsFor"], "approvals");
    check(&server, "POST /clock/advance", json!({ "seconds": 901 }), 200, json!({}));
    check(&server, "POST /hosts/h1/fence", NONE, 200, json!({}));
    until_notice(&receiver, "Forewarn.HostChanged Failed");
    let step = until_notice(&receiver, "Forewarn.RolloutChanged step-ended");
    contains(&step["data"], &json!({ "stepState": "Failed", "outcome": "Failed", "reason": "HostFailed" })).unwrap();
    until_notice(&receiver, "Forewarn.RolloutChanged failed");
}

fn until_notice(receiver: &Receiver, wanted: &str) -> serde_json::Value {
    loop {
        let delivery = receiver.next();
        if notice(&delivery) == wanted {
            return delivery.json();
        }
    }
}

#[test]
fn a_drain_is_reported_from_start_to_end() {
    let (server, receiver) = (Server::start(), Receiver::start());
    check(&server, "POST /machines", json!({ "name": "a", "host": "h1" }), 201, json!({}));
    check(&server, "PUT /hosts/h2", NONE, 201, json!({}));
    hook(&server, "ops", &receiver, json!({ "topics": ["Rollouts"] }));
    let drain = check(&server, "POST /hosts/h1/drain", NONE, 202, json!({}));
    advance(&server, 3600);
    let begun = receiver.next();
    assert_eq!(notice(&begun), "Forewarn.HostChanged Draining");
    let mut rest = [receiver.next(), receiver.next()];
    rest.sort_by_key(notice);
    assert_eq!(
        rest.iter().map(notice).collect::<Vec<_>>(),
        ["Forewarn.DrainEnded Succeeded", "Forewarn.HostChanged Drained"]
    );
    contains(&rest[0].json()["data"], &json!({ "operation": drain["id"], "host": "h1" })).unwrap();
}
