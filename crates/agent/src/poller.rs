//! The thread that polls the service: finds the endpoint, looks up the name of this machine, and fetches documents. It
//! never gives up.
//!
//! An event that is missing from a document counts as finished, and `restore` cannot be undone. So a document that
//! lacks a known event is passed on only if the next response confirms it.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use forewarn_client::{
    Client, DhcpQuery, Discovery, Document, Endpoint, EventId, HOLD_DEFAULT, Options, Poll, RetryPolicy,
};

use crate::config::Config;
use crate::log;
use crate::message::{Message, ServiceUpdate};

/// Delay between two searches for the endpoint. Each search probes several addresses.
const SEARCH_INTERVAL: Duration = Duration::from_secs(5);

/// Short, so that only failures of more than a few seconds are logged.
const RETRY_POLICY: RetryPolicy = RetryPolicy {
    total_max: Duration::from_secs(5),
    gone_total_max: Duration::from_secs(70),
    delay_first: Duration::from_millis(250),
    delay_max: Duration::from_secs(2),
    retry_after_max: Duration::from_secs(10),
};

/// The driver no longer receives messages.
struct DriverStopped;

/// Polls until the driver stops. `known` are the events that the agent has seen and that have not finished.
pub fn run(config: &Config, inbox: &Sender<Message>, known: BTreeSet<EventId>) {
    let _: Result<(), DriverStopped> = watch(config, inbox, known);
}

fn watch(config: &Config, inbox: &Sender<Message>, mut known: BTreeSet<EventId>) -> Result<(), DriverStopped> {
    let endpoint = find_endpoint(config, inbox)?;
    let options = Options::new(endpoint).retry(RETRY_POLICY).timeout(config.timeout);
    let mut client = Client::with_options(options);
    let name = find_machine_name(config, &mut client, inbox)?;
    send(inbox, ServiceUpdate::Ready { name, client: Box::new(client.clone()) })?;
    loop {
        let poll_started = Instant::now();
        let polled = if config.wait { client.hold(HOLD_DEFAULT) } else { client.poll() };
        let update = match polled {
            Ok(Poll::Changed(document)) => {
                let document = confirm_missing_events(document, &known, &mut client, config, inbox)?;
                known = event_ids(&document);
                ServiceUpdate::Document(document)
            }
            Ok(Poll::Unchanged) => ServiceUpdate::Unchanged,
            Err(error) => ServiceUpdate::Failed(error.to_line()),
        };
        send(inbox, update)?;
        std::thread::sleep(config.interval.saturating_sub(poll_started.elapsed()));
    }
}

/// Returns the document, or the next one if this one lacks a known event.
fn confirm_missing_events(
    document: Document,
    known: &BTreeSet<EventId>,
    client: &mut Client,
    config: &Config,
    inbox: &Sender<Message>,
) -> Result<Document, DriverStopped> {
    if known.is_subset(&event_ids(&document)) {
        return Ok(document);
    }
    loop {
        std::thread::sleep(config.interval);
        match client.poll() {
            Ok(Poll::Unchanged) => return Ok(document),
            Ok(Poll::Changed(next)) => return Ok(next),
            Err(error) => send(inbox, ServiceUpdate::Failed(error.to_line()))?,
        }
    }
}

fn event_ids(document: &Document) -> BTreeSet<EventId> {
    document.events.iter().map(|event| event.id.clone()).collect()
}

fn find_endpoint(config: &Config, inbox: &Sender<Message>) -> Result<Endpoint, DriverStopped> {
    if let Some(endpoint) = &config.endpoint {
        return Ok(endpoint.clone());
    }
    let discovery = match config.ask_dhcp {
        true => Discovery::default().dhcp(DhcpQuery::default()),
        false => Discovery::default(),
    };
    loop {
        match discovery.find() {
            Ok(found) => {
                log::write_line(format!("the service is at {found}"));
                return Ok(found.endpoint);
            }
            Err(error) => send(inbox, ServiceUpdate::Failed(error.to_line()))?,
        }
        std::thread::sleep(SEARCH_INTERVAL);
    }
}

fn find_machine_name(config: &Config, client: &mut Client, inbox: &Sender<Message>) -> Result<String, DriverStopped> {
    if let Some(name) = &config.name {
        return Ok(name.clone());
    }
    loop {
        match client.instance() {
            Ok(instance) => return Ok(instance.name),
            Err(error) => send(inbox, ServiceUpdate::Failed(error.to_line()))?,
        }
        std::thread::sleep(config.interval);
    }
}

fn send(inbox: &Sender<Message>, update: ServiceUpdate) -> Result<(), DriverStopped> {
    inbox.send(Message::Service(update)).map_err(|_| DriverStopped)
}
