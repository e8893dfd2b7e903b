//! The thread that asks the service: where it is, who this machine is, what is going to happen.
//! It never gives up, and never asks more often than it should.
//!
//! That an event is not in a document any more is the only sign that it is over, and `restore` cannot be taken back. So a
//! document that lacks an event is told only when the next answer says the same.

use std::collections::BTreeSet;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use forewarn_client::{Asking, Client, Discovery, Document, Endpoint, EventId, HOLD, Options, Poll, Retry};

use crate::config::Config;
use crate::driver::Message;
use crate::log;

/// What the service said, or that it said nothing.
#[derive(Debug)]
pub enum News {
    /// Who this machine is, with a client that knows what this one knows.
    Ready {
        name: String,
        client: Box<Client>,
    },
    Document(Document),
    Unchanged,
    Trouble(String),
}

/// Between two searches for an endpoint that nobody told. Each asks several places.
const SEARCH_AGAIN: Duration = Duration::from_secs(5);

/// A blip is not worth a line in the log; whatever takes longer is.
const RETRY: Retry = Retry {
    total_max: Duration::from_secs(5),
    gone_total_max: Duration::from_secs(70),
    delay_first: Duration::from_millis(250),
    delay_max: Duration::from_secs(2),
    retry_after_max: Duration::from_secs(10),
};

/// Nobody listens any more.
struct Deaf;

/// Runs until nobody listens any more. These events were there when the agent last looked.
pub fn run(config: &Config, inbox: &Sender<Message>, known: BTreeSet<EventId>) {
    let _: Result<(), Deaf> = watch(config, inbox, known);
}

fn watch(config: &Config, inbox: &Sender<Message>, mut known: BTreeSet<EventId>) -> Result<(), Deaf> {
    let endpoint = find(config, inbox)?;
    let mut client = Client::with(Options::new(endpoint).retry(RETRY).timeout(config.timeout));
    let name = name(config, &mut client, inbox)?;
    tell(inbox, News::Ready { name, client: Box::new(client.clone()) })?;
    loop {
        let begun = Instant::now();
        let answer = if config.wait { client.hold(HOLD) } else { client.poll() };
        tell(
            inbox,
            match answer {
                Ok(Poll::Changed(document)) => {
                    let document = confirmed(document, &known, &mut client, config, inbox)?;
                    known = ids(&document);
                    News::Document(document)
                }
                Ok(Poll::Unchanged) => News::Unchanged,
                Err(error) => News::Trouble(error.to_line()),
            },
        )?;
        std::thread::sleep(config.interval.saturating_sub(begun.elapsed()));
    }
}

/// The document, or, where it lacks an event, what the next answer says.
fn confirmed(
    document: Document,
    known: &BTreeSet<EventId>,
    client: &mut Client,
    config: &Config,
    inbox: &Sender<Message>,
) -> Result<Document, Deaf> {
    if known.is_subset(&ids(&document)) {
        return Ok(document);
    }
    loop {
        std::thread::sleep(config.interval);
        match client.poll() {
            Ok(Poll::Unchanged) => return Ok(document),
            Ok(Poll::Changed(next)) => return Ok(next),
            Err(error) => tell(inbox, News::Trouble(error.to_line()))?,
        }
    }
}

fn ids(document: &Document) -> BTreeSet<EventId> {
    document.events.iter().map(|event| event.id.clone()).collect()
}

fn find(config: &Config, inbox: &Sender<Message>) -> Result<Endpoint, Deaf> {
    if let Some(endpoint) = &config.endpoint {
        return Ok(endpoint.clone());
    }
    let discovery = match config.ask_dhcp {
        true => Discovery::default().asking(Asking::default()),
        false => Discovery::default(),
    };
    loop {
        match discovery.find() {
            Ok(found) => {
                log::line(format!("the service is at {found}"));
                return Ok(found.endpoint);
            }
            Err(error) => tell(inbox, News::Trouble(error.to_line()))?,
        }
        std::thread::sleep(SEARCH_AGAIN);
    }
}

fn name(config: &Config, client: &mut Client, inbox: &Sender<Message>) -> Result<String, Deaf> {
    if let Some(name) = &config.name {
        return Ok(name.clone());
    }
    loop {
        match client.instance() {
            Ok(instance) => return Ok(instance.name),
            Err(error) => tell(inbox, News::Trouble(error.to_line()))?,
        }
        std::thread::sleep(config.interval);
    }
}

fn tell(inbox: &Sender<Message>, news: News) -> Result<(), Deaf> {
    inbox.send(Message::News(news)).map_err(|_| Deaf)
}
