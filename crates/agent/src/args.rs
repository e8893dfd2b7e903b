//! What was typed. By hand, because a parser of arguments would be the largest part of the binary.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use forewarn_client::Kind;

use crate::config::{parse_address, parse_span};
use crate::policy::known_kind;

pub const HELP: &str = "\
Runs hooks and actions for Scheduled Events of this machine, and approves them.

Usage: forewarn-agent [run|test|status] [FLAGS]

  run      watch, run hooks and actions, approve (also when no command is given)
  test     run them for a made-up event; nothing is approved or recorded
  status   show what the agent has recorded

      --config FILE     TOML; /etc/forewarn-agent/agent.toml when it is there
      --endpoint URL    the service, without /metadata; looked for when not given
      --ask-dhcp        asks by DHCP where the service is, when nothing else helped
      --hooks DIR       executables; default /etc/forewarn-agent/hooks
      --state DIR       made when missing; default /var/lib/forewarn-agent
      --interval TIME   from one poll to the next; default 1s
      --no-wait         polls also where the service could hold the request
      --metrics ADDR    metrics and health, such as 127.0.0.1:9137; off when not given
      --name NAME       of this machine, instead of compute.name
      --type TYPE       of the event of `test`; default Reboot
  -h, --help
  -V, --version
";

#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    Run,
    Test {
        kind: Kind,
    },
    Status,
    /// How the agent starts itself for its own actions; not for people.
    Act,
    Help,
    Version,
}

/// What is also in the file, and wins over it.
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
}

/// The arguments, without the name of the program.
pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<(Command, Flags)> {
    let mut flags = Flags::default();
    let (mut command, mut kind) = (None, None);
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let word = arg.to_str().map(str::to_owned).with_context(|| format!("{arg:?} is not a flag"))?;
        let (flag, attached) = match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => (flag.to_owned(), Some(OsString::from(value))),
            _ => (word.clone(), None),
        };
        if attached.is_some() && !TAKES_VALUE.contains(&flag.as_str()) {
            bail!("{flag} is not a flag that takes a value; see --help");
        }
        let mut value = || attached.clone().or_else(|| args.next()).with_context(|| format!("{flag} needs a value"));
        match flag.as_str() {
            "-h" | "--help" => return Ok((Command::Help, flags)),
            "-V" | "--version" => return Ok((Command::Version, flags)),
            "--config" => flags.config = Some(value()?.into()),
            "--endpoint" => flags.endpoint = Some(text(value()?)?),
            "--ask-dhcp" => flags.ask_dhcp = true,
            "--hooks" => flags.hooks = Some(value()?.into()),
            "--state" => flags.state = Some(value()?.into()),
            "--interval" => flags.interval = Some(span(&text(value()?)?)?),
            "--no-wait" => flags.no_wait = true,
            "--metrics" => flags.metrics = Some(parse_address(&text(value()?)?).map_err(Error::msg)?),
            "--name" => flags.name = Some(text(value()?)?),
            "--type" => kind = Some(known_kind(&text(value()?)?).map_err(Error::msg)?),
            "run" | "test" | "status" | "act" if command.is_none() => command = Some(flag),
            _ => bail!("{word} is neither a flag nor one of run, test, status; see --help"),
        }
    }
    let command = match (command.as_deref(), kind) {
        (Some("test"), kind) => Command::Test { kind: kind.unwrap_or(Kind::Reboot) },
        (_, Some(_)) => bail!("--type is only for `test`"),
        (Some("status"), None) => Command::Status,
        (Some("act"), None) => Command::Act,
        (_, None) => Command::Run,
    };
    Ok((command, flags))
}

const TAKES_VALUE: [&str; 8] =
    ["--config", "--endpoint", "--hooks", "--state", "--interval", "--metrics", "--name", "--type"];

fn text(value: OsString) -> Result<String> {
    value.into_string().map_err(|value| anyhow!("{value:?} is not text"))
}

fn span(text: &str) -> Result<Duration> {
    parse_span(text).with_context(|| format!("'{text}' is not a time such as `500ms`, `10s`, `5m`"))
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
    fn what_can_be_typed() {
        check("", "(Run, ");
        check("run --no-wait", "no_wait: true");
        check("--ask-dhcp", "ask_dhcp: true");
        check("test", "(Test { kind: Reboot }");
        check("test --type preempt", "(Test { kind: Preempt }");
        check("test --type X", "X is not a type of event; there are Freeze, Reboot, Redeploy, Preempt, Terminate");
        check("--type Reboot", "--type is only for `test`");
        check("status --state=/x", r#"state: Some("/x")"#);
        check("--metrics=127.0.0.1:9137", "metrics: Some(127.0.0.1:9137)");
        check("--metrics 9137", "'9137' is not an address such as 127.0.0.1:9137");
        check("--interval 5", "'5' is not a time");
        check("--name", "--name needs a value");
        check("--no-wait=yes", "--no-wait is not a flag that takes a value");
        check("watch", "watch is neither a flag nor one of run, test, status");
        check("run status", "status is neither a flag nor one of");
    }
}
