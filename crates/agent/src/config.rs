//! The configuration: a TOML file, and flags that win over it.

mod action;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use forewarn_client::Endpoint;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize, Serializer, de::value::MapAccessDeserializer};

use crate::action::Action;
use crate::args::Flags;
use crate::policy::{KindPolicy, OnTrouble, Policies, Policy};

/// Read when there is one and `--config` says nothing else.
pub const CONFIG: &str = "/etc/forewarn-agent/agent.toml";
const HOOKS: &str = "/etc/forewarn-agent/hooks";
const STATE: &str = "/var/lib/forewarn-agent";

/// What the service recommends.
const INTERVAL: Duration = Duration::from_secs(1);
/// A Preempt of 30 s leaves 20 s for its hooks.
const MARGIN: Duration = Duration::from_secs(10);
/// Slow services took up to 5 s; whoever waits longer for one answer misses others.
const TIMEOUT: Duration = Duration::from_secs(10);
/// `started` and `restore` have no `NotBefore` to keep, but must not hang for ever.
const LIMIT: Duration = Duration::from_secs(300);
const LEADER_SHARE_PERCENT: u32 = 25;

/// More often than this the service is only annoyed.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// Below this a healthy service looks slow.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Everything settled.
#[derive(Debug, Clone)]
pub struct Config {
    /// `None`: it is looked for.
    pub endpoint: Option<Endpoint>,
    /// Whether it may be looked for by DHCP, where nothing else helped.
    pub ask_dhcp: bool,
    /// `None`: the service knows.
    pub name: Option<String>,
    /// `None`: nobody named a directory, and the usual one is not there.
    pub hooks: Option<PathBuf>,
    pub actions: Vec<Action>,
    /// `None`: no metrics.
    pub metrics: Option<SocketAddr>,
    pub state: PathBuf,
    pub interval: Duration,
    /// Whether a service that can may hold requests until something changes.
    pub wait: bool,
    /// For an answer of the service, after the first.
    pub timeout: Duration,
    pub margin: Duration,
    pub limit: Duration,
    pub rerun_interrupted: bool,
    pub on_failure: OnTrouble,
    pub on_late: OnTrouble,
    pub leader_share_percent: u32,
    pub policies: Policies,
}

impl Config {
    pub fn load(flags: &Flags) -> Result<Config> {
        let file = match &flags.config {
            Some(path) => read(path)?,
            None if Path::new(CONFIG).exists() => read(Path::new(CONFIG))?,
            None => File::default(),
        };
        let endpoint = match (&flags.endpoint, file.endpoint) {
            (Some(url), _) => Some(url.parse().with_context(|| format!("--endpoint {url}"))?),
            (None, url) => url.map(|Url(endpoint)| endpoint),
        };
        let interval = flags.interval.or(file.interval.map(|span| span.0)).unwrap_or(INTERVAL);
        if interval < INTERVAL_MIN {
            bail!("the interval must be at least {} ms", INTERVAL_MIN.as_millis());
        }
        if file.timeout.is_some_and(|span| span.0 < TIMEOUT_MIN) {
            bail!("the timeout must be at least {} ms", TIMEOUT_MIN.as_millis());
        }
        Ok(Config {
            endpoint,
            ask_dhcp: flags.ask_dhcp || file.ask_dhcp,
            name: flags.name.clone().or(file.name),
            hooks: flags.hooks.clone().or(file.hooks).or_else(usual_hooks),
            actions: file.action,
            metrics: flags.metrics.or(file.metrics.map(|address| address.0)),
            state: flags.state.clone().or(file.state).unwrap_or_else(|| STATE.into()),
            interval,
            wait: file.wait.unwrap_or(true) && !flags.no_wait,
            timeout: file.timeout.map_or(TIMEOUT, |span| span.0),
            margin: file.margin.map_or(MARGIN, |span| span.0),
            limit: file.limit.map_or(LIMIT, |span| span.0),
            rerun_interrupted: file.rerun_interrupted,
            on_failure: file.on_failure,
            on_late: file.on_late,
            leader_share_percent: file.leader_share_percent.map_or(LEADER_SHARE_PERCENT, |share| share.0),
            policies: file.approve.into(),
        })
    }
}

fn usual_hooks() -> Option<PathBuf> {
    Some(PathBuf::from(HOOKS)).filter(|dir| dir.exists())
}

pub fn parse_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is not an address such as 127.0.0.1:9137"))
}

