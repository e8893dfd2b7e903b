//! Decodes answers of the management API into the types that the commands use.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::failure::Failure;

/// Fails when the server answers in another shape, which means that it has another version.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, Failure> {
    T::deserialize(value).map_err(|error| {
        Failure::Refused(format!(
            "cannot read the server's answer: {error}; check that client and server have the same version"
        ))
    })
}

pub fn decode_all<T: DeserializeOwned>(values: &[Value]) -> Result<Vec<T>, Failure> {
    values.iter().map(decode).collect()
}
