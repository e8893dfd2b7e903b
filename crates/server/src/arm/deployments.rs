//! Deployments of templates.

/// What the attachments are named that hold them; the id follows.
pub const RECORD: &str = "arm/deployment";
