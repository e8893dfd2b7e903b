//! Built-in scenarios and scenario runs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{ResourceName, RunStatus, RunStepStatus, Time};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScenarioSummary {
    pub name: String,
    pub title: String,
    pub about: String,
    /// Machine of the handler under test.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScenarioFile {
    #[serde(flatten)]
    pub summary: ScenarioSummary,
    /// The file, in TOML.
    pub text: String,
}

/// A run of a built-in `scenario` or of a file in `text`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewRun {
    /// Name of a built-in scenario.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scenario: Option<String>,
    /// Contents of a scenario file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Name of the run of a `text`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<ResourceName>,
    /// Machine to use as the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<ResourceName>,
    /// Whether to wait for a real handler on the subject. Default: false, the run simulates the handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub handler: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Run {
    pub id: u64,
    pub name: String,
    pub title: String,
    pub state: RunStatus,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    pub started: Time,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended: Option<Time>,
    pub steps: Vec<RunStep>,
}

/// The steps that a run would take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunPreview {
    pub name: String,
    pub title: String,
    pub steps: Vec<PreviewStep>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct PreviewStep {
    pub text: String,
    /// Line in the file.
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RunStep {
    pub text: String,
    /// Line in the file.
    pub line: usize,
    pub state: RunStepStatus,
    /// Start time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Why it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}
