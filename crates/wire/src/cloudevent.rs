//! Webhook messages: a CloudEvent 1.0 with the same data as Azure's Event Grid event `ScheduledEventEmitted`,
//! and the headers that sign it.
//!
//! Subscribers see two stages that machines do not see: Completed and Canceled. The ID of the envelope
//! identifies the message. A message is delivered again, with the same ID, if the response to a delivery was
//! lost.
//!
//! Signatures follow the Standard Webhooks specification: HMAC-SHA256 over the message ID, the sending time and
//! the body. The caller computes the HMAC, so this module never sees the secret. It does not decide when and to
//! which webhook a message is sent.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::document::{Kind, Source, format_rfc1123};
use crate::guid;

pub use notification::{DrainEnded, HostChanged, Notification, NotificationData, RolloutChanged};
pub use summary::MessageSummary;

mod notification;
mod summary;

pub const CONTENT_TYPE: &str = "application/cloudevents+json; charset=utf-8";

/// The type of every event message.
pub const EVENT_TYPE: &str = "Microsoft.ResourceNotifications.MaintenanceResources.ScheduledEventEmitted";

/// The type of a test message.
pub const TEST_TYPE: &str = "Forewarn.WebhookTest";

/// The stage of an event, as shown to subscribers.
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
pub struct EventMessage<'a> {
    /// ID of the envelope, the same for every delivery attempt.
    pub message_id: u128,
    /// When the event reached this stage, in RFC 3339.
    pub time: &'a str,
    pub subscription: &'a str,
    /// ID of the machine or set whose document contains the event.
    pub resource_id: &'a str,
    pub location: &'a str,
    pub event_id: u128,
    pub stage: Stage,
    pub kind: Kind,
    /// Names of the affected machines.
    pub resources: &'a [&'a str],
    /// Shown while the event is Scheduled.
    pub not_before_unix_secs: Option<i64>,
    pub description: &'a str,
    pub source: Source,
    /// -1 if unknown.
    pub duration_secs: i64,
}

impl EventMessage<'_> {
    /// The complete envelope, to be sent as [`CONTENT_TYPE`].
    pub fn body(&self) -> String {
        let event_id = guid::Lower(self.event_id).to_string();
        let subject = format!("{}/providers/Microsoft.Maintenance/scheduledevents/{event_id}", self.resource_id);
        let properties = EventProperties {
            description: self.description,
            duration_in_seconds: self.duration_secs,
            event_id: &event_id,
            event_source: self.source.as_str(),
            event_status: self.stage.as_str(),
            event_type: self.kind.as_str(),
            not_before: self.not_before(),
            resource_type: "VirtualMachine",
            resources: self.resources,
            scheduled_event_api_version: DOCUMENT_VERSION,
        };
        let resource_info = ResourceInfo {
            id: &subject,
            location: self.location,
            name: &event_id,
            properties,
            resource_type: "microsoft.maintenance/scheduledevents",
        };
        let operational_info = OperationalInfo { resource_event_time: self.time };
        Envelope {
            data: EventData { api_version: API_VERSION, operational_info, resource_info },
            id: guid::Lower(self.message_id).to_string(),
            source: &format!("/subscriptions/{}", self.subscription),
            specversion: SPEC_VERSION,
            subject: Some(&subject),
            time: self.time,
            message_type: EVENT_TYPE,
        }
        .render()
    }

    fn not_before(&self) -> String {
        match (self.stage, self.not_before_unix_secs) {
            (Stage::Scheduled, Some(secs)) => format_rfc1123(secs),
            (Stage::Scheduled, None) | (Stage::Started | Stage::Completed | Stage::Canceled, _) => String::new(),
        }
    }
}

/// The body of every message. Here and below, fields are in the order in which they are sent.
#[derive(Serialize)]
struct Envelope<'a, D> {
    data: D,
    id: String,
    source: &'a str,
    specversion: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    time: &'a str,
    #[serde(rename = "type")]
    message_type: &'a str,
}

impl<D: Serialize> Envelope<'_, D> {
    fn render(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and lists can be written as JSON")
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EventData<'a> {
    api_version: &'static str,
    operational_info: OperationalInfo<'a>,
    resource_info: ResourceInfo<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OperationalInfo<'a> {
    resource_event_time: &'a str,
}

#[derive(Serialize)]
struct ResourceInfo<'a> {
    id: &'a str,
    location: &'a str,
    name: &'a str,
    properties: EventProperties<'a>,
    #[serde(rename = "type")]
    resource_type: &'static str,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct EventProperties<'a> {
    description: &'a str,
    duration_in_seconds: i64,
    event_id: &'a str,
    event_source: &'a str,
    event_status: &'a str,
    event_type: &'a str,
    not_before: String,
    resource_type: &'static str,
    resources: &'a [&'a str],
    scheduled_event_api_version: &'static str,
}

/// The envelope of a test message, which describes no event.
pub fn test_body(message_id: u128, time: &str, webhook: &str) -> String {
    Envelope {
        data: TestData { webhook },
        id: guid::Lower(message_id).to_string(),
        source: &format!("/webhooks/{webhook}"),
        specversion: SPEC_VERSION,
        subject: None,
        time,
        message_type: TEST_TYPE,
    }
    .render()
}

#[derive(Serialize)]
struct TestData<'a> {
    webhook: &'a str,
}

/// The version of CloudEvents.
const SPEC_VERSION: &str = "1.0";

/// The version of the properties, as in Azure's sample.
const API_VERSION: &str = "2024-07-01";

/// The document version whose fields the properties contain.
const DOCUMENT_VERSION: &str = "2020-07-01";

/// The bytes to sign with HMAC-SHA256 and the subscriber's secret.
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
    fn signed_content_and_headers_match_the_specification() {
        let content = signed_content("msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, br#"{"test": 2432232314}"#);
        assert_eq!(content, br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#);
        // HMAC-SHA256 with the secret of the specification's example, computed by another program.
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
