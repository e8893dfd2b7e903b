//! The bytes other people's programs see.
