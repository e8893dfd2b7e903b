//! The thread that polls the service: finds the endpoint, looks up the name of this machine, and fetches documents. It
//! never gives up. With several servers, it moves to the next one when one fails.
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

/// A server of a cluster gives guests no document that is older than this, so a lower incarnation after this time is a reset.
const BEHIND_MAX: Duration = Duration::from_secs(10);

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
    let mut servers = Servers::find(config, inbox)?;
    let name = find_machine_name(config, &mut servers, inbox)?;
    servers.announce(&name, inbox)?;
    loop {
        let poll_started = Instant::now();
        let polled = if config.wait { servers.client.hold(HOLD_DEFAULT) } else { servers.client.poll() };
        let update = match polled {
            Ok(Poll::Changed(document)) if servers.is_behind(&document) => {
                servers.forget_response();
                ServiceUpdate::Failed(format!("{} has an older document than another server", servers.endpoint()))
            }
            Ok(Poll::Changed(document)) => {
                let document = confirm_missing_events(document, &known, &mut servers.client, config, inbox)?;
                known = event_ids(&document);
                servers.incarnation = document.incarnation;
                ServiceUpdate::Document(document)
            }
            Ok(Poll::Unchanged) => ServiceUpdate::Unchanged,
            Err(error) => {
                if servers.use_next() {
                    servers.announce(&name, inbox)?;
                }
                ServiceUpdate::Failed(error.to_line())
            }
        };
        send(inbox, update)?;
        std::thread::sleep(config.interval.saturating_sub(poll_started.elapsed()));
    }
}

/// The servers of a region, of which one is used until it fails.
struct Servers {
    endpoints: Vec<Endpoint>,
    current: usize,
    timeout: Duration,
    client: Client,
    /// That of the last document.
    incarnation: u64,
    /// When the agent last moved to another server.
    moved: Option<Instant>,
}

impl Servers {
    fn find(config: &Config, inbox: &Sender<Message>) -> Result<Servers, DriverStopped> {
        let endpoints = match config.endpoints.as_slice() {
            [] => vec![find_endpoint(config, inbox)?],
            endpoints => endpoints.to_vec(),
        };
        let client = connect(&endpoints[0], config.timeout);
        Ok(Servers { endpoints, current: 0, timeout: config.timeout, client, incarnation: 0, moved: None })
    }

    fn endpoint(&self) -> &Endpoint {
        &self.endpoints[self.current]
    }

    /// Lets the driver approve at the current server.
    fn announce(&self, name: &str, inbox: &Sender<Message>) -> Result<(), DriverStopped> {
        send(inbox, ServiceUpdate::Ready { name: name.to_owned(), client: Box::new(self.client.clone()) })
    }

    /// Moves to the next server. False: there is only one.
    fn use_next(&mut self) -> bool {
        if self.endpoints.len() < 2 {
            return false;
        }
        self.current = (self.current + 1) % self.endpoints.len();
        self.moved = Some(Instant::now());
        self.forget_response();
        log::write_line(format!("trying the server at {}", self.endpoint()));
        true
    }

    /// The next response is a whole document.
    fn forget_response(&mut self) {
        self.client = connect(self.endpoint(), self.timeout);
    }

    /// Whether a server that the agent has just moved to has not caught up yet. An event that its document lacks would count
    /// as finished.
    fn is_behind(&self, document: &Document) -> bool {
        let has_moved = self.moved.is_some_and(|moved| moved.elapsed() < BEHIND_MAX);
        has_moved && document.incarnation < self.incarnation
    }
}

fn connect(endpoint: &Endpoint, timeout: Duration) -> Client {
    Client::with_options(Options::new(endpoint.clone()).retry(RETRY_POLICY).timeout(timeout))
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

fn find_machine_name(config: &Config, servers: &mut Servers, inbox: &Sender<Message>) -> Result<String, DriverStopped> {
    if let Some(name) = &config.name {
        return Ok(name.clone());
    }
    loop {
        match servers.client.instance() {
            Ok(instance) => return Ok(instance.name),
            Err(error) => send(inbox, ServiceUpdate::Failed(error.to_line()))?,
        }
        servers.use_next();
        std::thread::sleep(config.interval);
    }
}

fn send(inbox: &Sender<Message>, update: ServiceUpdate) -> Result<(), DriverStopped> {
    inbox.send(Message::Service(update)).map_err(|_| DriverStopped)
}
