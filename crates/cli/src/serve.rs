//! `forewarn serve`: reads the configuration, starts the server, prints its addresses, and stops on a signal.

use std::io::{self, IsTerminal as _};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use forewarn_config::{self as config, Choices, LogFormat, ResolvedConfig, ServeArgs, Sources};
use forewarn_loopback::LinkLocal;
use forewarn_server::{BoundAddress, Config, Running, StoreChoice};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::timeout;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::failure::Failure;
use crate::output;

/// Limit of the shutdown.
const STOP_MAX: Duration = Duration::from_secs(5);

pub fn run(args: ServeArgs) -> Result<(), Failure> {
    let sources = Sources { file: args.config, environment: read_environment(), flags: args.flags };
    let resolved = config::read(&sources)?;
    let config = resolved.choices.to_config()?;
    if args.print_config {
        return output::print_line(config::print(&resolved.choices).trim_end());
    }
    log_to_stderr(&resolved.choices);
    log_sources(&resolved);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::Refused(format!("cannot start threads: {error}")))?;
    let result = runtime.block_on(serve(config, resolved.choices.link_local));
    runtime.shutdown_background();
    result
}

/// Skips variables that are not UTF-8.
fn read_environment() -> Vec<(String, String)> {
    std::env::vars_os().filter_map(|(name, text)| Some((name.into_string().ok()?, text.into_string().ok()?))).collect()
}

pub fn log_to_stderr(choices: &Choices) {
    let levels = choices.log_level.parse().unwrap_or_else(|_| Targets::new().with_default(LevelFilter::INFO));
    let log = tracing_subscriber::registry().with(levels);
    let lines = fmt::layer().with_writer(io::stderr).with_ansi(io::stderr().is_terminal());
    match choices.log {
        LogFormat::Text => log.with(lines).init(),
        LogFormat::Json => log.with(lines.json()).init(),
    }
}

fn log_sources(resolved: &ResolvedConfig) {
    if let Some(path) = &resolved.file {
        tracing::info!(file = %path.display(), "read the configuration file");
    }
    for name in &resolved.unknown_variables {
        tracing::warn!(%name, "ignoring an unknown environment variable");
    }
}

async fn serve(config: Config, link_local: bool) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let _address = if link_local { Some(LinkLocal::add().map_err(Failure::Refused)?) } else { None };
    let running = tokio::select! {
        started = forewarn_server::start(config.clone()) => started.map_err(|error| startup_failure(&error))?,
        () = signals.next() => return Ok(()),
    };
    announce(&running, &config);
    tokio::spawn(forewarn_server::log_activity(running.engine.clone()));
    let result = tokio::select! {
        () = signals.next() => Ok(()),
        () = running.wait_for_failure() => Err(Failure::Refused("the writer has stopped, so no changes are possible: see the log for the reason, then restart the server".into())),
    };
    tracing::info!("stopping");
    tokio::select! {
        stopped = timeout(STOP_MAX, running.stop()) => if stopped.is_err() { tracing::warn!("the shutdown timed out") },
        () = signals.next() => tracing::warn!("received a second signal: exiting immediately"),
    }
    result
}

fn startup_failure(error: &anyhow::Error) -> Failure {
    Failure::Refused(format!("{error:#}"))
}

