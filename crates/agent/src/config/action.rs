//! The `[[action]]` tables of the configuration file. Exactly one key selects the kind of action.

use forewarn_client::EventKind;
use serde::de::{self, Deserializer};
use serde::{Deserialize, de::Error};

use crate::action::{Action, ActionSpec, Haproxy, Journal, Kubernetes, Nginx, Systemd, Webhook};
use crate::policy::{FailurePolicy, KNOWN_KINDS};
use crate::record::Phase;

/// Limit on actions. Larger setups should use a hook.
const ACTIONS_MAX: usize = 32;

const ACTION_NAMES: &str = "`journal`, `webhook`, `nginx`, `haproxy`, `systemd`, `kubernetes`";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ActionTable {
    name: Option<String>,
    #[serde(default)]
    types: Vec<KnownKind>,
    on_failure: Option<FailurePolicy>,
    on_late: Option<FailurePolicy>,
    journal: Option<Journal>,
    webhook: Option<Webhook>,
    nginx: Option<Nginx>,
    haproxy: Option<Haproxy>,
    systemd: Option<Systemd>,
    kubernetes: Option<Kubernetes>,
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Action, D::Error> {
        ActionTable::deserialize(deserializer)?.into_action().map_err(Error::custom)
    }
}

impl ActionTable {
    fn into_action(self) -> Result<Action, String> {
        let specs = [
            self.journal.map(|spec| ("journal", ActionSpec::Journal(spec))),
            self.webhook.map(|spec| ("webhook", ActionSpec::Webhook(spec))),
            self.nginx.map(|spec| ("nginx", ActionSpec::Nginx(spec))),
            self.haproxy.map(|spec| ("haproxy", ActionSpec::Haproxy(spec))),
            self.systemd.map(|spec| ("systemd", ActionSpec::Systemd(spec))),
            self.kubernetes.map(|spec| ("kubernetes", ActionSpec::Kubernetes(spec))),
        ];
        let mut specs = specs.into_iter().flatten();
        let (Some((key, spec)), None) = (specs.next(), specs.next()) else {
            return Err(format!("an action must have exactly one of {ACTION_NAMES}"));
        };
        let name = self.name.unwrap_or_else(|| key.to_owned());
        check_name(&name)?;
        let kinds = self.types.into_iter().map(|KnownKind(kind)| kind).collect();
        Ok(Action { name, kinds, on_failure: self.on_failure, on_late: self.on_late, spec })
    }
}

/// Checks the name of an action. Its steps are named `name.phase` and must not be mistaken for hooks.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(format!("invalid action name '{name}': use letters, digits, '-' and '_'"));
    }
    let is_taken =
        KNOWN_KINDS.iter().any(|kind| kind.as_str().eq_ignore_ascii_case(name)) || Phase::parse(name).is_some();
    if is_taken { Err(format!("invalid action name '{name}': reserved for hooks")) } else { Ok(()) }
}

pub fn deserialize_actions<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Action>, D::Error> {
    let actions = Vec::<Action>::deserialize(deserializer)?;
    if actions.len() > ACTIONS_MAX {
        return Err(D::Error::custom(format!("more than {ACTIONS_MAX} actions; use a hook instead")));
    }
    for (index, action) in actions.iter().enumerate() {
        if actions[..index].iter().any(|before| before.name == action.name) {
            return Err(D::Error::custom(format!(
                "two actions are named '{}'; set `name` of one of them",
                action.name
            )));
        }
    }
    Ok(actions)
}

struct KnownKind(EventKind);

impl<'de> Deserialize<'de> for KnownKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KnownKind, D::Error> {
        crate::policy::parse_known_kind(&String::deserialize(deserializer)?).map(KnownKind).map_err(de::Error::custom)
    }
}
