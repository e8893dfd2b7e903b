//! The configuration: a TOML file, overridden by command-line options.

mod action;

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use forewarn_client::Endpoint;
use serde::de::{self, Deserializer, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, de::value::MapAccessDeserializer};

use crate::action::Action;
use crate::args::Flags;
use crate::policy::{FailurePolicy, KindPolicy, Policies, Policy};
use crate::values::{Span, parse_address};

/// Default configuration file, read if it exists.
pub const CONFIG_PATH: &str = "/etc/forewarn-agent/agent.toml";
pub const HOOKS_DIR: &str = "/etc/forewarn-agent/hooks";
const STATE_DIR: &str = "/var/lib/forewarn-agent";

/// The interval that Azure recommends.
const INTERVAL: Duration = Duration::from_secs(1);
/// Leaves 20 s of the 30 s notice of a Preempt for hooks.
const MARGIN: Duration = Duration::from_secs(10);
/// Slow services have taken up to 5 s. A longer wait for one response could miss an event.
const TIMEOUT: Duration = Duration::from_secs(10);
/// `started` and `restore` need not finish before `NotBefore`, but must not hang forever.
const LIMIT: Duration = Duration::from_secs(300);
const LEADER_SHARE_PERCENT: u32 = 25;

/// Keeps the load on the service low.
const INTERVAL_MIN: Duration = Duration::from_millis(100);

/// With a shorter timeout, a healthy service would seem slow.
const TIMEOUT_MIN: Duration = Duration::from_millis(100);

/// Effective configuration.
#[derive(Debug, Clone)]
pub struct Config {
    /// Servers of one region, in order of preference. Empty to discover the endpoint.
    pub endpoints: Vec<Endpoint>,
    /// Whether to query DHCP if nothing else finds the endpoint.
    pub ask_dhcp: bool,
    /// `None` to get the name from the service.
    pub name: Option<String>,
    /// `None` if no directory is configured and the default one does not exist.
    pub hooks: Option<PathBuf>,
    pub actions: Vec<Action>,
    /// `None` to disable metrics.
    pub metrics: Option<SocketAddr>,
    pub state: PathBuf,
    pub interval: Duration,
    /// Whether to use long polling if the service supports it.
    pub wait: bool,
    /// Time limit for responses of the service after the first one.
    pub timeout: Duration,
    pub margin: Duration,
    pub limit: Duration,
    pub rerun_interrupted: bool,
    pub on_failure: FailurePolicy,
    pub on_late: FailurePolicy,
    pub leader_share_percent: u32,
    pub policies: Policies,
    /// Whether to run although there is nothing to do before an approval.
    pub approve_without_hooks: bool,
}

impl Config {
    pub fn load(flags: &Flags) -> Result<Config> {
        let file = match &flags.config {
            Some(path) => read(path)?,
            None if Path::new(CONFIG_PATH).exists() => read(Path::new(CONFIG_PATH))?,
            None => ConfigFile::default(),
        };
        let endpoints = match (&flags.endpoint, file.endpoint) {
            (Some(urls), _) => parse_endpoints(urls).context("--endpoint")?,
            (None, Some(Endpoints(endpoints))) => endpoints,
            (None, None) => Vec::new(),
        };
        let interval = flags.interval.or(file.interval.map(|span| span.0)).unwrap_or(INTERVAL);
        if interval < INTERVAL_MIN {
            bail!("interval must be at least {} ms", INTERVAL_MIN.as_millis());
        }
        if file.timeout.is_some_and(|span| span.0 < TIMEOUT_MIN) {
            bail!("timeout must be at least {} ms", TIMEOUT_MIN.as_millis());
        }
        Ok(Config {
            endpoints,
            ask_dhcp: flags.ask_dhcp || file.ask_dhcp,
            name: flags.name.clone().or(file.name),
            hooks: flags.hooks.clone().or(file.hooks).or_else(default_hooks),
            actions: file.action,
            metrics: flags.metrics.or(file.metrics.map(|address| address.0)),
            state: flags.state.clone().or(file.state).unwrap_or_else(|| STATE_DIR.into()),
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
            approve_without_hooks: flags.approve_without_hooks || file.approve_without_hooks,
        })
    }
}

/// The base URLs of several servers, separated by commas.
fn parse_endpoints(text: &str) -> Result<Vec<Endpoint>, forewarn_client::EndpointError> {
    text.split(',').map(|url| url.trim().parse()).collect()
}

fn default_hooks() -> Option<PathBuf> {
    Some(PathBuf::from(HOOKS_DIR)).filter(|dir| dir.exists())
}

fn read(path: &Path) -> Result<ConfigFile> {
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|(line, message)| anyhow!("{}:{line}: {message}", path.display()))
}

/// Parses the file. An error has the line number and a message.
fn parse(text: &str) -> Result<ConfigFile, (usize, String)> {
    toml::from_str(text).map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let line = text.as_bytes()[..start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1;
        (line, error.message().to_owned())
    })
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ConfigFile {
    endpoint: Option<Endpoints>,
    name: Option<String>,
    hooks: Option<PathBuf>,
    state: Option<PathBuf>,
    interval: Option<Span>,
    wait: Option<bool>,
    margin: Option<Span>,
    limit: Option<Span>,
    rerun_interrupted: bool,
    on_failure: FailurePolicy,
    on_late: FailurePolicy,
    leader_share_percent: Option<Share>,
    ask_dhcp: bool,
    approve_without_hooks: bool,
    approve: ApproveTable,
    timeout: Option<Span>,
    metrics: Option<Address>,
    #[serde(deserialize_with = "action::deserialize_actions")]
    action: Vec<Action>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ApproveTable {
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

impl From<ApproveTable> for Policies {
    fn from(from: ApproveTable) -> Policies {
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

/// Policy for an event type, or one per source.
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
            "`leader` is not valid for `terminate`, which each machine approves for itself; \
             expected one of `after-hooks`, `at-once`, `never`",
        ));
    }
    Ok(ByKind(policy))
}

/// Defines a type for a value that is checked when it is deserialized.
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
checked!(Endpoints, Vec<Endpoint>, String, |text| parse_endpoints(&text).map_err(|error| error.to_string()));
checked!(Share, u32, u32, |percent| match percent {
    1..=100 => Ok(percent),
    _ => Err(format!("invalid percentage {percent}: use a number from 1 to 100")),
});

#[cfg(test)]
mod tests;
