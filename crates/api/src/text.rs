//! Texts and numbers with limits, checked as they are read, so that the OpenAPI document and the server
//! agree on what is taken.

use std::collections::BTreeMap;
use std::net::IpAddr;

use forewarn_core::Name;
use forewarn_core::settings::{DESCRIPTION_BYTES_MAX, NAME_BYTES_MAX};
use serde::de::{Deserialize, Deserializer, Error as _};
use serde::ser::{Serialize, Serializer};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{ObjectBuilder, OneOfBuilder, Schema, SchemaFormat, Type};
use utoipa::{PartialSchema, ToSchema};

/// Tags of one machine, and the characters of their parts, as the original allows.
pub const TAGS_MAX: usize = 50;
pub const TAG_KEY_CHARS_MAX: usize = 512;
pub const TAG_VALUE_CHARS_MAX: usize = 256;

/// A text that no rule reads, such as a size or a location.
pub const TEXT_CHARS_MAX: usize = 256;

/// The largest whole number that every reader of JSON keeps exact.
pub const NUMBER_MAX: u64 = (1 << 53) - 1;

/// The name of something: of a machine, a group, a host, a zone, a network. The core takes more; what
/// is made through this API can be written in a path and on a command line as it is.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Word(pub String);

impl Word {
    pub const PATTERN: &'static str = r"^[A-Za-z0-9_.()-]{1,128}$";

    pub fn new(text: String) -> Result<Word, String> {
        let fits = (1..=NAME_BYTES_MAX).contains(&text.len());
        let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.()-".contains(&byte));
        match fits && plain {
            true => Ok(Word(text)),
            false => Err(format!(
                "'{}' is not a name. Write 1 to {NAME_BYTES_MAX} letters, digits, '_', '.', '(', ')' or '-'",
                text.chars().take(NAME_BYTES_MAX).collect::<String>()
            )),
        }
    }
}

impl From<Word> for Name {
    fn from(word: Word) -> Name {
        word.0.into()
    }
}

impl<'de> Deserialize<'de> for Word {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Word::new(String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// A short text for people.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Text(pub String);

const _: () = assert!(TEXT_CHARS_MAX * 4 <= DESCRIPTION_BYTES_MAX, "a text fits a description");

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text.chars().count() > TEXT_CHARS_MAX {
            return Err(D::Error::custom(format!("the text may have {TEXT_CHARS_MAX} characters")));
        }
        Ok(Text(text))
    }
}

/// A whole number, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(pub u64);

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match u64::deserialize(deserializer)? {
            number if number > NUMBER_MAX => Err(D::Error::custom(format!("the number may be {NUMBER_MAX}"))),
            number => Ok(Number(number)),
        }
    }
}

/// An address, of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip(pub IpAddr);

impl Serialize for Ip {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Ip {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let wrong = |_| D::Error::custom(format!("'{text}' is not an address. Write one like 10.0.0.4 or fd00::4"));
        text.parse().map(Ip).map_err(wrong)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(transparent)]
pub struct Tags(pub BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Tags {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let tags = BTreeMap::<String, String>::deserialize(deserializer)?;
        if tags.len() > TAGS_MAX {
            return Err(D::Error::custom(format!("there may be {TAGS_MAX} tags")));
        }
        let fits = |(key, value): (&String, &String)| {
            (1..=TAG_KEY_CHARS_MAX).contains(&key.chars().count()) && value.chars().count() <= TAG_VALUE_CHARS_MAX
        };
        if !tags.iter().all(fits) {
            return Err(D::Error::custom(format!(
                "a tag's name has 1 to {TAG_KEY_CHARS_MAX} characters, its value up to {TAG_VALUE_CHARS_MAX}"
            )));
        }
        Ok(Tags(tags))
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

fn format(name: &str) -> ObjectBuilder {
    text().format(Some(SchemaFormat::Custom(name.to_owned())))
}

schema!(Word, text().pattern(Some(Word::PATTERN)));
schema!(Text, text().max_length(Some(TEXT_CHARS_MAX)));
schema!(Number, ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(0)).maximum(Some(NUMBER_MAX as i64)));
schema!(Ip, OneOfBuilder::new().item(format("ipv4")).item(format("ipv6")));
schema!(
    Tags,
    ObjectBuilder::new()
        .property_names(Some(text().min_length(Some(1)).max_length(Some(TAG_KEY_CHARS_MAX)).build()))
        .additional_properties(Some(text().max_length(Some(TAG_VALUE_CHARS_MAX))))
        .max_properties(Some(TAGS_MAX))
);
