//! A message in a list of messages, read from its stored body.

use serde::Deserialize;

use crate::guid;

/// The subject of a message and the change that it reports.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct MessageSummary {
    /// None for a message that is not about an event.
    pub event_id: Option<u128>,
    /// Event type, or the type of another message.
    pub kind: String,
    /// Status of the event, or the change that another message reports.
    pub status: String,
    pub machines: Vec<String>,
}

impl MessageSummary {
    /// Reads a body of this or an earlier version. Empty if it is damaged.
    pub fn read(body: &str) -> MessageSummary {
        let StoredMessage { message_type, data } = serde_json::from_str(body).unwrap_or_default();
        let StoredProperties { event_id, event_type, event_status, resources } = data.resource_info.properties;
        match guid::parse(&event_id) {
            Some(event) => {
                MessageSummary { event_id: Some(event), kind: event_type, status: event_status, machines: resources }
            }
            None => MessageSummary {
                event_id: None,
                kind: message_type,
                status: data.change.or(data.state).or(data.result).unwrap_or_default(),
                machines: resources,
            },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredMessage {
    #[serde(rename = "type")]
    message_type: String,
    data: StoredData,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct StoredData {
    resource_info: StoredResource,
    change: Option<String>,
    state: Option<String>,
    result: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct StoredResource {
    properties: StoredProperties,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct StoredProperties {
    event_id: String,
    event_type: String,
    event_status: String,
    resources: Vec<String>,
}
