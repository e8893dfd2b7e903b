//! Errors of the configuration: an invalid value, and the message that names its origin.

use std::fmt;

use forewarn_api_client::failure::Failure;

/// A message: what is wrong with the configuration, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub struct ConfigError(pub String);

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ConfigError {}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::Usage(error.0)
    }
}

/// Why a value is invalid. The caller adds the origin.
#[derive(Debug)]
pub enum ValueError {
    /// Description of a valid value.
    Expected(String),
    /// The same for a field of a table.
    Field { name: String, text: String, line: usize, expected: String },
    /// The table has no such field.
    Unknown { name: String, line: usize, known: &'static str },
}

impl ValueError {
    pub fn expected(expected: impl Into<String>) -> ValueError {
        ValueError::Expected(expected.into())
    }

    pub fn unknown(name: &str, known: &'static str, line: usize) -> ValueError {
        ValueError::Unknown { name: name.into(), line, known }
    }

    pub fn in_field(self, name: &str, text: &str, line: usize) -> ValueError {
        match self {
            ValueError::Expected(expected) => {
                ValueError::Field { name: name.into(), text: text.into(), line, expected }
            }
            other => other,
        }
    }
}

impl From<String> for ValueError {
    fn from(expected: String) -> ValueError {
        ValueError::Expected(expected)
    }
}

impl From<&str> for ValueError {
    fn from(expected: &str) -> ValueError {
        ValueError::Expected(expected.into())
    }
}
