//! Drains this machine before an event and restores it afterward: `drain [ENDPOINT]`.

use forewarn_client::{Change, Client, Discovery};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let endpoint = match std::env::args().nth(1) {
        Some(text) => text.parse()?,
        None => Discovery::default().find()?.endpoint,
    };
    let mut client = Client::new(endpoint);
    let machine = client.instance()?.name;
    let mut changes = client.watch();
    while let Some(change) = changes.next() {
        match change {
            Ok(change) if !change.event().affects(&machine) => {}
            Ok(Change::Appeared(event)) => {
                println!("draining: {} not before {:?}", event.kind, event.not_before_text());
                changes.approve(&[event.id])?;
            }
            Ok(Change::Started(event)) => println!("in progress: {}", event.kind),
            Ok(Change::Finished(event) | Change::Canceled(event)) => println!("restoring: {}", event.kind),
            Err(error) => eprintln!("{}", error.to_line()),
        }
    }
    Ok(())
}
