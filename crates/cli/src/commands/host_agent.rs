//! `forewarn host join`, `run` and `doctor`: the commands that run on a host. The agent itself is in `forewarn-host`.

use std::path::{Path, PathBuf};

use forewarn_api_types::count_of;
use forewarn_config::{self as config, Choices};
use forewarn_connect::{Trust, parse_servers};
use forewarn_host::doctor::{Facts, Verdict, examine};
use forewarn_host::{
    ConfigFile, DATA_DIRECTORY, DriverOptions, HostConfig, HostDriver, Identity, JoinError, KnownPeers, LIBVIRT_SOCKET,
    RunningAgent, TapSettings, Timing,
};
use forewarn_server::{MarkMask, RebootMode};

use super::login::find_authority;
use crate::args::{Connection, HostJoinArgs, HostRunArgs, LoginArgs};
use crate::failure::Failure;
use crate::output::{self, Cell, Color};
use crate::serve::log_to_stderr;

/// Makes a key, has it certified with a token, and stores both.
pub fn join(connection: &Connection, args: &HostJoinArgs) -> Result<(), Failure> {
    let servers = parse_servers(&args.server)?;
    let token = connection.token.clone().ok_or_else(|| {
        Failure::Usage(
            "a join token is required: run `forewarn host token NAME` on the server, and pass the token with --token"
                .into(),
        )
    })?;
    let dir = data(connection, &ConfigFile::default());
    let identity = join_first(&servers, args, &dir, &token)?;
    let text = format!("Joined {} as host {}. Start the agent with: forewarn host run", identity.server, identity.host);
    output::print_line(&output::escape(&text))
}

/// Joins the first server that can be reached. One that refuses the token ends the search: the others know the same tokens.
fn join_first(servers: &[String], args: &HostJoinArgs, dir: &Path, token: &str) -> Result<Identity, Failure> {
    let mut problem = Failure::Usage("no server was given".into());
    for server in servers {
        let login = LoginArgs {
            server: server.clone(),
            name: None,
            ca: args.ca.clone(),
            fingerprint: args.fingerprint.clone(),
            token: None,
        };
        let authority = match find_authority(server, &login) {
            Ok(authority) => authority,
            Err(failure @ Failure::Unreachable(_)) => {
                problem = failure;
                continue;
            }
            Err(failure) => return Err(failure),
        };
        let trust = authority.map_or(Trust::System(None), Trust::Only);
        match forewarn_host::join(dir, server, &trust, token) {
            Ok(identity) => return Ok(identity),
            Err(JoinError::Unavailable(error)) => problem = Failure::Refused(format!("{error:#}")),
            Err(JoinError::Failed(error)) => return Err(Failure::Refused(format!("{error:#}"))),
        }
    }
    Err(problem)
}

pub fn run(connection: &Connection, args: &HostRunArgs) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::Usage(format!("{error:#}"));
    let file = ConfigFile::read(args.config.as_deref()).map_err(usage)?;
    log_to_stderr(&Choices::default());
    let data = data(connection, &file);
    let identity = Identity::read(&data).map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let (driver, options) = choose_driver(args, &file)?;
    let taps = tap_settings(args, &file, driver, &options.socket).map_err(Failure::Usage)?;
    let driver = driver.open(&identity.host, &data, options);
    let driver = driver.map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let listeners = if args.metadata.is_empty() { &file.metadata } else { &args.metadata };
    let config = HostConfig {
        data,
        metadata: config::parse_listeners(listeners).map_err(Failure::Usage)?,
        taps,
        health: args.health.or(file.health),
        plain_names: args.plain_names || file.plain_names,
        preview_version: args.preview_version || file.preview_version,
        rate_limit: file.rate_limit,
        reboot: reboot_mode(file.reboot.as_deref()).map_err(Failure::Usage)?,
        peers: KnownPeers(file.peers.clone()),
        timing: Timing::default(),
    };
    let announce = |agent: &RunningAgent| {
        for address in &agent.metadata {
            let _ = output::print_line(&format!("metadata    http://{address}"));
        }
        let _ = agent.health.map(|address| output::print_line(&format!("health      http://{address}/healthz")));
    };
    forewarn_host::run(config, driver, announce).map_err(|error| Failure::Refused(format!("{error:#}")))
}