/// SIGTERM and Ctrl-C.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> Result<Signals, Failure> {
        let listen =
            |kind| signal(kind).map_err(|error| Failure::Refused(format!("cannot install signal handlers: {error}")));
        Ok(Signals { terminate: listen(SignalKind::terminate())?, interrupt: listen(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Prints the addresses, in a form that scripts can read, and logs them.
fn announce(running: &Running, config: &Config) {
    let (http, https) = (running.management, running.management_tls);
    let join = |addresses: Vec<String>| if addresses.is_empty() { "none".to_owned() } else { addresses.join(", ") };
    tracing::info!(
        management = %http,
        https = %join(https.iter().map(ToString::to_string).collect()),
        metadata = %join(running.metadata.iter().map(ToString::to_string).collect()),
        "serving"
    );
    // A journal is read by more people than a terminal, and is kept.
    let link = io::stdout().is_terminal().then(|| running.portal_link()).flatten();
    let portal = link.unwrap_or_else(|| format!("{} (sign in with: forewarn portal)", running.portal_address()));
    let hosts = running.hosts.map(|address| format!("hosts       {address}"));
    for text in announcement(&running.metadata, http, https, &portal, config).into_iter().chain(hosts) {
        // Standard output may be closed.
        let _ = output::print_line(&text);
    }
}

fn announcement(
    metadata: &[BoundAddress],
    management: SocketAddr,
    management_tls: Option<SocketAddr>,
    portal: &str,
    config: &Config,
) -> Vec<String> {
    let mut lines: Vec<String> = metadata.iter().map(|address| format!("metadata    {}", url(address))).collect();
    let token = match &config.store {
        StoreChoice::Directory(directory) if config.auth == forewarn_server::Auth::Token => {
            format!(" (token in {})", directory.join("token").display())
        }
        StoreChoice::Directory(_) | StoreChoice::Memory => String::new(),
    };
    lines.push(format!("management  http://{management}{token}"));
    lines.extend(management_tls.map(|address| format!("management  https://{address}")));
    lines.push(format!("portal      {portal}"));
    lines.extend(example_command(metadata).map(|command| format!("try         {command}")));
    lines
}

fn url(address: &BoundAddress) -> String {
    match address {
        BoundAddress::Tcp(_) => format!("http://{address}"),
        BoundAddress::Unix(_) => address.to_string(),
    }
}

const DOCUMENT: &str = "/metadata/scheduledevents?api-version=2020-07-01";

/// A command that works on this host: loopback callers are a machine even without a registered address.
fn example_command(metadata: &[BoundAddress]) -> Option<String> {
    let local = metadata.iter().find(|address| match address {
        BoundAddress::Tcp(address) => address.ip().is_loopback() || address.ip().is_unspecified(),
        BoundAddress::Unix(_) => true,
    })?;
    Some(match local {
        BoundAddress::Tcp(address) => {
            format!("curl -s -H Metadata:true 'http://{}{DOCUMENT}'", reachable_address(*address))
        }
        BoundAddress::Unix(path) => {
            format!("curl -s --unix-socket '{}' -H Metadata:true 'http://localhost{DOCUMENT}'", path.display())
        }
    })
}

fn reachable_address(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V4(v4) if v4.ip().is_unspecified() => (Ipv4Addr::LOCALHOST, v4.port()).into(),
        SocketAddr::V6(v6) if v6.ip().is_unspecified() => (Ipv6Addr::LOCALHOST, v6.port()).into(),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(addresses: &[&str], expected: &str) {
        let bound: Vec<BoundAddress> = addresses
            .iter()
            .map(|text| match text.strip_prefix("unix:") {
                Some(path) => BoundAddress::Unix(path.into()),
                None => BoundAddress::Tcp(text.parse().unwrap()),
            })
            .collect();
        let config = Config { auth: forewarn_server::Auth::Off, ..Config::default() };
        let lines = announcement(&bound, "127.0.0.1:8170".parse().unwrap(), None, "http://127.0.0.1:8170/x", &config);
        assert_eq!(lines.join("\n"), expected);
    }

    #[test]
    fn the_announcement_has_addresses_and_an_example() {
        check(
            &["10.0.0.1:80", "0.0.0.0:8169"],
            "metadata    http://10.0.0.1:80\nmetadata    http://0.0.0.0:8169\nmanagement  http://127.0.0.1:8170\n\
             portal      http://127.0.0.1:8170/x\n\
             try         curl -s -H Metadata:true 'http://127.0.0.1:8169/metadata/scheduledevents?api-version=2020-07-01'",
        );
        check(
            &["unix:/run/a b"],
            "metadata    unix:/run/a b\nmanagement  http://127.0.0.1:8170\n\
             portal      http://127.0.0.1:8170/x\n\
             try         curl -s --unix-socket '/run/a b' -H Metadata:true 'http://localhost/metadata/scheduledevents?api-version=2020-07-01'",
        );
    }
}
