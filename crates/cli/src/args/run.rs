//! Arguments of `forewarn run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, FromArgMatches};
use forewarn_api_types::EventType;
use forewarn_config::{RawSetting, RawValue, SETTINGS, Setting, flag_argument, parse, read_flag};

/// Flags of `serve` that also apply to a temporary server.
const SERVER_FLAGS: &[&str] = &[
    "management",
    "clock",
    "clock-start",
    "notice-scale",
    "plain-names",
    "first-call-delay",
    "rate-limit",
    "max-user-operations",
    "update-domain-pause",
    "impact-live-migration",
    "impact-freeze",
    "impact-reboot",
    "impact-redeploy",
    "impact-hardware-failure",
    "impact-eviction",
    "impact-deletion",
    "log-level",
];

/// Limit of `--reach`: each port is a listener in the namespace and a file descriptor to pass.
const REACH_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// Print nothing on standard error.
    #[arg(short, long)]
    quiet: bool,
    /// Kill the program when this process dies, so that `check` leaves no handlers behind.
    #[arg(long, hide = true, value_name = "PID")]
    pub parent: Option<i32>,
    /// Program and its arguments, after --.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verbosity {
    Normal,
    Quiet,
}

impl RunArgs {
    pub fn verbosity(&self) -> Verbosity {
        if self.quiet { Verbosity::Quiet } else { Verbosity::Normal }
    }
}

/// Arguments of the companion process.
#[derive(Debug, clap::Args)]
pub struct CompanionArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// Set once the companion is detached from its parent.
    #[arg(long)]
    pub detached: bool,
}

#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    pub vm: Option<String>,
    pub reach: Vec<u16>,
    pub schedule: Option<EventType>,
    pub server: Option<String>,
    pub metadata: Option<String>,
    pub data: Option<PathBuf>,
    pub token: Option<String>,
    pub flags: Vec<RawSetting>,
}

#[derive(Debug, clap::Args)]
struct RunFlags {
    /// Machine that the program runs as [default: this host's name].
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Port on 127.0.0.1 to make reachable for the program; repeatable.
    #[arg(long, value_name = "PORT", value_parser = parse::port)]
    reach: Vec<u16>,
    /// Event to schedule before the program starts, with the notice period of its type (5 minutes for Terminate).
    #[arg(long, value_name = "TYPE", ignore_case = true, value_parser = parse::word::<EventType>())]
    schedule: Option<EventType>,
    /// Address of the management API [default: start a temporary server].
    #[arg(long, help_heading = "Existing server", env = "FOREWARN_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Address of the metadata endpoint [default: as reported by the server].
    #[arg(long, help_heading = "Existing server", value_name = "URL", requires = "server")]
    metadata: Option<String>,
    /// Data directory of the server, from which the token is read.
    #[arg(long, help_heading = "Existing server", env = "FOREWARN_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// Token to use instead of the one in the data directory.
    #[arg(
        long,
        help_heading = "Existing server",
        env = "FOREWARN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

fn server_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| SERVER_FLAGS.contains(&setting.flag))
}

/// The flag of `serve`, with the defaults of a temporary server.
fn temporary_server_argument(setting: &'static Setting) -> Arg {
    match setting.flag {
        "management" => flag_argument(setting)
            .help("Address of the management API, metrics and health checks [default: a free port on 127.0.0.1]"),
        "log-level" => flag_argument(setting).help("Log level [default: error]"),
        _ => flag_argument(setting),
    }
}

impl clap::Args for RunOptions {
    fn augment_args(command: Command) -> Command {
        let flags =
            server_settings().map(|setting| temporary_server_argument(setting).help_heading("Temporary server"));
        RunFlags::augment_args(command).args(flags)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let RunFlags { vm, reach, schedule, server, metadata, data, token } = RunFlags::from_arg_matches(matches)?;
        if reach.len() > REACH_MAX {
            let message = format!("--reach can be given at most {REACH_MAX} times\n");
            return Err(clap::Error::raw(clap::error::ErrorKind::TooManyValues, message));
        }
        let flags = server_settings().filter_map(|setting| read_flag(setting, matches)).collect();
        let server = server.filter(|server| !server.is_empty());
        Ok(RunOptions { vm, reach, schedule, server, metadata, data, token, flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RunOptions {
    /// The options as command-line arguments, except for the token.
    pub fn to_arguments(&self) -> Vec<OsString> {
        let word = |flag: &str, text: &str| OsString::from(format!("--{flag}={text}"));
        let mut words: Vec<OsString> = self.vm.iter().map(|name| word("vm", name)).collect();
        words.extend(self.reach.iter().map(|port| word("reach", &port.to_string())));
        words.extend(self.schedule.iter().map(|kind| word("schedule", &format!("{kind:?}"))));
        // Passed even when empty, to override FOREWARN_SERVER in the environment.
        words.push(word("server", self.server.as_deref().unwrap_or_default()));
        words.extend(self.metadata.iter().map(|url| word("metadata", url)));
        words.extend(self.data.iter().flat_map(|data| ["--data".into(), data.clone().into_os_string()]));
        for given in &self.flags {
            let texts = given.values.iter().filter_map(|value| match value {
                RawValue::Text(text) => Some(text),
                RawValue::Table(_) => None,
            });
            let flag = SETTINGS.iter().find(|setting| setting.key == given.key).map_or("", |setting| setting.flag);
            words.extend(texts.map(|text| word(flag, text)));
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn options_survive_a_round_trip_through_arguments() {
        let typed = [
            "x",
            "--vm",
            "web_0",
            "--reach",
            "5432",
            "--schedule",
            "reboot",
            "--notice-scale",
            "60",
            "--plain-names",
            "--clock=manual",
        ];
        let read = |words: &[OsString]| {
            let matches = RunOptions::augment_args(Command::new("x")).try_get_matches_from(words).unwrap();
            RunOptions::from_arg_matches(&matches).unwrap()
        };
        let once = read(&typed.map(OsString::from));
        let words: Vec<OsString> = std::iter::once("x".into()).chain(once.to_arguments()).collect();
        assert_eq!(format!("{:?}", read(&words)), format!("{once:?}"));
        assert_eq!((once.vm.as_deref(), once.reach.as_slice(), once.flags.len()), (Some("web_0"), &[5432][..], 3));
    }
}
