//! Drains this machine before an event and brings it back afterwards: `drain http://169.254.169.254`.

use forewarn_client::{Change, Client, Discovery};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => Discovery::default().find()?.endpoint,
    };
    let mut client = Client::new(endpoint);
    let me = client.instance()?.name;
    let mut changes = client.watch();
    while let Some(change) = changes.next() {
        match change {
            Ok(change) if !change.event().concerns(&me) => {}
            Ok(Change::Appeared(event)) => {
                println!("drain: {} not before {:?}", event.kind, event.not_before_text());
                changes.approve(&[event.id])?;
            }
            Ok(Change::Started(event)) => println!("gone: {}", event.kind),
            Ok(Change::Ended(event) | Change::Cancelled(event)) => println!("back: {}", event.kind),
            Err(error) => eprintln!("{}", error.to_line()),
        }
    }
    Ok(())
}
