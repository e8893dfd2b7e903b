//! Typed parameters: named values of several types, for migrations and statistics.

use crate::xdr::{Decoder, Encoder, XdrError, XdrResult};

/// A named value.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// The name, such as `memory_remaining`.
    pub name: String,
    /// The value.
    pub value: Value,
}

/// The value of a [`Parameter`].
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A signed 32-bit integer.
    Int(i32),
    /// An unsigned 32-bit integer.
    UInt(u32),
    /// A signed 64-bit integer.
    Long(i64),
    /// An unsigned 64-bit integer.
    ULong(u64),
    /// A double-precision number.
    Double(f64),
    /// A truth value.
    Boolean(bool),
    /// A string.
    String(String),
}

pub(crate) fn encode_list(encoder: Encoder, parameters: &[Parameter]) -> Encoder {
    let encoder = encoder.u32(u32::try_from(parameters.len()).unwrap_or(u32::MAX));
    parameters.iter().fold(encoder, |encoder, parameter| {
        let encoder = encoder.string(&parameter.name);
        match &parameter.value {
            Value::Int(value) => encoder.i32(1).i32(*value),
            Value::UInt(value) => encoder.i32(2).u32(*value),
            Value::Long(value) => encoder.i32(3).i64(*value),
            Value::ULong(value) => encoder.i32(4).u64(*value),
            Value::Double(value) => encoder.i32(5).f64(*value),
            Value::Boolean(value) => encoder.i32(6).i32((*value).into()),
            Value::String(value) => encoder.i32(7).string(value),
        }
    })
}

pub(crate) fn decode_list(decoder: &mut Decoder<'_>, max: usize) -> XdrResult<Vec<Parameter>> {
    decoder.list(max, |decoder| {
        let name = decoder.string()?;
        let value = match decoder.i32()? {
            1 => Value::Int(decoder.i32()?),
            2 => Value::UInt(decoder.u32()?),
            3 => Value::Long(decoder.i64()?),
            4 => Value::ULong(decoder.u64()?),
            5 => Value::Double(decoder.f64()?),
            6 => Value::Boolean(decoder.i32()? != 0),
            7 => Value::String(decoder.string()?),
            other => return Err(XdrError::Discriminant(other)),
        };
        Ok(Parameter { name, value })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_types_survive_a_round_trip() {
        let values = [
            Value::Int(-1),
            Value::UInt(1),
            Value::Long(-2),
            Value::ULong(2),
            Value::Double(0.5),
            Value::Boolean(true),
            Value::String("x".into()),
        ];
        let parameters: Vec<Parameter> =
            values.into_iter().map(|value| Parameter { name: "name".into(), value }).collect();
        let bytes = encode_list(Encoder::new(), &parameters).finish();
        assert_eq!(decode_list(&mut Decoder::new(&bytes), 7), Ok(parameters));
        assert_eq!(decode_list(&mut Decoder::new(&bytes), 6), Err(XdrError::TooLong { length: 7, max: 6 }));
        let unknown = Encoder::new().u32(1).string("x").i32(8).finish();
        assert_eq!(decode_list(&mut Decoder::new(&unknown), 1), Err(XdrError::Discriminant(8)));
    }
}
