//! The configuration of `forewarn serve`. Flags override the environment, which overrides the file, which overrides the
//! defaults.
//!
//! ```text
//!  file ─┐
//!  env  ─┼─▶ RawSetting (key, origin, text) ─▶ Choices (one value per setting) ─▶ Config (of the server)
//!  flags ┘               raw                        choices, settings          to_config
//! ```
//!
//! This crate starts nothing. Its parsers also serve the other commands.

mod choices;
mod error;
mod executable;
mod flags;
mod listener;
mod oidc;
pub mod parse;
mod print;
mod raw;
mod settings;
#[cfg(test)]
mod tests;
mod tls;
mod to_config;

use std::path::{Path, PathBuf};
use std::{fs, io};

pub use choices::{Choices, LogFormat, data_directory};
pub use error::ConfigError;
pub use flags::{ServeArgs, flag_argument, read_flag};
pub use listener::parse_listeners;
pub use print::print;
pub use raw::{Origin, RawSetting, RawValue};
pub use settings::{SETTINGS, Setting, Shape};

use error::ValueError;

/// Name of the configuration file in the data directory.
pub const FILE_NAME: &str = "forewarn.toml";

/// Limit of the configuration file, which is read into memory.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// Variables of other commands, which are not settings.
const OTHER_VARIABLES: &[&str] = &["FOREWARN_CONFIG", "FOREWARN_SERVER", "FOREWARN_TOKEN"];

/// The sources of the configuration.
pub struct Sources {
    /// From `--config` or `FOREWARN_CONFIG`.
    pub file: Option<PathBuf>,
    pub environment: Vec<(String, String)>,
    pub flags: Vec<RawSetting>,
}

pub struct ResolvedConfig {
    pub choices: Choices,
    /// The file that was read.
    pub file: Option<PathBuf>,
    /// Variables with our prefix that are not settings. Container platforms create such names, so they are not an error.
    pub unknown_variables: Vec<String>,
}

pub fn read(sources: &Sources) -> Result<ResolvedConfig, ConfigError> {
    let (environment, unknown_variables) = from_environment(&sources.environment);
    let mut above = Choices::default();
    apply_all(&mut above, &environment)?;
    apply_all(&mut above, &sources.flags)?;
    let (file, from_file) = match find_file(sources, &above)? {
        Some((path, text)) => (Some(path.clone()), raw::file(&path, &text)?),
        None => (None, Vec::new()),
    };
    let mut choices = Choices::default();
    apply_all(&mut choices, &from_file)?;
    apply_all(&mut choices, &environment)?;
    apply_all(&mut choices, &sources.flags)?;
    choices.set_by_flag = sources.flags.iter().map(|given| given.key.clone()).collect();
    check_data_key(sources, &from_file)?;
    if !choices.memory {
        choices.data = Some(data_directory(choices.data)?);
    }
    Ok(ResolvedConfig { choices, file, unknown_variables })
}

fn apply_all(choices: &mut Choices, given: &[RawSetting]) -> Result<(), ConfigError> {
    given.iter().try_for_each(|one| apply(choices, one))
}

fn apply(choices: &mut Choices, given: &RawSetting) -> Result<(), ConfigError> {
    let origin = &given.origin;
    if given.values.is_empty() && is_table(&given.key) {
        return Ok(());
    }
    let setting = settings::by_key(&given.key).ok_or_else(|| unknown_key(origin, &given.key))?;
    (setting.put)(choices, &given.values).map_err(|fault| {
        ConfigError(match fault {
            ValueError::Expected(expected) => {
                format!("{origin}: invalid value {}: expected {expected}", quoted(&given.values))
            }
            ValueError::Field { name, text, line, expected } => {
                let origin = origin.at(line, &format!("{}.{name}", given.key));
                format!("{origin}: invalid value {text:?}: expected {expected}")
            }
            ValueError::Unknown { name, line, known } => {
                let origin = origin.at(line, &format!("{}.{name}", given.key));
                format!("{origin}: unknown setting; valid settings: {known}")
            }
        })
    })
}

fn quoted(values: &[RawValue]) -> String {
    let text = |value: &RawValue| match value {
        RawValue::Text(text) => format!("{text:?}"),
        RawValue::Table(_) => "a table".into(),
    };
    match values {
        [] => "\"\"".into(),
        [one] => text(one),
        many => format!("[{}]", many.iter().map(text).collect::<Vec<_>>().join(", ")),
    }
}

fn is_table(key: &str) -> bool {
    SETTINGS.iter().any(|setting| setting.key.strip_prefix(key).is_some_and(|rest| rest.starts_with('.')))
}

fn unknown_key(origin: &Origin, key: &str) -> ConfigError {
    let table = key.rsplit_once('.').map_or("", |(table, _)| table);
    if settings::by_key(table).is_some_and(|setting| setting.shape == Shape::Many) {
        return ConfigError(format!("{origin}: {table} is a list of tables; write [[{table}]] above it"));
    }
    let table_of = |setting: &Setting| setting.key.rsplit_once('.').map_or("", |(table, _)| table);
    let mut known: Vec<&str> = SETTINGS.iter().filter(|each| table_of(each) == table).map(|each| each.key).collect();
    if known.is_empty() {
        known = SETTINGS.iter().map(|each| each.key).collect();
    }
    ConfigError(format!("{origin}: unknown setting; valid settings: {}", known.join(", ")))
}

/// Settings from the environment, and unknown variables.
fn from_environment(variables: &[(String, String)]) -> (Vec<RawSetting>, Vec<String>) {
    let mut given = Vec::new();
    let mut unknown = Vec::new();
    for (name, text) in variables.iter().filter(|(name, _)| name.starts_with("FOREWARN_")) {
        match SETTINGS.iter().find(|setting| setting.variable() == *name) {
            Some(setting) => {
                let values = split(setting.shape, text);
                given.push(RawSetting { key: setting.key.into(), origin: Origin::Environment(name.clone()), values });
            }
            None if OTHER_VARIABLES.contains(&name.as_str()) => {}
            None => unknown.push(name.clone()),
        }
    }
    (given, unknown)
}

fn split(shape: Shape, text: &str) -> Vec<RawValue> {
    match shape {
        Shape::One | Shape::Switch => vec![RawValue::Text(text.into())],
        Shape::Many => text.split_whitespace().map(|part| RawValue::Text(part.into())).collect(),
    }
}

fn find_file(sources: &Sources, above: &Choices) -> Result<Option<(PathBuf, String)>, ConfigError> {
    if let Some(path) = &sources.file {
        let text = read_text(path).map_err(|error| {
            ConfigError(format!("cannot read {}: {error}; choose another file with --config", path.display()))
        })?;
        return Ok(Some((path.clone(), text)));
    }
    if above.memory {
        return Ok(None);
    }
    let path = data_directory(above.data.clone())?.join(FILE_NAME);
    match read_text(&path) {
        Ok(text) => Ok(Some((path, text))),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(ConfigError(format!("cannot read {}: {error}", path.display()))),
    }
}

fn read_text(path: &Path) -> io::Result<String> {
    if fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(io::Error::other("larger than 1 MiB"));
    }
    fs::read_to_string(path)
}

/// A file in the data directory cannot set the data directory.
fn check_data_key(sources: &Sources, from_file: &[RawSetting]) -> Result<(), ConfigError> {
    let data = from_file.iter().find(|given| given.key == "data" && sources.file.is_none());
    data.map_or(Ok(()), |given| {
        Err(ConfigError(format!(
            "{}: cannot be set in the file of the data directory; remove it, or use --config",
            given.origin
        )))
    })
}
