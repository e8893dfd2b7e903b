//! Flags of `forewarn serve`, generated from the table of settings.

use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches, value_parser};

use crate::choices::Choices;
use crate::raw::{Origin, RawSetting, RawValue};
use crate::settings::{SETTINGS, Setting, Shape};

#[derive(Clone, Debug, Default)]
pub struct ServeArgs {
    pub config: Option<PathBuf>,
    pub print_config: bool,
    pub flags: Vec<RawSetting>,
}

const ABOUT: &str = "Run the server.\n\n\
    Flags override environment variables (FOREWARN_NOTICE_SCALE for --notice-scale), which override the configuration file.";

impl clap::Args for ServeArgs {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .env("FOREWARN_CONFIG")
            .value_parser(value_parser!(PathBuf))
            .help("Configuration file [default: forewarn.toml in the data directory, if present]");
        let print = Arg::new("print-config")
            .long("print-config")
            .action(ArgAction::SetTrue)
            .help("Print the effective configuration and exit");
        command.long_about(ABOUT).arg(config).arg(print).args(SETTINGS.iter().map(flag_argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

pub fn flag_argument(setting: &'static Setting) -> Arg {
    let arg = Arg::new(setting.flag).long(setting.flag).help(format!("{}{}", setting.help, default_text(setting)));
    match setting.shape {
        // `-1` is a value that is out of range, not a flag.
        Shape::One => arg.value_name(setting.value_name).allow_negative_numbers(true),
        Shape::Many => arg.value_name(setting.value_name).action(ArgAction::Append).allow_hyphen_values(true),
        Shape::Switch => {
            arg.value_name("true|false").num_args(0..=1).require_equals(true).default_missing_value("true")
        }
    }
}

/// Defaults are only text: a default known to clap would override the environment and the file.
fn default_text(setting: &Setting) -> String {
    match (setting.show)(&Choices::default()) {
        Some(toml::Value::String(text)) => format!(" [default: {text}]"),
        Some(toml::Value::Integer(number)) => format!(" [default: {number}]"),
        _ => String::new(),
    }
}

impl FromArgMatches for ServeArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(ServeArgs {
            config: matches.get_one::<PathBuf>("config").cloned(),
            print_config: matches.get_flag("print-config"),
            flags: SETTINGS.iter().filter_map(|setting| read_flag(setting, matches)).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

pub fn read_flag(setting: &Setting, matches: &ArgMatches) -> Option<RawSetting> {
    let values = matches.get_many::<String>(setting.flag)?;
    Some(RawSetting {
        key: setting.key.into(),
        origin: Origin::Flag(setting.flag.into()),
        values: values.map(|text| RawValue::Text(text.clone())).collect(),
    })
}
