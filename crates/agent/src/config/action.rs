//! `[[action]]` in the file: what it does is the one key that names it.

use forewarn_client::Kind;
use serde::de::{self, Deserializer};
use serde::{Deserialize, de::Error};

use crate::action::{Action, Haproxy, Journal, Kubernetes, Nginx, Systemd, Webhook, Work};
use crate::policy::{KINDS, OnTrouble};
use crate::record::Phase;

/// More is a script, and should be a hook.
const ACTIONS_MAX: usize = 32;

const WORKS: &str = "`journal`, `webhook`, `nginx`, `haproxy`, `systemd`, `kubernetes`";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    name: Option<String>,
    #[serde(default)]
    types: Vec<KnownKind>,
    on_failure: Option<OnTrouble>,
    on_late: Option<OnTrouble>,
    journal: Option<Journal>,
    webhook: Option<Webhook>,
    nginx: Option<Nginx>,
    haproxy: Option<Haproxy>,
    systemd: Option<Systemd>,
    kubernetes: Option<Kubernetes>,
}

impl<'de> Deserialize<'de> for Action {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Action, D::Error> {
        Entry::deserialize(deserializer)?.into_action().map_err(Error::custom)
    }
}

impl Entry {
    fn into_action(self) -> Result<Action, String> {
        let works = [
            self.journal.map(|work| ("journal", Work::Journal(work))),
            self.webhook.map(|work| ("webhook", Work::Webhook(work))),
            self.nginx.map(|work| ("nginx", Work::Nginx(work))),
            self.haproxy.map(|work| ("haproxy", Work::Haproxy(work))),
            self.systemd.map(|work| ("systemd", Work::Systemd(work))),
            self.kubernetes.map(|work| ("kubernetes", Work::Kubernetes(work))),
        ];
        let mut works = works.into_iter().flatten();
        let (Some((word, work)), None) = (works.next(), works.next()) else {
            return Err(format!("an action is exactly one of {WORKS}"));
        };
        let name = self.name.unwrap_or_else(|| word.to_owned());
        check_name(&name)?;
        let kinds = self.types.into_iter().map(|KnownKind(kind)| kind).collect();
        Ok(Action { name, kinds, on_failure: self.on_failure, on_late: self.on_late, work })
    }
}

/// Its steps are called `name.phase`, and must not look like hooks.
fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || !name.chars().all(is_plain) {
        return Err(format!("'{name}' cannot be the name of an action: it has letters, digits, - and _ only"));
    }
    let is_taken = KINDS.iter().any(|kind| kind.as_str().eq_ignore_ascii_case(name)) || Phase::parse(name).is_some();
    if is_taken { Err(format!("'{name}' cannot be the name of an action: hooks are called so")) } else { Ok(()) }
}

pub fn all<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Action>, D::Error> {
    let actions = Vec::<Action>::deserialize(deserializer)?;
    if actions.len() > ACTIONS_MAX {
        return Err(D::Error::custom(format!("more than {ACTIONS_MAX} actions; write a hook instead")));
    }
    for (place, action) in actions.iter().enumerate() {
        if actions[..place].iter().any(|before| before.name == action.name) {
            return Err(D::Error::custom(format!(
                "two actions are called '{}'; give one of them another `name`",
                action.name
            )));
        }
    }
    Ok(actions)
}

struct KnownKind(Kind);

impl<'de> Deserialize<'de> for KnownKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<KnownKind, D::Error> {
        crate::policy::known_kind(&String::deserialize(deserializer)?).map(KnownKind).map_err(de::Error::custom)
    }
}
