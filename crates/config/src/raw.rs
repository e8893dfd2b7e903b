//! Raw settings and their origins: a line of the file, an environment variable or a flag. Values are not interpreted
//! here.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::ConfigError;

/// One setting from one source.
#[derive(Clone, Debug)]
pub struct RawSetting {
    /// Key as in the file, such as `driver.kind`.
    pub key: String,
    pub origin: Origin,
    pub values: Vec<RawValue>,
}

#[derive(Clone, Debug)]
pub enum RawValue {
    Text(String),
    /// One table in a list of tables.
    Table(Vec<Field>),
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: String,
    pub text: String,
    pub line: usize,
}

/// The origin of a value, displayed at the start of error messages.
#[derive(Clone, Debug)]
pub enum Origin {
    File { path: PathBuf, line: usize, key: String },
    Environment(String),
    Flag(String),
}

impl Origin {
    /// The same file with another line and key.
    pub fn at(&self, new_line: usize, new_key: &str) -> Origin {
        match self {
            Origin::File { path, .. } => Origin::File { path: path.clone(), line: new_line, key: new_key.into() },
            other => other.clone(),
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line, key } => write!(f, "{}, line {line}: {key}", path.display()),
            Origin::Environment(name) => write!(f, "{name}"),
            Origin::Flag(name) => write!(f, "--{name}"),
        }
    }
}

/// Reads all settings of a file, in order.
pub fn file(path: &Path, text: &str) -> Result<Vec<RawSetting>, ConfigError> {
    let source = TomlSource { path, text };
    let document = DeTable::parse(text).map_err(|error| source.not_toml(&error))?;
    let mut given = Vec::new();
    source.table("", document.get_ref(), &mut given)?;
    Ok(given)
}

struct TomlSource<'a> {
    path: &'a Path,
    text: &'a str,
}

impl TomlSource<'_> {
    fn table(&self, prefix: &str, table: &DeTable<'_>, given: &mut Vec<RawSetting>) -> Result<(), ConfigError> {
        for (name, value) in table {
            let key = format!("{prefix}{}", name.get_ref());
            let line = self.line(name.span().start);
            match value.get_ref() {
                // An empty table sets nothing, but its name can be wrong.
                DeValue::Table(inner) if inner.is_empty() => {
                    given.push(RawSetting { origin: self.origin(line, &key), key, values: Vec::new() });
                }
                DeValue::Table(inner) => self.table(&format!("{key}."), inner, given)?,
                DeValue::Array(items) => {
                    let values = items.iter().map(|item| self.item(&key, item)).collect::<Result<_, _>>()?;
                    given.push(RawSetting { origin: self.origin(line, &key), key, values });
                }
                _ => {
                    let values = vec![RawValue::Text(self.scalar(&key, value)?)];
                    given.push(RawSetting { origin: self.origin(line, &key), key, values });
                }
            }
        }
        Ok(())
    }

    fn item(&self, key: &str, item: &Spanned<DeValue<'_>>) -> Result<RawValue, ConfigError> {
        let DeValue::Table(table) = item.get_ref() else {
            return Ok(RawValue::Text(self.scalar(key, item)?));
        };
        let field = |(name, value): (&Spanned<_>, _)| {
            let name_text = AsRef::<str>::as_ref(name.get_ref()).to_owned();
            let text = self.scalar(&format!("{key}.{name_text}"), value)?;
            Ok(Field { name: name_text, text, line: self.line(name.span().start) })
        };
        Ok(RawValue::Table(table.iter().map(field).collect::<Result<_, ConfigError>>()?))
    }

    fn scalar(&self, key: &str, value: &Spanned<DeValue<'_>>) -> Result<String, ConfigError> {
        Ok(match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            DeValue::Boolean(value) => value.to_string(),
            DeValue::Datetime(time) => time.to_string(),
            DeValue::Array(_) | DeValue::Table(_) => {
                let origin = self.origin(self.line(value.span().start), key);
                return Err(ConfigError(format!("{origin}: expected a single value, not a list or a table")));
            }
        })
    }

    fn not_toml(&self, error: &toml::de::Error) -> ConfigError {
        let line = error.span().map_or(1, |span| self.line(span.start));
        let what = error.message().trim_end_matches('.').replace('\n', ", ");
        ConfigError(format!("{}, line {line}: invalid TOML: {what}", self.path.display()))
    }

    fn origin(&self, line: usize, key: &str) -> Origin {
        Origin::File { path: self.path.into(), line, key: key.into() }
    }

    fn line(&self, offset: usize) -> usize {
        1 + self.text.as_bytes()[..offset.min(self.text.len())].iter().filter(|byte| **byte == b'\n').count()
    }
}
