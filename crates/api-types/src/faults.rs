//! Faults of the metadata endpoint. The kind is an object: `{"kind": "Status", "status": 429}`.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::nearest::describe_unknown;
use crate::span::format_span;
use crate::{Nullable, Time, Word, count_of, object};

/// The longest delay of a fault.
pub const FAULT_DELAY_MAX: Duration = Duration::from_secs(300);

/// The longest `Retry-After` of a fault.
pub const FAULT_RETRY_AFTER_SECS_MAX: u32 = 3600;

/// Statuses of complete responses.
pub const FAULT_STATUSES: std::ops::RangeInclusive<u16> = 200..=599;

/// Statuses with a `Retry-After` header.
const WITH_RETRY_AFTER: [u16; 2] = [429, 503];

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NewFault {
    /// Machine whose requests are affected. Default: all machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    pub fault: FaultKind,
    /// Number of requests affected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 2147483647)]
    pub count: Option<u32>,
    /// Duration on the server's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 34_560_000)]
    pub for_seconds: Option<u32>,
    /// Percentage of requests affected, evenly spread.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 100)]
    pub percent: Option<u8>,
    /// Affect only requests with this method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<FaultMethod>,
    /// Affect only requests to `/metadata/scheduledevents`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub documents_only: bool,
}

impl NewFault {
    /// A fault of all requests of all machines, until it is cleared.
    pub fn of(fault: FaultKind) -> NewFault {
        NewFault {
            machine: None,
            fault,
            count: None,
            for_seconds: None,
            percent: None,
            method: None,
            documents_only: false,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum FaultMethod {
    Get,
    Post,
}

impl FaultMethod {
    pub fn as_str(self) -> &'static str {
        match self {
            FaultMethod::Get => "GET",
            FaultMethod::Post => "POST",
        }
    }
}

impl Word for FaultMethod {
    const ALL: &'static [FaultMethod] = &[FaultMethod::Get, FaultMethod::Post];

    fn as_str(self) -> &'static str {
        FaultMethod::as_str(self)
    }
}

/// A fault, active or just cleared.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fault {
    pub id: u64,
    /// Machine whose requests are affected; omitted if all are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    pub fault: FaultKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub for_seconds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub percent: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub method: Option<FaultMethod>,
    pub documents_only: bool,
    pub since: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Requests that it applied to.
    pub matched: u64,
    /// Requests that it affected.
    pub affected: u64,
}

impl Fault {
    /// The kind with its parameters, and the requests that it applies to: `Delay 2s, GET only, 50% of requests`.
    pub fn describe(&self) -> String {
        let kind = self.fault.as_str();
        let mut words = vec![match self.fault {
            FaultKind::Status { status, retry_after_seconds: Some(secs) } => {
                format!("{kind} {status}, Retry-After {secs}s")
            }
            FaultKind::Status { status, retry_after_seconds: None } => format!("{kind} {status}"),
            FaultKind::Delay(delay) | FaultKind::SlowFirstCall(delay) => format!("{kind} {}", format_span(delay)),
            FaultKind::Reset
            | FaultKind::Truncated
            | FaultKind::Malformed
            | FaultKind::IncarnationRestart
            | FaultKind::EventsVanish
            | FaultKind::UnknownType => kind.to_owned(),
        }];
        words.extend(self.method.map(|method| format!("{} only", method.as_str())));
        words.extend(self.documents_only.then(|| "documents only".to_owned()));
        words.extend(self.percent.map(|percent| format!("{percent}% of requests")));
        words.join(", ")
    }

    /// The remaining requests and time: `2 requests left, until 12:00`. `until` is the end as the caller writes times.
    pub fn describe_remaining(&self, until: Option<String>) -> String {
        let left = self.count.map(|count| count_of(count.saturating_sub(self.affected) as usize, "request"));
        let mut words: Vec<String> = left.map(|left| format!("{left} left")).into_iter().collect();
        words.extend(until.map(|until| format!("until {until}")));
        if words.is_empty() { "until cleared".to_owned() } else { words.join(", ") }
    }
}

#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize, ToSchema)]
pub struct ClearedFaults {
    pub value: Vec<Fault>,
}

