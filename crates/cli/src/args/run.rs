//! What is typed at `forewarn run`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, FromArgMatches};

use super::EventType;
use super::serve::{flag, given};
use crate::config::{RawSetting, RawValue, SETTINGS, Setting};
use crate::parse;

/// Settings of `serve` that make sense for a server that is thrown away.
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

/// Each is a listener inside and one of the files that are handed over.
const REACH_MAX: usize = 64;

#[derive(Debug, clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// Say nothing on standard error.
    #[arg(short, long)]
    quiet: bool,
    /// The program and its arguments, behind --.
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

/// What the process beside the program is started with.
#[derive(Debug, clap::Args)]
pub struct CompanionArgs {
    #[command(flatten)]
    pub options: RunOptions,
    /// It has no parent any more.
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
    /// Which machine the program is; without it the one that is called like this computer.
    #[arg(long, value_name = "NAME")]
    vm: Option<String>,
    /// Let the program reach this port of 127.0.0.1 outside, at the same address; may be repeated.
    #[arg(long, value_name = "PORT", value_parser = parse::port)]
    reach: Vec<u16>,
    /// Announce an event before the program starts, with the notice that its type has; a Terminate has five minutes.
    #[arg(long, value_name = "TYPE", ignore_case = true)]
    schedule: Option<EventType>,
    /// The management address of a server that runs; without it one is started for the program.
    #[arg(long, help_heading = "A server that runs", env = "FOREWARN_SERVER", value_name = "URL")]
    server: Option<String>,
    /// Where that server's machines ask; without it the server is asked.
    #[arg(long, help_heading = "A server that runs", value_name = "URL", requires = "server")]
    metadata: Option<String>,
    /// That server's data directory, where the token is.
    #[arg(long, help_heading = "A server that runs", env = "FOREWARN_DATA", value_name = "DIR")]
    data: Option<PathBuf>,
    /// The token itself.
    #[arg(
        long,
        help_heading = "A server that runs",
        env = "FOREWARN_TOKEN",
        value_name = "TOKEN",
        hide_env_values = true
    )]
    token: Option<String>,
}

fn server_settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| SERVER_FLAGS.contains(&setting.flag))
}

/// As for `serve`, but for what is otherwise when nothing is said.
fn argument(setting: &'static Setting) -> Arg {
    match setting.flag {
        "management" => flag(setting).help("Where its management API is [default: a free port of 127.0.0.1]"),
        "log-level" => flag(setting).help("What it logs on standard error [default: error]"),
        _ => flag(setting),
    }
}

impl clap::Args for RunOptions {
    fn augment_args(command: Command) -> Command {
        let flags = server_settings().map(|setting| argument(setting).help_heading("The server that is started"));
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
            let message = format!("--reach may be given {REACH_MAX} times.\n");
            return Err(clap::Error::raw(clap::error::ErrorKind::TooManyValues, message));
        }
        let flags = server_settings().filter_map(|setting| given(setting, matches)).collect();
        let server = server.filter(|server| !server.is_empty());
        Ok(RunOptions { vm, reach, schedule, server, metadata, data, token, flags })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RunOptions {
    /// The same as words of a command line, but for the token.
    pub fn words(&self) -> Vec<OsString> {
        let word = |flag: &str, text: &str| OsString::from(format!("--{flag}={text}"));
        let mut words: Vec<OsString> = self.vm.iter().map(|name| word("vm", name)).collect();
        words.extend(self.reach.iter().map(|port| word("reach", &port.to_string())));
        words.extend(self.schedule.iter().map(|kind| word("schedule", &format!("{kind:?}"))));
        // Said also when it is empty, so that the environment does not say otherwise.
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
    fn options_are_the_same_when_they_are_typed_again() {
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
        let words: Vec<OsString> = std::iter::once("x".into()).chain(once.words()).collect();
        assert_eq!(format!("{:?}", read(&words)), format!("{once:?}"));
        assert_eq!((once.vm.as_deref(), once.reach.as_slice(), once.flags.len()), (Some("web_0"), &[5432][..], 3));
    }
}
