//! Asks what is planned, says what concerns this machine, and approves it: `query_and_approve [API-VERSION]`.
//!
//! What the published samples do, with `forewarn-client`. It differs from them: this machine is the one that the
//! service says it is, not the one that its host name says; the address is looked for (`FOREWARN_METADATA`,
//! 169.254.169.254, DHCP option 245); without a version, the newest that the service has is used.

use forewarn_client::{Client, Discovery, Options, Status, Version};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::new(Discovery::default().find()?.endpoint);
    if let Some(text) = std::env::args().nth(1) {
        let known = Version::ALL.into_iter().find(|version| version.as_str() == text);
        options = options.version(known.ok_or_else(|| format!("{text} is not a version of Scheduled Events"))?);
    }
    let mut client = Client::with(options);
    let this_machine = client.instance()?.name;
    for event in client.document()?.events.iter().filter(|event| event.concerns(&this_machine)) {
        let (status, not_before) = (event.status.as_str(), event.not_before_text());
        println!("+ {status}: {} of {this_machine}, not before {not_before}", event.kind);
        // Here the machine hands over its work.
        if event.status == Status::Scheduled {
            client.approve(std::slice::from_ref(&event.id))?;
            println!("+ Approved {}", event.id);
        }
    }
    Ok(())
}
