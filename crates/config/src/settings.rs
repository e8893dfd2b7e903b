//! The table of settings: keys, flags, help texts, parsers and renderers.
//! The file, the environment, the flags, `--print-config` and docs/configuration.md all follow it.

use std::path::PathBuf;
use std::time::Duration;

use forewarn_server::{GuestsBy, RebootMode};
use toml::Value;

use crate::choices::{Choices, ClockMode, DriverMode, LogFormat};
use crate::error::ValueError;
use crate::parse::{format_span, name, number, one_of, parse_span, socket, time, yes_or_no};
use crate::raw::RawValue;
use crate::{listener, oidc, tls};

pub struct Setting {
    /// Key in the file; a dot separates table and key.
    pub key: &'static str,
    /// Flag without dashes; the name of the environment variable is derived from it.
    pub flag: &'static str,
    pub shape: Shape,
    pub value_name: &'static str,
    pub help: &'static str,
    pub put: fn(&mut Choices, &[RawValue]) -> Result<(), ValueError>,
    /// Returns None if the setting is not set.
    pub show: fn(&Choices) -> Option<Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    One,
    /// True or false; the flag needs no value.
    Switch,
    /// A list: the flag is repeated, the environment variable is split at spaces.
    Many,
}

impl Setting {
    pub fn variable(&self) -> String {
        format!("FOREWARN_{}", self.flag.to_uppercase().replace('-', "_"))
    }
}

