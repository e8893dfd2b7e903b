//! A message for a receiver.

use forewarn_api_types::Time;
use forewarn_core::{EventId, Timestamp};
use forewarn_wire::cloudevent;
use forewarn_wire::guid;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    pub id: String,
    pub body: String,
    /// Time of the change.
    pub at: Timestamp,
}

/// A message for testing a receiver.
pub fn test_message(name: &str, id: EventId, at: Timestamp) -> Message {
    let body = cloudevent::test_body(id.0, &Time(at.0).to_string(), name);
    Message { id: guid::Lower(id.0).to_string(), body, at }
}
