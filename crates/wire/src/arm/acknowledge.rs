//! The bodies of refused approvals, as recorded from Azure: their keys are capitalized, unlike those of other ARM errors.

use serde_json::{Value, json};

/// The reason why one event of a list was not approved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusedApproval {
    pub code: &'static str,
    pub message: String,
}

/// The body for one event that does not exist, with status 404.
pub fn event_not_found() -> Value {
    json!({ "Error": { "Code": "InvalidScheduledEventId", "Message": "Scheduled event not found" } })
}

/// The body for a list of which at least one event was refused, with status 207.
pub fn multi_status(message: &str, refused: &[RefusedApproval]) -> Value {
    let details: Vec<Value> =
        refused.iter().map(|refusal| json!({ "Code": refusal.code, "Message": refusal.message })).collect();
    json!({ "Response": { "Code": "MultiStatusResponse", "Message": message }, "Details": details })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_approvals_have_the_shape_recorded_from_azure() {
        let expected = r#"{"Error":{"Code":"InvalidScheduledEventId","Message":"Scheduled event not found"}}"#;
        assert_eq!(event_not_found(), serde_json::from_str::<Value>(expected).unwrap());
        let refused = [RefusedApproval { code: "NotFound", message: "m".into() }];
        let expected = json!({
            "Response": { "Code": "MultiStatusResponse", "Message": "1 of 2" },
            "Details": [{ "Code": "NotFound", "Message": "m" }],
        });
        assert_eq!(multi_status("1 of 2", &refused), expected);
    }
}