pub fn by_key(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

macro_rules! setting {
    ($key:literal, $flag:literal, $shape:ident, $value:literal, $help:literal, $put:expr, $show:expr) => {
        Setting {
            key: $key,
            flag: $flag,
            shape: Shape::$shape,
            value_name: $value,
            help: $help,
            put: $put,
            show: $show,
        }
    };
}

/// A duration with limits, stored in one field.
macro_rules! span_setting {
    ($key:literal, $flag:literal, $help:literal, $least:expr, $most:expr, $($field:ident).+) => {
        setting!(
            $key,
            $flag,
            One,
            "DURATION",
            $help,
            |c, v| {
                c.$($field).+ = span_between(v, $least, $most)?;
                Ok(())
            },
            |c| Some(format_span(c.$($field).+).into())
        )
    };
}

const DAYS: u64 = 24 * 3600;

#[rustfmt::skip]
pub static SETTINGS: &[Setting] = &[
    setting!("data", "data", One, "DIR",
        "Data directory; by default $XDG_DATA_HOME/forewarn or ~/.local/share/forewarn",
        |c, v| { c.data = Some(path(v)?); Ok(()) },
        |c| Some(c.data.as_ref()?.display().to_string().into())),
    setting!("memory", "memory", Switch, "",
        "Keep all data in memory and discard it on exit; requires --no-auth",
        |c, v| { c.memory = yes_or_no(one(v)?)?; Ok(()) },
        |c| Some(c.memory.into())),
    setting!("metadata", "metadata", Many, "ADDR",
        "Address of a metadata listener, such as 127.0.0.1:8169 or unix:/path, optionally followed by ,machine=NAME ,network=NAME ,prefix=on|off ,host=NAME ,group=NAME ,mode=0660",
        |c, v| { c.config.metadata = listener::parse_all(v)?; Ok(()) },
        |c| Some(c.config.metadata.iter().map(listener::show).collect::<Vec<_>>().into())),
    setting!("management", "management", One, "ADDR",
        "Address of the management API, metrics and health checks",
        |c, v| { c.config.management = socket(one(v)?)?; Ok(()) },
        |c| Some(c.config.management.to_string().into())),
    setting!("management_tls", "management-tls", One, "ADDR|off",
        "HTTPS address of the management API; if it is not set and port 8171 is in use, HTTPS is off",
        |c, v| { c.config.management_tls = tls::parse(one(v)?)?; Ok(()) },
        |c| Some(tls::show(c.config.management_tls).into())),
    setting!("management_tls_cert", "management-tls-cert", One, "FILE",
        "Certificate chain for HTTPS, PEM; by default issued by the server's own authority",
        |c, v| { c.tls_certificate = Some(path(v)?); Ok(()) },
        |c| Some(c.tls_certificate.as_ref()?.display().to_string().into())),
    setting!("management_tls_key", "management-tls-key", One, "FILE",
        "Private key of the certificate, PEM",
        |c, v| { c.tls_key = Some(path(v)?); Ok(()) },
        |c| Some(c.tls_key.as_ref()?.display().to_string().into())),
    setting!("management_tls_name", "management-tls-name", Many, "NAME",
        "DNS name or address that clients use for HTTPS, besides localhost, this computer's name and the bound address; repeatable. Adding a name creates a new certificate authority, which clients must trust",
        |c, v| { c.tls_names = tls::parse_names(&texts(v)?)?; Ok(()) },
        |c| (!c.tls_names.is_empty()).then(|| c.tls_names.clone().into())),
    setting!("hosts", "hosts", One, "ADDR",
        "Address for host agents, with mutual TLS, such as 0.0.0.0:8172",
        |c, v| { c.config.hosts = Some(socket(one(v)?)?); Ok(()) },
        |c| Some(c.config.hosts?.to_string().into())),
    setting!("no_auth", "no-auth", Switch, "",
        "Disable authentication for the management API; loopback only",
        |c, v| { c.no_auth = yes_or_no(one(v)?)?; Ok(()) },
        |c| Some(c.no_auth.into())),
    setting!("oidc.issuer", "oidc-issuer", One, "URL",
        "OpenID Connect provider for signing in to the portal",
        |c, v| { c.oidc.issuer = Some(one(v)?.into()); Ok(()) },
        |c| Some(c.oidc.issuer.clone()?.into())),
    setting!("oidc.client_id", "oidc-client-id", One, "ID",
        "Client ID of this server at the provider",
        |c, v| { c.oidc.client_id = Some(one(v)?.into()); Ok(()) },
        |c| Some(c.oidc.client_id.clone()?.into())),
    setting!("oidc.client_secret_file", "oidc-client-secret-file", One, "FILE",
        "File with the client secret, mode 0600; not needed for a public client",
        |c, v| { c.oidc.client_secret_file = Some(path(v)?); Ok(()) },
        |c| Some(c.oidc.client_secret_file.as_ref()?.display().to_string().into())),
    setting!("oidc.roles", "oidc-role", Many, "GROUP=ROLE",
        "Role for a group at the provider: reader, operator or owner; a user gets the highest role of their groups",
        |c, v| { c.oidc.roles = oidc::parse_roles(&texts(v)?)?; Ok(()) },
        |c| Some(c.oidc.roles.iter().map(ToString::to_string).collect::<Vec<_>>().into())),
    setting!("oidc.groups_claim", "oidc-groups-claim", One, "CLAIM",
        "Claim of the ID token that lists the groups of a user",
        |c, v| { c.oidc.groups_claim = one(v)?.into(); Ok(()) },
        |c| Some(c.oidc.groups_claim.clone().into())),
    setting!("oidc.redirect_url", "oidc-redirect-url", One, "URL",
        "Callback URL for a server behind a proxy; by default the address that the browser used, followed by /portal/sign-in/oidc/callback",
        |c, v| { c.oidc.redirect_url = Some(one(v)?.into()); Ok(()) },
        |c| Some(c.oidc.redirect_url.clone()?.into())),
    setting!("link_local", "link-local", Switch, "",
        "Also serve metadata at 169.254.169.254 while the server runs; requires root",
        |c, v| { c.link_local = yes_or_no(one(v)?)?; Ok(()) },
        |c| Some(c.link_local.into())),
    setting!("clock", "clock", One, "real|manual",
        "Clock mode: real, or manual and advanced through the API",
        |c, v| { c.clock = one_of(one(v)?, CLOCKS)?; Ok(()) },
        |c| Some(render_word(CLOCKS, c.clock))),
    setting!("clock_start", "clock-start", One, "TIME",
        "Start time of the manual clock in a new store; by default the current time",
        |c, v| { c.clock_start = Some(time(one(v)?)?); Ok(()) },
        |c| Some(c.clock_start?.to_string().into())),
    setting!("notice_scale", "notice-scale", One, "N",
        "Divisor for notice periods, pauses and simulated impacts; 60 turns 15 minutes into 15 seconds",
        |c, v| { c.config.rules.notice_scale = number(one(v)?, 1, 100_000)?; Ok(()) },
        |c| Some(c.config.rules.notice_scale.into())),
    setting!("default_machine", "default-machine", One, "NAME",
        "Machine that loopback callers are treated as; by default the one that was registered at the first start",
        |c, v| { c.config.default_machine = Some(name(one(v)?)?); Ok(()) },
        |c| Some(c.config.default_machine.clone()?.into())),
    setting!("plain_names", "plain-names", Switch, "",
        "Omit the _ before resource names in api-version 2017-03-01",
        |c, v| { c.config.plain_names = yes_or_no(one(v)?)?; Ok(()) },
        |c| Some(c.config.plain_names.into())),
    setting!("preview_version", "preview-version", Switch, "",
        "Serve api-version 2024-07-09 with rebalance recommendations; Azure has not released it",
        |c, v| { c.config.preview_version = yes_or_no(one(v)?)?; Ok(()) },
        |c| Some(c.config.preview_version.into())),
    span_setting!("first_call_delay", "first-call-delay",
        "Delay of the first GETs of an event group, as on Azure; at most 2m",
        0, 120, config.first_call_delay),
    setting!("rate_limit", "rate-limit", One, "N/s|off",
        "Maximum number of requests per second and machine",
        |c, v| { c.config.rate_limit = rate(one(v)?)?; Ok(()) },
        |c| Some(c.config.rate_limit.map_or("off".into(), |n| format!("{n}/s").into()))),
    setting!("connections_per_source", "connections-per-source", One, "N",
        "Maximum number of connections of one guest to the metadata listeners",
        |c, v| { c.config.connections_per_source = number(one(v)?, 1, 65_536)? as usize; Ok(()) },
        |c| Some((c.config.connections_per_source as u32).into())),
    setting!("guests_by", "guests-by", One, "address|mark",
        "How guests on a bridge are identified: by address, or by network interface (needs the libvirt driver and nft)",
        |c, v| { c.config.guests_by = one_of(one(v)?, GUESTS_BY)?; Ok(()) },
        |c| Some(render_word(GUESTS_BY, c.config.guests_by))),
    setting!("mark_mask", "mark-mask", One, "MASK",
        "Packet-mark bits used to identify guests",
        |c, v| { c.config.mark_mask = one(v)?.parse().map_err(|_| "at least 8 adjacent bits, such as 0x7ff00000")?; Ok(()) },
        |c| Some(c.config.mark_mask.to_string().into())),
    setting!("held_per_source", "held-per-source", One, "N",
        "Maximum number of wait= requests that one guest can have open",
        |c, v| { c.config.held_per_source = number(one(v)?, 1, 65_536)? as usize; Ok(()) },
        |c| Some((c.config.held_per_source as u32).into())),
    setting!("history_days", "history-days", One, "N",
        "Number of days to keep history",
        |c, v| { c.config.history_days = number(one(v)?, 1, 36_500)?; Ok(()) },
        |c| Some(c.config.history_days.into())),
    span_setting!("idle_disable", "idle-disable",
        "Time without requests after which an event group turns off; at least 1h",
        3600, 400 * DAYS, config.rules.idle_disable),
    setting!("max_user_operations", "max-user-operations", One, "N",
        "Maximum number of restarts and redeployments with a Scheduled event per subscription; 0 for no limit",
        |c, v| { c.config.rules.user_operations_max = number(one(v)?, 0, 1_000_000)?; Ok(()) },
        |c| Some(c.config.rules.user_operations_max.into())),
    span_setting!("update_domain_pause", "update-domain-pause",
        "Pause between update domains during maintenance of an event group",
        0, 400 * DAYS, config.rules.update_domain_pause),
    span_setting!("driver_timeout", "driver-timeout",
        "Time without a driver report after which an event ends as TimedOut",
        1, 400 * DAYS, config.rules.driver_timeout),
    setting!("cluster", "cluster", One, "URL",
        "Region that several servers share, such as etcd://a,b,c/REGION; by default this is a single server",
        |c, v| { c.cluster = Some(one(v)?.to_owned()); Ok(()) },
        |c| Some(c.cluster.clone()?.into())),
    setting!("node", "node", One, "NAME",
        "Name of this server in its cluster; by default the name of this host",
        |c, v| { c.node = Some(name(one(v)?)?); Ok(()) },
        |c| Some(c.node.clone()?.into())),
    setting!("advertise", "advertise", One, "URL",
        "URL of the management API for the other servers and for host agents; by default the address of --management",
        |c, v| { c.advertise = Some(one(v)?.to_owned()); Ok(()) },
        |c| Some(c.advertise.clone()?.into())),
    setting!("cluster_key", "cluster-key", One, "FILE",
        "File with the key for the region's secrets, the same on every server; created by forewarn cluster key",
        |c, v| { c.cluster_key = Some(path(v)?); Ok(()) },
        |c| Some(c.cluster_key.as_ref()?.display().to_string().into())),
    setting!("etcd_ca", "etcd-ca", One, "FILE",
        "Certificate authority of etcd, PEM; enables TLS to etcd",
        |c, v| { c.etcd.authority = Some(path(v)?); Ok(()) },
        |c| Some(c.etcd.authority.as_ref()?.display().to_string().into())),
    setting!("etcd_cert", "etcd-cert", One, "FILE",
        "Client certificate for etcd, PEM",
        |c, v| { c.etcd.certificate = Some(path(v)?); Ok(()) },
        |c| Some(c.etcd.certificate.as_ref()?.display().to_string().into())),
    setting!("etcd_key", "etcd-key", One, "FILE",
        "Private key of the client certificate, PEM",
        |c, v| { c.etcd.key = Some(path(v)?); Ok(()) },
        |c| Some(c.etcd.key.as_ref()?.display().to_string().into())),
    setting!("etcd_user", "etcd-user", One, "NAME",
        "User name for etcd",
        |c, v| { c.etcd.user = Some(one(v)?.to_owned()); Ok(()) },
        |c| Some(c.etcd.user.clone()?.into())),
    setting!("etcd_password_file", "etcd-password-file", One, "FILE",
        "File with the password of the etcd user",
        |c, v| { c.etcd.password_file = Some(path(v)?); Ok(()) },
        |c| Some(c.etcd.password_file.as_ref()?.display().to_string().into())),
    setting!("log", "log", One, "text|json",
        "Log format on standard error",
        |c, v| { c.log = one_of(one(v)?, LOGS)?; Ok(()) },
        |c| Some(render_word(LOGS, c.log))),
    setting!("log_level", "log-level", One, "LEVEL",
        "Log level: error, warn, info, debug or trace; or per module, such as info,forewarn_arm=debug",
        |c, v| { c.log_level = level(one(v)?)?; Ok(()) },
        |c| Some(c.log_level.clone().into())),
    setting!("driver.kind", "driver", One, "simulated|command|libvirt|qemu|agents",
        "Driver that carries out events; command if driver.command is set",
        |c, v| { c.driver = Some(one_of(one(v)?, DRIVERS)?); Ok(()) },
        |c| Some(render_word(DRIVERS, c.driver_mode()))),
    setting!("driver.command", "driver-command", One, "FILE",
        "Executable to run for each impact",
        |c, v| { c.driver_command = Some(path(v)?); Ok(()) },
        |c| Some(c.driver_command.as_ref()?.display().to_string().into())),
    setting!("driver.arguments", "driver-argument", Many, "ARG",
        "Arguments for the driver command",
        |c, v| { c.driver_arguments = texts(v)?; Ok(()) },
        |c| Some(c.driver_arguments.clone().into())),
    span_setting!("driver.command_timeout", "driver-command-timeout",
        "Time after which the driver command is killed and the operation fails",
        1, 30 * DAYS, driver_command_timeout),
    setting!("driver.host", "driver-host", One, "NAME",
        "Name of this host for the libvirt or qemu driver; by default the host name",
        |c, v| { c.driver_host = Some(name(one(v)?)?); Ok(()) },
        |c| Some(c.driver_host.clone()?.into())),
    setting!("driver.libvirt_socket", "libvirt-socket", One, "FILE",
        "Socket of this host's libvirtd",
        |c, v| { c.libvirt.socket = path(v)?; Ok(()) },
        |c| Some(c.libvirt.socket.display().to_string().into())),
    setting!("driver.reboot", "driver-reboot", One, "hard|graceful",
        "How the libvirt or qemu driver restarts machines: by reset, or by shutdown and start",
        |c, v| { c.libvirt.reboot = one_of(one(v)?, REBOOTS)?; Ok(()) },
        |c| Some(render_word(REBOOTS, c.libvirt.reboot))),
    setting!("driver.pools", "driver-pool", Many, "NAME",
        "Storage pools from which the disks of deleted machines are deleted; other disks are kept",
        |c, v| { c.libvirt.pools = texts(v)?; Ok(()) },
        |c| Some(c.libvirt.pools.clone().into())),
    setting!("driver.peers", "driver-peers", One, "FILE",
        "TOML file that describes other libvirt hosts",
        |c, v| { c.libvirt_peers = Some(path(v)?); Ok(()) },
        |c| Some(c.libvirt_peers.as_ref()?.display().to_string().into())),
    setting!("driver.machines", "driver-machines", One, "FILE",
        "TOML file that names the machines of the qemu driver",
        |c, v| { c.driver_machines = Some(path(v)?); Ok(()) },
        |c| Some(c.driver_machines.as_ref()?.display().to_string().into())),
    span_setting!("driver.impacts.live_migration", "impact-live-migration",
        "Duration of a simulated live migration", 0, 30 * DAYS, impacts.live_migration),
    span_setting!("driver.impacts.freeze", "impact-freeze",
        "Duration of a simulated Freeze", 0, 30 * DAYS, impacts.freeze),
    span_setting!("driver.impacts.reboot", "impact-reboot",
        "Duration of a simulated Reboot", 0, 30 * DAYS, impacts.reboot),
    span_setting!("driver.impacts.redeploy", "impact-redeploy",
        "Duration of a simulated Redeploy", 0, 30 * DAYS, impacts.redeploy),
    span_setting!("driver.impacts.hardware_failure", "impact-hardware-failure",
        "Duration of a simulated hardware failure", 0, 30 * DAYS, impacts.hardware_failure),
    span_setting!("driver.impacts.eviction", "impact-eviction",
        "Duration of a simulated eviction", 0, 30 * DAYS, impacts.eviction),
    span_setting!("driver.impacts.deletion", "impact-deletion",
        "Duration of a simulated deletion", 0, 30 * DAYS, impacts.deletion),
    setting!("pool.network", "pool-network", One, "NAME",
        "Network of the addresses assigned to new machines",
        |c, v| { c.config.rules.pool.network = name(one(v)?)?.into(); Ok(()) },
        |c| Some(c.config.rules.pool.network.to_string().into())),
    setting!("pool.first", "pool-first", One, "IPV4",
        "First address of the pool",
        |c, v| { c.config.rules.pool.first = one(v)?.parse().map_err(|_| "an IPv4 address such as 10.64.0.4")?; Ok(()) },
        |c| Some(c.config.rules.pool.first.to_string().into())),
    setting!("pool.count", "pool-count", One, "N",
        "Number of addresses in the pool",
        |c, v| { c.config.rules.pool.count = number(one(v)?, 1, 1 << 24)?; Ok(()) },
        |c| Some(c.config.rules.pool.count.into())),
];

const CLOCKS: &[(&str, ClockMode)] = &[("real", ClockMode::Real), ("manual", ClockMode::Manual)];
const LOGS: &[(&str, LogFormat)] = &[("text", LogFormat::Text), ("json", LogFormat::Json)];
const DRIVERS: &[(&str, DriverMode)] = &[
    ("simulated", DriverMode::Simulated),
    ("command", DriverMode::Command),
    ("libvirt", DriverMode::Libvirt),
    ("qemu", DriverMode::Qemu),
    ("agents", DriverMode::Agents),
];

const GUESTS_BY: &[(&str, GuestsBy)] = &[("address", GuestsBy::Address), ("mark", GuestsBy::Mark)];
const REBOOTS: &[(&str, RebootMode)] = &[("hard", RebootMode::Hard), ("graceful", RebootMode::Graceful)];

fn render_word<T: PartialEq>(words: &[(&str, T)], value: T) -> Value {
    words.iter().find(|(_, each)| *each == value).map_or("", |(word, _)| word).into()
}

fn one(values: &[RawValue]) -> Result<&str, ValueError> {
    match values {
        [RawValue::Text(text)] => Ok(text),
        _ => Err("a single value".into()),
    }
}

fn texts(values: &[RawValue]) -> Result<Vec<String>, ValueError> {
    values.iter().map(|value| Ok(one(std::slice::from_ref(value))?.to_owned())).collect()
}

fn path(values: &[RawValue]) -> Result<PathBuf, ValueError> {
    let text = one(values)?;
    if text.is_empty() || text.contains('\0') { Err("a path".into()) } else { Ok(text.into()) }
}

fn span_between(values: &[RawValue], least_secs: u64, most_secs: u64) -> Result<Duration, ValueError> {
    let (least, most) = (Duration::from_secs(least_secs), Duration::from_secs(most_secs));
    let span = parse_span(one(values)?).ok().filter(|span| (least..=most).contains(span));
    span.ok_or_else(|| {
        let range = format!("from {} to {}", format_span(least), format_span(most));
        ValueError::Expected(format!("a duration {range}, such as 90s, 15m, 1h30m or 2d"))
    })
}

fn rate(text: &str) -> Result<Option<u32>, String> {
    if text == "off" {
        return Ok(None);
    }
    let number = number(text.strip_suffix("/s").unwrap_or(text), 1, 1_000_000);
    number.map(Some).map_err(|expected| format!("off, or {expected} followed by /s"))
}

fn level(text: &str) -> Result<String, String> {
    let valid = !text.is_empty() && text.parse::<tracing_subscriber::filter::Targets>().is_ok();
    // Targets would accept any word as a module name.
    let words = text.split(',').all(|part| {
        let level = part.rsplit('=').next().unwrap_or_default();
        matches!(level, "off" | "error" | "warn" | "info" | "debug" | "trace")
    });
    if valid && words {
        return Ok(text.into());
    }
    Err("one of: off, error, warn, info, debug, trace, or a list such as info,forewarn_arm=debug".into())
}
