//! Orders and outcomes as JSON, for the link between a server and the agent of a host. The form is that of the journal.

use serde_json::Value;

use crate::journaled::journal::{self, Entry};
use crate::order::{Order, Outcome};

pub fn encode_order(order: &Order) -> Value {
    journal::encode(&Entry::new(order.clone()))
}

/// None: the order is of an unknown form.
pub fn decode_order(value: &Value) -> Option<Order> {
    journal::decode_entry(value).map(|entry| entry.order)
}

pub fn encode_outcome(outcome: &Outcome) -> Value {
    journal::encode_outcome(outcome)
}

/// None: the outcome is of an unknown form.
pub fn decode_outcome(value: &Value) -> Option<Outcome> {
    journal::decode_outcome(value)
}
