//! `forewarn host join`, `run` and `doctor`: the commands that run on a host. The agent itself is in `forewarn-host`.

use std::path::{Path, PathBuf};

use forewarn_connect::{Trust, parse_server};
use forewarn_host::doctor::{Verdict, examine};
use forewarn_host::{
    ConfigFile, DATA_DIRECTORY, HostConfig, HostDriver, Identity, LIBVIRT_SOCKET, RunningAgent, Timing,
};

use super::login::find_authority;
use crate::args::{Connection, HostJoinArgs, HostRunArgs, LoginArgs};
use crate::config::{self, Choices};
use crate::failure::Failure;
use crate::output::{self, Cell, Color};
use crate::serve::log_to_stderr;

/// Makes a key, has it certified with a token, and stores both.
pub fn join(connection: &Connection, args: &HostJoinArgs) -> Result<(), Failure> {
    let server = parse_server(&args.server)?;
    let token = connection.token.clone().ok_or_else(|| {
        Failure::Usage(
            "a join token is required: pass the one that `forewarn host token NAME` printed with --token".into(),
        )
    })?;
    let login = LoginArgs {
        server: server.clone(),
        name: None,
        ca: args.ca.clone(),
        fingerprint: args.fingerprint.clone(),
        token: None,
    };
    let trust = find_authority(&server, &login)?.map_or(Trust::System(None), Trust::Only);
    let joined = forewarn_host::join(&data(connection, &ConfigFile::default()), &server, &trust, &token);
    let identity = joined.map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let text = format!("Joined {} as host {}. Start the agent with: forewarn host run", identity.server, identity.host);
    output::print_line(&output::escape(&text))
}

pub fn run(connection: &Connection, args: &HostRunArgs) -> Result<(), Failure> {
    let usage = |error: anyhow::Error| Failure::Usage(format!("{error:#}"));
    let file = ConfigFile::read(args.config.as_deref()).map_err(usage)?;
    log_to_stderr(&Choices::default());
    let data = data(connection, &file);
    let identity = Identity::read(&data).map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let word = args.driver.clone().or(file.driver.clone()).unwrap_or_else(|| "libvirt".into());
    let socket = libvirt_socket(args.libvirt_socket.as_ref(), &file);
    let driver = HostDriver::parse(&word).map_err(usage)?;
    let driver = driver.open(&identity.host, &data, socket, file.pools.clone());
    let driver = driver.map_err(|error| Failure::Refused(format!("{error:#}")))?;
    let listeners = if args.metadata.is_empty() { &file.metadata } else { &args.metadata };
    let config = HostConfig {
        data,
        metadata: config::parse_listeners(listeners).map_err(Failure::Usage)?,
        health: args.health.or(file.health),
        plain_names: args.plain_names || file.plain_names,
        rate_limit: file.rate_limit,
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

/// Checks this computer. Fails if something must be fixed before an agent can work.
pub fn doctor(connection: &Connection, args: &HostRunArgs) -> Result<(), Failure> {
    let file = ConfigFile::read(args.config.as_deref()).unwrap_or_default();
    let socket = libvirt_socket(args.libvirt_socket.as_ref(), &file);
    let findings = examine(&forewarn_host::gather(&data(connection, &file), &socket));
    let rows = findings.iter().map(|finding| {
        let color = match finding.verdict {
            Verdict::Good => None,
            Verdict::Limited => Some(Color::Yellow),
            Verdict::Bad => Some(Color::Red),
        };
        let verdict = finding.verdict.to_string();
        let verdict = color.map_or_else(|| Cell::new(&verdict), |color| Cell::colored(verdict.clone(), color));
        let fix = finding.fix.as_deref().unwrap_or_default();
        vec![Cell::new(finding.check), verdict, Cell::new(&finding.detail), Cell::new(fix)]
    });
    output::print_table(&["CHECK", "RESULT", "DETAIL", "FIX"], &rows.collect::<Vec<_>>(), "")?;
    match findings.iter().filter(|finding| finding.verdict == Verdict::Bad).count() {
        0 => Ok(()),
        count => Err(Failure::Failed(format!("{count} checks failed"))),
    }
}

fn data(connection: &Connection, file: &ConfigFile) -> PathBuf {
    connection.data.clone().or(file.data.clone()).unwrap_or_else(|| Path::new(DATA_DIRECTORY).to_owned())
}

fn libvirt_socket(given: Option<&PathBuf>, file: &ConfigFile) -> PathBuf {
    given.or(file.libvirt_socket.as_ref()).cloned().unwrap_or_else(|| LIBVIRT_SOCKET.into())
}
