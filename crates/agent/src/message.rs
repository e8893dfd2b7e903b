//! Messages that other threads send to the driver.

use forewarn_client::{Client, Document, EventId};

use crate::record::{Outcome, ProcessIdentity};

#[derive(Debug)]
pub enum Message {
    Service(ServiceUpdate),
    StepBegan { id: EventId, step: String, process: ProcessIdentity },
    StepEnded { id: EventId, step: String, outcome: Outcome },
    Approved { id: EventId, result: Result<(), String> },
    Stop,
}

/// Result of talking to the service.
#[derive(Debug)]
pub enum ServiceUpdate {
    /// The name of this machine is known. The client can be used for approvals.
    Ready {
        name: String,
        client: Box<Client>,
    },
    Document(Document),
    Unchanged,
    Failed(String),
}
