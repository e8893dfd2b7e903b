//! Strings and numbers with limits that are checked when they are read, so that the OpenAPI document and the server agree.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// Length of a name.
pub const NAME_BYTES_MAX: usize = 128;

/// Tags of one machine and the lengths of their keys and values, as in Azure.
pub const TAGS_MAX: usize = 50;
pub const TAG_KEY_CHARS_MAX: usize = 512;
pub const TAG_VALUE_CHARS_MAX: usize = 256;

/// Length of a string that no rule reads, such as a size or a location.
pub const TEXT_CHARS_MAX: usize = 256;

/// The largest integer that every JSON parser represents exactly.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The name of a machine, group, host, zone or network. Stricter than the rules: names created through this API need no
/// escaping in paths and on command lines.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct ResourceName(pub String);

impl ResourceName {
    pub const PATTERN: &'static str = r"^[A-Za-z0-9_.()-]{1,128}$";

    pub fn new(text: String) -> Result<ResourceName, String> {
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
        let is_plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.()-".contains(&byte));
        match fits && is_plain {
            true => Ok(ResourceName(text)),
            false => Err(format!(
                "'{}' is not a valid name. Use 1 to {NAME_BYTES_MAX} letters, digits, '_', '.', '(', ')' or '-'",
                text.chars().take(NAME_BYTES_MAX).collect::<String>()
            )),
        }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ResourceName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        ResourceName::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A short description on one line: it reaches environment variables and logs, where control characters do harm.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(D::Error::custom(format!("the text is longer than {TEXT_CHARS_MAX} characters")));
        }
        if text.contains(char::is_control) {
            return Err(D::Error::custom(format!(
                "the text {text:?} contains control characters. Write it on one line"
            )));
        }
        Ok(Text(text))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A non-negative integer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Number(pub u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            number if number > NUMBER_MAX => Err(D::Error::custom(format!("the number is larger than {NUMBER_MAX}"))),
            number => Ok(Number(number)),
        }
    }
}

/// The memory of a machine in MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct MachineMemory(pub u32);

impl<'de> Deserialize<'de> for MachineMemory {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let too_large = |_| D::Error::custom(format!("the number is larger than {}", u32::MAX));
        u32::try_from(u64::deserialize(deserializer)?).map(MachineMemory).map_err(too_large)
    }
}

/// An IPv4 or IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

impl fmt::Display for Ip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Ip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Ip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let invalid = |_| D::Error::custom(format!("'{text}' is not an IP address. Use the form 10.0.0.4 or fd00::4"));
        text.parse().map(Ip).map_err(invalid)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tags = BTreeMap::<String, String>::deserialize(deserializer)?;
        if tags.len() > TAGS_MAX {
            return Err(D::Error::custom(format!("there are more than {TAGS_MAX} tags")));
        }
        let fits = |(key, value): (&String, &String)| {
            (1..=TAG_KEY_CHARS_MAX).contains(&key.chars().count()) && value.chars().count() <= TAG_VALUE_CHARS_MAX
        };
        if !tags.iter().all(fits) {
            return Err(D::Error::custom(format!(
                "the name of a tag must have 1 to {TAG_KEY_CHARS_MAX} characters and its value at most {TAG_VALUE_CHARS_MAX}"
            )));
        }
        let has_controls =
            |(key, value): (&String, &String)| [key, value].iter().any(|text| text.contains(char::is_control));
        if tags.iter().any(has_controls) {
            return Err(D::Error::custom("names and values of tags must not contain control characters"));
        }
        Ok(Tags(tags))
    }
}

impl Tags {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

macro_rules! schema {
    ($type:ty, $schema:expr) => {
        impl PartialSchema for $type {
            fn schema() -> RefOr<Schema> {
                $schema.into()
            }
        }
        impl ToSchema for $type {}
    };
}

fn text() -> ObjectBuilder {
    ObjectBuilder::new().schema_type(Type::String)
}

/// Texts without control characters.
const NO_CONTROLS: &str = r"^[^\x00-\x1F\x7F-\x9F]*$";

fn format(name: &str) -> ObjectBuilder {
    text().format(Some(SchemaFormat::Custom(name.to_owned())))
}

schema!(ResourceName, text().pattern(Some(ResourceName::PATTERN)));
schema!(Text, text().max_length(Some(TEXT_CHARS_MAX)).pattern(Some(NO_CONTROLS)));
schema!(Number, ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(NUMBER_MAX as i64)));
schema!(
    MachineMemory,
    ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(i64::from(u32::MAX)))
);
schema!(Ip, OneOfBuilder::new().item(format("ipv4")).item(format("ipv6")));
schema!(
    Tags,
    ObjectBuilder::new()
        .property_names(Some(
            text().min_length(Some(1)).max_length(Some(TAG_KEY_CHARS_MAX)).pattern(Some(NO_CONTROLS)).build()
        ))
        .additional_properties(Some(text().max_length(Some(TAG_VALUE_CHARS_MAX)).pattern(Some(NO_CONTROLS))))
        .max_properties(Some(TAGS_MAX))
);