/// `1s`, `500ms`, `2m`.
pub fn parse_span(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    match &text[digits..] {
        "ms" => Some(Duration::from_millis(number)),
        "s" => Some(Duration::from_secs(number)),
        "m" => number.checked_mul(60).map(Duration::from_secs),
        "h" => number.checked_mul(3600).map(Duration::from_secs),
        _ => None,
    }
}

fn read(path: &Path) -> Result<File> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?;
    parse(&text).map_err(|(line, message)| anyhow!("{}:{line}: {message}", path.display()))
}

/// The error is the line and what is wrong there.
fn parse(text: &str) -> Result<File, (usize, String)> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes()[..start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        (line, error.message().to_owned())
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct File {
    endpoint: Option<Url>,
    name: Option<String>,
    hooks: Option<PathBuf>,
    state: Option<PathBuf>,
    interval: Option<Span>,
    wait: Option<bool>,
    margin: Option<Span>,
    limit: Option<Span>,
    rerun_interrupted: bool,
    on_failure: OnTrouble,
    on_late: OnTrouble,
    leader_share_percent: Option<Share>,
    ask_dhcp: bool,
    approve: Approve,
    timeout: Option<Span>,
    metrics: Option<Address>,
    #[serde(deserialize_with = "action::all")]
    action: Vec<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Approve {
    default: Policy,
    platform: Option<Policy>,
    user: Option<Policy>,
    freeze: ByKind,
    reboot: ByKind,
    redeploy: ByKind,
    preempt: ByKind,
    #[serde(deserialize_with = "without_leader")]
    terminate: ByKind,
}

impl From<Approve> for Policies {
    fn from(from: Approve) -> Policies {
        let kinds = [
            ("freeze", from.freeze),
            ("reboot", from.reboot),
            ("redeploy", from.redeploy),
            ("preempt", from.preempt),
            ("terminate", from.terminate),
        ];
        let kinds: BTreeMap<_, _> = kinds.into_iter().map(|(name, ByKind(policy))| (name, policy)).collect();
        Policies { default: from.default, platform: from.platform, user: from.user, kinds }
    }
}

/// One policy for a type, or one for each source.
#[derive(Debug, Default, Clone, Copy)]
struct ByKind(KindPolicy);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BySource {
    platform: Option<Policy>,
    user: Option<Policy>,
}

impl<'de> Deserialize<'de> for ByKind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByKind, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = ByKind;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a policy, or a table with a policy for `platform`, `user` or both")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ByKind, E> {
                let any = Some(Policy::deserialize(text.into_deserializer())?);
                Ok(ByKind(KindPolicy { any, ..KindPolicy::default() }))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ByKind, A::Error> {
                let BySource { platform, user } = BySource::deserialize(MapAccessDeserializer::new(map))?;
                Ok(ByKind(KindPolicy { any: None, platform, user }))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

fn without_leader<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByKind, D::Error> {
    let ByKind(policy) = ByKind::deserialize(deserializer)?;
    if [policy.any, policy.platform, policy.user].contains(&Some(Policy::Leader)) {
        return Err(de::Error::custom(
            "`leader` is not for `terminate`, which each machine approves for itself; \
             expected one of `after-hooks`, `at-once`, `never`",
        ));
    }
    Ok(ByKind(policy))
}

/// A span of time as it is written: `10s`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span(pub Duration);

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Span, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = || de::Error::custom(format!("'{text}' is not a time such as `500ms`, `10s`, `5m`"));
        parse_span(&text).map(Span).ok_or_else(wrong)
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{}ms", self.0.as_millis()))
    }
}

/// Values that are written as text, or within bounds.
macro_rules! checked {
    ($name:ident, $inner:ty, $raw:ty, $read:expr) => {
        #[derive(Debug)]
        struct $name($inner);

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                let read: fn($raw) -> Result<$inner, String> = $read;
                read(<$raw>::deserialize(deserializer)?).map($name).map_err(de::Error::custom)
            }
        }
    };
}

checked!(Address, SocketAddr, String, |text| parse_address(&text));
checked!(Url, Endpoint, String, |text| text.parse().map_err(|error| format!("'{text}': {error}")));
checked!(Share, u32, u32, |percent| match percent {
    1..=100 => Ok(percent),
    _ => Err(format!("{percent} is not a share from 1 to 100")),
});

#[cfg(test)]
mod tests;
