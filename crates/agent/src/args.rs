//! Command-line arguments. Parsed by hand, because an argument parser would be the largest part of the binary.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use forewarn_client::EventKind;

use crate::policy::parse_known_kind;
use crate::values::{parse_address, parse_span};

pub const HELP: &str = "\
Run hooks and built-in actions for Scheduled Events that affect this machine, and approve the events

Usage: forewarn-agent [run|test|status] [OPTIONS]

Commands:
  run      Watch for events, run hooks and actions, approve events [default]
  test     Run hooks and actions for a sample event; approve and record nothing
  status   Show the recorded events

Options:
      --config FILE     Configuration file (TOML) [default: /etc/forewarn-agent/agent.toml, if it exists]
      --endpoint URL    Base URL of the service, without /metadata; several servers of a cluster separated by
                        commas [default: discovered]
      --ask-dhcp        Query DHCP for the service if nothing else finds it
      --hooks DIR       Directory with hooks [default: /etc/forewarn-agent/hooks, if it exists]
      --state DIR       State directory, created if missing [default: /var/lib/forewarn-agent]
      --interval TIME   Interval between polls [default: 1s]
      --no-wait         Disable long polling
      --metrics ADDR    Address for metrics and health, such as 127.0.0.1:9137 [default: off]
      --name NAME       Name of this machine [default: compute.name of the service]
      --approve-without-hooks
                        Start even if no hook or action is configured: every event is approved immediately
      --type TYPE       Event type for `test` [default: Reboot]
  -h, --help            Print help
  -V, --version         Print version
";

#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Run,
    Test {
        kind: EventKind,
    },
    Status,
    /// Internal: how the agent starts itself to perform an action.
    Act,
    Help,
    Version,
}

/// Settings from the command line. They override the configuration file.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub config: Option<PathBuf>,
    pub endpoint: Option<String>,
    pub ask_dhcp: bool,
    pub hooks: Option<PathBuf>,
    pub state: Option<PathBuf>,
    pub interval: Option<Duration>,
    pub no_wait: bool,
    pub metrics: Option<SocketAddr>,
    pub name: Option<String>,
    pub approve_without_hooks: bool,
}

/// Parses the arguments, without the program name.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Command, Flags)> {
    let mut flags = Flags::default();
    let (mut command, mut kind) = (None, None);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let word =
            arg.to_str().map(str::to_owned).with_context(|| format!("invalid argument {arg:?}: not valid UTF-8"))?;
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(OsString::from(value))),
            _ => (word.clone(), None),
        };
        if attached.is_some() && !TAKES_VALUE.contains(&flag.as_str()) {
            bail!("{flag} does not take a value; see --help");
        }
        let mut value = || attached.clone().or_else(|| args.next()).with_context(|| format!("{flag} requires a value"));
        match flag.as_str() {
            "-h" | "--help" => return Ok((Command::Help, flags)),
            "-V" | "--version" => return Ok((Command::Version, flags)),
            "--config" => flags.config = Some(value()?.into()),
            "--endpoint" => flags.endpoint = Some(to_text(value()?)?),
            "--ask-dhcp" => flags.ask_dhcp = true,
            "--hooks" => flags.hooks = Some(value()?.into()),
            "--state" => flags.state = Some(value()?.into()),
            "--interval" => flags.interval = Some(parse_span(&to_text(value()?)?).map_err(Error::msg)?),
            "--no-wait" => flags.no_wait = true,
            "--metrics" => flags.metrics = Some(parse_address(&to_text(value()?)?).map_err(Error::msg)?),
            "--name" => flags.name = Some(to_text(value()?)?),
            "--approve-without-hooks" => flags.approve_without_hooks = true,
            "--type" => kind = Some(parse_known_kind(&to_text(value()?)?).map_err(Error::msg)?),
            "run" | "test" | "status" | "act" if command.is_none() => command = Some(flag),
            _ => bail!("unknown argument '{word}'; see --help"),
        }
    }
    let command = match (command.as_deref(), kind) {
        (Some("test"), kind) => Command::Test { kind: kind.unwrap_or(EventKind::Reboot) },
        (_, Some(_)) => bail!("--type is only valid with `test`"),
        (Some("status"), None) => Command::Status,
        (Some("act"), None) => Command::Act,
        (_, None) => Command::Run,
    };
    Ok((command, flags))
}

const TAKES_VALUE: [&str; 8] =
    ["--config", "--endpoint", "--hooks", "--state", "--interval", "--metrics", "--name", "--type"];

fn to_text(value: OsString) -> Result<String> {
    value.into_string().map_err(|value| anyhow!("invalid value {value:?}: not valid UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(line: &str, expected: &str) {
        let found = match parse(line.split_whitespace().map(OsString::from)) {
            Ok(parsed) => format!("{parsed:?}"),
            Err(error) => error.to_string(),
        };
        assert!(found.contains(expected), "{line}: {found}");
    }

    #[test]
    fn commands_and_options_are_parsed() {
        check("", "(Run, ");
        check("run --no-wait", "no_wait: true");
        check("--ask-dhcp", "ask_dhcp: true");
        check("test", "(Test { kind: Reboot }");
        check("test --type preempt", "(Test { kind: Preempt }");
        check("test --type X", "unknown event type 'X': use Freeze, Reboot, Redeploy, Preempt or Terminate");
        check("--type Reboot", "--type is only valid with `test`");
        check("status --state=/x", r#"state: Some("/x")"#);
        check("--metrics=127.0.0.1:9137", "metrics: Some(127.0.0.1:9137)");
        check("--metrics 9137", "invalid address '9137': use IP:PORT, such as 127.0.0.1:9137");
        check("--interval 5", "invalid duration '5'");
        check("--name", "--name requires a value");
        check("--no-wait=yes", "--no-wait does not take a value");
        check("watch", "unknown argument 'watch'; see --help");
        check("run status", "unknown argument 'status'");
    }
}
