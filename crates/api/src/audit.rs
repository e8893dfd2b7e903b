//! Entries of the audit trail, before the caller and the time are known.

use forewarn_engine::Asked;
use serde_json::{Value, json};

/// Action, target and details of an audited command.
pub struct AuditNote {
    action: &'static str,
    target: String,
    detail: Value,
}

impl AuditNote {
    pub fn new(action: &'static str, target: impl Into<String>) -> AuditNote {
        AuditNote { action, target: target.into(), detail: json!({}) }
    }

    pub fn with(mut self, detail: Value) -> AuditNote {
        self.detail = detail;
        self
    }

    /// The entry with its actor.
    pub fn by(self, actor: String) -> Asked {
        Asked { actor, action: self.action.into(), target: self.target, detail: self.detail.to_string() }
    }
}
