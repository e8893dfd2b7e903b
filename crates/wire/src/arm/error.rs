//! The bodies of errors and of long-running operations: `{"error":{"code","message","target"?,"details"?}}` and
//! `{"id","name","status","startTime","endTime"?,"error"?}`.
//!
//! Codes and statuses are chosen elsewhere. Times are passed in as text.

use serde_json::{Map, Value};

use super::id::IdError;

/// An error, readable by programs and people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArmError {
    /// The error code, one word.
    pub code: String,
    /// The message, a sentence.
    pub message: String,
    /// The field, parameter or resource that caused the error.
    pub target: Option<String>,
    /// Individual errors, each with its own code.
    pub details: Vec<ArmError>,
}

impl ArmError {
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> ArmError {
        ArmError { code: code.into(), message: message.into(), target: None, details: Vec::new() }
    }

    pub fn about(self, target: impl Into<String>) -> ArmError {
        ArmError { target: Some(target.into()), ..self }
    }

    pub fn with_details(self, details: Vec<ArmError>) -> ArmError {
        ArmError { details, ..self }
    }

    /// The complete body.
    pub fn body(&self) -> Value {
        object([("error", Some(self.value()))])
    }

    /// The value of `error` in the body.
    pub fn value(&self) -> Value {
        let details: Vec<Value> = self.details.iter().map(ArmError::value).collect();
        object([
            ("code", Some(Value::from(self.code.as_str()))),
            ("message", Some(Value::from(self.message.as_str()))),
            ("target", self.target.as_deref().map(Value::from)),
            ("details", (!details.is_empty()).then_some(Value::Array(details))),
        ])
    }
}

impl From<&IdError> for ArmError {
    fn from(error: &IdError) -> ArmError {
        ArmError::new("InvalidResourceId", error.to_string())
    }
}

/// The status of a long-running operation. Clients stop polling at the last three.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationStatus {
    InProgress,
    Succeeded,
    Failed,
    Canceled,
}

impl OperationStatus {
    pub const fn as_str(self) -> &'static str {
        match self {
            OperationStatus::InProgress => "InProgress",
            OperationStatus::Succeeded => "Succeeded",
            OperationStatus::Failed => "Failed",
            OperationStatus::Canceled => "Canceled",
        }
    }
}

/// The body at the URL in `Azure-AsyncOperation`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AsyncOperation<'a> {
    /// The path of that URL.
    pub id: &'a str,
    pub name: &'a str,
    pub status: OperationStatus,
    /// RFC 3339, like the end time.
    pub start_time: &'a str,
    pub end_time: Option<&'a str>,
    pub error: Option<&'a ArmError>,
}

impl AsyncOperation<'_> {
    pub fn body(&self) -> Value {
        object([
            ("id", Some(Value::from(self.id))),
            ("name", Some(Value::from(self.name))),
            ("status", Some(Value::from(self.status.as_str()))),
            ("startTime", Some(Value::from(self.start_time))),
            ("endTime", self.end_time.map(Value::from)),
            ("error", self.error.map(ArmError::value)),
        ])
    }
}

fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn missing_members_are_omitted() {
        let error = ArmError::new("NotFound", "There is no such thing.");
        assert_eq!(error.body(), json!({"error": {"code": "NotFound", "message": "There is no such thing."}}));
        let mixed = ArmError::new("MultiStatusResponse", "Some failed.").with_details(vec![error.about("7")]);
        assert_eq!(
            mixed.body(),
            json!({"error": {"code": "MultiStatusResponse", "message": "Some failed.", "details": [
                {"code": "NotFound", "message": "There is no such thing.", "target": "7"}
            ]}})
        );
    }

    #[test]
    fn an_operation_shows_its_end_time_after_it_has_ended() {
        let error = ArmError::new("OperationCanceled", "The operation was canceled.");
        let running = AsyncOperation {
            id: "/subscriptions/S/x",
            name: "x",
            status: OperationStatus::InProgress,
            start_time: "2026-01-01T00:00:00Z",
            end_time: None,
            error: None,
        };
        let started = json!({"id": "/subscriptions/S/x", "name": "x", "status": "InProgress", "startTime": "2026-01-01T00:00:00Z"});
        assert_eq!(running.body(), started);
        let end_time = Some("2026-01-01T00:15:00Z");
        let failed = AsyncOperation { status: OperationStatus::Failed, end_time, error: Some(&error), ..running };
        assert_eq!(
            failed.body(),
            json!({"id": "/subscriptions/S/x", "name": "x", "status": "Failed", "startTime": "2026-01-01T00:00:00Z",
                "endTime": "2026-01-01T00:15:00Z",
                "error": {"code": "OperationCanceled", "message": "The operation was canceled."}})
        );
    }
}
