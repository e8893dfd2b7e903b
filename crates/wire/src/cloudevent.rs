//! What a web hook is told of an event: a CloudEvent 1.0 that carries what the original's Event Grid event
//! `ScheduledEventEmitted` carries, and the headers that sign it.
//!
//! Subscribers see two stages more than machines do: Completed and Canceled. The id of the envelope is that of one telling;
//! whoever sees it twice was told twice, because a delivery whose answer was lost is repeated.
//!
//! Signatures are those of the Standard Webhooks specification, for which there are libraries: HMAC-SHA256 over the id of
//! the message, the time of sending and the body. The code that is computed with the secret comes in as bytes: no secret
//! passes through here. When to tell whom, and how often, is decided elsewhere.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::document::{Kind, Source, rfc1123};
use crate::guid;

pub const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The type of every event.
pub const EVENT_TYPE: &str = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted";

/// The type of what is sent to see whether a receiver is there.
pub const TRIAL_TYPE: &str = "Forewarn.WebhookTest";

/// How far an event is, as subscribers are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    Scheduled,
    Started,
    Completed,
    Canceled,
}

impl Stage {
    pub const ALL: [Stage; 4] = [Stage::Scheduled, Stage::Started, Stage::Completed, Stage::Canceled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Stage::Scheduled => "Scheduled",
            Stage::Started => "Started",
            Stage::Completed => "Completed",
            Stage::Canceled => "Canceled",
        }
    }
}

/// One event at one stage.
#[derive(Debug, Clone, Copy)]
pub struct Telling<'a> {
    /// Of the envelope; the same when it is delivered again.
    pub message_id: u128,
    /// RFC 3339: when the event got to this stage.
    pub time: &'a str,
    pub subscription: &'a str,
    /// The id of the machine or of the set whose document has the event.
    pub resource_id: &'a str,
    pub location: &'a str,
    pub event_id: u128,
    pub stage: Stage,
    pub kind: Kind,
    /// Names of machines.
    pub resources: &'a [&'a str],
    /// Shown while the event is Scheduled.
    pub not_before_unix_secs: Option<i64>,
    pub description: &'a str,
    pub source: Source,
    /// -1 when it is not known.
    pub duration_secs: i64,
}

impl Telling<'_> {
    /// The whole envelope, to be sent as [`CONTENT_TYPE`].
    pub fn body(&self) -> Value {
        json!({
            "specversion": "1.0",
            "id": guid::Lower(self.message_id).to_string(),
            "source": format!("/subscriptions/{}", self.subscription),
            "subject": self.subject(),
            "type": EVENT_TYPE,
            "time": self.time,
            "data": {
                "resourceInfo": self.resource_info(),
                "operationalInfo": {"resourceEventTime": self.time},
                "apiVersion": API_VERSION,
            },
        })
    }

    fn subject(&self) -> String {
        let event_id = guid::Lower(self.event_id);
        format!("{}/providers/Microsoft.Maintenance/scheduledevents/{event_id}", self.resource_id)
    }

    fn resource_info(&self) -> Value {
        let event_id = guid::Lower(self.event_id).to_string();
        json!({
            "id": self.subject(),
            "name": event_id,
            "type": "microsoft.maintenance/scheduledevents",
            "location": self.location,
            "properties": {
                "DurationInSeconds": self.duration_secs,
                "Description": self.description,
                "EventId": event_id,
                "EventSource": self.source.as_str(),
                "EventStatus": self.stage.as_str(),
                "EventType": self.kind.as_str(),
                "NotBefore": self.not_before(),
                "Resources": self.resources,
                "ResourceType": "VirtualMachine",
                "ScheduledEventApiVersion": DOCUMENT_VERSION,
            },
        })
    }

    fn not_before(&self) -> String {
        match (self.stage, self.not_before_unix_secs) {
            (Stage::Scheduled, Some(secs)) => rfc1123(secs),
            (Stage::Scheduled, None) | (Stage::Started | Stage::Completed | Stage::Canceled, _) => String::new(),
        }
    }
}

/// An envelope that tells of no event, to try a web hook with.
pub fn trial_body(message_id: u128, time: &str, webhook: &str) -> Value {
    json!({
        "specversion": "1.0",
        "id": guid::Lower(message_id).to_string(),
        "source": format!("/webhooks/{webhook}"),
        "type": TRIAL_TYPE,
        "time": time,
        "data": {"webhook": webhook},
    })
}

/// The version of the properties, as the original's sample has it.
const API_VERSION: &str = "2024-07-01";

/// The version of the document whose fields the properties have.
const DOCUMENT_VERSION: &str = "2020-07-01";

/// What is signed: HMAC-SHA256, keyed with the subscriber's secret, of these bytes.
pub fn signed_content(message_id: &str, sent_unix_secs: i64, body: &[u8]) -> Vec<u8> {
    let mut content = format!("{message_id}.{sent_unix_secs}.").into_bytes();
    content.extend_from_slice(body);
    content
}

/// The headers of a delivery. `code` is the HMAC of [`signed_content`].
pub fn signature_headers(message_id: &str, sent_unix_secs: i64, code: &[u8; 32]) -> [(&'static str, String); 3] {
    [
        ("webhook-id", message_id.to_owned()),
        ("webhook-timestamp", sent_unix_secs.to_string()),
        ("webhook-signature", format!("v1,{}", STANDARD.encode(code))),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_and_the_headers_are_those_of_the_specification() {
        let content = signed_content("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(content, br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#);
        // The HMAC-SHA256 of that with the secret of the specification's example, computed with another program.
        let code = [
            0x83, 0x48, 0x4c, 0xf5, 0x2b, 0x04, 0xf8, 0xe4, 0xcf, 0x25, 0x31, 0xad, 0xfe, 0xd9, 0x88, 0x2a, 0xd4, 0xb2,
            0x66, 0x51, 0x37, 0xb8, 0x52, 0x44, 0x2d, 0x59, 0x4d, 0x20, 0xe2, 0xc9, 0xd4, 0xe1,
        ];
        let [id, time, signature] = signature_headers("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, &code);
        assert_eq!(id, ("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".to_owned()));
        assert_eq!(time, ("webhook-timestamp", "1614265330".to_owned()));
        assert_eq!(signature, ("webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=".to_owned()));
    }
}
