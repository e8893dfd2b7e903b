//! A field whose `null` differs from its absence: in a change, `null` removes a value.

use serde::de::{Deserialize, Deserializer};
use serde::ser::{Serialize, Serializer};

use crate::object::Object;

/// A field whose `null` differs from its absence. Use with `default` and `skip_serializing_if = "Nullable::is_absent"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Nullable<T> {
    #[default]
    Absent,
    Null,
    Value(T),
}

impl<T> Nullable<T> {
    pub fn is_absent(&self) -> bool {
        matches!(self, Nullable::Absent)
    }

    /// None keeps the value, Some(None) removes it.
    pub fn into_change(self) -> Option<Option<T>> {
        match self {
            Nullable::Absent => None,
            Nullable::Null => Some(None),
            Nullable::Value(value) => Some(Some(value)),
        }
    }

    /// The opposite of [`Nullable::into_change`].
    pub fn from_change(change: Option<Option<T>>) -> Nullable<T> {
        match change {
            None => Nullable::Absent,
            Some(None) => Nullable::Null,
            Some(Some(value)) => Nullable::Value(value),
        }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Nullable::Null, Nullable::Value))
    }
}

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Nullable::Absent | Nullable::Null => serializer.serialize_none(),
            Nullable::Value(value) => serializer.serialize_some(value),
        }
    }
}

impl<T> From<Nullable<Object<T>>> for Nullable<T> {
    fn from(field: Nullable<Object<T>>) -> Self {
        match field {
            Nullable::Absent => Nullable::Absent,
            Nullable::Null => Nullable::Null,
            Nullable::Value(Object(value)) => Nullable::Value(value),
        }
    }
}

/// For a field that is an object: `deserialize_with = "nullable_object"`.
pub fn nullable_object<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Nullable<T>, D::Error> {
    Nullable::<Object<T>>::deserialize(deserializer).map(Nullable::from)
}
