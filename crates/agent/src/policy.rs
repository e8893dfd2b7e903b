//! Approval policies per event type and source, and the effect of failed steps on approvals. Pure.

use std::collections::BTreeMap;

use forewarn_client::{Event, EventKind, EventSource};
use serde::Deserialize;

/// When this machine approves an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// When all `prepare` steps have succeeded.
    #[default]
    AfterHooks,
    /// As soon as the event is seen; steps run in the meantime.
    AtOnce,
    /// Never: the event starts at `NotBefore`, or when another machine approves it.
    Never,
    /// Like `AfterHooks`, but only in this machine's turn among the machines of the event.
    Leader,
}

/// Effect of a step that failed or exceeded its time limit on the approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailurePolicy {
    /// Do not approve.
    #[default]
    Hold,
    Approve,
}

/// Event types that are valid in the configuration and in hook names.
pub static KNOWN_KINDS: [EventKind; 5] =
    [EventKind::Freeze, EventKind::Reboot, EventKind::Redeploy, EventKind::Preempt, EventKind::Terminate];

/// Parses one of [`KNOWN_KINDS`], in upper or lower case.
pub fn parse_known_kind(text: &str) -> Result<EventKind, String> {
    match EventKind::parse(text) {
        EventKind::Other(_) => {
            Err(format!("unknown event type '{text}': use Freeze, Reboot, Redeploy, Preempt or Terminate"))
        }
        kind => Ok(kind),
    }
}

/// Configured policies. The most specific one applies: type and source, type, source, default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    pub default: Policy,
    pub platform: Option<Policy>,
    pub user: Option<Policy>,
    /// By event type, in lower case.
    pub kinds: BTreeMap<&'static str, KindPolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindPolicy {
    pub any: Option<Policy>,
    pub platform: Option<Policy>,
    pub user: Option<Policy>,
}

impl Policies {
    /// Whether any event can be approved.
    pub fn can_approve(&self) -> bool {
        let kinds = self.kinds.values().flat_map(|kind| [kind.any, kind.platform, kind.user]);
        let mut all = [Some(self.default), self.platform, self.user].into_iter().chain(kinds).flatten();
        all.any(|policy| policy != Policy::Never)
    }

    pub fn policy_for(&self, event: &Event) -> Policy {
        let kind = self.kinds.get(event.kind.as_str().to_ascii_lowercase().as_str()).copied().unwrap_or_default();
        let pick = |platform: Option<Policy>, user: Option<Policy>| match event.source {
            Some(EventSource::Platform) => platform,
            Some(EventSource::User) => user,
            Some(EventSource::Other(_)) | None => None,
        };
        let chosen = pick(kind.platform, kind.user)
            .or(kind.any)
            .or_else(|| pick(self.platform, self.user))
            .unwrap_or(self.default);
        match (chosen, &event.kind) {
            // Each machine approves its own deletion.
            (Policy::Leader, EventKind::Terminate) => Policy::AfterHooks,
            (chosen, _) => chosen,
        }
    }
}
