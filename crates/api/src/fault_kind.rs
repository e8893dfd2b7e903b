//! The kinds of faults in the API's JSON: `{"kind": "Status", "status": 429}`.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::object;
use super::values::Nullable;
use forewarn_api_types::nearest::unknown;
use forewarn_metadata::faults::{DELAY_MAX, Kind, Parameters, RETRY_AFTER_SECS_MAX, Status};

#[derive(Clone, Copy, Debug)]
pub struct FaultKind(pub Kind);

/// Default of the `Retry-After` header.
const RETRY_AFTER_SECS_DEFAULT: u32 = 1;

/// The kinds with a delay.
const DELAYS: [&str; 2] = ["Delay", "SlowFirstCall"];

/// The kinds without parameters.
fn plain_names() -> Vec<&'static str> {
    Kind::PLAIN.map(Kind::word).to_vec()
}

fn all_names() -> Vec<&'static str> {
    ["Status"].into_iter().chain(DELAYS).chain(plain_names()).collect()
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Keys {
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
        let keys: Keys = object::required(deserializer)?;
        keys.into_kind().map(FaultKind).map_err(D::Error::custom)
    }
}

impl Keys {
    fn into_kind(self) -> Result<Kind, String> {
        use Nullable::{Absent, Value};
        let Keys { kind, status, retry_after_seconds, delay_seconds } = self;
        let plain = Kind::PLAIN.into_iter().find(|plain| plain.word() == kind);
        match (kind.as_str(), plain, status, retry_after_seconds, delay_seconds) {
            ("Status", _, Value(code), retry, Absent) => {
                let status = status_of(code)?;
                Ok(Kind::Status { status, retry_after_secs: retry_after(status, retry)? })
            }
            ("Delay", _, Absent, Absent, Value(secs)) => Ok(Kind::Delay(delay_of(secs)?)),
            ("SlowFirstCall", _, Absent, Absent, Value(secs)) => Ok(Kind::SlowFirstCall(delay_of(secs)?)),
            (_, Some(plain), Absent, Absent, Absent) => Ok(plain),
            (kind, ..) => Err(usage_error(kind)),
        }
    }
}

fn retry_after(status: Status, given: Nullable<u32>) -> Result<u32, String> {
    match given {
        Nullable::Absent => Ok(RETRY_AFTER_SECS_DEFAULT),
        Nullable::Null => Err("'retryAfterSeconds' must be a number; omit it for the default".into()),
        Nullable::Value(secs) if status.has_retry_after() => Ok(secs),
        Nullable::Value(_) => {
            let code = status.code();
            Err(format!("'retryAfterSeconds' is only valid with status 429 and 503, not with {code}"))
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
        kind => unknown("kind", kind, &all_names()),
    }
}

fn status_of(code: u16) -> Result<Status, String> {
    let found = Status::ALL.into_iter().find(|status| status.code() == code);
    found.ok_or_else(|| format!("'status' must be 429, 410, 500 or 503, not {code}"))
}

fn delay_of(secs: f64) -> Result<Duration, String> {
    let delay = Duration::try_from_secs_f64(secs).ok().filter(|delay| *delay <= DELAY_MAX);
    delay.ok_or_else(|| format!("'delaySeconds' must be from 0 to {}", DELAY_MAX.as_secs()))
}

impl Serialize for FaultKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("kind", self.0.word())?;
        match self.0.parameters() {
            Parameters::Status { status, retry_after_secs } => {
                map.serialize_entry("status", &status.code())?;
                if let Some(secs) = retry_after_secs {
                    map.serialize_entry("retryAfterSeconds", &secs)?;
                }
            }
            Parameters::Delay(delay) => map.serialize_entry("delaySeconds", &delay.as_secs_f64())?,
            Parameters::Nothing => {}
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
        let of_status = |retry_after: bool| {
            let codes = Status::ALL.into_iter().filter(|status| status.has_retry_after() == retry_after);
            let status = ObjectBuilder::new().schema_type(Type::Integer).enum_values(Some(codes.map(Status::code)));
            of_kind(&["Status"]).property("status", status).required("status")
        };
        let retry = ObjectBuilder::new()
            .schema_type(Type::Integer)
            .minimum(Some(0))
            .maximum(Some(RETRY_AFTER_SECS_MAX))
            .description(Some("Default: 1."));
        let delay =
            ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(DELAY_MAX.as_secs() as u32));
        OneOfBuilder::new()
            .item(of_status(true).property("retryAfterSeconds", retry))
            .item(of_status(false))
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
        let gone = json!({"kind": "Status", "status": 410});
        assert_eq!(serde_json::to_value(from_value::<FaultKind>(gone.clone()).unwrap()).unwrap(), gone);
    }

    #[test]
    fn errors_name_the_problem() {
        assert!(error(json!({"kind": "Truncate"})).contains("Did you mean 'Truncated'"));
        assert!(error(json!({"kind": "reset"})).contains("Did you mean 'Reset'"));
        assert!(error(json!({"kind": "Status"})).contains("'status'"));
        assert!(error(json!({"kind": "Status", "status": 404})).contains("429, 410, 500 or 503"));
        let retry = error(json!({"kind": "Status", "status": 500, "retryAfterSeconds": 2}));
        assert!(retry.contains("only valid with status 429 and 503"), "{retry}");
        assert!(error(json!({"kind": "Delay", "delaySeconds": 301})).contains("300"));
        assert!(error(json!({"kind": "Delay", "delaySeconds": -1})).contains("from 0"));
        assert!(error(json!({"kind": "Reset", "status": 500})).contains("no parameters"));
        assert!(error(json!({"kind": "Reset", "status": null})).contains("no parameters"));
    }
}
