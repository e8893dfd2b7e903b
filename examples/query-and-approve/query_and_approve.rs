//! Lists the events that affect this machine and approves them: `query_and_approve [API-VERSION]`.
//!
//! Does what the published samples do, with `forewarn-client`. Differences: the machine name comes from the service,
//! not from the host name; the endpoint is discovered (`FOREWARN_METADATA`, 169.254.169.254, DHCP option 245); without
//! an argument, the newest version that the service supports is used.

use forewarn_client::{Client, Discovery, EventStatus, Options, Version};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new(Discovery::default().find()?.endpoint);
    if let Some(text) = std::env::args().nth(1) {
        let known = Version::ALL.into_iter().find(|version| version.as_str() == text);
        options = options.version(known.ok_or_else(|| format!("unknown API version '{text}'"))?);
    }
    let mut client = Client::with_options(options);
    let this_machine = client.instance()?.name;
    for event in client.document()?.events.iter().filter(|event| event.affects(&this_machine)) {
        let (status, not_before) = (event.status.as_str(), event.not_before_text());
        println!("+ {status}: {} of {this_machine}, not before {not_before}", event.kind);
        // Drain the machine here.
        if event.status == EventStatus::Scheduled {
            client.approve(std::slice::from_ref(&event.id))?;
            println!("+ Approved {}", event.id);
        }
    }
    Ok(())
}
