//! When an event may start before its time, per type and source; what a failed hook means for that.
//! Pure.

use std::collections::BTreeMap;

use forewarn_client::{Event, Kind, Source};
use serde::Deserialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// This machine approves when its hooks for `prepare` have succeeded.
    #[default]
    AfterHooks,
    /// This machine approves when it sees the event; hooks run meanwhile.
    AtOnce,
    /// The event waits for its time, or for somebody else.
    Never,
    /// After the hooks, and only when it is this machine's turn among those of the event.
    Leader,
}

/// What a hook that failed, or was late, means for the approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnTrouble {
    /// No approval: the machine gets all the time there is.
    #[default]
    Hold,
    Approve,
}

/// The types that a configuration and the name of a hook can mean.
pub const KINDS: [Kind; 5] = [Kind::Freeze, Kind::Reboot, Kind::Redeploy, Kind::Preempt, Kind::Terminate];

/// One of [`KINDS`], in any case; the error lists them.
pub fn known_kind(text: &str) -> Result<Kind, String> {
    match Kind::parse(text) {
        Kind::Other(_) => {
            let names = KINDS.map(|kind| kind.as_str().to_owned()).join(", ");
            Err(format!("{text} is not a type of event; there are {names}"))
        }
        kind => Ok(kind),
    }
}

/// Policies from the general to the special: the last that fits counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policies {
    pub default: Policy,
    pub platform: Option<Policy>,
    pub user: Option<Policy>,
    /// By the name of the type in lower case.
    pub kinds: BTreeMap<&'static str, KindPolicy>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KindPolicy {
    pub any: Option<Policy>,
    pub platform: Option<Policy>,
    pub user: Option<Policy>,
}

impl Policies {
    pub fn of(&self, event: &Event) -> Policy {
        let kind = self.kinds.get(event.kind.as_str().to_ascii_lowercase().as_str()).copied().unwrap_or_default();
        let pick = |platform: Option<Policy>, user: Option<Policy>| match event.source {
            Some(Source::Platform) => platform,
            Some(Source::User) => user,
            Some(Source::Other(_)) | None => None,
        };
        let chosen = pick(kind.platform, kind.user)
            .or(kind.any)
            .or_else(|| pick(self.platform, self.user))
            .unwrap_or(self.default);
        match (chosen, &event.kind) {
            // A deletion is approved by the machine that is deleted, and by no other.
            (Policy::Leader, Kind::Terminate) => Policy::AfterHooks,
            (chosen, _) => chosen,
        }
    }
}