/// The driver and its settings: flags take precedence over the file.
fn choose_driver(args: &HostRunArgs, file: &ConfigFile) -> Result<(HostDriver, DriverOptions), Failure> {
    let word = args.driver.as_deref().or(file.driver.as_deref()).unwrap_or("libvirt");
    let driver = HostDriver::parse(word).map_err(|error| Failure::Usage(format!("{error:#}")))?;
    let socket = args.libvirt_socket.as_ref().or(file.libvirt_socket.as_ref());
    let options = DriverOptions {
        socket: socket.cloned().unwrap_or_else(|| LIBVIRT_SOCKET.into()),
        pools: file.pools.clone(),
        peers: KnownPeers(file.peers.clone()),
        machines: args.driver_machines.clone().or(file.driver_machines.clone()),
    };
    Ok((driver, options))
}

fn reboot_mode(word: Option<&str>) -> Result<RebootMode, String> {
    match word.unwrap_or("hard") {
        "hard" => Ok(RebootMode::Hard),
        "graceful" => Ok(RebootMode::Graceful),
        other => Err(format!("invalid value '{other}' for reboot: use hard or graceful")),
    }
}

/// How guests are identified by their network interfaces; None for identification by address.
fn tap_settings(
    args: &HostRunArgs,
    file: &ConfigFile,
    driver: HostDriver,
    socket: &Path,
) -> Result<Option<TapSettings>, String> {
    let mask = args.mark_mask.as_ref().or(file.mark_mask.as_ref()).map(|text| text.parse()).transpose()?;
    match args.guests_by.as_deref().or(file.guests_by.as_deref()).unwrap_or("address") {
        "address" => Ok(None),
        "mark" if matches!(driver, HostDriver::Simulated | HostDriver::Qemu) => {
            Err("--guests-by mark needs libvirt, which knows the network interfaces of machines: use --driver libvirt"
                .into())
        }
        "mark" => Ok(Some(TapSettings { mask: mask.unwrap_or(MarkMask::DEFAULT), libvirt_socket: socket.to_owned() })),
        other => Err(format!("invalid value '{other}' for --guests-by: use address or mark")),
    }
}

/// Checks this computer. Fails if something must be fixed before an agent can work.
pub fn doctor(connection: &Connection, args: &HostRunArgs) -> Result<(), Failure> {
    let file = ConfigFile::read(args.config.as_deref()).unwrap_or_default();
    let (driver, options) = choose_driver(args, &file)?;
    let guests_by = args.guests_by.as_deref().or(file.guests_by.as_deref());
    let facts = forewarn_host::gather(&data(connection, &file), driver, options);
    let needs_marks = guests_by == Some("mark");
    let clock_ahead_ms = args.health.or(file.health).and_then(forewarn_host::read_clock_ahead);
    let findings = examine(&Facts { needs_marks, clock_ahead_ms, ..facts });
    let rows = findings.iter().map(|finding| {
        let color = match finding.verdict {
            Verdict::Good => None,
            Verdict::Limited => Some(Color::Yellow),
            Verdict::Bad => Some(Color::Red),
        };
        let verdict = finding.verdict.to_string();
        let verdict = color.map_or_else(|| Cell::new(&verdict), |color| Cell::colored(verdict.clone(), color));
        let fix = finding.fix.as_deref().unwrap_or_default();
        vec![Cell::new(&finding.check), verdict, Cell::new(&finding.detail), Cell::new(fix)]
    });
    output::print_table(&["CHECK", "RESULT", "DETAIL", "FIX"], &rows.collect::<Vec<_>>(), "")?;
    match findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count() {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{} failed", count_of(count, "check")))),
    }
}

fn data(connection: &Connection, file: &ConfigFile) -> PathBuf {
    connection.data.clone().or(file.data.clone()).unwrap_or_else(|| Path::new(DATA_DIRECTORY).to_owned())
}