/// The kind of a fault, with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// From 200 to 599; 429 and 503 have a `Retry-After` header.
    Status {
        status: u16,
        retry_after_seconds: Option<u32>,
    },
    Delay(Duration),
    SlowFirstCall(Duration),
    Reset,
    Truncated,
    Malformed,
    IncarnationRestart,
    EventsVanish,
    UnknownType,
}

impl FaultKind {
    /// The kinds without parameters.
    pub const PLAIN: [FaultKind; 6] = [
        FaultKind::Reset,
        FaultKind::Truncated,
        FaultKind::Malformed,
        FaultKind::IncarnationRestart,
        FaultKind::EventsVanish,
        FaultKind::UnknownType,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            FaultKind::Status { .. } => "Status",
            FaultKind::Delay(_) => DELAYS[0],
            FaultKind::SlowFirstCall(_) => DELAYS[1],
            FaultKind::Reset => "Reset",
            FaultKind::Truncated => "Truncated",
            FaultKind::Malformed => "Malformed",
            FaultKind::IncarnationRestart => "IncarnationRestart",
            FaultKind::EventsVanish => "EventsVanish",
            FaultKind::UnknownType => "UnknownType",
        }
    }
}

/// The kinds with a delay.
const DELAYS: [&str; 2] = ["Delay", "SlowFirstCall"];

fn plain_names() -> Vec<&'static str> {
    FaultKind::PLAIN.map(FaultKind::as_str).to_vec()
}

fn all_names() -> Vec<&'static str> {
    ["Status"].into_iter().chain(DELAYS).chain(plain_names()).collect()
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct FaultKeys {
    kind: String,
    #[serde(default)]
    status: Nullable<u16>,
    #[serde(default)]
    retry_after_seconds: Nullable<u32>,
    #[serde(default)]
    delay_seconds: Nullable<f64>,
}

/// The fields are read first, because serde's errors for enums are hard to understand.
impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys: FaultKeys = object::required(deserializer)?;
        keys.into_kind().map_err(D::Error::custom)
    }
}

impl FaultKeys {
    fn into_kind(self) -> Result<FaultKind, String> {
        use Nullable::{Absent, Value};
        let FaultKeys { kind, status, retry_after_seconds, delay_seconds } = self;
        let plain = FaultKind::PLAIN.into_iter().find(|plain| plain.as_str() == kind);
        match (kind.as_str(), plain, status, retry_after_seconds, delay_seconds) {
            ("Status", _, Value(status), retry, Absent) => {
                Ok(FaultKind::Status { status, retry_after_seconds: retry_after(status, retry)? })
            }
            ("Delay", _, Absent, Absent, Value(secs)) => Ok(FaultKind::Delay(delay_of(secs)?)),
            ("SlowFirstCall", _, Absent, Absent, Value(secs)) => Ok(FaultKind::SlowFirstCall(delay_of(secs)?)),
            (_, Some(plain), Absent, Absent, Absent) => Ok(plain),
            (kind, ..) => Err(usage_error(kind)),
        }
    }
}

fn retry_after(status: u16, given: Nullable<u32>) -> Result<Option<u32>, String> {
    if !FAULT_STATUSES.contains(&status) {
        return Err(format!("'status' must be from 200 to 599, not {status}"));
    }
    match given {
        Nullable::Absent => Ok(None),
        Nullable::Null => Err("'retryAfterSeconds' must be a number; omit it for the default".into()),
        Nullable::Value(secs) if WITH_RETRY_AFTER.contains(&status) => Ok(Some(secs)),
        Nullable::Value(_) => {
            Err(format!("'retryAfterSeconds' is only valid with status 429 and 503, not with {status}"))
        }
    }
}

fn usage_error(kind: &str) -> String {
    match kind {
        "Status" => {
            "the kind Status requires 'status', and with 429 and 503 accepts 'retryAfterSeconds'; remove other keys"
                .to_owned()
        }
        kind if DELAYS.contains(&kind) => format!("the kind {kind} requires 'delaySeconds'; remove other keys"),
        kind if plain_names().contains(&kind) => format!("the kind {kind} has no parameters; remove other keys"),
        kind => describe_unknown("kind", kind, &all_names()),
    }
}

