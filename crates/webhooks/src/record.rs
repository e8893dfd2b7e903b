//! Webhooks as attachments of the region: the definition, the position (separately, because it changes often), each
//! undelivered message and the queue of those to resend.

use std::collections::BTreeSet;
use std::time::Duration;

use forewarn_api_types::WebhookTopic;
use forewarn_core::{Guid, Timestamp};
use forewarn_store::{ATTACHMENTS_PAGE_MAX, Attachment, Owner, Reader, StoreError};
use forewarn_wire::cloudevent::Stage;
use forewarn_wire::document::Kind;
use forewarn_wire::guid;
use serde::{Deserialize, Serialize};

use super::hook::{HistoryPosition, Undelivered, UndeliveredRows};
use super::message::Message;
use super::{Definition, DeliveryMode, Filter, ReceiverUrl, SigningSecret};

/// Prefixes of attachment names.
pub const DEFINITIONS: &str = "webhook/";
const POSITIONS: &str = "webhook-position/";
const UNDELIVERED: &str = "webhook-given-up/";
const RESEND: &str = "webhook-again/";

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct DefinitionRecord {
    v: u32,
    id: String,
    name: String,
    url: String,
    secret: String,
    /// Absent in records of versions that reported events only.
    #[serde(default)]
    topics: Vec<String>,
    types: Vec<String>,
    statuses: Vec<String>,
    machines: Vec<String>,
    resource_groups: Vec<String>,
    enabled: bool,
    retry_secs: u64,
    created_ms: i64,
}

#[derive(Serialize, Deserialize)]
struct PositionRecord {
    v: u32,
    after: u64,
    delivered: u64,
    #[serde(rename = "given_up")]
    undelivered: u64,
}

#[derive(Serialize, Deserialize)]
struct UndeliveredRecord {
    v: u32,
    row: u64,
    id: String,
    body: String,
    happened_ms: i64,
    #[serde(rename = "given_up_ms")]
    last_attempt_ms: i64,
    why: String,
}

#[derive(Serialize, Deserialize)]
struct ResendRecord {
    v: u32,
    rows: BTreeSet<u64>,
}

/// The key of a name; names are unique without regard to case.
pub fn key(name: &str) -> String {
    name.to_ascii_lowercase()
}

pub fn position_name(name: &str) -> String {
    format!("{POSITIONS}{}", key(name))
}

pub fn put_definition(definition: &Definition) -> Attachment {
    let filter = &definition.filter;
    let record = DefinitionRecord {
        v: VERSION,
        id: guid::Lower(definition.id.0).to_string(),
        name: definition.name.clone(),
        url: definition.url.to_string(),
        secret: definition.secret.reveal(),
        topics: filter.topics.iter().map(|topic| topic.as_str().to_owned()).collect(),
        types: filter.kinds.iter().map(|kind| kind.as_str().to_owned()).collect(),
        statuses: filter.stages.iter().map(|stage| stage.as_str().to_owned()).collect(),
        machines: filter.machines.clone(),
        resource_groups: filter.resource_groups.clone(),
        enabled: definition.delivery == DeliveryMode::Enabled,
        retry_secs: definition.retry.as_secs(),
        created_ms: definition.created.0,
    };
    Attachment::put(Owner::Region, format!("{DEFINITIONS}{}", key(&definition.name)), text(&record))
}

pub fn put_position(name: &str, position: HistoryPosition) -> Attachment {
    let HistoryPosition { after, delivered, undelivered } = position;
    Attachment::put(
        Owner::Region,
        position_name(name),
        text(&PositionRecord { v: VERSION, after, delivered, undelivered }),
    )
}

/// Prefix of the attachments that hold the undelivered messages of a webhook.
pub fn undelivered_prefix(name: &str) -> String {
    format!("{UNDELIVERED}{}/", key(name))
}

/// Zero-padded, so that the order of names is the order of history.
pub fn undelivered_name(name: &str, row: u64) -> String {
    format!("{}{row:020}", undelivered_prefix(name))
}

pub fn put_undelivered(name: &str, undelivered: &Undelivered) -> Attachment {
    let Undelivered { row, message, at, reason } = undelivered;
    let record = UndeliveredRecord {
        v: VERSION,
        row: *row,
        id: message.id.clone(),
        body: message.body.clone(),
        happened_ms: message.at.0,
        last_attempt_ms: at.0,
        why: reason.clone(),
    };
    Attachment::put(Owner::Region, undelivered_name(name, *row), text(&record))
}

pub fn remove_undelivered(name: &str, row: u64) -> Attachment {
    Attachment::remove(Owner::Region, undelivered_name(name, row))
}

pub fn resend_name(name: &str) -> String {
    format!("{RESEND}{}", key(name))
}

pub fn put_resend(name: &str, rows: &BTreeSet<u64>) -> Attachment {
    match rows.is_empty() {
        true => Attachment::remove(Owner::Region, resend_name(name)),
        false => {
            let record = ResendRecord { v: VERSION, rows: rows.clone() };
            Attachment::put(Owner::Region, resend_name(name), text(&record))
        }
    }
}

/// Removes everything that is stored about a webhook.
pub fn remove(name: &str, undelivered: &BTreeSet<u64>) -> Vec<Attachment> {
    let mut names = vec![format!("{DEFINITIONS}{}", key(name)), position_name(name), resend_name(name)];
    names.extend(undelivered.iter().map(|row| undelivered_name(name, *row)));
    names.into_iter().map(|name| Attachment::remove(Owner::Region, name)).collect()
}

