//! What goes wrong, as the API writes and reads it: `{"kind": "Status", "status": 429}`.

use std::time::Duration;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, SerializeMap, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AdditionalProperties, ObjectBuilder, OneOfBuilder, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::object;
use super::values::Patch;
use forewarn_api_types::nearest::unknown;
use forewarn_metadata::faults::{DELAY_MAX, Kind, Parameters, RETRY_AFTER_SECS_MAX, Status};

#[derive(Clone, Copy, Debug)]
pub struct FaultKind(pub Kind);

/// What `Retry-After` says when nobody says otherwise.
const RETRY_AFTER_SECS_DEFAULT: u32 = 1;

const DELAYS: [&str; 2] = ["Delay", "SlowFirstCall"];
fn plain_words() -> Vec<&'static str> {
    Kind::PLAIN.map(Kind::word).to_vec()
}

fn all_words() -> Vec<&'static str> {
    ["Status"].into_iter().chain(DELAYS).chain(plain_words()).collect()
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Keys {
    kind: String,
    #[serde(default)]
    status: Patch<u16>,
    #[serde(default)]
    retry_after_seconds: Patch<u32>,
    #[serde(default)]
    delay_seconds: Patch<f64>,
}

/// An object is read first, because what serde says of a wrong variant helps nobody.
impl<'de> Deserialize<'de> for FaultKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let keys: Keys = object::one(deserializer)?;
        keys.meant().map(FaultKind).map_err(D::Error::custom)
    }
}

impl Keys {
    fn meant(self) -> Result<Kind, String> {
        use Patch::{Absent, Value};
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
            (kind, ..) => Err(complaint(kind)),
        }
    }
}

fn retry_after(status: Status, given: Patch<u32>) -> Result<u32, String> {
    match given {
        Patch::Absent => Ok(RETRY_AFTER_SECS_DEFAULT),
        Patch::Null => Err("'retryAfterSeconds' is a number; leave it out otherwise".into()),
        Patch::Value(secs) if status.has_retry_after() => Ok(secs),
        Patch::Value(_) => {
            let code = status.code();
            Err(format!("'retryAfterSeconds' goes with 429 and 503; a {code} says nothing of when to come back"))
        }
    }
}

fn complaint(kind: &str) -> String {
    match kind {
        "Status" => "a Status has 'status', with 429 and 503 may have 'retryAfterSeconds', and nothing else".to_owned(),
        kind if DELAYS.contains(&kind) => format!("a {kind} has 'delaySeconds', and nothing else"),
        kind if plain_words().contains(&kind) => format!("{kind} has nothing but its 'kind'"),
        kind => unknown("kind", kind, &all_words()),
    }
}

fn status_of(code: u16) -> Result<Status, String> {
    let found = Status::ALL.into_iter().find(|status| status.code() == code);
    found.ok_or_else(|| format!("'status' is 429, 410, 500 or 503, not {code}"))
}

fn delay_of(secs: f64) -> Result<Duration, String> {
    let delay = Duration::try_from_secs_f64(secs).ok().filter(|delay| *delay <= DELAY_MAX);
    delay.ok_or_else(|| format!("'delaySeconds' is from 0 to {}", DELAY_MAX.as_secs()))
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
        let of_kind = |words: &[&str]| {
            let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()));
            ObjectBuilder::new()
                .property("kind", word)
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
            .description(Some("1 when left out."));
        let delay =
            ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).maximum(Some(DELAY_MAX.as_secs() as u32));
        OneOfBuilder::new()
            .item(of_status(true).property("retryAfterSeconds", retry))
            .item(of_status(false))
            .item(of_kind(&DELAYS).property("delaySeconds", delay).required("delaySeconds"))
            .item(of_kind(&plain_words()))
            .into()
    }
}

impl ToSchema for FaultKind {}

#[cfg(test)]
mod tests {
    use serde_json::{Value, from_value, json};

    use super::*;

    fn complaint(value: Value) -> String {
        from_value::<FaultKind>(value).unwrap_err().to_string()
    }

    #[test]
    fn every_kind_is_read_and_written_as_the_same() {
        let of = |word: &str| match word {
            "Status" => json!({"kind": word, "status": 503, "retryAfterSeconds": 9}),
            _ if DELAYS.contains(&word) => json!({"kind": word, "delaySeconds": 0.25}),
            _ => json!({ "kind": word }),
        };
        for word in all_words() {
            let kind: FaultKind = from_value(of(word)).unwrap();
            assert_eq!(serde_json::to_value(kind).unwrap(), of(word));
        }
    }

    #[test]
    fn a_status_that_says_nothing_of_coming_back_has_no_time_for_it() {
        let gone = json!({"kind": "Status", "status": 410});
        assert_eq!(serde_json::to_value(from_value::<FaultKind>(gone.clone()).unwrap()).unwrap(), gone);
    }

    #[test]
    fn what_is_wrong_is_named() {
        assert!(complaint(json!({"kind": "Truncate"})).contains("Did you mean 'Truncated'"));
        assert!(complaint(json!({"kind": "reset"})).contains("Did you mean 'Reset'"));
        assert!(complaint(json!({"kind": "Status"})).contains("'status'"));
        assert!(complaint(json!({"kind": "Status", "status": 404})).contains("429, 410, 500 or 503"));
        let retry = complaint(json!({"kind": "Status", "status": 500, "retryAfterSeconds": 2}));
        assert!(retry.contains("goes with 429 and 503"), "{retry}");
        assert!(complaint(json!({"kind": "Delay", "delaySeconds": 301})).contains("300"));
        assert!(complaint(json!({"kind": "Delay", "delaySeconds": -1})).contains("from 0"));
        assert!(complaint(json!({"kind": "Reset", "status": 500})).contains("nothing but"));
        assert!(complaint(json!({"kind": "Reset", "status": null})).contains("nothing but"));
    }
}