fn delay_of(secs: f64) -> Result<Duration, String> {
    let delay = Duration::try_from_secs_f64(secs).ok().filter(|delay| *delay <= FAULT_DELAY_MAX);
    delay.ok_or_else(|| format!("'delaySeconds' must be from 0 to {}", FAULT_DELAY_MAX.as_secs()))
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.as_str())?;
        match self {
            FaultKind::Status { status, retry_after_seconds } => {
                map.serialize_entry("status", status)?;
                if let Some(secs) = retry_after_seconds {
                    map.serialize_entry("retryAfterSeconds", secs)?;
                }
            }
            FaultKind::Delay(delay) | FaultKind::SlowFirstCall(delay) => {
                map.serialize_entry("delaySeconds", &delay.as_secs_f64())?
            }
            FaultKind::Reset
            | FaultKind::Truncated
            | FaultKind::Malformed
            | FaultKind::IncarnationRestart
            | FaultKind::EventsVanish
            | FaultKind::UnknownType => {}
        }
        map.end()
    }
}

impl PartialSchema for FaultKind {
    fn schema() -> RefOr<Schema> {
        let of_kind = |names: &[&str]| {
            let name = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(names.iter().copied()));
            ObjectBuilder::new()
                .property("kind", name)
                .required("kind")
                .additional_properties(Some(AdditionalProperties::FreeForm(false)))
        };
        let of_status = |status: ObjectBuilder| of_kind(&["Status"]).property("status", status).required("status");
        let integer = || ObjectBuilder::new().schema_type(Type::Integer);
        let any_status = integer().minimum(Some(*FAULT_STATUSES.start())).maximum(Some(*FAULT_STATUSES.end()));
        let temporary = of_status(integer().enum_values(Some(WITH_RETRY_AFTER)));
        let retry = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(FAULT_RETRY_AFTER_SECS_MAX))
            .description(Some("Default: 1."));
        let delay = ObjectBuilder::new()
            .schema_type(Type::Number)
            .minimum(Some(0))
            .maximum(Some(FAULT_DELAY_MAX.as_secs() as u32));
        OneOfBuilder::new()
            .item(temporary.property("retryAfterSeconds", retry).required("retryAfterSeconds"))
            .item(of_status(any_status))
            .item(of_kind(&DELAYS).property("delaySeconds", delay).required("delaySeconds"))
            .item(of_kind(&plain_names()))
            .into()
    }
}

impl ToSchema for FaultKind {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn error(value: Value) -> String {
        from_value::<FaultKind>(value).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_round_trips() {
        let example = |name: &str| match name {
            "Status" => json!({"kind": name, "status": 503, "retryAfterSeconds": 9}),
            _ if DELAYS.contains(&name) => json!({"kind": name, "delaySeconds": 0.25}),
            _ => json!({ "kind": name }),
        };
        for name in all_names() {
            let kind: FaultKind = from_value(example(name)).unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), example(name));
        }
    }

    #[test]
    fn a_status_without_retry_after_omits_it() {
        for status in [410, 404, 502, 599] {
            let kind = json!({"kind": "Status", "status": status});
            assert_eq!(serde_json::to_value(from_value::<FaultKind>(kind.clone()).unwrap()).unwrap(), kind);
        }
    }

    #[test]
    fn errors_name_the_problem() {
        assert!(error(json!({"kind": "Truncate"})).contains("Did you mean 'Truncated'"));
        assert!(error(json!({"kind": "reset"})).contains("Did you mean 'Reset'"));
        assert!(error(json!({"kind": "Status"})).contains("'status'"));
        assert!(error(json!({"kind": "Status", "status": 100})).contains("from 200 to 599"));
        let retry = error(json!({"kind": "Status", "status": 500, "retryAfterSeconds": 2}));
        assert!(retry.contains("only valid with status 429 and 503"), "{retry}");
        assert!(error(json!({"kind": "Delay", "delaySeconds": 301})).contains("300"));
        assert!(error(json!({"kind": "Delay", "delaySeconds": -1})).contains("from 0"));
        assert!(error(json!({"kind": "Reset", "status": 500})).contains("no parameters"));
        assert!(error(json!({"kind": "Reset", "status": null})).contains("no parameters"));
    }
}