pub fn read_definition(text: &str) -> Result<Definition, StoreError> {
    let record: DefinitionRecord = parse(text)?;
    check_version(record.v)?;
    let kinds = record.types.iter().map(|word| Kind::ALL.into_iter().find(|kind| kind.as_str() == word));
    let stages = record.statuses.iter().map(|word| Stage::ALL.into_iter().find(|stage| stage.as_str() == word));
    let topics = record.topics.iter().map(|word| WebhookTopic::parse(word));
    Ok(Definition {
        id: guid::parse(&record.id).map(Guid).ok_or_else(wrong_version)?,
        url: ReceiverUrl::parse(&record.url).map_err(|_| wrong_version())?,
        secret: SigningSecret::parse(&record.secret).map_err(|_| wrong_version())?,
        filter: Filter {
            topics: topics.collect::<Option<_>>().ok_or_else(wrong_version)?,
            kinds: kinds.collect::<Option<_>>().ok_or_else(wrong_version)?,
            stages: stages.collect::<Option<_>>().ok_or_else(wrong_version)?,
            machines: record.machines,
            resource_groups: record.resource_groups,
        },
        delivery: if record.enabled { DeliveryMode::Enabled } else { DeliveryMode::Paused },
        retry: Duration::from_secs(record.retry_secs),
        created: Timestamp(record.created_ms),
        name: record.name,
    })
}

pub fn read_position(text: &str) -> Result<HistoryPosition, StoreError> {
    let PositionRecord { v, after, delivered, undelivered } = parse(text)?;
    check_version(v)?;
    Ok(HistoryPosition { after, delivered, undelivered })
}

pub fn read_undelivered(text: &str) -> Result<Undelivered, StoreError> {
    let UndeliveredRecord { v, row, id, body, happened_ms, last_attempt_ms, why } = parse(text)?;
    check_version(v)?;
    let message = Message { id, body, at: Timestamp(happened_ms) };
    Ok(Undelivered { row, message, at: Timestamp(last_attempt_ms), reason: why })
}

pub fn read_resend(text: &str) -> Result<BTreeSet<u64>, StoreError> {
    let ResendRecord { v, rows } = parse(text)?;
    check_version(v)?;
    Ok(rows)
}

fn text(record: &impl Serialize) -> String {
    serde_json::to_string(record).expect("a record consists of strings and numbers")
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|_| wrong_version())
}

fn check_version(version: u32) -> Result<(), StoreError> {
    if version == VERSION { Ok(()) } else { Err(wrong_version()) }
}

fn wrong_version() -> StoreError {
    StoreError::Message("a webhook was stored by another version of Forewarn. Start that version.".to_owned())
}

/// Reads the rows of undelivered messages from the store.
pub fn read_undelivered_rows(reader: &dyn Reader, name: &str) -> Result<UndeliveredRows, StoreError> {
    let all = read_all_undelivered(reader, name)?;
    let resend = reader.attachment(Owner::Region, &resend_name(name))?;
    let resend = resend.map_or_else(|| Ok(BTreeSet::new()), |text| read_resend(&text))?;
    Ok(UndeliveredRows { kept: all.iter().map(|message| message.row).collect(), resend })
}

/// Reads the undelivered messages in the order of history.
pub fn read_all_undelivered(reader: &dyn Reader, name: &str) -> Result<Vec<Undelivered>, StoreError> {
    let found = reader.attachments(Owner::Region, &undelivered_prefix(name), None, ATTACHMENTS_PAGE_MAX)?;
    found.iter().map(|(_, text)| read_undelivered(text)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let definition = Definition {
            id: Guid(7),
            name: "Ops".into(),
            url: ReceiverUrl::parse("https://example.org/x?y=z").unwrap(),
            secret: SigningSecret::random(),
            filter: Filter {
                topics: WebhookTopic::ALL.to_vec(),
                kinds: Kind::ALL.to_vec(),
                stages: Stage::ALL.to_vec(),
                machines: vec!["web1".into()],
                resource_groups: vec!["shop".into()],
            },
            delivery: DeliveryMode::Paused,
            retry: Duration::from_secs(60),
            created: Timestamp(5),
        };
        let written = put_definition(&definition);
        assert_eq!(written.name, "webhook/ops");
        assert_eq!(read_definition(&written.value.unwrap()).unwrap(), definition);
        let position = HistoryPosition { after: 7, delivered: 3, undelivered: 1 };
        assert_eq!(read_position(&put_position("Ops", position).value.unwrap()).unwrap(), position);
        let message = Message { id: "m".into(), body: "{}".into(), at: Timestamp(5) };
        let undelivered = Undelivered { row: 7, message, at: Timestamp(9), reason: "It did not respond.".into() };
        let written = put_undelivered("Ops", &undelivered);
        assert_eq!(written.name, "webhook-given-up/ops/00000000000000000007");
        assert_eq!(read_undelivered(&written.value.unwrap()).unwrap(), undelivered);
        let rows = BTreeSet::from([7, 9]);
        assert_eq!(read_resend(&put_resend("Ops", &rows).value.unwrap()).unwrap(), rows);
        assert_eq!(put_resend("Ops", &BTreeSet::new()).value, None);
    }

    #[test]
    fn a_record_of_another_version_is_an_error() {
        assert!(read_position(r#"{"v":2,"after":1,"delivered":0,"given_up":0}"#).is_err());
        assert!(read_definition("{}").is_err());
        assert!(read_resend(r#"{"v":2,"rows":[]}"#).is_err());
        assert!(read_undelivered("{}").is_err());
    }
}
